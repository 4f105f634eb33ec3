//! Determines how to contact image servers, from the settings and the arguments
//! of a step.

use std::time::Duration;

use landfall_boot_params::BootParams;
use landfall_boot_params::argument_value::ImageServerAuth;
use landfall_disk::image::format_policy::FormatPolicy;
use landfall_download::fetch::RetryPolicy;
use landfall_http_client::{HttpOptions, Proxies, image_client};
use landfall_report::failure::Result;

use crate::commands::image_info::{ImageInfo, basic};
use crate::commands::machine::Machine;

/// The client for an image, with the proxies of this image if it has its own.
///
/// # Errors
/// If a proxy is not a valid URL.
pub(super) fn client(machine: &Machine, info: &ImageInfo) -> Result<reqwest::Client> {
    if info.proxies == Proxies::default() {
        return Ok(machine.client.clone());
    }
    image_client(&HttpOptions {
        proxies: info.proxies.clone(),
        ..machine.http.clone()
    })
}

/// The value of the `Authorization` header.
///
/// # Errors
/// If the step contains invalid credentials.
pub(super) fn authorization(params: &BootParams, info: &ImageInfo) -> Result<Option<String>> {
    info.access.header(own(params))
}

/// The value of the `Authorization` header from the settings alone.
pub(super) fn own_authorization(params: &BootParams) -> Option<String> {
    own(params).map(|(user, password)| basic(user, password))
}

fn own(params: &BootParams) -> Option<(&str, &str)> {
    match (&*params.image_server_user, &*params.image_server_password) {
        (Some(user), Some(password))
            if *params.image_server_auth_strategy == ImageServerAuth::HttpBasic =>
        {
            Some((user.as_str(), password.0.as_str()))
        }
        _ => None,
    }
}

/// Converts the settings of Ironic's agent, which limit the number of attempts. In this
/// agent an attempt that received data does not count, because a broken download resumes
/// where it stopped.
pub(super) fn retry_policy(params: &BootParams) -> RetryPolicy {
    let interval = *params.image_download_connection_retry_interval;
    let retries = *params.image_download_connection_retries;
    let longest = *params.image_download_max_duration;
    RetryPolicy {
        stall: (*params.image_download_connection_timeout).max(Duration::from_secs(1)),
        give_up: interval * retries,
        retries,
        first_pause: interval.min(RetryPolicy::default().first_pause),
        longest_pause: interval,
        deadline: (!longest.is_zero()).then_some(longest),
    }
}

/// The image formats that the operator permits.
pub(super) fn formats(params: &BootParams, info: &ImageInfo) -> FormatPolicy {
    if *params.disable_deep_image_inspection {
        return FormatPolicy::default();
    }
    FormatPolicy {
        declared: info.disk_format.clone(),
        permitted: Some((*params.permitted_image_formats).clone()),
    }
}
