//! `/healthz`, `/readyz` and `/metrics` of a program, for the cluster's probes and scrapes.

use std::fmt::Display;
use std::sync::Arc;

use http::{Request, StatusCode};
use hyper::body::Bytes;
use tokio::net::TcpListener;

use crate::http_server::{ServerLimits, answer, serve_pages};
use crate::metric_registry;
use crate::parts::Parts;

const TEXT: &str = "text/plain; charset=utf-8";

/// Answers probes and scrapes until the program ends. `problem` says why the program is not ready.
pub async fn serve<M: Display + Send + Sync + 'static>(
    listener: TcpListener,
    parts: Parts,
    metrics: Arc<M>,
    problem: impl Fn() -> Option<String> + Clone + Send + 'static,
) {
    let respond = move |request: Request<Bytes>| {
        let (status, kind, text) = page(request.uri().path(), &parts, metrics.as_ref(), &problem);
        std::future::ready(answer(status, kind, text))
    };
    serve_pages(listener, ServerLimits::PAGES, respond).await;
}

fn page(
    path: &str,
    parts: &Parts,
    metrics: &dyn Display,
    problem: &dyn Fn() -> Option<String>,
) -> (StatusCode, &'static str, String) {
    let problem = match path {
        "/metrics" => return (StatusCode::OK, metric_registry::CONTENT_TYPE, metrics.to_string()),
        "/healthz" => parts.problem(),
        "/readyz" => parts.problem().or_else(problem),
        _ => return (StatusCode::NOT_FOUND, TEXT, "/healthz, /readyz or /metrics\n".to_owned()),
    };
    match problem {
        None => (StatusCode::OK, TEXT, "ok\n".to_owned()),
        Some(problem) => (StatusCode::SERVICE_UNAVAILABLE, TEXT, problem + "\n"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_page_says_what_is_so() {
        let parts = Parts::default();
        let check = |path: &str, problem: Option<&str>, status: StatusCode, text: &str| {
            let found = page(path, &parts, &"a 1", &|| problem.map(str::to_owned));
            assert_eq!((found.0, found.2.as_str()), (status, text), "{path}");
        };
        parts.finish("planner", Duration::from_secs(5), std::future::pending());
        check("/healthz", Some("no"), StatusCode::OK, "ok\n");
        check("/readyz", None, StatusCode::OK, "ok\n");
        check("/readyz", Some("no"), StatusCode::SERVICE_UNAVAILABLE, "no\n");
        check("/metrics", Some("no"), StatusCode::OK, "a 1");
        check("/", None, StatusCode::NOT_FOUND, "/healthz, /readyz or /metrics\n");
        tokio::time::sleep(Duration::from_secs(6)).await;
        check("/healthz", None, StatusCode::SERVICE_UNAVAILABLE, "part `planner`: no sign of life for 6 s\n");
    }
}
