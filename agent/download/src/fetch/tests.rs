mod caching_proxy;
mod hostile_servers;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use landfall_http_client::fixtures::{Certificate, Reply, Server, dead_url, http_client};

use super::*;

#[test]
fn secrets_are_not_shown() {
    for (url, expected) in [
        ("http://user:secret@host/i.raw", "http://***@host/i.raw"),
        ("http://token@host/i.raw", "http://***@host/i.raw"),
        ("https://host/i?sig=a,b&x=1", "https://host/i?***"),
        ("http://user:secret@", "http://***@"),
    ] {
        assert_eq!(shown(url), expected);
    }
    assert_eq!(shown("http://host/i.raw"), "http://host/i.raw");
    assert_eq!(shown("no url"), "no url");
}

/// Each byte arrives within the time limit, but the whole file would take
/// forever.
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
        retry_policy: RetryPolicy {
            stall: Duration::from_millis(500),
            give_up: Duration::from_secs(1),
            first_pause: Duration::from_millis(10),
            longest_pause: Duration::from_millis(10),
            ..RetryPolicy::default()
        },
        ..Request::new([url])
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

/// A server with a self-signed certificate: the download fails without a retry.
#[test]
fn an_untrusted_certificate_is_final() {
    let client = http_client();
    let stranger = Certificate::of([127, 0, 0, 1]);
    let url = Server::secure(&stranger, |_| Reply::status(204)).url;
    let started = Instant::now();
    let failure = small_file(Request::new([&url]), client.clone(), 100).unwrap_err();
    assert!(
        failure.details.contains("its certificate is signed by"),
        "{failure}"
    );
    assert!(failure.permanent, "{failure}");
    assert!(
        started.elapsed() < Duration::from_millis(900),
        "it was tried again"
    );
    // The failure is not permanent, because the second place may have the file
    // later.
    let missing = Server::start(|_| Reply::status(404));
    let request = Request::new([&url, &missing.url]);
    let failure = small_file(request, client, 100).unwrap_err();
    assert!(!failure.permanent, "{failure}");
}

fn from(urls: &[&str], checked: bool) -> Request {
    Request {
        checked,
        retry_policy: RetryPolicy {
            stall: Duration::from_millis(500),
            give_up: Duration::from_secs(2),
            first_pause: Duration::from_millis(10),
            longest_pause: Duration::from_millis(50),
            ..RetryPolicy::default()
        },
        ..Request::new(urls.iter().copied())
    }
}

fn got(request: Request) -> Result<Vec<u8>> {
    small_file(request, http_client(), 64 << 20)
}

/// Pseudo-random bytes, so that the test notices bytes from a wrong offset.
fn body(len: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// A server that breaks the first connection at byte `at`, and then loses the file.
fn breaks(file: &[u8], at: usize) -> Server {
    Server::scripted([Reply::whole(file, "\"1\"").cut(at), Reply::status(404)])
}

#[test]
fn a_file_is_a_source() {
    let body = body(3 << 20);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("an image.raw");
    std::fs::write(&path, &body).unwrap();
    let url = format!("file://{}", path.display()).replace(' ', "%20");
    assert!(got(from(&[&url], false)).unwrap() == body);
    std::fs::write(&path, b"").unwrap();
    assert!(got(from(&[&url], false)).unwrap().is_empty());
    for (url, part) in [
        (
            "file:///no/such/image",
            "file:///no/such/image: No such file or directory",
        ),
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
    let place = |mut download: Download| match download.next_event().unwrap() {
        Event::Begin(place) => place,
        other => panic!("{other:?}"),
    };
    let first = place(Download::start(request(), http_client()).unwrap());
    assert_eq!(first.total(), Some(1 << 20));
    let mut again = Download::again(request(), http_client(), first.clone(), 1_000_000).unwrap();
    let mut rest = Vec::new();
    loop {
        match again.next_event().unwrap() {
            Event::Begin(place) => assert!(place.by_range),
            Event::Chunk(bytes) => rest.extend_from_slice(&bytes),
            Event::End => break,
        }
    }
    assert!(rest == body[1_000_000..]);
    std::fs::write(file.path(), &body[1..]).unwrap();
    let mut changed = Download::again(request(), http_client(), first, 1_000_000).unwrap();
    let failure = changed.next_event().unwrap_err();
    assert!(failure.details.contains("length was 1048576"), "{failure}");
}

/// The console shows the URL that the server redirected to if the file is not the
/// expected one.
#[test]
fn the_place_says_where_its_server_redirected() {
    let server = Server::start(|asked| match asked.path.as_str() {
        "/a" => Reply::status(302).header("Location: /b?sig=hidden"),
        _ => Reply::new(200, "x"),
    });
    let base = &server.base;
    let with_user = base.replace("http://", "http://user:hidden@");
    for (url, expected) in [
        (
            format!("{base}/a"),
            format!("{base}/a, redirected to {base}/b?***"),
        ),
        (format!("{base}/b"), format!("{base}/b")),
        (
            format!("{with_user}/b#c"),
            format!("{}/b#c", with_user.replace("user:hidden", "***")),
        ),
    ] {
        let request = Request::new([&url]);
        let (place, body) = small_file_with_place(request, http_client(), 100).unwrap();
        assert_eq!(body, b"x");
        assert_eq!(place.shown_with_redirect(), expected);
    }
}

/// The first place fails permanently at byte `BROKEN`. The second place may
/// continue there only if it has the same file, and sends no byte twice.
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
        let first = breaks(&file, BROKEN);
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
                for part in ["HTTP status 404", "expected the same file", &second.url] {
                    assert!(failure.details.contains(part), "{name}: {failure}");
                }
            }
        }
    }
}

