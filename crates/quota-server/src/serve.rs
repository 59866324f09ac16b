//! HTTPS for API servers, and plain HTTP for probes and scrapes.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use headroom_kube::metric_registry;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use super::{Replica, review};

/// The API server sends objects of up to 3 MiB; an update includes the old object.
const LARGEST_REVIEW: usize = 8 << 20;
/// How long a client may take over TLS and its headers.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Answers reviews until the replica stops, then finishes those in progress.
pub async fn reviews(replica: Arc<Replica>, listener: TcpListener, acceptor: TlsAcceptor) {
    let connections = TaskTracker::new();
    // Connections are still accepted while draining.
    let end = replica.drained.clone();
    while let Some(stream) = end.run_until_cancelled(accept(&listener)).await {
        let (replica, acceptor) = (Arc::clone(&replica), acceptor.clone());
        connections.spawn(async move {
            let Ok(Ok(stream)) = tokio::time::timeout(CONNECTION_TIMEOUT, acceptor.accept(stream)).await else {
                return;
            };
            let drained = replica.drained.clone();
            let service = service_fn(move |request| {
                let replica = Arc::clone(&replica);
                async move { Ok::<_, Infallible>(answer(&replica, request).await) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(Duration::from_secs(300))
                .serve_connection(TokioIo::new(stream), service);
            let mut connection = std::pin::pin!(connection);
            let ended = tokio::select! {
                ended = &mut connection => ended,
                () = drained.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
    connections.close();
    connections.wait().await;
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // A review is small, and a client waits for it.
                _ = stream.set_nodelay(true);
                return stream;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn answer(replica: &Arc<Replica>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    if request.method() != Method::POST || request.uri().path() != "/review" {
        return text(StatusCode::NOT_FOUND, "POST AdmissionReviews to /review\n".to_owned());
    }
    let Ok(body) = Limited::new(request.into_body(), LARGEST_REVIEW).collect().await else {
        return text(StatusCode::PAYLOAD_TOO_LARGE, format!("a review has at most {LARGEST_REVIEW} bytes\n"));
    };
    match review::answer(replica, &body.to_bytes()).await {
        Ok(review) => {
            let mut response = Response::new(Full::new(Bytes::from(review.to_string())));
            let json = header::HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, json);
            response
        }
        Err(problem) => text(StatusCode::BAD_REQUEST, format!("{problem}\n")),
    }
}

/// Answers probes and scrapes until the program ends.
pub async fn status(replica: Arc<Replica>, listener: TcpListener) {
    loop {
        let (stream, replica) = (accept(&listener).await, Arc::clone(&replica));
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let response = page(&replica, request.uri().path());
                async move { Ok::<_, Infallible>(response) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(CONNECTION_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
}

fn page(replica: &Replica, path: &str) -> Response<Full<Bytes>> {
    match path {
        "/metrics" => {
            let kind = header::HeaderValue::from_static(metric_registry::CONTENT_TYPE);
            let mut response = text(StatusCode::OK, replica.metrics.to_string());
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            response
        }
        "/healthz" => text(StatusCode::OK, "ok\n".to_owned()),
        "/readyz" if replica.stop.is_cancelled() => text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned()),
        "/readyz" if replica.is_ready() => text(StatusCode::OK, "ok\n".to_owned()),
        "/readyz" => {
            text(StatusCode::SERVICE_UNAVAILABLE, "ledgers, quotas and namespaces not listed yet\n".to_owned())
        }
        _ => text(StatusCode::NOT_FOUND, "/healthz, /readyz or /metrics\n".to_owned()),
    }
}

fn text(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
