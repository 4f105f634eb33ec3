use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::fd::AsRawFd as _;
use std::thread;

use landfall_http_client::fixtures::{Asked, Certificate, Reply, Server, dead_url, run};
use landfall_http_client::{Answer, HttpOptions};
use landfall_network::lab::{Lab, on_a_machine};
use landfall_network::reach::{Step, StepResult};
use landfall_network::state::NicState;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, listen, setsockopt, socket,
    sockopt,
};

use super::*;

const ROOT_DOCUMENT: &str = r#"{"default_version": {"id": "v1", "version": "1.115"}}"#;

/// Answers every request with this status, this body and a date, after a delay.
fn answer(
    after: Duration,
    status: u16,
    body: &'static str,
) -> impl Fn(&Asked) -> Reply + Send + 'static {
    move |_| {
        thread::sleep(after);
        Reply::new(status, body).header("Date: Fri, 01 Jan 2038 00:00:00 GMT")
    }
}

fn server(status: u16, body: &'static str) -> String {
    Server::start(answer(Duration::ZERO, status, body)).base
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
    run(async {
        let (_, mut network) = watch::channel(NetworkState::default());
        let (reach, _) = watch::channel(Reach::default());
        let mut clock = Clock::of_another_system();
        let wanted = wanted(urls, expected);
        let found = find(&client, &wanted, &mut network, &reach, &mut clock).await;
        found.unwrap()
    })
}

