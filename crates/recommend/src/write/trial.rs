//! Tries all changes of a report out before any is handed out: each is evaluated as `check` would, in the quotas that the
//! others leave. What frees room comes first, then what needs more, the worst risk first; what does not pass is tried again
//! while others make room.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use headroom_admission::amount::{Family, Quantity, Requirement};
use headroom_dry_run::evaluate::{ChargedAmount, ObjectCharge, ObjectDecision, Run, Verdict};
use headroom_dry_run::overlay::tenants::TENANT_QUOTA;
use headroom_dry_run::simulate::unread;
use headroom_objects::cluster_reader::ClusterReader as _;
use serde_json::{Value, json};

use crate::advice::amounts::CPU_AND_MEMORY;
use crate::advice::blocked::{Blocked, BlockingBound, Fit};
use crate::advice::flag::Flag;
use crate::advice::workload::{ResourceAdvice, Workload};
use crate::report::Recommendations;
use crate::write::patches::{ContainerChange, RecommendedChange};
use headroom_workloads::WorkloadRef;
use headroom_workloads::inventory::WorkloadEntry;

/// The steps between the request that is set and the one that is recommended.
const STEPS: u64 = 1 << 10;

/// The nearest amounts are searched for so many changes, the first in order: each takes a dozen evaluations.
const MAX_SEARCHED: usize = 200;

/// Changes that do not pass are tried again so often: each round takes an evaluation of all that is left.
const MAX_ROUNDS: usize = 8;

/// Workloads that got more before are named in each that is blocked.
const MAX_NAMED: usize = 20;

struct Candidate<'a> {
    workload: &'a Workload,
    entry: &'a WorkloadEntry,
    change: RecommendedChange<'a>,
    /// The reason that it did not pass, and after how many changes of others.
    refused: Option<(usize, Blocked)>,
}

/// Leaves the change of a workload to be tried later.
pub fn put_off(workload: &mut Workload) {
    workload.is_untried = !RecommendedChange::from(&*workload).containers.is_empty();
}

/// Tries the changes in some namespaces: marks those that would be blocked, notes which autoscalers can no longer reach their
/// maximum, and counts the others. The entries may be of a later reading. The run's cluster is left as it was.
pub fn check(report: &mut Recommendations, entries: &[WorkloadEntry], run: &mut Run, is_asked: impl Fn(&str) -> bool) {
    let mark = run.cluster.mark();
    let mut trial = AdviceTrial { run, carried_out: 0, after: HashMap::new(), raised: HashMap::new() };
    let found = trial.blocked(report, entries, is_asked);
    run.cluster.roll_back(mark);
    for (turn, (place, blocked, notes)) in found.into_iter().enumerate() {
        if let Some(workload) = report.workloads.get_mut(place) {
            workload.take_trial((turn, blocked, notes));
        }
    }
    report.add_up();
}

/// The turn of a change, why it is blocked, and the notes of its trial.
type Outcome = (usize, Option<Blocked>, Vec<String>);

/// The changes that were tried, with what was found.
pub type Found = HashMap<WorkloadRef, (Vec<ContainerChange>, Outcome)>;

/// Keeps of a report what trials found.
pub fn found(report: &Recommendations) -> Found {
    let tried = report.workloads.iter().filter(|of| !of.is_untried);
    let outcome = |of: &Workload| (of.turn, of.blocked.clone(), of.notes_of_trial.clone());
    tried.map(|of| (of.key.clone(), (RecommendedChange::from(of).containers, outcome(of)))).collect()
}

/// Takes over what was found of the same changes before.
pub fn take_over(report: &mut Recommendations, mut found: Found) {
    for workload in report.workloads.iter_mut().filter(|of| of.is_untried) {
        if let Some((changed, outcome)) = found.remove(&workload.key)
            && RecommendedChange::from(&*workload).containers == changed
        {
            workload.take_trial(outcome);
        }
    }
    report.add_up();
}

