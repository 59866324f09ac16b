//! Finds what would change for each subject and each quota.

use headroom_admission::amount::{Quantity, ResourceList};
use headroom_admission::request::{Pod, Requirement, pod_totals};
use headroom_admission::sort::by_text;
use serde::Serialize;
use serde_json::Value;

use super::subjects::{Subject, Subjects};
use crate::Overlay;
use crate::evaluate::{
    Admission, ObjectDecision, ObjectWarning, RejectionReason, ResourceValue, Verdict, request, tenant_quotas,
};
use crate::overlay::tenants::TENANT_QUOTA;
use crate::quota_levels::{QuotaKey, QuotaLevel, QuotaLevels, some_text, text};
use headroom_objects::cluster_reader::ClusterReader;
use headroom_objects::document;
use headroom_objects::kinds::ApiKind;

/// A simulation of which the first half is done: things as they are.
pub struct Simulation {
    subjects: Subjects,
    now: Vec<Looked>,
    /// The amounts that the running pods of each subject were charged.
    held: Vec<Vec<(QuotaKey, Quantity)>>,
    quotas: QuotaLevels,
}

struct Looked {
    evaluation: ObjectDecision,
    /// The amounts that one adds to quotas.
    adds: Vec<(QuotaKey, Quantity)>,
}

/// Everything that would change.
#[derive(Debug, Default)]
pub struct Effects {
    pub subjects: Vec<Effect>,
    pub quotas: Vec<QuotaEffect>,
    /// The additional requests of the changed subjects, by resource; negative if they free some.
    pub requests: ResourceList<'static>,
    pub missed: Vec<String>,
}

/// The change for one subject.
#[derive(Debug)]
pub struct Effect {
    pub name: String,
    pub namespace: String,
    pub count: u64,
    pub change: EffectKind,
    /// The reasons for the refusal, past or future.
    pub reasons: Vec<RejectionReason>,
    pub values: Vec<ValueChange>,
    /// Warnings that there were not before.
    pub warnings: Vec<ObjectWarning>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EffectKind {
    NewlyRejected,
    NotEvaluated,
    /// Admitted before and after, with other values.
    Changed,
    NoLongerRejected,
    StillRejected,
    Same,
}

/// A value that would be another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct ValueChange {
    /// `container web`
    pub container: String,
    /// `requests.cpu`
    pub field: String,
    pub now: Option<String>,
    pub then: Option<String>,
    /// The origin of the new value.
    pub reason: String,
}

/// A bound or usage of a quota that would change.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct QuotaEffect {
    /// Its bound is that of today: none for a quota that is new.
    #[serde(flatten)]
    pub level: QuotaLevel,
    /// The usage if all were recreated.
    #[serde(serialize_with = "text")]
    #[cfg_attr(not(target_arch = "wasm32"), schemars(with = "String"))]
    pub remade: Quantity,
    /// None if it is not bounded any more.
    #[serde(serialize_with = "some_text")]
    #[cfg_attr(not(target_arch = "wasm32"), schemars(with = "Option<String>"))]
    pub new_hard: Option<Quantity>,
    /// The rest of the bound then; below zero if there is too little.
    #[serde(serialize_with = "some_text")]
    #[cfg_attr(not(target_arch = "wasm32"), schemars(with = "Option<String>"))]
    pub left: Option<Quantity>,
    /// True if there would be too little room, and was enough.
    #[serde(rename = "newlyExceeded")]
    pub is_newly_exceeded: bool,
}

impl Simulation {
    pub fn begin(subjects: Subjects, admission: &Admission, cluster: &mut Overlay) -> Self {
        // OK because quotas that cannot be read are reported with the subjects; those of files have to be counted first.
        let _ = tenant_quotas::prepare(cluster);
        let now: Vec<Looked> = subjects.found.iter().map(|subject| look(subject, admission, cluster)).collect();
        let both = subjects.found.iter().zip(&now);
        let held = both.map(|(subject, now)| held(subject, now, admission, cluster)).collect();
        let mut simulation = Self { subjects, now, held, quotas: QuotaLevels::default() };
        simulation.quotas = simulation.levels(cluster);
        simulation
    }

    /// The namespaces in which something was found.
    pub fn namespaces(&self) -> Vec<String> {
        // They are in this order.
        let mut names: Vec<String> = self.subjects.found.iter().map(|subject| subject.key.namespace.clone()).collect();
        names.dedup();
        names
    }

