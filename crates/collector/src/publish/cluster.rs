//! Profiles as objects in the cluster, written by server-side apply.
//!
//! Server-side apply keeps labels and annotations of other field managers, and reports a conflict with another writer of the
//! same fields instead of overwriting them.

use std::collections::BTreeMap;
use std::time::Duration;

use headroom_admission::cluster::usage::profile_layout::{GROUP, KIND, VERSION};
use headroom_admission::cluster::usage::{ProfileName, Root};
use headroom_admission::json::Node;
use headroom_api_server::api_client::{ApiClient, ApiError, ApplyOptions, ListOptions, value};
use headroom_api_server::retry::Retry;
use headroom_api_server::{ApiPath, kubeconfig, proxy};
use headroom_metrics_stores::cluster_id::{ClusterId, KUBE_SYSTEM};
use headroom_objects::kinds::metadata;
use headroom_usage::profile::RestrictedNamespaces;
use headroom_usage::profile::custom_resource::ROOT_LABEL;
use kube::Client;
use serde_json::Value;

use super::ownership::MANAGER;
use super::restrictions::{NAMESPACES, has_choice};
use crate::read_limits::Pace;

/// Attempts of one request that may succeed when it is repeated.
const ATTEMPTS: u32 = 4;
/// The timeout of one request. The API server gives up on a request after 34 s.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(45);
/// The resource that errors name.
const PROFILES: &str = "usageprofiles";
/// The most characters of a message of the API server: a conflict over a whole profile names each of its fields.
const MAX_MESSAGE: usize = 300;

/// An error of writing a UsageProfile, with advice.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error(
        "another writer owns parts of usageprofile `{object}` ({message}): let one of the two keep it, or take it over with --adopt"
    )]
    Conflict { object: String, message: String },
    #[error(
        "not allowed to {verb} {what} ({message}): bind this account to the Role and ClusterRole headroom-collector"
    )]
    Forbidden { verb: &'static str, what: &'static str, message: String },
    #[error(
        "usageprofile `{object}` is rejected ({message}): let the quota or admission webhook of its namespace admit usageprofiles"
    )]
    Refused { object: String, message: String },
    #[error("the cluster does not know this account ({message}): check the kubeconfig or the service account's token")]
    Unauthenticated { message: String },
    #[error("the cluster does not know the kind {KIND}: install the Helm chart or a release's manifests.yaml")]
    NotInstalled,
    #[error("usageprofile `{object}` is invalid ({message}): apply the CustomResourceDefinition of this version")]
    Invalid { object: String, message: String },
    #[error("cannot {verb} {what}: {message}")]
    Failed { verb: &'static str, what: &'static str, message: String },
    #[error("cannot {verb} {what}: the API server cannot be reached ({message})")]
    Unreachable { verb: &'static str, what: &'static str, message: String },
    #[error(
        "another collector, `{holder}`, writes the profiles of this cluster (it renewed the lease {lease} at {renewed}): \
         stop one of the two, or write elsewhere with --output"
    )]
    NotOurTurn { holder: String, lease: String, renewed: String },
    #[error(
        "the lease was lost while profiles were written: another collector may have taken it; the next run tries again"
    )]
    LostTurn,
    #[error(
        "there is no namespace `{namespace}` for the profiles: create it, or name another \
         with --namespace"
    )]
    NoNamespace { namespace: String },
    #[error("{message}; to write elsewhere, choose --output with a folder or `stdout`")]
    NoCluster { message: String },
}

impl ClusterError {
    /// True if every other profile would fail too. A webhook may refuse one of them, or be down for a moment.
    pub fn concerns_all(&self) -> bool {
        !matches!(self, Self::Conflict { .. } | Self::Refused { .. } | Self::Invalid { .. } | Self::Failed { .. })
    }

