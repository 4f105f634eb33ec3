use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use super::*;
use crate::http_client::HttpOptions;

/// Answers every connection with this status, and a date.
fn server(status: u16) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            let answer = format!(
                "HTTP/1.1 {status} X\r\nDate: Fri, 01 Jan 2038 00:00:00 GMT\r\n\
                 Content-Length: 2\r\nConnection: close\r\n\r\n{{}}"
            );
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    url
}

fn found(urls: Vec<String>) -> Found {
    let client = ServiceClient::new(&HttpOptions::default()).unwrap();
    let wanted = Wanted {
        what: PROVISIONING_SERVICE,
        place: Place::Urls(urls),
        timeout: Duration::from_secs(5),
        must_be_trusted: false,
    };
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async {
            let (_, mut network) = watch::channel(NetworkState::default());
            let (reach, _) = watch::channel(Reach::default());
            let mut clock = Clock::of_somebody();
            find(&client, &wanted, &mut network, &reach, &mut clock)
                .await
                .unwrap()
        })
}

/// A server of TLS with a certificate that nobody knows, for this name.
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

/// It takes a human to change that; the search has to say it once.
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
            let mut search =
                Search::new(&client, std::slice::from_ref(&url), Duration::from_secs(5));
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
fn any_answer_counts_and_its_place_comes_first() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    for status in [200, 404, 503] {
        let alive = server(status);
        let behind = server(200);
        let found = found(vec![
            "nonsense://".to_owned(),
            dead.clone(),
            format!("{alive}/"),
            behind.clone(),
        ]);
        assert_eq!(found.urls[..2], [alive, behind]);
        assert_eq!(found.urls.len(), 4);
        assert_eq!(found.document, "{}");
    }
}
