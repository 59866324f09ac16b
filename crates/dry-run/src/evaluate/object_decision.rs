//! The decision on one object as owned data, with everything that a command may print.

use std::fmt;

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::lookup::Lookup;
use headroom_admission::quota;
use headroom_admission::request::{Pod, Requirement, Role, ValueOrigin};
use headroom_admission::verdict::{self, Cause, Decision, Violation};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::bounds::{CheckedBound, Edge};
use super::session::Exchange;
use headroom_objects::kinds::{ApiKind, items, text};

/// The decision on one object. As JSON it is what `check` and `why` print, and what the page shows.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ObjectDecision {
    /// As kubectl prints its name: `deployment.apps/web`.
    pub object: String,
    #[serde(flatten, serialize_with = "kind_fields")]
    #[cfg_attr(not(target_arch = "wasm32"), schemars(skip))]
    pub kind: ApiKind,
    /// Empty for kinds that live in none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its own name, or what its name is to be generated from.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    pub operation: Operation,
    pub verdict: Verdict,
    /// The reasons for a refusal, or for not evaluating it; each stands alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<RejectionReason>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<ObjectWarning>,
    /// The estimates that no warning shows in full, whether set or only reported.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub estimates: Vec<String>,
    /// The containers are those of the pods that the object makes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_of_pods: bool,
    /// The pod's values after the evaluation, and who set each; none if the pod would not be touched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<ContainerValues>,
    /// Bounds of the pod in total, or of a claim.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub in_all: Vec<CheckedBound>,
    /// The object's charges to quotas.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub charges: Vec<ObjectCharge>,
    /// The most that the pods of a workload add to quotas.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pod_charges: Vec<ObjectCharge>,
    /// The request that was evaluated, as the API server would send it.
    #[serde(skip)]
    pub request: Value,
    /// The host calls for it, in order.
    #[serde(skip)]
    pub exchanges: Vec<Exchange>,
    /// The object as it would be stored, if it is changed.
    #[serde(skip)]
    pub changed: Option<Value>,
    /// The same of an object that is refused: the API server validates it with its defaults, before any bound is checked.
    #[serde(skip)]
    pub(super) refused_as: Option<Value>,
    /// The charges of one claim that is made for each pod, and for how many pods they fit.
    #[serde(skip)]
    pub(super) claims: Vec<(ObjectCharge, u64)>,
    /// The requests for workloads that say which pods are still to be created.
    #[serde(skip)]
    pub(super) rollouts: Vec<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    #[default]
    Create,
    /// The object is there already.
    Update,
}

/// The verdicts, from harmless to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing that Headroom knows bounds such an object.
    #[default]
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

/// As in JSON.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// One reason why an object is not admitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct RejectionReason {
    pub topic: Topic,
    /// For a person without access to the policy server.
    #[serde(rename = "message", serialize_with = "joined")]
    #[cfg_attr(not(target_arch = "wasm32"), schemars(with = "String"))]
    pub lines: Vec<String>,
    /// The refusal in the policy's words, and each piece of advice on it, where these differ.
    #[serde(skip)]
    of_policy: Option<Vec<String>>,
    /// True if all it takes is more room in a quota.
    #[serde(skip)]
    pub(super) lacks_room: bool,
}

/// A warning. It displays as its message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ObjectWarning {
    /// For a person without access to the policy server.
    #[serde(rename = "message")]
    pub text: String,
    /// The container, resource or quota concerned, whatever the words: `container web: cpu`, `quota team`; empty for the
    /// object as a whole.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// The topic of the reason why pods of the object cannot be created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks_pods: Option<Topic>,
}

/// The topic of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Topic {
    /// A LimitRange or a rule of the settings.
    Limits,
    Quota,
    /// The API server does not accept the object.
    Invalid,
    /// An object of the cluster could not be read.
    MissingContext,
}

/// As in JSON.
impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The charge of an object to one quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ObjectCharge {
    pub quota: String,
    /// True for a TenantQuota.
    pub is_tenant: bool,
    pub added: Vec<ChargedAmount>,
}

