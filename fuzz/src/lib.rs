//! One request judged natively, and what has to hold of it whatever it is.

use headroom_core::cluster::lookup::Lookup;
use headroom_core::json::{Document, Node};
use headroom_core::timestamp::Timestamp;
use headroom_core::{Answers, Inquiry, Request, Settings};

/// Judges a request. `cluster` has an answer for each kind that may be read, as a host writes it; other reads fail.
///
/// What is admitted with a change must be admitted again as changed, without another change.
pub fn judge(request: &str, settings: Node<'_>, cluster: Node<'_>) {
    if let Outcome::Changed(changed) = outcome(request, settings, cluster) {
        let again = outcome(&changed, settings, cluster);
        assert_eq!(again, Outcome::Unchanged, "of our own output:\n{request}\n{changed}");
    }
}

#[derive(Debug, PartialEq)]
enum Outcome {
    /// The request or the settings cannot be read.
    Unread,
    Refused(String),
    Unchanged,
    /// Admitted; the request with the object as it was changed.
    Changed(String),
}

fn outcome(request: &str, settings: Node<'_>, cluster: Node<'_>) -> Outcome {
    let Ok(document) = Document::read(request) else { return Outcome::Unread };
    let Ok(read) = Request::read(document.root()) else { return Outcome::Unread };
    let Ok(settings) = Settings::read(Some(settings)) else { return Outcome::Unread };
    let answers = Answers::default();
    let mut inquiry = Inquiry::new(&read, &settings, &answers);
    let now = "2026-11-21T06:00:00Z".parse::<Timestamp>().ok();
    let decision = inquiry.run(|lookups| lookups.iter().map(|lookup| answer(lookup, cluster)).collect(), || now);
    let changed = read.object.and_then(|object| decision.changed_object(object.node).ok().flatten());
    decision.audit_annotations();
    if !decision.is_admitted() {
        assert!(!decision.message().is_empty(), "a refusal without a word");
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
