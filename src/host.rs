//! The only file that calls the host.
//!
//! The host is a parameter, so that tests can put the same policy, natively, before a cluster in memory.

use headroom_core::context::lookup::{HostCall, Lookup};
use headroom_core::json::Document;
use kubewarden_policy_sdk::host_capabilities::kubernetes::{GetResourceRequest, ListResourcesByNamespaceRequest};

/// Answers an operation of the namespace `kubernetes` with a JSON payload; the error is the host's own text.
pub type Host<'h> = &'h mut dyn FnMut(&str, &[u8]) -> Result<Vec<u8>, String>;

/// The waPC host that this policy runs in.
pub fn wapc(operation: &str, payload: &[u8]) -> Result<Vec<u8>, String> {
    wapc_guest::host_call("kubewarden", "kubernetes", operation, payload).map_err(|error| {
        let mut problem = error.to_string();
        // The layers between us and the API server each say that they failed; a person needs only why.
        for layer in ["Host error: ", "Callback evaluation failure: "] {
            if let Some(inner) = problem.strip_prefix(layer) {
                problem = inner.to_owned();
            }
        }
        problem
    })
}

/// Reads what some lookups ask for, in their order.
pub fn fetch_all(lookups: &[Lookup<'_>], host: Host<'_>) -> Vec<Result<Vec<u8>, String>> {
    lookups.iter().map(|lookup| fetch(&lookup.call(), host)).collect()
}

/// Reads answers of the host.
pub fn read_all(answers: &[Result<Vec<u8>, String>]) -> Vec<Result<Document<'_>, String>> {
    answers.iter().map(read).collect()
}

/// Reads what a lookup asks for.
fn fetch(call: &HostCall<'_>, host: Host<'_>) -> Result<Vec<u8>, String> {
    let field_masks = Some(call.field_masks.iter().cloned().collect());
    let (operation, request) = match &call.name {
        Some(name) => {
            let request = GetResourceRequest {
                api_version: call.api_version.to_owned(),
                kind: call.kind.to_owned(),
                name: name.to_string(),
                namespace: call.namespace.map(str::to_owned),
                disable_cache: call.disable_cache,
                field_masks,
            };
            ("get_resource", serde_json::to_vec(&request))
        }
        None => {
            let request = ListResourcesByNamespaceRequest {
                api_version: call.api_version.to_owned(),
                kind: call.kind.to_owned(),
                namespace: call.namespace.unwrap_or_default().to_owned(),
                label_selector: None,
                field_selector: None,
                field_masks,
            };
            ("list_resources_by_namespace", serde_json::to_vec(&request))
        }
    };
    host(operation, &request.map_err(|error| error.to_string())?)
}

/// Reads an answer of the host.
fn read(answer: &Result<Vec<u8>, String>) -> Result<Document<'_>, String> {
    match answer {
        Ok(bytes) => Document::read_bytes(bytes).map_err(|error| error.to_string()),
        Err(problem) => Err(problem.clone()),
    }
}
