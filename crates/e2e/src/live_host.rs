//! Host calls answered from a live API server.
//!
//! Kubewarden answers lists from its watches, which lag a little behind. If the policy server may not list a kind, the
//! watch is never filled, and the evaluation times out. Here every call is one request to the API server: a policy sees
//! what is stored, and gets a refusal as an error at once. Formats, masks and errors for missing objects are
//! Kubewarden's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use headroom_api_server::parts::locked;
use headroom_wasm_host::cluster::{masked, without_bookkeeping};
use headroom_wasm_host::host_call::{CallbackRequest, HostCalls};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::discovery::pinned_kind;
use kube::error::DiscoveryError;
use kube::{Client, Error};
use serde_json::{Value, json};
use tokio::runtime::Handle;

/// A host that reads with the permissions of its client's user. Its calls block the thread.
#[derive(Clone)]
pub struct LiveHost {
    client: Client,
    runtime: Handle,
    kinds: Arc<Mutex<BTreeMap<String, ApiResource>>>,
}

impl LiveHost {
    /// A host whose requests run on the current runtime.
    pub fn new(client: Client) -> Self {
        Self { client, runtime: Handle::current(), kinds: Arc::default() }
    }

    /// Looks up the API resource of a kind, once.
    async fn kind(&self, api_version: &str, kind: &str) -> Result<ApiResource, String> {
        let id = format!("{api_version}/{kind}");
        if let Some(known) = locked(&self.kinds).get(&id) {
            return Ok(known.clone());
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let found = pinned_kind(&self.client, &GroupVersionKind::gvk(group, version, kind)).await;
        let (kind, _) = found.map_err(|error| match error {
            Error::Discovery(DiscoveryError::MissingKind(_)) => format!("Cannot find resource {id}"),
            error if group.is_empty() => error.to_string(),
            error => format!("error finding resource {api_version} / {kind}: {error}"),
        })?;
        locked(&self.kinds).insert(id, kind.clone());
        Ok(kind)
    }

    fn api(&self, resource: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        }
    }

    async fn answer(&self, request: &CallbackRequest) -> Result<Value, String> {
        let (api_version, kind) = (request.api_version(), request.kind());
        let served = self.kind(api_version, kind).await?;
        let (namespace, label_selector, field_selector) = match request {
            CallbackRequest::KubernetesGetResource { name, namespace, .. } => {
                let found = self.api(&served, namespace.as_deref()).get_opt(name).await;
                let object = found.map_err(|error| error.to_string())?.ok_or_else(|| {
                    format!("Cannot find {api_version}/{kind} named '{name}' inside of namespace '{namespace:?}'")
                });
                return Ok(masked(json!(object?), request));
            }
            CallbackRequest::KubernetesListResourceNamespace { namespace, label_selector, field_selector, .. } => {
                (Some(namespace.as_str()), label_selector.clone(), field_selector.clone())
            }
            CallbackRequest::KubernetesListResourceAll { label_selector, field_selector, .. } => {
                (None, label_selector.clone(), field_selector.clone())
            }
        };
        let parameters = ListParams { label_selector, field_selector, ..ListParams::default() };
        let list = self.api(&served, namespace).list(&parameters).await.map_err(|error| error.to_string())?;
        let as_returned = |item| {
            let mut item = json!(item);
            without_bookkeeping(&mut item);
            masked(item, request)
        };
        let items: Vec<Value> = list.items.into_iter().map(as_returned).collect();
        Ok(json!({"apiVersion": api_version, "kind": format!("{kind}List"), "metadata": {}, "items": items}))
    }
}

impl HostCalls for LiveHost {
    fn call(&mut self, request: &CallbackRequest) -> Result<Vec<u8>, String> {
        let answer = self.runtime.block_on(self.answer(request))?;
        Ok(answer.to_string().into_bytes())
    }
}
