//! Requests to the API server: JSON by path, each with a timeout, and one type for all failures.
//!
//! Objects stay JSON, because most of them are reduced to a few fields at once: ten thousand whole pods take hundreds of
//! megabytes.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt as _};
use headroom_admission::json::{Document, Node, SyntaxError};
use http::{Method, Request, header};
use kube::client::Body;
use kube::core::Status;
use kube::{Client, Error};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::api_path::{ApiPath, query_value};
use crate::error_chain::cause_of;
use crate::retry::Retry;

/// The timeout of one request. After that, the result of a write is unknown.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// The timeout of the first request: an API server that does not answer is reported soon.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
const VERSION: ApiPath = ApiPath::new("/version");
/// Objects in a page. Larger pages of pods permanently increase memory by tens of megabytes.
const PAGE_SIZE: u32 = 100;
const METADATA_PAGE_SIZE: u32 = 500;
/// A page with more bytes is read again with fewer objects. Users choose how large objects are, up to the 1.5 MiB that etcd
/// accepts.
const MAX_PAGE_BYTES: u64 = 8 << 20;
/// No answer has more bytes, unpacked. Metrics of all pods come in one piece: about 600 bytes for each.
const MAX_ANSWER_BYTES: u64 = 256 << 20;

pub(crate) const JSON: &str = "application/json";
pub(crate) const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

#[derive(Clone)]
pub struct ApiClient {
    client: Client,
    timeout: Duration,
    page_timeout: Duration,
    retry: Retry,
    /// Limits the pages in memory.
    pages: Arc<Semaphore>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    #[error("not found")]
    NotFound(Missing),
    /// The account lacks a permission.
    #[error("{message}")]
    Forbidden { message: String },
    /// A quota or an admission webhook refuses the object.
    #[error("{message}")]
    Refused { message: String },
    #[error("{message}")]
    NamespaceTerminating { message: String },
    #[error("{message}")]
    Unauthenticated { message: String },
    /// The object was changed meanwhile, or already exists, or another field manager owns parts of it.
    #[error("the object was changed meanwhile")]
    Conflict { message: String },
    #[error("{message}")]
    Invalid { message: String },
    /// The API server is overloaded or has failed. A retry may succeed.
    #[error("{message}")]
    Unavailable { message: String },
    #[error("the API server cannot be reached: {cause}")]
    Unreachable { cause: String },
    #[error("the answer has more than {} MiB", .0 >> 20)]
    TooLong(u64),
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("{0}")]
    Other(String),
}

/// The part of a path that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    Object,
    Namespace,
    Kind,
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(status) => Self::of(&status),
            Error::Service(cause) => Self::Unreachable { cause: cause_of(cause.as_ref()) },
            Error::HyperError(cause) => Self::Unreachable { cause: cause_of(&cause) },
            error => Self::Other(error.to_string()),
        }
    }
}

impl ApiError {
    fn of(status: &Status) -> Self {
        let message = status.message.clone();
        let details = status.details.as_ref();
        let is_terminating =
            details.is_some_and(|details| details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating"));
        match status.code {
            _ if is_terminating => Self::NamespaceTerminating { message },
            401 => Self::Unauthenticated { message },
            403 if is_by_authorizer(&message) => Self::Forbidden { message },
            403 => Self::Refused { message },
            404 => Self::NotFound(match details {
                Some(details) if details.kind == "namespaces" => Missing::Namespace,
                Some(details) if !details.name.is_empty() => Missing::Object,
                _ => Missing::Kind,
            }),
            409 => Self::Conflict { message },
            400 | 422 => Self::Invalid { message },
            429 | 500.. => Self::Unavailable { message },
            _ => Self::Other(message),
        }
    }

    /// Returns true if a retry would fail too.
    pub fn is_lasting(&self) -> bool {
        matches!(self, Self::NotFound(_) | Self::Forbidden { .. } | Self::Refused { .. })
    }

    /// Returns true if a retry may succeed.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Unreachable { .. } | Self::TimedOut(_))
    }

    pub fn is_namespace_gone(&self) -> bool {
        matches!(self, Self::NotFound(Missing::Namespace) | Self::NamespaceTerminating { .. })
    }
}

