//! Charges the pods of workloads: those that exist, and those that their controllers still create.

use headroom_admission::Request;
use headroom_admission::amount::Quantity;
use headroom_admission::request::controllers::{Controller, Rollout};
use headroom_admission::request::rollout;
use serde_json::{Value, json};

use super::Run;
use super::claims::claim;
use crate::evaluate::object_decision::{ObjectCharge, ObjectDecision, ObjectWarning, Topic};
use crate::evaluate::settle::{Removed, Settled, settle};
use crate::evaluate::{request, validation};
use headroom_objects::document;
use headroom_objects::kinds::{ApiKind, items, metadata, number, set};
use headroom_workloads::kinds::{CRON_JOB, DAEMON_SET, DEPLOYMENT, REPLICA_SET, counts};
use headroom_workloads::refusal::PodRefusal;
use headroom_workloads::{pod_makers, pod_of, running};

/// In seconds; less is what rollouts take anyhow.
const WORTH_TELLING: u64 = 120;

pub(super) type Change = fn(&Quantity, &Quantity) -> Quantity;

/// The end of a sentence about pods that were refused, and would be admitted now.
pub const FITS_NOW: &str = "would fit now; the controller tries again at least every 17 minutes";

/// The reasons why the controllers of a workload cannot create its pods.
pub struct Blocked {
    /// `2 of 5 replicas exist`
    pub state: String,
    pub refusal: Option<PodRefusal>,
    /// The warnings to resolve; none if the next try succeeds.
    pub needed: Vec<ObjectWarning>,
}

impl Run {
    /// Adds what the pods of a workload are refused for: those that an update still has to create, and those that the API server
    /// would not store.
    pub(super) fn evaluate_unfinished(&mut self, decision: &mut ObjectDecision) {
        if pod_of(decision.outcome()).is_none() {
            return;
        }
        let mut request = decision.request.clone();
        if let Some(changed) = &decision.changed {
            set(&mut request, "object", changed.clone());
        }
        if let Some(unfinished) = unfinished(&request, self) {
            let (warnings, charges) = self.evaluate_request_of_pods(&unfinished);
            decision.warnings.extend(warnings);
            decision.pod_charges.extend(charges);
            request = unfinished;
        }
        let is_blocked = decision.warnings.iter().any(|warning| warning.blocks_pods.is_some());
        decision.warnings.extend(self.waits_for_termination(&request, is_blocked).map(ObjectWarning::from));
        decision.rollouts.push(request);
    }

