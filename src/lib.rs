//! The policy: a thin waPC shell around the core. No rule of its own.
//!
//! read the request and the settings -> fetch what each step of the inquiry asks for -> respond

mod clock;
#[cfg(any(target_arch = "wasm32", test))]
mod compare;
mod host;
#[cfg(target_arch = "wasm32")]
mod memory;
mod respond;

use std::mem::ManuallyDrop;

use headroom_core::json::{Document, Malformed, Node};
use headroom_core::verdict::Violation;
use headroom_core::{Answers, Decision, Inquiry, Request, Settings};
use kubewarden_policy_sdk::protocol_version_guest;
use wapc_guest::{CallResult, register_function};

/// Called once by the host in each fresh instance.
#[expect(unsafe_code, reason = "waPC finds this export by its unmangled name")]
#[unsafe(no_mangle)]
pub extern "C" fn wapc_init() {
    register_function("protocol_version", protocol_version_guest);
    register_function("validate_settings", validate_settings);
    register_function("validate", validate);
}

/// Tells whether settings are ones that we can work with.
fn validate_settings(payload: &[u8]) -> CallResult {
    let document = match Document::read_bytes(payload) {
        Ok(document) => document,
        Err(error) => return respond::settings(Some(format!("invalid settings: {error}"))),
    };
    respond::settings(Settings::read(Some(document.root())).err().map(|error| error.to_string()))
}

/// Judges one admission request.
fn validate(payload: &[u8]) -> CallResult {
    Ok(judge(payload, &mut host::wapc))
}

/// Judges one admission request before any host: the response, as the host reads it.
pub fn judge(payload: &[u8], host: host::Host<'_>) -> Vec<u8> {
    let document = match Document::read_bytes(payload) {
        Ok(document) => document,
        Err(error) => return respond::refuse(&format!("the request cannot be read: {error}")),
    };
    let (request, settings) = match read(document.root()) {
        // Nothing is dropped: the host discards the instance after one request, with all its memory.
        Ok((request, settings)) => (ManuallyDrop::new(request), settings),
        Err(malformed) => return refuse(malformed),
    };
    let settings = match Settings::read(settings) {
        Ok(settings) => ManuallyDrop::new(settings),
        Err(error) => return respond::refuse(&error.to_string()),
    };
    let answers = ManuallyDrop::new(Answers::default());
    let mut inquiry = ManuallyDrop::new(Inquiry::new(&request, &settings, &answers));
    let decision = ManuallyDrop::new(inquiry.run(|lookups| host::fetch_all(lookups, host), clock::now));
    respond::with(&decision, request.object).unwrap_or_else(refuse)
}

/// The request and the settings in a payload.
fn read(payload: Node<'_>) -> Result<(Request<'_>, Option<Node<'_>>), Malformed> {
    let request = payload.get("request")?.ok_or_else(|| payload.wrong("`request` is missing"))?;
    Ok((Request::read(request)?, payload.get("settings")?))
}

fn refuse(malformed: Malformed) -> Vec<u8> {
    respond::refuse(&Decision::refusing(Violation::Unreadable(malformed)).message())
}