/// Returns true for a message of the API server's authorizer, which names the user:
/// `pods "a" is forbidden: User "eve" cannot get resource …`. Quotas say `… is forbidden: exceeded quota`, and webhooks
/// `admission webhook "…" denied the request`. The API has no field that tells them apart.
fn is_by_authorizer(message: &str) -> bool {
    message.contains("is forbidden: User \"")
}

pub type ApiResult<T> = Result<T, ApiError>;

/// None if there is no such object or kind.
pub fn found<T>(answer: ApiResult<T>) -> ApiResult<Option<T>> {
    match answer {
        Err(ApiError::NotFound(_)) => Ok(None),
        answer => answer.map(Some),
    }
}

#[derive(Debug, Clone, Copy)]
pub struct ListOptions<'a> {
    pub page_size: u32,
    pub label_selector: &'a str,
    pub field_selector: &'a str,
    /// Leaves out everything except metadata.
    pub only_metadata: bool,
    /// The number of objects after which no further page is read.
    pub most: usize,
    /// The beginning of the first page, if it is not that of the list.
    pub from: &'a str,
}

impl ListOptions<'_> {
    pub const WHOLE: Self = ListOptions {
        page_size: PAGE_SIZE,
        label_selector: "",
        field_selector: "",
        only_metadata: false,
        most: usize::MAX,
        from: "",
    };
    pub const METADATA: Self = ListOptions { page_size: METADATA_PAGE_SIZE, only_metadata: true, ..Self::WHOLE };

    pub(crate) fn selectors(&self) -> String {
        let selector = |name: &str, selector: &str| match selector {
            "" => String::new(),
            selector => format!("&{name}={}", query_value(selector)),
        };
        selector("labelSelector", self.label_selector) + &selector("fieldSelector", self.field_selector)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    pub revision: u64,
    /// Where the list continues; empty at its end.
    pub next: String,
}

#[derive(Debug, Clone, Copy)]
pub struct ApplyOptions<'a> {
    pub manager: &'a str,
    /// Takes over fields that other managers own.
    pub force: bool,
    pub dry_run: bool,
}

impl ApplyOptions<'_> {
    fn at(&self, path: &ApiPath, more: &str) -> String {
        let dry_run = if self.dry_run { "&dryRun=All" } else { "" };
        format!("{path}?fieldManager={}{more}{dry_run}", query_value(self.manager))
    }
}

/// A request that may be sent more than once.
struct Message<'a> {
    method: Method,
    path: &'a str,
    body: Option<&'a Value>,
    content_type: &'a str,
    accept: &'a str,
    most_bytes: u64,
}

impl ApiClient {
    pub fn new(client: Client) -> Self {
        let pages = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
        Self { client, timeout: REQUEST_TIMEOUT, page_timeout: PAGE_TIMEOUT, retry: Retry::NEVER, pages }
    }