    /// Says by how much a rollout is slower because the pods that it removes hold the quota until they have terminated, which no
    /// Deployment waits for. For one that stops, that of the advice: without a surge.
    fn waits_for_termination(&mut self, request: &Value, is_blocked: bool) -> Option<String> {
        let (object, old) = (request.get("object")?, request.get("oldObject").filter(|old| old.is_object())?);
        // OK because what cannot be read was reported with the object.
        let read = document(request).ok()?;
        let mut rollout = Request::read(read.root()).and_then(|request| rollout::rollout(&request)).ok()??;
        let Controller::Deployment { surge, unavailable, .. } = &mut rollout.controller else { return None };
        if is_blocked {
            (*surge, *unavailable) = (0, 1);
        }
        let removed_at_once = *unavailable;
        let (new, before) = (pod_of(object)?, pod_of(old)?);
        let wanted = rollout.wanted.saturating_sub(rollout.current);
        let grace = before.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_u64).unwrap_or(30);
        // So long if each waited for the one before it.
        if wanted.saturating_mul(grace) < WORTH_TELLING {
            return None;
        }
        let ((are_created, of_new), (_, of_old)) = (self.charges_of(new), self.charges_of(before));
        let of_new = are_created.then_some(&of_new);
        let [freed, held] = [Removed::Frees, Removed::Holds].map(|removed| settle(&rollout, of_new, &of_old, removed));
        if freed.new < wanted || held.new >= wanted {
            return None;
        }
        let waiting = wanted - held.new;
        let total = waiting.div_ceil(held.new.max(removed_at_once).max(1)).saturating_mul(grace);
        if total < WORTH_TELLING {
            return None;
        }
        let time = |seconds: u64| if seconds < 120 { format!("{seconds} s") } else { format!("{} min", seconds / 60) };
        let waits = object.pointer("/spec/podReplacementPolicy") == Some(&json!("TerminationComplete"));
        Some(format!(
            "{}: {waiting} of {wanted} new pods have to wait until old ones have terminated, which hold the quota for up to {} each, \
             {} in all{}",
            if is_blocked {
                "with maxSurge 0 and maxUnavailable 1 the rollout would end, but be slower"
            } else {
                "the rollout will be slower"
            },
            time(grace),
            time(total),
            if waits { "" } else { "; until then they are refused and tried again with back-off" },
        ))
    }

    /// Evaluates a request for pods alone: the warnings that stop them, and what they would add to quotas.
    fn evaluate_request_of_pods(&mut self, request: &Value) -> (Vec<ObjectWarning>, Vec<ObjectCharge>) {
        let found = self.ask(request.clone());
        let is_of_quota =
            |warning: &ObjectWarning| warning.blocks_pods.is_some() || warning.about.starts_with("quota ");
        (found.warnings.into_iter().filter(is_of_quota).collect(), found.pod_charges)
    }

    /// Charges the pods that the controllers create until they rest. Returns how many there are then.
    pub(super) fn settle_pods(&mut self, namespace: &str, request: &Value) -> Result<u64, String> {
        let object = request.get("object").cloned().unwrap_or_default();
        let old = request.get("oldObject").filter(|old| old.is_object()).cloned();
        let [wanted_at, present_at] = counts(&ApiKind::of(&object)).unwrap_or_default();
        let read = document(request)?;
        let read = Request::read(read.root()).and_then(|request| rollout::rollout(&request));
        let rollout = read.map_err(|malformed| malformed.to_string())?;
        let present = old.as_ref().map_or(0, |old| {
            let assumed = if old.get("status").is_some() { 0 } else { number(old, wanted_at).unwrap_or(1) };
            number(old, present_at).unwrap_or(assumed)
        });
        let wanted = number(&object, wanted_at).unwrap_or(1);
        if object.get("kind").is_some_and(|kind| kind == CRON_JOB.kind) || rollout.is_none() && present <= wanted {
            // A CronJob makes pods when its time comes.
            return Ok(present);
        }
        let of_old = old.as_ref().and_then(|old| Some(self.charges_of(pod_of(old)?).1)).unwrap_or_default();
        let (mut settled, mut of_new, mut of_claims, mut claimed) = (Settled::default(), Vec::new(), Vec::new(), 0);
        match &rollout {
            // Fewer are wanted, of the same template.
            None => settled.gone = present - wanted,
            Some(rollout) => {
                let (mut are_created, charges) = pod_of(&object).map(|pod| self.charges_of(pod)).unwrap_or_default();
                of_new = charges;
                let mut both = of_new.clone();
                if rollout.adds_pods() {
                    let (are_claimed, charges) = self.charges_of_claims(&object);
                    let missing = Rollout::adding(rollout.wanted, rollout.present, rollout.noun);
                    claimed = settle(&missing, are_claimed.then_some(&charges), &[], Removed::Frees).new;
                    both.extend(charges.iter().cloned());
                    of_claims = charges;
                    are_created &= are_claimed;
                }
                settled = settle(rollout, are_created.then_some(&both), &of_old, Removed::Frees);
                // Claims are created before their pods, also before the one that is refused.
                claimed = claimed.min(settled.new + settled.old + 1);
            }
        }
        let changes: [(&[ObjectCharge], u64, Change); 4] = [
            (&of_old, settled.gone, Quantity::minus),
            (&of_old, settled.old, Quantity::plus),
            (&of_new, settled.new, Quantity::plus),
            (&of_claims, claimed, Quantity::plus),
        ];
        for (charges, count, change) in changes {
            for charge in charges.iter().filter(|_| count > 0) {
                self.charge(namespace, &charge.times_count(count), change)?;
            }
        }
        Ok((present + settled.old + settled.new).saturating_sub(settled.gone))
    }

    /// True if such a pod can be created once there is room for it, and what it is charged.
    fn charges_of(&mut self, pod: Value) -> (bool, Vec<ObjectCharge>) {
        let kind = ApiKind::of(&pod);
        let found = self.ask(request::create(pod, &kind, &self.namespace));
        let is_stored = validation::problems_after(&found, self.release).is_empty();
        (is_stored && found.reasons.iter().all(|reason| reason.lacks_room), found.charges)
    }

    /// The same for the claims that a StatefulSet makes for each of its pods.
    fn charges_of_claims(&mut self, workload: &Value) -> (bool, Vec<ObjectCharge>) {
        let (mut are_created, mut charges) = (true, Vec::new());
        for template in items(workload, "/spec/volumeClaimTemplates") {
            let claim = claim(["v1", "PersistentVolumeClaim"], metadata(workload, "namespace"), template);
            let (is_created, of_claim) = self.charges_of(claim);
            are_created &= is_created;
            charges.extend(of_claim);
        }
        (are_created, charges)
    }

    /// Evaluates an object that is there already as if it were made again, in the place that it and its pods leave in the quotas; and
    /// says if its pods are refused as it stands.
    pub fn preview_as_new(&mut self, object: &Value) -> ObjectDecision {
        let (kind, mut object) = (ApiKind::of(object), running::with_status(object.clone(), &mut self.cluster));
        self.set_classes(&mut object);
        let object = &object;
        let request = request::create(object.clone(), &kind, &self.namespace);
        let counted = self.admission.evaluate(request.clone(), &mut self.cluster);
        let namespace = counted.namespace.clone();
        let mark = self.cluster.mark();
        // OK because a quota that cannot be read now could not be read for the charge either.
        counted.charges.iter().for_each(|charge| drop(self.charge(&namespace, charge, Quantity::minus)));
        let (mut there, made) = (running::pods(object, &mut self.cluster), self.pods_of(object));
        if let (true, [pods], Some(count)) = (there.is_empty(), &*made.templates, number(object, "/status/replicas")) {
            there.extend(pod_of(&pod_makers::replica_set(object, pods, count)).map(|pod| (count, pod)));
        }
        there.extend(running::claims(object, &mut self.cluster).into_iter().map(|claim| (1, claim)));
        for (count, one) in there {
            for charge in self.charges_of(one).1 {
                drop(self.charge(&namespace, &charge.times_count(count), Quantity::minus));
            }
        }
        let mut decision = self.admission.evaluate(request, &mut self.cluster);
        if !made.templates.is_empty() {
            self.evaluate_pods(made, &mut decision);
            decision.decide();
        }
        self.cluster.roll_back(mark);
        let blocked = self.blocked_now(object);
        if !blocked.is_empty() && decision.is_admitted() {
            // What it lacks as it stands is more to the point than what it would lack.
            decision.warnings.retain(|warning| warning.blocks_pods != Some(Topic::Quota));
            decision.warnings.splice(0..0, blocked);
            decision.decide();
        }
        decision
    }

    /// Explains why the pods of a workload do not all run, since when, and what would let its controllers go on.
    fn blocked_now(&mut self, object: &Value) -> Vec<ObjectWarning> {
        let Some(Blocked { state, refusal, needed }) = self.blocked(object) else { return Vec::new() };
        let mut now = format!("blocked now: {state}");
        if let Some(PodRefusal { message, first, .. }) = &refusal {
            let since = first.map(|since| format!("since {since} ")).unwrap_or_default();
            now.push_str(&format!("; {since}the API server rejects others: {message}"));
        }
        let next = match needed.is_empty() {
            true => vec![format!("they {FITS_NOW}")],
            false => {
                needed.iter().map(|warning| format!("it goes on once this is resolved: {}", warning.text)).collect()
            }
        };
        [now].into_iter().chain(next).map(|text| ObjectWarning::blocking(Topic::Quota, text)).collect()
    }

    /// A workload whose controllers cannot create the pods that it is to have; none if they have done so.
    pub fn blocked(&mut self, object: &Value) -> Option<Blocked> {
        let mut completed = object.clone();
        self.set_classes(&mut completed);
        let request = request::update(completed.clone(), completed, &ApiKind::of(object), &self.namespace);
        let unfinished = unfinished(&request, self)?;
        let (mut needed, _) = self.evaluate_request_of_pods(&unfinished);
        needed.retain(|warning| warning.blocks_pods.is_some());
        let refusal = running::refusal(object, &mut self.cluster);
        let is_blocked = refusal.is_some() || !needed.is_empty();
        is_blocked.then(|| Blocked { state: running::state(object), refusal, needed })
    }
}

