//! A policy with two lists and a patch, written as the SDK's guide does: what a request to ours is compared with in
//! `make bench-policy-server`.

use k8s_openapi::api::core::v1::{LimitRange, Pod, ResourceQuota};
use kubewarden_policy_sdk::host_capabilities::kubernetes::{
    ListResourcesByNamespaceRequest, list_resources_by_namespace,
};
use kubewarden_policy_sdk::request::ValidationRequest;
use kubewarden_policy_sdk::{mutate_request, protocol_version_guest};
use serde_json::Value;
use wapc_guest::{CallResult, register_function};

fn main() {
    register_function("validate", validate);
    register_function("validate_settings", |_| Ok(br#"{"valid":true}"#.to_vec()));
    register_function("protocol_version", protocol_version_guest);
}

fn validate(payload: &[u8]) -> CallResult {
    let ValidationRequest { request, .. } = ValidationRequest::<Value>::new(payload)?;
    let mut pod: Pod = serde_json::from_value(request.object)?;
    let all = |kind: &str| ListResourcesByNamespaceRequest {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        namespace: request.namespace.clone(),
        label_selector: None,
        field_selector: None,
        field_masks: None,
    };
    let ranges = list_resources_by_namespace::<LimitRange>(&all("LimitRange"))?;
    let quotas = list_resources_by_namespace::<ResourceQuota>(&all("ResourceQuota"))?;
    let limits = ranges.items.into_iter().filter_map(|range| range.spec).flat_map(|spec| spec.limits);
    let defaults = limits.filter_map(|limit| limit.default_request).next().unwrap_or_default();
    for container in pod.spec.iter_mut().flat_map(|spec| &mut spec.containers) {
        let requests = container.resources.get_or_insert_default().requests.get_or_insert_default();
        defaults.iter().for_each(|(name, amount)| _ = requests.entry(name.clone()).or_insert_with(|| amount.clone()));
    }
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert("example.com/quotas".to_owned(), quotas.items.len().to_string());
    mutate_request(serde_json::to_value(pod)?)
}
