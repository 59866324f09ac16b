//! Profiles as objects in the cluster, by server-side apply under our own field manager.
//!
//! Server-side apply, because whoever else has put a label or an annotation on an object keeps it, and because another
//! writer of the same fields shows as a conflict instead of being overwritten.

pub(super) mod error;

use std::collections::BTreeMap;
use std::time::Duration;

use headroom_core::annotations::headroom_annotation;
use headroom_core::cluster::usage::Root;
use headroom_core::cluster::usage::profile_layout::{GROUP, KIND, VERSION};
use headroom_usage_profile::definition::ROOT_LABEL;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, ObjectMeta, Patch, PatchParams,
    Preconditions,
};
use kube::{Client, Error, ResourceExt};
use serde_json::Value;

pub use self::error::ClusterError;
use headroom_kube::{kubeconfig, proxy};
use headroom_usage::accuracy::Estimates;

use self::error::{is_namespace_gone, is_passing};
use super::Written;
use super::manifest::MANAGER;
use super::turns::{Timing, Turns};
use crate::collect::pace::Pace;
use crate::source::cluster_id::{ClusterId, KUBE_SYSTEM};

/// Tries of one request that may work when tried again.
const ATTEMPTS: u32 = 4;
/// How long one request may take, the client's own tries included. The API server gives up on a request after 34 s.
const PATIENCE: Duration = Duration::from_secs(45);
/// What errors are about.
const PROFILES: &str = "usageprofiles";
/// Objects in one answer: about a megabyte.
const LISTED_AT_ONCE: u32 = 100;
/// Of pods, whose metadata is a few kilobytes each.
const PODS_AT_ONCE: u32 = 500;

pub struct Cluster {
    client: Client,
    /// How to reach it, for people.
    address: Option<String>,
    resource: ApiResource,
    /// Take over fields that another writer owns.
    force: bool,
    pace: Pace,
}

impl Cluster {
    pub fn new(client: Client, force: bool, pace: Pace) -> Self {
        let kind = GroupVersionKind::gvk(GROUP, VERSION, KIND);
        Self { client, address: None, resource: ApiResource::from_gvk(&kind), force, pace }
    }

    /// The cluster of the kubeconfig, or that we run in.
    pub async fn connect(context: Option<String>, force: bool, pace: Pace) -> Result<Self, ClusterError> {
        let no_cluster = |message| ClusterError::NoCluster { message };
        let config = kubeconfig::config(&kubeconfig::Chosen::of_context(context)).await.map_err(no_cluster)?;
        let address = config.cluster_url.to_string();
        let client = proxy::client(config).map_err(|error| no_cluster(error.to_string()))?;
        Ok(Self { address: Some(address.trim_end_matches('/').to_owned()), ..Self::new(client, force, pace) })
    }

