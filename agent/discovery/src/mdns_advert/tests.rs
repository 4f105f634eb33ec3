use proptest::prelude::*;

use super::*;

fn advert(host: &str, port: u16, addresses: &[&str], txt: &[(&str, &str)]) -> Advert {
    Advert {
        host: host.to_owned(),
        port,
        addresses: addresses
            .iter()
            .map(|text| match text.split_once('%') {
                Some((address, interface)) => AdvertAddress {
                    address: address.parse().unwrap(),
                    interface: Some(interface.to_owned()),
                },
                None => AdvertAddress {
                    address: text.parse().unwrap(),
                    interface: None,
                },
            })
            .collect(),
        txt: txt
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
            .collect(),
    }
}

const NAME: &str = "baremetal._openstack._tcp.local.";

#[test]
fn adverts_become_the_urls_of_the_original() {
    let http = ("protocol", "http");
    for (advert, url) in [
        // Ironic publishes this: the target is the instance's own name.
        (
            advert(NAME, 6385, &["10.88.0.1"], &[http]),
            "http://10.88.0.1:6385",
        ),
        // Without `protocol` every port but 80 means https.
        (
            advert(NAME, 6385, &["10.88.0.1"], &[]),
            "https://10.88.0.1:6385",
        ),
        (advert(NAME, 80, &["10.88.0.1"], &[]), "http://10.88.0.1:80"),
        (
            advert(NAME, 443, &["10.88.0.1"], &[("path", "/baremetal")]),
            "https://10.88.0.1:443/baremetal",
        ),
        (
            advert(NAME, 80, &["10.88.0.1"], &[("path", "baremetal/")]),
            "http://10.88.0.1:80/baremetal",
        ),
        (
            advert(
                NAME,
                80,
                &["10.88.0.1"],
                &[("protocol", "HTTPS"), ("PATH", "/")],
            ),
            "https://10.88.0.1:80",
        ),
        // A name outside of .local is kept, because certificates are issued for it.
        (
            advert("ironic.example.", 443, &["10.88.0.1"], &[]),
            "https://ironic.example:443",
        ),
        (
            advert("IRONIC.LOCAL.", 443, &["10.88.0.1"], &[]),
            "https://10.88.0.1:443",
        ),
        // Address families, loopback and link-local addresses.
        (
            advert("h.local.", 80, &["2001:db8::1", "192.0.2.1"], &[]),
            "http://192.0.2.1:80",
        ),
        (
            advert(
                "h.local.",
                80,
                &["127.0.0.1", "fe80::1%lo", "2001:db8::1"],
                &[],
            ),
            "http://[2001:db8::1]:80",
        ),
        (
            advert("h.local.", 80, &["::1", "fe80::1%lo"], &[]),
            "http://[fe80::1%25lo]:80",
        ),
    ] {
        let endpoint = advert.endpoint(|_| false).unwrap();
        assert_eq!(endpoint.url, url);
    }
}

#[test]
fn an_address_with_a_route_goes_before_one_without() {
    let both = advert(
        "h.local.",
        80,
        &["192.0.2.1", "198.51.100.1", "2001:db8::1"],
        &[],
    );
    let routed = |wanted: &'static str| move |to: SocketAddr| to.ip().to_string() == wanted;
    for wanted in ["192.0.2.1", "198.51.100.1"] {
        let endpoint = both.endpoint(routed(wanted)).unwrap();
        assert_eq!(endpoint.url, format!("http://{wanted}:80"));
    }
    let endpoint = both.endpoint(routed("2001:db8::1")).unwrap();
    assert_eq!(endpoint.url, "http://[2001:db8::1]:80");
}

#[test]
fn other_entries_are_settings() {
    let mut told = advert(
        NAME,
        80,
        &["192.0.2.1"],
        &[
            ("protocol", "http"),
            ("ipa_ntp_server", "192.0.2.9"),
            ("ipa_debug", "a\nb"),
        ],
    );
    told.txt.push(("ipa_insecure".to_owned(), vec![0xff]));
    let endpoint = told.endpoint(|_| true).unwrap();
    assert_eq!(
        endpoint.settings,
        [("ipa_ntp_server".to_owned(), "192.0.2.9".to_owned())],
        "neither line breaks nor what is no text"
    );
}

#[test]
fn what_is_no_url_is_a_fault() {
    for (advert, expected) in [
        (advert(NAME, 0, &["192.0.2.1"], &[]), "port 0"),
        (advert(NAME, 80, &[], &[]), "no address"),
        (
            advert(NAME, 80, &["127.0.0.1", "::1", "0.0.0.0"], &[]),
            "no address",
        ),
        (
            advert(NAME, 80, &["192.0.2.1"], &[("protocol", "gopher")]),
            "expected http or https",
        ),
        (
            advert(NAME, 80, &["192.0.2.1"], &[("path", "/a b")]),
            "expected the path of a URL",
        ),
        (
            advert(NAME, 80, &["192.0.2.1"], &[("path", "/a,http://evil")]),
            "expected the path of a URL",
        ),
        (
            advert(NAME, 80, &["192.0.2.1"], &[("path", "@evil.example/")]),
            "",
        ),
        (
            advert("user@evil.example.", 80, &["192.0.2.1"], &[]),
            "expected a host name",
        ),
        (advert("", 80, &["192.0.2.1"], &[]), "expected a host name"),
    ] {
        match advert.endpoint(|_| true) {
            Err(fault) => assert!(!expected.is_empty() && fault.contains(expected), "{fault}"),
            // After the slash that we add it is a path, not a host.
            Ok(endpoint) => assert_eq!(endpoint.url, "http://192.0.2.1:80/@evil.example"),
        }
    }
}

proptest! {
    #[test]
    fn whatever_is_told_is_a_url_or_a_fault(
        host in ".{0,40}",
        port: u16,
        txt in prop::collection::vec(("(path|protocol|ipa_.{0,5}|.{0,5})", prop::collection::vec(any::<u8>(), 0..20)), 0..5),
        octets: [u8; 16],
    ) {
        let told = Advert {
            host,
            port,
            addresses: vec![AdvertAddress { address: octets.into(), interface: None }],
            txt,
        };
        if let Ok(endpoint) = told.endpoint(|_| true) {
            let url = landfall_http_client::ZonedUrl::parse(&endpoint.url).url;
            let parsed = Url::parse(&url).unwrap();
            prop_assert_eq!(parsed.port_or_known_default(), Some(port));
            prop_assert!(parsed.username().is_empty() && !endpoint.url.contains(','));
        }
    }
}
