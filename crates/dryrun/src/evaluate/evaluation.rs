//! The decision on one object as owned data, with everything that a command may print.

use std::fmt;

use headroom_core::amount::Quantity;
use headroom_core::cluster::lookup::{HostCall, Lookup, Missing};
use headroom_core::quota;
use headroom_core::request::Pod;
use headroom_core::request::{Requirement, Role, ValueOrigin};
use headroom_core::verdict::{self, Cause, Decision, Violation};
use serde::Serialize;
use serde_json::Value;

use super::bounds::CheckedBound;
use headroom_objects::kinds::{ApiKind, metadata};

/// The evaluation of one object.
#[derive(Debug, Clone)]
pub struct Evaluation {
    pub kind: ApiKind,
    /// Empty for kinds that live in none.
    pub namespace: String,
    /// Its own name, or what its name is to be generated from.
    pub name: String,
    pub operation: Operation,
    /// The request that was evaluated, as the API server would send it.
    pub request: Value,
    /// The host calls for it, in order.
    pub exchanges: Vec<Exchange>,
    pub verdict: Verdict,
    /// The reasons for a refusal, or for not evaluating it, in the policy's words; each stands alone.
    pub reasons: Vec<RejectionReason>,
    pub warnings: Vec<ObjectWarning>,
    /// The estimates that no warning shows in full, whether set or only reported.
    pub estimates: Vec<String>,
    /// The object as it would be stored, if it is changed.
    pub changed: Option<Value>,
    /// The same of an object that is refused: the API server validates it with its defaults, before any bound is checked.
    pub(super) refused_as: Option<Value>,
    /// The pod's values after the evaluation, and who set each; none if the pod would not be touched.
    pub pod: Option<Vec<ContainerValues>>,
    /// The bounds that the pod was checked against.
    pub checked_bounds: Vec<CheckedBound>,
    /// The object's charges to quotas.
    pub charges: Vec<ObjectCharge>,
    /// The most that the pods of a workload add to quotas.
    pub pod_charges: Vec<ObjectCharge>,
    /// The charges of one claim that is made for each pod, and for how many pods they fit.
    pub(super) claims: Vec<(ObjectCharge, u64)>,
    /// The requests for workloads that say which pods are still to be created.
    pub(super) rollouts: Vec<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    /// The object is there already.
    Update,
}

/// The verdicts, from harmless to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing that Headroom knows bounds such an object.
    #[serde(rename = "not checked")]
    NotChecked,
    Admitted,
    /// Admitted, with values filled in.
    Changed,
    /// The object is stored, but not all of its pods can be created.
    #[serde(rename = "pods blocked")]
    PodsBlocked,
    Rejected,
    /// The API server's validation does not accept the object.
    Invalid,
    /// The object cannot be evaluated, because something else could not be read.
    Error,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Self::NotChecked => "not checked",
            Self::Admitted => "admitted",
            Self::Changed => "changed",
            Self::PodsBlocked => "pods blocked",
            Self::Rejected => "rejected",
            Self::Invalid => "invalid",
            Self::Error => "error",
        }
    }
}

/// One reason why an object is not admitted. It displays as one line, for a person without access to the policy server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectionReason {
    pub topic: Topic,
    /// The refusal in the policy's words, and each piece of advice on it.
    parts: Vec<String>,
    /// The failed read, without the policy's guesses at what may be wrong with its own installation.
    problem: Option<String>,
    /// True if all it takes is more room in a quota.
    pub(super) lacks_room: bool,
}

/// A warning. It displays as one line, for a person without access to the policy server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectWarning {
    /// In the policy's words, as long as the API server passes on.
    pub text: String,
    /// The container, resource or quota concerned, whatever the words: `container web: cpu`, `quota team`; empty for the
    /// object as a whole.
    pub about: String,
    /// The failed read, without the policy's guesses at what may be wrong with its own installation.
    problem: Option<String>,
    /// The topic of the reason why pods of the object cannot be created.
    pub blocks_pods: Option<Topic>,
}

/// The topic of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// A LimitRange or a rule of the settings.
    Limits,
    Quota,
    /// The API server does not accept the object.
    Invalid,
    /// An object of the cluster could not be read.
    MissingContext,
}

