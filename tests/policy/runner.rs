//! The two ways to run the policy, with the same functions.

use headroom_testkit::access::Access;
use headroom_testkit::admission::{AdmissionRequest, ValidationResponse};
use headroom_testkit::built;
use headroom_testkit::host::PolicyHost;
use headroom_testkit::host_call::{CallbackRequest, HostCalls};
use serde_json::{Value, json};

/// Where a request is judged.
pub enum Runner {
    Native,
    Wasm(Box<PolicyHost>, Access),
}

impl Runner {
    pub fn both() -> [Self; 2] {
        [Self::Native, Self::wasm()]
    }

    /// The built wasm, with the access that its metadata declares.
    pub fn wasm() -> Self {
        let (host, access) = built::policy().unwrap();
        Self::Wasm(Box::new(host), access)
    }

    pub fn judge(&self, request: &AdmissionRequest, settings: &Value, host: &mut dyn HostCalls) -> ValidationResponse {
        serde_json::from_slice(&self.judge_payload(&request.payload(settings), host)).unwrap()
    }

    /// Judges any bytes.
    pub fn judge_payload(&self, payload: &[u8], host: &mut dyn HostCalls) -> Vec<u8> {
        match self {
            Self::Native => headroom_policy::judge(payload, &mut |operation, payload| {
                host.call(&CallbackRequest::read("kubernetes", operation, payload).unwrap())
            }),
            Self::Wasm(policy, access) => policy.call("validate", payload, access, host).response.unwrap(),
        }
    }
}

/// A request for an object, as the API server would send it.
pub fn request_for(operation: &str, object: &Value, old: Option<&Value>, subresource: &str) -> AdmissionRequest {
    let kind = object["kind"].as_str().unwrap();
    let (group, version) = match object["apiVersion"].as_str().unwrap().split_once('/') {
        Some((group, version)) => (group, version),
        None => ("", object["apiVersion"].as_str().unwrap()),
    };
    let resource = format!("{}s", kind.to_lowercase());
    AdmissionRequest::from_value(json!({
        "uid": "5c0f1b8e",
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": resource},
        "subResource": subresource,
        "namespace": object["metadata"]["namespace"].as_str().unwrap_or("shop"),
        "name": object["metadata"]["name"].as_str(),
        "operation": operation,
        "userInfo": {"username": "ann"},
        "object": object,
        "oldObject": old,
    }))
    .unwrap()
}