/// The amount under one name of a quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct ContainerValues {
    pub name: String,
    #[serde(serialize_with = "role_name")]
    #[cfg_attr(not(target_arch = "wasm32"), schemars(with = "String"))]
    pub role: Role,
    pub image: String,
    /// Requests before limits, each by name; CPU and memory also where they are unset.
    pub values: Vec<ResourceValue>,
}

/// A request or limit and who set it, or that there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResourceValue {
    #[serde(skip)]
    pub requirement: Requirement,
    #[serde(skip)]
    pub resource: String,
    /// `requests.cpu`
    pub field: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// `authored`, `estimated`, `defaulted`, `repaired`, …
    #[serde(rename = "step", serialize_with = "step_name")]
    #[cfg_attr(not(target_arch = "wasm32"), schemars(with = "String"))]
    pub set_by: SetBy,
    /// `default of LimitRange limits`
    pub reason: String,
    /// It was decided now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_new: bool,
    /// The usage that an estimate is made from, in rising order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub usage: Vec<Measured>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckedBound>,
}

/// A percentile of a UsageProfile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Measured {
    /// `p95`, `peak`
    pub at: String,
    pub amount: String,
}

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
    Unset,
}

/// Resources that are shown even if they are unset.
const EXPECTED: [&str; 2] = ["cpu", "memory"];
/// The reason for a value that the manifest does not have, and the object that is there keeps.
const KEPT: &str = "set in the live object";

/// As an object begins; nothing for a document that has no kind.
fn kind_fields<S: Serializer>(kind: &ApiKind, serializer: S) -> Result<S::Ok, S::Error> {
    let fields = [("apiVersion", kind.api_version()), ("kind", kind.kind.clone())];
    serializer.collect_map(fields.into_iter().filter(|_| !kind.kind.is_empty()))
}

fn joined<S: Serializer>(lines: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&lines.join("; "))
}

fn role_name<S: Serializer>(role: &Role, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(role.name())
}

fn step_name<S: Serializer>(set_by: &SetBy, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(set_by.step())
}

impl ObjectDecision {
    /// An evaluation that has yet to be made.
    pub(super) fn of(request: Value) -> Self {
        let part = |place: &str| text(&request, place).to_owned();
        let [group, version, kind] = ["/kind/group", "/kind/version", "/kind/kind"].map(part);
        let (plural, namespace) = (part("/resource/resource"), part("/namespace"));
        let names = ["/name", "/object/metadata/name", "/object/metadata/generateName"].map(part);
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        let kind = ApiKind { group, version, kind, plural, is_namespaced: !namespace.is_empty() };
        Self {
            object: kind.object_name(&name),
            kind,
            namespace,
            name,
            operation: if part("/operation") == "UPDATE" { Operation::Update } else { Operation::Create },
            verdict: Verdict::Admitted,
            request,
            ..Self::default()
        }
    }

