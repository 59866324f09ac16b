//! TenantQuotas and their parents as trees.

use std::borrow::Borrow;

use headroom_admission::cluster::tenant_quota::{self, TenantQuota};
use headroom_admission::sort::by_text;

/// The maximum number of levels of a tree: every request is charged at each level.
pub const MAX_LEVELS: usize = 8;
/// The maximum number of quotas of a tree: all of them are stored in one object.
pub const MAX_QUOTAS: usize = 64;

#[derive(Debug, Clone)]
pub struct Tree<'q> {
    /// The root first, children after their parents. With the index of the parent.
    pub quotas: Vec<(&'q TenantQuota<'static>, Option<usize>)>,
}

impl Tree<'_> {
    /// Returns true if the quota or an ancestor may refuse requests in the quota's namespaces.
    pub fn refuses(&self, at: usize) -> bool {
        let mut with_ancestors = std::iter::successors(self.quotas.get(at), |(_, parent)| self.quotas.get((*parent)?));
        with_ancestors.any(|(quota, _)| !quota.is_suspended)
    }
}

/// The reason for which a quota is enforced without its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentProblem {
    pub message: String,
    /// The tree would be too large with the quota. Otherwise the parent does not exist, is not valid, or there is a cycle.
    pub is_limit: bool,
}

/// The trees, and problems with parents by the quota's name, in the order of names. A quota whose parent cannot be used is
/// enforced without it. A quota with problems of its own is not enforced, and its children are enforced without it.
///
/// In a tree that is too large, the newest quotas stay out, so that nobody takes others out by creating one.
pub fn trees<'q>(quotas: &'q [impl Borrow<TenantQuota<'static>>]) -> (Vec<Tree<'q>>, Vec<(&'q str, ParentProblem)>) {
    let mut valid: Vec<&TenantQuota<'static>> =
        quotas.iter().map(Borrow::borrow).filter(|quota| quota.problems().is_empty()).collect();
    by_text(&mut valid, |quota| quota.name());
    let mut problems = Vec::new();
    let mut parents: Vec<Option<usize>> = Vec::new();
    for (place, quota) in valid.iter().enumerate() {
        parents.push(parent_of(place, &valid).unwrap_or_else(|message| {
            problems.push((quota.name(), ParentProblem { message, is_limit: false }));
            None
        }));
    }
    while let Some((at, message)) = excess(&valid, &parents) {
        if let (Some(quota), Some(parent)) = (valid.get(at), parents.get_mut(at)) {
            *parent = None;
            problems.push((quota.name(), ParentProblem { message, is_limit: true }));
        }
    }
    by_text(&mut problems, |(name, _)| name);
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); valid.len()];
    for (child, parent) in parents.iter().enumerate() {
        if let Some(siblings) = parent.and_then(|parent| children.get_mut(parent)) {
            siblings.push(child);
        }
    }
    let tree = |root: usize| {
        let mut places = vec![(root, None)];
        let mut at = 0;
        while let Some((above, _)) = places.get(at).copied() {
            places.extend(children.get(above).into_iter().flatten().map(|child| (*child, Some(at))));
            at += 1;
        }
        Tree { quotas: places.into_iter().filter_map(|(at, parent)| Some((*valid.get(at)?, parent))).collect() }
    };
    let roots = parents.iter().enumerate().filter(|(_, parent)| parent.is_none());
    (roots.map(|(root, _)| tree(root)).collect(), problems)
}

/// The place of a quota that must do without its parent because their tree is too large, and why. `parents` has for each of the
/// quotas the place of its parent.
fn excess(quotas: &[&TenantQuota<'static>], parents: &[Option<usize>]) -> Option<(usize, String)> {
    let parent = |at: usize| parents.get(at).copied().flatten();
    let age = |at: &usize| quotas.get(*at).map(|quota| (&*quota.created, quota.name()));
    // By the place of the root.
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); quotas.len()];
    for at in 0..quotas.len() {
        let path: Vec<usize> = std::iter::successors(Some(at), |at| parent(*at)).collect();
        if path.len() > MAX_LEVELS {
            let newest = path.iter().copied().max_by_key(age)?;
            // The root has no parent to do without, so its child does.
            let out = Some(newest).filter(|at| parent(*at).is_some()).or_else(|| path.iter().copied().nth_back(1))?;
            let above = quotas.get(parent(out)?)?.name();
            return Some((
                out,
                format!("a tree has at most {MAX_LEVELS} levels, and below {above} it would have more"),
            ));
        }
        if let Some(members) = path.last().and_then(|root| members.get_mut(*root)) {
            members.push(at);
        }
    }
    let (root, members) = members.iter().enumerate().find(|(_, members)| members.len() > MAX_QUOTAS)?;
    let newest = members.iter().copied().filter(|at| *at != root).max_by_key(age)?;
    Some((newest, format!("the tree of {} already has {MAX_QUOTAS} quotas", quotas.get(root)?.name())))
}

