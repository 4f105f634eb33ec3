use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use landfall_http_client::HttpOptions;
use landfall_network::lab::{Lab, on_a_machine};
use landfall_network::state::NicState;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, listen, setsockopt, socket,
    sockopt,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;

const ROOT_DOCUMENT: &str = r#"{"default_version": {"id": "v1", "version": "1.115"}}"#;

/// Answers every connection with this status, this body and a date, after a delay.
fn serve(listener: TcpListener, after: Duration, status: u16, body: &'static str) {
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::sleep(after);
            answer(&mut stream, status, body);
        }
    });
}

fn answer(stream: &mut (impl Read + Write), status: u16, body: &str) {
    // A client that only connects sends nothing. A client that rejects the
    // certificate disconnects.
    if stream.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status} X\r\nDate: Fri, 01 Jan 2038 00:00:00 GMT\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        let _ = stream.write_all(answer.as_bytes());
    }
}

fn server(status: u16, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    serve(listener, Duration::ZERO, status, body);
    url
}

fn wanted(urls: Vec<String>, expected: Expected) -> Wanted {
    Wanted {
        what: PROVISIONING_SERVICE,
        place: Place::Urls(urls),
        expected,
        timeout: Duration::from_secs(5),
        must_be_trusted: false,
    }
}

fn found(urls: Vec<String>, expected: Expected) -> FoundService {
    let client = ServiceClient::new(&HttpOptions::default()).unwrap();
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async {
            let (_, mut network) = watch::channel(NetworkState::default());
            let (reach, _) = watch::channel(Reach::default());
            let mut clock = Clock::of_somebody();
            let wanted = wanted(urls, expected);
            let found = find(&client, &wanted, &mut network, &reach, &mut clock).await;
            found.unwrap()
        })
}

/// A TLS server with a certificate for this name from an unknown authority.
fn stranger(name: &str) -> String {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der());
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.unwrap())
        .unwrap();
    let config = std::sync::Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = rustls::ServerConnection::new(config.clone()).unwrap();
            let mut tls = rustls::StreamOwned::new(connection, stream.unwrap());
            let _ = tls.read(&mut [0; 4096]);
        }
    });
    url
}

/// Only an operator can fix this, so the search must report it once.
#[test]
fn a_certificate_that_will_never_be_trusted_is_news() {
    let url = stranger("127.0.0.1");
    let client = ServiceClient::new(&HttpOptions::default()).unwrap();
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async {
            let (_, mut network) = watch::channel(NetworkState::default());
            let (reach, _) = watch::channel(Reach::default());
            let (urls, limit) = (std::slice::from_ref(&url), Duration::from_secs(5));
            let mut search = Search::new(&client, urls, limit, Expected::File);
            for _ in ["first", "again"] {
                match search.news(&mut network, &reach).await {
                    News::Untrusted(untrusted) => {
                        assert!(untrusted.for_good && !untrusted.about_time);
                        assert!(untrusted.reason.contains("signed by"), "{untrusted:?}");
                        let failure = not_trusted(untrusted);
                        assert!(failure.permanent && failure.details.starts_with(&url));
                    }
                    News::Reached(reached) => panic!("{reached:?}"),
                }
            }
        });
}

#[test]
fn the_place_of_the_expected_answer_comes_first() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    for (expected, before, status, body) in [
        (Expected::Ironic, 503, 200, ROOT_DOCUMENT),
        (Expected::Ironic, 404, 200, ROOT_DOCUMENT),
        (Expected::File, 404, 206, ""),
        (Expected::File, 503, 200, ""),
    ] {
        let other = server(before, "{}");
        let alive = server(status, body);
        let behind = server(status, body);
        let urls = vec![
            "nonsense://".to_owned(),
            dead.clone(),
            other,
            format!("{alive}/"),
            behind.clone(),
        ];
        let found = found(urls, expected);
        assert_eq!(found.urls[..2], [alive, behind]);
        assert_eq!(found.urls.len(), 5);
        assert_eq!(found.document, body);
    }
}

/// The client requests the file itself, but only one byte of it. A server that is
/// not authenticated sees neither the file name nor the user.
#[test]
fn a_file_is_known_by_its_first_byte() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/a/image.raw?k=1", listener.local_addr().unwrap());
    let (said, heard) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let length = stream.read(&mut request).unwrap();
        let text = String::from_utf8_lossy(&request[..length]).to_lowercase();
        said.send(text).unwrap();
        // The server announces the whole file, and the client must not read it.
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        thread::sleep(Duration::from_secs(30));
    });
    assert_eq!(found(vec![url.clone()], Expected::File).urls, [url]);
    let request = heard.recv().unwrap();
    assert!(request.starts_with("get /a/image.raw?k=1 http/1.1\r\n"));
    assert!(request.contains("\r\nrange: bytes=0-0\r\n"), "{request}");
    for (url, root) in [
        ("https://u:p@h:81/a?k=1", "https://h:81/"),
        (
            "https://[fe80::1%25eth0]:6385",
            "https://[fe80::1%25eth0]:6385/",
        ),
        (
            "https://[fe80::1%25eth0]:6385/a?k=1",
            "https://[fe80::1%25eth0]:6385/",
        ),
    ] {
        assert_eq!(root_of(url), root);
    }
}