/// A call to the host, and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    pub call: Call,
    pub answer: Result<String, String>,
}

/// A `HostCall` that owns its texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub api_version: String,
    pub kind: String,
    pub namespace: Option<String>,
    /// None for all objects.
    pub name: Option<String>,
    pub field_masks: Vec<String>,
    pub is_live: bool,
}

/// The charge of an object to one quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectCharge {
    pub quota: String,
    /// True for a TenantQuota.
    pub is_tenant: bool,
    pub added: Vec<ChargedAmount>,
}

/// The amount under one name of a quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChargedAmount {
    pub name: String,
    /// The level that it meets.
    pub before: String,
    pub added: String,
    /// The level afterwards.
    pub used: String,
    pub hard: String,
    /// The rest of the bound afterwards, negative where it is exceeded.
    pub left: String,
}

/// The values of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerValues {
    pub name: String,
    pub image: String,
    pub role: Role,
    pub values: Vec<ResourceValue>,
}

/// A request or limit, and who set it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceValue {
    pub requirement: Requirement,
    pub resource: String,
    pub quantity: String,
    pub set_by: SetBy,
    /// `default of LimitRange limits`
    pub reason: String,
    /// True if it was decided now.
    pub is_new: bool,
    /// The usage that an estimate is made from, in rising order.
    pub usage: Vec<Measured>,
}

/// A percentile of a UsageProfile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Measured {
    /// `p95`, `peak`
    pub at: String,
    pub amount: String,
}

/// The origin of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetBy {
    Author,
    /// The API server, which copies an author's limit into the missing request.
    AuthorsLimit,
    LimitRanger,
    /// The policy, when it evaluated the object before.
    Earlier,
    Estimate,
    Default,
    Repaired,
}

impl Evaluation {
    /// An evaluation that has yet to be made.
    pub(super) fn of(request: Value) -> Self {
        let text = |field: &str| request.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let object = request.get("object").unwrap_or(&Value::Null);
        let part = |place: &str| request.pointer(place).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (group, version, kind) = (part("/kind/group"), part("/kind/version"), part("/kind/kind"));
        let plural = part("/resource/resource");
        let namespace = text("namespace");
        let name = [text("name"), metadata(object, "name").to_owned(), metadata(object, "generateName").to_owned()]
            .into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or_default();
        Self {
            kind: ApiKind { group, version, kind, plural, is_namespaced: !namespace.is_empty() },
            namespace,
            name,
            operation: if text("operation") == "UPDATE" { Operation::Update } else { Operation::Create },
            request,
            exchanges: Vec::new(),
            verdict: Verdict::Admitted,
            reasons: Vec::new(),
            warnings: Vec::new(),
            estimates: Vec::new(),
            changed: None,
            refused_as: None,
            pod: None,
            checked_bounds: Vec::new(),
            charges: Vec::new(),
            pod_charges: Vec::new(),
            rollouts: Vec::new(),
            claims: Vec::new(),
        }
    }

    pub(super) fn take(&mut self, decision: &Decision<'_>, changed: Option<Value>) {
        self.reasons = decision.violations.iter().map(RejectionReason::of).collect();
        let makes_pods = headroom_workloads::pod_of(self.request.get("object").unwrap_or(&Value::Null)).is_some();
        self.warnings =
            decision.warnings.iter().map(|warning| ObjectWarning::of(warning, decision, makes_pods)).collect();
        self.verdict = if changed.is_some() { Verdict::Changed } else { Verdict::Admitted };
        self.decide();
        self.estimates = decision.estimates_beside_warnings().map(str::to_owned).collect();
        self.changed = changed;
        self.pod = decision.pod.as_ref().map(values_of);
        self.charges = decision.charges.iter().map(ObjectCharge::of).collect();
        self.pod_charges = decision.pod_charges.iter().map(ObjectCharge::of).collect();
    }

    /// The verdict that follows from reasons and warnings.
    pub(super) fn decide(&mut self) {
        let is_topic = |topic| self.reasons.iter().any(|reason| reason.topic == topic);
        self.verdict = match () {
            () if is_topic(Topic::Invalid) => Verdict::Invalid,
            () if is_topic(Topic::Limits) || is_topic(Topic::Quota) => Verdict::Rejected,
            () if is_topic(Topic::MissingContext) => Verdict::Error,
            () => match self.warnings.iter().filter_map(|warning| warning.blocks_pods).min() {
                None => return,
                Some(Topic::MissingContext) => Verdict::Error,
                Some(_) => Verdict::PodsBlocked,
            },
        };
    }

