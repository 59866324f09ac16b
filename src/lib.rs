//! The policy: a thin waPC shell around the core. No rule of its own.

use kubewarden_policy_sdk::{accept_request, protocol_version_guest};
use wapc_guest::{CallResult, register_function};

/// Called once by the host in each fresh instance.
#[expect(unsafe_code, reason = "waPC finds this export by its unmangled name")]
#[unsafe(no_mangle)]
pub extern "C" fn wapc_init() {
    register_function("protocol_version", protocol_version_guest);
    register_function("validate", validate);
}

/// Judges one admission request.
fn validate(_payload: &[u8]) -> CallResult {
    accept_request()
}
