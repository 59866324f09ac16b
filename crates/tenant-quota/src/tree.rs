//! TenantQuotas and their parents as trees. Each tree has one ledger, named after its root.

use std::collections::{BTreeMap, BTreeSet};

use crate::tenant_quota::TenantQuota;

/// The maximum number of levels of a tree: every request is charged at each level.
pub const MAX_LEVELS: usize = 8;
/// The maximum number of quotas of a tree: all of them are stored in one object.
pub const MAX_QUOTAS: usize = 64;

/// A tree of quotas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree<'q> {
    /// The root first, children after their parents. With the index of the parent.
    pub quotas: Vec<(&'q TenantQuota, Option<usize>)>,
}

impl PartialEq for TenantQuota {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.generation == other.generation
    }
}

impl Eq for TenantQuota {}

impl Tree<'_> {
    /// The name of the root, which is also the ledger's name.
    pub fn name(&self) -> &str {
        self.quotas.first().map_or("", |(root, _)| root.name.as_str())
    }

    /// Returns true if the quota or an ancestor may refuse requests in the quota's namespaces.
    pub fn refuses(&self, at: usize) -> bool {
        let mut next = Some(at);
        while let Some((quota, parent)) = next.and_then(|at| self.quotas.get(at)) {
            if !quota.is_suspended {
                return true;
            }
            next = *parent;
        }
        false
    }
}

/// The trees, and problems with parents by the quota's name. A quota whose parent cannot be used is enforced without
/// it. A quota with problems of its own is not enforced, and its children are enforced without it.
pub fn trees<'q>(quotas: &'q [TenantQuota]) -> (Vec<Tree<'q>>, BTreeMap<&'q str, String>) {
    let valid: BTreeMap<&str, &TenantQuota> =
        quotas.iter().filter(|quota| quota.problems().is_empty()).map(|quota| (quota.name.as_str(), quota)).collect();
    let mut problems = BTreeMap::new();
    let mut children: BTreeMap<&str, Vec<&TenantQuota>> = BTreeMap::new();
    let mut roots = Vec::new();
    for (name, quota) in &valid {
        match parent_of(quota, &valid) {
            Ok(Some(parent)) => children.entry(parent.name.as_str()).or_default().push(quota),
            Ok(None) => roots.push(*quota),
            Err(problem) => {
                problems.insert(*name, problem);
                roots.push(quota);
            }
        }
    }
    let mut trees = Vec::new();
    // `roots` grows during the loop: quotas that do not fit into their tree become roots.
    let mut next = 0;
    while let Some(root) = roots.get(next).copied() {
        next += 1;
        let mut tree = Tree { quotas: vec![(root, None)] };
        let mut levels = vec![1];
        let mut at = 0;
        while let (Some((quota, _)), Some(level)) = (tree.quotas.get(at).copied(), levels.get(at).copied()) {
            for child in children.get(quota.name.as_str()).into_iter().flatten() {
                let problem = if level == MAX_LEVELS {
                    Some(format!("a tree has at most {MAX_LEVELS} levels, and {} is on the last one", quota.name))
                } else if tree.quotas.len() == MAX_QUOTAS {
                    Some(format!("the tree of {} already has {MAX_QUOTAS} quotas", root.name))
                } else {
                    None
                };
                match problem {
                    Some(problem) => {
                        problems.insert(child.name.as_str(), problem);
                        roots.push(child);
                    }
                    None => {
                        tree.quotas.push((child, Some(at)));
                        levels.push(level + 1);
                    }
                }
            }
            at += 1;
        }
        trees.push(tree);
    }
    (trees, problems)
}

/// The parent, or why it cannot be used.
fn parent_of<'q>(
    quota: &TenantQuota,
    valid: &BTreeMap<&str, &'q TenantQuota>,
) -> Result<Option<&'q TenantQuota>, String> {
    let Some(name) = quota.parent.as_deref() else { return Ok(None) };
    let parent = *valid.get(name).ok_or_else(|| format!("parent {name} does not exist or is not valid"))?;
    let mut seen = BTreeSet::from([quota.name.as_str()]);
    let mut path = vec![quota.name.as_str()];
    let mut ancestor = Some(parent);
    while let Some(quota_above) = ancestor {
        path.push(&quota_above.name);
        if quota_above.name == quota.name {
            return Err(format!("its parents form a cycle: {}", path.join(" -> ")));
        }
        if !seen.insert(&quota_above.name) {
            // A cycle among ancestors; it is reported for them.
            break;
        }
        ancestor = quota_above.parent.as_deref().and_then(|name| valid.get(name).copied());
    }
    Ok(Some(parent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_core::amount::Quantity;

    fn quota(name: &str, parent: Option<&str>) -> TenantQuota {
        let mut quota = TenantQuota { name: name.to_owned(), parent: parent.map(str::to_owned), ..Default::default() };
        quota.quota.spec_hard.set("pods".into(), Quantity::from_units(1));
        quota
    }

    #[track_caller]
    fn check(quotas: &[(&str, Option<&str>)], expected: &[&str], expected_problems: &[(&str, &str)]) {
        let quotas: Vec<TenantQuota> = quotas.iter().map(|(name, parent)| quota(name, *parent)).collect();
        let (trees, problems) = trees(&quotas);
        let found: Vec<String> = trees
            .iter()
            .map(|tree| {
                let quotas = tree.quotas.iter().map(|(quota, parent)| match parent {
                    Some(parent) => format!("{}<{}", quota.name, tree.quotas[*parent].0.name),
                    None => quota.name.clone(),
                });
                quotas.collect::<Vec<_>>().join(" ")
            })
            .collect();
        assert_eq!(found, expected);
        assert_eq!(
            problems.iter().map(|(name, problem)| (*name, problem.as_str())).collect::<Vec<_>>(),
            expected_problems
        );
    }

    #[test]
    fn quotas_are_ordered_after_their_parents() {
        check(
            &[("a", None), ("b", Some("a")), ("c", Some("b")), ("d", Some("a")), ("e", None)],
            &["a b<a d<a c<b", "e"],
            &[],
        );
    }

    #[test]
    fn an_unusable_parent_is_reported_and_the_quota_is_enforced_without_it() {
        check(&[("a", Some("z"))], &["a"], &[("a", "parent z does not exist or is not valid")]);
        check(
            &[("a", Some("b")), ("b", Some("a")), ("c", Some("b"))],
            &["a", "b c<b"],
            &[("a", "its parents form a cycle: a -> b -> a"), ("b", "its parents form a cycle: b -> a -> b")],
        );
    }

    #[test]
    fn the_size_of_a_tree_is_limited_and_no_quota_is_lost() {
        let chain: Vec<TenantQuota> = (0..20)
            .map(|at| quota(&format!("q{at:02}"), (at > 0).then(|| format!("q{:02}", at - 1)).as_deref()))
            .collect();
        let (found, problems) = trees(&chain);
        assert_eq!(found.iter().map(|tree| tree.quotas.len()).collect::<Vec<_>>(), [8, 8, 4]);
        assert_eq!(problems.keys().copied().collect::<Vec<_>>(), ["q08", "q16"]);
        let wide: Vec<TenantQuota> =
            (0..100).map(|at| quota(&format!("q{at:02}"), (at > 0).then_some("q00"))).collect();
        let (found, problems) = trees(&wide);
        assert_eq!(found.iter().map(|tree| tree.quotas.len()).sum::<usize>(), 100);
        assert_eq!((found[0].quotas.len(), problems.len()), (64, 36));
    }
}
