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
    };
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async {
            let (_, mut network) = watch::channel(NetworkState::default());
            let (reach, _) = watch::channel(Reach::default());
            let mut clock = Clock::of_somebody();
            find(&client, &wanted, &mut network, &reach, &mut clock).await
        })
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
