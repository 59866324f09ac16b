//! Requests to the API server: plain JSON by path, each with a timeout.

use std::fmt;
use std::time::Duration;

use http::{Method, Request, header};
use kube::{Client, Error};
use serde_json::Value;

use headroom_kube::error_chain::innermost;

/// How long one request may take. After that, the result of a write is unknown.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a list may take, page by page.
const LIST_PATIENCE: Duration = Duration::from_secs(30);
/// Objects in a page. Larger pages of pods permanently increase memory by tens of megabytes.
const PAGE: usize = 100;

#[derive(Clone)]
pub struct Api {
    client: Client,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    NotFound,
    /// Permissions are missing, or a webhook or quota refuses the request.
    Forbidden(String),
    /// The object was changed meanwhile, or already exists.
    Conflict,
    /// It is unknown whether the request was executed.
    Other(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("not found"),
            Self::Conflict => f.write_str("the object was changed meanwhile"),
            Self::Forbidden(text) | Self::Other(text) => f.write_str(text),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(status) if status.code == 404 => Self::NotFound,
            Error::Api(status) if status.code == 409 => Self::Conflict,
            Error::Api(status) if status.code == 403 => Self::Forbidden(status.message.clone()),
            Error::Api(status) => Self::Other(status.message.clone()),
            Error::Service(cause) => {
                Self::Other(format!("the API server cannot be reached: {}", innermost(cause.as_ref())))
            }
            error => Self::Other(error.to_string()),
        }
    }
}

impl Failure {
    /// Whether a retry would fail too.
    pub fn is_lasting(&self) -> bool {
        matches!(self, Self::NotFound | Self::Forbidden(_))
    }
}

pub type Answer<T> = Result<T, Failure>;

impl Api {
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads from etcd, not from a cache.
    pub async fn get(&self, path: &str) -> Answer<Value> {
        self.send(Method::GET, path, None, "application/json").await
    }

    pub async fn create(&self, path: &str, object: &Value) -> Answer<Value> {
        self.send(Method::POST, path, Some(object), "application/json").await
    }

    pub async fn replace(&self, path: &str, object: &Value) -> Answer<Value> {
        self.send(Method::PUT, path, Some(object), "application/json").await
    }

    pub async fn merge(&self, path: &str, patch: &Value) -> Answer<Value> {
        self.send(Method::PATCH, path, Some(patch), "application/merge-patch+json").await
    }

    pub async fn delete(&self, path: &str) -> Answer<Value> {
        self.send(Method::DELETE, path, None, "application/json").await
    }

    /// All objects of a collection from etcd, with the revision that they were listed at.
    pub async fn list(&self, path: &str) -> Answer<(u64, Vec<Value>)> {
        self.list_as(path, Some).await
    }

    /// Like [`Self::list`], but reduces each object by `read` as soon as its page has arrived: ten thousand whole pods
    /// take hundreds of megabytes.
    pub async fn list_as<T>(&self, path: &str, read: impl Fn(Value) -> Option<T>) -> Answer<(u64, Vec<T>)> {
        let (mut items, mut next, mut revision) = (Vec::new(), String::new(), 0);
        loop {
            let continued: String = form_urlencoded::byte_serialize(next.as_bytes()).collect();
            let page = format!("{path}?limit={PAGE}&continue={continued}");
            let mut page = self.get_within(&page, LIST_PATIENCE).await?;
            // All pages have the same revision.
            revision = revision_of(&page).unwrap_or(revision);
            next = page.pointer("/metadata/continue").and_then(Value::as_str).unwrap_or_default().to_owned();
            if let Some(Value::Array(more)) = page.get_mut("items").map(Value::take) {
                items.extend(more.into_iter().filter_map(&read));
            }
            if next.is_empty() {
                return Ok((revision, items));
            }
        }
    }

    async fn get_within(&self, path: &str, patience: Duration) -> Answer<Value> {
        let request = request(Method::GET, path, Vec::new(), "application/json")?;
        within(patience, self.client.request(request)).await
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>, kind: &str) -> Answer<Value> {
        let body = body.map(Value::to_string).unwrap_or_default().into_bytes();
        within(PATIENCE, self.client.request(request(method, path, body, kind)?)).await
    }
}

fn request(method: Method, path: &str, body: Vec<u8>, kind: &str) -> Answer<Request<Vec<u8>>> {
    let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, kind).body(body);
    request.map_err(|error| Failure::Other(error.to_string()))
}

async fn within(patience: Duration, answer: impl Future<Output = kube::Result<Value>>) -> Answer<Value> {
    match tokio::time::timeout(patience, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Failure::Other(format!("no answer within {} s", patience.as_secs()))),
    }
}

/// A name encoded as a path segment.
pub fn segment(name: &str) -> String {
    let encoded: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
    encoded.replace('+', "%20")
}

/// `metadata.resourceVersion` as a number.
pub fn revision_of(object: &Value) -> Option<u64> {
    object.pointer("/metadata/resourceVersion")?.as_str()?.parse().ok()
}
