//! An in-memory API server with the kinds that the collector needs: namespaces, leases and profiles. It records
//! requests, and who held the lease when a profile was written.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headroom_usage_profile::layout::paths;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

/// The API server's behavior.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scenario {
    #[default]
    Ordinary,
    /// Every second request fails.
    Shaky,
    NotInstalled,
    Forbidden,
    /// Another writer of nginx's root.
    Conflict,
    /// A quota refuses objects of the kind.
    Quota,
    /// A webhook that denies nginx's root.
    Webhook,
    /// A webhook whose server is down, at nginx's root.
    BrokenWebhook,
    /// A webhook that denies a page of nginx's root.
    RefusedPage,
    /// Every request fails.
    Down,
    NoNamespace,
    /// Pods may not be listed.
    NoPods,
    /// Namespaces may not be listed.
    NoNamespaces,
}

/// nginx's root.
pub const NGINX_ROOT: &str = "usage-26";

const FORBIDDEN: &str = r#"usageprofiles.headroom.dev "usage-00" is forbidden: User "system:serviceaccount:headroom:collector" cannot patch resource "usageprofiles" in API group "headroom.dev" in the namespace "headroom""#;
const NO_PODS: &str = r#"pods is forbidden: User "system:serviceaccount:headroom:collector" cannot list resource "pods" in API group "" at the cluster scope"#;
const QUOTA: &str = r#"usageprofiles.headroom.dev "usage-26" is forbidden: exceeded quota: objects, requested: count/usageprofiles.headroom.dev=1, used: count/usageprofiles.headroom.dev=0, limited: count/usageprofiles.headroom.dev=0"#;
const WEBHOOK: &str = r#"admission webhook "guard.example" denied the request: only people may write here"#;
const BROKEN_WEBHOOK: &str = r#"Internal error occurred: failed calling webhook "guard.example": connection refused"#;

/// A write of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    pub object: String,
    /// The id of the store from which the profile is made.
    pub store: String,
    /// The holder of the lease at that time.
    pub holder: String,
}

pub struct ApiServer {
    pub scenario: Mutex<Scenario>,
    /// UID of kube-system.
    pub uid: String,
    /// Profiles by `namespace/name`.
    pub profiles: Mutex<BTreeMap<String, Value>>,
    /// Metadata of pods.
    pub pods: Mutex<Vec<Value>>,
    /// Metadata of Namespaces.
    pub namespaces: Mutex<Vec<Value>>,
    pub lease: Mutex<Option<Value>>,
    pub writes: Mutex<Vec<Write>>,
    /// Method, path and query of each request.
    pub requests: Mutex<Vec<String>>,
    /// The delay of each response.
    pub delay: Mutex<Duration>,
    versions: Mutex<u64>,
}

fn status(code: StatusCode, reason: &str, message: &str, details: Value) -> (StatusCode, Value) {
    let number = code.as_u16();
    let object = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": number, "reason": reason,
        "message": message, "details": details});
    (code, object)
}

fn not_found(kind: &str, name: &str) -> (StatusCode, Value) {
    let message = format!("{kind} \"{name}\" not found");
    status(StatusCode::NOT_FOUND, "NotFound", &message, json!({"kind": kind, "name": name}))
}

impl ApiServer {
    pub fn new(uid: &str) -> Arc<Self> {
        Arc::new(Self {
            scenario: Mutex::default(),
            uid: uid.to_owned(),
            profiles: Mutex::default(),
            pods: Mutex::default(),
            namespaces: Mutex::default(),
            lease: Mutex::default(),
            writes: Mutex::default(),
            requests: Mutex::default(),
            delay: Mutex::default(),
            versions: Mutex::default(),
        })
    }

