//! What a review asks of a ledger.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use headroom_core::amount::Quantity;
use headroom_core::cluster::resource_quota::ResourceQuota;
use headroom_core::json::Malformed;
use headroom_core::plan::Subject;
use headroom_core::quota::{self, Bounds, Change, Fault, Kind, Object, Surroundings};
use headroom_core::request::{self, Operation, Pod, Request};

use crate::plan::{Node, Plan};
use crate::shape::Shape;
use crate::state::{Attempt, Key};

/// Room for one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    pub key: Key,
    /// Of this handling of the review, made up by the replica.
    pub token: String,
    pub attempt: Attempt,
    /// What the object is charged in full once it is stored.
    pub shape: Arc<Shape>,
    /// What the object is charged that is replaced.
    pub old: Option<Arc<Shape>>,
    /// Charged even where there is no room.
    pub may_exceed: bool,
}

/// What cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unasked {
    Malformed(Malformed),
    /// No API server sends such a review.
    Forged(&'static str),
}

impl fmt::Display for Unasked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(malformed) => write!(f, "cannot read the request: {malformed}"),
            Self::Forged(missing) => write!(f, "not a request of an API server: {missing} is missing"),
        }
    }
}

impl From<Malformed> for Unasked {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// The objects of a request as quotas see them.
struct Objects<'a, 'd> {
    kind: Kind<'a>,
    new: (request::Object<'d>, Option<Pod<'d>>),
    old: Option<(request::Object<'d>, Option<Pod<'d>>)>,
}

impl<'a, 'd> Objects<'a, 'd> {
    /// None if the request is none that quotas charge.
    fn of(request: &'a Request<'d>) -> Result<Option<Self>, Malformed> {
        let Some(subject) = Subject::of(request)? else { return Ok(None) };
        // What a status reports has happened already: it is counted when it is seen.
        if !subject.is_counted(request) || subject == Subject::ClaimStatus {
            return Ok(None);
        }
        let Some(object) = request.object else { return Ok(None) };
        let is_pod = subject.is_pod();
        let pod = if is_pod { request.pod()? } else { None };
        let old = match request.old() {
            Some(old) => Some((*old, if is_pod { request.old_pod()? } else { None })),
            None => None,
        };
        Ok(Some(Self { kind: Kind::of(request), new: (object, pod), old }))
    }

    fn new_object(&self) -> Object<'_, 'd> {
        let (source, pod) = &self.new;
        let replaces = self.old.as_ref().map(|(old, _)| old);
        Object { kind: self.kind, source: *source, pod: pod.as_ref(), replaces, devices: Surroundings::NONE }
    }

    fn old_object(&self) -> Option<Object<'_, 'd>> {
        self.old.as_ref().map(|(source, pod)| Object {
            kind: self.kind,
            source: *source,
            pod: pod.as_ref(),
            replaces: None,
            devices: Surroundings::NONE,
        })
    }
}

impl Ask {
    /// What a request asks for; none if nothing is charged for it.
    pub fn of(request: &Request<'_>, token: impl FnOnce() -> String) -> Result<Option<Self>, Unasked> {
        let Some(objects) = Objects::of(request)? else { return Ok(None) };
        let metadata = |field: &str| -> Result<Option<String>, Malformed> {
            let (object, _) = &objects.new;
            let text = object.node.at(&["metadata", field])?.map(headroom_core::json::Node::scalar).transpose()?;
            Ok(text.filter(|text| !text.is_empty()).map(Cow::into_owned))
        };
        let name = metadata("name")?.ok_or(Unasked::Forged("metadata.name"))?;
        let uid = metadata("uid")?.ok_or(Unasked::Forged("metadata.uid"))?;
        let old = objects.old_object();
        let version = match &old {
            Some(old) if old.source.was_stored()? => {
                let version = old.source.node.at(&["metadata", "resourceVersion"])?;
                let version = version.map(headroom_core::json::Node::scalar).transpose()?;
                let version = version.and_then(|version| version.parse().ok());
                Some(version.ok_or(Unasked::Forged("a resourceVersion that is a number"))?)
            }
            _ => None,
        };
        let old = match (&old, version) {
            (Some(old), Some(_)) => Some(Arc::new(Shape::of(old, None)?)),
            _ => None,
        };
        Ok(Some(Self {
            key: Key::new(&request.qualified_resource(), &request.namespace, &name),
            token: token(),
            attempt: Attempt { uid, version },
            shape: Arc::new(Shape::of(&objects.new_object(), None)?),
            old,
            may_exceed: false,
        }))
    }

    /// Whether any bound in force is charged more than before. If not, there is nothing to reserve.
    pub fn grows(&self, plan: &Plan) -> bool {
        in_force(plan, &self.key.namespace).any(|node| {
            let before = self.old.as_deref().filter(|old| old.matches(&node.requirements));
            let is_more = |name: &str, amount: &Quantity| {
                node.hard.contains(name)
                    && before.and_then(|before| before.get(name)).is_none_or(|before| before < amount)
            };
            self.shape.matches(&node.requirements)
                && self.shape.amounts.iter().any(|(name, amount)| is_more(name, amount))
        })
    }
}

/// What refuses a request whatever is used: values that a quota demands and the object lacks, amounts below zero, an
/// update without its old object. In Kubernetes' own words.
pub fn faults(request: &Request<'_>, plan: &Plan) -> Result<Vec<String>, Malformed> {
    let Some(objects) = Objects::of(request)? else { return Ok(Vec::new()) };
    let quotas: Vec<ResourceQuota<'_>> = in_force(plan, &request.namespace).map(unused).collect();
    let bounds = Bounds { quotas: &quotas, limited_resources: &[], now: None };
    let change = match &request.operation {
        Operation::Update { .. } => Change::Update { old: objects.old_object() },
        _ => Change::Create,
    };
    let breaches = quota::check(&objects.new_object(), &change, &bounds)?.breaches;
    let is_fault = |breach: &&quota::Breach<'_>| !matches!(breach.fault, Fault::Exceeded { .. });
    Ok(breaches.iter().filter(is_fault).map(|breach| format!("{breach}; {}", breach.advice())).collect())
}

/// The quotas that may refuse what happens in a namespace.
fn in_force<'p>(plan: &'p Plan, namespace: &str) -> impl Iterator<Item = &'p Node> {
    plan.nodes_of(namespace).into_iter().filter_map(|node| plan.nodes.get(node)).filter(|node| !node.is_suspended)
}

/// A quota as the core knows them, of which nothing is used.
fn unused(node: &Node) -> ResourceQuota<'_> {
    ResourceQuota {
        name: Cow::Borrowed(&node.quota),
        hard: node.hard.clone(),
        used: node.hard.names().map(|name| (name.clone(), Quantity::ZERO)).collect(),
        selector: node.requirements.clone(),
        ..ResourceQuota::default()
    }
}
