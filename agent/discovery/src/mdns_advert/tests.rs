use proptest::prelude::*;

use super::*;

/// `HOST PORT ADDRESSES ENTRY...`. `-` stands for nothing.
fn advert(text: &str) -> Advert {
    let mut words = text.split(' ');
    let mut word = || Some(words.next()?).filter(|word| *word != "-");
    let host = word().map_or("", |host| if host == "NAME" { NAME } else { host });
    let port = word().unwrap().parse().unwrap();
    let address = |text: &str| {
        let (address, interface) = match text.split_once('%') {
            Some((address, interface)) => (address, Some(interface.to_owned())),
            None => (text, None),
        };
        let address = address.parse().unwrap();
        AdvertAddress { address, interface }
    };
    let addresses = word().map_or(Vec::new(), |list| list.split(',').map(address).collect());
    let txt = words.map(|word| {
        let (key, value) = word.split_once('=').unwrap();
        (key.to_owned(), value.replace('+', " ").into_bytes())
    });
    Advert {
        host: host.to_owned(),
        port,
        addresses,
        txt: txt.collect(),
    }
}

const NAME: &str = "baremetal._openstack._tcp.local.";

#[test]
fn adverts_become_the_urls_of_the_original() {
    for (text, url) in [
        // Ironic publishes this: the target is the instance's own name.
        ("NAME 6385 10.88.0.1 protocol=http", "http://10.88.0.1:6385"),
        // Without `protocol` every port but 80 means https.
        ("NAME 6385 10.88.0.1", "https://10.88.0.1:6385"),
        ("NAME 80 10.88.0.1", "http://10.88.0.1:80"),
        ("NAME 443 10.88.0.1 path=/a", "https://10.88.0.1:443/a"),
        ("NAME 80 10.88.0.1 path=a/", "http://10.88.0.1:80/a"),
        (
            "NAME 80 10.88.0.1 protocol=HTTPS PATH=/",
            "https://10.88.0.1:80",
        ),
        // A name outside of .local is kept, because certificates are issued for it.
        (
            "ironic.example. 443 10.88.0.1",
            "https://ironic.example:443",
        ),
        ("IRONIC.LOCAL. 443 10.88.0.1", "https://10.88.0.1:443"),
        // Address families, loopback and link-local addresses.
        ("h.local. 80 2001:db8::1,192.0.2.1", "http://192.0.2.1:80"),
        (
            "h.local. 80 127.0.0.1,fe80::1%lo,2001:db8::1",
            "http://[2001:db8::1]:80",
        ),
        ("h.local. 80 ::1,fe80::1%lo", "http://[fe80::1%25lo]:80"),
    ] {
        let endpoint = advert(text).endpoint(|_| false).unwrap();
        assert_eq!(endpoint.url, url);
    }
}

#[test]
fn an_address_with_a_route_is_preferred() {
    let both = advert("h.local. 80 192.0.2.1,198.51.100.1,2001:db8::1");
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
    let mut announced =
        advert("NAME 80 192.0.2.1 protocol=http ipa_ntp_server=192.0.2.9 ipa_debug=a\nb");
    announced.txt.push(("ipa_insecure".to_owned(), vec![0xff]));
    let endpoint = announced.endpoint(|_| true).unwrap();
    assert_eq!(
        endpoint.settings,
        [("ipa_ntp_server".to_owned(), "192.0.2.9".to_owned())],
        "neither line breaks nor what is no text"
    );
}

#[test]
fn an_invalid_advert_is_a_fault() {
    for (text, expected) in [
        ("NAME 0 192.0.2.1", "port 0"),
        ("NAME 80 -", "no address"),
        ("NAME 80 127.0.0.1,::1,0.0.0.0", "no address"),
        (
            "NAME 80 192.0.2.1 protocol=gopher",
            "expected http or https",
        ),
        // The space is written as `+`.
        ("NAME 80 192.0.2.1 path=/a+b", "expected the path of a URL"),
        (
            "NAME 80 192.0.2.1 path=/a,http://evil",
            "expected the path of a URL",
        ),
        ("NAME 80 192.0.2.1 path=@evil.example/", ""),
        ("user@evil.example. 80 192.0.2.1", "expected a host name"),
        ("- 80 192.0.2.1", "expected a host name"),
    ] {
        match advert(text).endpoint(|_| true) {
            Err(fault) => {
                let fault = fault.to_string();
                assert!(!expected.is_empty() && fault.contains(expected), "{fault}");
            }
            // After the slash that the agent adds, the text is a path and not a host.
            Ok(endpoint) => assert_eq!(endpoint.url, "http://192.0.2.1:80/@evil.example"),
        }
    }
}

proptest! {
    #[test]
    fn any_advert_gives_a_url_or_a_fault(
        host in ".{0,40}",
        port: u16,
        txt in prop::collection::vec(("(path|protocol|ipa_.{0,5}|.{0,5})", prop::collection::vec(any::<u8>(), 0..20)), 0..5),
        octets: [u8; 16],
    ) {
        let announced = Advert {
            host,
            port,
            addresses: vec![AdvertAddress { address: octets.into(), interface: None }],
            txt,
        };
        if let Ok(endpoint) = announced.endpoint(|_| true) {
            let url = landfall_http_client::ZonedUrl::parse(&endpoint.url).url;
            let parsed = Url::parse(&url).unwrap();
            prop_assert_eq!(parsed.port_or_known_default(), Some(port));
            prop_assert!(parsed.username().is_empty() && !endpoint.url.contains(','));
        }
    }
}