    /// The error of a request about an object, or about objects of a kind.
    pub(super) fn of(error: ApiError, verb: &'static str, what: &'static str, object: &str) -> Self {
        let object = object.to_owned();
        match error {
            ApiError::Unauthenticated { message } => Self::Unauthenticated { message: one_line(&message) },
            ApiError::Forbidden { message } => Self::Forbidden { verb, what, message: one_line(&message) },
            ApiError::Refused { message } | ApiError::NamespaceTerminating { message } => {
                Self::Refused { object, message: one_line(&message) }
            }
            ApiError::NotFound(_) => Self::NotInstalled,
            ApiError::Conflict { message } => Self::Conflict { object, message: one_line(&message) },
            ApiError::Invalid { message } => Self::Invalid { object, message: one_line(&message) },
            ApiError::Unreachable { cause } => Self::Unreachable { verb, what, message: cause },
            ApiError::TimedOut(_) | ApiError::TooLong(_) => {
                Self::Unreachable { verb, what, message: error.to_string() }
            }
            ApiError::Unavailable { message } | ApiError::Other(message) => {
                Self::Failed { verb, what, message: one_line(&message) }
            }
        }
    }
}

fn one_line(message: &str) -> String {
    let words: Vec<&str> = message.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(MAX_MESSAGE) {
        None => line,
        Some((end, _)) => format!("{}…", line.split_at(end).0),
    }
}

pub struct ProfileCluster {
    pub api: ApiClient,
    /// The address of the API server, for messages.
    address: Option<String>,
    /// Take over fields that another writer owns.
    force: bool,
}

impl ProfileCluster {
    pub fn new(client: Client, force: bool, pace: &Pace) -> Self {
        let retry = Retry { attempts: ATTEMPTS, ..pace.retry };
        let api = ApiClient::new(client).with_timeout(REQUEST_TIMEOUT).with_retry(retry);
        Self { api, address: None, force }
    }

    /// Connects to the cluster of the kubeconfig, or to that of this pod.
    pub async fn connect(context: Option<String>, force: bool, pace: &Pace) -> Result<Self, ClusterError> {
        let no_cluster = |message| ClusterError::NoCluster { message };
        let config = kubeconfig::config(&kubeconfig::Chosen::of_context(context)).await.map_err(no_cluster)?;
        let address = config.cluster_url.to_string();
        let client = proxy::client(config).map_err(no_cluster)?;
        Ok(Self { address: Some(address.trim_end_matches('/').to_owned()), ..Self::new(client, force, pace) })
    }

    pub async fn id(&self) -> Result<ClusterId, ClusterError> {
        let read = self.api.get_metadata(&NAMESPACES.at(KUBE_SYSTEM)).await;
        let namespace = read.map_err(|error| ClusterError::of(error, "get", "namespace kube-system", ""))?;
        Ok(ClusterId { address: self.address.clone(), ..ClusterId::of(&namespace) })
    }

