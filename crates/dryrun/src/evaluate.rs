//! Evaluates one object by the same core and in the same order as the policy: it makes the request that the API server would
//! send, reads the objects that the core asks for, and keeps the decision as owned data.
//!
//! A [`ClusterReader`] supplies the objects; the commands render the result.

mod bounds;
pub mod request;

mod evaluation;

mod autoscaled;
mod pod_templates;
mod validation;

mod byte_warnings;
mod kubectl_apply;
mod measured;
mod order;
pub mod tenant_quotas;

mod run;

use headroom_core::cluster::lookup::Lookup;
use headroom_core::json::{Document, Malformed};
use headroom_core::limit_rules;
use headroom_core::settings::Mode;
use headroom_core::timestamp::Timestamp;
use headroom_core::verdict::Violation;
use headroom_core::{Context, Decision, FetchedObjects, Request, Settings};
use serde_json::{Value, json};

use headroom_objects::clock;
use headroom_objects::cluster_reader::{ClusterReader, ReadError};

pub use bounds::{CheckedBound, Edge};
pub use evaluation::{
    Amount, Call, Charge, ContainerValues, Evaluation, Exchange, Measured, Operation, Reason, ResourceValue, SetBy,
    Topic, Verdict, Warning,
};
pub use order::bounds_first;
pub use pod_templates::{PodTemplate, PodsAt};
pub use run::Run;
pub use validation::{problems, problems_of_bounds};

/// Evaluates a request with the objects of a cluster. `settings` is the JSON of valid settings.
pub fn evaluate(request: Value, settings: &str, cluster: &mut dyn ClusterReader) -> Evaluation {
    // In the envelope that the policy gets, so that paths in messages are the same.
    let text = format!("{{\"request\":{request}}}");
    let mut evaluation = Evaluation::of(request);
    if let Err(problem) = decide_on(&text, settings, cluster, &mut evaluation) {
        evaluation.verdict = Verdict::Error;
        evaluation.reasons = vec![Reason::new(Topic::MissingContext, vec![problem])];
    }
    evaluation
}

/// Decides as the policy does, with `cluster` in place of the host.
fn decide_on(
    text: &str,
    settings: &str,
    cluster: &mut dyn ClusterReader,
    evaluation: &mut Evaluation,
) -> Result<(), String> {
    let document = Document::read(text).map_err(|error| error.to_string())?;
    let request = document.root().get("request").transpose().unwrap_or_else(|| Ok(document.root()));
    let request = match request.and_then(Request::read) {
        Ok(request) => request,
        Err(malformed) => {
            evaluation.take(&Decision::refusing(Violation::Unreadable(malformed)), None);
            return Ok(());
        }
    };
    let settings_document = Document::read(settings).map_err(|error| format!("invalid settings: {error}"))?;
    let settings = Settings::read(Some(settings_document.root())).map_err(|error| error.to_string())?;
    let fetched = FetchedObjects::default();
    let now = || Timestamp::from_unix_seconds(clock::now());
    let fetch = |lookups: &[Lookup<'_>]| fetch(lookups, cluster, &settings, evaluation);
    let headroom_core::Evaluation { decision, context } =
        headroom_core::evaluate(&request, &settings, &fetched, fetch, now);
    evaluation.take(&decision, changed(&decision, &request)?);
    if let (Some(pod), Some(values)) = (&decision.pod, &mut evaluation.pod) {
        measured::add(values, pod, &request, &context, &settings);
    }
    if settings.limit_ranges.mode != Mode::Off {
        let bounds = checked_bounds(&request, &decision, &context, &settings);
        evaluation.checked_bounds = bounds.map_err(|malformed| malformed.to_string())?;
    }
    Ok(())
}

/// The bounds that the request's pod or claim was checked against.
fn checked_bounds<'d>(
    request: &Request<'d>,
    decision: &Decision<'d>,
    context: &Context<'d>,
    settings: &'d Settings<'d>,
) -> Result<Vec<CheckedBound>, Malformed> {
    match (&decision.pod, request.object) {
        (Some(pod), _) => {
            let ranges = limit_rules::applicable(request, Some(pod), context, settings)?;
            Ok(bounds::of_pod(pod, &ranges))
        }
        // An object that cannot be read is already rejected, so its bounds are not checked.
        (None, Some(claim)) if request.is("", "persistentvolumeclaims", "") && !is_unreadable(decision) => {
            bounds::of_claim(&claim, &limit_rules::applicable(request, None, context, settings)?)
        }
        _ => Ok(Vec::new()),
    }
}

fn is_unreadable(decision: &Decision<'_>) -> bool {
    decision.violations.iter().any(|violation| matches!(violation, Violation::Unreadable(_)))
}

fn changed(decision: &Decision<'_>, request: &Request<'_>) -> Result<Option<Value>, String> {
    let Some(object) = request.object else { return Ok(None) };
    let Some(text) = decision.changed_object(object.node).map_err(|malformed| malformed.to_string())? else {
        return Ok(None);
    };
    serde_json::from_str(&text).map(Some).map_err(|error| error.to_string())
}

/// Reads the objects of some lookups in order, and records the exchanges.
fn fetch(
    lookups: &[Lookup<'_>],
    cluster: &mut dyn ClusterReader,
    settings: &Settings<'_>,
    evaluation: &mut Evaluation,
) -> Vec<Result<Vec<u8>, String>> {
    let mut answers = Vec::new();
    for lookup in lookups {
        let answer = read(lookup, cluster, settings);
        evaluation.exchanges.push(Exchange::new(&lookup.call(), &answer));
        answers.push(answer);
    }
    answers
}

/// Reads the objects of a lookup.
///
/// An object is only sent if its namespace exists. A namespace without an object has no annotations about
/// estimates; but its labels are not guessed where settings select by them.
pub fn read(lookup: &Lookup<'_>, cluster: &mut dyn ClusterReader, settings: &Settings<'_>) -> Result<Vec<u8>, String> {
    let answer = cluster.read(&lookup.call());
    match (lookup, &answer) {
        (Lookup::Namespace { name }, Err(ReadError::NotFound { .. })) if !settings.selects_by_namespace_labels() => {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            Ok(namespace.to_string().into_bytes())
        }
        _ => Ok(answer?),
    }
}
