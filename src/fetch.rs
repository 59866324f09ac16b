//! Fetches objects from the host.
//!
//! The host is a parameter, so that tests can run the same policy natively with a cluster in memory.

use headroom_admission::cluster::lookup::{HostCall, Lookup};
use headroom_admission::json::write_string;

/// Answers an operation of the namespace `kubernetes` with a JSON payload; the error is the host's own text.
pub type Host<'h> = &'h mut dyn FnMut(&str, &[u8]) -> Result<Vec<u8>, String>;

pub fn fetch_all(lookups: &[Lookup<'_>], host: Host<'_>) -> Vec<Result<Vec<u8>, String>> {
    lookups.iter().map(|lookup| fetch(lookup.call(), host)).collect()
}

fn fetch(call: HostCall<'_>, host: Host<'_>) -> Result<Vec<u8>, String> {
    let operation = match call.namespace {
        _ if call.is_live => "get_resource",
        Some(_) => "list_resources_by_namespace",
        None => "list_resources_all",
    };
    host(operation, payload(&call).as_bytes()).map_err(|error| cause(&error).to_owned())
}

/// The SDK's `GetResourceRequest`, `ListResourcesByNamespaceRequest` or `ListAllResourcesRequest`. Written as text, because
/// the SDK's types own a set of texts: they take 5 % of an evaluation's time, and 10 % of its fuel (`make bench`).
fn payload(call: &HostCall<'_>) -> String {
    let mut json = String::with_capacity(256);
    json.extend(["{\"api_version\":\"", call.api_version, "\",\"kind\":\"", call.kind, "\""]);
    match &call.name {
        Some(name) if call.is_live => push_field(&mut json, ",\"disable_cache\":true,\"name\":", name),
        Some(name) => push_field(&mut json, ",\"field_selector\":", &["metadata.name=", name].concat()),
        None => {}
    }
    if let Some(namespace) = call.namespace {
        push_field(&mut json, ",\"namespace\":", namespace);
    }
    let mut before = ",\"field_masks\":[\"";
    for mask in call.field_masks {
        json.extend([before, mask]);
        before = "\",\"";
    }
    json.push_str("\"]}");
    json
}

fn push_field(json: &mut String, before: &str, text: &str) {
    json.push_str(before);
    write_string(json, text);
}

/// An error without the prefixes of the layers between us and the API server; only the cause matters to people.
fn cause(error: &str) -> &str {
    ["Host error: ", "Callback evaluation failure: "]
        .into_iter()
        .fold(error, |error, prefix| error.strip_prefix(prefix).unwrap_or(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubewarden_policy_sdk::host_capabilities::kubernetes::{
        GetResourceRequest, ListAllResourcesRequest, ListResourcesByNamespaceRequest,
    };

    #[test]
    fn the_sdk_parses_our_payloads() {
        let mut call = HostCall {
            api_version: "v1",
            kind: "ResourceQuota",
            namespace: Some("shop"),
            name: Some("te\"am".into()),
            field_masks: &["status.hard", "status.used"],
            is_live: true,
        };
        let masks = Some(call.field_masks.iter().map(|mask| (*mask).to_owned()).collect());
        let get: GetResourceRequest = serde_json::from_str(&payload(&call)).unwrap();
        assert_eq!((get.api_version.as_str(), get.kind.as_str(), get.name.as_str()), ("v1", "ResourceQuota", "te\"am"));
        assert_eq!((get.namespace.as_deref(), get.disable_cache, &get.field_masks), (Some("shop"), true, &masks));

        call.is_live = false;
        let list: ListResourcesByNamespaceRequest = serde_json::from_str(&payload(&call)).unwrap();
        assert_eq!((list.namespace.as_str(), list.label_selector, list.field_masks), ("shop", None, masks));
        assert_eq!(list.field_selector.as_deref(), Some("metadata.name=te\"am"));

        (call.name, call.namespace) = (None, None);
        let list: ListAllResourcesRequest = serde_json::from_str(&payload(&call)).unwrap();
        assert_eq!((list.kind.as_str(), list.field_selector), ("ResourceQuota", None));
    }

    #[test]
    fn only_the_cause_of_an_error_is_kept() {
        assert_eq!(cause("Host error: Callback evaluation failure: Cannot find Pod"), "Cannot find Pod");
        assert_eq!(cause("it is forbidden"), "it is forbidden");
    }
}
