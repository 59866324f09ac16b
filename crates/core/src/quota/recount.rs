//! The usage that the quota controller would write, recounted from the objects of a namespace.

use crate::amount::{Quantity, ResourceList};
use crate::cluster::resource_quota::ResourceQuota;
use crate::json::Malformed;
use crate::quota::{Object, Usage, scope};
use crate::timestamp::Timestamp;

/// The `status.used` of a quota, from all objects of its namespace that could be listed.
///
/// `counts` returns whether the objects of a name's kind were listed. A name that cannot be counted keeps its previous
/// usage, if any. The matching `status.hard` is the quota's `spec.hard`.
pub fn used<'d>(
    quota: &ResourceQuota<'d>,
    objects: &[Object<'_, 'd>],
    counts: impl Fn(&str) -> bool,
    now: Option<Timestamp>,
) -> Result<ResourceList<'d>, Malformed> {
    let mut used = ResourceList::default();
    for name in quota.spec_hard.names() {
        if counts(name) {
            used.set(name.clone(), Quantity::ZERO);
        } else if let Some(before) = quota.used.get(name) {
            used.set(name.clone(), before.clone());
        }
    }
    for object in objects {
        let is_bounded = quota.spec_hard.names().any(|name| object.kind.charged_under(name).is_some());
        if !is_bounded || !scope::matches_all(object, quota)? {
            continue;
        }
        let usage = Usage::of(object, now)?;
        for name in quota.spec_hard.names().filter(|name| counts(name)) {
            let amount = object.kind.charged_under(name).and_then(|charged| usage.amount(charged));
            if let (Some(sum), Some(amount)) = (used.get_mut(name), amount) {
                *sum = sum.plus(&amount);
            }
        }
    }
    Ok(used)
}
