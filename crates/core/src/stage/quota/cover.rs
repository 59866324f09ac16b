//! Limited resources: what may be consumed only where some quota covers it.

use super::{Bounds, Breach, Fault, Kind, Object, scope};
use crate::amount::ResourceList;
use crate::context::resource_quota::{ResourceQuota, ScopeRequirement};
use crate::json::Malformed;

pub(super) fn check<'d>(
    object: &Object<'_, 'd>,
    usage: &ResourceList<'d>,
    applying: &[&ResourceQuota<'d>],
    bounds: &Bounds<'_, 'd>,
) -> Result<Vec<Breach<'d>>, Malformed> {
    let mut breaches = Vec::new();
    if bounds.limited_resources.is_empty() {
        return Ok(breaches);
    }
    let names = uncovered_names(object.kind, usage, applying, bounds);
    if !names.is_empty() {
        breaches.push(Breach { quota: None, fault: Fault::Uncovered { names } });
    }
    let scopes = uncovered_scopes(object, bounds)?;
    if !scopes.is_empty() {
        breaches.push(Breach { quota: None, fault: Fault::UncoveredScopes { scopes } });
    }
    Ok(breaches)
}

/// Limited names of which the object uses something, and which no applying quota bounds.
fn uncovered_names(
    kind: Kind<'_>,
    usage: &ResourceList<'_>,
    applying: &[&ResourceQuota<'_>],
    bounds: &Bounds<'_, '_>,
) -> Vec<String> {
    let of_kind = |limited: &&_| is_of(limited, kind);
    let is_limited = |name: &str| {
        let mut texts = bounds.limited_resources.iter().filter(of_kind).flat_map(|limited| &limited.match_contains);
        texts.any(|text| name.contains(text.as_ref()))
    };
    let used = usage.iter().filter(|(_, amount)| amount.is_positive()).map(|(name, _)| name);
    let uncovered = used.filter(|name| is_limited(name) && !applying.iter().any(|quota| quota.hard.contains(name)));
    uncovered.map(ToString::to_string).collect()
}

fn is_of(limited: &crate::settings::LimitedResource<'_>, kind: Kind<'_>) -> bool {
    limited.api_group == kind.group && limited.resource == kind.resource
}

/// Limited scopes that the object matches, and no quota of the namespace with it. Only the name of the scope counts.
fn uncovered_scopes<'d>(
    object: &Object<'_, 'd>,
    bounds: &Bounds<'_, 'd>,
) -> Result<Vec<ScopeRequirement<'d>>, Malformed> {
    let mut uncovered: Vec<ScopeRequirement<'d>> = Vec::new();
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
    object: &Object<'_, '_>,
    limited: &ScopeRequirement<'_>,
    bounds: &Bounds<'_, '_>,
) -> Result<bool, Malformed> {
    for quota in bounds.quotas {
        for requirement in quota.requirements() {
            if requirement.scope == limited.scope && scope::matches(object, &requirement)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
