//! Limited resources, which may be consumed only where a quota covers them.

use super::{ApplyingQuota, Bounds, Breach, ChargedKind, ObjectUsage, QuotaFault, QuotaObject, scope};
use crate::cluster::label_selector::Requirement;
use crate::find;
use crate::json::Malformed;
use crate::settings::LimitedResource;
use crate::truncate::Names;

/// `usage`: that of the object. `applying`: the quotas that apply to it, including those that refuse it.
pub(super) fn check<'d>(
    object: &QuotaObject<'_, 'd>,
    usage: &ObjectUsage<'d>,
    applying: &[&ApplyingQuota<'_, 'd>],
    bounds: &Bounds<'_, 'd>,
) -> Result<Vec<Breach<'d>>, Malformed> {
    let mut breaches = Vec::new();
    let names = uncovered_names(object.kind, usage, applying, bounds);
    if !names.is_empty() {
        breaches.push(Breach::of_no_quota(QuotaFault::Uncovered { names }));
    }
    let scopes = uncovered_scopes(object, bounds)?;
    if !scopes.is_empty() {
        breaches.push(Breach::of_no_quota(QuotaFault::UncoveredScopes { scopes }));
    }
    Ok(breaches)
}

/// Limited names that the object uses, and that no applying quota bounds.
fn uncovered_names(
    kind: ChargedKind<'_>,
    usage: &ObjectUsage<'_>,
    applying: &[&ApplyingQuota<'_, '_>],
    bounds: &Bounds<'_, '_>,
) -> Names {
    let of_kind = |limited: &&LimitedResource<'_>| limited.is_of(kind);
    let is_limited = |name: &str| {
        let mut texts = bounds.limited_resources.iter().filter(of_kind).flat_map(|limited| &limited.match_contains);
        texts.any(|text| find::contains(name, text))
    };
    let mut names = Names::default();
    for (name, amount) in usage.list(kind).iter() {
        let is_covered = || applying.iter().any(|applying| applying.quota.hard.contains(name));
        if amount.is_positive() && is_limited(name) && !is_covered() {
            names.add_with(|| name.to_string());
        }
    }
    names
}

impl LimitedResource<'_> {
    pub(crate) fn is_of(&self, kind: ChargedKind<'_>) -> bool {
        self.api_group == kind.group && self.resource == kind.resource
    }
}

/// Limited scopes that the object matches without any quota of the namespace covering them. Only the scope's name is
/// compared with the quota's scopes.
fn uncovered_scopes<'d>(
    object: &QuotaObject<'_, 'd>,
    bounds: &Bounds<'_, 'd>,
) -> Result<Vec<Requirement<'d>>, Malformed> {
    let mut uncovered: Vec<Requirement<'d>> = Vec::new();
    for requirement in bounds.limited_resources.iter().flat_map(|limited| &limited.match_scopes) {
        if scope::matches(object, requirement)?
            && !uncovered.contains(requirement)
            && !is_covered(object, requirement, bounds)?
        {
            uncovered.push(requirement.clone());
        }
    }
    Ok(uncovered)
}

fn is_covered(
    object: &QuotaObject<'_, '_>,
    limited: &Requirement<'_>,
    bounds: &Bounds<'_, '_>,
) -> Result<bool, Malformed> {
    for quota in bounds.quotas {
        for requirement in quota.requirements() {
            if requirement.key == limited.key && scope::matches(object, &requirement)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
