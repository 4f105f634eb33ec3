//! Limits what an mDNS answer may change, because anybody on the network can send
//! one.

use landfall_boot_params::BootParams;
use landfall_boot_params::argument_value::ServiceUrls;

use crate::mdns_question::https_only;

/// Applies a setting of an mDNS answer and returns warnings. If the agent accepts only
/// https servers, it ignores an inspection URL without TLS, because the inventory must
/// not go to an unverified server.
pub(super) fn take(params: &mut BootParams, key: &str, value: &str) -> Vec<String> {
    let before = params.inspection_callback_url.clone();
    let mut warnings = params.apply_mdns(key, value);
    if !https_only(params) || params.inspection_callback_url == before {
        return warnings;
    }
    let is_https = |url: &String| url.to_ascii_lowercase().starts_with("https://");
    if let Some(ServiceUrls::Urls(urls)) = &params.inspection_callback_url.value
        && !urls.iter().all(is_https)
    {
        warnings.push(format!(
            "mDNS: {key}={value}: expected https, because this boot has a CA file; ignored"
        ));
        params.inspection_callback_url = before;
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mdns_answer_cannot_turn_the_verification_off() {
        for (file, url, taken) in [
            ("", "http://192.0.2.1/i", true),
            ("cafile = /ca.pem\n", "https://192.0.2.1/i", true),
            ("cafile = /ca.pem\n", "http://192.0.2.1/i", false),
            (
                "cafile = /ca.pem\n",
                "https://192.0.2.1/i,http://192.0.2.1/i",
                false,
            ),
            (
                "cafile = /ca.pem\ninsecure = true\n",
                "http://192.0.2.1/i",
                true,
            ),
        ] {
            let mut params = BootParams::default();
            params.read_file("f", &format!("[DEFAULT]\n{file}"));
            assert_eq!(https_only(&params), !taken || url.starts_with("https"));
            let warnings = take(&mut params, "ipa_inspection_callback_url", url);
            assert_eq!(params.inspection_callback_url.is_some(), taken, "{url}");
            assert_eq!(warnings.is_empty(), taken, "{warnings:?}");
        }
    }
}
