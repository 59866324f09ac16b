//! The API server of `headroom_fixtures` with the objects and faults that a collector meets.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use headroom_admission::cluster::usage::Root;
use headroom_fixtures::api_server::{self, Answer, Outcome, Request, status};
use headroom_usage::profile::layout::paths;
use serde_json::{Value, json};

/// A fault of the API server.
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
    /// A quota refuses nginx's root.
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
    /// Namespaces may not be listed.
    NoNamespaces,
}

/// nginx's root.
pub const NGINX_ROOT: &str = "usage-26";
/// Its quarter with the namespace `shop`.
pub const NGINX_IN_SHOP: &str = "usage-26.c";
/// The objects of a history without pages.
pub const QUARTERS: usize = 4 * Root::COUNT as usize;
pub const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/headroom/leases/headroom-collector";
const PROFILES: &str = "/apis/headroom.dev/v1alpha1/namespaces/headroom/usageprofiles";

const FORBIDDEN: &str = r#"usageprofiles.headroom.dev "usage-00.a" is forbidden: User "system:serviceaccount:headroom:collector" cannot patch resource "usageprofiles" in API group "headroom.dev" in the namespace "headroom""#;
const QUOTA: &str = r#"usageprofiles.headroom.dev "usage-26.c" is forbidden: exceeded quota: objects, requested: count/usageprofiles.headroom.dev=1, used: count/usageprofiles.headroom.dev=0, limited: count/usageprofiles.headroom.dev=0"#;
const WEBHOOK: &str = r#"admission webhook "guard.example" denied the request: only people may write here"#;
const BROKEN_WEBHOOK: &str = r#"Internal error occurred: failed calling webhook "guard.example": connection refused"#;

pub struct ApiServer {
    pub server: Arc<api_server::ApiServer>,
    pub scenario: Arc<Mutex<Scenario>>,
    /// The holder of the Lease at each write of a profile.
    pub holders: Arc<Mutex<Vec<String>>>,
}

impl Deref for ApiServer {
    type Target = Arc<api_server::ApiServer>;

    fn deref(&self) -> &Self::Target {
        &self.server
    }
}

impl ApiServer {
    /// A cluster with this UID, whose lists have two objects a page. Each request checks that nothing lists a missing page.
    pub fn new(uid: &str) -> Arc<Self> {
        let (server, scenario, holders) = (api_server::ApiServer::new(), Arc::default(), Arc::default());
        server.serve("headroom.dev/v1alpha1", "UsageProfile", true);
        server.limit_pages(2);
        let this = Arc::new(Self { server, scenario, holders });
        this.put_all(
            "Namespace",
            [json!({"name": "kube-system", "uid": uid, "creationTimestamp": "2026-01-02T03:04:05Z"})],
        );
        let (within, requests) = (Arc::downgrade(&this), AtomicUsize::new(0));
        this.server.on_request(move |request| {
            let is_second = requests.fetch_add(1, Ordering::Relaxed) % 2 == 1;
            within.upgrade().and_then(|this| this.fault(request, is_second)).map_or(Outcome::Serve, Outcome::from)
        });
        this
    }