/// The namespaces to try next, with about so many changes: those that were tried the longest ago, and of these first where most
/// can be saved. `tried` says when each was.
pub fn next(report: &Recommendations, tried: &BTreeMap<String, impl Ord + Copy>, most: usize) -> BTreeSet<String> {
    let mut changed: BTreeMap<&str, Vec<&Workload>> = BTreeMap::new();
    for of in report.workloads.iter().filter(|of| !RecommendedChange::from(*of).containers.is_empty()) {
        changed.entry(&of.key.namespace).or_default().push(of);
    }
    let mut changed: Vec<_> = changed.into_iter().collect();
    changed.sort_by_cached_key(|(namespace, all)| {
        let saving = |resource| all.iter().fold(Quantity::ZERO, |sum, of| sum.plus(&of.possible_saving(resource)));
        let [cpu, memory] = CPU_AND_MEMORY.map(saving);
        (tried.get(*namespace).copied(), Reverse(report.prices.weight(&cpu, &memory)))
    });
    let mut count = 0;
    let is_next = |(_, all): &(&str, Vec<&Workload>)| {
        let before = count;
        count += all.len();
        before < most
    };
    changed.into_iter().take_while(is_next).map(|(namespace, _)| namespace.to_owned()).collect()
}

impl Workload {
    fn take_trial(&mut self, (turn, blocked, notes): Outcome) {
        self.notes.retain(|note| !self.notes_of_trial.contains(note));
        self.notes.extend(notes.iter().cloned());
        let flag = blocked.is_some().then_some(Flag::Blocked);
        for container in &mut self.containers {
            container.flags.retain(|flag| !matches!(flag, Flag::Untried | Flag::Blocked));
            container.flags.extend(flag.clone());
        }
        (self.is_untried, self.turn, self.blocked, self.notes_of_trial) = (false, turn, blocked, notes);
    }
}

struct AdviceTrial<'r> {
    run: &'r mut Run,
    carried_out: usize,
    /// By namespace, the workloads that got more, and the quotas that they were charged to.
    after: HashMap<String, Vec<(String, BTreeSet<String>)>>,
    /// The bounds of quotas that were raised for changes.
    raised: HashMap<QuotaName, Quantity>,
}

