//! Tests requests through a real forward proxy and with redirects: which host gets
//! the request, and which host sees which credentials.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use reqwest::header::AUTHORIZATION;

use crate::{HttpOptions, Proxies, image_client, why};

/// Serves each connection on a thread, and records the heads of its requests.
struct Served {
    /// `127.0.0.1:PORT`
    address: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Served {
    fn by(answer: impl Fn(&str, TcpStream) -> io::Result<()> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let (kept, answer) = (Arc::clone(&heads), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let head = head_of(&stream).unwrap_or_default();
                kept.lock().unwrap().push(head.clone());
                let answer = Arc::clone(&answer);
                // The other side may disconnect at any time.
                thread::spawn(move || answer(&head, stream));
            }
        });
        Self { address, heads }
    }

    /// A server that answers with `text`, or redirects the client to `to`.
    fn with(text: &'static str, to: Option<String>) -> Self {
        Self::by(move |_, mut stream| match &to {
            Some(url) => write!(
                stream,
                "HTTP/1.1 302 X\r\nLocation: {url}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            ),
            None => write!(
                stream,
                "HTTP/1.1 200 X\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{text}",
                text.len()
            ),
        })
    }

    /// A proxy according to RFC 9110: it accepts `CONNECT host:port`, and requests
    /// with the whole URL in the first line.
    fn proxy() -> Self {
        Self::by(|head, mut stream| {
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
        })
    }

    fn url(&self) -> String {
        format!("http://{}/image", self.address)
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// Whether any request had such a header.
    fn saw(&self, header: &str) -> bool {
        let header = header.to_ascii_lowercase();
        let heads = self.heads();
        heads
            .iter()
            .any(|head| head.to_ascii_lowercase().contains(&header))
    }
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

fn get(proxies: Proxies, url: &str, credentials: Option<&str>) -> Result<String, String> {
    let options = HttpOptions {
        insecure: true,
        proxies,
        ..HttpOptions::default()
    };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = image_client(&options).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut request = client.get(url);
        if let Some(value) = credentials {
            request = request.header(AUTHORIZATION, value);
        }
        let answer = request.send().await.map_err(|error| why(&error))?;
        answer.text().await.map_err(|error| why(&error))
    })
}

fn by(proxy: &Served, none_for: &[&str]) -> Proxies {
    let url = Some(format!("http://me:hidden@{}", proxy.address));
    Proxies {
        http: url.clone(),
        https: url,
        none_for: none_for.iter().map(ToString::to_string).collect(),
    }
}

/// `me:hidden`
const PROXY_CREDENTIALS: &str = "proxy-authorization: basic bwu6aglkzgvu";

#[test]
fn a_proxy_gets_the_whole_url_and_its_own_credentials() {
    let (server, proxy) = (Served::with("image", None), Served::proxy());
    let got = get(by(&proxy, &[]), &server.url(), Some("Bearer t"));
    assert_eq!(got.as_deref(), Ok("image"));
    assert!(proxy.heads()[0].starts_with(&format!("GET {} ", server.url())));
    assert!(proxy.saw(PROXY_CREDENTIALS), "{:?}", proxy.heads());
    assert!(server.saw("authorization: bearer t"));
    assert!(!server.saw("proxy-"), "{:?}", server.heads());
}

#[test]
fn who_needs_no_proxy_is_asked_without() {
    for (none_for, is_direct) in [
        (&["127.0.0.1"][..], true),
        (&["127.0.0.0/8"], true),
        (&["*"], true),
        (&["example.org", "127.0.0.1"], true),
        (&["example.org"], false),
        (&["10.0.0.0/8"], false),
        (&[], false),
    ] {
        let (server, proxy) = (Served::with("image", None), Served::proxy());
        let got = get(by(&proxy, none_for), &server.url(), None);
        assert_eq!(got.as_deref(), Ok("image"));
        assert_eq!(proxy.heads().is_empty(), is_direct, "{none_for:?}");
        assert!(!server.saw("proxy-"));
    }
}

/// Requests to the server are encrypted by TLS: the proxy only sees a host name.
#[test]
fn a_proxy_sees_nothing_of_https() {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let connection = rustls::ServerConnection::new(config).unwrap();
        let mut tls = rustls::StreamOwned::new(connection, listener.accept().unwrap().0);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let mut byte = [0];
            io::Read::read_exact(&mut tls, &mut byte).unwrap();
            head.push(byte[0].into());
        }
        tls.write_all(b"HTTP/1.1 200 X\r\nContent-Length: 5\r\n\r\nimage")
            .unwrap();
        tls.flush().unwrap();
        head.to_ascii_lowercase()
    });
    let proxy = Served::proxy();
    let url = format!("https://{address}/image");
    assert_eq!(
        get(by(&proxy, &[]), &url, Some("Bearer t")).as_deref(),
        Ok("image")
    );
    let head = server.join().unwrap();
    assert!(
        head.contains("authorization: bearer t") && !head.contains("proxy-"),
        "{head}"
    );
    assert_eq!(proxy.heads().len(), 1);
    assert!(proxy.heads()[0].starts_with(&format!("CONNECT {address} ")));
    assert!(proxy.saw(PROXY_CREDENTIALS));
    assert!(!proxy.saw("bearer"), "{:?}", proxy.heads());
}

/// Another port counts as another server.
#[test]
fn credentials_stay_with_their_server() {
    let elsewhere = Served::with("image", None);
    let first = Served::with("", Some(elsewhere.url()));
    let got = get(Proxies::default(), &first.url(), Some("Bearer t"));
    assert_eq!(got.as_deref(), Ok("image"));
    assert!(first.saw("authorization: bearer t"));
    assert!(!elsewhere.saw("authorization"), "{:?}", elsewhere.heads());
    // The same applies to credentials in the URL.
    let first = Served::with("", Some(elsewhere.url()));
    let url = first.url().replace("http://", "http://me:hidden@");
    assert_eq!(get(Proxies::default(), &url, None).as_deref(), Ok("image"));
    assert!(first.saw("authorization: basic"));
    assert!(!elsewhere.saw("authorization"), "{:?}", elsewhere.heads());
}

#[test]
fn no_failure_tells_a_password() {
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
