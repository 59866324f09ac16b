//! An HTTPS server that answers admission reviews, for API servers to call.
//!
//! It only implements the protocol: a function gets the path and the request of each review, and answers. Reviews are
//! answered on threads that may block.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::certificate::{Authority, ServerCertificate};

/// Answers the request of a review, sent to a path, with the fields of an AdmissionResponse; the server adds the `uid`.
type Review = dyn Fn(&str, &Value) -> Value + Send + Sync;

/// The number of reviews by path and namespace.
type CallCounts = Arc<Mutex<BTreeMap<(String, String), usize>>>;

/// Serves until it is dropped.
pub struct WebhookServer {
    address: String,
    authority: String,
    counts: CallCounts,
    accepting: JoinHandle<()>,
}

impl WebhookServer {
    /// Listens on loopback, or on all addresses if `HEADROOM_WEBHOOK_HOST` is set: the cluster of `KUBECONFIG` calls
    /// webhooks at that name or address, which must reach this machine.
    pub async fn start(review: impl Fn(&str, &Value) -> Value + Send + Sync + 'static) -> Result<Self> {
        let named = std::env::var("HEADROOM_WEBHOOK_HOST").ok();
        let host = named.as_deref().unwrap_or("127.0.0.1");
        let authority = Authority::new()?;
        let acceptor = acceptor(&authority.sign_server(&[host])?)?;
        let listener = TcpListener::bind((if named.is_some() { "0.0.0.0" } else { "127.0.0.1" }, 0)).await?;
        let address = format!("{host}:{}", listener.local_addr()?.port());
        let counts = CallCounts::default();
        let counted = Arc::clone(&counts);
        let counting = move |path: &str, request: &Value| {
            let namespace = request.get("namespace").and_then(Value::as_str).unwrap_or_default();
            let about = (path.to_owned(), namespace.to_owned());
            *counted.lock().unwrap_or_else(PoisonError::into_inner).entry(about).or_default() += 1;
            review(path, request)
        };
        let accepting = tokio::spawn(accept(listener, acceptor, Arc::new(counting)));
        Ok(Self { address, authority: authority.certificate(), counts, accepting })
    }

    /// The `clientConfig` of a webhook at `path`.
    pub fn client_config(&self, path: &str) -> Value {
        json!({"url": format!("https://{}{path}", self.address), "caBundle": STANDARD.encode(&self.authority)})
    }

    /// The number of reviews for `namespace` at `path`.
    pub fn calls(&self, path: &str, namespace: &str) -> usize {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(&(path.to_owned(), namespace.to_owned())).copied().unwrap_or_default()
    }
}

impl Drop for WebhookServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn acceptor(server: &ServerCertificate) -> Result<TlsAcceptor> {
    let certificate = CertificateDer::from_pem_slice(server.certificate.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(server.key.as_bytes())?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, review: Arc<Review>) {
    // Connections end when the server ends.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => connections.spawn(serve(stream, acceptor.clone(), Arc::clone(&review))),
            Err(error) => {
                eprintln!("webhook: cannot accept a connection: {error}");
                return;
            }
        };
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, review: Arc<Review>) {
    // The API server reports a failed call itself, with the webhook's name.
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(move |request| answer(request, Arc::clone(&review)));
    let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    drop(connection.await);
}

async fn answer(request: Request<Incoming>, review: Arc<Review>) -> Result<Response<Full<Bytes>>, Infallible> {
    let answer = reviewed(request, review).await.map(|review| {
        Response::builder().header("content-type", "application/json").body(Full::from(review.to_string()))
    });
    Ok(match answer {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => failure(&error.to_string()),
        Err(error) => failure(&format!("{error:#}")),
    })
}

fn failure(message: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(message.to_owned()));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}

async fn reviewed(request: Request<Incoming>, answer: Arc<Review>) -> Result<Value> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    let mut review: Value = serde_json::from_slice(&body).context("the body is not JSON")?;
    let request = review.get_mut("request").map(Value::take).context("the review has no request")?;
    let uid = request.get("uid").cloned().context("the request has no uid")?;
    let mut response = tokio::task::spawn_blocking(move || answer(&path, &request)).await?;
    response.as_object_mut().context("the answer is not an object")?.insert("uid".to_owned(), uid);
    Ok(json!({"apiVersion": review.get("apiVersion"), "kind": review.get("kind"), "response": response}))
}