    fn fault(&self, request: &Request, is_second: bool) -> Option<Answer> {
        let (scenario, path) = (*self.scenario.lock().unwrap(), request.path.as_str());
        match path {
            _ if scenario == Scenario::Down || scenario == Scenario::Shaky && is_second => {
                return Some(status(503, "etcd has no leader"));
            }
            "/api/v1/namespaces" if scenario == Scenario::NoNamespaces => {
                return Some(status(403, "namespaces is forbidden"));
            }
            _ => {}
        }
        if scenario == Scenario::NoNamespace && matches!(request.method.as_str(), "POST" | "PATCH") {
            let (code, mut object) = status(404, "namespaces \"headroom\" not found");
            object["details"] = json!({"kind": "namespaces", "name": "headroom"});
            return Some((code, object));
        }
        let name = path.strip_prefix(PROFILES)?.trim_start_matches('/');
        self.readable();
        if scenario == Scenario::NotInstalled {
            return Some(status(404, "the server could not find the requested resource"));
        }
        if request.method != "PATCH" {
            return None;
        }
        let is_nginx = name == NGINX_IN_SHOP;
        let refused = match scenario {
            Scenario::Forbidden => Some((403, FORBIDDEN)),
            Scenario::Quota if is_nginx => Some((403, QUOTA)),
            Scenario::Webhook if is_nginx => Some((403, WEBHOOK)),
            Scenario::BrokenWebhook if is_nginx => Some((500, BROKEN_WEBHOOK)),
            Scenario::RefusedPage if name.starts_with("usage-26.a-") => Some((403, WEBHOOK)),
            Scenario::Conflict if is_nginx => {
                Some((409, r#"Apply failed with 1 conflict: conflict with "kubectl": .spec"#))
            }
            _ => None,
        };
        if refused.is_none() {
            self.holders.lock().unwrap().push(self.holder());
        }
        refused.map(|(code, message)| status(code, message))
    }

    /// Stores objects of Kubernetes' own kinds with this metadata.
    pub fn put_all(&self, kind: &str, metadata: impl IntoIterator<Item = Value>) {
        for metadata in metadata {
            self.put(json!({"apiVersion": "v1", "kind": kind, "metadata": metadata}));
        }
    }

    pub fn set_scenario(&self, scenario: Scenario) {
        *self.scenario.lock().unwrap() = scenario;
    }

    pub async fn client(&self) -> kube::Client {
        let mut config = kube::Config::new(self.listen().parse().unwrap());
        config.default_retry = false;
        kube::Client::try_from(config).unwrap()
    }

    /// The number of requests with this method.
    pub fn count(&self, method: &str) -> usize {
        self.requests().iter().filter(|request| request.method == method).count()
    }

    /// The number of profiles that were written.
    pub fn writes(&self) -> usize {
        self.holders.lock().unwrap().len()
    }

    /// The holder of the Lease; empty if there is none.
    pub fn holder(&self) -> String {
        let holder = self.get(LEASE).map(|lease| lease["spec"]["holderIdentity"].clone()).unwrap_or_default();
        holder.as_str().unwrap_or_default().to_owned()
    }

    /// All profiles.
    pub fn profiles(&self) -> Vec<Value> {
        self.list(PROFILES)
    }

    /// Merges a patch into a profile.
    pub fn edit_profile(&self, name: &str, patch: &Value) {
        self.edit(&format!("{PROFILES}/{name}"), patch);
    }

    /// The text of the histories in each object that a reader finds.
    pub fn histories(&self) -> BTreeMap<String, String> {
        let text = |profile: &Value| format!("{}{}", profile["spec"]["images"], profile["spec"]["header"]["pages"]);
        self.readable().iter().map(|(name, profile)| (name.clone(), text(profile))).collect()
    }

    /// The quarters, the roots of the older layout and the pages that they list, by name. None of the pages may be missing.
    fn readable(&self) -> BTreeMap<String, Value> {
        let named = |profile: Value| (profile["metadata"]["name"].as_str().unwrap().to_owned(), profile);
        let mut all: BTreeMap<String, Value> = self.profiles().into_iter().map(named).collect();
        let (roots, mut pages): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut all).into_iter().partition(|(name, _)| name.matches('-').count() == 1);
        for (root, profile) in &roots {
            for path in paths(profile["spec"]["header"]["pages"].as_str().unwrap_or_default()) {
                let page = format!("{root}-{path}");
                let (name, profile) = pages.remove_entry(&page).ok_or(page).unwrap();
                all.insert(name, profile);
            }
        }
        all.extend(roots);
        all
    }
}

pub fn store_of(profile: &Value) -> String {
    profile["metadata"]["annotations"]["headroom.dev/store"].as_str().unwrap_or_default().to_owned()
}
