//! Counts what goes over the wire to a store, with a server in between.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use headroom_api_server::parts::locked;

use crate::Result;

/// The traffic so far.
#[derive(Debug, Default, Clone)]
pub struct Passed {
    /// The requests, path and query as they were sent.
    pub queries: Vec<String>,
    /// Compressed size of the responses.
    pub bytes: u64,
}

impl Passed {
    /// The number of queries before the first that reads usage.
    pub fn before_usage(&self) -> usize {
        let reads = |query: &String| query.contains("rate%28") || query.contains("max_over_time%28");
        self.queries.iter().position(reads).unwrap_or(self.queries.len())
    }
}

/// A listener on loopback in front of a store.
pub struct Wire {
    pub port: u16,
    passed: Arc<Mutex<Passed>>,
}

impl Wire {
    pub fn before(store: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let wire = Self { port: listener.local_addr()?.port(), passed: Arc::default() };
        let passed = Arc::clone(&wire.passed);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let passed = Arc::clone(&passed);
                thread::spawn(move || connect(client, store, &passed));
            }
        });
        Ok(wire)
    }

    /// Returns the traffic since the last call.
    pub fn take(&self) -> Passed {
        std::mem::take(&mut locked(&self.passed))
    }
}

fn connect(client: TcpStream, store: u16, passed: &Arc<Mutex<Passed>>) -> std::io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", store))?;
    let (answers, to_client, counted) = (server.try_clone()?, client.try_clone()?, Arc::clone(passed));
    thread::spawn(move || {
        pass(answers, to_client, |bytes| {
            locked(&counted).bytes += bytes.len() as u64;
        })
    });
    pass(client, server, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let target = text.strip_prefix("GET ").and_then(|rest| rest.split(' ').next());
        locked(passed).queries.extend(target.map(str::to_owned));
    })
}

fn pass(mut from: TcpStream, mut to: TcpStream, mut count: impl FnMut(&[u8])) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut buffer)?;
        let bytes = buffer.get(..read).unwrap_or_default();
        if bytes.is_empty() {
            return to.shutdown(Shutdown::Write);
        }
        count(bytes);
        to.write_all(bytes)?;
    }
}