/// The place of the parent in `valid`, which is in the order of names, or why it cannot be used.
fn parent_of(place: usize, valid: &[&TenantQuota<'static>]) -> Result<Option<usize>, String> {
    let above = |place: &usize| tenant_quota::parent_of(valid, *place);
    let mut ancestors = std::iter::successors(above(&place), above);
    let name = |place: usize| valid.get(place).map_or("", |quota| quota.name());
    let Some(parent) = ancestors.next() else {
        return match valid.get(place).and_then(|quota| quota.parent.as_deref()) {
            Some(parent) => Err(format!("parent {parent} does not exist or is not valid")),
            None => Ok(None),
        };
    };
    let mut path = vec![name(place), name(parent)];
    // A longer path is of a cycle among ancestors, which is reported for them.
    for ancestor in ancestors.take(valid.len()) {
        path.push(name(ancestor));
        if ancestor == place {
            return Err(format!("its parents form a cycle: {}", path.join(" -> ")));
        }
    }
    Ok(Some(parent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_admission::amount::Quantity;

    fn quota(name: &str, parent: Option<&str>) -> TenantQuota<'static> {
        let parent = parent.map(|parent| parent.to_owned().into());
        let mut quota = TenantQuota { parent, ..Default::default() };
        quota.quota.name = name.to_owned().into();
        quota.quota.spec_hard.set("pods".into(), Quantity::from_units(1));
        quota
    }

    #[track_caller]
    fn check(quotas: &[(&str, Option<&str>)], expected: &[&str], expected_problems: &[&str]) {
        let quotas: Vec<TenantQuota<'static>> = quotas.iter().map(|(name, parent)| quota(name, *parent)).collect();
        let (trees, problems) = trees(&quotas);
        let found: Vec<String> = trees
            .iter()
            .map(|tree| {
                let quotas = tree.quotas.iter().map(|(quota, parent)| match parent {
                    Some(parent) => format!("{}<{}", quota.name(), tree.quotas[*parent].0.name()),
                    None => quota.name().to_owned(),
                });
                quotas.collect::<Vec<_>>().join(" ")
            })
            .collect();
        assert_eq!(found, expected);
        let problems: Vec<String> =
            problems.iter().map(|(name, problem)| format!("{name}: {}", problem.message)).collect();
        assert_eq!(problems, expected_problems);
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
        check(&[("a", Some("z"))], &["a"], &["a: parent z does not exist or is not valid"]);
        check(
            &[("a", Some("b")), ("b", Some("a")), ("c", Some("b"))],
            &["a", "b c<b"],
            &["a: its parents form a cycle: a -> b -> a", "b: its parents form a cycle: b -> a -> b"],
        );
    }

    #[test]
    fn the_size_of_a_tree_is_limited_and_no_quota_is_lost() {
        let chain: Vec<TenantQuota<'static>> = (0..20)
            .map(|at| quota(&format!("q{at:02}"), (at > 0).then(|| format!("q{:02}", at - 1)).as_deref()))
            .collect();
        let (found, problems) = trees(&chain);
        assert_eq!(found.iter().map(|tree| tree.quotas.len()).collect::<Vec<_>>(), [8, 8, 4]);
        assert_eq!(problems.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["q08", "q16"]);
        let wide: Vec<TenantQuota<'static>> =
            (0..100).map(|at| quota(&format!("q{at:02}"), (at > 0).then_some("q00"))).collect();
        let (found, problems) = trees(&wide);
        assert_eq!(found.iter().map(|tree| tree.quotas.len()).sum::<usize>(), 100);
        assert_eq!((found[0].quotas.len(), problems.len()), (64, 36));
    }

    #[test]
    fn nobody_takes_another_quota_out_of_its_tree_by_creating_one() {
        let dated = |name: &str, parent: Option<&str>, created: &str| TenantQuota {
            created: created.to_owned().into(),
            ..quota(name, parent)
        };
        let out = |quotas: &[TenantQuota<'static>]| -> Vec<String> {
            trees(quotas).1.iter().map(|(name, _)| (*name).to_owned()).collect()
        };
        let mut full: Vec<TenantQuota<'static>> =
            (0..63).map(|at| dated(&format!("z{at:02}"), Some("acme"), "2026-01-01")).collect();
        full.push(dated("acme", None, "2026-01-01"));
        assert_eq!(out(&full), [""; 0]);
        full.push(dated("new", Some("acme"), "2026-02-01"));
        full.push(dated("a-child-of-new", Some("new"), "2026-01-01"));
        assert_eq!(out(&full), ["new"]);
        // A chain of eight whose last ancestor is created later.
        let parent = |at: usize| format!("q{}", at + 1);
        let chain: Vec<TenantQuota<'static>> = (0..9)
            .map(|at| dated(&format!("q{at}"), Some(&parent(at)), if at == 8 { "2026-02-01" } else { "2026-01-01" }))
            .collect();
        assert_eq!(out(&chain), ["q7", "q8"]);
        // Among equally old quotas, the last by name.
        let equally_old: Vec<_> =
            chain.into_iter().map(|one| TenantQuota { created: Default::default(), ..one }).collect();
        assert_eq!(out(&equally_old), ["q7", "q8"]);
    }
}
