//! The assignment of trees of quotas to ledgers.
//!
//! Small trees share a ledger, so that one write answers requests of several tenants. A tree stays in its ledger: a move
//! charges it twice for a while. The largest leaves a ledger that has become too large.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::plan::Plan;

/// A ledger takes in so many trees: some room is kept for each, so the more there are, the less room one of them can have.
pub const MAX_TREES: usize = 16;
/// A ledger with more takes in no tree: every write contains all its usage.
const FULL: Size = Size { quotas: 32, bytes: 64 * 1024 };
/// A ledger with more gives away its largest tree.
const TOO_LARGE: Size = Size { quotas: 64, bytes: 128 * 1024 };

/// The largest tree, about a fifth of what the API server can store.
const MAX_BYTES: usize = 256 * 1024;

/// Ledgers of trees are named `trees.1`, `trees.2` and so on: never after a tenant, whose name is not for the others.
const PREFIX: &str = "trees.";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Size {
    bytes: usize,
    quotas: usize,
}

impl Size {
    fn of(tree: &Plan) -> Self {
        let (nodes, namespaces) = tree.write();
        let bytes = nodes.iter().chain(&namespaces).map(|line| line.len() + 3).sum();
        Self { quotas: tree.nodes.len(), bytes }
    }

    fn plus(self, other: Self) -> Self {
        Self { quotas: self.quotas + other.quotas, bytes: self.bytes + other.bytes }
    }

    fn exceeds(self, limit: Self) -> bool {
        self.quotas > limit.quotas || self.bytes > limit.bytes
    }
}

/// The problem of a tree that no ledger can have.
pub fn excess(tree: &Plan) -> Option<String> {
    let Size { bytes, .. } = Size::of(tree);
    (bytes > MAX_BYTES)
        .then(|| format!("the tree of quotas and its namespaces need {bytes} bytes, more than {MAX_BYTES}: split it"))
}

/// Trees that are too large for any ledger as far as they are charged now, so that others get new plans beside them; and their
/// problem, by quota.
pub fn fitting(trees: Vec<Plan>, present: &BTreeMap<&str, &Plan>) -> (Vec<Plan>, BTreeMap<String, String>) {
    let (mut fitting, mut problems) = (Vec::new(), BTreeMap::new());
    for tree in trees {
        let Some(problem) = excess(&tree) else {
            fitting.push(tree);
            continue;
        };
        let mut left: BTreeSet<String> = tree.nodes.into_iter().map(|node| node.quota).collect();
        problems.extend(left.iter().map(|quota| (quota.clone(), problem.clone())));
        // Several trees may have become this one. Of a tree that moves, the ledger with the most of it is enough.
        let mut ledgers: Vec<&Plan> = present.values().copied().collect();
        ledgers.sort_by_cached_key(|plan| Reverse(plan.nodes.iter().filter(|node| left.contains(&node.quota)).count()));
        for plan in ledgers {
            let part = plan.part(|_, node| left.contains(&node.quota));
            part.nodes.iter().for_each(|node| _ = left.remove(&node.quota));
            fitting.extend(Some(part).filter(|part| !part.nodes.is_empty()));
        }
    }
    (fitting, problems)
}

/// The plan that each ledger of trees should have. `trees` are the plans of single trees, `present` those of the ledgers that
/// exist. `is_settled` returns true if a ledger has charged all quotas of a tree for longer than a request lasts: until then,
/// the ledgers that had any of them charge the tree too, so that a request which only they know cannot exceed a bound.
pub fn plans(
    trees: &[Plan],
    present: &BTreeMap<&str, &Plan>,
    is_settled: &dyn Fn(&str, &Plan) -> bool,
) -> BTreeMap<String, Plan> {
    let existing = ExistingLedgers::of(present);
    let mut members: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for (at, home) in homes(trees, &existing) {
        let Some(tree) = trees.get(at) else { continue };
        if !is_settled(&home, tree) {
            for ledger in existing.charging(tree) {
                members.entry(ledger.to_owned()).or_default().insert(at);
            }
        }
        members.entry(home).or_default().insert(at);
    }
    let plan = |members: BTreeSet<usize>| Plan::joined(members.iter().filter_map(|at| trees.get(*at)));
    members.into_iter().map(|(ledger, members)| (ledger, plan(members))).collect()
}

