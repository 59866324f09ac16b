//! Refusal messages: Kubernetes' own text first, to the letter, then the shortage and the largest consumers.

use headroom_admission::amount::Quantity;
use headroom_admission::quota::QuotaFault;
use headroom_admission::truncate::shortened;

use crate::ledger::{MAX_BYTES, MAX_CLAIMS, Refusal, Retry, Shortage};
use crate::plan::Plan;
use crate::state::ObjectKey;

/// Usage of a bound by namespace and by child quota, the largest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Consumers {
    pub namespaces: Vec<(String, Quantity)>,
    pub children: Vec<(String, Quantity)>,
}

impl Consumers {
    /// The shares above zero, the largest first.
    pub fn shares(shares: impl IntoIterator<Item = (String, Quantity)>) -> Vec<(String, Quantity)> {
        let mut shares: Vec<_> = shares.into_iter().filter(|(_, amount)| amount.is_positive()).collect();
        shares.sort_by(|(_, one), (_, other)| other.cmp(one));
        shares
    }
}

const MAX_NAMED: usize = 3;

/// The parts of the message of a refused request: Kubernetes' own text for each quota, then each shortage and its largest
/// consumers. `noun` is the type of the plan's quotas, such as `tenant quota`. `consumers` returns the largest consumers of a
/// quota and resource, or none if the message must not name any.
pub fn refusal_parts(
    noun: &str,
    key: &ObjectKey,
    plan: &Plan,
    refusal: &Refusal,
    consumers: &dyn Fn(&str, &str) -> Consumers,
) -> Vec<String> {
    let own = plan.namespaces.get(&key.namespace).map(Vec::as_slice).unwrap_or_default();
    let mut parts: Vec<String> = refusal.quotas.iter().map(|short| short.breach.to_string()).collect();
    if let Some(first) = parts.first_mut() {
        first.insert_str(0, &format!("{} \"{}\" is forbidden: ", key.kind, shortened(&key.name)));
    }
    parts.extend(refusal.quotas.iter().flat_map(|short| shortage(noun, plan, short, own, consumers)));
    parts
}

/// The shortage at one quota. `own` are the nodes that the namespace is charged to directly; all others are ancestors.
fn shortage(
    noun: &str,
    plan: &Plan,
    short: &Shortage,
    own: &[usize],
    consumers: &dyn Fn(&str, &str) -> Consumers,
) -> Vec<String> {
    let Some(node) = plan.nodes.get(short.node) else { return Vec::new() };
    let is_own = own.contains(&short.node);
    let child = own.iter().filter(|_| !is_own).find_map(|below| child_towards(plan, short.node, *below));
    let of = child.map_or(String::new(), |child| format!(" (parent of {child})"));
    let QuotaFault::Exceeded { excesses, .. } = &short.breach.fault else {
        return vec![format!("{noun} {}{of}: not counted yet, or a kind of object cannot be listed", node.quota)];
    };
    let parts = excesses.iter().zip(&short.reserved).map(|(excess, (reserved, unfinished))| match unfinished {
        0 => excess.shortage(""),
        1 => excess.shortage(&format!(", {reserved} of used reserved by 1 unfinished request")),
        more => excess.shortage(&format!(", {reserved} of used reserved by {more} unfinished requests")),
    });
    let parts: Vec<String> = parts.collect();
    let top = excesses.iter().find_map(|excess| {
        // For an ancestor, only its children are named: a tenant must not learn another tenant's namespaces.
        let consumers = consumers(&node.quota, &excess.name);
        let (what, list) = match child {
            Some(_) => ("children", consumers.children),
            None => ("namespaces", consumers.namespaces),
        };
        let list: Vec<String> = list.iter().take(MAX_NAMED).map(|(name, amount)| format!("{name} {amount}")).collect();
        (!list.is_empty()).then(|| format!("top {what}: {}", list.join(", ")))
    });
    [format!("{noun} {}{of}: {}", node.quota, parts.join(", "))].into_iter().chain(top).collect()
}

/// Added if only unfinished requests block the request: when reservations of failed requests are released.
pub fn until_released(seconds: u64) -> String {
    format!("; it fits once unfinished requests end: those that failed are released within about {seconds}s")
}

/// The child of `node` that is `below` or an ancestor of it; none if `below` is not a descendant of `node`.
fn child_towards(plan: &Plan, node: usize, below: usize) -> Option<&str> {
    let parent = |at: &usize| plan.nodes.get(*at).and_then(|node| node.parent);
    let child = std::iter::successors(Some(below), parent).find(|at| parent(at) == Some(node))?;
    plan.nodes.get(child).map(|child| child.quota.as_str())
}

/// The message of an object that is refused whatever is used.
pub fn too_large(key: &ObjectKey, problem: &str) -> String {
    format!("{} \"{}\" is invalid: {problem}", key.kind, shortened(&key.name))
}

pub fn retry(plan: &Plan, key: &ObjectKey, retry: Retry) -> String {
    let quota = plan.root_of(&key.namespace).unwrap_or_default();
    let why = match retry {
        Retry::Claims => format!("too many unfinished requests of this tenant, or {MAX_CLAIMS} of all"),
        Retry::Bytes => {
            format!("unfinished requests of this tenant are too large, or above {} KiB of all", MAX_BYTES / 1024)
        }
        Retry::Pod => "another claim of the same pod is unfinished".to_owned(),
        Retry::Key => "too many unfinished requests for this object".to_owned(),
    };
    format!("quota {quota}: {why}; retry")
}

pub fn not_writable(ledger: &str, cause: &str) -> String {
    format!("ledger {ledger} is not writable ({cause}); retry")
}
