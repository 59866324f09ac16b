//! Evaluates one object by the same core and in the same order as the policy: it makes the request that the API server would
//! send, reads the objects that the core asks for, and keeps the decision as owned data.
//!
//! A [`ClusterReader`] supplies the objects; the commands render the result.

mod bounds;
pub mod request;
pub mod session;

mod object_decision;

pub mod admission;
mod validation;

mod byte_warnings;
mod kubectl_apply;
mod settle;
pub mod tenant_quotas;

mod run;

use headroom_admission::cluster::lookup::Lookup;
use headroom_admission::cluster::usage::{Percentile, Resource};
use headroom_admission::estimate::Sources;
use headroom_admission::image::ImageName;
use headroom_admission::json::{Document, Malformed};
use headroom_admission::limit_rules;
use headroom_admission::request::Pod;
use headroom_admission::settings::Mode;
use headroom_admission::timestamp::Timestamp;
use headroom_admission::verdict::Violation;
use headroom_admission::{Context, Decision, FetchedObjects, Request, Settings};
use serde_json::{Value, json};

use self::session::Exchange;
use crate::settings::ParsedSettings;
use headroom_objects::cluster_reader::{ClusterReader, ReadError, list_of};
use headroom_objects::{clock, document};

pub use admission::Admission;
pub use bounds::{Bounds, CheckedBound};
pub use object_decision::{
    ChargedAmount, ContainerValues, Measured, ObjectCharge, ObjectDecision, ObjectWarning, Operation, RejectionReason,
    ResourceValue, SetBy, Topic, Verdict,
};
pub use run::{Blocked, FITS_NOW, Run, in_order};
pub use validation::{problems, problems_of_bounds};

/// Evaluates a request with the objects of a cluster.
pub fn evaluate(request: Value, settings: &ParsedSettings, cluster: &mut dyn ClusterReader) -> ObjectDecision {
    let mut evaluation = ObjectDecision::of(request);
    if let Err(problem) = decide_on(settings, cluster, &mut evaluation) {
        evaluation.verdict = Verdict::Error;
        evaluation.reasons = vec![RejectionReason::new(Topic::MissingContext, vec![problem])];
    }
    evaluation
}

fn decide_on(
    settings: &ParsedSettings,
    cluster: &mut dyn ClusterReader,
    evaluation: &mut ObjectDecision,
) -> Result<(), String> {
    // In the envelope that the policy gets, so that paths in messages are the same.
    let text = format!("{{\"request\":{}}}", evaluation.request);
    let document = Document::own(text.into_bytes()).map_err(|error| error.to_string())?;
    let request =
        match document.root().get("request").and_then(|request| Request::read(request.unwrap_or(document.root()))) {
            Ok(request) => request,
            Err(malformed) => {
                evaluation.take(&Decision::refusing(Violation::Unreadable(malformed)), None);
                return Ok(());
            }
        };
    let settings = settings.read()?;
    let fetched = FetchedObjects::default();
    let (decision, context) = decide(&request, &settings, &fetched, cluster, &mut evaluation.exchanges);
    let changed = match request.object {
        Some(object) => decision.changed_object(object.node).map_err(|malformed| malformed.to_string())?,
        None => None,
    };
    let changed = changed.map(|text| serde_json::from_str(&text)).transpose().map_err(|error| error.to_string())?;
    evaluation.take(&decision, changed);
    if let Some(object) = request.object.filter(|_| !decision.is_admitted()) {
        let filled = decision.filled_object(object.node).map_err(|malformed| malformed.to_string())?;
        // OK because the core writes JSON.
        evaluation.refused_as = filled.and_then(|text| serde_json::from_str(&text).ok());
    }
    if let Some(pod) = &decision.pod {
        add_usage(&mut evaluation.containers, pod, &request, &context, &settings);
    }
    if settings.limit_ranges.mode != Mode::Off {
        let bounds = checked_bounds(&request, &decision, &context, &settings);
        evaluation.add_bounds(bounds.map_err(|malformed| malformed.to_string())?);
    }
    Ok(())
}

