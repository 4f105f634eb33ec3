//! Tests which time sources the clock trusts. Only a test in a virtual machine can
//! really set the clock.

use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, SystemTime};

use landfall_http_client::fixtures::run;
use landfall_network::NetworkState;
use landfall_network::lab::{log_lines_during, on_a_machine};
use tokio::sync::watch;

use super::*;

fn year(year: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs((year - 1970) * 31_556_952 + 86_400)
}

#[test]
fn a_date_sets_a_clock_that_differs_too_much_from_it() {
    let close = year(2027) + Duration::from_secs(100);
    for (now, proposed, on_answer, on_refusal) in [
        // The battery is empty on this machine, then on the server.
        (year(1970), year(2027), true, true),
        (year(2010), year(2027), true, true),
        (year(2027), year(2010), false, false),
        // A clock that runs in local time.
        (
            year(2027) + Duration::from_secs(7200),
            year(2027),
            true,
            true,
        ),
        // The far future is as wrong as the past.
        (year(2110), year(2027), true, true),
        (year(2027), year(2110), false, false),
        // The difference is small, but too large for a certificate that was made a
        // minute ago.
        (year(2027), close, false, true),
        (year(2027), year(2027), false, false),
    ] {
        let better = |occasion| is_better(now, proposed, occasion);
        assert_eq!(better(Occasion::Answer), on_answer, "{now:?} {proposed:?}");
        assert_eq!(
            better(Occasion::RefusedCertificate),
            on_refusal,
            "{now:?} {proposed:?}"
        );
    }
}

#[test]
fn an_unusable_date_is_reported_once() {
    for (date, expected) in [
        ("", "found \"\""),
        ("yesterday", "found \"yesterday\""),
        (
            &"x".repeat(9000),
            "found \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"",
        ),
        (
            "Thu, 01 Jan 1970 00:00:00 GMT",
            "expected a time from 2026 to 2099, found 1970-01-01 00:00:00 UTC",
        ),
    ] {
        let why = time_of_date(date).unwrap_err();
        assert!(why.ends_with(expected), "{date}: {why}");
    }
    let clock = Clock::of_another_system();
    let other_search = clock.clone();
    assert!(clock.is_first_useless_date());
    assert!(!clock.is_first_useless_date());
    assert!(!other_search.is_first_useless_date());
}

/// What the console shows, once for two answers.
#[test]
fn a_useless_date_is_a_line_on_the_console() {
    let lines = log_lines_during(|| {
        let mut clock = Clock::of_another_system();
        for date in ["never", "Thu, 01 Jan 1970 00:00:00 GMT"] {
            assert!(!clock.compare_with(date, "http://x", Occasion::Answer));
        }
    });
    assert_eq!(
        lines,
        [
            "WARN the Date header of http://x is ignored: expected a date such as Sun, 06 Nov 1994 08:49:37 GMT, found \"never\""
        ]
    );
}

#[test]
fn the_clock_of_another_system_is_not_changed() {
    let before = SystemTime::now();
    let mut clock = Clock::of_another_system();
    let date = "Fri, 01 Jan 2038 00:00:00 GMT";
    assert!(!clock.compare_with(date, "http://x", Occasion::Answer));
    let passed = SystemTime::now().duration_since(before).unwrap();
    assert!(passed < Duration::from_secs(60));
}

/// This clock logs each change and does not make it. Any other clock would change the
/// time of the machine that the test runs on.
#[test]
fn no_date_changes_the_clock_after_ntp_has_set_it() {
    let changes = |with_ntp: bool| {
        let lines = log_lines_during(|| {
            let mut clock = Clock::of_another_system();
            // NTP may answer after the search for servers has begun with its own clone of
            // the clock.
            let mut of_search = clock.clone();
            if with_ntp {
                let (name, answering) = server(0);
                run(clock.set_by_ntp(&name)).unwrap();
                answering.join().unwrap();
            }
            for occasion in [Occasion::Answer, Occasion::RefusedCertificate] {
                of_search.compare_with("Fri, 01 Jan 2038 00:00:00 GMT", "http://x", occasion);
            }
        });
        let by_date = |line: &&String| line.contains("according to the Date header of http://x");
        lines.iter().filter(by_date).count()
    };
    assert_eq!(changes(false), 2);
    assert_eq!(changes(true), 0);
}

