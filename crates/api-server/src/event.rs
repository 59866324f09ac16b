//! Events about objects, which `kubectl describe` shows.

use headroom_admission::truncate::on_one_line;
use headroom_objects::kinds::metadata;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api_client::{ApiClient, ApiError};
use crate::api_path::ApiPath;
use crate::random;

/// The namespace of events about cluster-scoped objects.
const DEFAULT: &str = "default";

/// The longest name of an object, in bytes.
const LONGEST_NAME: usize = 253;
/// The longest note that `events.k8s.io` accepts, in bytes.
const LONGEST_MESSAGE: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    Normal,
    Warning,
}

#[derive(Clone)]
pub struct Recorder {
    pub api: ApiClient,
    /// The program's name, such as `headroom-ledger`.
    pub component: &'static str,
    pub instance: String,
}

impl Recorder {
    /// Writes an event about an object. `apiVersion` and `kind` are given, as lists omit them. A failure is only logged.
    pub async fn record(&self, about: (&str, &str, &Value), kind: EventType, reason: &str, message: &str) {
        let name = name_of(metadata(about.2, "name"), &random::token());
        self.record_as(&name, about, kind, reason, message).await;
    }

    /// Like [`Self::record`], under a name. Returns false if there is an event with that name.
    pub async fn record_as(
        &self,
        event: &str,
        about: (&str, &str, &Value),
        kind: EventType,
        reason: &str,
        message: &str,
    ) -> bool {
        let (api_version, object_kind, object) = about;
        let (name, namespace) = (metadata(object, "name"), metadata(object, "namespace"));
        let home = if namespace.is_empty() { DEFAULT } else { namespace };
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": event, "namespace": home},
            "involvedObject": {"apiVersion": api_version, "kind": object_kind, "name": name, "namespace": namespace,
                "uid": metadata(object, "uid"), "resourceVersion": metadata(object, "resourceVersion")},
            "type": if kind == EventType::Warning { "Warning" } else { "Normal" }, "reason": reason,
            "message": message_of(message),
            "source": {"component": self.component}, "reportingComponent": self.component,
            "reportingInstance": self.instance, "firstTimestamp": now, "lastTimestamp": now, "count": 1,
        });
        match self.api.create(&ApiPath::new("/api/v1").collection(Some(home), "events"), &event).await {
            Err(ApiError::Conflict { .. }) => return false,
            Err(failure) => tracing::warn!(name, reason, %failure, "cannot write an event"),
            Ok(_) => {}
        }
        true
    }
}

/// The name of an event. Like client-go, it leaves out the object's name if that is too long.
fn name_of(object: &str, token: &str) -> String {
    let name = format!("{object}.{token}");
    if name.len() <= LONGEST_NAME { name } else { token.to_owned() }
}

/// The text on one line, cut to what an event may have: it may quote what others wrote.
fn message_of(text: &str) -> String {
    let mut line = on_one_line(text, LONGEST_MESSAGE);
    line.truncate(line.floor_char_boundary(LONGEST_MESSAGE));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_a_valid_name_and_a_short_message_whatever_it_is_about() {
        assert_eq!(name_of("team", "0a"), "team.0a");
        assert_eq!(name_of(&"a".repeat(250), "0a"), format!("{}.0a", "a".repeat(250)));
        assert_eq!(name_of(&"a".repeat(251), "0a"), "0a");
        assert_eq!(message_of("status.used was {\"a\u{1b}[2K\": 1}\nx"), "status.used was {\"a [2K\": 1} x");
        for letter in ["a", "é", "日"] {
            let message = message_of(&letter.repeat(5_000));
            assert!((1022..=LONGEST_MESSAGE).contains(&message.len()), "{}", message.len());
        }
    }
}
