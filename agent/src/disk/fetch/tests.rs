use std::time::Instant;

use super::*;
use crate::disk::fixtures::{Reply, Server, http_client};

#[test]
fn passwords_are_not_shown() {
    assert_eq!(
        shown("http://user:secret@host/i.raw?x=1"),
        "http://user:***@host/i.raw?x=1"
    );
    assert_eq!(shown("http://host/i.raw"), "http://host/i.raw");
    assert_eq!(shown("no url"), "no url");
}

/// Each byte comes in time, the file never does.
#[test]
fn a_trickle_is_no_progress() {
    use std::io::Write as _;

    let client = http_client();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/i", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let head = b"HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n";
                let mut alive = stream.write_all(head).is_ok();
                while alive {
                    thread::sleep(Duration::from_millis(50));
                    alive = stream.write_all(b"x").is_ok();
                }
            });
        }
    });
    let request = Request {
        urls: vec![url],
        authorization: None,
        checked: false,
        patience: Patience {
            stall: Duration::from_millis(500),
            give_up: Duration::from_secs(1),
            first_pause: Duration::from_millis(10),
            longest_pause: Duration::from_millis(10),
            ..Patience::default()
        },
    };
    let (sender, outcome) = std::sync::mpsc::channel();
    thread::spawn(move || sender.send(small_file(request, client, 100)));
    let failure = outcome
        .recv_timeout(Duration::from_secs(10))
        .expect("it goes on for ever")
        .unwrap_err();
    assert!(
        failure.details.contains("less than 1.0 MiB in 1 s")
            && failure.details.contains("gave up at byte"),
        "{failure}"
    );
}

/// Served on the loopback: how long it took to fail, and the failure.
#[test]
fn an_untrusted_certificate_is_final() {
    use std::io::Write as _;
    use std::sync::Arc;

    let client = http_client();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der());
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.unwrap())
        .unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/i", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = rustls::ServerConnection::new(Arc::new(config.clone())).unwrap();
            let mut tls = rustls::StreamOwned::new(connection, stream.unwrap());
            let _ = tls.write_all(b"HTTP/1.1 204 X\r\n\r\n");
        }
    });
    let request = Request {
        urls: vec![url],
        authorization: None,
        checked: false,
        patience: Patience::default(),
    };
    let started = Instant::now();
    let failure = small_file(request, client, 100).unwrap_err();
    assert!(failure.details.contains("certificate"), "{failure}");
    assert!(
        started.elapsed() < Duration::from_millis(900),
        "it was tried again"
    );
}

fn from(urls: &[&str], checked: bool) -> Request {
    Request {
        urls: urls.iter().map(ToString::to_string).collect(),
        authorization: None,
        checked,
        patience: Patience {
            stall: Duration::from_millis(500),
            give_up: Duration::from_secs(2),
            first_pause: Duration::from_millis(10),
            longest_pause: Duration::from_millis(50),
            ..Patience::default()
        },
    }
}

fn got(request: Request) -> Result<Vec<u8>> {
    small_file(request, http_client(), 64 << 20)
}

/// Bytes of which none repeats at a distance that a mistake would have.
fn body(len: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn a_file_is_a_source() {
    let body = body(3 << 20);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("an image.raw");
    std::fs::write(&path, &body).unwrap();
    let url = format!("file://{}", path.display()).replace(' ', "%20");
    assert!(got(from(&[&url], false)).unwrap() == body);
    let empty = directory.path().join("empty");
    std::fs::write(&empty, b"").unwrap();
    assert!(
        got(from(&[&format!("file://{}", empty.display())], false))
            .unwrap()
            .is_empty()
    );
    for (url, part) in [
        (
            "file:///no/such/image",
            "file:///no/such/image: No such file or directory",
        ),
        ("file:///dev", "expected a regular file"),
        ("file:///dev/zero", "expected a regular file"),
        (
            "ftp://host/image",
            "ftp://host/image: expected http:, https: or file:, found ftp:",
        ),
    ] {
        let failure = got(from(&[url], false)).unwrap_err();
        assert!(failure.details.contains(part), "{url}: {failure}");
    }
}

#[test]
fn a_file_is_read_again_from_its_middle() {
    let body = body(1 << 20);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &body).unwrap();
    let request = || from(&[&format!("file://{}", file.path().display())], false);
    let place = |mut download: Download| match download.next().unwrap() {
        Event::Begin(place) => place,
        other => panic!("{other:?}"),
    };
    let first = place(Download::start(request(), http_client()).unwrap());
    assert_eq!(first.total(), Some(1 << 20));
    let mut again = Download::again(request(), http_client(), first.clone(), 1_000_000).unwrap();
    let mut rest = Vec::new();
    loop {
        match again.next().unwrap() {
            Event::Begin(place) => assert!(place.by_range),
            Event::Chunk(bytes) => rest.extend_from_slice(&bytes),
            Event::End => break,
        }
    }
    assert!(rest == body[1_000_000..]);
    std::fs::write(file.path(), &body[1..]).unwrap();
    let mut changed = Download::again(request(), http_client(), first, 1_000_000).unwrap();
    let failure = changed.next().unwrap_err();
    assert!(failure.details.contains("length was 1048576"), "{failure}");
}

