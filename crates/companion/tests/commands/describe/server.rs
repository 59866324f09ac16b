//! A server on loopback that answers a path with a status and JSON, and records requests.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::Value;

pub struct Server {
    pub url: String,
    /// The first line of each request.
    pub asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub fn start(answer: impl Fn(&str) -> (u16, Value) + Send + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut head = BufReader::new(stream.try_clone().unwrap()).lines();
                let Some(Ok(first)) = head.next() else { continue };
                while head.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                let target = first.split(' ').nth(1).unwrap();
                let (code, body) = answer(target.split('?').next().unwrap());
                log.lock().unwrap().push(first);
                let body = body.to_string();
                let head =
                    format!("HTTP/1.1 {code} Status\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
                // The client may have disconnected.
                let _ = stream.write_all((head + &body).as_bytes());
            }
        });
        Self { url, asked }
    }
}
