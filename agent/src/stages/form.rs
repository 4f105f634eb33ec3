//! Offers the network form on the consoles, and starts the agent again with what the
//! operator has given.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use landfall_boot_params::argument_value::ServiceUrls;
use landfall_boot_params::{BootParams, NetArgs};
use landfall_network_form::{NetworkForm, NetworkStays, OfferedNic, Values};
use landfall_report::failure::{Failure, Result};
use landfall_report::status::{self, Status};
use landfall_settings::{FormArguments, Settings};
use landfall_sys::state_file::STATE_DIRECTORY;
use tokio::sync::mpsc;

/// The kernel arguments that the operator wants to try.
pub(super) type Tried = mpsc::UnboundedReceiver<FormArguments>;
pub(super) type TryThem = mpsc::UnboundedSender<FormArguments>;

/// Offers the form on every console of the ramdisk.
pub(super) fn offer(settings: &Settings, try_them: TryThem) {
    let args = NetArgs::from_command_line(&settings.command_line);
    let inspection_path = inspection_path(&settings.params);
    landfall_report::form::offer(move || {
        let status = status::now();
        let nics = offered(&status);
        let name_of = |mac: &str| {
            let nic = status.network.nics.iter().find(|nic| nic.mac == mac)?;
            Some(nic.name.clone())
        };
        let values = Values {
            inspection_path: inspection_path.clone(),
            ..Values::of_arguments(&args, name_of)
        };
        let try_them = try_them.clone();
        let try_arguments = move |arguments: &str| {
            if let Some(reason) = status::now().why_network_stays() {
                return Err(NetworkStays(reason));
            }
            let arguments = FormArguments(arguments.to_owned());
            let sent = try_them.send(arguments);
            sent.map_err(|_| NetworkStays("the agent is ending"))
        };
        Box::new(NetworkForm::new(nics, values, Box::new(try_arguments)))
    });
}

/// The path behind the provisioning URL to which this boot posts the inventory, if the
/// boot arguments name it and it is on the same server.
fn inspection_path(params: &BootParams) -> Option<String> {
    let (Some(ServiceUrls::Urls(service)), Some(ServiceUrls::Urls(inspection))) =
        (&params.api_url.value, &params.inspection_callback_url.value)
    else {
        return None;
    };
    let service = without_user(service.first()?);
    let path = without_user(inspection.first()?)
        .strip_prefix(&service)?
        .to_owned();
    path.starts_with('/').then_some(path)
}

/// The URL without user and password.
fn without_user(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let end = rest.find('/').unwrap_or(rest.len());
    let host = rest[..end].rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://{}", &rest[host..])
}

/// The NICs that the form offers: those of the hardware.
fn offered(status: &Status) -> Vec<OfferedNic> {
    let nics = status.network.nics.iter();
    nics.filter(|nic| nic.driver.is_some())
        .map(|nic| OfferedNic {
            name: nic.name.clone(),
            description: nic.in_words(),
        })
        .collect()
}

/// Waits until the operator tries a network, and stores it.
pub(super) async fn stored(tried: &mut Tried) -> Result<()> {
    let Some(arguments) = tried.recv().await else {
        // The form is not offered.
        return std::future::pending().await;
    };
    let stored = arguments.store(Path::new(STATE_DIRECTORY));
    stored.map_err(|error| Failure::other(format!("cannot store what the form gives: {error}")))?;
    tracing::info!("the form on the console changes the network; the agent starts again");
    Ok(())
}

/// Runs the agent from its start, in the same process: init sees no end of it. Returns
/// only if the kernel refuses.
pub(super) fn start_again() -> io::Error {
    Command::new("/proc/self/exe")
        .args(std::env::args_os().skip(1))
        .exec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inspection_follows_a_service_on_the_same_server_only() {
        use landfall_boot_params::CommandLine;
        for (service, inspection, path) in [
            (
                "http://h:6385",
                "http://h:6385/v1/continue_inspection",
                Some("/v1/continue_inspection"),
            ),
            (
                "https://h/baremetal/",
                "https://u:p@h/baremetal/v1/x",
                Some("/v1/x"),
            ),
            ("http://u:p@h", "http://h/v1/x", Some("/v1/x")),
            ("http://h:6385", "http://h:5050/v1/continue", None),
            ("http://h", "http://h2/v1/x", None),
            ("http://h", "https://h/v1/x", None),
            ("mdns", "http://h/v1/x", None),
        ] {
            let line = format!("ipa-api-url={service} ipa-inspection-callback-url={inspection}");
            let params = BootParams::from_command_line(&CommandLine::parse(&line));
            assert_eq!(inspection_path(&params).as_deref(), path, "{line}");
        }
        let without = CommandLine::parse("ipa-api-url=http://h:6385");
        assert_eq!(
            inspection_path(&BootParams::from_command_line(&without)),
            None
        );
    }
}