    /// Listens on loopback, within a Tokio runtime.
    pub async fn listen(self: &Arc<Self>) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                let server = Arc::clone(&server);
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let server = Arc::clone(&server);
                        async move { Ok::<_, Infallible>(server.answer(request).await) }
                    });
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(connection), service)
                        .await;
                });
            }
        });
        address
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        // An incomplete request of a killed client is ignored.
        let Ok(body) = body.collect().await else { return Response::new(Full::default()) };
        let body = body.to_bytes();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let delay = *self.delay.lock().unwrap();
        tokio::time::sleep(delay).await;
        self.requests.lock().unwrap().push(format!("{} {}", parts.method, parts.uri));
        let (code, body) = self.object(&parts, body);
        let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
        *response.status_mut() = code;
        response
    }

    fn object(&self, request: &http::request::Parts, body: Value) -> (StatusCode, Value) {
        let scenario = *self.scenario.lock().unwrap();
        let is_second = self.requests.lock().unwrap().len().is_multiple_of(2);
        if scenario == Scenario::Down || scenario == Scenario::Shaky && is_second {
            return status(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "etcd has no leader", json!({}));
        }
        let path = request.uri.path();
        if path == "/api/v1/namespaces/kube-system" {
            let created = "2026-01-02T03:04:05Z";
            let metadata = json!({"name": "kube-system", "uid": self.uid, "creationTimestamp": created});
            return (StatusCode::OK, json!({"kind": "Namespace", "apiVersion": "v1", "metadata": metadata}));
        }
        if path == "/api/v1/pods" {
            return self.pods(request);
        }
        if path == "/api/v1/namespaces" {
            if request.uri.query().is_some_and(|query| query.contains("watch=1")) {
                return status(StatusCode::GONE, "Expired", "too old resource version", json!({}));
            }
            if scenario == Scenario::NoNamespaces {
                return status(StatusCode::FORBIDDEN, "Forbidden", "namespaces is forbidden", json!({}));
            }
            let items: Vec<_> =
                self.namespaces.lock().unwrap().iter().map(|metadata| json!({"metadata": metadata})).collect();
            let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "items": items});
            return (StatusCode::OK, list);
        }
        if let Some(path) = path.strip_prefix("/apis/coordination.k8s.io/v1/namespaces/") {
            return self.lease(&request.method, path, body);
        }
        let path = path.strip_prefix("/apis/headroom.dev/v1alpha1/namespaces/").unwrap();
        if scenario == Scenario::NotInstalled {
            let message = "the server could not find the requested resource";
            return status(StatusCode::NOT_FOUND, "NotFound", message, json!({}));
        }
        match path.split_once("/usageprofiles/") {
            Some((namespace, name)) => self.profile(request, namespace, name, body),
            None => self.list(path.strip_suffix("/usageprofiles").unwrap(), request.uri.query().unwrap()),
        }
    }

    /// The metadata of two pods at a time; nothing else of pods is requested.
    fn pods(&self, request: &http::request::Parts) -> (StatusCode, Value) {
        assert!(request.headers["accept"].to_str().unwrap().contains("as=PartialObjectMetadataList"));
        let query = request.uri.query().unwrap();
        assert!(query.contains("limit=500"), "{query}");
        if *self.scenario.lock().unwrap() == Scenario::NoPods {
            return status(StatusCode::FORBIDDEN, "Forbidden", NO_PODS, json!({}));
        }
        let first = query.split('&').find_map(|one| one.strip_prefix("continue=")).map_or(0, |at| at.parse().unwrap());
        let pods = self.pods.lock().unwrap();
        let page: Vec<_> = pods.iter().skip(first).take(2).map(|metadata| json!({"metadata": metadata})).collect();
        let next = if first + 2 < pods.len() { (first + 2).to_string() } else { String::new() };
        let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
            "metadata": {"continue": next}, "items": page});
        (StatusCode::OK, list)
    }

    /// The objects of a root by its label, two at a time.
    fn list(&self, namespace: &str, query: &str) -> (StatusCode, Value) {
        let parameter = |name: &str| query.split('&').find_map(|one| one.strip_prefix(&format!("{name}=")));
        let root = parameter("labelSelector").unwrap().strip_prefix("headroom.dev%2Froot%3D").unwrap();
        let after = parameter("continue").unwrap_or_default();
        let profiles = self.profiles.lock().unwrap();
        let mut items = profiles.iter().filter(|(name, profile)| {
            profile["metadata"]["labels"]["headroom.dev/root"] == root
                && name.strip_prefix(&format!("{namespace}/")).is_some_and(|name| name > after)
        });
        let page: Vec<Value> = items.by_ref().take(2).map(|(_, profile)| profile.clone()).collect();
        let next = items.next().and(page.last()).map(|last| last["metadata"]["name"].clone());
        let list = json!({"kind": "UsageProfileList", "apiVersion": "headroom.dev/v1alpha1",
            "metadata": {"continue": next.unwrap_or_default()}, "items": page});
        (StatusCode::OK, list)
    }

    fn profile(&self, request: &http::request::Parts, namespace: &str, name: &str, body: Value) -> (StatusCode, Value) {
        let mut profiles = self.profiles.lock().unwrap();
        let key = format!("{namespace}/{name}");
        match request.method {
            Method::GET => match profiles.get(&key) {
                Some(profile) => (StatusCode::OK, profile.clone()),
                None => not_found("usageprofiles", name),
            },
            Method::DELETE => {
                let Some(profile) = profiles.get(&key) else { return not_found("usageprofiles", name) };
                if body["preconditions"]["resourceVersion"] != profile["metadata"]["resourceVersion"] {
                    return status(StatusCode::CONFLICT, "Conflict", "the object was changed", json!({}));
                }
                let removed = profiles.remove(&key).unwrap();
                check_pages(&profiles);
                (StatusCode::OK, removed)
            }
            Method::PATCH => {
                assert_eq!(request.headers["content-type"], "application/apply-patch+yaml");
                if let Some(refused) = self.refusal(name) {
                    return refused;
                }
                let mut profile = body;
                let uid = profiles.get(&key).map_or_else(
                    || format!("uid of {key}"),
                    |there| there["metadata"]["uid"].as_str().unwrap().to_owned(),
                );
                profile["metadata"]["uid"] = json!(uid);
                profile["metadata"]["resourceVersion"] = json!(self.next_version());
                self.writes.lock().unwrap().push(Write {
                    object: key.clone(),
                    store: store_of(&profile),
                    holder: self.holder(),
                });
                profiles.insert(key, profile.clone());
                check_pages(&profiles);
                (StatusCode::OK, profile)
            }
            _ => unreachable!("{}", request.method),
        }
    }

    fn refusal(&self, name: &str) -> Option<(StatusCode, Value)> {
        let of_nginx = |code, message| (name == NGINX_ROOT).then(|| status(code, "Forbidden", message, json!({})));
        match *self.scenario.lock().unwrap() {
            Scenario::Forbidden => Some(status(StatusCode::FORBIDDEN, "Forbidden", FORBIDDEN, json!({}))),
            Scenario::Quota => of_nginx(StatusCode::FORBIDDEN, QUOTA),
            Scenario::Webhook => of_nginx(StatusCode::FORBIDDEN, WEBHOOK),
            Scenario::BrokenWebhook => of_nginx(StatusCode::INTERNAL_SERVER_ERROR, BROKEN_WEBHOOK),
            Scenario::RefusedPage if name.starts_with(NGINX_ROOT) && name.ends_with(['0', 'a']) => {
                Some(status(StatusCode::FORBIDDEN, "Forbidden", WEBHOOK, json!({})))
            }
            Scenario::Conflict => {
                of_nginx(StatusCode::CONFLICT, r#"Apply failed with 1 conflict: conflict with "kubectl": .spec"#)
            }
            Scenario::NoNamespace => Some(not_found("namespaces", "headroom")),
            _ => None,
        }
    }

    /// `path` is `headroom/leases` or `headroom/leases/headroom-collector`.
    fn lease(&self, method: &Method, path: &str, body: Value) -> (StatusCode, Value) {
        let mut lease = self.lease.lock().unwrap();
        let put = |lease: &mut Option<Value>, mut body: Value| {
            body["metadata"]["resourceVersion"] = json!(self.next_version());
            *lease = Some(body.clone());
            (StatusCode::OK, body)
        };
        match (method, &*lease) {
            (&Method::GET, None) => not_found("leases", path),
            (&Method::GET, Some(there)) => (StatusCode::OK, there.clone()),
            (&Method::POST, None) if *self.scenario.lock().unwrap() == Scenario::NoNamespace => {
                not_found("namespaces", "headroom")
            }
            (&Method::POST, None) => put(&mut lease, body),
            (&Method::PUT, Some(there))
                if body["metadata"]["resourceVersion"] == there["metadata"]["resourceVersion"] =>
            {
                put(&mut lease, body)
            }
            _ => status(StatusCode::CONFLICT, "Conflict", "the object was changed", json!({})),
        }
    }

    fn next_version(&self) -> String {
        let mut versions = self.versions.lock().unwrap();
        *versions += 1;
        versions.to_string()
    }

    /// The holder of the lease; empty if there is none.
    pub fn holder(&self) -> String {
        let lease = self.lease.lock().unwrap();
        let holder = lease.as_ref().map(|lease| lease["spec"]["holderIdentity"].clone()).unwrap_or_default();
        holder.as_str().unwrap_or_default().to_owned()
    }

    pub fn names(&self) -> Vec<String> {
        self.profiles.lock().unwrap().keys().cloned().collect()
    }

    /// The text of the histories in each object that a reader finds.
    pub fn histories(&self) -> BTreeMap<String, String> {
        let text = |profile: &Value| format!("{}{}", profile["spec"]["images"], profile["spec"]["header"]["pages"]);
        self.readable().iter().map(|(name, profile)| (name.clone(), text(profile))).collect()
    }

    /// The roots, and the pages that they list.
    pub fn readable(&self) -> Vec<(String, Value)> {
        let profiles = self.profiles.lock().unwrap();
        let listed: Vec<String> = profiles.iter().flat_map(|(name, root)| pages(name, root)).collect();
        let is_read = |name: &String| !is_page(name) || listed.contains(name);
        profiles
            .iter()
            .filter(|(name, _)| is_read(name))
            .map(|(name, profile)| (name.clone(), profile.clone()))
            .collect()
    }
}

fn is_page(name: &str) -> bool {
    name.matches('-').count() > 1
}

/// The pages that a root lists.
fn pages(name: &str, root: &Value) -> Vec<String> {
    let pages = root["spec"]["header"]["pages"].as_str().unwrap_or_default();
    paths(pages).into_iter().map(|path| format!("{name}-{path}")).collect()
}

/// Asserts that no root lists a missing page.
fn check_pages(profiles: &BTreeMap<String, Value>) {
    for page in profiles.iter().flat_map(|(name, root)| pages(name, root)) {
        assert!(profiles.contains_key(&page), "{page} is missing");
    }
}

pub fn store_of(profile: &Value) -> String {
    profile["metadata"]["annotations"]["headroom.dev/store"].as_str().unwrap_or_default().to_owned()
}
