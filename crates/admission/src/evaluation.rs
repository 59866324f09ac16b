//! The entry point: evaluates one request, from its actions to the decision.
//!
//! ```text
//! actions -> objects -> ranges, origins, targets -> history -> namespace? -> pages? -> fill, bounds -> quotas -> decision
//!                                                                                      fresh quotas <-^
//! ```
//!
//! Objects are read in phases, because a later phase depends on what an earlier one has found. Only needed objects are
//! read, and always in the same order.

use std::cell::OnceCell;

use crate::actions::{Actions, EstimateTarget, Purpose, RequestKind, Subject, estimate_targets, exempt};
use crate::charge::{self, Charges, devices};
use crate::cluster::Context;
use crate::cluster::lookup::Lookup;
use crate::decide::Draft;
use crate::estimate::history::HistoryLookups;
use crate::fill::Filling;
use crate::json::{Document, Malformed};
use crate::limit_rules::Range;
use crate::recommend::Recommendation;
use crate::request::{Pod, Request, template_at};
use crate::settings::Settings;
use crate::sort;
use crate::timestamp::Timestamp;
use crate::verdict::{Decision, Violation};

/// Stores what was read in one phase and in those after it, because the decision borrows from it.
#[derive(Debug, Default)]
pub struct FetchedObjects(OnceCell<(Vec<Fetched>, Box<FetchedObjects>)>);

type Fetched = Result<Document<'static>, String>;

/// The most quotas that are read again for one request.
const MAX_FRESH: usize = 8;

/// Decides on a request; also returns the objects that the decision rests on. `fetch` returns the answers to the lookups
/// of a phase, in their order; `now` is asked for the time of each phase.
pub fn evaluate<'d>(
    request: &'d Request<'d>,
    settings: &'d Settings<'d>,
    fetched: &'d FetchedObjects,
    mut fetch: impl FnMut(&[Lookup<'d>]) -> Vec<Result<Vec<u8>, String>>,
    now: impl Fn() -> Option<Timestamp>,
) -> (Decision<'d>, Context<'d>) {
    let mut reader = PhaseReader { fetch: &mut fetch, now: &now, fetched, context: Context::default() };
    let decision = decide(request, settings, &mut reader)
        .unwrap_or_else(|malformed| Decision::refusing(Violation::Unreadable(malformed)));
    (decision, reader.context)
}

#[derive(Debug)]
pub struct Recommended<'d> {
    /// The pod as it is, with the origin of each value.
    pub pod: Pod<'d>,
    /// The same pod after admission.
    pub admitted: Pod<'d>,
    pub ranges: Vec<Range<'d>>,
    pub recommendation: Recommendation<'d>,
    pub context: Context<'d>,
}

/// Recommends requests for the pod of a request; none if it has no pod. Reads in the phases of [`evaluate`], but the history
/// of every container.
pub fn recommend<'d>(
    request: &'d Request<'d>,
    settings: &'d Settings<'d>,
    fetched: &'d FetchedObjects,
    mut fetch: impl FnMut(&[Lookup<'d>]) -> Vec<Result<Vec<u8>, String>>,
    now: impl Fn() -> Option<Timestamp>,
) -> Result<Option<Recommended<'d>>, Malformed> {
    let Some(pod) = request.pod()? else { return Ok(None) };
    let mut reader = PhaseReader { fetch: &mut fetch, now: &now, fetched, context: Context::default() };
    let actions = Actions::of_recommendation(settings);
    let history = HistoryLookups::of(request, settings, Some(&pod), 0..pod.containers.len());
    reader.read(&[namespace(request)]);
    reader.read(&objects(request, &actions, &reader.context, settings));
    reader.read(&history.quarters());
    reader.read(&history.older_roots(&reader.context));
    let mut notes = Vec::new();
    let subject = Subject::of(&actions, Some(pod), request, &reader.context, settings, &mut notes)?;
    let Subject { pod: Some(pod), ranges, targets } = subject else { return Ok(None) };
    let asked = reader.context.namespace;
    let targets = estimate_targets::chosen_by_namespace(targets, actions.may_replace, asked, &mut notes)?;
    reader.read(&pages(request, &history, &targets, &reader.context));
    let context = reader.context;
    let filling = Filling { request, context: &context, settings, ranges: &ranges, is_defaulted: actions.is_defaulted };
    let admitted = filling.fill(pod.clone(), &targets)?.pod;
    let recommendation = filling.recommend(&pod)?;
    Ok(Some(Recommended { pod, admitted, ranges, recommendation, context }))
}

