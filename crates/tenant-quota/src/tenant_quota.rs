//! `TenantQuota`: a quota for several namespaces, optionally with a parent.

use headroom_core::cluster::problem::Problem;
use headroom_core::cluster::resource_quota::{ResourceQuota, validate};
pub use headroom_core::cluster::tenant_quota::NEVER_CHARGED;
use headroom_core::json::{Malformed, Node};

use crate::label_selector::{LabelSelector, Labels};

/// A TenantQuota as written by its author.
#[derive(Debug, Clone, Default)]
pub struct TenantQuota {
    pub name: String,
    pub generation: u64,
    /// `metadata.creationTimestamp`; empty if it is not stored yet.
    pub created: String,
    /// The quota that is charged too.
    pub parent: Option<String>,
    /// Namespaces by name and by label. With neither, only children are charged.
    pub names: Vec<String>,
    pub selector: Option<LabelSelector>,
    /// Usage is counted, but nothing is refused.
    pub is_suspended: bool,
    /// `spec.quota`: the same fields as a ResourceQuota's spec.
    pub quota: ResourceQuota<'static>,
}

/// The maximum number of namespaces by name; for more, use a selector.
const MAX_NAMES: usize = 1000;
/// The maximum number of bounded names; every claim and every count iterates over all of them.
const MAX_BOUNDS: usize = 100;

impl TenantQuota {
    pub fn read(node: Node<'_>) -> Result<Self, Malformed> {
        let mut quota = Self::default();
        if let Some(metadata) = node.get("metadata")? {
            quota.name = metadata.string("name")?.unwrap_or_default().into_owned();
            quota.created = metadata.string("creationTimestamp")?.unwrap_or_default().into_owned();
            let generation = metadata.get("generation")?.map(Node::integer).transpose()?;
            quota.generation = generation.and_then(|generation| u64::try_from(generation).ok()).unwrap_or_default();
        }
        let Some(spec) = node.get("spec")? else { return Ok(quota) };
        quota.parent = spec.string("parent")?.filter(|parent| !parent.is_empty()).map(|parent| parent.into_owned());
        if let Some(namespaces) = spec.get("namespaces")? {
            let names = namespaces.list("names")?.map(|name| Ok(name.str()?.into_owned()));
            quota.names = names.collect::<Result<_, Malformed>>()?;
            quota.selector = namespaces.get("selector")?.map(LabelSelector::read).transpose()?;
        }
        quota.is_suspended = spec.get("suspend")?.map(Node::bool).transpose()?.unwrap_or_default();
        if let Some(of_spec) = spec.get("quota")? {
            quota.quota = read_spec(of_spec)?;
        }
        Ok(quota)
    }

    /// Returns true if it covers a namespace directly, not only through its children.
    pub fn covers(&self, namespace: &str, labels: &Labels) -> bool {
        self.names.iter().any(|name| name == namespace)
            || self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }

    /// All problems of this quota alone. Parents are checked by [`crate::tree`].
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut add = |field: &str, detail: String| problems.push(Problem { field: field.to_owned(), detail });
        if self.parent.as_deref() == Some(self.name.as_str()) {
            add("spec.parent", "must not be the quota itself".to_owned());
        }
        if self.names.len() > MAX_NAMES {
            add("spec.namespaces.names", format!("has more than {MAX_NAMES} names: select namespaces by a label"));
        }
        if self.quota.spec_hard.is_empty() {
            add("spec.quota.hard", "must bound at least one name".to_owned());
        }
        if self.quota.spec_hard.len() > MAX_BOUNDS {
            add("spec.quota.hard", format!("bounds more than {MAX_BOUNDS} names"));
        }
        if let Some(selector) = &self.selector {
            problems.extend(selector.problems("spec.namespaces.selector"));
        }
        problems.extend(validate::quota(&self.quota).into_iter().map(|problem| Problem {
            // A ResourceQuota's `spec` is `spec.quota` here.
            field: problem.field.replacen("spec.", "spec.quota.", 1),
            detail: problem.detail,
        }));
        problems
    }
}

/// Reads the spec of a ResourceQuota, such as `spec.quota`, into owned data.
pub fn read_spec(spec: Node<'_>) -> Result<ResourceQuota<'static>, Malformed> {
    use headroom_core::amount::ResourceList;
    use headroom_core::cluster::resource_quota::ScopeRequirement;
    let owned = |text: std::borrow::Cow<'_, str>| std::borrow::Cow::Owned(text.into_owned());
    let hard = ResourceList::in_field(spec, "hard")?;
    let mut quota = ResourceQuota {
        spec_hard: hard.into_iter().map(|(name, amount)| (owned(name), amount)).collect(),
        ..ResourceQuota::default()
    };
    for scope in spec.list("scopes")? {
        quota.scopes.push(owned(scope.str()?));
    }
    if let Some(selector) = spec.get("scopeSelector")? {
        for expression in selector.list("matchExpressions")? {
            quota.selector.push(ScopeRequirement::read(expression)?.detached());
        }
    }
    Ok(quota)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_core::json::Document;

    fn read(text: &str) -> TenantQuota {
        let document = Document::read(text).unwrap();
        TenantQuota::read(document.root()).unwrap()
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(read(text).problems().iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        check(
            r#"{"metadata": {"name": "a.b"}, "spec": {"parent": "a.b",
                "namespaces": {"selector": {"matchExpressions": [{"key": "team", "operator": "In"}]}},
                "quota": {"hard": {"pods": "1.5"}, "scopes": ["Sometimes"]}}}"#,
            &[
                "spec.parent: must not be the quota itself",
                "spec.namespaces.selector[0].values: must have at least one value for In and NotIn",
                "spec.quota.hard[pods]: must be an integer",
                "spec.quota.scopes: unsupported scope",
            ],
        );
        check(r#"{"metadata": {"name": "a"}, "spec": {}}"#, &["spec.quota.hard: must bound at least one name"]);
    }

    #[test]
    fn namespaces_are_covered_by_name_or_by_label() {
        let quota = read(
            r#"{"metadata": {"name": "a", "generation": 3}, "spec": {"namespaces": {"names": ["shop"],
                "selector": {"matchLabels": {"team": "a"}, "matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]}},
                "quota": {"hard": {"pods": "2"}}}}"#,
        );
        let labels = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        assert_eq!(quota.generation, 3);
        assert!(quota.covers("shop", &labels(&[])));
        assert!(quota.covers("web", &labels(&[("team", "a")])));
        assert!(!quota.covers("web", &labels(&[("team", "a"), ("old", "")])));
        assert!(!quota.covers("web", &labels(&[("team", "b")])));
        assert!(!quota.is_suspended && read(r#"{"spec": {"suspend": true}}"#).is_suspended);
    }
}