    /// Drops what would follow from storing the object, for one that the API server does not store.
    pub(super) fn forget_outcome(&mut self) {
        self.warnings.clear();
        self.estimates.clear();
        self.changed = None;
        self.pod = None;
        self.checked_bounds.clear();
        self.charges.clear();
        self.pod_charges.clear();
        self.rollouts.clear();
        self.claims.clear();
    }

    /// The object's name as kubectl prints it: `deployment.apps/web`.
    pub fn object_name(&self) -> String {
        self.kind.object_name(&self.name)
    }

    pub fn is_admitted(&self) -> bool {
        self.verdict <= Verdict::PodsBlocked
    }

    /// The whole refusal as the policy words it.
    pub fn message(&self) -> String {
        self.reasons.iter().map(RejectionReason::text).collect::<Vec<_>>().join("; ")
    }

    /// The object as it would be stored.
    pub fn outcome(&self) -> &Value {
        self.changed.as_ref().or_else(|| self.request.get("object")).unwrap_or(&Value::Null)
    }
}

impl RejectionReason {
    pub fn new(topic: Topic, parts: Vec<String>) -> Self {
        Self { topic, parts, problem: None, lacks_room: topic == Topic::Quota }
    }

    /// A read that failed.
    pub fn missing_context(problem: String) -> Self {
        Self { topic: Topic::MissingContext, parts: vec![problem.clone()], problem: Some(problem), lacks_room: false }
    }

    fn of(violation: &Violation<'_>) -> Self {
        let (topic, problem) = match violation {
            Violation::Unreadable(_) => (Topic::Invalid, None),
            Violation::MissingContext(missing) => (Topic::MissingContext, Some(missing.problem.clone())),
            Violation::Limits { .. } => (Topic::Limits, None),
            Violation::Quotas { .. } => (Topic::Quota, None),
        };
        let is_excess = |breach: &quota::Breach<'_>| matches!(breach.fault, quota::QuotaFault::Exceeded { .. });
        let lacks_room = matches!(violation, Violation::Quotas { breaches, .. } if breaches.iter().all(is_excess));
        Self { topic, parts: violation.parts(), problem, lacks_room }
    }

    /// The reason in the policy's words.
    pub fn text(&self) -> String {
        self.parts.join("; ")
    }

    /// The reason and each piece of advice on it, for a person without access to the policy server.
    pub fn lines(&self) -> Vec<&str> {
        const ADVICE: &str = "not evaluated without it: if permission is missing, bind the ClusterRole headroom-reader; or pass --cluster-dir";
        match &self.problem {
            Some(problem) => vec![problem, ADVICE],
            None => self.parts.iter().map(String::as_str).collect(),
        }
    }
}

impl fmt::Display for RejectionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines().join("; "))
    }
}

impl ObjectWarning {
    fn of(warning: &verdict::ReviewWarning<'_>, decision: &Decision<'_>, makes_pods: bool) -> Self {
        let about = match &warning.cause {
            Cause::MissingContext(missing) => missing.lookup.call().kind.to_owned(),
            Cause::Quota(breach) => format!("quota {}", breach.quota.as_deref().unwrap_or_default()),
            Cause::Estimate(index) => {
                let estimate = decision.estimates.get(*index);
                estimate.map(|of| format!("container {}: {}", of.container, of.resource.name())).unwrap_or_default()
            }
            Cause::Limits | Cause::Note | Cause::Omitted => String::new(),
        };
        let (problem, topic) = match &warning.cause {
            Cause::MissingContext(missing) => {
                (Some(missing.problem.clone()), is_needed(missing).then_some(Topic::MissingContext))
            }
            Cause::Limits => (None, Some(Topic::Limits)),
            Cause::Quota(breach) => (None, (!breach.only_slows()).then_some(Topic::Quota)),
            Cause::Estimate(_) | Cause::Note | Cause::Omitted => (None, None),
        };
        Self { text: warning.text.clone(), about, problem, blocks_pods: topic.filter(|_| makes_pods) }
    }

