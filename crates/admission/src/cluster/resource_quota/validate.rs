//! The API server's validation of ResourceQuotas, with its texts. All problems are collected.

use crate::amount::{ResourceList, is_device};
use crate::cluster::label_selector::{Operator, Requirement};
use crate::cluster::limit_range::validate::{COUNTED, is_qualified};
use crate::cluster::resource_quota::ResourceQuota;
use crate::json::Malformed;

const SELECTOR: &str = "spec.scopeSelector.matchExpressions";

/// All problems of a quota, in the order of its fields.
pub fn quota(quota: &ResourceQuota<'_>) -> Vec<Malformed> {
    let mut problems = Problems::default();
    problems.hard("spec.hard", &quota.spec_hard);
    let names: Vec<&str> = quota.scopes.iter().map(AsRef::as_ref).collect();
    problems.scopes("spec.scopes", &names, &quota.spec_hard);
    for requirement in &quota.selector {
        problems.expression(requirement);
    }
    let names: Vec<&str> = quota.selector.iter().map(|requirement| requirement.key.as_ref()).collect();
    problems.scopes(SELECTOR, &names, &quota.spec_hard);
    problems.hard("status.hard", &quota.hard);
    problems.hard("status.used", &quota.used);
    problems.0
}

#[derive(Default)]
struct Problems(Vec<Malformed>);

impl Problems {
    fn add(&mut self, path: impl Into<String>, problem: impl Into<String>) {
        self.0.push(Malformed { path: path.into(), problem: problem.into() });
    }

    fn hard(&mut self, field: &str, list: &ResourceList<'_>) {
        for (name, quantity) in list.iter() {
            let place = format!("{field}[{name}]");
            if let Some(detail) = name_problem(name) {
                self.add(&place, detail);
            }
            if quantity.is_negative() {
                self.add(&place, "must be greater than or equal to 0");
            }
            // Counts, and devices by their names in containers.
            if (COUNTED.contains(&name.as_ref()) || is_device(name)) && *quantity != quantity.rounded_up_to_units() {
                self.add(&place, "must be an integer");
            }
        }
    }

    /// Problems of a list of scopes, alone and together with the names that the quota bounds, each reported once.
    fn scopes(&mut self, field: &str, scopes: &[&str], hard: &ResourceList<'_>) {
        let is_known = |scope: &&str| SCOPES.iter().any(|(known, _)| known == scope);
        if scopes.iter().any(|scope| !is_known(scope)) {
            self.add(field, "unsupported scope");
        }
        let misapplied = scopes.iter().any(|scope| {
            let allowed = SCOPES.iter().find(|(known, _)| known == scope).map(|(_, allowed)| allowed);
            allowed
                .is_some_and(|allowed| hard.names().any(|name| is_standard(name) && !allowed.contains(&name.as_ref())))
        });
        if misapplied {
            self.add(field, "unsupported scope applied to resource");
        }
        let has = |scope| scopes.contains(&scope);
        if has("BestEffort") && has("NotBestEffort") || has("Terminating") && has("NotTerminating") {
            self.add(field, "conflicting scopes");
        }
    }

    fn expression(&mut self, requirement: &Requirement<'_>) {
        let Requirement { key: scope, operator, values } = requirement;
        let selects_by_value = matches!(scope.as_ref(), "PriorityClass" | "VolumeAttributesClass");
        if !selects_by_value && *operator != Operator::Exists {
            self.add(
                format!("{SELECTOR}.operator"),
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
                 ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
                 ResourceQuotaScopeCrossNamespacePodAffinity",
            );
        }
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => self.add(
                format!("{SELECTOR}.values"),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            ),
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => self.add(
                format!("{SELECTOR}.values"),
                "must be no value when `operator` is 'Exists' or 'DoesNotExist' for scope selector",
            ),
            Operator::Unknown => self.add(format!("{SELECTOR}.operator"), "not a valid selector operator"),
            _ => {}
        }
    }
}

const POD_NAMES: &[&str] = &["pods", "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

const STORAGE_NAMES: [&str; 4] =
    ["requests.storage", "ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage"];

/// The scopes, and the standard names that a quota may bound under each.
pub const SCOPES: [(&str, &[&str]); 7] = [
    ("Terminating", POD_NAMES),
    ("NotTerminating", POD_NAMES),
    ("BestEffort", &["pods"]),
    ("NotBestEffort", POD_NAMES),
    ("PriorityClass", POD_NAMES),
    ("CrossNamespacePodAffinity", POD_NAMES),
    ("VolumeAttributesClass", &["persistentvolumeclaims", "requests.storage"]),
];

/// True for a plain name that Kubernetes knows, in containers or quotas.
pub fn is_standard(name: &str) -> bool {
    COUNTED.contains(&name)
        || POD_NAMES.contains(&name)
        || STORAGE_NAMES.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
}

fn name_problem(name: &str) -> Option<&'static str> {
    if name.contains('/') {
        return (!is_qualified(name)).then_some("must be a standard resource type or fully qualified");
    }
    (!is_standard(name)).then_some("must be a standard resource for quota")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Document;

    #[track_caller]
    fn check(quota: &str, expected: &[&str]) {
        let document = Document::read(quota).unwrap();
        let problems = super::quota(&ResourceQuota::read(document.root()).unwrap());
        assert_eq!(problems.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        check(
            r#"{"spec":{"hard":{"count/deployments.apps":"1500m","cpus":"1","pods":"-1.5","requests.cpu":"500m"},
                "scopes":["Sometimes"]}}"#,
            &[
                "spec.hard[count/deployments.apps]: must be an integer",
                "spec.hard[cpus]: must be a standard resource for quota",
                "spec.hard[pods]: must be greater than or equal to 0",
                "spec.hard[pods]: must be an integer",
                "spec.scopes: unsupported scope",
            ],
        );
    }

    #[test]
    fn selectors_have_values_only_if_their_operator_takes_them() {
        check(
            r#"{"spec":{"scopeSelector":{"matchExpressions":[
                {"scopeName":"PriorityClass","operator":"Exists","values":["a"]},
                {"scopeName":"PriorityClass","operator":"Is"}]}}}"#,
            &[
                "spec.scopeSelector.matchExpressions.values: must be no value when `operator` is 'Exists' or \
                 'DoesNotExist' for scope selector",
                "spec.scopeSelector.matchExpressions.operator: not a valid selector operator",
            ],
        );
    }
}
