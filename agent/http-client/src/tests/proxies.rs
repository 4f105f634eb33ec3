//! Tests requests through a real forward proxy and with redirects: which host gets the
//! request, and which host gets which credentials.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use reqwest::Method;
use reqwest::header::AUTHORIZATION;

use crate::fixtures::{Asked, Certificate, Reply, Server, http_client, run};
use crate::{HttpOptions, Proxies, Redirect, ServiceClient, image_client, status_of, why};

/// A proxy according to RFC 9110: it accepts `CONNECT host:port`, and requests with
/// the whole URL in the first line. It records the heads of the requests.
struct ForwardProxy {
    /// `127.0.0.1:PORT`
    address: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl ForwardProxy {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let kept = Arc::clone(&heads);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let head = head_of(&stream).unwrap_or_default();
                kept.lock().unwrap().push(head.clone());
                // The other side may disconnect at any time.
                thread::spawn(move || forward(&head, stream));
            }
        });
        Self { address, heads }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// Whether any request had a header with this text, which is in lower case.
    fn saw(&self, header: &str) -> bool {
        let heads = self.heads();
        heads
            .iter()
            .any(|head| head.to_ascii_lowercase().contains(header))
    }
}

fn forward(head: &str, mut stream: TcpStream) -> io::Result<()> {
    let mut words = head.split_whitespace();
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let rest = target.strip_prefix("http://").unwrap_or(target);
    let host = rest.split('/').next().unwrap();
    let mut server = TcpStream::connect(host)?;
    if method == "CONNECT" {
        stream.write_all(b"HTTP/1.1 200 X\r\n\r\n")?;
    } else {
        let path = &rest[host.len()..];
        let forwarded = head.replacen(target, path, 1);
        for line in forwarded.lines() {
            if !line.to_ascii_lowercase().starts_with("proxy-") {
                write!(server, "{line}\r\n")?;
            }
        }
        server.write_all(b"\r\n")?;
    }
    let (mut from, mut to) = (stream.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
    });
    io::copy(&mut server, &mut stream)?;
    stream.shutdown(Shutdown::Both)
}

fn head_of(stream: &TcpStream) -> io::Result<String> {
    let mut reader = BufReader::with_capacity(1, stream);
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            return Ok(head);
        }
        head.push_str(line.trim_end());
        head.push('\n');
    }
}

fn image_server() -> Server {
    Server::start(|_| Reply::new(200, "image"))
}

fn redirect(to: &Server) -> Server {
    let location = format!("Location: {}", to.url);
    Server::start(move |_| Reply::status(302).header(&location))
}

/// Whether any request had a header with this text, which is in lower case.
fn saw(server: &Server, header: &str) -> bool {
    let headers = server.asked().into_iter().flat_map(|asked| asked.headers);
    let mut shown = headers.map(|(name, value)| format!("{name}: {value}").to_ascii_lowercase());
    shown.any(|shown| shown.contains(header))
}

fn get(proxies: Proxies, url: &str, credentials: Option<&str>) -> Result<String, String> {
    let options = HttpOptions {
        insecure: true,
        proxies,
        ..HttpOptions::default()
    };
    let _ = http_client();
    let client = image_client(&options).unwrap();
    run(async {
        let mut request = client.get(url);
        if let Some(value) = credentials {
            request = request.header(AUTHORIZATION, value);
        }
        let answer = request.send().await.map_err(|error| why(&error))?;
        answer.text().await.map_err(|error| why(&error))
    })
}

fn by(proxy: &ForwardProxy, none_for: &[&str]) -> Proxies {
    let url = Some(format!("http://me:hidden@{}", proxy.address));
    Proxies {
        http: url.clone(),
        https: url,
        none_for: none_for.iter().map(ToString::to_string).collect(),
    }
}

/// Base64 of `me:hidden`.
const PROXY_CREDENTIALS: &str = "proxy-authorization: basic bwu6aglkzgvu";

#[test]
fn a_proxy_gets_the_whole_url_and_its_own_credentials() {
    let (server, proxy) = (image_server(), ForwardProxy::start());
    let got = get(by(&proxy, &[]), &server.url, Some("Bearer t"));
    assert_eq!(got.as_deref(), Ok("image"));
    assert!(proxy.heads()[0].starts_with(&format!("GET {} ", server.url)));
    assert!(proxy.saw(PROXY_CREDENTIALS), "{:?}", proxy.heads());
    assert!(saw(&server, "authorization: bearer t"));
    assert!(!saw(&server, "proxy-"), "{:?}", server.asked());
}

