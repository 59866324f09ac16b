//! A plan: the quotas of one ledger, and which of them each namespace is charged to.
//!
//! All replicas charge by the same plan, because the ledger names the current one. A plan never changes; a change of
//! quotas or namespaces creates the next plan.

use std::borrow::{Borrow, Cow};
use std::collections::{BTreeMap, BTreeSet};

use headroom_admission::amount::ResourceList;
use headroom_admission::cluster::resource_quota::ResourceQuota;
use headroom_admission::quota::charged_names::{RESOURCE_CLAIMS, kinds_charged_under};
use headroom_admission::quota::{Breach, QuotaFault};

use crate::devices::{self, DEVICE_CLASSES};
use crate::encoding;
use crate::tree::Tree;
use headroom_admission::cluster::label_selector::{Labels, Requirement};
use headroom_admission::cluster::tenant_quota::TenantQuota;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    pub number: u64,
    /// Parents come before their children.
    pub nodes: Vec<PlanNode>,
    /// The nodes that each namespace is charged to directly; their ancestors are charged too.
    pub namespaces: BTreeMap<String, Vec<usize>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanNode {
    pub quota: String,
    pub generation: u64,
    pub parent: Option<usize>,
    pub hard: ResourceList<'static>,
    pub requirements: Vec<Requirement<'static>>,
    /// Usage is counted, but nothing is refused.
    pub is_suspended: bool,
}

impl PlanNode {
    /// The node of a quota, with bounds that can be read back. No cluster has as much as [`encoding::max_amount`].
    fn of(quota: &ResourceQuota<'_>) -> Self {
        let hard = quota.spec_hard.iter();
        let hard = hard.map(|(name, hard)| (name.to_string().into(), encoding::capped(hard.clone())));
        Self {
            quota: quota.name.to_string(),
            hard: ResourceList::in_order(hard),
            requirements: quota.requirements().map(|requirement| requirement.into_owned().into_owned()).collect(),
            ..Self::default()
        }
    }

    fn kinds(&self) -> impl Iterator<Item = String> {
        self.hard.names().flat_map(|name| kinds_charged_under(name)).map(str::to_owned)
    }

    /// The kinds that are charged at this quota, and those without which they cannot be counted.
    pub fn watched_kinds(&self) -> impl Iterator<Item = String> {
        self.kinds().flat_map(|kind| {
            let needed = (kind == RESOURCE_CLAIMS).then(|| DEVICE_CLASSES.to_owned());
            [kind].into_iter().chain(needed)
        })
    }

