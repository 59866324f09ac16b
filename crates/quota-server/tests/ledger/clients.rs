//! Callers over TLS: those without a certificate, slow and hostile ones, and API servers that give up.

#![expect(clippy::disallowed_methods, reason = "tests write the files that programs read")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use headroom_fixtures::api_server::ApiServer;
use headroom_fixtures::process::peak_kib;
use headroom_quota_server::{Options, tls};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::client::TlsStream;

use crate::cluster::*;

/// The memory limit of a replica in the chart.
const MEMORY_LIMIT_KIB: u64 = 256 << 10;

async fn connect(
    address: SocketAddr,
    shown: Option<&tls::ServingCertificate>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let shown = shown.map(|shown| [shown.certificate.as_str(), &shown.key]);
    headroom_fixtures::tls::connect(address, &CERTIFICATE.authority, shown).await
}

fn head(length: usize) -> String {
    format!("POST /review HTTP/1.1\r\nhost: ledger\r\ncontent-length: {length}\r\n\r\n")
}

async fn send(stream: &mut TlsStream<TcpStream>, object: &Value) {
    let review = review(object, &Value::Null).to_string();
    stream.write_all(&[head(review.len()).as_bytes(), review.as_bytes()].concat()).await.unwrap();
}

/// The start of the response.
async fn response(stream: &mut TlsStream<TcpStream>) -> String {
    let mut answer = vec![0; 4096];
    let read = stream.read(&mut answer).await.unwrap_or_default();
    String::from_utf8_lossy(&answer[..read]).into_owned()
}

/// Serves reviews, once the quota is in force.
async fn serve(server: &Arc<ApiServer>, request_lifetime: Duration) -> (Running, SocketAddr) {
    let replica = Running::new(server, Options { request_lifetime, ..options() });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(Arc::clone(&replica).serve(listener, None));
    let is_in_force = || json!(replica.problem().is_none() && !replica.ledgers.covering("shop").is_empty());
    until(is_in_force, |is_in_force| *is_in_force == true).await;
    (replica, address)
}

/// With `--client-ca`, a caller without a certificate of that authority gets no answer.
#[tokio::test]
async fn only_callers_with_a_certificate_of_the_authority_are_answered() {
    let other = tls::make(&["127.0.0.1".to_owned()], headroom_api_server::clock::now(), 1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let certificate = Arc::new(tls::Certificate::default());
    certificate.set(CERTIFICATE.certificate.as_bytes(), CERTIFICATE.key.as_bytes()).unwrap();
    let acceptor = tls::acceptor(certificate, Some(&file("ca.crt", &CERTIFICATE.authority))).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(mut stream) = acceptor.accept(stream).await {
                drop(stream.write_all(b"answered").await);
                drop(stream.shutdown().await);
            }
        }
    });
    for (shown, expected) in [(Some(&*CERTIFICATE), "answered"), (None, ""), (Some(&other), "")] {
        // A rejected caller may only notice when it reads.
        let answer = match connect(address, shown).await {
            Ok(mut stream) => response(&mut stream).await,
            Err(_) => String::new(),
        };
        assert_eq!(answer, expected);
    }
    assert!(tls::acceptor(Arc::default(), Some(&file("empty.crt", ""))).is_err());
}

/// Clients that send as much as is allowed and never finish, hold connections, or vanish: memory stays within the limit,
/// and an API server is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_many_and_vanishing_clients_are_bounded() {
    let (_replica, address) = serve(&bounded(&json!({"pods": "100"})), REQUEST_LIFETIME).await;
    let peak = || peak_kib(std::process::id()).unwrap();
    let before = peak();
    const BODY: usize = 8 << 20;
    let part: Arc<[u8]> = vec![b'x'; BODY / 64].into();
    let hostile = |vanishes: bool| {
        let part = Arc::clone(&part);
        tokio::spawn(async move {
            let Ok(mut stream) = connect(address, None).await else { return };
            drop(stream.write_all(head(BODY).as_bytes()).await);
            for _ in 0..63 {
                if stream.write_all(&part).await.is_err() || vanishes && fastrand::u8(..) < 8 {
                    return;
                }
            }
            // The last part never comes.
            drop(stream.read(&mut [0; 64]).await);
        })
    };
    let clients: Vec<_> = (0..120).map(|at| hostile(at % 3 == 0)).collect();
    // Until they have sent as much as is taken of them.
    sleep(Duration::from_secs(8)).await;
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        assert!(Instant::now() < deadline, "no answer");
        let Ok(mut stream) = connect(address, None).await else { continue };
        send(&mut stream, &pod("shop", "pod")).await;
        if response(&mut stream).await.contains("\"allowed\":true") {
            break;
        }
    }
    let after = peak();
    println!("peak memory: {} MiB before, {} MiB after", before >> 10, after >> 10);
    assert!(after < MEMORY_LIMIT_KIB, "{} MiB", after >> 10);
    clients.iter().for_each(tokio::task::JoinHandle::abort);
}

/// An API server that gives up closes its connection, which ends the handling. Its reservation is released long before
/// the longest lifetime of a request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn room_of_an_abandoned_request_is_released_at_once() {
    let server = ApiServer::troubled(7);
    server.put(namespace("shop"));
    server.put(quota("team", &["shop"], &json!({"pods": "100"})));
    let (_replica, address) = serve(&server, Duration::from_secs(3600)).await;
    // A write takes longer than a caller waits: that an answer was under way as the caller left has to stay an exception.
    server.delay(100..=100);
    let mut given_up = 0;
    for round in 0..60_u64 {
        let name = format!("pod-{round}");
        // None is like another, so each needs a write.
        let object = pod_with("shop", &name, "cpu", &format!("{}m", round + 1));
        let mut stream = connect(address, None).await.unwrap();
        send(&mut stream, &object).await;
        match timeout(Duration::from_millis(round * 4 % 80), response(&mut stream)).await {
            Err(_) => given_up += 1,
            // The request may still be stored, so its claim stays; the pod is deleted to make room for the next ones.
            Ok(text) => {
                assert!(text.contains("\"allowed\":true"), "{text}");
                assert!(store_pod(&server, object, HARD));
                delete_pod(&server, "shop", &name);
            }
        }
    }
    assert!(given_up > 20, "only {given_up} were abandoned");
    // Some may have been answered just before; it is unknown whether the answer was read, so their claims stay.
    until(|| ledger(&server), |ledger| ledger["claims"].as_array().map_or(0, Vec::len) <= given_up / 4).await;
}