/// An update that keeps the template, as the one that its controllers still have to carry out: from the pods that exist to those
/// that are wanted. None if they have done so, and for an update that the core evaluates itself.
fn unfinished(request: &Value, run: &mut Run) -> Option<Value> {
    let (object, old) = (request.get("object")?, request.get("oldObject")?);
    let kind = ApiKind::of(object);
    let [wanted_at, present_at] = counts(&kind)?;
    let is_kept = old.get("status").is_some_and(|status| !status.is_null())
        && object.pointer("/spec/template") == old.pointer("/spec/template")
        && object.pointer("/spec/paused") != Some(&json!(true));
    let (wanted, before) = (number(object, wanted_at).unwrap_or(1), number(old, wanted_at).unwrap_or(1));
    let present = number(old, present_at).unwrap_or(0);
    let updated = number(old, "/status/updatedReplicas").unwrap_or(0);
    let mut request = request.clone();
    let mut set = |at: &str, value: Value| {
        if let Some((Value::Object(fields), name)) =
            at.rsplit_once('/').and_then(|(path, name)| Some((request.pointer_mut(path)?, name)))
        {
            fields.insert(name.to_owned(), value);
        }
    };
    if !is_kept {
        return None;
    }
    if kind.kind == DEPLOYMENT.kind && updated < present && updated < wanted {
        // Only those of the earlier template are left to replace.
        let mut templates = running::templates(old, &mut run.cluster);
        for (_, template) in &mut templates {
            run.set_classes_of_pod(template, "/spec", metadata(old, "namespace"));
        }
        templates.retain(|(count, template)| *count > 0 && Some(template) != old.pointer("/spec/template"));
        let (_, earlier) = templates.into_iter().max_by_key(|(count, _)| *count)?;
        set("/oldObject/spec/template", earlier);
        set("/object/spec/replicas", json!(wanted - updated));
        set("/oldObject/spec/replicas", json!(before.saturating_sub(updated)));
        for field in ["replicas", "updatedReplicas"] {
            set(&format!("/oldObject/status/{field}"), json!(present - updated));
        }
        return Some(request);
    }
    if present >= wanted || wanted > before {
        return None;
    }
    if kind.kind == DAEMON_SET.kind {
        let replica_set = |replicas: u64| {
            json!({"apiVersion": REPLICA_SET.api_version, "kind": REPLICA_SET.kind, "metadata": object.get("metadata"),
                "spec": {"replicas": replicas, "template": object.pointer("/spec/template")}})
        };
        let kind = ApiKind::new(REPLICA_SET.api_version, REPLICA_SET.kind);
        return Some(request::update(replica_set(wanted), replica_set(present), &kind, metadata(object, "namespace")));
    }
    set(&format!("/oldObject{wanted_at}"), json!(present));
    Some(request)
}
