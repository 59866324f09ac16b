//! An in-memory API server for kube's own client. By a seed, it is slow, cuts watches, forgets revisions, and fails
//! before or after a write. Conflicts are real.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;

/// A seeded random generator that tasks can share.
pub struct Chance(Mutex<fastrand::Rng>);

impl Chance {
    pub fn u64(&self) -> u64 {
        self.0.lock().unwrap().u64(..)
    }

    pub fn below(&self, end: usize) -> usize {
        self.0.lock().unwrap().usize(..end)
    }

    pub fn one_in(&self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// A random duration up to `most` milliseconds.
    pub fn millis(&self, most: u64) -> Duration {
        Duration::from_millis(self.0.lock().unwrap().u64(..=most))
    }
}

pub struct ApiServer {
    pub chance: Chance,
    /// Whether random failures are off.
    is_calm: bool,
    /// The number of writes of the ledger that will fail next.
    failing_writes: AtomicUsize,
    inner: Mutex<Inner>,
    /// The current revision, for watches.
    news: watch::Sender<u64>,
    conflicts: AtomicUsize,
    failures: AtomicUsize,
    cuts: AtomicUsize,
    /// The limit and the bytes of each page of the pods.
    pages: Mutex<Vec<(usize, usize)>>,
    /// The paths of the objects and pages that were read.
    reads: Mutex<Vec<String>>,
    /// The end of the path of lists that get no answer.
    silent: Mutex<Option<&'static str>>,
}

#[derive(Default)]
struct Inner {
    revision: u64,
    /// By collection, namespace and name.
    objects: BTreeMap<(String, String, String), Value>,
    /// Each change with its revision, collection and namespace.
    events: Vec<(u64, String, String, Value)>,
}

/// The parts of a path.
struct Place {
    /// Such as `/api/v1/pods`, without the namespace.
    collection: String,
    namespace: String,
    name: String,
}

impl Place {
    fn of(path: &str) -> Option<Self> {
        let path = path.strip_suffix("/status").unwrap_or(path);
        let mut parts = path.trim_start_matches('/').split('/');
        let version: Vec<&str> = match parts.next()? {
            "api" => vec!["api", parts.next()?],
            _ => vec!["apis", parts.next()?, parts.next()?],
        };
        let rest: Vec<&str> = parts.collect();
        let (namespace, plural, name) = match rest.as_slice() {
            ["namespaces", namespace, plural] => (*namespace, *plural, ""),
            ["namespaces", namespace, plural, name] => (*namespace, *plural, *name),
            [plural, name] => ("", *plural, *name),
            [plural] => ("", *plural, ""),
            _ => return None,
        };
        let collection = format!("/{}/{plural}", version.join("/"));
        Some(Self { collection, namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

fn answer(code: StatusCode, object: &Value) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(object.to_string())).boxed_unsync());
    *response.status_mut() = code;
    response
}

fn status(code: u16, reason: &str) -> Answer {
    let object = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason});
    answer(StatusCode::from_u16(code).unwrap(), &object)
}

