//! Profiles as objects in the cluster, written by server-side apply.
//!
//! Server-side apply keeps labels and annotations of other field managers, and reports a conflict with another writer of the
//! same fields instead of overwriting them.

pub(super) mod error;

use std::collections::BTreeMap;
use std::time::Duration;

use headroom_admission::cluster::usage::profile_layout::{GROUP, VERSION};
use headroom_admission::cluster::usage::{ProfileName, Root};
use headroom_admission::json::Node;
use headroom_api_server::api_client::{ApiClient, ApiError, ApplyOptions, ListOptions, value};
use headroom_api_server::retry::Retry;
use headroom_api_server::{ApiPath, kubeconfig, proxy};
use headroom_usage::profile::RestrictedNamespaces;
use headroom_usage::profile::custom_resource::ROOT_LABEL;
use kube::Client;
use serde_json::Value;

pub use self::error::ClusterError;
use headroom_metrics_stores::cluster_id::{ClusterId, KUBE_SYSTEM};
use headroom_objects::kinds::metadata;

use super::ownership::MANAGER;
use super::restrictions::{NAMESPACES, has_choice};
use crate::read_limits::Pace;

/// Attempts of one request that may succeed when it is repeated.
const ATTEMPTS: u32 = 4;
/// The timeout of one request. The API server gives up on a request after 34 s.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(45);
/// The resource that errors name.
const PROFILES: &str = "usageprofiles";

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