#[test]
fn a_place_that_only_starts_over_is_the_last_resort() {
    let file = body(4 << 20);
    let first = breaks(&file, 3 << 20);
    let whole = file.clone();
    let second = Server::start(move |_| Reply::whole(&whole, "\"1\""));
    let third = Server::of(&file);
    let urls = [&first.url[..], &second.url, &third.url];
    assert!(got(from(&urls, false)).unwrap() == file);
    assert_eq!((second.asked().len(), third.asked().len()), (1, 1));
    // If there is no other place, the agent reads the whole file again.
    let first = breaks(&file, 3 << 20);
    assert!(got(from(&[&first.url, &second.url], false)).unwrap() == file);
}

#[test]
fn places_take_turns_while_they_fail() {
    let file = body(100_000);
    let whole = file.clone();
    let busy = Server::start(|_| Reply::status(503));
    let recovers = Server::start(move |asked| match asked.earlier {
        0 => Reply::status(429),
        1 | 2 => Reply::status(503),
        _ => Reply::correct(&whole, "\"1\"", asked),
    });
    let gone = &dead_url();
    let request = from(&[&busy.url, gone, &recovers.url], false);
    assert!(got(request).unwrap() == file);
    assert!(
        (3..=4).contains(&busy.asked().len()),
        "{}",
        busy.asked().len()
    );
    let request = Request {
        retry_policy: RetryPolicy {
            give_up: Duration::from_millis(200),
            ..from(&[], false).retry_policy
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

/// Makes an ISO 9660 image with one file and returns its path, which stands for the
/// device node of the drive.
fn medium(directory: &Path, content: &[u8]) -> PathBuf {
    let tree = directory.join("tree/landfall");
    std::fs::create_dir_all(&tree).unwrap();
    std::fs::write(tree.join("coreos-image"), content).unwrap();
    let drive = directory.join("sr0");
    let made = Command::new("genisoimage")
        .args(["-quiet", "-r", "-V", "LANDFALL", "-o"])
        .args([&drive, &directory.join("tree")])
        .status();
    assert!(made.unwrap().success());
    drive
}

#[test]
fn a_file_on_a_medium_is_a_source() {
    let body = body(3_000_000);
    let directory = tempfile::tempdir().unwrap();
    let drive = medium(directory.path(), &body);
    let url = medium_url(&drive, "landfall/coreos-image");
    assert!(got(from(&[&url], false)).unwrap() == body);
    let failure = got(from(&[&medium_url(&drive, "landfall/none")], false)).unwrap_err();
    let shown = format!("landfall/none on the medium in {}", drive.display());
    assert!(failure.details.starts_with(&shown), "{failure}");
    assert!(
        failure.details.contains("ISO: no regular file"),
        "{failure}"
    );
}

/// If the connection of the BMC breaks, its virtual drive has no medium for a while. If
/// the medium does not come back, the error names the medium.
#[test]
fn a_medium_that_comes_back_is_read_on() {
    let body = body(3_000_000);
    let directory = tempfile::tempdir().unwrap();
    let drive = medium(directory.path(), &body);
    let whole = std::fs::read(&drive).unwrap();
    // The medium ends in the middle of the file.
    std::fs::write(&drive, &whole[..1_500_000]).unwrap();
    let url = medium_url(&drive, "landfall/coreos-image");
    let failure = got(from(&[&url], false)).unwrap_err();
    for part in [
        "the medium in",
        "sr0",
        "it ended early",
        "gave up at byte",
        "of 3000000",
    ] {
        assert!(failure.details.contains(part), "{part} in {failure}");
    }
    let mut download = Download::start(from(&[&url], false), http_client()).unwrap();
    let mut received = Vec::new();
    loop {
        match download.next_event().unwrap() {
            Event::Begin(_) => {}
            Event::Chunk(bytes) => received.extend_from_slice(&bytes),
            Event::End => break,
        }
        if received.len() > 1_000_000 {
            std::fs::write(&drive, &whole).unwrap();
        }
    }
    assert!(received == body);
}