    pub async fn restricted_namespaces(&self) -> Result<RestrictedNamespaces, ClusterError> {
        let read = |namespace: Node<'_>| {
            let namespace = value(namespace).filter(has_choice)?;
            Some(metadata(&namespace, "name").to_owned())
        };
        let listed = self.api.list(&NAMESPACES, ListOptions::METADATA, read).await;
        let (_, mut restricted) = listed.map_err(|error| ClusterError::of(error, "list", "namespaces", ""))?;
        restricted.sort();
        Ok(RestrictedNamespaces::of(restricted.iter().map(String::as_str)))
    }

    /// The tenant of each namespace that has this label.
    pub async fn tenants(&self, label: &str) -> Result<BTreeMap<String, String>, ClusterError> {
        let read = |namespace: Node<'_>| {
            let namespace = value(namespace)?;
            let tenant = namespace.get("metadata")?.get("labels")?.get(label)?.as_str()?;
            Some((metadata(&namespace, "name").to_owned(), tenant.to_owned()))
        };
        let options = ListOptions { label_selector: label, ..ListOptions::METADATA };
        let listed = self.api.list(&NAMESPACES, options, read).await;
        let (_, tenants) = listed.map_err(|error| ClusterError::of(error, "list", "namespaces", ""))?;
        Ok(tenants.into_iter().collect())
    }

    pub async fn get(&self, namespace: &str, name: &ProfileName) -> Result<Option<Value>, ClusterError> {
        // If the kind is missing, writing will report it.
        let found = self.api.find(&profiles(namespace).at(&name.to_string())).await;
        found.map_err(|error| ClusterError::of(error, "get", PROFILES, &format!("{namespace}/{name}")))
    }

    /// The objects of a root, its quarters and their pages, by their names.
    pub async fn list(&self, namespace: &str, root: Root) -> Result<BTreeMap<String, Value>, ClusterError> {
        let label_selector = format!("{ROOT_LABEL}={root}");
        let options = ListOptions { label_selector: &label_selector, ..ListOptions::WHOLE };
        let listed = self.api.list(&profiles(namespace), options, value).await;
        let (_, objects) = listed.map_err(|error| ClusterError::of(error, "list", PROFILES, &root.to_string()))?;
        Ok(objects.into_iter().map(|object| (metadata(&object, "name").to_owned(), object)).collect())
    }

    pub async fn apply(&self, namespace: &str, name: &str, object: &Value) -> Result<(), ClusterError> {
        let options = ApplyOptions { manager: MANAGER, force: self.force, dry_run: false };
        match self.api.apply(&profiles(namespace).at(name), object, options).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_namespace_gone() => {
                Err(ClusterError::NoNamespace { namespace: namespace.to_owned() })
            }
            Err(error) => Err(ClusterError::of(error, "patch", PROFILES, &format!("{namespace}/{name}"))),
        }
    }

    /// Deletes a profile, unless it has changed since it was read.
    pub async fn delete(&self, namespace: &str, name: &str, object: &Value) -> Result<(), ClusterError> {
        match self.api.delete_unchanged(&profiles(namespace).at(name), object).await {
            Ok(_) | Err(ApiError::NotFound(_)) => Ok(()),
            Err(error) => Err(ClusterError::of(error, "delete", PROFILES, &format!("{namespace}/{name}"))),
        }
    }
}

fn profiles(namespace: &str) -> ApiPath {
    ApiPath::new("/apis").at(GROUP).at(VERSION).collection(Some(namespace), PROFILES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `…` stands for the message in the expected text.
    #[track_caller]
    fn check(code: u16, message: &str, expected: &str, concerns_all: bool) {
        let error = kube::Error::Api(kube::core::Status::failure(message, "").with_code(code).boxed()).into();
        let error = ClusterError::of(error, "patch", "usageprofiles", "headroom/usage-26");
        assert_eq!((error.to_string(), error.concerns_all()), (expected.replace('…', message), concerns_all));
    }

    #[test]
    fn a_refusal_differs_from_missing_permissions() {
        let rights =
            r#"usageprofiles.headroom.dev "usage" is forbidden: User "eve" cannot patch resource "usageprofiles""#;
        let quota = r#"usageprofiles.headroom.dev "usage" is forbidden: exceeded quota: objects, requested: count/usageprofiles.headroom.dev=1"#;
        let webhook = r#"admission webhook "guard.example" denied the request: no"#;
        let conflict = r#"Apply failed with 1 conflict: conflict with "kubectl": .spec"#;
        let rejected = "usageprofile `headroom/usage-26` is rejected (…): let the quota or admission webhook of its namespace admit usageprofiles";
        let owned = "another writer owns parts of usageprofile `headroom/usage-26` (…): let one of the two keep it, or take it over with --adopt";
        let unknown = "the cluster does not know this account (…): check the kubeconfig or the service account's token";
        let advice =
            "not allowed to patch usageprofiles (…): bind this account to the Role and ClusterRole headroom-collector";
        check(403, rights, advice, true);
        check(403, quota, rejected, false);
        check(403, webhook, rejected, false);
        check(409, conflict, owned, false);
        check(500, "failed calling webhook", "cannot patch usageprofiles: …", false);
        check(401, "Unauthorized", unknown, true);
        let not_installed =
            "the cluster does not know the kind UsageProfile: install the Helm chart or a release's manifests.yaml";
        check(404, "the server could not find the requested resource", not_installed, true);
    }
}
