//! A server on loopback that answers as the test chooses, correctly or not, and records requests.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A response, byte for byte.
pub enum Reply {
    /// Sent, then the connection is closed.
    Bytes(Vec<u8>),
    /// Sent, then nothing happens for a long time.
    Stall(Vec<u8>),
}

pub struct Fake {
    pub port: u16,
    /// The head of each request.
    pub asked: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    /// `reply` gets the head of a request, its target decoded, and the body.
    pub fn start(reply: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_reading(decoded, reply)
    }

    /// `reply` gets the request unchanged.
    pub fn start_raw(reply: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_reading(str::to_owned, reply)
    }

    fn start_reading(read: fn(&str) -> String, reply: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (reply, log) = (Arc::new(reply), asked.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, reply, log) = (stream.unwrap(), reply.clone(), log.clone());
                std::thread::spawn(move || {
                    let mut head = read(&request(&mut stream));
                    if head.starts_with("CONNECT ") {
                        // Acts as a proxy, and also as the server behind it.
                        log.lock().unwrap().push(head);
                        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
                        head = read(&request(&mut stream));
                    }
                    let answer = reply(&head);
                    log.lock().unwrap().push(head);
                    let (Reply::Bytes(bytes) | Reply::Stall(bytes)) = &answer;
                    let _ = stream.write_all(bytes);
                    if matches!(answer, Reply::Stall(_)) {
                        std::thread::sleep(Duration::from_secs(20));
                    }
                });
            }
        });
        Self { port, asked }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The request heads so far that start with `start`.
    pub fn asked_for(&self, start: &str) -> Vec<String> {
        self.asked.lock().unwrap().iter().filter(|head| head.starts_with(start)).cloned().collect()
    }
}

/// Head and body.
fn request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut one = [0];
    while !bytes.ends_with(b"\r\n\r\n") && stream.read(&mut one).unwrap_or(0) == 1 {
        bytes.push(one[0]);
    }
    let length = header(&String::from_utf8_lossy(&bytes), "content-length").and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    if stream.read_exact(&mut body).is_ok() {
        bytes.extend(body);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The value of a header.
pub fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut headers = head.lines().skip(1).take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(": "));
    headers.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// The head with its target decoded, so that queries are readable.
fn decoded(head: &str) -> String {
    let (target, headers) = head.split_once("\r\n").unwrap_or((head, ""));
    let mut bytes = Vec::new();
    let mut rest = target.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let hex = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap()
            }
            other => other,
        });
    }
    format!("{}\r\n{headers}", String::from_utf8_lossy(&bytes))
}

/// A complete response.
pub fn answer(status: u16, body: &str) -> Reply {
    let head = format!("HTTP/1.1 {status} Status\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    Reply::Bytes((head + body).into_bytes())
}
