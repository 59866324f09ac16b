//! The module's entry point, which the host runs in each fresh instance: registers Kubewarden's operations.

use kubewarden_policy_sdk::protocol_version_guest;
use wapc_guest::{CallResult, host_call, register_function};

fn main() {
    register_function("validate", validate);
    register_function("validate_settings", headroom_policy::validate_settings);
    register_function("protocol_version", protocol_version_guest);
}

fn validate(payload: &[u8]) -> CallResult {
    headroom_policy::validate(payload, &mut |operation, payload| {
        host_call("kubewarden", "kubernetes", operation, payload).map_err(|error| error.to_string())
    })
}
