//! The policy: reads a request and its settings, fetches what the evaluation asks for, and responds.
//!
//! Every rule is in `headroom_admission`; only this shell knows Kubewarden.

mod fetch;
mod respond;

use std::mem::ManuallyDrop;
use std::time::SystemTime;

use headroom_admission::cluster::lookup::Lookup;
use headroom_admission::json::{Document, Malformed, Node};
use headroom_admission::timestamp::Timestamp;
use headroom_admission::verdict::Violation;
use headroom_admission::{Decision, FetchedObjects, Request, Settings, evaluate};
use kubewarden_policy_sdk::settings::SettingsValidationResponse;
use wapc_guest::CallResult;

pub use fetch::Host;

/// Evaluates an admission request, and returns the SDK's `ValidationResponse` as JSON.
pub fn validate(payload: &[u8], host: Host<'_>) -> CallResult {
    let document = match Document::read_bytes(payload) {
        Ok(document) => document,
        Err(error) => return respond::reject(format!("the request cannot be read: {error}")),
    };
    let (request, settings) = match read(document.root()) {
        // Nothing is dropped: the host discards the instance after one request, with all its memory.
        Ok((request, settings)) => (ManuallyDrop::new(request), settings),
        Err(malformed) => return reject_malformed(malformed),
    };
    let settings = match Settings::read(settings) {
        Ok(settings) => ManuallyDrop::new(settings),
        Err(error) => return respond::reject(error.to_string()),
    };
    let fetched = ManuallyDrop::new(FetchedObjects::default());
    let fetch = |lookups: &[Lookup<'_>]| fetch::fetch_all(lookups, host);
    let decided = ManuallyDrop::new(evaluate(&request, &settings, &fetched, fetch, now));
    respond::decide(&decided.0, &request, &settings).map_or_else(reject_malformed, Ok)
}

/// Reads the clock, which costs only requests whose decision depends on the time. None if it is set to before 1970 or after the
/// year 9999.
fn now() -> Option<Timestamp> {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Timestamp::from_unix_seconds(i64::try_from(since_1970.as_secs()).ok()?)
}

fn read(payload: Node<'_>) -> Result<(Request<'_>, Option<Node<'_>>), Malformed> {
    let request = payload.get("request")?.ok_or_else(|| payload.error("`request` is missing"))?;
    Ok((Request::read(request)?, payload.get("settings")?))
}

fn reject_malformed(malformed: Malformed) -> CallResult {
    respond::reject(Decision::refusing(Violation::Unreadable(malformed)).message())
}

/// Validates settings, and returns the SDK's `SettingsValidationResponse` as JSON.
pub fn validate_settings(payload: &[u8]) -> CallResult {
    let message = match Document::read_bytes(payload) {
        Ok(document) => Settings::read(Some(document.root())).err().map(|error| error.to_string()),
        Err(error) => Some(format!("invalid settings: {error}")),
    };
    Ok(serde_json::to_vec(&SettingsValidationResponse { valid: message.is_none(), message })?)
}

#[cfg(test)]
mod tests {
    use kubewarden_policy_sdk::response::ValidationResponse;

    use super::*;

    fn respond(payload: &str) -> ValidationResponse {
        let response = validate(payload.as_bytes(), &mut |_, _| Err("there is no \"cluster\"".to_owned())).unwrap();
        serde_json::from_slice(&response).unwrap()
    }

    #[test]
    fn the_sdk_parses_responses() {
        let refused = respond("{}");
        assert!(!refused.accepted && refused.code == Some(403), "{refused:?}");
        assert_eq!(refused.message.as_deref(), Some("the object cannot be read: `request` is missing"));

        let pod = include_str!("../tests/data/requests/pod-create-plain.json");
        let request = pod.trim_end().strip_suffix('}').unwrap();
        let unread = respond(&format!(r#"{request},"settings":{{"onMissingContext":"warn"}}}}"#));
        assert!(unread.accepted && unread.message.is_none(), "{unread:?}");
        assert!(unread.warnings.unwrap().iter().any(|warning| warning.ends_with("there is no \"cluster\"")));

        let settings = r#"{"limitRanges":{"rules":[{"name":"rule","limits":[{"type":"Container","default":{"cpu":"1"}}]}]},"onMissingContext":"warn"}"#;
        let changed = respond(&format!(r#"{request},"settings":{settings}}}"#));
        let object = changed.mutated_object.unwrap();
        assert_eq!(object["spec"]["containers"][0]["resources"]["limits"]["cpu"], "1");
        assert_eq!(
            object["metadata"]["annotations"]["headroom.dev/resources"],
            changed.audit_annotations.unwrap()["resources"]
        );
    }

    #[test]
    fn invalid_settings_are_refused_with_the_reason() {
        let message = |settings: &str| {
            let response = validate_settings(settings.as_bytes()).unwrap();
            let response: SettingsValidationResponse = serde_json::from_slice(&response).unwrap();
            assert_eq!(response.valid, response.message.is_none(), "{settings}");
            response.message.unwrap_or_default()
        };
        assert_eq!(message("{}"), "");
        assert!(message(r#"{"limit\"": 1}"#).starts_with(r#"invalid settings: `limit"` is not a setting"#));
        assert!(message("{").starts_with("invalid settings: "));
    }
}