impl ApiServer {
    pub fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self::with(seed, false))
    }

    /// A server that fails only on request.
    pub fn calm() -> Arc<Self> {
        Arc::new(Self::with(0, true))
    }

    fn with(seed: u64, is_calm: bool) -> Self {
        Self {
            chance: Chance(Mutex::new(fastrand::Rng::with_seed(seed))),
            is_calm,
            failing_writes: AtomicUsize::new(0),
            inner: Mutex::default(),
            news: watch::Sender::new(0),
            conflicts: AtomicUsize::new(0),
            failures: AtomicUsize::new(0),
            cuts: AtomicUsize::new(0),
            pages: Mutex::default(),
            reads: Mutex::default(),
            silent: Mutex::default(),
        }
    }

    /// The limit and the bytes of each page of the pods so far.
    pub fn pages(&self) -> Vec<(usize, usize)> {
        self.pages.lock().unwrap().clone()
    }

    /// The paths of the objects and pages that were read since the last call.
    pub fn take_reads(&self) -> Vec<String> {
        std::mem::take(&mut self.reads.lock().unwrap())
    }

    /// From now on, lists whose path ends with this get no answer.
    pub fn leave_unanswered(&self, path: &'static str) {
        *self.silent.lock().unwrap() = Some(path);
    }

    /// Makes the next writes of the ledger fail.
    pub fn fail_writes(&self, count: usize) {
        self.failing_writes.store(count, Ordering::Relaxed);
    }

    /// The number of writes that will still fail.
    pub fn failing_writes(&self) -> usize {
        self.failing_writes.load(Ordering::Relaxed)
    }

    fn has_trouble(&self, one_in: usize) -> bool {
        !self.is_calm && self.chance.one_in(one_in)
    }

    pub fn client(self: &Arc<Self>) -> Client {
        let server = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = Arc::clone(&server);
            async move { server.answer(request).await }
        });
        Client::new(service, "default")
    }

    pub fn counters(&self) -> String {
        let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        format!(
            "{} conflicts, {} failures, {} watches cut",
            count(&self.conflicts),
            count(&self.failures),
            count(&self.cuts)
        )
    }

    pub async fn answer(self: Arc<Self>, request: Request<Body>) -> Result<Answer, std::io::Error> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        tokio::time::sleep(self.chance.millis(6)).await;
        let is_write = match parts.method {
            Method::PUT => parts.uri.path().ends_with("/quotaledgers/trees.1"),
            _ => parts.method == Method::POST && parts.uri.path().ends_with("/quotaledgers"),
        };
        let fails = |left: usize| left.checked_sub(1).filter(|_| is_write);
        let is_to_fail = self.failing_writes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fails).is_ok();
        if is_to_fail || self.has_trouble(40) {
            self.failures.fetch_add(1, Ordering::Relaxed);
            return Ok(status(500, "etcdserver: request timed out"));
        }
        // Decoded before it is split, as the API server does it.
        let path = parts.uri.path().replace("%2F", "/").replace("%25", "%");
        if path.split('/').any(|name| name == "%") {
            return Ok(status(400, "Name parameter invalid: \"%\": may not contain '%'"));
        }
        let query = parts.uri.query().unwrap_or_default();
        if query.contains("watch=1") {
            return Ok(self.watch(&path, query));
        }
        if parts.method == Method::GET {
            self.reads.lock().unwrap().push(path.clone());
        }
        let is_list = parts.method == Method::GET && query.contains("limit=");
        let silent = *self.silent.lock().unwrap();
        if is_list && silent.is_some_and(|silent| path.ends_with(silent)) {
            std::future::pending::<()>().await;
        }
        let done = if is_list { self.page(&path, query) } else { self.done(&parts.method, &path, body) };
        tokio::time::sleep(self.chance.millis(6)).await;
        if parts.method != Method::GET && self.has_trouble(25) {
            self.failures.fetch_add(1, Ordering::Relaxed);
            return Err(std::io::Error::other("the answer is lost"));
        }
        Ok(done)
    }

    /// A page of a list, from the object that `continue` numbers.
    fn page(&self, path: &str, query: &str) -> Answer {
        let Some(place) = Place::of(path) else { return status(404, "NotFound") };
        let number = |name: &str| query.split('&').find_map(|part| part.strip_prefix(name)?.parse::<usize>().ok());
        let (limit, from) = (number("limit=").unwrap(), number("continue=").unwrap_or(0));
        let inner = self.inner.lock().unwrap();
        let is_listed = |(collection, namespace, _): &(String, String, String)| {
            *collection == place.collection && (place.namespace.is_empty() || *namespace == place.namespace)
        };
        let all: Vec<&Value> =
            inner.objects.iter().filter(|(key, _)| is_listed(key)).map(|(_, object)| object).collect();
        let items: Vec<&Value> = all.iter().skip(from).take(limit).copied().collect();
        let to = from + items.len();
        let next = if to < all.len() { to.to_string() } else { String::new() };
        let list =
            json!({"metadata": {"resourceVersion": inner.revision.to_string(), "continue": next}, "items": items});
        if place.collection == "/api/v1/pods" {
            self.pages.lock().unwrap().push((limit, list.to_string().len()));
        }
        answer(StatusCode::OK, &list)
    }

    fn done(&self, method: &Method, path: &str, body: Value) -> Answer {
        if path == "/api/v1" {
            return answer(StatusCode::OK, &json!({"resources": [{"name": "pods", "namespaced": true}]}));
        }
        // An aggregated API whose own server is away.
        if path == "/apis/down.example.com" {
            return status(503, "service unavailable");
        }
        // Dynamic resource allocation is on in a cluster that has device classes.
        let has_devices =
            || self.inner.lock().unwrap().objects.keys().any(|(collection, ..)| collection.ends_with("deviceclasses"));
        if path == "/apis/resource.k8s.io" && has_devices() {
            return answer(StatusCode::OK, &json!({"preferredVersion": {"groupVersion": "resource.k8s.io/v1"}}));
        }
        if path == "/apis/resource.k8s.io/v1" && has_devices() {
            let resource = |name: &str, is_namespaced: bool| json!({"name": name, "namespaced": is_namespaced});
            let resources = [resource("resourceclaims", true), resource("deviceclasses", false)];
            return answer(StatusCode::OK, &json!({"resources": resources}));
        }
        let Some(place) = Place::of(path) else { return status(404, "NotFound") };
        if body.to_string().len() > 1_572_864 {
            return status(500, "etcdserver: request is too large");
        }
        let mut inner = self.inner.lock().unwrap();
        let name = match body.pointer("/metadata/name").and_then(Value::as_str) {
            Some(name) if method == Method::POST => name.to_owned(),
            _ => place.name.clone(),
        };
        let key = (place.collection.clone(), place.namespace.clone(), name.clone());
        let there = inner.objects.get(&key).cloned();
        let object = match (method.as_str(), there) {
            ("GET", Some(there)) => return answer(StatusCode::OK, &there),
            ("POST", Some(_)) => return status(409, "AlreadyExists"),
            ("POST", None) => body,
            ("PUT", Some(there)) => {
                if body["metadata"]["resourceVersion"] != there["metadata"]["resourceVersion"] {
                    self.conflicts.fetch_add(1, Ordering::Relaxed);
                    return status(409, "Conflict");
                }
                body
            }
            ("PATCH", Some(mut there)) => {
                merge(&mut there, &body);
                there
            }
            ("DELETE", Some(there)) => {
                inner.objects.remove(&key);
                inner.write(&place, there, "DELETED");
                drop(inner);
                self.notify();
                return answer(StatusCode::OK, &json!({"kind": "Status", "status": "Success"}));
            }
            _ => return status(404, "NotFound"),
        };
        let object = inner.write(&place, object, if method == Method::POST { "ADDED" } else { "MODIFIED" });
        inner.objects.insert(key, object.clone());
        drop(inner);
        self.notify();
        answer(StatusCode::OK, &object)
    }

    fn notify(&self) {
        let revision = self.inner.lock().unwrap().revision;
        self.news.send_replace(revision);
    }

    fn watch(self: Arc<Self>, path: &str, query: &str) -> Answer {
        let from = query.split('&').find_map(|part| part.strip_prefix("resourceVersion=")).unwrap();
        let mut seen: u64 = from.parse().unwrap();
        let place = Place::of(path).unwrap();
        if self.has_trouble(12) {
            self.cuts.fetch_add(1, Ordering::Relaxed);
            return status(410, "Expired");
        }
        let mut news = self.news.subscribe();
        let (sender, receiver) = tokio::sync::mpsc::channel(16);
        tokio::spawn(async move {
            let rounds = if self.is_calm { usize::MAX } else { self.chance.below(60) };
            for _ in 0..rounds {
                let (up_to, lines): (u64, Vec<(u64, Value)>) = {
                    let inner = self.inner.lock().unwrap();
                    let is_new = |(revision, collection, namespace, _): &&(u64, String, String, Value)| {
                        *revision > seen
                            && *collection == place.collection
                            && (place.namespace.is_empty() || *namespace == place.namespace)
                    };
                    let lines = inner.events.iter().filter(is_new).map(|event| (event.0, event.3.clone()));
                    (inner.revision, lines.collect())
                };
                for (revision, line) in lines {
                    seen = revision;
                    // A watch lags, sometimes for long.
                    let lag = if self.has_trouble(50) { 300 } else { 15 };
                    tokio::time::sleep(self.chance.millis(lag)).await;
                    let frame = Frame::data(Bytes::from(format!("{line}\n")));
                    if sender.send(Ok::<_, Infallible>(frame)).await.is_err() {
                        return;
                    }
                }
                tokio::select! {
                    _ = news.changed() => {}
                    () = sender.closed() => return,
                    () = tokio::time::sleep(Duration::from_secs(1)) => {
                        let object = json!({"metadata": {"resourceVersion": up_to.to_string()}});
                        let frame = Bytes::from(format!("{}\n", json!({"type": "BOOKMARK", "object": object})));
                        if sender.send(Ok(Frame::data(frame))).await.is_err() {
                            return;
                        }
                    }
                }
            }
            self.cuts.fetch_add(1, Ordering::Relaxed);
        });
        let stream = futures::stream::unfold(receiver, |mut receiver| async move {
            receiver.recv().await.map(|frame| (frame, receiver))
        });
        Response::new(StreamBody::new(stream).boxed_unsync())
    }

    /// Writes an object without random failures.
    pub fn put(&self, version: &str, namespace: Option<&str>, object: Value, plural: &str) {
        let collection = format!("{version}/{plural}");
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let place = Place { collection, namespace: namespace.unwrap_or_default().to_owned(), name: name.clone() };
        let mut inner = self.inner.lock().unwrap();
        let object = inner.write(&place, object, "ADDED");
        inner.objects.insert((place.collection, place.namespace, name), object);
        drop(inner);
        self.notify();
    }

    /// Stores a pod, if its name is free; never more than `most`.
    pub fn store_pod(&self, pod: Value, most: usize) -> bool {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap().to_owned();
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        let key = ("/api/v1/pods".to_owned(), namespace.clone(), name);
        if self.inner.lock().unwrap().objects.contains_key(&key) {
            return false;
        }
        self.put("/api/v1", Some(&namespace), pod, "pods");
        let stored = self.pods();
        assert!(stored <= most, "{stored} are stored, {most} are allowed");
        true
    }

    /// Edits the only ledger.
    pub fn edit_ledger(&self, patch: Value) {
        let path = "/apis/headroom.dev/v1alpha1/namespaces/headroom/quotaledgers/trees.1";
        drop(self.done(&Method::PATCH, path, patch));
    }

    pub fn delete_pod(&self, namespace: &str, name: &str) {
        drop(self.done(&Method::DELETE, &format!("/api/v1/namespaces/{namespace}/pods/{name}"), Value::Null));
    }

    pub fn object(&self, collection: &str, namespace: &str, name: &str) -> Value {
        let key = (collection.to_owned(), namespace.to_owned(), name.to_owned());
        self.inner.lock().unwrap().objects.get(&key).cloned().unwrap_or_default()
    }

    pub fn pods(&self) -> usize {
        self.inner.lock().unwrap().objects.keys().filter(|(collection, ..)| collection == "/api/v1/pods").count()
    }

    /// The only ledger, if there is one.
    pub fn ledger(&self) -> Value {
        let inner = self.inner.lock().unwrap();
        let found = inner
            .objects
            .iter()
            .find(|((collection, _, name), _)| collection.ends_with("quotaledgers") && name == "trees.1");
        found.map(|(_, ledger)| ledger.clone()).unwrap_or_default()
    }
}

impl Inner {
    /// Stores the object with the next revision, and notifies watches.
    fn write(&mut self, place: &Place, mut object: Value, event: &str) -> Value {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let notice = json!({"type": event, "object": object});
        self.events.push((self.revision, place.collection.clone(), place.namespace.clone(), notice));
        object
    }
}

fn merge(object: &mut Value, patch: &Value) {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            for (name, value) in patch {
                if value.is_null() {
                    object.remove(name);
                } else {
                    merge(object.entry(name.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (object, patch) => *object = patch.clone(),
    }
}
