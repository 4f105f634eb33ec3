//! The cipher suites of TLS 1.2 by their OpenSSL names, because Ironic's agent uses these
//! names, too (`ipa-tls-cipher-suites`).
//!
//! The suites of TLS 1.3 are always available. OpenSSL's list of TLS 1.2 suites does not
//! select them either.

use rustls::SupportedCipherSuite;
use rustls::crypto::ring::{ALL_CIPHER_SUITES, cipher_suite as suite};

const KNOWN: [(&str, SupportedCipherSuite); 6] = [
    (
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "ECDHE-RSA-AES256-GCM-SHA384",
        suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "ECDHE-RSA-AES128-GCM-SHA256",
        suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "ECDHE-RSA-CHACHA20-POLY1305",
        suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// Returns the suites of TLS 1.3, then the suites of this list in the order of the list,
/// and a warning for each unknown name. A list without any known name is ignored: an
/// agent without TLS 1.2 would be unusable.
pub(super) fn choose(list: Option<&str>) -> (Vec<SupportedCipherSuite>, Vec<String>) {
    let Some(list) = list else {
        return (ALL_CIPHER_SUITES.to_vec(), Vec::new());
    };
    let mut warnings = Vec::new();
    let mut chosen: Vec<SupportedCipherSuite> = ALL_CIPHER_SUITES
        .iter()
        .filter(|suite| suite.tls13().is_some())
        .copied()
        .collect();
    let always = chosen.len();
    for name in list.split([':', ',', ' ']).filter(|name| !name.is_empty()) {
        match KNOWN
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
        {
            Some((_, suite)) if !chosen.contains(suite) => chosen.push(*suite),
            Some(_) => {}
            None => warnings.push(format!("cipher suite {name} is not known here; ignored")),
        }
    }
    if chosen.len() == always {
        warnings.push("no cipher suite of TLS 1.2 is left; the default ones are used".to_owned());
        return (ALL_CIPHER_SUITES.to_vec(), warnings);
    }
    (chosen, warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_come_by_the_names_of_openssl() {
        let (chosen, warnings) = choose(Some(
            "ECDHE-RSA-AES256-GCM-SHA384:ecdhe-ecdsa-aes128-gcm-sha256:ECDHE-RSA-AES256-GCM-SHA384:!aNULL",
        ));
        let old: Vec<_> = chosen.iter().filter(|s| s.tls13().is_none()).collect();
        assert_eq!(
            old,
            [
                &suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
                &suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
            ]
        );
        assert_eq!(chosen.len() - old.len(), 3, "TLS 1.3 stays");
        assert_eq!(warnings, ["cipher suite !aNULL is not known here; ignored"]);
    }

    #[test]
    fn a_list_of_strangers_is_no_list() {
        let (chosen, warnings) = choose(Some("DHE-RSA-AES256-SHA"));
        assert_eq!(chosen, ALL_CIPHER_SUITES);
        assert_eq!(warnings.len(), 2);
        assert_eq!(choose(None), (ALL_CIPHER_SUITES.to_vec(), Vec::new()));
    }

    #[test]
    fn every_suite_of_tls_1_2_has_its_name() {
        for suite in ALL_CIPHER_SUITES.iter().filter(|s| s.tls13().is_none()) {
            assert!(KNOWN.iter().any(|(_, known)| known == suite), "{suite:?}");
        }
    }
}
