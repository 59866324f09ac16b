//! What a request adds to each quota.

use super::{Object, scope, usage, without_zeros};
use crate::amount::{Quantity, ResourceList, ResourceName};
use crate::context::resource_quota::ResourceQuota;
use crate::json::{Malformed, Node};
use crate::timestamp::Timestamp;

/// How an object comes to be charged.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a, 'd> {
    /// It is new, and charged in full.
    Create,
    /// It replaces an old object, and is charged for what it uses more.
    Update { old: Option<Object<'a, 'd>> },
    /// The same, where the change has happened already: usage is raised, and nothing is refused.
    Report { old: Option<Object<'a, 'd>> },
    /// It is there and counted already: a request of the audit scanner.
    Counted,
}

impl Change<'_, '_> {
    pub(super) fn charges(&self) -> bool {
        !matches!(self, Self::Counted)
    }

    pub(super) fn refuses(&self) -> bool {
        matches!(self, Self::Create | Self::Update { .. })
    }
}

/// What a request adds to one quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge<'d> {
    pub quota: std::borrow::Cow<'d, str>,
    pub delta: ResourceList<'d>,
    /// The level of the same names afterwards.
    pub used: ResourceList<'d>,
}

impl<'d> Charge<'d> {
    pub(super) fn new(quota: &ResourceQuota<'d>) -> Self {
        Self { quota: quota.name.clone(), delta: ResourceList::default(), used: ResourceList::default() }
    }

    pub(super) fn add(&mut self, name: &ResourceName<'d>, delta: Quantity, used: Quantity) {
        self.delta.set(name.clone(), delta);
        self.used.set(name.clone(), used);
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.delta.is_empty()
    }
}

/// The deltas of a change: one for quotas that matched the old object, one for those that begin to match.
pub(super) struct Deltas<'d> {
    in_full: ResourceList<'d>,
    growth: ResourceList<'d>,
    /// For each applying quota, by name, whether it is charged in full.
    beginning: Vec<std::borrow::Cow<'d, str>>,
    has_old: bool,
}

impl<'d> Deltas<'d> {
    pub(super) fn of(&self, quota: &ResourceQuota<'d>) -> &ResourceList<'d> {
        if self.has_old && !self.beginning.contains(&quota.name) { &self.growth } else { &self.in_full }
    }

    /// Whether no quota is charged anything.
    pub(super) fn is_nothing(&self) -> bool {
        self.growth.is_empty() && self.has_old && self.beginning.is_empty() || self.in_full.is_empty()
    }
}

/// None if an update came without its old object.
pub(super) fn deltas<'d>(
    object: &Object<'_, 'd>,
    change: &Change<'_, 'd>,
    usage: &ResourceList<'d>,
    applying: &[&ResourceQuota<'d>],
    now: Option<Timestamp>,
) -> Result<Option<Deltas<'d>>, Malformed> {
    let in_full = without_zeros(usage.clone());
    let mut deltas = Deltas { in_full, growth: ResourceList::default(), beginning: Vec::new(), has_old: false };
    let old = match change {
        Change::Create | Change::Counted => return Ok(Some(deltas)),
        Change::Update { old: None } | Change::Report { old: None } => return Ok(None),
        Change::Update { old: Some(old) } | Change::Report { old: Some(old) } => old,
    };
    if !was_stored(old.node)? {
        return Ok(Some(deltas));
    }
    let before = usage::of(old, now)?;
    deltas.has_old = true;
    for (name, amount) in usage.iter() {
        let more = match before.get(name) {
            Some(before) if before >= amount => continue,
            Some(before) => amount.minus(before),
            None => amount.clone(),
        };
        deltas.growth.set(name.clone(), more);
    }
    deltas.growth = without_zeros(deltas.growth);
    for quota in applying {
        let is_charged_already = old.kind == object.kind && scope::matches_all(old, quota)?;
        if !is_charged_already {
            deltas.beginning.push(quota.name.clone());
        }
    }
    Ok(Some(deltas))
}

/// An old object without a version was never stored: the update creates the object.
fn was_stored(old: Node<'_>) -> Result<bool, Malformed> {
    let version = old.at(&["metadata", "resourceVersion"])?.map(Node::scalar).transpose()?;
    Ok(version.is_some_and(|version| !version.is_empty()))
}