/// Answers one NTP request like a server whose clock is ahead by `seconds`.
fn server(seconds: u64) -> (String, thread::JoinHandle<()>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = socket.local_addr().unwrap().to_string();
    (name, answer_one(socket, seconds))
}

fn answer_one(socket: UdpSocket, seconds: u64) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut packet = [0_u8; 48];
        let (_, client) = socket.recv_from(&mut packet).unwrap();
        let since = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap();
        // Seconds since 1900 and a binary fraction (RFC 5905).
        let full = since.as_secs() + seconds + 2_208_988_800;
        let fraction = (u64::from(since.subsec_nanos()) << 32) / 1_000_000_000;
        let time = ((full << 32) | fraction).to_be_bytes();
        let mut answer = [0_u8; 48];
        // Version 4, server, stratum 1.
        answer[0] = 0b00_100_100;
        answer[1] = 1;
        answer[12..16].copy_from_slice(b"GPS\0");
        answer[16..24].copy_from_slice(&time);
        // The client's own time stamp, which shows that this answers its request.
        answer[24..32].copy_from_slice(&packet[40..48]);
        answer[32..40].copy_from_slice(&time);
        answer[40..48].copy_from_slice(&time);
        socket.send_to(&answer, client).unwrap();
    })
}

/// The first NIC that comes up does not lead to the server.
#[test]
fn the_server_is_asked_again_when_another_nic_comes_up() {
    on_a_machine(async |lab| {
        for number in [0, 1] {
            lab.plug_in(number);
        }
        lab.port("link set port0 up");
        lab.port("addr add 198.51.100.1/24 dev port1");
        let socket = lab.on_network(|| UdpSocket::bind("198.51.100.1:123").unwrap());
        answer_one(socket, 0);
        let mut network =
            lab.boot("ip=192.0.2.10:::24::eth0:none ip=198.51.100.10:::24::eth1:none");
        lab.until(&mut network, "the first address", NetworkState::is_online)
            .await;
        // This clock only logs changes. Any other clock would change the time of the
        // machine that the test runs on.
        let mut clock = Clock::of_another_system();
        let mut of_clock = network.clone();
        let limit = Duration::from_secs(60);
        let set = clock.set_by_ntp_within(limit, "198.51.100.1", &mut of_clock);
        let other_nic = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            lab.port("link set port1 up");
            tokio::time::Instant::now()
        };
        let (set, came_up) = tokio::join!(set, other_nic);
        set.unwrap();
        // The next attempt came before the end of the pause, which takes at least 5 s.
        let took = came_up.elapsed();
        assert!(took < Duration::from_secs(3), "{took:?}");
    });
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_given_up() {
    let (_sender, mut network) = watch::channel(NetworkState::default());
    let began = tokio::time::Instant::now();
    let limit = Duration::from_secs(600);
    let mut clock = Clock::of_another_system();
    // No server can be reached at this address.
    let set = clock.set_by_ntp_within(limit, "0.0.0.0:0", &mut network);
    let fault = set.await.unwrap_err();
    assert!(fault.details.contains("0.0.0.0:0"), "{fault}");
    assert!((600..700).contains(&began.elapsed().as_secs()));
}

#[test]
fn the_time_comes_from_an_ntp_server() {
    let (name, answering) = server(1000);
    let time = run(ntp::time_of(&name)).unwrap();
    let ahead = time.duration_since(SystemTime::now()).unwrap().as_secs();
    assert!((950..=1000).contains(&ahead), "{ahead}");
    answering.join().unwrap();
}

#[test]
fn a_time_of_no_sense_is_refused() {
    // The year 2100 and later.
    let (name, answering) = server(80 * 31_556_952);
    let fault = run(Clock::of_another_system().set_by_ntp(&name)).unwrap_err();
    assert!(
        fault.details.contains("expected a time from 2026 to 2099"),
        "{fault}"
    );
    answering.join().unwrap();
}

#[test]
fn a_server_that_does_not_answer_is_named() {
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = closed.local_addr().unwrap().to_string();
    drop(closed);
    let fault = run(ntp::time_of(&name)).unwrap_err().to_string();
    assert!(fault.contains(&name), "{fault}");
    let fault = run(ntp::time_of("no-such-host.invalid"));
    let fault = fault.unwrap_err().to_string();
    assert!(fault.contains("no-such-host.invalid"), "{fault}");
}