    /// Which cluster this is.
    pub async fn id(&self) -> Result<ClusterId, ClusterError> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let found = self.tried(|| namespaces.get_metadata(KUBE_SYSTEM)).await;
        let metadata = found.map_err(|error| ClusterError::of(error, "get", "namespace kube-system", ""))?.metadata;
        let created = metadata.creation_timestamp.map(|created| created.0.as_second());
        Ok(ClusterId { address: self.address.clone(), uid: metadata.uid, created })
    }

    /// What was estimated for the pods that there are, of which only the metadata is asked for, and a few at a time.
    pub async fn estimates(&self) -> Result<Estimates, ClusterError> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let mut params = ListParams::default().limit(PODS_AT_ONCE);
        let mut estimates = Estimates::default();
        loop {
            let listed = self.tried(|| pods.list_metadata(&params)).await;
            let listed = listed.map_err(|error| ClusterError::of(error, "list", "pods", ""))?;
            for ObjectMeta { namespace, name, annotations, creation_timestamp, .. } in
                listed.items.into_iter().map(|pod| pod.metadata)
            {
                let annotation = annotations.as_ref().and_then(|all| all.get(headroom_annotation::NAME));
                if let (Some(namespace), Some(name), Some(annotation)) = (namespace, name, annotation) {
                    let since = creation_timestamp.map_or(0, |created| created.0.as_second());
                    estimates.add(&namespace, &name, since, annotation);
                }
            }
            match listed.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(estimates),
            }
        }
    }

    /// The Lease that collectors take turns by, for one who publishes from this store.
    pub fn turns(&self, namespace: &str, store: &str, timing: Timing) -> Turns {
        Turns::new(self.client.clone(), namespace, store, timing, self.pace.clone())
    }

    /// The root that is there, and its pages, by their names.
    pub async fn list(&self, namespace: &str, root: Root) -> Result<BTreeMap<String, Value>, ClusterError> {
        let api = self.profiles(namespace);
        let mut params = ListParams::default().labels(&format!("{ROOT_LABEL}={root}")).limit(LISTED_AT_ONCE);
        let mut there = BTreeMap::new();
        loop {
            let listed = self.tried(|| api.list(&params)).await;
            let listed = listed.map_err(|error| ClusterError::of(error, "list", PROFILES, &root.to_string()))?;
            for object in listed.items {
                // OK because what was read as JSON can be written as JSON.
                let (name, object) = (object.name_any(), serde_json::to_value(object).ok());
                there.extend(object.map(|object| (name, object)));
            }
            match listed.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(there),
            }
        }
    }

    /// Writes a profile.
    pub async fn apply(&self, namespace: &str, name: &str, object: &Value) -> Result<Written, ClusterError> {
        let api = self.profiles(namespace);
        let mut params = PatchParams::apply(MANAGER);
        params.force = self.force;
        let patch = Patch::Apply(object);
        match self.tried(|| api.patch(name, &params, &patch)).await {
            Ok(_) => Ok(Written::Written),
            Err(Error::Api(status)) if is_namespace_gone(&status) => {
                Err(ClusterError::NoNamespace { namespace: namespace.to_owned() })
            }
            Err(error) => Err(ClusterError::of(error, "patch", PROFILES, &format!("{namespace}/{name}"))),
        }
    }

    /// Deletes a profile, unless it has changed since it was read.
    pub async fn delete(&self, namespace: &str, name: &str, object: &Value) -> Result<(), ClusterError> {
        let metadata = |field: &str| Some(object.get("metadata")?.get(field)?.as_str()?.to_owned());
        let unchanged = Preconditions { uid: metadata("uid"), resource_version: metadata("resourceVersion") };
        let params = DeleteParams { preconditions: Some(unchanged), ..DeleteParams::default() };
        let api = self.profiles(namespace);
        match self.tried(|| api.delete(name, &params)).await {
            Ok(_) => Ok(()),
            Err(Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(ClusterError::of(error, "delete", PROFILES, &format!("{namespace}/{name}"))),
        }
    }

    fn profiles(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &self.resource)
    }

    async fn tried<T, F>(&self, request: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        tried(&self.pace, request).await
    }
}

/// Tries again what may be a passing trouble: no connection, too many requests, a server error.
pub(super) async fn tried<T, F>(pace: &Pace, request: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut failures = 0;
    loop {
        // A server that answers nothing is as good as one that is down.
        let answer = tokio::time::timeout(PATIENCE, request()).await;
        let answer = answer.unwrap_or_else(|_| {
            let silence = format!("no answer within {} s", PATIENCE.as_secs());
            Err(Error::Service(silence.into()))
        });
        match answer {
            Err(error) if is_passing(&error) && failures + 1 < ATTEMPTS => {
                failures += 1;
                let wait = pace.wait_before(failures);
                tracing::warn!(%error, wait_seconds = Duration::as_secs_f32(&wait), "trying again");
                tokio::time::sleep(wait).await;
            }
            done => return done,
        }
    }
}
