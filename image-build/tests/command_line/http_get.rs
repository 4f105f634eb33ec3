//! Sends one request over HTTP/1.0.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// Requests `path`. Returns the status code and the body.
pub fn get(address: &str, path: &str) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n");
    let body = answer.split_off(end.unwrap() + 4);
    let status = String::from_utf8_lossy(&answer[9..12]).parse().unwrap();
    (status, body)
}