    /// Evaluates all subjects again, in the cluster as it would be, and compares them with those of `begin`.
    pub fn end(&self, admission: &Admission, cluster: &mut Overlay) -> Effects {
        let then: Vec<Looked> = self.subjects.found.iter().map(|subject| look(subject, admission, cluster)).collect();
        let quotas = self.levels(cluster);
        let mut effects = Effects { missed: self.subjects.missed.clone(), ..Effects::default() };
        for ((subject, now), then) in self.subjects.found.iter().zip(&self.now).zip(&then) {
            let effect = Effect::of(subject, &now.evaluation, &then.evaluation);
            if effect.change == EffectKind::Changed {
                for (name, more) in requests(then.evaluation.outcome()).iter() {
                    effects.requests.add(name, &more.times_count(subject.count));
                }
                for (name, less) in requests(now.evaluation.outcome()).iter() {
                    effects.requests.add(name, &Quantity::ZERO.minus(&less.times_count(subject.count)));
                }
            }
            effects.subjects.push(effect);
        }
        // Only resources whose requests change in sum.
        let changes = std::mem::take(&mut effects.requests).into_iter();
        effects.requests = ResourceList::in_order(changes.filter(|(_, change)| !change.is_zero()));
        effects.quotas = self.quota_effects(&quotas, &then);
        effects
    }

    fn levels(&self, cluster: &mut Overlay) -> QuotaLevels {
        let mut all = Vec::new();
        if tenant_quotas::prepare(cluster) == Ok(true) {
            let (api_version, kind) = TENANT_QUOTA;
            all.extend(cluster.list((api_version, kind, None)).unwrap_or_default());
        }
        for namespace in self.namespaces() {
            // Objects that cannot be read are already reported with the subjects.
            all.extend(cluster.list(("v1", "ResourceQuota", Some(&namespace))).unwrap_or_default());
        }
        QuotaLevels::of(&all)
    }

    fn quota_effects(&self, quotas: &QuotaLevels, then: &[Looked]) -> Vec<QuotaEffect> {
        let mut effects = Vec::new();
        for key in quotas.keys_with(&self.quotas) {
            let (new, old) = (quotas.get(key), self.quotas.get(key));
            let used = new.or(old).map(|level| level.used.clone()).unwrap_or(Quantity::ZERO);
            let remade = used.plus(&self.growth(key, old.is_some(), then));
            let hard = |level: Option<&QuotaLevel>| level.and_then(|level| level.hard.clone());
            let (hard, new_hard) = (hard(old), hard(new));
            if hard == new_hard && remade == used {
                continue;
            }
            let was_exceeded = hard.as_ref().is_some_and(|hard| used > *hard);
            let is_exceeded = new_hard.as_ref().is_some_and(|hard| remade > *hard);
            effects.push(QuotaEffect {
                level: QuotaLevel { key: key.clone(), used, hard },
                left: new_hard.as_ref().map(|hard| hard.minus(&remade)),
                remade,
                new_hard,
                is_newly_exceeded: is_exceeded && !was_exceeded,
            });
        }
        effects
    }

    /// The amount that all subjects would add to a quota's name beyond what they add now.
    fn growth(&self, key: &QuotaKey, was_counted: bool, then: &[Looked]) -> Quantity {
        let mut growth = Quantity::ZERO;
        // A quota without a namespace is a TenantQuota.
        let is_charged = |subject: &Subject| key.namespace.is_empty() || subject.key.namespace == key.namespace;
        let all = self.subjects.found.iter().zip(&self.held).zip(then);
        for ((subject, held), then) in all.filter(|((subject, _), _)| is_charged(subject)) {
            let amount = |amounts: &[(QuotaKey, Quantity)]| {
                let of_key = amounts.iter().filter(|(of, _)| of == key);
                of_key.fold(Quantity::ZERO, |sum, (_, amount)| sum.plus(amount))
            };
            // Running pods were counted with the quota that has the new bound.
            let now = if was_counted { amount(held) } else { amount(&then.adds).times_count(subject.count) };
            growth = growth.plus(&amount(&then.adds).times_count(subject.count).minus(&now));
        }
        growth
    }
}

fn look(subject: &Subject, admission: &Admission, cluster: &mut Overlay) -> Looked {
    let kind = ApiKind::of(&subject.object);
    // As an object that is already counted, so that no quota refuses it: quotas are reported as a sum.
    let mut evaluation = admission.evaluate(request::audit(subject.object.clone(), &kind), cluster);
    // A default of a LimitRange may be below the request, or above that of the pod as a whole.
    evaluation.validate(cluster.release());
    let adds = charged(&subject.object, &subject.key.namespace, admission, cluster);
    Looked { evaluation, adds }
}

/// The amounts that the running pods of a subject were charged.
fn held(subject: &Subject, now: &Looked, admission: &Admission, cluster: &mut Overlay) -> Vec<(QuotaKey, Quantity)> {
    let times = |count: u64, charged: Vec<(QuotaKey, Quantity)>| {
        charged.into_iter().map(move |(key, amount)| (key, amount.times_count(count)))
    };
    if subject.running.is_empty() {
        return times(subject.count, now.adds.clone()).collect();
    }
    let running = subject.running.iter();
    running.flat_map(|(count, pod)| times(*count, charged(pod, &subject.key.namespace, admission, cluster))).collect()
}

