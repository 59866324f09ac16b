//! Reads everything that is known about the pod of a request, for questions other than an evaluation.
//!
//! An evaluation reads only what the policy would read, see `evaluate`; a question also wants the history of images whose
//! containers need no estimate.

use headroom_core::cluster::lookup::{Lookup, Missing};
use headroom_core::json::{Document, Malformed};
use headroom_core::timestamp::Timestamp;
use headroom_core::{Context, Decision, Evaluation, FetchedObjects, Request, Settings, evaluate};
use serde_json::Value;

use super::recommendation;
use headroom_dryrun::evaluate;
use headroom_kube::clock;
use headroom_objects::cluster_reader::{ClusterReader, ReadError};

/// Hands a request, the cluster's objects, and the settings to `answer`; returns the answer, and what could not be read for
/// it. The error is one line.
pub fn with_context<T>(
    request: &Value,
    settings: &Value,
    around: &mut dyn ClusterReader,
    answer: impl for<'d> FnOnce(&'d Request<'d>, &Context<'d>, &'d Settings<'d>) -> Result<T, Malformed>,
) -> Result<(T, Vec<ReadError>), String> {
    let (request, settings) = (request.to_string(), settings.to_string());
    let document = Document::read(&request).map_err(|error| error.to_string())?;
    let settings = Document::read(&settings).map_err(|error| format!("invalid settings: {error}"))?;
    let request = Request::read(document.root()).map_err(|malformed| malformed.to_string())?;
    let settings = Settings::read(Some(settings.root())).map_err(|error| error.to_string())?;
    let now = settings.estimates.replay_time.or_else(|| Timestamp::from_unix_seconds(clock::now()));
    let mut context = Context { now, ..Context::default() };
    let mut failed = Vec::new();
    let lookups = recommendation::lookups(&request, &settings).map_err(|malformed| malformed.to_string())?;
    let documents = read(&lookups, around, &mut failed);
    context.add_all(&lookups, &documents);
    let further = recommendation::further_lookups(&request, &settings, &context);
    let further = further.map_err(|malformed| malformed.to_string())?;
    let documents = read(&further, around, &mut failed);
    context.add_all(&further, &documents);
    // Only selectors need the namespace's labels; without selectors a missing namespace does not matter.
    let is_needed = |missing: &Missing<'_>| {
        !matches!(missing.lookup, Lookup::Namespace { .. }) || settings.selects_by_namespace_labels()
    };
    context.missing.retain(is_needed);
    let error_of = |missing: &Missing<'_>| {
        let failed = failed.iter().find(|(lookup, _)| *lookup == missing.lookup);
        failed.map_or_else(|| ReadError::Failed(missing.problem.clone()), |(_, error)| error.clone())
    };
    let missing = context.missing.iter().map(|missing| error_of(missing).context("not taken into account")).collect();
    let answer = answer(&request, &context, &settings).map_err(|malformed| malformed.to_string())?;
    Ok((answer, missing))
}

/// Reads the objects of some lookups, and keeps the errors.
fn read<'d>(
    lookups: &[Lookup<'d>],
    cluster: &mut dyn ClusterReader,
    failed: &mut Vec<(Lookup<'d>, ReadError)>,
) -> Vec<Result<Document<'static>, String>> {
    let mut documents = Vec::new();
    for lookup in lookups {
        documents.push(match cluster.read(&lookup.call()) {
            Ok(bytes) => Document::own(bytes).map_err(|error| error.to_string()),
            Err(error) => {
                failed.push((lookup.clone(), error.clone()));
                Err(error.to_string())
            }
        });
    }
    documents
}

/// The same with the decision on the request, and with what was read for that.
pub fn with_decision<T>(
    request: &Value,
    settings: &Value,
    around: &mut dyn ClusterReader,
    answer: impl for<'d> FnOnce(&'d Request<'d>, &Decision<'d>, &Context<'d>, &'d Settings<'d>) -> Result<T, Malformed>,
) -> Result<T, String> {
    let (request, settings) = (request.to_string(), settings.to_string());
    let document = Document::read(&request).map_err(|error| error.to_string())?;
    let settings = Document::read(&settings).map_err(|error| format!("invalid settings: {error}"))?;
    let request = Request::read(document.root()).map_err(|malformed| malformed.to_string())?;
    let settings = Settings::read(Some(settings.root())).map_err(|error| error.to_string())?;
    let fetched = FetchedObjects::default();
    let read =
        |lookups: &[Lookup<'_>]| lookups.iter().map(|lookup| evaluate::read(lookup, around, &settings)).collect();
    let now = || Timestamp::from_unix_seconds(clock::now());
    let Evaluation { decision, context } = evaluate(&request, &settings, &fetched, read, now);
    answer(&request, &decision, &context, &settings).map_err(|malformed| malformed.to_string())
}

/// The moment that a question is asked at: the settings', where something recorded is looked at again, else the clock's.
pub fn now(settings: &Value) -> Option<Timestamp> {
    replayed_at(settings).or_else(|| Timestamp::from_unix_seconds(clock::now()))
}

/// The settings' moment alone.
pub fn replayed_at(settings: &Value) -> Option<Timestamp> {
    let text = settings.to_string();
    let document = Document::read(&text).ok();
    let settings = document.as_ref().and_then(|document| Settings::read(Some(document.root())).ok());
    settings.and_then(|settings| settings.estimates.replay_time)
}

/// A line for each object or list that could not be read.
pub fn missing(context: &Context<'_>) -> Vec<String> {
    context.missing.iter().map(|missing| format!("not taken into account: {}", missing.problem)).collect()
}
