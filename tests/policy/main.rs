//! Tests of the policy as a host runs it: a payload in, a response out. All requests are evaluated natively; some tests
//! also use the built wasm in a real waPC host, and both must agree.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may panic on unexpected data")]

mod conformance;
mod deployed;
mod hostile;
mod properties;
mod reads;
mod runner;
mod settings_reference;

use headroom_fixtures::request::for_object;
use headroom_wasm_host::admission::AdmissionRequest;
use serde_json::Value;

/// The request that creates an object, as the API server would send it.
fn request_for(object: &Value) -> AdmissionRequest {
    AdmissionRequest::from_value(for_object("CREATE", object, None, "")).unwrap()
}