/// The amounts that an object is charged when it is created in a namespace, whether they fit or not.
pub fn charged(
    object: &Value,
    namespace: &str,
    admission: &Admission,
    cluster: &mut Overlay,
) -> Vec<(QuotaKey, Quantity)> {
    let request = request::create(object.clone(), &ApiKind::of(object), namespace);
    let made = admission.evaluate(request, cluster);
    let mut amounts = Vec::new();
    // Read errors were already reported when the objects were listed.
    let of_tenants = tenant_quotas::evaluate(&made.request, made.outcome(), cluster).ok().flatten().unwrap_or_default();
    for charge in made.charges.iter().chain(&of_tenants.charges) {
        let namespace = if charge.is_tenant { String::new() } else { namespace.to_owned() };
        for amount in &charge.added {
            if let Ok(added) = amount.added.parse::<Quantity>() {
                let (namespace, quota, name) = (namespace.clone(), charge.quota.clone(), amount.name.clone());
                amounts.push((QuotaKey { namespace, quota, name }, added));
            }
        }
    }
    amounts
}

impl Effect {
    fn of(subject: &Subject, now: &ObjectDecision, then: &ObjectDecision) -> Self {
        let values = value_changes(now, then);
        let is_refused = |of: &ObjectDecision| matches!(of.verdict, Verdict::Rejected | Verdict::Invalid);
        let change = match (is_refused(now), is_refused(then)) {
            _ if [now, then].iter().any(|of| of.verdict == Verdict::Error) => EffectKind::NotEvaluated,
            (true, true) => EffectKind::StillRejected,
            (false, true) => EffectKind::NewlyRejected,
            (true, false) => EffectKind::NoLongerRejected,
            (false, false) if values.is_empty() => EffectKind::Same,
            (false, false) => EffectKind::Changed,
        };
        let reasons = match change {
            EffectKind::NotEvaluated if now.verdict == Verdict::Error => &now.reasons,
            EffectKind::NoLongerRejected => &now.reasons,
            _ => &then.reasons,
        };
        // A refused object gets no estimates.
        let is_of_nothing = |warning: &ObjectWarning| is_refused(then) && warning.is_of_estimate();
        let is_new = |warning: &&ObjectWarning| !now.warnings.contains(warning) && !is_of_nothing(warning);
        Self {
            name: subject.name.clone(),
            namespace: subject.key.namespace.clone(),
            count: subject.count,
            change,
            reasons: reasons.clone(),
            values: if change == EffectKind::Changed { values } else { Vec::new() },
            warnings: then.warnings.iter().filter(is_new).cloned().collect(),
        }
    }
}

/// The requests of a pod, as the scheduler and quotas count them; empty for other objects.
fn requests(object: &Value) -> ResourceList<'static> {
    // OK because what serde_json wrote can be read, and a pod that cannot be read was not admitted.
    let Ok(document) = document(object) else { return ResourceList::default() };
    let Ok(pod) = Pod::read(document.root(), None) else { return ResourceList::default() };
    let total = pod_totals::as_quotas_see_it(&pod, Requirement::Request).unwrap_or_default();
    ResourceList::in_order(total.iter().map(|(name, amount)| (name.to_string().into(), amount.clone())))
}

/// The values that differ, in the order of their containers and fields.
fn value_changes(now: &ObjectDecision, then: &ObjectDecision) -> Vec<ValueChange> {
    let mut all: Vec<(bool, String, &ResourceValue)> = Vec::new();
    for (is_new, evaluation) in [(false, now), (true, then)] {
        for container in &evaluation.containers {
            let set = container.values.iter().filter(|value| value.value.is_some());
            all.extend(set.map(|value| (is_new, container.title(), value)));
        }
    }
    by_text(&mut all, |(_, _, value)| &value.field);
    by_text(&mut all, |(_, container, _)| container);
    let mut changes = Vec::new();
    for same in all.chunk_by(|(_, one, of), (_, other, and)| one == other && of.field == and.field) {
        let find = |wanted: bool| same.iter().find(|(is_new, ..)| *is_new == wanted).map(|(_, _, value)| *value);
        let [now, then] = [false, true].map(|wanted| find(wanted).and_then(|value| value.value.clone()));
        let Some((_, container, value)) = same.last().filter(|_| now != then) else { continue };
        let reason = find(true).map_or_else(|| "no longer set".to_owned(), |value| value.reason.clone());
        changes.push(ValueChange { container: container.clone(), field: value.field.clone(), now, then, reason });
    }
    changes
}

impl Effects {
    pub fn count(&self, change: EffectKind) -> usize {
        self.subjects.iter().filter(|effect| effect.change == change).count()
    }
}
