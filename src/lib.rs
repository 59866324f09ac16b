//! The policy: a thin waPC shell around the core. No rule of its own.
//!
//! read the request and the settings -> ask the host for what the core needs -> decide -> respond

mod host;
mod respond;

use headroom_core::context::lookup::Lookup;
use headroom_core::decide::{Decision, Violation};
use headroom_core::json::{Document, Malformed, Node};
use headroom_core::{Context, Request, Settings, decide};
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
pub fn validate_settings(payload: &[u8]) -> CallResult {
    let document = match Document::read_bytes(payload) {
        Ok(document) => document,
        Err(error) => return respond::settings(Some(format!("invalid settings: {error}"))),
    };
    respond::settings(Settings::read(Some(document.root())).err().map(|error| error.to_string()))
}

/// Judges one admission request.
pub fn validate(payload: &[u8]) -> CallResult {
    let document = match Document::read_bytes(payload) {
        Ok(document) => document,
        Err(error) => return Ok(respond::refuse(&format!("the request cannot be read: {error}"))),
    };
    let (request, settings) = match read(document.root()) {
        Ok(read) => read,
        Err(malformed) => return Ok(refuse(malformed)),
    };
    let settings = match Settings::read(settings) {
        Ok(settings) => settings,
        Err(error) => return Ok(respond::refuse(&error.to_string())),
    };
    let lookups = Lookup::all(&request, &settings);
    let answers: Vec<_> = lookups.iter().map(|lookup| host::fetch(&lookup.call())).collect();
    let documents: Vec<_> = answers.iter().map(host::read).collect();
    let mut context = Context::default();
    for (lookup, document) in lookups.iter().zip(&documents) {
        context.add(lookup, document.as_ref().map(Document::root).map_err(Clone::clone));
    }
    let decision = decide(&request, &context, &settings);
    Ok(respond::with(&decision, request.object).unwrap_or_else(refuse))
}

/// The request and the settings in a payload.
fn read(payload: Node<'_>) -> Result<(Request<'_>, Option<Node<'_>>), Malformed> {
    let request = payload.get("request")?.ok_or_else(|| payload.wrong("`request` is missing"))?;
    Ok((Request::read(request)?, payload.get("settings")?))
}

fn refuse(malformed: Malformed) -> Vec<u8> {
    respond::refuse(&Decision::refusing(vec![Violation::Unreadable(malformed)]).message())
}