    /// True if it is about a value that an estimate sets, or would.
    pub(super) fn is_about_estimate(&self) -> bool {
        self.about.starts_with("container ")
    }

    /// A warning that some pods of an object cannot be created.
    pub(super) fn blocking(topic: Topic, text: String) -> Self {
        Self { text, about: String::new(), problem: None, blocks_pods: Some(topic) }
    }
}

/// True if nothing can be said of pods without it.
fn is_needed(missing: &Missing<'_>) -> bool {
    matches!(missing.lookup, Lookup::LimitRanges { .. } | Lookup::Quotas { .. } | Lookup::Scaled { .. })
}

impl From<String> for ObjectWarning {
    fn from(text: String) -> Self {
        Self { text, about: String::new(), problem: None, blocks_pods: None }
    }
}

impl fmt::Display for ObjectWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Some(problem) => write!(f, "{problem}; evaluated without it"),
            None => f.write_str(&self.text),
        }
    }
}

impl Exchange {
    pub(super) fn new(call: &HostCall<'_>, answer: &Result<Vec<u8>, String>) -> Self {
        let answer = answer.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).map_err(Clone::clone);
        Self {
            call: Call {
                api_version: call.api_version.to_owned(),
                kind: call.kind.to_owned(),
                namespace: call.namespace.map(str::to_owned),
                name: call.name.as_ref().map(ToString::to_string),
                field_masks: call.field_masks.iter().map(ToString::to_string).collect(),
                is_live: call.is_live,
            },
            answer,
        }
    }
}

impl ObjectCharge {
    /// The charge for so many of the same.
    pub(super) fn times_count(&self, count: u64) -> Self {
        let mut all = self.clone();
        for amount in &mut all.added {
            let read = |text: &str| text.parse::<Quantity>();
            // OK because they are amounts that the core has written.
            if let (Ok(added), Ok(before), Ok(hard)) = (read(&amount.added), read(&amount.before), read(&amount.hard)) {
                let added = added.times_count(count);
                let used = before.plus(&added);
                amount.left = hard.minus(&used).to_string();
                (amount.added, amount.used) = (added.to_string(), used.to_string());
            }
        }
        all
    }

    pub(super) fn of(charge: &quota::QuotaCharge<'_>) -> Self {
        let amount = |added: &quota::Added<'_>| ChargedAmount {
            name: added.name.to_string(),
            before: added.used.minus(&added.amount).to_string(),
            added: added.amount.to_string(),
            used: added.used.to_string(),
            left: added.hard.minus(&added.used).to_string(),
            hard: added.hard.to_string(),
        };
        Self {
            quota: charge.quota.to_string(),
            is_tenant: charge.is_tenant,
            added: charge.added.iter().map(amount).collect(),
        }
    }
}

fn values_of(pod: &Pod<'_>) -> Vec<ContainerValues> {
    let mut containers = Vec::new();
    for container in &pod.containers {
        let mut values = Vec::new();
        for requirement in [Requirement::Request, Requirement::Limit] {
            for (resource, value) in container.resources.of(requirement).iter() {
                values.push(ResourceValue {
                    requirement,
                    resource: resource.to_string(),
                    quantity: value.quantity.to_string(),
                    set_by: SetBy::of(&value.origin),
                    reason: value.origin.to_string(),
                    is_new: value.origin.is_new(),
                    usage: Vec::new(),
                });
            }
        }
        let (name, image) = (container.name.to_string(), container.image.to_string());
        containers.push(ContainerValues { name, image, role: container.role, values });
    }
    containers
}

impl SetBy {
    fn of(origin: &ValueOrigin<'_>) -> Self {
        match origin {
            ValueOrigin::Author => Self::Author,
            ValueOrigin::AuthorsLimit => Self::AuthorsLimit,
            ValueOrigin::LimitRanger => Self::LimitRanger,
            ValueOrigin::Earlier(_) => Self::Earlier,
            ValueOrigin::Estimate(_) => Self::Estimate,
            ValueOrigin::Default(_) => Self::Default,
            ValueOrigin::Repaired(_) => Self::Repaired,
        }
    }
}
