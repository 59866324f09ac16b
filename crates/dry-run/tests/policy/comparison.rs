//! One request, decided by the policy, by a dry run, and by the policy with what the dry run read as its session.

use headroom_admission::Request;
use headroom_admission::json::Document;
use headroom_admission::verdict::announced;
use headroom_dry_run::evaluate::{self, session};
use headroom_dry_run::settings::ParsedSettings;
use headroom_fixtures::cluster::Cluster;
use headroom_fixtures::host_call::answering;
use headroom_fixtures::session::Replay;
use headroom_objects::cluster_reader::{ClusterReader, List, ReadError};
use serde_json::{Value, json};

/// The objects of a cluster unchanged, without the defaults that a dry run adds to files.
struct Unchanged(Cluster);

impl ClusterReader for Unchanged {
    fn list(&mut self, (api_version, kind, namespace): List<'_>) -> Result<Vec<Value>, ReadError> {
        Ok(self.0.list(api_version, kind, namespace)?)
    }
}

/// Asserts that both decide the same, in the same words.
pub fn check(name: &str, request: &Value, settings: &Value, cluster: &Cluster) {
    let payload = json!({"request": request, "settings": settings}).to_string();
    let response = headroom_policy::validate(payload.as_bytes(), &mut answering(&mut cluster.clone())).unwrap();
    let policy: Value = serde_json::from_slice(&response).unwrap();
    let dryrun = evaluate::evaluate(request.clone(), &ParsedSettings::of(settings), &mut Unchanged(cluster.clone()));
    let field = |name: &str| policy.get(name).filter(|value| !value.is_null()).cloned();
    assert_eq!(Some(json!(dryrun.is_admitted())), field("accepted"), "{name}: {dryrun:?}");
    assert_eq!(json!(dryrun.message()), field("message").unwrap_or_else(|| json!("")), "{name}");
    // Only the policy adds its name and the command that explains the decision.
    let text = request.to_string();
    let document = Document::read(&text).unwrap();
    let request = Request::read(document.root());
    let admitted = dryrun.is_admitted().then(|| request.as_ref().unwrap());
    let warned: Vec<String> = serde_json::from_value(field("warnings").unwrap_or_else(|| json!([]))).unwrap();
    assert_eq!(warned.len(), dryrun.warnings.len(), "{name}");
    for (theirs, ours) in warned.iter().zip(&dryrun.warnings) {
        // The policy, where it cannot read something, also says what may be wrong with its installation.
        if !ours.text.ends_with("; evaluated without it") {
            assert_eq!(*theirs, announced(&ours.text, admitted), "{name}");
        }
    }
    assert_eq!(dryrun.changed, field("mutated_object"), "{name}");

    let mut recorded = Replay::from_yaml(&session::text(&dryrun.exchanges)).unwrap();
    let replayed = headroom_policy::validate(payload.as_bytes(), &mut answering(&mut recorded)).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&replayed).unwrap(), policy, "{name}");
    assert_eq!(recorded.leftovers(), 0, "{name}");
}
