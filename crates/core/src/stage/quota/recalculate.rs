//! What the quota controller would write: the usage of a namespace, counted anew from its objects.

use super::{Kind, Object, scope, usage};
use crate::amount::{Quantity, ResourceList};
use crate::context::resource_quota::ResourceQuota;
use crate::json::Malformed;
use crate::timestamp::Timestamp;

/// The `status.used` of a quota, given all objects of its namespace that could be listed.
///
/// `counts` tells whether the objects of a name's kind were listed; a name that nobody counts keeps the usage it had,
/// or stays without one. The `status.hard` to go with it is the quota's `spec.hard`.
pub fn used<'d>(
    quota: &ResourceQuota<'d>,
    objects: &[Object<'_, 'd>],
    counts: impl Fn(&str) -> bool,
    now: Option<Timestamp>,
) -> Result<ResourceList<'d>, Malformed> {
    let mut used = ResourceList::default();
    for name in quota.wished.names() {
        if counts(name) {
            used.set(name.clone(), Quantity::ZERO);
        } else if let Some(before) = quota.used.get(name) {
            used.set(name.clone(), before.clone());
        }
    }
    for object in objects {
        if object.kind.names_in(&quota.wished).next().is_none() || !scope::matches_all(object, quota)? {
            continue;
        }
        for (name, amount) in usage::of(object, now)?.iter() {
            if counts(name)
                && let Some(sum) = used.get_mut(name)
            {
                *sum = sum.plus(amount);
            }
        }
    }
    Ok(used)
}

/// Whether anyone counts a name: the kinds that quotas know by name, and every count.
pub fn is_counted(name: &str) -> bool {
    const KINDS: [&str; 8] = [
        "pods",
        "services",
        "persistentvolumeclaims",
        "resourceclaims.resource.k8s.io",
        "configmaps",
        "secrets",
        "replicationcontrollers",
        "resourcequotas",
    ];
    name.starts_with("count/") || KINDS.iter().any(|kind| Kind::from_qualified(kind).is_charged_under(name))
}