struct ExistingLedgers<'p> {
    names: BTreeSet<&'p str>,
    by_quota: HashMap<&'p str, Vec<&'p str>>,
}

impl<'p> ExistingLedgers<'p> {
    fn of(present: &BTreeMap<&'p str, &'p Plan>) -> Self {
        let mut by_quota: HashMap<&str, Vec<&str>> = HashMap::new();
        for (ledger, plan) in present {
            for node in &plan.nodes {
                by_quota.entry(&node.quota).or_default().push(ledger);
            }
        }
        Self { names: present.keys().copied().collect(), by_quota }
    }

    /// The ledgers that charge any quota of a tree, those of its root first.
    fn charging(&self, tree: &Plan) -> impl Iterator<Item = &'p str> {
        tree.nodes.iter().filter_map(|node| self.by_quota.get(node.quota.as_str())).flatten().copied()
    }
}

#[derive(Default)]
struct Place {
    trees: BTreeSet<usize>,
    size: Size,
}

impl Place {
    fn add(&mut self, tree: usize, size: Size) {
        self.trees.insert(tree);
        self.size = self.size.plus(size);
    }

    fn takes(&self, size: Size) -> bool {
        self.trees.len() < MAX_TREES && !self.size.plus(size).exceeds(FULL)
    }
}

fn number_of(ledger: &str) -> Option<usize> {
    ledger.strip_prefix(PREFIX)?.parse().ok()
}

