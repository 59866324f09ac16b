//! `kwctl`'s session files: the host calls of an evaluation and their answers, recorded and replayed.
//!
//! As in `kwctl`, a replay is strict: calls must be in the recorded order and equal to the recorded ones, including
//! masks. Anything else is an error *to the guest*.

use std::{collections::VecDeque, fs, path::Path};

use serde::{Deserialize, Serialize};

use crate::host_call::{CallbackRequest, HostCalls};

/// One entry of a session file. The request is a string of YAML.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
struct Exchange {
    request: String,
    response: Response,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
enum Response {
    Success { payload: String },
    Error { message: String },
}

/// Answers from a session file.
#[derive(Debug, Clone, Default)]
pub struct Replay {
    exchanges: VecDeque<(CallbackRequest, Response)>,
}

impl Replay {
    pub fn from_file(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
        Self::from_yaml(&text).map_err(|error| format!("`{}` is not a session file: {error}", path.display()))
    }

    pub fn from_yaml(text: &str) -> Result<Self, String> {
        let exchanges: Vec<Exchange> = serde_yaml::from_str(text).map_err(|error| error.to_string())?;
        let typed = exchanges.into_iter().map(|Exchange { request, response }| {
            let request = serde_yaml::from_str(&request).map_err(|error| format!("request `{request}`: {error}"))?;
            Ok((request, response))
        });
        Ok(Self { exchanges: typed.collect::<Result<_, String>>()? })
    }

    /// The number of recorded exchanges that were not used.
    pub fn leftovers(&self) -> usize {
        self.exchanges.len()
    }
}

impl HostCalls for Replay {
    fn call(&mut self, request: &CallbackRequest) -> Result<Vec<u8>, String> {
        let Some((expected, response)) = self.exchanges.pop_front() else {
            return Err("the list of recorded responses is empty".to_owned());
        };
        if expected != *request {
            return Err(format!(
                "Replay error: unexpected request. Was expecting {expected:?}, got {request:?} instead"
            ));
        }
        match response {
            Response::Success { payload } => Ok(payload.into_bytes()),
            Response::Error { message } => Err(message),
        }
    }
}

/// Forwards calls and records them.
pub struct Recorder<'a> {
    inner: &'a mut dyn HostCalls,
    exchanges: Vec<Exchange>,
}

impl<'a> Recorder<'a> {
    pub fn new(inner: &'a mut dyn HostCalls) -> Self {
        Self { inner, exchanges: Vec::new() }
    }

    /// The session so far, as the text of a session file.
    pub fn to_yaml(&self) -> Result<String, String> {
        serde_yaml::to_string(&self.exchanges).map_err(|error| error.to_string())
    }
}

impl HostCalls for Recorder<'_> {
    fn call(&mut self, request: &CallbackRequest) -> Result<Vec<u8>, String> {
        let answer = self.inner.call(request);
        let response = match &answer {
            Ok(payload) => Response::Success { payload: String::from_utf8_lossy(payload).into_owned() },
            Err(message) => Response::Error { message: message.clone() },
        };
        let request = serde_yaml::to_string(request).map_err(|error| error.to_string())?;
        self.exchanges.push(Exchange { request, response });
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Session files as kwctl writes them: one in the current form, one from before field masks.
    const SESSION: &str = r#"
- type: Exchange
  request: |
    !KubernetesListResourceNamespace
    api_version: v1
    kind: LimitRange
    namespace: team-a
    label_selector: null
    field_selector: null
    field_masks:
    - spec.limits
    - metadata.name
  response:
    type: Success
    payload: '{"items":[]}'
- type: Exchange
  request: |
    !KubernetesGetResource
    api_version: v1
    kind: Namespace
    name: team-a
    namespace: null
    disable_cache: false
  response: { type: Error, message: "Cannot find v1/Namespace" }
"#;

    fn list_limit_ranges() -> CallbackRequest {
        CallbackRequest::KubernetesListResourceNamespace {
            api_version: "v1".into(),
            kind: "LimitRange".into(),
            namespace: "team-a".into(),
            label_selector: None,
            field_selector: None,
            field_masks: Some(["metadata.name".to_owned(), "spec.limits".to_owned()].into()),
        }
    }

    fn get_namespace() -> CallbackRequest {
        CallbackRequest::KubernetesGetResource {
            api_version: "v1".into(),
            kind: "Namespace".into(),
            name: "team-a".into(),
            namespace: None,
            disable_cache: false,
            field_masks: None,
        }
    }

    #[test]
    fn a_replay_answers_in_the_recorded_order() {
        let mut replay = Replay::from_yaml(SESSION).unwrap();
        assert_eq!(replay.call(&list_limit_ranges()), Ok(br#"{"items":[]}"#.to_vec()));
        assert_eq!(replay.leftovers(), 1);
        assert_eq!(replay.call(&get_namespace()), Err("Cannot find v1/Namespace".to_owned()));
        assert_eq!(replay.call(&get_namespace()), Err("the list of recorded responses is empty".to_owned()));
    }

    #[test]
    fn a_call_out_of_order_is_an_error_to_the_guest_and_consumes_the_entry() {
        let mut replay = Replay::from_yaml(SESSION).unwrap();
        let error = replay.call(&get_namespace()).unwrap_err();
        assert!(error.starts_with("Replay error: unexpected request. Was expecting KubernetesListResourceNamespace"));
        assert_eq!(replay.leftovers(), 1);
    }

    #[test]
    fn a_recorded_session_replays() {
        let mut source = Replay::from_yaml(SESSION).unwrap();
        let mut recorder = Recorder::new(&mut source);
        let answers = [recorder.call(&list_limit_ranges()), recorder.call(&get_namespace())];
        let yaml = recorder.to_yaml().unwrap();
        assert!(yaml.contains("- type: Exchange\n  request: |\n    !KubernetesListResourceNamespace\n"), "{yaml}");
        let mut replay = Replay::from_yaml(&yaml).unwrap();
        assert_eq!([replay.call(&list_limit_ranges()), replay.call(&get_namespace())], answers);
    }

    #[test]
    fn an_unreadable_request_is_quoted_in_the_error() {
        let error =
            Replay::from_yaml("- {type: Exchange, request: '!Nonsense {}', response: {type: Error, message: m}}")
                .unwrap_err();
        assert!(error.contains("!Nonsense"), "{error}");
    }
}