/// Decides on a request as the policy does, with a cluster in place of the host.
fn decide<'d>(
    request: &'d Request<'d>,
    settings: &'d Settings<'d>,
    fetched: &'d FetchedObjects,
    cluster: &mut dyn ClusterReader,
    exchanges: &mut Vec<Exchange>,
) -> (Decision<'d>, Context<'d>) {
    let fetch = |lookups: &[Lookup<'d>]| {
        let answers = lookups.iter().map(|lookup| {
            let answer = read(lookup, cluster, settings);
            exchanges.push(Exchange::new(&lookup.call(), &answer));
            answer
        });
        answers.collect()
    };
    let now = || Timestamp::from_unix_seconds(clock::now());
    headroom_admission::evaluate(request, settings, fetched, fetch, now)
}

/// Adds to each estimated request the usage that it was made from, for people who want to see it. Values and pod are of the same
/// containers.
fn add_usage(
    values: &mut [ContainerValues],
    pod: &Pod<'_>,
    request: &Request<'_>,
    context: &Context<'_>,
    settings: &Settings<'_>,
) {
    let settings = &settings.estimates;
    for (ContainerValues { values, .. }, container) in values.iter_mut().zip(&pod.containers) {
        let mut estimated = values.iter_mut().filter(|value| value.set_by == SetBy::Estimate).peekable();
        let Ok(image) = ImageName::parse(&container.image) else { continue };
        if estimated.peek().is_none() {
            continue;
        }
        // Faults of a history were noted when the estimate was made.
        let notes = &mut Vec::new();
        let sources = Sources::find(&image, (request.workload_name(), &container.name), context, settings, notes);
        for value in estimated {
            let resource = Resource::ALL.into_iter().find(|resource| resource.name() == value.resource);
            let chosen = resource.and_then(|resource| sources.choose(resource, settings, notes).0);
            let Some(observed) = chosen.map(|chosen| chosen.observed) else { continue };
            let percentiles = Percentile::PUBLISHED.into_iter();
            let percentiles = percentiles.filter_map(|at| Some((at, observed.percentile(at).ok()?)));
            let levels = percentiles.chain(observed.peak().ok().map(|peak| (Percentile::PEAK, peak)));
            let told = levels.map(|(at, amount)| Measured { at: at.to_string(), amount: amount.to_string() });
            value.usage = told.collect();
        }
    }
}

/// Hands a request, the decision on it, and all that was read for it to `answer`, for questions beside the decision.
pub fn with_decision<T>(
    request: &Value,
    settings: &ParsedSettings,
    cluster: &mut dyn ClusterReader,
    answer: impl for<'d> FnOnce(&'d Request<'d>, &Decision<'d>, &Context<'d>, &'d Settings<'d>) -> Result<T, Malformed>,
) -> Result<T, String> {
    let document = document(request)?;
    let request = Request::read(document.root()).map_err(|malformed| malformed.to_string())?;
    let (settings, fetched) = (settings.read()?, FetchedObjects::default());
    let (decision, context) = decide(&request, &settings, &fetched, cluster, &mut Vec::new());
    answer(&request, &decision, &context, &settings).map_err(|malformed| malformed.to_string())
}

/// The bounds that the request's pod or claim was checked against.
fn checked_bounds<'d>(
    request: &Request<'d>,
    decision: &Decision<'d>,
    context: &Context<'d>,
    settings: &'d Settings<'d>,
) -> Result<Bounds, Malformed> {
    let is_unreadable = decision.violations.iter().any(|violation| matches!(violation, Violation::Unreadable(_)));
    match (&decision.pod, request.object) {
        (Some(pod), _) => {
            let ranges = limit_rules::applicable(request, Some(pod), context, settings)?;
            Ok(bounds::of_pod(pod, &ranges))
        }
        // An object that cannot be read is already rejected, so its bounds are not checked.
        (None, Some(claim)) if request.is("", "persistentvolumeclaims", "") && !is_unreadable => {
            bounds::of_claim(&claim, &limit_rules::applicable(request, None, context, settings)?)
        }
        _ => Ok(Vec::new()),
    }
}

/// Reads the object or list of a lookup.
///
/// An object is only sent if its namespace exists. A namespace without an object has no annotations about
/// estimates; but its labels are not guessed where settings select by them.
fn read(lookup: &Lookup<'_>, cluster: &mut dyn ClusterReader, settings: &Settings<'_>) -> Result<Vec<u8>, String> {
    let answer = cluster.read(&lookup.call());
    match (lookup, &answer) {
        (Lookup::Namespace { name }, Err(ReadError::NotFound { .. })) if !settings.selects_by_namespace_labels() => {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            Ok(list_of(&lookup.call(), vec![namespace.to_string()])?.into_bytes())
        }
        _ => Ok(answer?),
    }
}