    /// The decision that a document cannot be read.
    pub fn unreadable(object: String, problem: String) -> Self {
        let reasons = vec![RejectionReason::new(Topic::Invalid, vec![problem])];
        Self { object, verdict: Verdict::Error, reasons, ..Self::of(Value::Null) }
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
        self.containers = decision.pod.as_ref().map(values_of).unwrap_or_default();
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
    pub fn forget_outcome(&mut self) {
        self.warnings.clear();
        self.estimates.clear();
        self.changed = None;
        self.containers.clear();
        self.in_all.clear();
        self.charges.clear();
        self.pod_charges.clear();
        self.rollouts.clear();
        self.claims.clear();
    }

    /// Sorts the bounds that the object was checked against to the values that they are about.
    pub(super) fn add_bounds(&mut self, bounds: Vec<(Option<String>, CheckedBound)>) {
        for (container, bound) in bounds {
            let Some(name) = container else {
                self.in_all.push(bound);
                continue;
            };
            // A minimum bounds the request; a maximum and a ratio bound the limit.
            let bounded = if bound.edge == Edge::Min { Requirement::Request } else { Requirement::Limit };
            let containers = self.containers.iter_mut().filter(|container| container.name == name);
            let mut values = containers.flat_map(|container| &mut container.values);
            if let Some(value) = values.find(|value| value.requirement == bounded && value.resource == bound.resource) {
                value.checks.push(bound);
            }
        }
    }

    /// The same with the values of a pod that the object makes, if there is one, and what of them the manifest does not have.
    pub fn explained(mut self, pod: Option<Self>, manifest: &Value) -> Self {
        let mut written = None;
        if let Some(pod) = pod {
            written = headroom_workloads::pod_of(manifest).or_else(|| pod.request.get("object").cloned());
            (self.is_of_pods, self.containers, self.in_all) = (true, pod.containers, pod.in_all);
        }
        let written = written.as_ref().unwrap_or(manifest);
        for container in &mut self.containers {
            let ContainerValues { name, role, values, .. } = container;
            let is_written = |requirement, resource: &str| is_written(written, (name, *role), requirement, resource);
            for value in values.iter_mut().filter(|value| value.set_by == SetBy::Author) {
                if is_written(value.requirement, &value.resource) {
                    continue;
                }
                value.reason = KEPT.to_owned();
                if value.requirement == Requirement::Request && is_written(Requirement::Limit, &value.resource) {
                    (value.set_by, value.reason) = (SetBy::AuthorsLimit, ValueOrigin::AuthorsLimit.to_string());
                }
            }
        }
        self
    }

    /// The values that are filled in, each with its container, if the object is changed.
    pub fn changes(&self) -> impl Iterator<Item = (String, &ResourceValue)> {
        let containers = self.containers.iter().filter(|_| self.changed.is_some());
        containers.flat_map(|container| {
            container.values.iter().filter(|value| value.is_new).map(|value| (container.title(), value))
        })
    }

    /// The amounts that are charged for the object and its pods, each with its quota.
    pub fn charged(&self) -> impl Iterator<Item = (&ObjectCharge, &ChargedAmount)> {
        let charges = self.charges.iter().chain(&self.pod_charges);
        charges.flat_map(|charge| charge.added.iter().map(move |amount| (charge, amount)))
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
    pub fn new(topic: Topic, lines: Vec<String>) -> Self {
        Self { topic, lines, of_policy: None, lacks_room: topic == Topic::Quota }
    }

    pub fn missing_context(problem: String) -> Self {
        const ADVICE: &str = "not evaluated without it: if permission is missing, bind the ClusterRole headroom-reader; or pass --cluster-dir";
        let lines = vec![problem.clone(), ADVICE.to_owned()];
        Self { topic: Topic::MissingContext, lines, of_policy: Some(vec![problem]), lacks_room: false }
    }

    fn of(violation: &Violation<'_>) -> Self {
        let topic = match violation {
            Violation::Unreadable(_) => Topic::Invalid,
            Violation::MissingContext(missing) => {
                let reason = Self::missing_context(missing.problem.clone());
                return Self { of_policy: Some(violation.parts()), ..reason };
            }
            Violation::Limits { .. } => Topic::Limits,
            Violation::Quotas { .. } => Topic::Quota,
        };
        let is_excess = |breach: &quota::Breach<'_>| matches!(breach.fault, quota::QuotaFault::Exceeded { .. });
        let lacks_room = matches!(violation, Violation::Quotas { breaches, .. } if breaches.iter().all(is_excess));
        Self { lacks_room, ..Self::new(topic, violation.parts()) }
    }

    /// The reason in the policy's words.
    pub fn text(&self) -> String {
        self.of_policy.as_ref().unwrap_or(&self.lines).join("; ")
    }
}

impl fmt::Display for RejectionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines.join("; "))
    }
}

impl ObjectWarning {
    fn of(warning: &verdict::ReviewWarning<'_>, decision: &Decision<'_>, makes_pods: bool) -> Self {
        let mut text = warning.text.clone();
        let (about, topic) = match &warning.cause {
            Cause::MissingContext(missing) => {
                // Without the policy's guesses at what may be wrong with its own installation.
                text = format!("{}; evaluated without it", missing.problem);
                // Without these, nothing can be said of pods.
                let is_needed = matches!(
                    missing.lookup,
                    Lookup::LimitRanges { .. } | Lookup::Quotas { .. } | Lookup::Scaled { .. }
                );
                (missing.lookup.call().kind.to_owned(), is_needed.then_some(Topic::MissingContext))
            }
            Cause::Limits => (String::new(), Some(Topic::Limits)),
            Cause::Quota(breach) => {
                let quota = breach.quota.as_deref().unwrap_or_default();
                (format!("quota {quota}"), (!breach.only_slows()).then_some(Topic::Quota))
            }
            Cause::Estimate(index) => {
                let estimate = decision.estimates.get(*index);
                let about = estimate.map(|of| format!("container {}: {}", of.container, of.resource.name()));
                (about.unwrap_or_default(), None)
            }
            Cause::Note | Cause::Omitted => (String::new(), None),
        };
        Self { text, about, blocks_pods: topic.filter(|_| makes_pods) }
    }