/// A server on port 80 of an address that several NICs of the network have.
fn listen_on(lab: &Lab, interface: &'static str, address: [u8; 4]) -> TcpListener {
    lab.on_network(move || {
        let socket = socket(
            AddressFamily::Inet,
            SockType::Stream,
            SockFlag::SOCK_CLOEXEC,
            None,
        )
        .unwrap();
        setsockopt(&socket, sockopt::BindToDevice, &interface.into()).unwrap();
        let [a, b, c, d] = address;
        bind(socket.as_raw_fd(), &SockaddrIn::new(a, b, c, d, 80)).unwrap();
        listen(&socket, Backlog::new(16).unwrap()).unwrap();
        TcpListener::from(socket)
    })
}

/// The NIC that leads to a proxy without the service answers first.
#[test]
fn ironic_wins_against_a_faster_proxy_in_another_network() {
    on_a_machine(async |lab| {
        for number in [0, 1] {
            lab.plug_in(number);
            lab.port(&format!("addr add 192.0.2.1/24 dev port{number}"));
            lab.port(&format!("link set port{number} up"));
        }
        let proxy = listen_on(lab, "port0", [192, 0, 2, 1]);
        serve(
            proxy,
            Duration::ZERO,
            503,
            "<html>no server is available</html>",
        );
        let ironic = listen_on(lab, "port1", [192, 0, 2, 1]);
        serve(ironic, Duration::from_millis(300), 200, ROOT_DOCUMENT);
        let arguments = "ip=192.0.2.10:::24::eth0:none ip=192.0.2.11:::24::eth1:none";
        let mut network = lab.boot_with_reach(arguments);
        lab.until(&mut network.state, "both addresses", |state| {
            state.nics.len() == 2 && state.nics.iter().all(NicState::is_online)
        })
        .await;
        let client = ServiceClient::new(&HttpOptions::default()).unwrap();
        let wanted = wanted(vec!["http://192.0.2.1".to_owned()], Expected::Ironic);
        let mut clock = Clock::of_somebody();
        let (state, reach) = (&mut network.state, &network.reach);
        let found = find(&client, &wanted, state, reach, &mut clock).await;
        let found = found.unwrap();
        assert_eq!(found.document, ROOT_DOCUMENT);
        let said = lab.said();
        for line in [
            "expected Ironic, found another answer at http://192.0.2.1: eth0: status 503; again in 1 s",
            "provisioning service answers at http://192.0.2.1, over eth1, route on the link",
        ] {
            assert!(
                said.iter().any(|told| told.contains(line)),
                "{line}\n{said:#?}"
            );
        }
    });
}

/// The other NIC has the default route with the lower metric, and it leads nowhere.
#[test]
fn the_date_is_asked_for_over_the_nic_that_has_met_the_certificate() {
    on_a_machine(async |lab| {
        for number in [0, 1] {
            lab.plug_in(number);
            lab.port(&format!("link set port{number} up"));
        }
        lab.port("addr add 198.51.100.1/24 dev port1");
        lab.port("addr add 203.0.113.1/32 dev lo");
        let files = tempfile::tempdir().unwrap();
        let (url, ca_file) = serve_with_old_certificate(lab, files.path().join("ca.pem"));
        let mut network = lab.boot_with_reach(
            "ip=192.0.2.10::192.0.2.77:24::eth0:none \
             ip=198.51.100.10::198.51.100.1:24::eth1:none",
        );
        lab.until(&mut network.state, "both addresses", |state| {
            state.nics.len() == 2 && state.nics.iter().all(NicState::is_online)
        })
        .await;
        let options = HttpOptions {
            ca_file: Some(ca_file),
            ..HttpOptions::default()
        };
        let client = ServiceClient::new(&options).unwrap();
        let wanted = wanted(vec![url], Expected::Ironic);
        // A clock that may be changed would be the clock of the machine that runs
        // the test.
        let mut clock = Clock::of_somebody();
        let (state, reach) = (&mut network.state, &network.reach);
        let is_told = || lab.said().iter().any(|line| line.ends_with("not set"));
        tokio::select! {
            _ = find(&client, &wanted, state, reach, &mut clock) => panic!("it is not trusted"),
            () = lab.until_so("the server's date", is_told) => {}
        }
    });
}

/// `https://203.0.113.1`, whose certificate was only valid in 2020.
fn serve_with_old_certificate(lab: &Lab, ca_file: PathBuf) -> (String, PathBuf) {
    let address = Ipv4Addr::new(203, 0, 113, 1);
    let mut parameters = rcgen::CertificateParams::default();
    parameters.subject_alt_names = vec![rcgen::SanType::IpAddress(IpAddr::V4(address))];
    parameters.not_before = rcgen::date_time_ymd(2020, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(2020, 12, 31);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    std::fs::write(&ca_file, certificate.pem()).unwrap();
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = lab.on_network(move || TcpListener::bind((address, 443)).unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, stream.unwrap());
            answer(&mut stream, 200, ROOT_DOCUMENT);
        }
    });
    (format!("https://{address}"), ca_file)
}
