//! A client that sends exactly the given bytes.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A test fails after this time instead of waiting forever.
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Names as they were sent.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let same = |(found, _): &&(String, String)| found.eq_ignore_ascii_case(name);
        self.headers
            .iter()
            .find(same)
            .map(|(_, value)| value.as_str())
    }
}

pub struct Client<S> {
    stream: BufReader<S>,
}

impl Client<TcpStream> {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self::over(stream)
    }

    pub fn stream(&self) -> &TcpStream {
        self.stream.get_ref()
    }
}

impl<S: Read + Write> Client<S> {
    pub fn over(stream: S) -> Self {
        Self {
            stream: BufReader::new(stream),
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    pub fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask("GET", path, headers)
    }

    pub fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: test\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        self.send(format!("{request}\r\n").as_bytes());
        self.answer(method != "HEAD").unwrap()
    }

    /// The next answer; `None` if the service closed the connection.
    pub fn answer(&mut self, has_body: bool) -> Option<Answer> {
        let mut answer = self.head()?;
        let len = answer.header("content-length");
        let len: usize = len.map_or(0, |len| len.parse().unwrap());
        if has_body {
            answer.body = vec![0; len];
            self.stream.read_exact(&mut answer.body).unwrap();
        }
        Some(answer)
    }

    /// The head of the next answer, without reading its body.
    pub fn head(&mut self) -> Option<Answer> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            match self.stream.read_line(&mut line) {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines[1..].iter().map(|line| line.split_once(": ").unwrap());
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Some(Answer {
            status,
            headers: headers.collect(),
            body: Vec::new(),
        })
    }

    /// Fills the buffer with bytes of a body.
    pub fn read_all(&mut self, buffer: &mut [u8]) {
        self.stream.read_exact(buffer).unwrap();
    }

    /// Reads some bytes of a body; 0 at the end of the connection.
    pub fn read_some(&mut self, buffer: &mut [u8]) -> usize {
        self.stream.read(buffer).unwrap_or(0)
    }
}
