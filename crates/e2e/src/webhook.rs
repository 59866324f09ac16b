//! An HTTPS server that answers admission reviews, for API servers to call.
//!
//! It only implements the protocol: a function gets the path and the request of each review, and answers. Reviews are
//! answered on threads that may block.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use headroom_api_server::http_server::{ServerLimits, serve};
use headroom_api_server::parts::locked;
use headroom_quota_server::serve::LIMITS;
use headroom_quota_server::tls;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::certificate;

/// Answers the request of a review, sent to a path, with the fields of an AdmissionResponse; the server adds the `uid`.
type Review = dyn Fn(&str, &Value) -> Value + Send + Sync;

/// The number of reviews by path and namespace.
type CallCounts = Arc<Mutex<BTreeMap<(String, String), usize>>>;

/// Serves until it is dropped.
pub struct WebhookServer {
    address: String,
    authority: String,
    counts: CallCounts,
    _stop: DropGuard,
}

impl WebhookServer {
    /// Listens on loopback, or on all addresses if `HEADROOM_WEBHOOK_HOST` is set: the cluster of `KUBECONFIG` calls
    /// webhooks at that name or address, which must reach this machine.
    pub async fn start(review: impl Fn(&str, &Value) -> Value + Send + Sync + 'static) -> Result<Self> {
        let named = std::env::var("HEADROOM_WEBHOOK_HOST").ok();
        let host = named.as_deref().unwrap_or("127.0.0.1");
        let counts = CallCounts::default();
        let counted = Arc::clone(&counts);
        let review: Arc<Review> = Arc::new(move |path: &str, request: &Value| {
            let namespace = request.get("namespace").and_then(Value::as_str).unwrap_or_default();
            let about = (path.to_owned(), namespace.to_owned());
            *locked(&counted).entry(about).or_default() += 1;
            review(path, request)
        });
        let respond = move |request| answer(request, Arc::clone(&review));
        let listener = TcpListener::bind((if named.is_some() { "0.0.0.0" } else { "127.0.0.1" }, 0)).await?;
        let address = format!("{host}:{}", listener.local_addr()?.port());
        let stop = CancellationToken::new();
        let authority = serve_https(listener, host, LIMITS, stop.clone(), respond)?;
        Ok(Self { address, authority, counts, _stop: stop.drop_guard() })
    }

    /// The `clientConfig` of a webhook at `path`.
    pub fn client_config(&self, path: &str) -> Value {
        json!({"url": format!("https://{}{path}", self.address), "caBundle": STANDARD.encode(&self.authority)})
    }

    /// The number of reviews for `namespace` at `path`.
    pub fn calls(&self, path: &str, namespace: &str) -> usize {
        locked(&self.counts).get(&(path.to_owned(), namespace.to_owned())).copied().unwrap_or_default()
    }
}

/// Answers requests over HTTPS by `respond` until `stop`. Returns the authority of its certificate, which is for `host`.
pub fn serve_https<R>(
    listener: TcpListener,
    host: &str,
    limits: ServerLimits,
    stop: CancellationToken,
    respond: impl Fn(Request<Bytes>) -> R + Clone + Send + 'static,
) -> Result<String>
where
    R: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let made = certificate::for_server(&[host])?;
    let certificate = Arc::new(tls::Certificate::default());
    certificate.set(made.certificate.as_bytes(), made.key.as_bytes())?;
    let acceptor = tls::acceptor(certificate, None)?;
    let handshake = move |stream| {
        let acceptor = acceptor.clone();
        // The API server reports a failed call itself.
        async move { acceptor.accept(stream).await.ok() }
    };
    tokio::spawn(serve(listener, limits, stop, handshake, respond));
    Ok(made.authority)
}

async fn answer(request: Request<Bytes>, review: Arc<Review>) -> Response<Full<Bytes>> {
    match reviewed(&request, review).await {
        Ok(review) => {
            Response::builder().header("content-type", "application/json").body(Full::from(review.to_string()))
        }
        Err(error) => {
            let response = Response::builder().status(StatusCode::INTERNAL_SERVER_ERROR);
            response.body(Full::from(format!("{error:#}")))
        }
    }
    .unwrap_or_default()
}

async fn reviewed(request: &Request<Bytes>, answer: Arc<Review>) -> Result<Value> {
    let path = request.uri().path().to_owned();
    let mut review: Value = serde_json::from_slice(request.body()).context("the body is not JSON")?;
    let request = review.get_mut("request").map(Value::take).context("the review has no request")?;
    let uid = request.get("uid").cloned().context("the request has no uid")?;
    let mut response = tokio::task::spawn_blocking(move || answer(&path, &request)).await?;
    response.as_object_mut().context("the answer is not an object")?.insert("uid".to_owned(), uid);
    Ok(json!({"apiVersion": review.get("apiVersion"), "kind": review.get("kind"), "response": response}))
}
