//! `/healthz` and `/metrics`, for the cluster's probes and scrapes; and the connections of any server of ours.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

use crate::clock;
use crate::families::CONTENT_TYPE;
use crate::metrics::Metrics;

/// A collector that gave no sign of life for so long is stuck: longer than any answer is waited for.
const STUCK_AFTER: i64 = 15 * 60;
/// How long a client may take over its request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers probes and scrapes until the program ends.
pub async fn serve(listener: TcpListener, metrics: Arc<Metrics>) {
    connections(listener, move |request| std::future::ready(answer(&request, &metrics, clock::now()))).await;
}

/// Answers every request by `respond`, until the program ends.
pub async fn connections<R>(listener: TcpListener, respond: impl Fn(Request<Incoming>) -> R + Clone + Send + 'static)
where
    R: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    loop {
        let connection = match listener.accept().await {
            Ok((connection, _)) => connection,
            Err(error) => {
                // Mostly too many open files: no use in trying at once.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        let respond = respond.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answer = respond(request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .serve_connection(TokioIo::new(connection), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
}

fn answer(request: &Request<Incoming>, metrics: &Metrics, now: i64) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    let (status, text) = page(path, metrics, now);
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = if path == "/metrics" { CONTENT_TYPE } else { "text/plain; charset=utf-8" };
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

fn page(path: &str, metrics: &Metrics, now: i64) -> (StatusCode, String) {
    match path {
        "/metrics" => (StatusCode::OK, metrics.to_string()),
        "/healthz" => {
            let silent = now - metrics.last_sign_of_life();
            match silent <= STUCK_AFTER {
                true => (StatusCode::OK, "ok\n".to_owned()),
                false => (StatusCode::SERVICE_UNAVAILABLE, format!("no sign of life for {silent} s\n")),
            }
        }
        _ => (StatusCode::NOT_FOUND, "there are /healthz and /metrics\n".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_healthy_while_it_gives_signs_of_life() {
        let metrics = Metrics::default();
        metrics.alive(1_000);
        assert_eq!(page("/healthz", &metrics, 1_000 + STUCK_AFTER).0, StatusCode::OK);
        assert_eq!(page("/healthz", &metrics, 1_001 + STUCK_AFTER).0, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(page("/", &metrics, 1_000).0, StatusCode::NOT_FOUND);
        assert!(page("/metrics", &metrics, 1_000).1.contains("headroom_collector_samples_total 0\n"));
    }
}
