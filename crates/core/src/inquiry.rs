//! The only way in: one request, from its plan over the rounds of reading to the decision.
//!
//! ```text
//! plan -> objects -> ranges, origins, wants -> namespace -> roots, pages of history -> fill, bounds -> quotas -> decision
//!                                                                                     fresh quotas <-^
//! ```
//!
//! A shell loops: it reads what a [`Step`] asks for, and answers. What is not needed is not asked for.

use std::cell::OnceCell;

use crate::cluster::Context;
use crate::cluster::lookup::Lookup;
use crate::estimate::history::WantedHistory;
use crate::json::{Document, Malformed};
use crate::judge::charge::{self, Charges, devices};
use crate::judge::{self, Judgement};
use crate::order;
use crate::plan::{Plan, Subject, exempt};
use crate::request::{Pod, Request, complete};
use crate::settings::Settings;
use crate::timestamp::Timestamp;
use crate::verdict::{Decision, Violation};

/// What happens next.
#[derive(Debug)]
pub enum Step<'s, 'd> {
    /// Read these, in their order, and answer.
    Read(&'s [Lookup<'d>]),
    Done(Box<Decision<'d>>),
}

/// The rounds of reading, in order. Each knows what the ones before it have read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Round {
    /// Whether the namespace is exempt by its labels.
    Exemption,
    Objects,
    /// What a resource claim is charged by beside itself.
    Devices,
    Siblings,
    /// Whether the namespace wants estimates, where the pod could use some.
    Namespace,
    /// Where the history of images begins, and what of it lies elsewhere.
    Roots,
    Pages,
    FreshQuotas,
}

const ROUNDS: [Round; 8] = [
    Round::Exemption,
    Round::Objects,
    Round::Devices,
    Round::Siblings,
    Round::Namespace,
    Round::Roots,
    Round::Pages,
    Round::FreshQuotas,
];

