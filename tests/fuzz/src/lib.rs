//! Evaluates one request natively, and checks properties that must hold for every request.

use headroom_admission::cluster::lookup::Lookup;
use headroom_admission::json::{Document, Node};
use headroom_admission::timestamp::Timestamp;
use headroom_admission::{FetchedObjects, Request, Settings, evaluate};

/// Evaluates a request. `cluster` has the host's answer for each kind that can be read; other reads fail.
///
/// If a request is admitted with a change, the changed request must be admitted without another change.
pub fn check_request(request: &str, settings: Node<'_>, cluster: Node<'_>) {
    if let Outcome::Changed(changed) = outcome(request, settings, cluster) {
        let again = outcome(&changed, settings, cluster);
        assert_eq!(again, Outcome::Unchanged, "when evaluating our own output:\n{request}\n{changed}");
    }
}

#[derive(Debug, PartialEq)]
enum Outcome {
    /// The request or the settings cannot be parsed.
    Invalid,
    Refused(String),
    Unchanged,
    /// Admitted; the request with the changed object.
    Changed(String),
}

fn outcome(request: &str, settings: Node<'_>, cluster: Node<'_>) -> Outcome {
    let Ok(document) = Document::read(request) else { return Outcome::Invalid };
    let Ok(read) = Request::read(document.root()) else { return Outcome::Invalid };
    let Ok(settings) = Settings::read(Some(settings)) else { return Outcome::Invalid };
    let fetched = FetchedObjects::default();
    let now = "2026-11-21T06:00:00Z".parse::<Timestamp>().ok();
    let fetch = |lookups: &[Lookup<'_>]| lookups.iter().map(|lookup| answer(lookup, cluster)).collect();
    let decision = evaluate(&read, &settings, &fetched, fetch, || now).0;
    let changed = read.object.and_then(|object| decision.changed_object(object.node).ok().flatten());
    decision.audit_annotations();
    if !decision.is_admitted() {
        assert!(!decision.message().is_empty(), "a refusal without a message");
        assert!(changed.is_none(), "refused and changed:\n{request}");
        return Outcome::Refused(decision.message());
    }
    match (changed, read.object) {
        (Some(changed), Some(object)) => {
            let span = object.node.span();
            Outcome::Changed([&request[..span.start], &changed, &request[span.end..]].concat())
        }
        _ => Outcome::Unchanged,
    }
}

fn answer(lookup: &Lookup<'_>, cluster: Node<'_>) -> Result<Vec<u8>, String> {
    let kind = lookup.call().kind;
    match cluster.get(kind) {
        Ok(Some(answer)) => Ok(answer.text().as_bytes().to_vec()),
        _ => Err(format!("Cannot find {kind}")),
    }
}
