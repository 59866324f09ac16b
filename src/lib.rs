//! The policy: a thin waPC shell around the core, without any rule of its own.
//!
//! read the request and the settings -> evaluate, fetching the objects of each phase -> respond

mod clock;
#[cfg(any(target_arch = "wasm32", test))]
mod compare;
mod host;
#[cfg(target_arch = "wasm32")]
mod memory;
mod respond;
#[cfg(target_arch = "wasm32")]
mod wapc;

use std::mem::ManuallyDrop;

use headroom_core::cluster::lookup::Lookup;
use headroom_core::json::{Document, Malformed, Node};
use headroom_core::verdict::Violation;
use headroom_core::{Decision, FetchedObjects, Request, Settings, evaluate};

/// Answers an operation of Kubewarden; none if the operation is unknown.
pub fn answer(operation: &[u8], payload: &[u8], host: host::Host<'_>) -> Option<Vec<u8>> {
    match operation {
        b"validate" => Some(judge(payload, host)),
        b"validate_settings" => Some(respond::settings(problem_of_settings(payload))),
        b"protocol_version" => Some(b"\"v1\"".to_vec()),
        _ => None,
    }
}

/// The problems of invalid settings.
fn problem_of_settings(payload: &[u8]) -> Option<String> {
    match Document::read_bytes(payload) {
        Ok(document) => Settings::read(Some(document.root())).err().map(|error| error.to_string()),
        Err(error) => Some(format!("invalid settings: {error}")),
    }
}

/// Judges one admission request and returns the response for the host.
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
    let fetched = ManuallyDrop::new(FetchedObjects::default());
    let fetch = |lookups: &[Lookup<'_>]| host::fetch_all(lookups, host);
    let evaluation = ManuallyDrop::new(evaluate(&request, &settings, &fetched, fetch, clock::now));
    respond::with(&evaluation.decision, request.object).unwrap_or_else(refuse)
}

/// The request and the settings in a payload.
fn read(payload: Node<'_>) -> Result<(Request<'_>, Option<Node<'_>>), Malformed> {
    let request = payload.get("request")?.ok_or_else(|| payload.error("`request` is missing"))?;
    Ok((Request::read(request)?, payload.get("settings")?))
}

fn refuse(malformed: Malformed) -> Vec<u8> {
    respond::refuse(&Decision::refusing(Violation::Unreadable(malformed)).message())
}

#[cfg(test)]
mod tests {
    use super::answer;
    use headroom_testkit::kubewarden_policy_sdk::protocol_version_guest;
    use headroom_testkit::kubewarden_policy_sdk::settings::SettingsValidationResponse;

    fn answered(operation: &str, payload: &str) -> Option<Vec<u8>> {
        answer(operation.as_bytes(), payload.as_bytes(), &mut |_, _| Err("there is no cluster".to_owned()))
    }

    #[test]
    fn the_sdk_parses_the_answer_about_settings() {
        let message = |settings: &str| {
            let answer = answered("validate_settings", settings).unwrap();
            let answer: SettingsValidationResponse = serde_json::from_slice(&answer).unwrap();
            assert_eq!(answer.valid, answer.message.is_none(), "{settings}");
            answer.message.unwrap_or_default()
        };
        assert_eq!(message("{}"), "");
        assert!(message(r#"{"limit\"": 1}"#).starts_with(r#"invalid settings: `limit"` is not a setting"#));
        assert!(message("{").starts_with("invalid settings: "));
    }

    #[test]
    fn the_protocol_version_is_the_sdk_s_and_unknown_operations_have_no_answer() {
        assert_eq!(answered("protocol_version", ""), protocol_version_guest(b"").ok());
        assert_eq!(answered("mutate", "{}"), None);
    }
}
