//! Compressed answers.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use headroom_fixtures::fake_prometheus::{MATRIX, start as store};
use headroom_fixtures::http::Reply;
use headroom_sources::Source;
use headroom_sources::http::Endpoint;
use headroom_sources::prometheus::{Options, Prometheus};
use headroom_usage::sample::Window;

#[tokio::test]
async fn answers_are_compressed() {
    let fake = store(|| {
        let mut zipped = GzEncoder::new(Vec::new(), Compression::default());
        zipped.write_all(MATRIX.as_bytes()).unwrap();
        let body = zipped.finish().unwrap();
        let head = format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        Reply::Bytes([head.as_bytes(), &body].concat())
    });
    let source = Prometheus::connect(&Options::new(Endpoint::new(fake.url()))).await.unwrap();
    let mut batches = 0;
    source.read("shop", Window { from: 6000, to: 9600 }, &mut |_| batches += 1).await.unwrap();
    assert!(batches > 0);
    assert!(fake.asked.lock().unwrap().iter().all(|head| head.to_lowercase().contains("accept-encoding: gzip")));
}
