//! The only file that calls the host.

use headroom_core::context::lookup::HostCall;
use headroom_core::json::Document;
use kubewarden_policy_sdk::host_capabilities::kubernetes::{GetResourceRequest, ListResourcesByNamespaceRequest};

/// Reads what a lookup asks for; the error is the host's own text.
pub fn fetch(call: &HostCall<'_>) -> Result<Vec<u8>, String> {
    let field_masks = Some(call.field_masks.iter().cloned().collect());
    let (operation, request) = match call.name {
        Some(name) => {
            let request = GetResourceRequest {
                api_version: call.api_version.to_owned(),
                kind: call.kind.to_owned(),
                name: name.to_owned(),
                namespace: call.namespace.map(str::to_owned),
                disable_cache: false,
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
    let request = request.map_err(|error| error.to_string())?;
    wapc_guest::host_call("kubewarden", "kubernetes", operation, &request).map_err(|error| error.to_string())
}

/// Reads an answer of the host.
pub fn read(answer: &Result<Vec<u8>, String>) -> Result<Document<'_>, String> {
    match answer {
        Ok(bytes) => Document::read_bytes(bytes).map_err(|error| error.to_string()),
        Err(problem) => Err(problem.clone()),
    }
}