impl AdviceTrial<'_> {
    /// In their order, by the place of the workload, why it is blocked, and what else is to know.
    fn blocked(
        &mut self,
        report: &Recommendations,
        entries: &[WorkloadEntry],
        is_asked: impl Fn(&str) -> bool,
    ) -> Vec<Outcome> {
        let mut ranks = HashMap::new();
        for (rank, risk) in report.risks.iter().enumerate() {
            ranks.entry(&risk.workload).or_insert(rank);
        }
        let by_key: HashMap<&WorkloadRef, &WorkloadEntry> = entries.iter().map(|entry| (&entry.key, entry)).collect();
        let asked = report.workloads.iter().enumerate().filter(|(_, of)| is_asked(&of.key.namespace));
        let candidates = asked.filter_map(|(place, workload)| {
            let change = RecommendedChange::from(workload);
            if change.containers.is_empty() {
                return None;
            }
            let same = entries.get(workload.entry).filter(|entry| entry.key == workload.key);
            let entry = same.or_else(|| by_key.get(&workload.key).copied())?;
            Some((place, Candidate { workload, entry, change, refused: None }))
        });
        let mut pending: Vec<(usize, Candidate<'_>)> = candidates.collect();
        pending.sort_by_cached_key(|(place, of)| {
            let rank = ranks.get(&of.workload.key).copied().unwrap_or(usize::MAX);
            (of.needs_more(), rank, *place)
        });
        let mut found = Vec::new();
        for _ in 0..MAX_ROUNDS {
            let mut has_freed = false;
            pending.retain_mut(|(place, of)| {
                let Some(notes) = self.admits(of) else { return true };
                has_freed |= !of.needs_more();
                found.push((*place, None, notes));
                false
            });
            // Only what frees room may wait for others that do.
            if !has_freed || pending.iter().all(|(_, of)| of.needs_more()) {
                break;
            }
        }
        let mut blocked: Vec<(usize, &Candidate<'_>, Blocked)> =
            pending.iter().filter_map(|(place, of)| Some((*place, of, self.reason(of)?))).collect();
        // Whoever takes all that fits, or all bounds down to one of the list, finds that they hold together.
        let mark = self.run.cluster.mark();
        blocked.iter_mut().take(MAX_SEARCHED).for_each(|(_, of, blocked)| blocked.fits = self.nearest(of));
        self.run.cluster.roll_back(mark);
        blocked.iter_mut().for_each(|(_, of, blocked)| blocked.raise = self.bounds(of));
        found.extend(blocked.into_iter().map(|(place, _, blocked)| (place, Some(blocked), Vec::new())));
        found
    }

    /// Carries a change out if it passes, and returns what to know about autoscalers. Of the object, only what it is charged stays:
    /// those of a large cluster take gigabytes.
    fn admits(&mut self, of: &mut Candidate<'_>) -> Option<Vec<String>> {
        let (mut evaluation, object) = self.preview(of, &of.object(), &of.change);
        if !passes(&evaluation) {
            of.refused = Some((self.carried_out, self.blocked_by(of, &evaluation)));
            return None;
        }
        self.run.accept(&mut evaluation);
        self.carried_out += 1;
        let notes = self.autoscaler_notes(of);
        self.run.cluster.take_back(&object);
        if of.needs_more() {
            let quotas = evaluation.charged().map(|(charge, _)| charge.quota.clone()).collect();
            let after = self.after.entry(of.workload.key.namespace.clone()).or_default();
            after.push((of.workload.key.to_string(), quotas));
        }
        Some(notes)
    }

    /// Evaluates a change of an object; also the object with it.
    fn preview(
        &mut self,
        of: &Candidate<'_>,
        object: &Value,
        change: &RecommendedChange<'_>,
    ) -> (ObjectDecision, Value) {
        let changed = change.applied_to(object);
        if of.workload.key.kind == "Pod" && of.entry.exists {
            let WorkloadRef { namespace, name, .. } = &of.workload.key;
            let running = (!of.is_read()).then(|| self.run.cluster.get(("v1", "Pod", Some(namespace)), name));
            let running = running.and_then(Result::ok).flatten().unwrap_or_else(|| object.clone());
            return (self.run.preview_resize(running, changed.clone()), changed);
        }
        // An object that the inventory has read is not read again.
        (self.run.preview_over(&changed, of.is_read().then(|| object.clone())), changed)
    }

    /// The warnings about autoscalers that scale to more than fits with the new requests.
    fn autoscaler_notes(&mut self, of: &Candidate<'_>) -> Vec<String> {
        let mut notes = Vec::new();
        for patch in of.change.patches().iter().filter(|patch| patch.kind.group == "autoscaling" && of.needs_more()) {
            let key = (patch.kind.api_version(), patch.kind.kind.as_str());
            let found = self.run.cluster.get((&key.0, key.1, Some(&patch.namespace)), &patch.name);
            let Ok(Some(mut autoscaler)) = found else { continue };
            if let Some((Value::Object(spec), Value::Object(put))) =
                autoscaler.get_mut("spec").zip(patch.body.get("spec"))
            {
                spec.extend(put.clone());
            }
            let warnings = self.run.preview(&autoscaler).warnings;
            notes.extend(warnings.iter().map(|warning| format!("HorizontalPodAutoscaler {}: {warning}", patch.name)));
        }
        notes
    }

    /// The reason that a change does not pass, which may be another one since others were carried out; none if it passes by now.
    fn reason(&mut self, of: &Candidate<'_>) -> Option<Blocked> {
        if let Some((_, blocked)) = of.refused.as_ref().filter(|(after, _)| *after == self.carried_out) {
            return Some(blocked.clone());
        }
        let (evaluation, _) = self.preview(of, &of.object(), &of.change);
        (!passes(&evaluation)).then(|| self.blocked_by(of, &evaluation))
    }

    /// The reasons that a change does not pass, and who took the room before. What fits is searched for later.
    fn blocked_by(&self, of: &Candidate<'_>, evaluation: &ObjectDecision) -> Blocked {
        let stopping = evaluation.warnings.iter().filter(|warning| warning.blocks_pods.is_some());
        let reasons = evaluation.reasons.iter().map(ToString::to_string).chain(stopping.map(ToString::to_string));
        // Amounts are texts here: less than nothing is left where room is missing.
        let short = evaluation.charged().filter(|(_, amount)| amount.left.starts_with('-'));
        let short: BTreeSet<&str> = short.map(|(charge, _)| charge.quota.as_str()).collect();
        let after = self.after.get(&of.workload.key.namespace).into_iter().flatten();
        // Only those that took some of what is missing.
        let after = after.filter(|(_, quotas)| quotas.iter().any(|quota| short.contains(quota.as_str())));
        let after: Vec<&String> = after.map(|(workload, _)| workload).collect();
        Blocked {
            verdict: evaluation.verdict,
            reasons: reasons.collect(),
            after: after.iter().take(MAX_NAMED).copied().cloned().collect(),
            after_count: after.len(),
            fits: Vec::new(),
            raise: Vec::new(),
        }
    }

    /// The most of the change that passes, which is carried out, by the first of these resources that has to give way.
    fn nearest(&mut self, of: &Candidate<'_>) -> Vec<Fit> {
        let [cpu, memory] = CPU_AND_MEMORY.map(|resource| resource.name());
        let object = of.object();
        let at = |resources: &[&str], step: u64| of.raised_in_part(resources, step);
        let mut passing = |change| Some(self.preview(of, &object, &change).0).filter(passes);
        for resources in [&[cpu][..], &[memory], &[cpu, memory]] {
            if at(resources, STEPS).1.is_empty() {
                continue;
            }
            let Some(mut best) = passing(at(resources, 0).0) else { continue };
            let (mut fits, mut fails) = (0, STEPS);
            while fails - fits > 1 {
                let middle = fits.midpoint(fails);
                match passing(at(resources, middle).0) {
                    Some(passing) => (best, fits) = (passing, middle),
                    None => fails = middle,
                }
            }
            self.run.accept(&mut best);
            return if fits == 0 { Vec::new() } else { at(resources, fits).1 };
        }
        Vec::new()
    }

    /// The bounds of the quotas that are too small with which the change passes, which is carried out; none if they alone do not
    /// help.
    fn bounds(&mut self, of: &Candidate<'_>) -> Vec<BlockingBound> {
        let before = of.object();
        let (mut evaluation, mut object) = self.preview(of, &before, &of.change);
        let key = |charge: &ObjectCharge, amount: &ChargedAmount| {
            let namespace = (!charge.is_tenant).then(|| of.workload.key.namespace.clone());
            (namespace, charge.quota.clone(), amount.name.clone())
        };
        let charged: Vec<(QuotaName, ChargedAmount)> =
            evaluation.charged().map(|(charge, amount)| (key(charge, amount), amount.clone())).collect();
        let (mark, mut raised) = (self.run.cluster.mark(), Vec::new());
        // Those that were raised before may be enough.
        let is_short = !passes(&evaluation);
        for (key, amount) in charged.iter().filter(|(_, amount)| is_short && amount.left.starts_with('-')) {
            let (in_namespace, quota, resource) = key;
            let Some(hard) = amount.used.parse().ok().map(|used| rounded_up(resource, used)) else { continue };
            let (kind, fields) = match in_namespace {
                Some(_) => (("v1", "ResourceQuota"), ["/spec/hard", "/status/hard"]),
                None => (TENANT_QUOTA, ["/spec/quota/hard", "/status/hard"]),
            };
            let found = self.run.cluster.get((kind.0, kind.1, in_namespace.as_deref()), quota);
            let Ok(Some(mut object)) = found else { continue };
            for field in fields {
                if let Some(Value::Object(amounts)) = object.pointer_mut(field) {
                    amounts.insert(resource.clone(), json!(hard.to_string()));
                }
            }
            // OK because a quota that was read is put back with another amount.
            let _ = self.run.cluster.put(object);
            raised.push((key.clone(), hard));
        }
        if !raised.is_empty() {
            (evaluation, object) = self.preview(of, &before, &of.change);
        }
        if !passes(&evaluation) {
            self.run.cluster.roll_back(mark);
            return Vec::new();
        }
        self.run.accept(&mut evaluation);
        self.run.cluster.take_back(&object);
        self.raised.extend(raised);
        let bound = |(key, _): (QuotaName, ChargedAmount)| {
            let hard = self.raised.get(&key)?.clone();
            let (in_namespace, quota, resource) = key;
            Some(BlockingBound { quota, is_tenant: in_namespace.is_none(), resource, hard })
        };
        charged.into_iter().filter_map(bound).collect()
    }
}

/// The namespace of a quota, none for a TenantQuota, its name, and what it bounds.
type QuotaName = (Option<String>, String, String);

/// True unless something is found against an object. What could not be evaluated was reported when it was read.
fn passes(evaluation: &ObjectDecision) -> bool {
    !matches!(evaluation.verdict, Verdict::PodsBlocked | Verdict::Rejected | Verdict::Invalid)
}

impl Candidate<'_> {
    /// True if the object is that of the cluster.
    fn is_read(&self) -> bool {
        self.entry.exists && self.entry.origin.is_none()
    }

    /// The object without the change.
    fn object(&self) -> Value {
        let custom = self.workload.custom.as_ref().map(|custom| custom.object.value());
        let mut object = custom.unwrap_or_else(|| self.entry.as_it_runs());
        if self.is_read() {
            unread::leave_out(&mut object);
        }
        object
    }

    fn advice(&self) -> impl Iterator<Item = (&str, &ResourceAdvice)> {
        self.workload.containers.iter().flat_map(|of| of.resources.iter().map(|advice| (of.name.as_str(), advice)))
    }

    /// True if any request rises.
    fn needs_more(&self) -> bool {
        self.advice().any(|(_, advice)| advice.to_write().is_some() && advice.is_raised())
    }

    /// The change with only a part of the way from lower requests and limits of some resources; and the requests that it makes
    /// of them.
    fn raised_in_part(&self, resources: &[&str], step: u64) -> (RecommendedChange<'_>, Vec<Fit>) {
        let (mut change, mut made) = (self.change.clone(), Vec::new());
        for container in &mut change.containers {
            let name = container.name.clone();
            for (requirement, amounts) in &mut container.amounts {
                for (resource, amount) in amounts.iter_mut().filter(|(resource, _)| resources.contains(resource)) {
                    let advice = self.advice().find(|(of, advice)| *of == name && advice.resource.name() == *resource);
                    let current = advice.and_then(|(_, advice)| match requirement {
                        Requirement::Request => advice.request.as_ref().map(|request| request.value.clone()),
                        Requirement::Limit => advice.limit.clone(),
                    });
                    let current = current.unwrap_or(Quantity::ZERO);
                    let more = amount.minus(&current);
                    if !more.is_positive() {
                        continue;
                    }
                    *amount = rounded_down(resource, &current.plus(&more.scaled(step, STEPS)));
                    if *requirement == Requirement::Request {
                        made.push(Fit { container: name.clone(), resource, amount: amount.clone() });
                    }
                }
            }
        }
        (change, made)
    }
}

/// A request without a remainder that nobody would write.
fn rounded_down(resource: &str, amount: &Quantity) -> Quantity {
    if resource == "cpu" {
        return Quantity::from_milli(amount.milli_value());
    }
    Quantity::from_bytes(u64::try_from(amount.value()).unwrap_or(0) >> 20 << 20)
}

/// A bound that people would choose: 2294m of CPU are 2300m.
fn rounded_up(name: &str, used: Quantity) -> Quantity {
    let step = match name {
        "cpu" | "requests.cpu" | "limits.cpu" => {
            Quantity::from_milli(if used.milli_value() < 1_000 { 10 } else { 100 })
        }
        name if name.ends_with("memory") => Quantity::from_bytes(1 << 20),
        _ => return used,
    };
    let family = if name.ends_with("memory") { Family::BinarySi } else { Family::DecimalSi };
    used.to_family(family).rounded_up_to_multiple_of(&step)
}
