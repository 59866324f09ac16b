//! Fetches objects from the host.
//!
//! The host is a parameter, so that tests can run the same policy natively with a cluster in memory.

use headroom_core::cluster::lookup::{HostCall, Lookup};
use headroom_core::json::write_string;

/// Answers an operation of the namespace `kubernetes` with a JSON payload; the error is the host's own text.
pub type Host<'h> = &'h mut dyn FnMut(&str, &[u8]) -> Result<Vec<u8>, String>;

/// Performs lookups in their order.
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
    use headroom_fixtures::host_call::CallbackRequest;

    #[test]
    fn the_host_parses_our_payloads() {
        let mut call = HostCall {
            api_version: "v1",
            kind: "ResourceQuota",
            namespace: Some("shop"),
            name: Some("te\"am".into()),
            field_masks: &["status.hard", "status.used"],
            is_live: true,
        };
        let read = |operation, call: &HostCall<'_>| {
            CallbackRequest::read("kubernetes", operation, payload(call).as_bytes()).unwrap()
        };
        let (api_version, kind, namespace) = ("v1".to_owned(), "ResourceQuota".to_owned(), "shop".to_owned());
        let field_masks = Some(call.field_masks.iter().map(|mask| (*mask).to_owned()).collect());
        let get = CallbackRequest::KubernetesGetResource {
            api_version: api_version.clone(),
            kind: kind.clone(),
            name: "te\"am".to_owned(),
            namespace: Some(namespace.clone()),
            disable_cache: true,
            field_masks: field_masks.clone(),
        };
        assert_eq!(read("get_resource", &call), get);

        call.is_live = false;
        let list = CallbackRequest::KubernetesListResourceNamespace {
            api_version: api_version.clone(),
            kind: kind.clone(),
            namespace,
            label_selector: None,
            field_selector: Some("metadata.name=te\"am".to_owned()),
            field_masks: field_masks.clone(),
        };
        assert_eq!(read("list_resources_by_namespace", &call), list);

        (call.name, call.namespace) = (None, None);
        let (label_selector, field_selector) = (None, None);
        let all = CallbackRequest::KubernetesListResourceAll {
            api_version,
            kind,
            label_selector,
            field_selector,
            field_masks,
        };
        assert_eq!(read("list_resources_all", &call), all);
    }

    #[test]
    fn only_the_cause_of_an_error_is_kept() {
        assert_eq!(cause("Host error: Callback evaluation failure: Cannot find Pod"), "Cannot find Pod");
        assert_eq!(cause("it is forbidden"), "it is forbidden");
    }
}