/// The first place breaks for good at this byte; whether the second goes on
/// there, with nothing sent twice.
#[test]
fn the_next_place_goes_on_where_the_first_broke() {
    const LEN: usize = 4 << 20;
    const BROKEN: usize = 3 << 20;
    let file = body(LEN);
    let mut other = file.clone();
    other.push(0);
    for (name, second, tag, checked, works) in [
        ("same tag", &file, "\"1\"", false, true),
        ("another tag, a digest comes", &file, "\"2\"", true, true),
        ("another tag", &file, "\"2\"", false, false),
        ("weak tag", &file, "W/\"1\"", false, false),
        (
            "another length, a digest comes",
            &other,
            "\"2\"",
            true,
            false,
        ),
        ("same tag, another length", &other, "\"1\"", false, false),
    ] {
        let whole = file.clone();
        let first = Server::start(move |asked| match asked.earlier {
            0 => Reply::correct(&whole, "\"1\"", asked).cut(BROKEN),
            _ => Reply::status(404),
        });
        let (whole, tag) = (second.clone(), tag.to_owned());
        let second = Server::start(move |asked| Reply::correct(&whole, &tag, asked));
        let outcome = got(from(&[&first.url, &second.url], checked));
        let asked = second.asked();
        assert_eq!(asked.len(), 1, "{name}");
        assert_eq!(asked[0].from, Some(BROKEN as u64), "{name}");
        match outcome {
            Ok(bytes) => assert!(works && bytes == file, "{name}"),
            Err(failure) => {
                assert!(!works, "{name}: {failure}");
                for part in ["HTTP status 404", "not known to be the file", &second.url] {
                    assert!(failure.details.contains(part), "{name}: {failure}");
                }
            }
        }
    }
}

#[test]
fn a_place_that_only_starts_anew_is_the_last_resort() {
    let file = body(4 << 20);
    let whole = file.clone();
    let first = Server::start(move |asked| match asked.earlier {
        0 => Reply::correct(&whole, "\"1\"", asked).cut(3 << 20),
        _ => Reply::status(404),
    });
    let whole = file.clone();
    let anew = Server::start(move |_| Reply::whole(&whole, "\"1\""));
    let whole = file.clone();
    let third = Server::start(move |asked| Reply::correct(&whole, "\"1\"", asked));
    let urls = [&first.url[..], &anew.url, &third.url];
    assert!(got(from(&urls, false)).unwrap() == file);
    assert_eq!((anew.asked().len(), third.asked().len()), (1, 1));
    // Where there is no other, all of it is read once more.
    let whole = file.clone();
    let first = Server::start(move |asked| match asked.earlier {
        0 => Reply::correct(&whole, "\"1\"", asked).cut(3 << 20),
        _ => Reply::status(404),
    });
    assert!(got(from(&[&first.url, &anew.url], false)).unwrap() == file);
}

#[test]
fn places_take_turns_while_they_fail() {
    let file = body(100_000);
    let whole = file.clone();
    let busy = Server::start(|_| Reply::status(503));
    let recovers = Server::start(move |asked| match asked.earlier {
        0..3 => Reply::status(503),
        _ => Reply::correct(&whole, "\"1\"", asked),
    });
    let gone = "http://127.0.0.1:1/image";
    let request = from(&[&busy.url, gone, &recovers.url], false);
    assert!(got(request).unwrap() == file);
    assert!(
        (3..=4).contains(&busy.asked().len()),
        "{}",
        busy.asked().len()
    );
    let request = Request {
        patience: Patience {
            give_up: Duration::from_millis(200),
            ..from(&[], false).patience
        },
        ..from(&[&busy.url, gone], false)
    };
    let failure = got(request).unwrap_err();
    for part in [
        &busy.url[..],
        "HTTP status 503",
        gone,
        "connection refused",
        "gave up",
    ] {
        assert!(failure.details.contains(part), "{part} in {failure}");
    }
}
