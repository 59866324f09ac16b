//! What was decided about one object, as owned data: everything that a command may want to tell.

use headroom_core::Context;
use headroom_core::cluster::lookup::{HostCall, Missing};
use headroom_core::quota;
use headroom_core::request::Pod;
use headroom_core::request::{Origin, Requirement, Role};
use headroom_core::verdict::{Decision, Violation};
use serde_json::Value;

use super::bounds::HeldAgainst;
use crate::kinds::{ApiKind, metadata};

/// The judgement of one object.
#[derive(Debug, Clone)]
pub struct Judgement {
    pub kind: ApiKind,
    /// Empty for kinds that live in none.
    pub namespace: String,
    /// Its own name, or what its name is to be generated from.
    pub name: String,
    pub operation: Operation,
    /// The request that was judged, as the API server would send it.
    pub request: Value,
    /// What was read for it, in order.
    pub exchanges: Vec<Exchange>,
    pub verdict: Verdict,
    /// Why it is refused or cannot be judged, in the policy's words; each stands alone.
    pub reasons: Vec<Reason>,
    /// In the policy's words.
    pub warnings: Vec<String>,
    /// What could not be read, in the policy's words and in short.
    missing: Vec<(String, String)>,
    /// Every estimate in words, whether set or only told.
    pub estimates: Vec<String>,
    /// The object as it would be stored, if it is changed.
    pub changed: Option<Value>,
    /// The pod's values after the judgement, and who set each; none if the pod would not be touched.
    pub pod: Option<Vec<ContainerValues>>,
    /// The bounds that the pod was held against.
    pub held_against: Vec<HeldAgainst>,
    /// What the object adds to quotas.
    pub charges: Vec<Charge>,
    /// The most that the pods of a workload add to quotas.
    pub pod_charges: Vec<Charge>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    /// The object is there already.
    Update,
}

/// In the order of how much they concern people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Admitted,
    /// Admitted, with values filled in.
    Changed,
    Refused,
    /// What the judgement needs could not be read.
    NotJudged,
}

impl Verdict {
    pub fn told(self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Changed => "changed",
            Self::Refused => "refused",
            Self::NotJudged => "not judged",
        }
    }
}

/// One thing that speaks against an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    pub topic: Topic,
    /// In the policy's words.
    pub text: String,
    /// Of what could not be read: why, without the policy's guesses at what may be wrong with its own installation.
    pub cause: Option<String>,
}

/// What a reason is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// A LimitRange or a rule of the settings.
    Limits,
    Quota,
    /// The object is not what its kind should be.
    Unreadable,
    /// What surrounds the object could not be read.
    MissingContext,
}

/// A call to the host, and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    pub call: Call,
    pub answer: Result<String, String>,
}

/// As `HostCall`, owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub api_version: String,
    pub kind: String,
    pub namespace: Option<String>,
    /// None for a list.
    pub name: Option<String>,
    pub field_masks: Vec<String>,
    pub disable_cache: bool,
}

/// What an object adds to one quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    pub quota: String,
    /// Whether it is a TenantQuota.
    pub is_tenant: bool,
    pub added: Vec<Amount>,
}

/// What is added under one name of a quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amount {
    pub name: String,
    /// The level that it meets.
    pub before: String,
    pub added: String,
    /// The level afterwards.
    pub used: String,
    pub hard: String,
    /// What is left of the bound afterwards, less than nothing where it is exceeded.
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
    /// Whether it was decided now.
    pub is_new: bool,
}

/// Who set a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetBy {
    Author,
    /// The API server, which copies an author's limit into the missing request.
    AuthorsLimit,
    LimitRanger,
    /// The policy, when it judged the object before.
    Earlier,
    Estimate,
    Default,
    Repaired,
}