/// Where the answers are kept, because what is decided borrows from them.
#[derive(Debug, Default)]
pub struct Answers([OnceCell<Vec<Result<Document<'static>, String>>>; ROUNDS.len()]);

/// The most quotas that are read again for one request.
const FRESH_AT_MOST: usize = 8;

/// The way of one request.
#[derive(Debug)]
pub struct Inquiry<'d> {
    request: &'d Request<'d>,
    settings: &'d Settings<'d>,
    answers: &'d Answers,
    context: Context<'d>,
    plan: Option<Plan<'d>>,
    /// What is wrong with what people chose or collected.
    notes: Vec<String>,
    history: WantedHistory<'d>,
    judgement: Option<(Judgement<'d>, Charges<'d>)>,
    /// The next round, and what the one before it asked for.
    next: usize,
    lookups: Vec<Lookup<'d>>,
}

impl<'d> Inquiry<'d> {
    pub fn new(request: &'d Request<'d>, settings: &'d Settings<'d>, answers: &'d Answers) -> Self {
        Self {
            request,
            settings,
            answers,
            context: Context::default(),
            plan: None,
            notes: Vec::new(),
            history: WantedHistory::default(),
            judgement: None,
            next: 0,
            lookups: Vec::new(),
        }
    }

    /// Goes all the way, for shells that can wait for what they read.
    pub fn run(
        &mut self,
        mut read: impl FnMut(&[Lookup<'d>]) -> Vec<Result<Vec<u8>, String>>,
        now: impl Fn() -> Option<Timestamp>,
    ) -> Box<Decision<'d>> {
        loop {
            let answers = match self.step() {
                Step::Read(lookups) => read(lookups),
                Step::Done(decision) => return decision,
            };
            self.answer(answers, now());
        }
    }

    /// Goes on to the next round that has something to read, or to the end.
    pub fn step(&mut self) -> Step<'_, 'd> {
        match self.advance() {
            Ok(None) => Step::Read(&self.lookups),
            Ok(Some(decision)) => Step::Done(Box::new(decision)),
            Err(malformed) => Step::Done(Box::new(Decision::refusing(Violation::Unreadable(malformed)))),
        }
    }

    /// Takes the answers to the lookups of the last step, and the time.
    pub fn answer(&mut self, read: Vec<Result<Vec<u8>, String>>, now: Option<Timestamp>) {
        let Some(kept) = self.next.checked_sub(1).and_then(|round| self.answers.0.get(round)) else { return };
        let documents = kept.get_or_init(|| read.into_iter().map(document).collect());
        self.context.add_all(&self.lookups, documents);
        self.context.now = self.context.now.or(now);
    }

    /// What was read of the cluster, for whoever tells of a decision.
    pub fn context(&self) -> &Context<'d> {
        &self.context
    }

    /// What was planned; none if there was nothing to judge.
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
        while let Some(round) = ROUNDS.get(self.next) {
            let Some(plan) = &mut self.plan else { return Ok(Some(Decision::default())) };
            self.next += 1;
            self.lookups = match round {
                Round::Exemption if self.settings.exempt.namespace_labels.is_some() => vec![namespace(self.request)],
                Round::Exemption => Vec::new(),
                Round::Objects => {
                    if exempt::by_namespace(&self.context, self.settings)? {
                        return Ok(Some(Decision::default()));
                    }
                    objects(self.request, plan, &self.context, self.settings)
                }
                Round::Devices if devices::needs_classes(self.request, &self.context) => {
                    let mut lookups = vec![Lookup::DeviceClasses];
                    lookups.extend(devices::lookup(self.request)?);
                    lookups
                }
                Round::Siblings if devices::needs_claims(&self.context)? => {
                    vec![Lookup::ResourceClaims { namespace: &self.request.namespace }]
                }
                Round::Devices | Round::Siblings => Vec::new(),
                Round::Namespace => {
                    if plan.subject == Subject::Scale {
                        plan.pod = scaled_pod(&self.context)?;
                        let pod = plan.pod.as_ref();
                        if exempt::by_request(self.request, pod, self.context.scaled, self.settings)? {
                            return Ok(Some(Decision::default()));
                        }
                    }
                    plan.complete(self.request, &self.context, self.settings, &mut self.notes)?;
                    let is_needed = !plan.wants.is_empty() && !self.context.asked_for_namespace;
                    if is_needed { vec![namespace(self.request)] } else { Vec::new() }
                }
                Round::Roots => {
                    plan.heed_namespace(&self.context, &mut self.notes)?;
                    let containers = plan.wants.iter().map(|want| want.container);
                    self.history = WantedHistory::of(self.request, plan.pod.as_ref(), containers);
                    self.history.roots(self.request, self.settings)
                }
                Round::Pages => self.history.pages(self.request, self.settings, &self.context),
                Round::FreshQuotas => {
                    let notes = std::mem::take(&mut self.notes);
                    let judgement = judge::judge(self.request, plan, &self.context, self.settings, notes)?;
                    let charges = charge::charge(self.request, plan, &judgement.pods, &self.context, self.settings)?;
                    let again = again(self.request, &charges);
                    self.judgement = Some((judgement, charges));
                    again
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
            judgement.tell_stale(&self.context);
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
    if let (Subject::Scale, Some(kind)) = (plan.subject, request.pod_kind()) {
        let (namespace, name) = (request.namespace.as_ref(), request.name.as_ref());
        lookups.push(Lookup::Scaled { api_version: kind.api_version, kind: kind.kind, namespace, name });
    }
    if plan.is_estimated && settings.estimates.skip_autoscaled {
        lookups.push(Lookup::Autoscalers { namespace: &request.namespace });
    }
    lookups
}

/// The pod that the workload of a `scale` makes.
fn scaled_pod<'d>(context: &Context<'d>) -> Result<Option<Pod<'d>>, Malformed> {
    let template = context.scaled.map(|scaled| scaled.at(&["spec", "template"])).transpose()?.flatten();
    let pod = template.map(|template| Pod::read(template, None)).transpose()?;
    Ok(pod.map(|mut pod| {
        complete::limits_to_requests(&mut pod);
        pod
    }))
}

/// The quotas that decide narrowly, to be read again. Sorted, and bounded.
fn again<'d>(request: &'d Request<'d>, charges: &Charges<'d>) -> Vec<Lookup<'d>> {
    let mut names: Vec<_> = charges.doubtful.iter().take(FRESH_AT_MOST).cloned().collect();
    order::sort_by(&mut names, Ord::cmp);
    names.into_iter().map(|name| Lookup::FreshQuota { namespace: &request.namespace, name }).collect()
}
