//! The policy's settings as people keep them: in a file of their own, or within the policy object that has them.

use std::path::Path;

use headroom_admission::Settings;
use headroom_admission::json::Document;
use headroom_admission::settings::SettingsError;
use headroom_admission::timestamp::Timestamp;
use serde_json::{Value, json};

use headroom_objects::kinds::{self, metadata};
use headroom_objects::manifest::{self, Manifest, documents};
use headroom_objects::{clock, document};

/// The settings in a text that came from `file`. The error is one line, and names the file.
pub fn in_text(file: &Path, text: &str) -> Result<Value, String> {
    // A file of settings is no Kubernetes object.
    if let [Ok((_, bare))] = documents::read(text).as_slice()
        && bare.get("kind").is_none()
    {
        return Ok(bare.clone());
    }
    let manifests = manifest::read_text(file, text).map_err(|malformed| malformed.to_string())?;
    let is_policy =
        |of: &&Manifest| matches!(kinds::text(&of.object, "/kind"), "ClusterAdmissionPolicy" | "AdmissionPolicy");
    let policies: Vec<&Manifest> = manifests.iter().filter(is_policy).collect();
    // The mutating policy has the settings that matter for pods.
    let is_mutating = |policy: &&Manifest| policy.object.pointer("/spec/mutating") == Some(&json!(true));
    let mutating: Vec<&Manifest> = policies.iter().copied().filter(is_mutating).collect();
    let counting = if mutating.is_empty() { policies } else { mutating };
    match counting.as_slice() {
        [policy] => Ok(policy.object.pointer("/spec/settings").cloned().unwrap_or_else(|| json!({}))),
        [] if manifests.is_empty() => Ok(json!({})),
        [] => {
            Err(format!("`{}` holds neither settings nor a ClusterAdmissionPolicy or AdmissionPolicy", file.display()))
        }
        several => {
            let names: Vec<&str> = several.iter().map(|policy| metadata(&policy.object, "name")).collect();
            let (file, names) = (file.display(), names.join(", "));
            Err(format!("`{file}` holds several policies ({names}): leave the one whose settings count"))
        }
    }
}

/// Checks settings as the policy does.
pub fn check(settings: &Value) -> Result<(), SettingsError> {
    match document(settings) {
        Ok(document) => Settings::read(Some(document.root())).map(|_| ()),
        // OK because what serde_json wrote can be read.
        Err(_) => Ok(()),
    }
}

/// Settings that evaluations read again and again. Settings that the policy would not accept fail each of them.
#[derive(Debug)]
pub struct ParsedSettings(Result<Document<'static>, String>);

impl ParsedSettings {
    pub fn of(settings: &Value) -> Self {
        Self(document(settings).map_err(|error| format!("invalid settings: {error}")))
    }

    pub fn read(&self) -> Result<Settings<'_>, String> {
        let document = self.0.as_ref().map_err(Clone::clone)?;
        Settings::read(Some(document.root())).map_err(|error| error.to_string())
    }

    pub fn replay_time(&self) -> Option<Timestamp> {
        self.read().ok()?.estimates.replay_time
    }

    /// The time of an evaluation: `estimates.replayTime`, or else the clock's.
    pub fn now(&self) -> Option<Timestamp> {
        self.replay_time().or_else(|| Timestamp::from_unix_seconds(clock::now()))
    }
}
