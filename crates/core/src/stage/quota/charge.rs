//! What a request adds to each quota.

use std::borrow::Cow;

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
    pub quota: Cow<'d, str>,
    /// In name order.
    pub added: Vec<Added<'d>>,
}

/// What a request adds under one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added<'d> {
    pub name: ResourceName<'d>,
    pub amount: Quantity,
    /// The level afterwards.
    pub used: Quantity,
}

/// The deltas of a change: one for quotas that matched the old object, one for those that begin to match.
pub(super) struct Deltas<'d> {
    /// All that the object uses; nothing is zero in it.
    pub(super) in_full: ResourceList<'d>,
    growth: ResourceList<'d>,
    /// The quotas that did not match the old object, by name.
    beginning: Vec<Cow<'d, str>>,
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
    usage: ResourceList<'d>,
    applying: &[&ResourceQuota<'d>],
    now: Option<Timestamp>,
) -> Result<Option<Deltas<'d>>, Malformed> {
    let mut deltas = Deltas {
        in_full: without_zeros(usage),
        growth: ResourceList::default(),
        beginning: Vec::new(),
        has_old: false,
    };
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
    for (name, amount) in deltas.in_full.iter() {
        let more = match before.get(name) {
            Some(before) if before >= amount => continue,
            Some(before) => amount.minus(before),
            None => amount.clone(),
        };
        deltas.growth.set(name.clone(), more);
    }
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