    /// A warning that some pods of an object cannot be created.
    pub(super) fn blocking(topic: Topic, text: String) -> Self {
        Self { blocks_pods: Some(topic), ..text.into() }
    }

    /// True if it tells a request that is estimated for a container.
    pub fn is_of_estimate(&self) -> bool {
        self.about.starts_with("container ")
    }
}

impl From<String> for ObjectWarning {
    fn from(text: String) -> Self {
        Self { text, about: String::new(), blocks_pods: None }
    }
}

impl fmt::Display for ObjectWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl ObjectCharge {
    /// The charge for so many of the same.
    pub(super) fn times_count(&self, count: u64) -> Self {
        let mut all = self.clone();
        for amount in &mut all.added {
            let added = parsed(&amount.added).times_count(count);
            let used = parsed(&amount.before).plus(&added);
            amount.left = parsed(&amount.hard).minus(&used).to_string();
            (amount.added, amount.used) = (added.to_string(), used.to_string());
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

/// An amount that the core has written.
pub(super) fn parsed(amount: &str) -> Quantity {
    amount.parse().unwrap_or(Quantity::ZERO)
}

fn values_of(pod: &Pod<'_>) -> Vec<ContainerValues> {
    let containers = pod.containers.iter().map(|container| {
        let mut values = Vec::new();
        for requirement in [Requirement::Request, Requirement::Limit] {
            let list = container.resources.of(requirement);
            let new = |resource: &str, value: Option<String>, set_by, reason, is_new| ResourceValue {
                requirement,
                resource: resource.to_owned(),
                field: format!("{}.{resource}", requirement.field()),
                value,
                set_by,
                reason,
                is_new,
                usage: Vec::new(),
                checks: Vec::new(),
            };
            let set = list.iter().map(|(resource, value)| {
                let origin = &value.origin;
                let amount = Some(value.quantity.to_string());
                new(resource, amount, SetBy::of(origin), origin.to_string(), origin.is_new())
            });
            let unset = EXPECTED.into_iter().filter(|name| list.iter().all(|(resource, _)| resource != name));
            let unset = unset.map(|name| new(name, None, SetBy::Unset, "unset".to_owned(), false));
            values.extend(set.chain(unset));
        }
        values.sort_by(|a, b| {
            (a.requirement == Requirement::Limit, &a.field).cmp(&(b.requirement == Requirement::Limit, &b.field))
        });
        let (name, image) = (container.name.to_string(), container.image.to_string());
        ContainerValues { name, image, role: container.role, values }
    });
    containers.collect()
}

/// True if the object has the value as its author wrote it, and not only as the API server completed it; true for a
/// container that the author did not write, which is there already.
fn is_written(object: &Value, (name, role): (&str, Role), requirement: Requirement, resource: &str) -> bool {
    let list = if role == Role::Main { "/spec/containers" } else { "/spec/initContainers" };
    let mut same = items(object, list).filter(|have| have.get("name").and_then(Value::as_str) == Some(name));
    let Some(container) = same.next() else { return true };
    let resources = container.get("resources");
    resources.and_then(|resources| resources.get(requirement.field())?.get(resource)).is_some()
}

impl ContainerValues {
    /// `container web`, or `init container setup`
    pub fn title(&self) -> String {
        format!("{} {}", self.role.noun(), self.name)
    }
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

    /// The step of admission that set the value, as the output names it.
    pub fn step(self) -> &'static str {
        match self {
            Self::Author => "authored",
            Self::AuthorsLimit => "copied",
            Self::LimitRanger | Self::Default => "defaulted",
            Self::Earlier => "set before",
            Self::Estimate => "estimated",
            Self::Repaired => "repaired",
            Self::Unset => "unset",
        }
    }
}