    /// Sets how many pages of lists are held at a time, for a program whose memory is limited.
    pub fn with_pages_at_once(self, pages: usize) -> Self {
        Self { pages: Arc::new(Semaphore::new(pages)), ..self }
    }

    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, page_timeout: timeout, ..self }
    }

    /// Repeats requests that fail for a reason that may pass.
    pub fn with_retry(self, retry: Retry) -> Self {
        Self { retry, ..self }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads the version of the API server at this address. The error is a message for users, if the server does not answer or
    /// does not accept the credentials. An account that may not read the version may still read objects, so that is none.
    pub async fn greet(&self, server: &str) -> Result<Option<Value>, String> {
        match self.clone().with_timeout(GREETING_TIMEOUT).get(&VERSION).await {
            Ok(version) => Ok(Some(version)),
            Err(ApiError::Unreachable { cause }) => Err(format!("cannot reach the API server {server}: {cause}")),
            Err(error @ ApiError::TimedOut(_)) => Err(format!("cannot reach the API server {server}: {error}")),
            Err(ApiError::Unauthenticated { message }) => Err(format!(
                "the API server {server} does not accept the credentials ({message}): they may have expired, so log in again"
            )),
            Err(_) => Ok(None),
        }
    }

    /// Reads from etcd, not from a cache.
    pub async fn get(&self, path: &ApiPath) -> ApiResult<Value> {
        self.send(&Message::get(path.as_str(), JSON), self.timeout).await
    }

    /// Like [`Self::get`]; none if there is no such object or kind.
    pub async fn find(&self, path: &ApiPath) -> ApiResult<Option<Value>> {
        found(self.get(path).await)
    }

    pub async fn get_metadata(&self, path: &ApiPath) -> ApiResult<Value> {
        self.send(&Message::get(path.as_str(), METADATA), self.timeout).await
    }

    /// Like [`Self::get`], as text, which takes a fraction of the memory.
    pub async fn get_text(&self, path: &ApiPath) -> ApiResult<String> {
        self.send_for_text(&Message::get(path.as_str(), JSON), self.timeout).await
    }

    pub async fn create(&self, path: &ApiPath, object: &Value) -> ApiResult<Value> {
        self.write(Method::POST, path.as_str(), object, JSON).await
    }

    pub async fn replace(&self, path: &ApiPath, object: &Value) -> ApiResult<Value> {
        self.write(Method::PUT, path.as_str(), object, JSON).await
    }

    pub async fn replace_for_metadata(&self, path: &ApiPath, object: &Value) -> ApiResult<Value> {
        let message = Message { method: Method::PUT, body: Some(object), ..Message::get(path.as_str(), METADATA) };
        self.send(&message, self.timeout).await
    }

    pub async fn merge(&self, path: &ApiPath, patch: &Value) -> ApiResult<Value> {
        self.write(Method::PATCH, path.as_str(), patch, "application/merge-patch+json").await
    }

    /// Patches the resources of a pod's containers, at the path of its resize subresource.
    pub async fn resize(&self, path: &ApiPath, patch: &Value) -> ApiResult<Value> {
        self.write(Method::PATCH, path.as_str(), patch, "application/strategic-merge-patch+json").await
    }

    /// The API server's clock in Unix seconds, by the `Date` of an answer.
    pub async fn time(&self) -> ApiResult<i64> {
        let request = Request::get(VERSION.as_str()).body(Body::empty());
        let request = request.map_err(|error| ApiError::Other(error.to_string()))?;
        let asked = tokio::time::timeout(self.timeout, self.client.send(request)).await;
        let answer = asked.map_err(|_| ApiError::TimedOut(self.timeout))??;
        let date = answer.headers().get(header::DATE).and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
        date.map(|date| date.timestamp().as_second())
            .ok_or_else(|| ApiError::Other("the API server does not say what time it is".to_owned()))
    }

    pub async fn apply(&self, path: &ApiPath, object: &Value, options: ApplyOptions<'_>) -> ApiResult<Value> {
        let force = if options.force { "&force=true" } else { "" };
        self.write(Method::PATCH, &options.at(path, force), object, "application/apply-patch+yaml").await
    }

    pub async fn patch(&self, path: &ApiPath, operations: &Value, options: ApplyOptions<'_>) -> ApiResult<Value> {
        self.write(Method::PATCH, &options.at(path, ""), operations, "application/json-patch+json").await
    }

    pub async fn delete(&self, path: &ApiPath) -> ApiResult<Value> {
        let message = Message { method: Method::DELETE, ..Message::get(path.as_str(), JSON) };
        self.send(&message, self.timeout).await
    }

    /// Deletes an object unless it has changed since it was read.
    pub async fn delete_unchanged(&self, path: &ApiPath, read: &Value) -> ApiResult<Value> {
        let field = |field: &str| read.pointer("/metadata").and_then(|metadata| metadata.get(field));
        let preconditions = json!({"uid": field("uid"), "resourceVersion": field("resourceVersion")});
        let options = json!({"apiVersion": "meta/v1", "kind": "DeleteOptions", "preconditions": preconditions});
        self.write(Method::DELETE, path.as_str(), &options, JSON).await
    }

    /// Lists a collection from etcd, with its revision. `read` reduces each object as soon as its page has arrived, or drops it.
    pub async fn list<T>(
        &self,
        path: &ApiPath,
        options: ListOptions<'_>,
        read: impl Fn(Node<'_>) -> Option<T>,
    ) -> ApiResult<(u64, Vec<T>)> {
        let mut items = Vec::new();
        let listed = self.for_each(path, options, |item| items.extend(read(item))).await?;
        Ok((listed.revision, items))
    }

    /// The revision of a collection in etcd.
    pub async fn revision(&self, path: &ApiPath) -> ApiResult<u64> {
        let options = ListOptions { page_size: 1, most: 1, ..ListOptions::METADATA };
        Ok(self.for_each(path, options, |_| {}).await?.revision)
    }

    pub async fn for_each(
        &self,
        path: &ApiPath,
        options: ListOptions<'_>,
        mut each: impl FnMut(Node<'_>),
    ) -> ApiResult<Listed> {
        let (mut listed, mut seen, mut page_size) = (Listed::default(), 0, options.page_size);
        let mut from = options.from.to_owned();
        loop {
            let page = self.page(path, options, &mut page_size, &from, |item| {
                seen += 1;
                each(item);
            });
            let (next, revision) = page.await?;
            // All pages have the same revision.
            listed.revision = revision.unwrap_or(listed.revision);
            if next.is_empty() || seen >= options.most {
                return Ok(Listed { next, ..listed });
            }
            from = next;
        }
    }

    /// Reads one page. Returns where the next page begins, and the revision. If the objects are too large, this page has fewer of
    /// them, and the next ones until they are small again: one large pod is no reason to read all others one by one.
    async fn page(
        &self,
        path: &ApiPath,
        options: ListOptions<'_>,
        page_size: &mut u32,
        from: &str,
        each: impl FnMut(Node<'_>),
    ) -> ApiResult<(String, Option<u64>)> {
        let selectors = options.selectors();
        let accept = if options.only_metadata { METADATA_LIST } else { JSON };
        let from = match from {
            "" => String::new(),
            from => format!("&continue={}", query_value(from)),
        };
        // OK because nobody closes it.
        let _held = self.pages.acquire().await;
        let page = loop {
            let page = format!("{path}?limit={page_size}{selectors}{from}");
            let most_bytes = if *page_size > 1 { MAX_PAGE_BYTES } else { MAX_ANSWER_BYTES };
            let message = Message { most_bytes, ..Message::get(&page, accept) };
            match self.send_for_text(&message, self.page_timeout).await {
                Err(ApiError::TooLong(_)) if *page_size > 1 => *page_size = (*page_size / 4).max(1),
                page => break page?,
            }
        };
        if (page.len() as u64) < MAX_PAGE_BYTES / 4 {
            *page_size = page_size.saturating_mul(2).min(options.page_size);
        }
        let unreadable = |problem: &dyn std::fmt::Display| ApiError::Other(format!("{path}: {problem}"));
        let page = document(page.as_bytes()).map_err(|problem| unreadable(&problem))?;
        let more = page.root().at(&["metadata", "continue"]).and_then(|more| more.map(Node::str).transpose());
        let next = more.map_err(|problem| unreadable(&problem))?.unwrap_or_default().into_owned();
        page.root().list("items").map_err(|problem| unreadable(&problem))?.for_each(each);
        Ok((next, revision_in(page.root())))
    }

    async fn write(&self, method: Method, path: &str, body: &Value, content_type: &str) -> ApiResult<Value> {
        let message = Message { method, body: Some(body), content_type, ..Message::get(path, JSON) };
        self.send(&message, self.timeout).await
    }

    async fn send(&self, message: &Message<'_>, timeout: Duration) -> ApiResult<Value> {
        let answer = self.send_for_text(message, timeout).await?;
        let read = serde_json::from_str(&answer).or_else(|_| serde_json::from_slice(&shallow(answer.as_bytes())));
        read.map_err(|error| ApiError::Other(error.to_string()))
    }

    async fn send_for_text(&self, message: &Message<'_>, timeout: Duration) -> ApiResult<String> {
        self.retry.run(ApiError::is_passing, || self.send_once(message, timeout)).await
    }

    async fn send_once(&self, message: &Message<'_>, timeout: Duration) -> ApiResult<String> {
        let request = message.request()?;
        let read = async {
            let bytes = read_whole(pin!(self.client.request_stream(request).await?), message.most_bytes).await?;
            String::from_utf8(bytes).map_err(|error| ApiError::Other(error.to_string()))
        };
        tokio::time::timeout(timeout, read).await.unwrap_or(Err(ApiError::TimedOut(timeout)))
    }
}

async fn read_whole(mut answer: impl AsyncBufRead + Unpin, most: u64) -> ApiResult<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let piece = answer.fill_buf().await.map_err(|error| ApiError::Unreachable { cause: error.to_string() })?;
        if piece.is_empty() {
            return Ok(bytes);
        }
        if (bytes.len() + piece.len()) as u64 > most {
            return Err(ApiError::TooLong(most));
        }
        bytes.extend_from_slice(piece);
        let read = piece.len();
        answer.consume_unpin(read);
    }
}

impl<'a> Message<'a> {
    fn get(path: &'a str, accept: &'a str) -> Self {
        Self { method: Method::GET, path, body: None, content_type: JSON, accept, most_bytes: MAX_ANSWER_BYTES }
    }

    fn request(&self) -> ApiResult<Request<Vec<u8>>> {
        let Self { method, path, body, content_type, accept, .. } = self;
        let body = body.map(Value::to_string).unwrap_or_default().into_bytes();
        let request = Request::builder().method(method).uri(*path);
        let request = request.header(header::CONTENT_TYPE, *content_type).header(header::ACCEPT, *accept).body(body);
        request.map_err(|error| ApiError::Other(error.to_string()))
    }
}

pub fn value(object: Node<'_>) -> Option<Value> {
    serde_json::from_str(object.text()).ok()
}

/// Reads an answer. Everybody may nest the managed fields of an object a thousand levels deep, and no list with that object in it could
/// be read: what is deeper than anything we look at is left out then.
pub(crate) fn document(answer: &[u8]) -> Result<Document<'_>, SyntaxError> {
    Document::read_bytes(answer).or_else(|_| Document::own(shallow(answer)))
}