impl Judgement {
    /// A judgement that has yet to be made.
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
            missing: Vec::new(),
            estimates: Vec::new(),
            changed: None,
            pod: None,
            held_against: Vec::new(),
            charges: Vec::new(),
            pod_charges: Vec::new(),
        }
    }

    pub(super) fn take(&mut self, decision: &Decision<'_>, context: &Context<'_>, changed: Option<Value>) {
        self.reasons = decision.violations.iter().map(Reason::of).collect();
        self.verdict = match self.reasons.iter().map(|reason| reason.topic).min() {
            None if changed.is_some() => Verdict::Changed,
            None => Verdict::Admitted,
            // Nothing speaks against the object but that we do not know enough.
            Some(Topic::MissingContext) => Verdict::NotJudged,
            Some(_) => Verdict::Refused,
        };
        self.warnings = decision.warnings.clone();
        let worded = |missing: &Missing<'_>| (missing.warning(), missing.problem.clone());
        self.missing = context.missing.iter().map(worded).collect();
        self.estimates =
            decision.estimates.iter().map(|told| told.full.as_ref().unwrap_or(&told.text).clone()).collect();
        self.changed = changed;
        self.pod = decision.pod.as_ref().map(values_of);
        self.charges = decision.charges.iter().map(Charge::of).collect();
        self.pod_charges = decision.pod_charges.iter().map(Charge::of).collect();
    }

    /// How kubectl names the object: `deployment.apps/web`.
    pub fn told(&self) -> String {
        self.kind.told(&self.name)
    }

    pub fn is_admitted(&self) -> bool {
        matches!(self.verdict, Verdict::Admitted | Verdict::Changed)
    }

    /// The whole refusal as the policy words it.
    pub fn message(&self) -> String {
        self.reasons.iter().map(|reason| reason.text.as_str()).collect::<Vec<_>>().join("; ")
    }

    /// The warnings for a person at the desk, who is not helped by guesses at what may be wrong with the policy's
    /// installation.
    pub fn told_warnings(&self) -> Vec<String> {
        let told = |warning: &String| {
            // The policy cuts long ones.
            let begins = warning.trim_end_matches('…');
            match self.missing.iter().find(|(text, _)| text.starts_with(begins)) {
                Some((_, problem)) => format!("{problem}; judged without it"),
                None => warning.clone(),
            }
        };
        self.warnings.iter().map(told).collect()
    }

    /// The object as it would be stored.
    pub fn outcome(&self) -> &Value {
        self.changed.as_ref().or_else(|| self.request.get("object")).unwrap_or(&Value::Null)
    }
}

impl Reason {
    fn of(violation: &Violation<'_>) -> Self {
        let topic = match violation {
            Violation::Unreadable(_) => Topic::Unreadable,
            Violation::MissingContext(_) => Topic::MissingContext,
            Violation::Limits { .. } => Topic::Limits,
            Violation::Quotas { .. } => Topic::Quota,
        };
        let cause = match violation {
            Violation::MissingContext(missing) => Some(missing.problem.clone()),
            _ => None,
        };
        Self { topic, text: violation.to_string(), cause }
    }

    /// For a person at the desk.
    pub fn told(&self) -> String {
        match &self.cause {
            Some(cause) => {
                format!(
                    "{cause}; not judged without it: ask for permission to read it, or provide it with --cluster-dir"
                )
            }
            None => self.text.clone(),
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
                disable_cache: call.disable_cache,
            },
            answer,
        }
    }
}

impl Charge {
    pub(super) fn of(charge: &quota::Charge<'_>) -> Self {
        let amount = |added: &quota::Added<'_>| Amount {
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
                });
            }
        }
        let (name, image) = (container.name.to_string(), container.image.to_string());
        containers.push(ContainerValues { name, image, role: container.role, values });
    }
    containers
}

impl SetBy {
    fn of(origin: &Origin<'_>) -> Self {
        match origin {
            Origin::Author => Self::Author,
            Origin::AuthorsLimit => Self::AuthorsLimit,
            Origin::LimitRanger => Self::LimitRanger,
            Origin::Earlier(_) => Self::Earlier,
            Origin::Estimate(_) => Self::Estimate,
            Origin::Default(_) => Self::Default,
            Origin::Repaired(_) => Self::Repaired,
        }
    }
}
