//! The API server of `headroom_fixtures` with the objects and faults that a collector meets.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use headroom_admission::cluster::usage::Root;
use headroom_fixtures::api_server::{self, Answer, Outcome, Request, status};
use headroom_usage::profile::layout::paths;
use serde_json::{Value, json};

/// nginx's root.
pub const NGINX_ROOT: &str = "usage-26";
/// Its quarter with the namespace `shop`.
pub const NGINX_IN_SHOP: &str = "usage-26.c";
/// The objects of a history without pages.
pub const QUARTERS: usize = 4 * Root::COUNT as usize;
pub const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/headroom/leases/headroom-collector";
pub const PROFILES: &str = "/apis/headroom.dev/v1alpha1/namespaces/headroom/usageprofiles";

pub struct ApiServer {
    pub server: Arc<api_server::ApiServer>,
    /// The holder of the Lease at each write of a profile.
    pub holders: Mutex<Vec<String>>,
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
        let server = api_server::ApiServer::new();
        server.serve("headroom.dev/v1alpha1", "UsageProfile", true);
        server.limit_pages(2);
        let this = Arc::new(Self { server, holders: Mutex::default() });
        this.put_all(
            "Namespace",
            [json!({"name": "kube-system", "uid": uid, "creationTimestamp": "2026-01-02T03:04:05Z"})],
        );
        this.fail(|_| None);
        this
    }

    /// Stores objects of Kubernetes' own kinds with this metadata.
    pub fn put_all(&self, kind: &str, metadata: impl IntoIterator<Item = Value>) {
        for metadata in metadata {
            self.put(json!({"apiVersion": "v1", "kind": kind, "metadata": metadata}));
        }
    }

    /// Sets the answers to some requests instead of the API server's, in place of earlier ones.
    pub fn fail(self: &Arc<Self>, fault: impl Fn(&Request) -> Option<Answer> + Send + Sync + 'static) {
        let within = Arc::downgrade(self);
        self.on_request(move |request| {
            let fault = fault(request);
            if let Some(this) = within.upgrade().filter(|_| request.path.starts_with(PROFILES)) {
                this.readable();
                if fault.is_none() && request.method == "PATCH" {
                    this.holders.lock().unwrap().push(this.holder());
                }
            }
            fault.map_or(Outcome::Serve, Outcome::from)
        });
    }

    /// Refuses to write the profiles whose names begin so.
    pub fn refuse(self: &Arc<Self>, names: &'static str, code: u16, message: &'static str) {
        self.fail(move |request| {
            let name = request.path.strip_prefix(PROFILES).map(|name| name.trim_start_matches('/'));
            let is_refused = request.method == "PATCH" && name.is_some_and(|name| name.starts_with(names));
            is_refused.then(|| status(code, message))
        });
    }

    pub async fn client(&self) -> kube::Client {
        let mut config = kube::Config::new(self.listen().parse().unwrap());
        config.default_retry = false;
        kube::Client::try_from(config).unwrap()
    }

    pub fn count(&self, method: &str) -> usize {
        self.requests().iter().filter(|request| request.method == method).count()
    }

    pub fn writes(&self) -> usize {
        self.holders.lock().unwrap().len()
    }

    /// The holder of the Lease; empty if there is none.
    pub fn holder(&self) -> String {
        let holder = self.get(LEASE).map(|lease| lease["spec"]["holderIdentity"].clone()).unwrap_or_default();
        holder.as_str().unwrap_or_default().to_owned()
    }

    pub fn profiles(&self) -> Vec<Value> {
        self.list(PROFILES)
    }

    /// The text of the histories in each object that a reader finds.
    pub fn histories(&self) -> BTreeMap<String, String> {
        let text = |profile: &Value| format!("{}{}", profile["spec"]["images"], profile["spec"]["header"]["pages"]);
        self.readable().iter().map(|(name, profile)| (name.clone(), text(profile))).collect()
    }

    /// The quarters, the roots of the older layout and the pages that they list, by name. None of the pages may be missing.
    fn readable(&self) -> BTreeMap<String, Value> {
        let named = |profile: Value| (profile["metadata"]["name"].as_str().unwrap().to_owned(), profile);
        let (roots, mut pages): (BTreeMap<_, _>, BTreeMap<_, _>) =
            self.profiles().into_iter().map(named).partition(|(name, _)| name.matches('-').count() == 1);
        let mut all = BTreeMap::new();
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
