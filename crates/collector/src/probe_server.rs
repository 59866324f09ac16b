//! `/healthz` and `/metrics`, for the cluster's probes and scrapes.

use std::sync::Arc;

use headroom_api_server::clock;
use headroom_api_server::http_server::{ServerLimits, serve_pages};
use headroom_api_server::metric_registry::CONTENT_TYPE;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Bytes;
use tokio::net::TcpListener;

use crate::metrics::CollectorMetrics;

/// A collector without a sign of life for so long is stuck. Longer than the timeout of any request.
const STUCK_AFTER: i64 = 15 * 60;

/// Answers probes and scrapes until the program ends.
pub async fn serve(listener: TcpListener, metrics: Arc<CollectorMetrics>) {
    let respond = move |request| std::future::ready(answer(&request, &metrics, clock::now()));
    serve_pages(listener, ServerLimits::PAGES, respond).await;
}

fn answer(request: &Request<Bytes>, metrics: &CollectorMetrics, now: i64) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    let (status, text) = page(path, metrics, now);
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = if path == "/metrics" { CONTENT_TYPE } else { "text/plain; charset=utf-8" };
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

fn page(path: &str, metrics: &CollectorMetrics, now: i64) -> (StatusCode, String) {
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
        let metrics = CollectorMetrics::default();
        metrics.alive(1_000);
        assert_eq!(page("/healthz", &metrics, 1_000 + STUCK_AFTER).0, StatusCode::OK);
        assert_eq!(page("/healthz", &metrics, 1_001 + STUCK_AFTER).0, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(page("/", &metrics, 1_000).0, StatusCode::NOT_FOUND);
        assert!(page("/metrics", &metrics, 1_000).1.contains("headroom_collector_samples_total 0\n"));
    }
}
