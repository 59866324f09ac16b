//! Profiles as objects in the cluster, by server-side apply under our own field manager.
//!
//! Server-side apply, because whoever else has put a label or an annotation on an object keeps it, and because another
//! writer of the same fields shows as a conflict instead of being overwritten.

use std::collections::BTreeSet;
use std::time::Duration;

use headroom_advice::profile::UsageProfile;
use headroom_core::cluster::usage::address::{GROUP, KIND, VERSION};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::core::Status;
use kube::{Client, Error};
use serde_json::Value;

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
/// What the API server says is cut there; a conflict over a whole profile names every field of it.
const LONGEST_MESSAGE: usize = 300;

pub struct Cluster {
    client: Client,
    resource: ApiResource,
    /// Take over fields that another writer owns.
    force: bool,
    pace: Pace,
}

/// Why the cluster did not take a profile, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error(
        "another writer owns parts of usageprofile `{object}` ({message}): let one of the two keep it, or take it over with --force-conflicts"
    )]
    Conflict { object: String, message: String },
    #[error(
        "not allowed to {verb} usageprofiles ({message}): bind this account to the cluster role in deploy/collector/base/rbac.yaml"
    )]
    Forbidden { verb: &'static str, message: String },
    #[error("the cluster does not know this account ({message}): check the kubeconfig or the service account's token")]
    Unauthenticated { message: String },
    #[error("the cluster does not know the kind {KIND}: apply deploy/crd.yaml")]
    NotInstalled,
    #[error("the cluster refuses usageprofile `{object}` ({message}): apply the deploy/crd.yaml of this version")]
    Invalid { object: String, message: String },
    #[error("cannot {verb} usageprofiles: {message}")]
    Failed { verb: &'static str, message: String },
    #[error("no cluster to write to ({message}): give a kubeconfig, or choose --output with a folder or `stdout`")]
    NoCluster { message: String },
}

impl ClusterError {
    /// Whether every other profile would meet the same.
    pub fn concerns_all(&self) -> bool {
        !matches!(self, Self::Conflict { .. } | Self::Invalid { .. })
    }
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
        let old = self.tried(|| api.get_opt(&name)).await.map_err(|error| worded(error, "get", &object_name))?;
        if old.is_some_and(|old| !change::is_due(&old.data, object, refresh_seconds)) {
            return Ok(Written::Unchanged);
        }
        let mut params = PatchParams::apply(MANAGER);
        params.force = self.force;
        let patch = Patch::Apply(object);
        match self.tried(|| api.patch(&name, &params, &patch)).await {
            Ok(_) => Ok(Written::Written),
            Err(Error::Api(status)) if is_namespace_gone(&status) => Ok(Written::NamespaceGone),
            Err(error) => Err(worded(error, "patch", &object_name)),
        }
    }

    /// Deletes our profiles that are not among these.
    pub async fn delete_others(&self, current: &BTreeSet<ObjectName>) -> Result<u64, ClusterError> {
        let all: Api<DynamicObject> = Api::all_with(self.client.clone(), &self.resource);
        let mut page = ListParams::default().labels(&format!("{MANAGER_LABEL}={MANAGER}")).limit(PAGE);
        let at_once = DeleteParams::default();
        let mut deleted = 0;
        loop {
            let listed = self.tried(|| all.list_metadata(&page)).await.map_err(|error| worded(error, "list", ""))?;
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
                    Err(error) => return Err(worded(error, "delete", &format!("{namespace}/{name}"))),
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

fn is_passing(error: &Error) -> bool {
    match error {
        Error::Api(status) => status.code == 429 || status.code >= 500,
        Error::Service(_) | Error::HyperError(_) => true,
        _ => false,
    }
}

/// The namespace was deleted, or is being deleted.
fn is_namespace_gone(status: &Status) -> bool {
    let Some(details) = &status.details else { return false };
    let is_missing = status.code == 404 && details.kind == "namespaces";
    is_missing || details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
}

fn worded(error: Error, verb: &'static str, object: &str) -> ClusterError {
    let object = object.to_owned();
    match error {
        Error::Api(status) => {
            let message = one_line(&status.message);
            match status.code {
                401 => ClusterError::Unauthenticated { message },
                403 => ClusterError::Forbidden { verb, message },
                404 => ClusterError::NotInstalled,
                409 => ClusterError::Conflict { object, message },
                400 | 422 => ClusterError::Invalid { object, message },
                _ => ClusterError::Failed { verb, message },
            }
        }
        Error::Service(cause) => {
            ClusterError::Failed { verb, message: format!("the API server cannot be reached ({cause})") }
        }
        error => ClusterError::Failed { verb, message: error.to_string() },
    }
}

fn one_line(message: &str) -> String {
    let words: Vec<&str> = message.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(LONGEST_MESSAGE) {
        None => line,
        Some((end, _)) => format!("{}…", line.split_at(end).0),
    }
}
