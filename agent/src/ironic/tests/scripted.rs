//! An HTTP server on its own port that sends the given replies, one per request.

use std::collections::VecDeque;
use std::io::{BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

#[derive(Clone)]
pub struct Reply {
    status: u16,
    body: String,
}

impl Reply {
    pub fn new(status: u16, body: &str) -> Self {
        Self {
            status,
            body: body.to_owned(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Asked {
    /// `GET / HTTP/1.1`
    pub line: String,
    /// Names are in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

pub struct Ironic {
    url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    _listener: Option<TcpListener>,
}

impl Ironic {
    pub fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let replies: Arc<Mutex<VecDeque<Reply>>> =
            Arc::new(Mutex::new(replies.into_iter().collect()));
        let seen = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (replies, seen) = (Arc::clone(&replies), Arc::clone(&seen));
                thread::spawn(move || converse(&stream.unwrap(), &replies, &seen));
            }
        });
        Self {
            url,
            asked,
            _listener: None,
        }
    }

    /// Accepts connections but never answers.
    pub fn silent() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            asked: Arc::default(),
            _listener: Some(listener),
        }
    }

    /// A URL where no server listens.
    pub fn dead_url() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub async fn until_asked(&self, times: usize) {
        while self.asked().len() < times {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn converse(stream: &TcpStream, replies: &Mutex<VecDeque<Reply>>, seen: &Mutex<Vec<Asked>>) {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    while let Some(asked) = read(&mut reader) {
        let reply = replies.lock().unwrap().pop_front();
        let Some(Reply { status, body }) = reply else {
            return;
        };
        seen.lock().unwrap().push(asked);
        let length = body.len();
        let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}");
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn read(reader: &mut impl std::io::BufRead) -> Option<Asked> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim_end().is_empty() {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let headers: Vec<(String, String)> = lines[1..]
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Asked {
        line: lines[0].clone(),
        headers,
        body: String::from_utf8(body).unwrap(),
    })
}