/// The name of the ledger of each tree.
fn homes(trees: &[Plan], existing: &ExistingLedgers<'_>) -> BTreeMap<usize, String> {
    let sizes: Vec<Size> = trees.iter().map(Size::of).collect();
    let size = |at: usize| sizes.get(at).copied().unwrap_or_default();
    let mut places: BTreeMap<usize, Place> = BTreeMap::new();
    // Trees without a ledger, and the ledger that they leave.
    let mut homeless: Vec<(usize, Option<usize>)> = Vec::new();
    for (at, tree) in trees.iter().enumerate() {
        match existing.charging(tree).find_map(number_of) {
            Some(number) => places.entry(number).or_default().add(at, size(at)),
            None => homeless.push((at, None)),
        }
    }
    for (number, place) in &mut places {
        while place.size.exceeds(TOO_LARGE) && place.trees.len() > 1 {
            let Some(largest) = place.trees.iter().copied().max_by_key(|at| size(*at)) else { break };
            place.trees.remove(&largest);
            place.size = place.trees.iter().fold(Size::default(), |sum, at| sum.plus(size(*at)));
            homeless.push((largest, Some(*number)));
        }
    }
    let mut free = (1..).filter(|number| !existing.names.contains(format!("{PREFIX}{number}").as_str()));
    for (at, left) in homeless {
        let size = size(at);
        let is_open = |number: &usize, place: &Place| Some(*number) != left && place.takes(size);
        // A tree that has begun to move goes on.
        let mut charging = trees.get(at).into_iter().flat_map(|tree| existing.charging(tree)).filter_map(number_of);
        let begun = charging
            .find(|number| Some(*number) != left && places.get(number).is_none_or(|place| is_open(number, place)));
        let open = || places.iter().find(|(number, place)| is_open(number, place)).map(|(number, _)| *number);
        let Some(number) = begun.or_else(open).or_else(|| free.next()) else { break };
        places.entry(number).or_default().add(at, size);
    }
    places
        .into_iter()
        .flat_map(|(number, place)| place.trees.into_iter().map(move |tree| (tree, format!("{PREFIX}{number}"))))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::PlanNode;

    /// A tree whose root and quotas are named `a a.0 a.1`, with so many namespaces.
    fn tree(root: &str, quotas: usize, namespaces: usize) -> Plan {
        let nodes = (0..quotas).map(|at| match at {
            0 => format!("{root} 1 - pods=1"),
            _ => format!("{root}.{at} 1 0 pods=1"),
        });
        let namespaces = (0..namespaces).map(|at| format!("{root}-{at:060} 0"));
        Plan::read(1, &nodes.collect::<Vec<_>>(), &namespaces.collect::<Vec<_>>()).unwrap()
    }

    fn small(root: &str) -> Plan {
        tree(root, 1, 1)
    }

    fn roots(plans: &BTreeMap<String, Plan>) -> Vec<String> {
        let line = |(ledger, plan): (&String, &Plan)| {
            format!("{ledger}: {}", plan.names_of_roots().collect::<Vec<_>>().join(" "))
        };
        plans.iter().map(line).collect()
    }

    fn next(trees: &[Plan], present: &BTreeMap<String, Plan>, is_settled: bool) -> BTreeMap<String, Plan> {
        let present = present.iter().map(|(ledger, plan)| (ledger.as_str(), plan)).collect();
        plans(trees, &present, &|_, _| is_settled)
    }

    fn named(ledger: &str, trees: &[Plan]) -> (String, Plan) {
        (ledger.to_owned(), Plan::joined(trees))
    }

    #[track_caller]
    fn check(trees: &[Plan], present: &[(String, Plan)], expected: &[&str], expected_when_settled: &[&str]) {
        let present = present.iter().cloned().collect();
        let moving = next(trees, &present, false);
        assert_eq!(roots(&moving), expected);
        // Each tree is charged by one ledger at the end, and then nothing changes any more.
        let settled = next(trees, &moving, true);
        assert_eq!(roots(&settled), expected_when_settled);
        assert_eq!(next(trees, &settled, false), settled);
    }

    #[test]
    fn small_trees_share_ledgers_and_large_ones_have_their_own() {
        let mut trees: Vec<Plan> = (0..18).map(|at| small(&format!("t{at:02}"))).collect();
        let expected = ["trees.1: t00 t01 t02 t03 t04 t05 t06 t07 t08 t09 t10 t11 t12 t13 t14 t15", "trees.2: t16 t17"];
        check(&trees, &[], &expected, &expected);
        trees.truncate(2);
        trees.insert(1, tree("large", 1, 2000));
        trees.insert(2, tree("wide", 33, 0));
        let expected = ["trees.1: t00 t01", "trees.2: large", "trees.3: wide"];
        check(&trees, &[], &expected, &expected);
    }

    #[test]
    fn a_tree_stays_in_its_ledger() {
        let present = [named("trees.1", &[small("gone")]), named("trees.3", &[small("b"), small("gone-too")])];
        // The first ledger has no quotas any more, and is deleted before its name is used again.
        let expected = ["trees.3: a b"];
        check(&[small("a"), small("b")], &present, &expected, &expected);
        // Another root above it, or none.
        let above = Plan::joined(&[tree("c", 2, 0)]);
        check(&[above], &[named("trees.2", &[small("c.1")])], &["trees.2: c"], &["trees.2: c"]);
        let parts = [small("c"), small("c.1")];
        check(&parts, &[named("trees.2", &[tree("c", 2, 0)])], &["trees.2: c c.1"], &["trees.2: c c.1"]);
    }

    #[test]
    fn the_largest_tree_leaves_a_ledger_that_is_too_large_and_is_charged_in_both_for_a_while() {
        let trees = [small("a"), tree("b", 1, 1500), tree("c", 1, 700)];
        let present = [named("trees.1", &[small("a"), small("b"), small("c")])];
        check(&trees, &present, &["trees.1: a b c", "trees.2: b"], &["trees.1: a c", "trees.2: b"]);
        // Too many quotas.
        let trees = [small("a"), tree("b", 63, 0), tree("c", 2, 0)];
        check(&trees, &present, &["trees.1: a b c", "trees.2: b"], &["trees.1: a c", "trees.2: b"]);
        // Smaller again before it has moved.
        let present = [present[0].clone(), named("trees.2", &[small("b")])];
        let trees = [small("a"), small("b"), small("c")];
        check(&trees, &present, &["trees.1: a b c", "trees.2: b"], &["trees.1: a b c"]);
    }

    #[test]
    fn a_tree_that_joins_another_is_charged_in_both_ledgers_for_a_while() {
        let present = [named("trees.1", &[small("a.1"), small("b")]), named("trees.2", &[small("a")])];
        let trees = [tree("a", 2, 1), small("b")];
        check(&trees, &present, &["trees.1: a b", "trees.2: a"], &["trees.1: a b"]);
    }

    #[test]
    fn trees_that_became_one_that_no_ledger_can_hold_stay_as_they_are() {
        let (first, second) = (named("trees.1", &[small("b"), small("a.1")]), named("trees.2", &[small("a")]));
        let present = BTreeMap::from([&first, &second].map(|(ledger, plan)| (ledger.as_str(), plan)));
        let (trees, problems) = fitting(vec![tree("a", 2, 5000), small("b")], &present);
        assert_eq!(trees.iter().flat_map(Plan::names_of_roots).collect::<Vec<_>>(), ["a.1", "a", "b"]);
        assert_eq!(problems.into_keys().collect::<Vec<_>>(), ["a", "a.1"]);
    }

    #[test]
    fn a_ledger_with_another_name_is_left() {
        let present = [named("a", &[small("a")]), named("b", &[small("b")])];
        let trees = [small("a"), small("b")];
        check(&trees, &present, &["a: a", "b: b", "trees.1: a b"], &["trees.1: a b"]);
    }

    #[test]
    fn a_joined_plan_charges_a_namespace_as_its_trees_do() {
        let mut other = tree("b", 3, 1);
        other.namespaces.insert(format!("a-{:060}", 0), vec![2]);
        let joined = Plan::joined(&[tree("a", 2, 1), other]);
        assert_eq!(joined.nodes_of(&format!("a-{:060}", 0)), [0, 4, 2]);
        assert_eq!(joined.nodes_of(&format!("b-{:060}", 0)), [2]);
        let parents: Vec<Option<usize>> = joined.nodes.iter().map(|node: &PlanNode| node.parent).collect();
        assert_eq!(parents, [None, Some(0), None, Some(2), Some(2)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// However trees come, go and grow: each is charged at any time, at last by one ledger, and a ledger with several
        /// trees is small.
        #[test]
        fn each_tree_is_charged_by_one_ledger_at_last(
            steps in prop::collection::vec(prop::collection::btree_map(0..12_u8, (1..40_usize, 0..900_usize), 0..12), 1..5)
        ) {
            let mut present = BTreeMap::new();
            for step in steps {
                let trees: Vec<Plan> =
                    step.iter().map(|(name, (quotas, namespaces))| tree(&format!("t{name}"), *quotas, *namespaces)).collect();
                for round in 0..4 {
                    let moving = next(&trees, &present, false);
                    for tree in &trees {
                        let root = tree.names_of_roots().next().unwrap();
                        prop_assert!(moving.values().any(|plan| plan.names_of_roots().any(|charged| charged == root)));
                        // No ledger that charged a tree stops before another has charged it for long.
                        for (ledger, plan) in &present {
                            if plan.names_of_roots().any(|charged| charged == root) {
                                prop_assert!(moving[ledger].names_of_roots().any(|charged| charged == root), "{root} {round}");
                            }
                        }
                    }
                    present = next(&trees, &moving, true);
                }
                let settled = next(&trees, &present, false);
                prop_assert_eq!(&settled, &present);
                prop_assert_eq!(settled.values().map(|plan| plan.names_of_roots().count()).sum::<usize>(), trees.len());
                for plan in settled.values().filter(|plan| plan.names_of_roots().nth(1).is_some()) {
                    prop_assert!(!Size::of(plan).exceeds(TOO_LARGE));
                }
            }
        }
    }
}