type Fetch<'s, 'd> = dyn FnMut(&[Lookup<'d>]) -> Vec<Result<Vec<u8>, String>> + 's;

struct PhaseReader<'s, 'd> {
    fetch: &'s mut Fetch<'s, 'd>,
    now: &'s dyn Fn() -> Option<Timestamp>,
    /// Stores the next phase.
    fetched: &'d FetchedObjects,
    context: Context<'d>,
}

impl<'d> PhaseReader<'_, 'd> {
    /// Reads the objects of one phase, if there are any.
    fn read(&mut self, lookups: &[Lookup<'d>]) {
        if lookups.is_empty() {
            return;
        }
        let answers = (self.fetch)(lookups).into_iter().zip(lookups);
        let documents = answers.map(|(answer, lookup)| lookup.read(answer?));
        let (documents, next) = self.fetched.0.get_or_init(|| (documents.collect(), Box::default()));
        self.context.add_all(lookups, documents);
        self.context.now = self.context.now.or_else(self.now);
        self.fetched = next;
    }
}

/// Decides on a request. The order of reading is fixed here.
fn decide<'d>(
    request: &'d Request<'d>,
    settings: &'d Settings<'d>,
    reader: &mut PhaseReader<'_, 'd>,
) -> Result<Decision<'d>, Malformed> {
    let Some((actions, mut pod)) = Actions::of(request, settings)? else { return Ok(Decision::default()) };
    if exempt::by_namespace_name(request, settings) {
        return Ok(Decision::default());
    }
    if let Some(selector) = &settings.exempt.namespace_labels {
        reader.read(&[namespace(request)]);
        if selector.matches_namespace(reader.context.namespace)? {
            return Ok(Decision::default());
        }
    }
    reader.read(&objects(request, &actions, &reader.context, settings));
    if devices::needs_classes(request, &reader.context, settings) {
        reader.read(&devices::lookups(request)?);
    }
    if devices::needs_claims(&reader.context)? {
        reader.read(&[Lookup::ResourceClaims { namespace: &request.namespace }]);
    }
    if actions.kind == RequestKind::Scale {
        pod = reader.context.scaled.map_or(Ok(None), |scaled| template_at(scaled, &["spec", "template"]))?;
        if pod.as_ref().map_or(Ok(false), |pod| exempt::pods(request, pod, settings))? {
            return Ok(Decision::default());
        }
    }
    let mut notes = Vec::new();
    let mut subject = Subject::of(&actions, pod, request, &reader.context, settings, &mut notes)?;
    let mut history = history_of(request, settings, &subject);
    let quarters = history.quarters();
    reader.read(&quarters);
    reader.read(&history.older_roots(&reader.context));
    let is_unrestricted = estimate_targets::is_unrestricted(quarters.len(), &reader.context, &settings.estimates);
    if !subject.targets.is_empty() && !is_unrestricted && !reader.context.asked_for_namespace {
        reader.read(&[namespace(request)]);
    }
    let possible = subject.targets.len();
    let namespace = reader.context.namespace;
    subject.targets =
        estimate_targets::chosen_by_namespace(subject.targets, actions.may_replace, namespace, &mut notes)?;
    if subject.targets.len() < possible {
        history = history_of(request, settings, &subject);
    }
    reader.read(&pages(request, &history, &subject.targets, &reader.context));
    let draft = Draft::of(request, &actions, subject, &reader.context, settings, &notes)?;
    let charges = charge::charge(request, &actions, &draft.pods, &reader.context, settings)?;
    let fresh_quotas = fresh_quotas(request, &charges);
    if fresh_quotas.is_empty() {
        return Ok(draft.finish(request, &actions, charges));
    }
    reader.read(&fresh_quotas);
    let charges = charge::charge(request, &actions, &draft.pods, &reader.context, settings)?;
    Ok(draft.with_stale_quotas(&reader.context).finish(request, &actions, charges))
}

/// The history of the images whose containers get estimates.
fn history_of<'d>(request: &'d Request<'d>, settings: &'d Settings<'d>, subject: &Subject<'d>) -> HistoryLookups<'d> {
    let containers = subject.targets.iter().map(|target| target.container);
    HistoryLookups::of(request, settings, subject.pod.as_ref(), containers)
}

/// The pages of history, and the autoscalers that keep an author's request from being replaced.
fn pages<'d>(
    request: &'d Request<'d>,
    history: &HistoryLookups<'d>,
    targets: &[EstimateTarget],
    context: &Context<'d>,
) -> Vec<Lookup<'d>> {
    let mut lookups = history.pages(context);
    if targets.iter().any(|target| target.purpose == Purpose::Replacement) {
        lookups.push(Lookup::Autoscalers { namespace: &request.namespace });
    }
    lookups
}

fn namespace<'d>(request: &'d Request<'d>) -> Lookup<'d> {
    Lookup::Namespace { name: &request.namespace }
}

/// The objects that every evaluation with these actions needs.
fn objects<'d>(
    request: &'d Request<'d>,
    actions: &Actions,
    context: &Context<'d>,
    settings: &Settings<'d>,
) -> Vec<Lookup<'d>> {
    let mut lookups = Vec::new();
    let needs_labels = settings.selects_by_namespace_labels() || actions.needs_tenant_quotas(settings);
    if needs_labels && !context.asked_for_namespace {
        lookups.push(namespace(request));
    }
    if actions.needs_limit_ranges() {
        lookups.push(Lookup::LimitRanges { namespace: &request.namespace });
    }
    if actions.needs_quotas(settings) {
        lookups.push(Lookup::Quotas { namespace: &request.namespace });
    }
    if actions.needs_tenant_quotas(settings) {
        lookups.push(Lookup::TenantQuotas);
    }
    if let (RequestKind::Scale, Some(kind)) = (actions.kind, request.pod_kind()) {
        let (namespace, name) = (request.namespace.as_ref(), request.name.as_ref());
        lookups.push(Lookup::Scaled { api_version: kind.api_version, kind: kind.kind, namespace, name });
    }
    lookups
}

/// The quotas to read again with live usage; sorted, and bounded in number.
fn fresh_quotas<'d>(request: &'d Request<'d>, charges: &Charges<'d>) -> Vec<Lookup<'d>> {
    let mut names: Vec<_> = charges.near_limit.iter().take(MAX_FRESH).cloned().collect();
    sort::by_text(&mut names, |name| name);
    names.into_iter().map(|name| Lookup::FreshQuota { namespace: &request.namespace, name }).collect()
}