/// The same JSON with empty lists and objects at this depth.
fn shallow(text: &[u8]) -> Vec<u8> {
    const DEEPEST: usize = 100;
    let (mut shallow, mut depth, mut in_string, mut is_escaped) = (Vec::new(), 0_usize, false, false);
    for byte in text {
        let before = depth;
        match byte {
            _ if in_string => (in_string, is_escaped) = (*byte != b'"' || is_escaped, *byte == b'\\' && !is_escaped),
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        shallow.extend((before.min(depth) < DEEPEST).then_some(*byte));
    }
    shallow
}

pub fn text_at<'d>(object: Node<'d>, path: &[&str]) -> Option<Cow<'d, str>> {
    object.at(path).ok()??.str().ok()
}

pub fn revision_in(object: Node<'_>) -> Option<u64> {
    text_at(object, &["metadata", "resourceVersion"])?.parse().ok()
}

pub fn revision_of(object: &Value) -> Option<u64> {
    object.pointer("/metadata/resourceVersion")?.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use http_body_util::StreamBody;
    use hyper::body::{Bytes, Frame};

    use super::*;

    fn error(status: Value) -> ApiError {
        ApiError::of(&serde_json::from_value(status).unwrap())
    }

    #[tokio::test]
    async fn an_answer_that_does_not_end_is_given_up_and_not_asked_for_again() {
        const PIECE: &[u8] = &[b' '; 1 << 16];
        let pieces = Arc::new(AtomicU64::new(0));
        let sent = Arc::clone(&pieces);
        // Blanks, as gzip makes them of a thousandth of their bytes.
        let endless = move |_: Request<kube::client::Body>| {
            let sent = Arc::clone(&sent);
            let piece = move || {
                sent.fetch_add(PIECE.len() as u64, Ordering::Relaxed);
                Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(PIECE)))
            };
            let answer = http::Response::new(StreamBody::new(futures::stream::repeat_with(piece)));
            std::future::ready(Ok::<_, std::io::Error>(answer))
        };
        let retry = Retry { attempts: 5, first_wait: Duration::ZERO, longest_wait: Duration::ZERO };
        let api = ApiClient::new(Client::new(tower::service_fn(endless), "default")).with_retry(retry);
        assert_eq!(api.get(&VERSION).await, Err(ApiError::TooLong(MAX_ANSWER_BYTES)));
        assert!(pieces.swap(0, Ordering::Relaxed) <= MAX_ANSWER_BYTES + (1 << 17));
        // A list asks for fewer objects, and in the end for one.
        let listed = api.list(&ApiPath::new("/api/v1/pods"), ListOptions::WHOLE, value).await;
        assert_eq!(listed, Err(ApiError::TooLong(MAX_ANSWER_BYTES)));
        assert!(pieces.swap(0, Ordering::Relaxed) <= MAX_ANSWER_BYTES + 3 * MAX_PAGE_BYTES + (1 << 19));
    }

    #[tokio::test]
    async fn behind_a_large_object_pages_grow_again() {
        let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        // The third of 400 pods is 9 MiB of JSON, as a pod of 1.4 MiB of `<` is once they are escaped.
        let cluster = move |request: Request<kube::client::Body>| {
            let uri = request.uri().to_string();
            let of = |name: &str| uri.split_once(name)?.1.split('&').next()?.parse::<usize>().ok();
            let (limit, from) = (of("limit=").unwrap(), of("continue=").unwrap_or(0));
            noted.lock().unwrap().push(limit);
            let size = |pod| if pod == 2 { 9 << 20 } else { 6_000 };
            let to = (from + limit).min(400);
            let items: Vec<_> = (from..to).map(|pod| json!({"a": "x".repeat(size(pod))})).collect();
            let next = if to < 400 { to.to_string() } else { String::new() };
            let answer = json!({"metadata": {"continue": next, "resourceVersion": "1"}, "items": items});
            let answer = http::Response::new(kube::client::Body::from(answer.to_string().into_bytes()));
            std::future::ready(Ok::<_, std::io::Error>(answer))
        };
        let api = ApiClient::new(Client::new(tower::service_fn(cluster), "default"));
        let (_, pods) = api.list(&ApiPath::new("/api/v1/pods"), ListOptions::WHOLE, |_| Some(())).await.unwrap();
        assert_eq!(pods.len(), 400);
        let asked = asked.lock().unwrap();
        assert_eq!(asked[..], [100, 25, 6, 1, 2, 1, 2, 1, 1, 2, 4, 8, 16, 32, 64, 100, 100, 100]);
    }

    #[test]
    fn an_object_that_is_nested_deeply_is_read_and_so_are_those_beside_it() {
        let deep = |levels: usize| format!("{}{}", r#"{"f:[\"]":["#.repeat(levels), "]}".repeat(levels));
        for levels in [1, 49, 50, 64, 500, 4_000] {
            let fields = deep(levels);
            let list = format!(
                r#"{{"items": [{{"metadata": {{"managedFields": [{fields}], "name": "a"}}}}, {{"metadata": {{"name": "b"}}}}]}}"#
            );
            let list = document(list.as_bytes()).unwrap();
            let objects = list.root().list("items").unwrap().map(|object| value(object).unwrap());
            let names: Vec<_> = objects.map(|object| object["metadata"]["name"].clone()).collect();
            assert_eq!(names, ["a", "b"], "{levels}");
        }
        for broken in [deep(500).trim_end_matches('}'), "[1, 2", ""] {
            assert!(document(broken.as_bytes()).is_err(), "{broken}");
        }
    }

    #[test]
    fn missing_permissions_differ_from_refusals() {
        let message = r#"pods is forbidden: User "eve" cannot list resource "pods" in API group """#;
        let forbidden = error(json!({"code": 403, "message": message, "details": {"kind": "pods"}}));
        assert_eq!(forbidden, ApiError::Forbidden { message: message.to_owned() });
        for message in [
            r#"pods "a" is forbidden: exceeded quota: objects, requested: pods=1"#,
            r#"admission webhook "guard.example" denied the request: no"#,
        ] {
            let refused = error(json!({"code": 403, "message": message}));
            assert_eq!(refused, ApiError::Refused { message: message.to_owned() });
        }
    }

    #[test]
    fn a_missing_object_differs_from_a_missing_namespace_and_kind() {
        let missing = |details: Value| error(json!({"code": 404, "message": "not found", "details": details}));
        let check = |details: Value, expected: Missing| assert_eq!(missing(details), ApiError::NotFound(expected));
        check(json!({"kind": "pods", "name": "a"}), Missing::Object);
        check(json!({"kind": "namespaces", "name": "a"}), Missing::Namespace);
        check(json!({}), Missing::Kind);
        let causes = json!([{"reason": "NamespaceTerminating", "message": "", "field": ""}]);
        let terminating = error(json!({"code": 403, "message": "no", "details": {"causes": causes}}));
        assert!(terminating.is_namespace_gone() && missing(json!({"kind": "namespaces"})).is_namespace_gone());
    }
}