/// Only an operator can fix a certificate that will never be trusted, so each attempt
/// returns the server to the caller of the search.
#[test]
fn a_certificate_that_will_never_be_trusted_is_news() {
    let stranger = Certificate::of([127, 0, 0, 1]);
    let url = Server::secure(&stranger, |_| Reply::status(200)).base;
    let client = ServiceClient::new(&HttpOptions::default()).unwrap();
    run(async {
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
    let dead = dead_url();
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

/// The client requests the file itself, but only one byte of it. A request to a server
/// that is not authenticated (`root_of`) contains neither the file name nor the user.
#[test]
fn a_file_is_known_by_its_first_byte() {
    // The server announces the whole file, and the client must not read it.
    let server = Server::start(|_| {
        let mut reply = Reply::new(200, "").stalled(0);
        reply.headers[0] = "Content-Length: 99999999999".to_owned();
        reply
    });
    let url = format!("{}/a/image.raw?k=1", server.base);
    assert_eq!(found(vec![url.clone()], Expected::File).urls, [url]);
    let request = server.asked().remove(0);
    assert_eq!(request.line, "GET /a/image.raw?k=1 HTTP/1.1");
    assert_eq!(request.header("range"), Some("bytes=0-0"));
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

/// The screen must not show the answers of the previous service for this service.
#[test]
fn a_search_forgets_the_ways_to_another_service() {
    let client = ServiceClient::new(&HttpOptions::default()).unwrap();
    let wanted = wanted(vec![server(206, "")], Expected::File);
    run(async {
        let (_, mut network) = watch::channel(NetworkState::default());
        let step = StepResult::failed(Step::Http, "status 404");
        let stale = Reach {
            ways: BTreeMap::from([(1, vec![step])]),
            ..Reach::default()
        };
        let (reach, _) = watch::channel(stale);
        let mut clock = Clock::of_another_system();
        let found = find(&client, &wanted, &mut network, &reach, &mut clock).await;
        found.unwrap();
        assert!(reach.borrow().ways.is_empty(), "{:?}", reach.borrow());
    });
}

/// The first attempt over a NIC may fail because its switch port does not forward yet. An
/// answer over the kernel's route makes that result outdated.
#[test]
fn an_answer_by_the_kernels_route_ends_the_failed_ways() {
    run(async {
        let (_, mut network) = watch::channel(NetworkState::default());
        let step = StepResult::failed(Step::Tcp, "no route to host");
        let (reach, _) = watch::channel(Reach {
            ways: BTreeMap::from([(1, vec![step])]),
            ..Reach::default()
        });
        let reached = Reached {
            url: "http://192.0.2.1".to_owned(),
            answer: Answer {
                status: 200,
                date: None,
                redirect: None,
                is_plain_http: true,
                body: String::new(),
            },
            over: None,
        };
        prefer("the service", &reached, &mut network, &reach).await;
        assert!(reach.borrow().ways.is_empty(), "{:?}", reach.borrow());
    });
}

/// Mirrors and artifact stores redirect, so the search does not wait if no other NIC can bring
/// a better answer.
#[test]
fn a_server_that_redirects_is_the_server_of_the_file() {
    let redirects = Server::start(|_| Reply::status(302).header("Location: /login"));
    let started = Instant::now();
    let found = found(vec![redirects.url.clone()], Expected::File);
    assert_eq!(found.urls, [redirects.url]);
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn the_console_says_where_a_server_redirects() {
    on_a_machine(async |lab| {
        lab.plug_in_up(0, &["192.0.2.1/24"]);
        let listener = listen_on(lab, "port0", [192, 0, 2, 1]);
        let location = "Location: http://192.0.2.1/login?next=hidden";
        Server::on(listener, None, move |_| Reply::status(302).header(location));
        let mut network = lab.boot_with_reach("ip=192.0.2.10:::24::eth0:none");
        lab.until(&mut network.state, "an address", |state| {
            state.nics.iter().any(NicState::is_online)
        })
        .await;
        let client = ServiceClient::new(&HttpOptions::default()).unwrap();
        let url = "http://192.0.2.1/image.raw".to_owned();
        let wanted = wanted(vec![url], Expected::File);
        let mut clock = Clock::of_another_system();
        let (state, reach) = (&mut network.state, &network.reach);
        find(&client, &wanted, state, reach, &mut clock)
            .await
            .unwrap();
        let line = "provisioning service answers at http://192.0.2.1/image.raw, over eth0, route on the link, redirects to http://192.0.2.1/login?***";
        let lines = lab.log_lines();
        assert!(
            lines.iter().any(|logged| logged.contains(line)),
            "{lines:#?}"
        );
        let is_warning = |logged: &&String| logged.contains("using this one");
        assert_eq!(lines.iter().find(is_warning), None);
    });
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

/// Finds the service on a machine with two NICs. Each NIC leads to a separate network,
/// and each network has a server at 192.0.2.1: the agent reaches the first server over
/// eth0 and the second over eth1.
async fn found_over_two_networks(
    lab: &Lab,
    wanted: &Wanted,
    first: impl Fn(&Asked) -> Reply + Send + 'static,
    second: impl Fn(&Asked) -> Reply + Send + 'static,
) -> FoundService {
    for number in [0, 1] {
        lab.plug_in(number);
        lab.port(&format!("addr add 192.0.2.1/24 dev port{number}"));
        lab.port(&format!("link set port{number} up"));
    }
    Server::on(listen_on(lab, "port0", [192, 0, 2, 1]), None, first);
    Server::on(listen_on(lab, "port1", [192, 0, 2, 1]), None, second);
    let arguments = "ip=192.0.2.10:::24::eth0:none ip=192.0.2.11:::24::eth1:none";
    let mut network = lab.boot_with_reach(arguments);
    lab.until(&mut network.state, "both addresses", |state| {
        state.nics.len() == 2 && state.nics.iter().all(NicState::is_online)
    })
    .await;
    let client = ServiceClient::new(&HttpOptions::default()).unwrap();
    let mut clock = Clock::of_another_system();
    let (state, reach) = (&mut network.state, &network.reach);
    let found = find(&client, wanted, state, reach, &mut clock).await;
    found.unwrap()
}

/// The NIC that leads to a proxy without the service answers first.
#[test]
fn ironic_wins_against_a_faster_proxy_in_another_network() {
    on_a_machine(async |lab| {
        let page = "<html>no server is available</html>";
        let proxy = answer(Duration::ZERO, 503, page);
        let ironic = answer(Duration::from_millis(300), 200, ROOT_DOCUMENT);
        let wanted = wanted(vec!["http://192.0.2.1".to_owned()], Expected::Ironic);
        let found = found_over_two_networks(lab, &wanted, proxy, ironic).await;
        assert_eq!(found.document, ROOT_DOCUMENT);
        let lines = lab.log_lines();
        for line in [
            "expected Ironic, found another answer at http://192.0.2.1: eth0: status 503; again in 1 s",
            "provisioning service answers at http://192.0.2.1, over eth1, route on the link",
        ] {
            assert!(
                lines.iter().any(|logged| logged.contains(line)),
                "{line}\n{lines:#?}"
            );
        }
    });
}

/// The NIC in the network with the portal answers first, and the portal redirects.
#[test]
fn a_server_with_the_file_wins_against_a_faster_portal_in_another_network() {
    on_a_machine(async |lab| {
        let login = "Location: http://192.0.2.1/login";
        let portal = move |_: &Asked| Reply::status(302).header(login);
        let images = answer(Duration::from_millis(300), 206, "");
        let url = "http://192.0.2.1/image.raw".to_owned();
        let wanted = wanted(vec![url], Expected::File);
        found_over_two_networks(lab, &wanted, portal, images).await;
        let lines = lab.log_lines();
        let line = "provisioning service answers at http://192.0.2.1/image.raw, over eth1, route on the link";
        assert!(
            lines.iter().any(|logged| logged.ends_with(line)),
            "{lines:#?}"
        );
        // A redirect is not an unexpected answer.
        let is_blamed = |logged: &&String| logged.contains("another answer");
        assert_eq!(lines.iter().find(is_blamed), None);
    });
}

/// eth0 has the default route with the lower metric, but its gateway does not exist.
#[test]
fn the_date_is_asked_for_over_the_nic_that_has_met_the_certificate() {
    on_a_machine(async |lab| {
        for number in [0, 1] {
            lab.plug_in_up(number, &[]);
        }
        lab.port("addr add 198.51.100.1/24 dev port1");
        lab.port("addr add 203.0.113.1/32 dev lo");
        let files = tempfile::tempdir().unwrap();
        let ca_file = files.path().join("ca.pem");
        let old = Certificate::outdated([203, 0, 113, 1]);
        std::fs::write(&ca_file, &old.pem).unwrap();
        let listener = lab.on_network(|| TcpListener::bind("203.0.113.1:443").unwrap());
        let answer = answer(Duration::ZERO, 200, ROOT_DOCUMENT);
        let url = Server::on(listener, Some(old.server), answer).base;
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
        // This clock only logs changes. Any other clock would change the time of the
        // machine that the test runs on.
        let mut clock = Clock::of_another_system();
        let (state, reach) = (&mut network.state, &network.reach);
        let is_reported = || lab.log_lines().iter().any(|line| line.ends_with("not set"));
        tokio::select! {
            _ = find(&client, &wanted, state, reach, &mut clock) => panic!("it is not trusted"),
            () = lab.until_so("the server's date", is_reported) => {}
        }
    });
}
