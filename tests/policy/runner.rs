//! The two ways to run the policy, with the same functions.

use headroom_wasm_host::access::Access;
use headroom_wasm_host::admission::{AdmissionRequest, ValidationResponse};
use headroom_wasm_host::built;
use headroom_wasm_host::host::PolicyHost;
use headroom_wasm_host::host_call::{HostCalls, answering};
use serde_json::Value;

pub enum Runner {
    Native,
    Wasm(Box<PolicyHost>, Access),
}

impl Runner {
    /// The built wasm, with the access that its metadata declares.
    pub fn wasm() -> Self {
        let (host, access) = built::policy().unwrap();
        Self::Wasm(Box::new(host), access)
    }

    pub fn evaluate(
        &self,
        request: &AdmissionRequest,
        settings: &Value,
        host: &mut dyn HostCalls,
    ) -> ValidationResponse {
        serde_json::from_slice(&self.evaluate_payload(&request.payload(settings), host)).unwrap()
    }

    pub fn evaluate_payload(&self, payload: &[u8], host: &mut dyn HostCalls) -> Vec<u8> {
        match self {
            Self::Native => headroom_policy::validate(payload, &mut answering(host)).unwrap(),
            Self::Wasm(policy, access) => policy.call("validate", payload, access, host).response.unwrap(),
        }
    }
}
