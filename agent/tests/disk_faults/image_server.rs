//! An HTTP server that sends one file, and stops at a given byte on request.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// The server thread runs until the test process ends.
pub struct ImageServer {
    pub url: String,
    stop: Arc<Mutex<usize>>,
}

impl ImageServer {
    /// Serves this file on the loopback.
    pub fn start(file: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/image", listener.local_addr().unwrap());
        let stop = Arc::new(Mutex::new(usize::MAX));
        let before = Arc::clone(&stop);
        thread::spawn(move || {
            for connection in listener.incoming() {
                let stop = *before.lock().unwrap();
                send(connection.unwrap(), &file, stop);
            }
        });
        Self { url, stop }
    }

    /// From the next connection on, the server stops before this byte and then
    /// keeps the connection open until the client closes it.
    pub fn stop_before(&self, byte: usize) {
        *self.stop.lock().unwrap() = byte;
    }
}

fn send(mut connection: TcpStream, file: &[u8], stop: usize) {
    let mut request = [0; 4096];
    let _ = connection.read(&mut request);
    let head = format!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nETag: \"1\"\r\nContent-Length: {}\r\n\r\n",
        file.len()
    );
    // The agent may be killed at any time.
    let _ = connection.write_all(head.as_bytes());
    let _ = connection.write_all(&file[..stop.min(file.len())]);
    if stop < file.len() {
        let _ = connection.read(&mut request);
    }
}
