//! Profiles as objects in the cluster, by server-side apply under our own field manager.
//!
//! Server-side apply, because whoever else has put a label or an annotation on an object keeps it, and because another
//! writer of the same fields shows as a conflict instead of being overwritten.

mod error;

use std::collections::BTreeSet;
use std::time::Duration;

use headroom_core::context::usage::UsageProfile;
use headroom_core::context::usage::address::{GROUP, KIND, VERSION};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Client, Error};
use serde_json::Value;

pub use self::error::ClusterError;
use self::error::{is_namespace_gone, is_passing};
use super::manifest::{MANAGER, MANAGER_LABEL};
use super::{ObjectName, Written, change};
use crate::collect::pace::Pace;
use crate::kubeconfig;

/// Objects listed at a time.
const PAGE: u32 = 500;
/// Tries of one request that may work when tried again.
const ATTEMPTS: u32 = 4;
/// How long one request may take, the client's own tries included. The API server gives up on a request after 34 s.
const PATIENCE: Duration = Duration::from_secs(45);
/// What errors are about.
const PROFILES: &str = "usageprofiles";

pub struct Cluster {
    client: Client,
    resource: ApiResource,
    /// Take over fields that another writer owns.
    force: bool,
    pace: Pace,
}

impl Cluster {
    pub fn new(client: Client, force: bool, pace: Pace) -> Self {
        let kind = GroupVersionKind::gvk(GROUP, VERSION, KIND);
        Self { client, resource: ApiResource::from_gvk(&kind), force, pace }
    }

    /// The cluster of the kubeconfig, or that we run in.
    pub async fn connect(context: Option<String>, force: bool, pace: Pace) -> Result<Self, ClusterError> {
        let client = kubeconfig::client(context).await;
        let client = client.map_err(|message| ClusterError::NoCluster { message })?;
        Ok(Self::new(client, force, pace))
    }

    /// Writes a profile, unless what is there says the same.
    pub async fn apply(
        &self,
        profile: &UsageProfile,
        object: &Value,
        refresh_seconds: i64,
    ) -> Result<Written, ClusterError> {
        let (namespace, name) = (profile.namespace.as_str(), profile.scope.object_name());
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &self.resource);
        let object_name = format!("{namespace}/{name}");
        let old = self
            .tried(|| api.get_opt(&name))
            .await
            .map_err(|error| ClusterError::of(error, "get", PROFILES, &object_name))?;
        if old.is_some_and(|old| !change::is_due(&old.data, object, refresh_seconds)) {
            return Ok(Written::Unchanged);
        }
        let mut params = PatchParams::apply(MANAGER);
        params.force = self.force;
        let patch = Patch::Apply(object);
        match self.tried(|| api.patch(&name, &params, &patch)).await {
            Ok(_) => Ok(Written::Written),
            Err(Error::Api(status)) if is_namespace_gone(&status) => Ok(Written::NamespaceGone),
            Err(error) => Err(ClusterError::of(error, "patch", PROFILES, &object_name)),
        }
    }

    /// Deletes our profiles that are not among these.
    pub async fn delete_others(&self, current: &BTreeSet<ObjectName>) -> Result<u64, ClusterError> {
        let all: Api<DynamicObject> = Api::all_with(self.client.clone(), &self.resource);
        let mut page = ListParams::default().labels(&format!("{MANAGER_LABEL}={MANAGER}")).limit(PAGE);
        let at_once = DeleteParams::default();
        let mut deleted = 0;
        loop {
            let listed = self
                .tried(|| all.list_metadata(&page))
                .await
                .map_err(|error| ClusterError::of(error, "list", PROFILES, ""))?;
            for object in &listed.items {
                let (Some(namespace), Some(name)) = (&object.metadata.namespace, &object.metadata.name) else {
                    continue;
                };
                if current.contains(&(namespace.clone(), name.clone())) {
                    continue;
                }
                let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &self.resource);
                match self.tried(|| api.delete(name, &at_once)).await {
                    Ok(_) => deleted += 1,
                    Err(Error::Api(status)) if status.code == 404 => {}
                    Err(error) => {
                        let object = format!("{namespace}/{name}");
                        return Err(ClusterError::of(error, "delete", PROFILES, &object));
                    }
                }
            }
            match listed.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(deleted),
            }
        }
    }

    /// Tries again what may be a passing trouble: no connection, too many requests, a server error.
    async fn tried<T, F>(&self, request: impl Fn() -> F) -> Result<T, Error>
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
                    let wait = self.pace.wait_before(failures);
                    tracing::warn!(%error, wait_seconds = Duration::as_secs_f32(&wait), "trying again");
                    tokio::time::sleep(wait).await;
                }
                done => return done,
            }
        }
    }
}
