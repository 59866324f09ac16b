//! The entry point: takes one request from its plan through rounds of reading to the decision.
//!
//! ```text
//! plan -> objects -> ranges, origins, targets -> namespace -> roots, pages of history -> fill, bounds -> quotas -> decision
//!                                                                                     fresh quotas <-^
//! ```
//!
//! A shell loops: it reads the lookups of a [`NextStep`], and passes the answers back. Only needed objects are requested.

use std::cell::OnceCell;

use crate::cluster::Context;
use crate::cluster::lookup::Lookup;
use crate::estimate::history::HistoryLookups;
use crate::json::{Document, Malformed};
use crate::judge::charge::{self, Charges, devices};
use crate::judge::{self, Judgement};
use crate::order;
use crate::plan::{Plan, RequestKind, exempt};
use crate::request::{Pod, Request, api_server_defaults};
use crate::settings::Settings;
use crate::timestamp::Timestamp;
use crate::verdict::{Decision, Violation};

/// The next step for the shell.
#[derive(Debug)]
pub enum NextStep<'s, 'd> {
    /// Read these in this order, and pass the answers back.
    Read(&'s [Lookup<'d>]),
    Done(Box<Decision<'d>>),
}

/// The rounds of reading, in order. Each can use what earlier rounds have read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ReadPhase {
    /// The namespace, for exemption by its labels.
    Exemption,
    Objects,
    /// Other objects that decide how a resource claim is charged.
    Devices,
    Siblings,
    /// The namespace, for its choice of estimates, if the pod could use some.
    Namespace,
    /// The roots of the images' histories, and the pages that they point to.
    Roots,
    Pages,
    FreshQuotas,
}

const READ_PHASES: [ReadPhase; 8] = [
    ReadPhase::Exemption,
    ReadPhase::Objects,
    ReadPhase::Devices,
    ReadPhase::Siblings,
    ReadPhase::Namespace,
    ReadPhase::Roots,
    ReadPhase::Pages,
    ReadPhase::FreshQuotas,
];

/// Stores the answers, because the decision borrows from them.
#[derive(Debug, Default)]
pub struct FetchedObjects([OnceCell<Vec<Result<Document<'static>, String>>>; READ_PHASES.len()]);

/// The most quotas that are read again for one request.
const FRESH_AT_MOST: usize = 8;

/// The judgement of one request, in steps.
#[derive(Debug)]
pub struct Evaluation<'d> {
    request: &'d Request<'d>,
    settings: &'d Settings<'d>,
    answers: &'d FetchedObjects,
    context: Context<'d>,
    plan: Option<Plan<'d>>,
    /// Problems with annotations and collected history.
    notes: Vec<String>,
    history: HistoryLookups<'d>,
    judgement: Option<(Judgement<'d>, Charges<'d>)>,
    /// The next round, and the lookups of the one before it.
    next: usize,
    lookups: Vec<Lookup<'d>>,
}

impl<'d> Evaluation<'d> {
    pub fn new(request: &'d Request<'d>, settings: &'d Settings<'d>, answers: &'d FetchedObjects) -> Self {
        Self {
            request,
            settings,
            answers,
            context: Context::default(),
            plan: None,
            notes: Vec::new(),
            history: HistoryLookups::default(),
            judgement: None,
            next: 0,
            lookups: Vec::new(),
        }
    }

    /// Runs all steps, for shells that can read synchronously.
    pub fn run(
        &mut self,
        mut read: impl FnMut(&[Lookup<'d>]) -> Vec<Result<Vec<u8>, String>>,
        now: impl Fn() -> Option<Timestamp>,
    ) -> Box<Decision<'d>> {
        loop {
            let answers = match self.step() {
                NextStep::Read(lookups) => read(lookups),
                NextStep::Done(decision) => return decision,
            };
            self.answer(answers, now());
        }
    }

    /// Advances to the next round that has something to read, or to the end.
    pub fn step(&mut self) -> NextStep<'_, 'd> {
        match self.advance() {
            Ok(None) => NextStep::Read(&self.lookups),
            Ok(Some(decision)) => NextStep::Done(Box::new(decision)),
            Err(malformed) => NextStep::Done(Box::new(Decision::refusing(Violation::Unreadable(malformed)))),
        }
    }

    /// Accepts the answers to the lookups of the last step, and the time.
    pub fn answer(&mut self, read: Vec<Result<Vec<u8>, String>>, now: Option<Timestamp>) {
        let Some(stored) = self.next.checked_sub(1).and_then(|round| self.answers.0.get(round)) else { return };
        let documents = stored.get_or_init(|| read.into_iter().map(document).collect());
        self.context.add_all(&self.lookups, documents);
        self.context.now = self.context.now.or(now);
    }

    /// The objects read from the cluster, for explanations.
    pub fn context(&self) -> &Context<'d> {
        &self.context
    }

    /// The plan; none if there was nothing to judge.
    pub fn plan(&self) -> Option<&Plan<'d>> {
        self.plan.as_ref()
    }

    fn advance(&mut self) -> Result<Option<Decision<'d>>, Malformed> {
        if self.next == 0 {
            self.plan = Plan::of(self.request, self.settings)?;
            let pod = self.plan.as_ref().and_then(|plan| plan.pod.as_ref());
            if exempt::by_request(self.request, pod, None, self.settings)? {
                self.plan = None;
            }
        }
        while let Some(round) = READ_PHASES.get(self.next) {
            let Some(plan) = &mut self.plan else { return Ok(Some(Decision::default())) };
            self.next += 1;
            self.lookups = match round {
                ReadPhase::Exemption if self.settings.exempt.namespace_labels.is_some() => {
                    vec![namespace(self.request)]
                }
                ReadPhase::Exemption => Vec::new(),
                ReadPhase::Objects => {
                    if exempt::by_namespace(&self.context, self.settings)? {
                        return Ok(Some(Decision::default()));
                    }
                    objects(self.request, plan, &self.context, self.settings)
                }
                ReadPhase::Devices if devices::needs_classes(self.request, &self.context) => {
                    let mut lookups = vec![Lookup::DeviceClasses];
                    lookups.extend(devices::lookup(self.request)?);
                    lookups
                }
                ReadPhase::Siblings if devices::needs_claims(&self.context)? => {
                    vec![Lookup::ResourceClaims { namespace: &self.request.namespace }]
                }
                ReadPhase::Devices | ReadPhase::Siblings => Vec::new(),
                ReadPhase::Namespace => {
                    if plan.kind == RequestKind::Scale {
                        plan.pod = scaled_pod(&self.context)?;
                        let pod = plan.pod.as_ref();
                        if exempt::by_request(self.request, pod, self.context.scaled, self.settings)? {
                            return Ok(Some(Decision::default()));
                        }
                    }
                    plan.complete(self.request, &self.context, self.settings, &mut self.notes)?;
                    let is_needed = !plan.targets.is_empty() && !self.context.asked_for_namespace;
                    if is_needed { vec![namespace(self.request)] } else { Vec::new() }
                }
                ReadPhase::Roots => {
                    plan.restrict_by_namespace(&self.context, &mut self.notes)?;
                    let containers = plan.targets.iter().map(|target| target.container);
                    self.history = HistoryLookups::of(self.request, plan.pod.as_ref(), containers);
                    self.history.roots(self.request, self.settings)
                }
                ReadPhase::Pages => self.history.pages(self.request, self.settings, &self.context),
                ReadPhase::FreshQuotas => {
                    let notes = std::mem::take(&mut self.notes);
                    let judgement = judge::judge(self.request, plan, &self.context, self.settings, notes)?;
                    let charges = charge::charge(self.request, plan, &judgement.pods, &self.context, self.settings)?;
                    let fresh_quotas = fresh_quotas(self.request, &charges);
                    self.judgement = Some((judgement, charges));
                    fresh_quotas
                }
            };
            if !self.lookups.is_empty() {
                return Ok(None);
            }
        }
        self.finish().map(Some)
    }

    fn finish(&mut self) -> Result<Decision<'d>, Malformed> {
        let (Some(plan), Some((mut judgement, mut charges))) = (&self.plan, self.judgement.take()) else {
            return Ok(Decision::default());
        };
        if !self.lookups.is_empty() {
            charges = charge::charge(self.request, plan, &judgement.pods, &self.context, self.settings)?;
            judgement.warn_of_stale_quotas(&self.context);
        }
        Ok(judgement.finish(self.request, plan, charges))
    }
}