    /// The node as a ResourceQuota of the core.
    pub fn as_quota(&self, used: ResourceList<'static>) -> ResourceQuota<'_> {
        ResourceQuota {
            name: Cow::Borrowed(&self.quota),
            hard: self.hard.clone(),
            used,
            selector: self.requirements.clone(),
            ..ResourceQuota::default()
        }
    }

    /// A breach of this quota. The caller's message names the type of quota.
    pub fn breach(&self, fault: QuotaFault<'static>) -> Breach<'static> {
        Breach { quota: Some(self.quota.clone().into()), is_tenant: false, fault }
    }
}

/// Marks a suspended quota in its line. No amount and no scope starts with `!`.
const SUSPENDED: &str = "!suspended";

impl Plan {
    /// The plan of a tree of quotas, given the labels of all namespaces except exempt ones.
    pub fn of_tree(tree: &Tree<'_>, namespaces: &[(String, Labels)]) -> Self {
        let nodes = tree.quotas.iter().map(|(quota, parent)| PlanNode {
            generation: quota.generation,
            parent: *parent,
            is_suspended: quota.is_suspended,
            ..PlanNode::of(&quota.quota)
        });
        let covering = |(name, labels): &(String, Labels)| {
            let covers = |quota: &TenantQuota<'_>| quota.covers(name, labels);
            let direct: Vec<usize> =
                tree.quotas.iter().enumerate().filter(|(_, (quota, _))| covers(quota)).map(|(at, _)| at).collect();
            (!direct.is_empty()).then(|| (name.clone(), direct))
        };
        Self { number: 0, nodes: nodes.collect(), namespaces: namespaces.iter().filter_map(covering).collect() }
    }

    /// The plan of a ledger with several trees.
    pub fn joined<'p>(trees: impl IntoIterator<Item = &'p Self>) -> Self {
        let mut plan = Self::default();
        for tree in trees {
            let before = plan.nodes.len();
            plan.nodes.extend(tree.nodes.iter().map(|node| {
                let parent = node.parent.map(|parent| parent + before);
                PlanNode { parent, ..node.clone() }
            }));
            for (namespace, nodes) in &tree.namespaces {
                plan.namespaces.entry(namespace.clone()).or_default().extend(nodes.iter().map(|node| node + before));
            }
        }
        plan
    }

    pub fn of_namespace<'q>(namespace: &str, quotas: &[impl Borrow<ResourceQuota<'q>>]) -> Self {
        let nodes: Vec<PlanNode> = quotas.iter().map(Borrow::borrow).map(PlanNode::of).collect();
        let namespaces = BTreeMap::from([(namespace.to_owned(), (0..nodes.len()).collect())]);
        Self { number: 0, nodes, namespaces }
    }

    /// The part that one namespace is charged to, if `direct` are the nodes that it is charged to directly.
    pub fn of_one(mut self, namespace: &str, direct: Vec<usize>) -> Self {
        self.namespaces = BTreeMap::from([(namespace.to_owned(), direct)]);
        let kept = self.nodes_of(namespace);
        self.part(|at, _| kept.contains(&at))
    }

    /// The part with these nodes. One without its parent is a root.
    pub fn part(&self, keeps: impl Fn(usize, &PlanNode) -> bool) -> Self {
        let kept = || self.nodes.iter().enumerate().filter(|(at, node)| keeps(*at, node));
        let places: Vec<usize> = kept().map(|(at, _)| at).collect();
        let place = |old: &usize| places.binary_search(old).ok();
        let node =
            |(_, node): (usize, &PlanNode)| PlanNode { parent: node.parent.as_ref().and_then(place), ..node.clone() };
        let charged = self.namespaces.iter().filter_map(|(name, direct)| {
            let direct: Vec<usize> = direct.iter().filter_map(place).collect();
            (!direct.is_empty()).then(|| (name.clone(), direct))
        });
        Self { number: self.number, nodes: kept().map(node).collect(), namespaces: charged.collect() }
    }

    /// Returns true if both plans are equal except for their numbers.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.nodes == other.nodes && self.namespaces == other.namespaces
    }

    /// The nodes that objects of a namespace are charged to: direct ones first, then their ancestors.
    pub fn nodes_of(&self, namespace: &str) -> Vec<usize> {
        let mut nodes: Vec<usize> = self.namespaces.get(namespace).cloned().unwrap_or_default();
        let mut at = 0;
        while let Some(node) = nodes.get(at) {
            if let Some(parent) = self.nodes.get(*node).and_then(|node| node.parent)
                && !nodes.contains(&parent)
            {
                nodes.push(parent);
            }
            at += 1;
        }
        nodes
    }

    /// The quotas that may refuse a request in a namespace.
    pub fn enforced_nodes(&self, namespace: &str) -> impl Iterator<Item = &PlanNode> {
        self.nodes_of(namespace).into_iter().filter_map(|node| self.nodes.get(node)).filter(|node| !node.is_suspended)
    }

    pub fn roots(&self) -> impl Iterator<Item = usize> {
        self.nodes.iter().enumerate().filter(|(_, node)| node.parent.is_none()).map(|(at, _)| at)
    }

    pub fn names_of_roots(&self) -> impl Iterator<Item = &str> {
        self.roots().filter_map(|root| self.nodes.get(root)).map(|node| node.quota.as_str())
    }

    /// The highest quota that a namespace is charged to, by which people know the tree.
    pub fn root_of(&self, namespace: &str) -> Option<&str> {
        let root = *self.nodes_of(namespace).last()?;
        self.nodes.get(root).map(|root| root.quota.as_str())
    }

    /// The kinds whose objects are charged, such as `pods` and `deployments.apps`.
    pub fn kinds(&self) -> BTreeSet<String> {
        self.nodes.iter().flat_map(PlanNode::kinds).collect()
    }

    pub fn watched_kinds(&self) -> BTreeSet<String> {
        self.nodes.iter().flat_map(PlanNode::watched_kinds).collect()
    }

    /// Returns true if devices of resource claims are charged for objects of a namespace under a name of pods.
    pub fn shares_devices(&self, namespace: &str) -> bool {
        let nodes = self.nodes_of(namespace).into_iter().filter_map(|node| self.nodes.get(node));
        nodes.flat_map(|node| node.hard.names()).any(|name| devices::is_shared_with_pods(name))
    }

    /// The lines of nodes and of namespaces. A node is name, generation, parent, bounds and scopes:
    /// `payments 3 0 pods=500 requests.cpu=100 ~PriorityClass:In:high,mid`.
    pub fn write(&self) -> (Vec<String>, Vec<String>) {
        let node = |node: &PlanNode| {
            let parent = node.parent.map_or("-".to_owned(), |parent| parent.to_string());
            let mut words = vec![encoding::escape(&node.quota).into_owned(), node.generation.to_string(), parent];
            words.extend(node.is_suspended.then(|| SUSPENDED.to_owned()));
            words.push(encoding::line_of_amounts(&node.hard));
            words.extend(node.requirements.iter().map(|Requirement { key, operator, values }| {
                let values: Vec<Cow<'_, str>> = values.iter().map(|value| encoding::escape(value)).collect();
                format!("~{}:{}:{}", encoding::escape(key), operator.name(), values.join(","))
            }));
            words.join(" ")
        };
        let namespace = |(name, nodes): (&String, &Vec<usize>)| {
            let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            format!("{} {}", encoding::escape(name), nodes.join(","))
        };
        (self.nodes.iter().map(node).collect(), self.namespaces.iter().map(namespace).collect())
    }

    pub fn read(number: u64, nodes: &[impl AsRef<str>], namespaces: &[impl AsRef<str>]) -> Result<Self, String> {
        let mut plan = Self { number, ..Self::default() };
        for line in nodes {
            plan.nodes.push(read_node(line.as_ref(), plan.nodes.len())?);
        }
        for line in namespaces {
            let line: &str = line.as_ref();
            let (name, nodes) = line.split_once(' ').ok_or_else(|| encoding::unreadable(line, "expected nodes"))?;
            let place = |word: &str| {
                let place = encoding::read_number(word)?.try_into().unwrap_or(usize::MAX);
                if place < plan.nodes.len() {
                    Ok(place)
                } else {
                    Err(encoding::unreadable(line, "there is no such node"))
                }
            };
            plan.namespaces.insert(encoding::unescape(name)?, nodes.split(',').map(place).collect::<Result<_, _>>()?);
        }
        Ok(plan)
    }
}

