//! The amounts that a request adds to each quota.

use std::borrow::Cow;

use super::{ApplyingQuota, Charged, ChargedKind, ObjectUsage, QuotaObject, scope};
use crate::amount::{Quantity, ResourceName};
use crate::cluster::resource_quota::ResourceQuota;
use crate::json::Malformed;
use crate::timestamp::Timestamp;

/// The change for which an object is charged.
#[derive(Debug, Clone, Copy)]
pub enum QuotaChange<'a, 'd> {
    /// The object is new, and charged in full.
    Create,
    /// It replaces an old object, and is charged for the growth. If this has happened already, nothing is refused.
    Update { old: Option<QuotaObject<'a, 'd>>, has_happened: bool },
    /// It is stored and counted already: a request of the audit scanner.
    Counted,
}

impl QuotaChange<'_, '_> {
    pub(super) fn refuses(&self) -> bool {
        matches!(self, Self::Create | Self::Update { has_happened: false, .. })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaCharge<'d> {
    pub quota: Cow<'d, str>,
    pub is_tenant: bool,
    /// In name order.
    pub added: Vec<Added<'d>>,
}

/// The amount that a request adds under one name of a quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added<'d> {
    pub name: ResourceName<'d>,
    pub amount: Quantity,
    /// The usage afterwards.
    pub used: Quantity,
    pub hard: Quantity,
}

/// The amounts that a change adds to quotas: the growth where the quota matched the old object, else everything.
pub(super) struct Deltas<'d> {
    /// The object's whole usage.
    pub(super) in_full: ObjectUsage<'d>,
    before: Option<ObjectUsage<'d>>,
    /// The quotas that did not match the old object, by name.
    beginning: Vec<Cow<'d, str>>,
}

impl<'d> Deltas<'d> {
    /// None if an update came without its old object.
    pub(super) fn of(
        object: &QuotaObject<'_, 'd>,
        change: &QuotaChange<'_, 'd>,
        in_full: ObjectUsage<'d>,
        charging: &[&ApplyingQuota<'_, 'd>],
        now: Option<Timestamp>,
    ) -> Result<Option<Self>, Malformed> {
        let mut deltas = Self { in_full, before: None, beginning: Vec::new() };
        let old = match change {
            QuotaChange::Create | QuotaChange::Counted => return Ok(Some(deltas)),
            QuotaChange::Update { old: None, .. } => return Ok(None),
            QuotaChange::Update { old: Some(old), .. } => old,
        };
        if !old.source.was_stored()? {
            return Ok(Some(deltas));
        }
        deltas.before = Some(ObjectUsage::of(old, now)?);
        for ApplyingQuota { quota, .. } in charging {
            let is_charged_already = old.kind == object.kind && scope::matches_all(old, quota)?;
            if !is_charged_already {
                deltas.beginning.push(quota.name.clone());
            }
        }
        Ok(Some(deltas))
    }

    /// The amount that is added to a quota; none if nothing is.
    pub(super) fn amount(&self, quota: &ResourceQuota<'d>, charged: Charged<'_>) -> Option<Quantity> {
        let amount = self.in_full.amount(charged).filter(|amount| !amount.is_zero())?;
        let before = self.before.as_ref().filter(|_| !self.beginning.contains(&quota.name));
        match before.and_then(|before| before.amount(charged)) {
            // Out of range, only the amount itself is certain to be enough.
            Some(before) if !amount.is_out_of_range() => (before < amount).then(|| amount.minus(&before)),
            _ => Some(amount),
        }
    }

    /// True if the change adds anything to any quota.
    pub(super) fn charge_anything(&self, kind: ChargedKind<'_>) -> bool {
        let Some(before) = self.before.as_ref().filter(|_| self.beginning.is_empty()) else { return true };
        let before = before.list(kind);
        let now = self.in_full.list(kind);
        let mut amounts = now.paired_with(&before);
        amounts.any(|(_, amount, before)| match before {
            Some(before) => before < amount || amount.is_out_of_range(),
            None => !amount.is_zero(),
        })
    }
}