fn document(answer: Result<Vec<u8>, String>) -> Result<Document<'static>, String> {
    Document::own(answer?).map_err(|error| error.to_string())
}

fn namespace<'d>(request: &'d Request<'d>) -> Lookup<'d> {
    Lookup::Namespace { name: &request.namespace }
}

/// The objects that every judgement of this plan needs.
fn objects<'d>(
    request: &'d Request<'d>,
    plan: &Plan<'d>,
    context: &Context<'d>,
    settings: &Settings<'d>,
) -> Vec<Lookup<'d>> {
    let mut lookups = Vec::new();
    let needs_labels = settings.selects_by_namespace_labels() || plan.needs_tenant_quotas(settings);
    if needs_labels && !context.asked_for_namespace {
        lookups.push(namespace(request));
    }
    if plan.needs_limit_ranges() {
        lookups.push(Lookup::LimitRanges { namespace: &request.namespace });
    }
    if plan.needs_quotas(settings) {
        lookups.push(Lookup::Quotas { namespace: &request.namespace });
    }
    if plan.needs_tenant_quotas(settings) {
        lookups.push(Lookup::TenantQuotas);
    }
    if let (RequestKind::Scale, Some(kind)) = (plan.kind, request.pod_kind()) {
        let (namespace, name) = (request.namespace.as_ref(), request.name.as_ref());
        lookups.push(Lookup::Scaled { api_version: kind.api_version, kind: kind.kind, namespace, name });
    }
    if plan.is_estimated && settings.estimates.skip_autoscaled {
        lookups.push(Lookup::Autoscalers { namespace: &request.namespace });
    }
    lookups
}

/// The pod template of the workload of a `scale`.
fn scaled_pod<'d>(context: &Context<'d>) -> Result<Option<Pod<'d>>, Malformed> {
    let template = context.scaled.map(|scaled| scaled.at(&["spec", "template"])).transpose()?.flatten();
    let pod = template.map(|template| Pod::read(template, None)).transpose()?;
    Ok(pod.map(|mut pod| {
        api_server_defaults::limits_to_requests(&mut pod);
        pod
    }))
}

/// The quotas to read again with live usage; sorted, and bounded in number.
fn fresh_quotas<'d>(request: &'d Request<'d>, charges: &Charges<'d>) -> Vec<Lookup<'d>> {
    let mut names: Vec<_> = charges.near_limit.iter().take(FRESH_AT_MOST).cloned().collect();
    order::sort_by(&mut names, Ord::cmp);
    names.into_iter().map(|name| Lookup::FreshQuota { namespace: &request.namespace, name }).collect()
}
