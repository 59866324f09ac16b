//! HTTPS for API servers.

use std::sync::Arc;
use std::time::Duration;

use headroom_api_server::http_server::{self, ServerLimits};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Bytes;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::replica::Replica;
use crate::review;

const TEXT: &str = "text/plain; charset=utf-8";

/// The API server sends objects of up to 3 MiB; an update includes the old object. A review that is being answered takes
/// five times the memory of its text.
pub const LIMITS: ServerLimits = ServerLimits {
    connections: 256,
    body: 8 << 20,
    bodies: 16 << 20,
    // More than a review of most pods has.
    uncounted: 32 << 10,
    // Those to reviews are small.
    answers: 16 << 20,
    slowest: http_server::SLOWEST,
    patience: Duration::from_secs(10),
    // API servers keep their connections.
    idle: Some(Duration::from_secs(300)),
};

/// Answers reviews until the replica stops, then finishes those in progress.
pub async fn reviews(replica: Arc<Replica>, listener: TcpListener, acceptor: TlsAcceptor) {
    // Connections are still accepted while draining.
    let end = replica.drained.clone();
    let handshake = move |stream| {
        let acceptor = acceptor.clone();
        async move { acceptor.accept(stream).await.ok() }
    };
    let respond = move |request| {
        let replica = Arc::clone(&replica);
        async move { answer(&replica, request).await }
    };
    http_server::serve(listener, LIMITS, end, handshake, respond).await;
}

async fn answer(replica: &Arc<Replica>, request: Request<Bytes>) -> Response<Full<Bytes>> {
    if request.method() != Method::POST || request.uri().path() != "/review" {
        return http_server::answer(StatusCode::NOT_FOUND, TEXT, "POST AdmissionReviews to /review\n");
    }
    match review::answer(replica, request.body()).await {
        Ok(review) => {
            let mut response = http_server::answer(StatusCode::OK, "application/json", review.to_string());
            if replica.stop.is_cancelled() {
                // Otherwise the next review could be on its way on this connection when the replica ends.
                response.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
            }
            response
        }
        Err(problem) => http_server::answer(StatusCode::BAD_REQUEST, TEXT, format!("{problem}\n")),
    }
}