#[test]
fn a_host_without_a_proxy_is_asked_directly() {
    for (none_for, is_direct) in [
        (&["127.0.0.1"][..], true),
        (&["127.0.0.0/8"], true),
        (&["*"], true),
        (&["example.org", "127.0.0.1"], true),
        (&["example.org"], false),
        (&["10.0.0.0/8"], false),
        (&[], false),
    ] {
        let (server, proxy) = (image_server(), ForwardProxy::start());
        let got = get(by(&proxy, none_for), &server.url, None);
        assert_eq!(got.as_deref(), Ok("image"));
        assert_eq!(proxy.heads().is_empty(), is_direct, "{none_for:?}");
        assert!(!saw(&server, "proxy-"));
    }
}

/// Requests to the server are encrypted by TLS: the proxy only sees a host name.
#[test]
fn a_proxy_sees_nothing_of_https() {
    let certificate = Certificate::of([127, 0, 0, 1]);
    let server = Server::secure(&certificate, |_| Reply::new(200, "image"));
    let proxy = ForwardProxy::start();
    let got = get(by(&proxy, &[]), &server.url, Some("Bearer t"));
    assert_eq!(got.as_deref(), Ok("image"));
    assert!(saw(&server, "authorization: bearer t"));
    assert!(!saw(&server, "proxy-"), "{:?}", server.asked());
    assert_eq!(proxy.heads().len(), 1);
    let host = server.base.strip_prefix("https://").unwrap();
    assert!(proxy.heads()[0].starts_with(&format!("CONNECT {host} ")));
    assert!(proxy.saw(PROXY_CREDENTIALS));
    assert!(!proxy.saw("bearer"), "{:?}", proxy.heads());
}

/// Another port counts as another server.
#[test]
fn credentials_stay_with_their_server() {
    let elsewhere = image_server();
    let first = redirect(&elsewhere);
    let got = get(Proxies::default(), &first.url, Some("Bearer t"));
    assert_eq!(got.as_deref(), Ok("image"));
    assert!(saw(&first, "authorization: bearer t"));
    assert!(!saw(&elsewhere, "authorization"), "{:?}", elsewhere.asked());
    // The same applies to credentials in the URL.
    let first = redirect(&elsewhere);
    let url = first.url.replace("http://", "http://me:hidden@");
    assert_eq!(get(Proxies::default(), &url, None).as_deref(), Ok("image"));
    assert!(saw(&first, "authorization: basic"));
    assert!(!saw(&elsewhere, "authorization"), "{:?}", elsewhere.asked());
}

/// The redirect in the answer to a client that follows none.
fn redirect_of(url: &str) -> Option<Redirect> {
    let options = HttpOptions {
        insecure: true,
        ..HttpOptions::default()
    };
    let client = ServiceClient::new(&options).unwrap();
    run(async {
        let request = client.request(Method::GET, url).unwrap();
        status_of(request).await.unwrap().redirect
    })
}

#[test]
fn the_search_knows_which_redirects_a_download_follows() {
    let _ = http_client();
    let image = image_server();
    let certificate = Certificate::of([127, 0, 0, 1]);
    let signed = format!("{}?sig=hidden", image.url);
    for (secure, to, shown, is_followed) in [
        (false, &*signed, format!("{}?***", image.url), true),
        (
            false,
            "ftp://127.0.0.1/a",
            "ftp://127.0.0.1/a".to_owned(),
            false,
        ),
        (true, &*image.url, image.url.clone(), false),
    ] {
        let location = format!("Location: {to}");
        let answer = move |_: &Asked| Reply::status(302).header(&location);
        let first = match secure {
            true => Server::secure(&certificate, answer),
            false => Server::start(answer),
        };
        let got = get(Proxies::default(), &first.url, None);
        assert_eq!(got.is_ok(), is_followed, "{to}: {got:?}");
        let expected = Redirect {
            to: shown,
            is_followed,
        };
        assert_eq!(redirect_of(&first.url), Some(expected));
    }
    assert_eq!(redirect_of(&image.url), None);
    let nowhere = Server::start(|_| Reply::status(302));
    assert_eq!(redirect_of(&nowhere.url), None);
}

#[test]
fn no_failure_shows_a_password() {
    let dead = "http://me:hidden@127.0.0.1:1";
    let proxies = Proxies {
        http: Some(dead.to_owned()),
        ..Proxies::default()
    };
    for outcome in [
        get(proxies, "http://192.0.2.1/image", None),
        get(Proxies::default(), dead, None),
    ] {
        let reason = outcome.unwrap_err();
        assert!(!reason.contains("hidden"), "{reason}");
    }
}