fn read_node(line: &str, place: usize) -> Result<PlanNode, String> {
    let mut words = line.split_whitespace();
    let (Some(quota), Some(generation), Some(parent)) = (words.next(), words.next(), words.next()) else {
        return Err(encoding::unreadable(line, "expected name, generation and parent"));
    };
    let parent = match parent {
        "-" => None,
        // Every node comes after its parent, so there is no cycle.
        number => match usize::try_from(encoding::read_number(number)?) {
            Ok(parent) if parent < place => Some(parent),
            _ => return Err(encoding::unreadable(line, "the parent must be on an earlier line")),
        },
    };
    let generation = encoding::read_number(generation)?;
    let mut node = PlanNode { quota: encoding::unescape(quota)?, generation, parent, ..PlanNode::default() };
    for word in words {
        if word == SUSPENDED {
            node.is_suspended = true;
            continue;
        }
        let Some(requirement) = word.strip_prefix('~') else {
            let (name, amount) = encoding::read_amount(word)?;
            node.hard.set(name.into(), amount);
            continue;
        };
        let mut parts = requirement.splitn(3, ':');
        let (Some(scope), Some(operator), Some(values)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(encoding::unreadable(word, "expected `~scope:operator:values`"));
        };
        let values = values.split(',').filter(|value| !value.is_empty());
        node.requirements.push(Requirement {
            key: encoding::unescape(scope)?.into(),
            operator: operator.into(),
            values: values.map(|value| encoding::unescape(value).map(Into::into)).collect::<Result<_, _>>()?,
        });
    }
    Ok(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::trees;
    use headroom_admission::json::Document;

    fn quotas() -> Vec<TenantQuota<'static>> {
        let texts = [
            r#"{"metadata": {"name": "acme", "generation": 4}, "spec": {"quota": {"hard": {"pods": "10", "count/jobs.batch": "2"}}}}"#,
            r#"{"metadata": {"name": "shop"}, "spec": {"parent": "acme", "namespaces": {"names": ["shop", "web"]},
                "quota": {"hard": {"requests.cpu": "1500m"}, "scopes": ["NotTerminating"], "scopeSelector": {"matchExpressions":
                [{"scopeName": "PriorityClass", "operator": "In", "values": ["high", "a b"]}]}}}}"#,
            r#"{"metadata": {"name": "web"}, "spec": {"parent": "acme", "namespaces": {"selector": {"matchLabels": {"web": ""}}},
                "suspend": true, "quota": {"hard": {"services": "1"}}}}"#,
        ];
        texts.iter().map(|text| TenantQuota::read(Document::read(text).unwrap().root()).unwrap().into_owned()).collect()
    }

    #[test]
    fn a_namespace_is_charged_to_all_quotas_that_cover_it_and_to_their_ancestors() {
        let quotas = quotas();
        let (found, _) = trees(&quotas);
        let labels = |web: bool| if web { Labels::from([("web".to_owned(), String::new())]) } else { Labels::new() };
        let namespaces =
            [("shop", false), ("web", true), ("other", false)].map(|(name, web)| (name.to_owned(), labels(web)));
        let mut plan = Plan::of_tree(&found[0], &namespaces);
        assert_eq!(plan.nodes_of("shop"), [1, 0]);
        assert_eq!(plan.nodes_of("web"), [1, 2, 0]);
        assert_eq!(plan.nodes_of("other"), [0; 0]);
        assert_eq!(plan.kinds().into_iter().collect::<Vec<_>>(), ["jobs.batch", "pods", "services"]);

        let (nodes, namespaces) = plan.write();
        assert_eq!(
            nodes,
            [
                "acme 4 - count/jobs.batch=2 pods=10",
                "shop 0 0 requests.cpu=1500m ~NotTerminating:Exists: ~PriorityClass:In:high,a%20b",
                "web 0 0 !suspended services=1"
            ]
        );
        assert_eq!(namespaces, ["shop 1", "web 1,2"]);
        plan.number = 7;
        assert_eq!(Plan::read(7, &nodes, &namespaces).unwrap(), plan);

        assert_eq!((plan.root_of("web"), plan.root_of("other")), (Some("acme"), None));
        assert_eq!(plan.watched_kinds(), plan.kinds());
        let of_one = plan.of_one("new", vec![2]).write();
        assert_eq!(of_one, (vec![nodes[0].clone(), nodes[2].clone()], vec!["new 1".to_owned()]));
    }

    #[test]
    fn a_namespace_is_charged_to_all_its_resource_quotas() {
        let texts = [
            r#"{"metadata": {"name": "compute"}, "spec": {"hard": {"requests.cpu": "4"}, "scopes": ["NotTerminating"]}}"#,
            r#"{"metadata": {"name": "devices"}, "spec": {"hard": {"requests.example.com/gpu": "2"}}}"#,
        ];
        let documents = texts.map(|text| Document::read(text).unwrap());
        let quotas: Vec<_> = documents.iter().map(|text| ResourceQuota::read(text.root()).unwrap()).collect();
        let plan = Plan::of_namespace("shop", &quotas);
        let (nodes, namespaces) = plan.write();
        assert_eq!(
            nodes,
            ["compute 0 - requests.cpu=4 ~NotTerminating:Exists:", "devices 0 - requests.example.com/gpu=2"]
        );
        assert_eq!(namespaces, ["shop 0,1"]);
        assert!(plan.shares_devices("shop") && !plan.shares_devices("other"));
        assert!(plan.watched_kinds().contains(DEVICE_CLASSES));
        assert!(!Plan::of_namespace("shop", &quotas[..1]).shares_devices("shop"));
    }

    #[test]
    fn a_plan_is_the_same_with_another_number_but_not_with_other_quotas_or_namespaces() {
        let plan = |number: u64, node: &str, namespace: &str| Plan::read(number, &[node], &[namespace]).unwrap();
        let first = plan(1, "acme 4 - pods=1", "shop 0");
        assert!(first.is_same_as(&plan(2, "acme 4 - pods=1", "shop 0")));
        assert!(!first.is_same_as(&plan(1, "acme 5 - pods=2", "shop 0")));
        assert!(!first.is_same_as(&plan(1, "acme 4 - pods=1", "web 0")));
    }

    #[test]
    fn an_error_in_a_plan_quotes_the_line() {
        let check = |node: &str, namespace: &str, expected: &str| {
            assert_eq!(Plan::read(1, &[node], &[namespace]).unwrap_err().to_string(), expected);
        };
        check("acme 4", "a 0", "cannot read `acme 4`: expected name, generation and parent");
        check("acme 4 0 pods=1", "a 0", "cannot read `acme 4 0 pods=1`: the parent must be on an earlier line");
        check("acme 4 - pods=x", "a 0", "cannot read `pods=x`: expected a quantity such as `500m`");
        check("acme 4 - pods=1", "a 1", "cannot read `a 1`: there is no such node");
    }
}
