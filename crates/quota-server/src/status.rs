//! The status of TenantQuotas, written if changed: at once, or if only usage has changed again, some seconds after the last
//! write. One takes the API server as long as several pods.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use headroom_admission::amount::{Quantity, ResourceList};
use headroom_api_server::event::EventType;
use headroom_api_server::parts::locked;
use headroom_quota_protocol::plan::PlanNode;
use headroom_quota_protocol::tree::{ParentProblem, trees};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::custom_resources::{Condition, Consumer, TenantQuotaStatus};
use crate::ledger_cache::View;
use crate::metrics::QuotaLabels;
use crate::objects::{API_VERSION, TENANT_QUOTAS, namespace_of, to_amounts};
use crate::replica::{FailureLog, Replica};
use crate::tenants::ParsedQuota;

const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// The least time between two writes of a status of which only usage has changed.
const USAGE_INTERVAL: Duration = Duration::from_secs(5);
/// The time within which changed bounds are usually in force.
const LATE: Duration = Duration::from_secs(5);
const OF_USAGE: [&str; 6] = ["used", "reserved", "namespaces", "children", "request", "limit"];
/// The maximum number of listed namespaces and of children. What the API server needs for a status grows with it, to 10 ms.
const MAX_LISTED: usize = 50;
/// The number of the largest namespaces that are listed for each bound.
const LISTED_FOR_EACH: usize = 10;

pub async fn report(replica: Arc<Replica>) {
    let mut log = FailureLog::default();
    let mut times = Times::default();
    loop {
        let next = Instant::now() + REPORT_INTERVAL;
        let is_configured = replica.options.webhook.is_none() || locked(&replica.unconfigured).is_some();
        if is_configured && replica.tenants.is_listed() && replica.ledgers.is_listed() {
            report_once(&replica, &mut log, &mut times).await;
        }
        tokio::time::sleep_until(next).await;
    }
}

/// By quota.
#[derive(Default)]
struct Times {
    /// When the status was last written.
    written: HashMap<String, Instant>,
    /// Since when the ledger has had bounds of another generation.
    differs: HashMap<String, Instant>,
}

/// Used and reserved amounts, by node.
type Usage = Vec<(ResourceList<'static>, ResourceList<'static>)>;

/// The ledger that charges a quota, and the quota's node there.
#[derive(Clone, Copy)]
struct ChargedNode<'c> {
    view: &'c View,
    usage: &'c Usage,
    at: usize,
    node: &'c PlanNode,
}

async fn report_once(replica: &Replica, log: &mut FailureLog, times: &mut Times) {
    times.written.retain(|_, at| at.elapsed() < USAGE_INTERVAL);
    let quotas = replica.tenants.quotas();
    let parents: HashMap<&str, ParentProblem> = trees(&quotas).1.into_iter().collect();
    let mut views = replica.ledgers.views();
    views.retain(|view| namespace_of(&view.ledger).is_none());
    // Computed once for each ledger, not for each of its quotas.
    let ledgers: Vec<(&View, Usage)> = views.iter().map(|view| (view, view.used_and_reserved())).collect();
    replica.metrics.set_quotas(samples(&ledgers));
    let places = ledgers.iter().flat_map(|(view, usage)| {
        let nodes = view.plan.nodes.iter().enumerate();
        nodes.map(move |(at, node)| (node.quota.as_str(), ChargedNode { view, usage, at, node }))
    });
    let places: HashMap<&str, ChargedNode> = places.collect();
    let too_large = locked(&replica.too_large).clone();
    let unconfigured = locked(&replica.unconfigured).clone().unwrap_or_default();
    let known_quotas = replica.tenants.known_quotas();
    times.differs.retain(|name, _| known_quotas.contains_key(name));
    for (name, ParsedQuota { object, quota }) in known_quotas {
        let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
        let problem = match &quota {
            Ok(quota) => {
                let of_parent = parents.get(name.as_str()).map(|problem| problem.message.clone());
                let problems = quota.problems().into_iter().map(|problem| problem.to_string()).chain(of_parent);
                problems.chain(too_large.get(&name).cloned()).collect::<Vec<_>>().join("; ")
            }
            Err(problem) => problem.clone(),
        };
        let charged = places.get(name.as_str()).copied();
        let in_force = charged.and_then(|place| place.node.generation.try_into().ok()).or(generation);
        if in_force == generation {
            times.differs.remove(&name);
        } else if times.differs.entry(name.clone()).or_insert_with(Instant::now).elapsed() < LATE {
            // Until then the status names the generation that is in force.
            continue;
        }
        let mut status = match (&quota, charged) {
            (Ok(_), Some(place)) => amounts(replica, place),
            _ => TenantQuotaStatus::default(),
        };
        status.observed_generation = in_force;
        let known = object.pointer("/status/conditions").cloned().unwrap_or_default();
        // Conditions that somebody else wrote in another form are replaced.
        let known: Vec<Condition> = serde_json::from_value(known).unwrap_or_default();
        // The kinds of the quota that cannot be counted. Other quotas of the ledger are of other tenants.
        let lost = charged.map(|place| replica.counter.lost(&place.node.watched_kinds().collect())).unwrap_or_default();
        let conditions = conditions([generation, in_force], charged, [&unconfigured, &problem], &lost, &known);
        let news = news(&known, &conditions);
        status.conditions = Some(conditions);
        let before = object.get("status").cloned().unwrap_or_default();
        let mut after = serde_json::to_value(status).unwrap_or_default();
        if let Value::Object(fields) = &mut after {
            fields.retain(|_, value| !value.is_null());
        }
        if let Some(patch) =
            patch(&before, &after).filter(|patch| !is_of_usage(patch) || !times.written.contains_key(&name))
        {
            let path = TENANT_QUOTAS.at(&name).at("status");
            if let Err(failure) = replica.api.merge(&path, &json!({"status": patch})).await {
                replica.metrics.failed_statuses.inc();
                log.add(&format!("cannot write the status of TenantQuota {name}"), &failure);
                continue;
            }
            times.written.insert(name, Instant::now());
            for (kind, reason, message) in news {
                replica.events.record((API_VERSION, "TenantQuota", &object), kind, &reason, &message).await;
            }
        }
    }
}

/// Events for changed conditions: new problems, and recoveries.
fn news(before: &[Condition], after: &[Condition]) -> Vec<(EventType, String, String)> {
    let is_new = |condition: &&Condition| match before.iter().find(|known| known.r#type == condition.r#type) {
        Some(known) => known.reason != condition.reason,
        // A new quota is not in force for a moment.
        None => condition.status != "True" && condition.reason != "NotInForce",
    };
    let event_of = |condition: &Condition| {
        let kind = if condition.status == "True" { EventType::Normal } else { EventType::Warning };
        (kind, condition.reason.clone(), condition.message.clone())
    };
    after.iter().filter(is_new).map(event_of).collect()
}

fn samples(ledgers: &[(&View, Usage)]) -> Vec<(QuotaLabels, Quantity)> {
    let mut samples = Vec::new();
    for (view, usage) in ledgers {
        for (node, (used, reserved)) in view.plan.nodes.iter().zip(usage) {
            for (r#type, amounts) in [("hard", &node.hard), ("used", used), ("reserved", reserved)] {
                samples.extend(amounts.iter().map(|(name, amount)| {
                    (QuotaLabels { quota: node.quota.clone(), resource: name.to_string(), r#type }, amount.clone())
                }));
            }
        }
    }
    samples
}

/// The amounts by the bounds in force.
fn amounts(replica: &Replica, place: ChargedNode) -> TenantQuotaStatus {
    let ChargedNode { view, usage, at, node } = place;
    let empty = (ResourceList::default(), ResourceList::default());
    let (used, reserved) = usage.get(at).unwrap_or(&empty);
    let namespaces = replica.counter.namespaces(&view.plan, at);
    let count = namespaces.len();
    let consumer = |name: &str, used| Consumer { name: name.to_owned(), used: to_amounts(used) };
    let namespaces = largest(namespaces, &node.hard);
    let namespaces = namespaces.iter().map(|(name, used)| consumer(name, used));
    let children = view.plan.nodes.iter().zip(usage).filter(|(child, _)| child.parent == Some(at)).take(MAX_LISTED);
    let children = children.map(|(child, (used, _))| consumer(&child.quota, used));
    let held = |name: &str| {
        let reserved = reserved.get(name).cloned().unwrap_or(Quantity::ZERO);
        used.get(name).map_or("unknown".to_owned(), |used| used.plus(&reserved).to_string())
    };
    let column = |is_limit: bool| {
        let names = node.hard.iter().filter(|(name, _)| name.starts_with("limits.") == is_limit);
        let parts: Vec<String> = names.map(|(name, hard)| format!("{name}: {}/{hard}", held(name))).collect();
        // Old API servers treat an empty string as absent, and refuse that.
        Some(parts.join(", ")).filter(|text| !text.is_empty())
    };
    TenantQuotaStatus {
        hard: (!node.is_suspended).then(|| to_amounts(&node.hard)),
        used: Some(to_amounts(used)),
        reserved: Some(to_amounts(reserved)),
        exempt_namespaces: Some(replica.tenants.exempt.iter().cloned().collect()),
        namespace_count: i64::try_from(count).ok(),
        namespaces: Some(namespaces.collect()),
        children: Some(children.collect()),
        request: column(false),
        limit: column(true),
        ..TenantQuotaStatus::default()
    }
}

/// The largest namespaces of each bound, and those first that have the largest part of any.
fn largest(
    namespaces: Vec<(String, ResourceList<'static>)>,
    hard: &ResourceList<'static>,
) -> Vec<(String, ResourceList<'static>)> {
    let mut listed = BTreeSet::new();
    for bound in hard.names() {
        let used = namespaces.iter().enumerate().filter_map(|(at, (_, used))| Some((at, used.get(bound)?)));
        let mut used: Vec<(usize, &Quantity)> = used.filter(|(_, used)| used.is_positive()).collect();
        used.sort_by(|(_, one), (_, other)| other.cmp(one));
        listed.extend(used.into_iter().take(LISTED_FOR_EACH).map(|(at, _)| at));
    }
    let namespaces = namespaces.into_iter().enumerate().filter(|(at, _)| listed.contains(at));
    let mut namespaces: Vec<_> = namespaces.map(|(_, namespace)| namespace).collect();
    namespaces.sort_by_cached_key(|(_, used)| Reverse(weight(used, hard)));
    namespaces.truncate(MAX_LISTED);
    namespaces
}

/// The weight of a consumer for sorting: its largest part of any bound, in millionths.
fn weight(used: &ResourceList<'static>, hard: &ResourceList<'static>) -> u64 {
    let parts = hard.paired_with(used).filter_map(|(_, hard, used)| {
        let (used, hard) = (u128::try_from(used?.milli_value()).ok()?, u128::try_from(hard.milli_value()).ok()?);
        u64::try_from(used.saturating_mul(1_000_000) / hard.max(1)).ok()
    });
    parts.max().unwrap_or_default()
}

fn conditions(
    [generation, in_force]: [Option<i64>; 2],
    charged: Option<ChargedNode>,
    [unconfigured, problem]: [&str; 2],
    lost: &BTreeMap<String, String>,
    before: &[Condition],
) -> Vec<Condition> {
    let over = charged.map(over).unwrap_or_default();
    let ready = if charged.is_none() {
        (false, "NotInForce", "no ledger charges this quota yet".to_owned())
    } else if generation != in_force {
        let [new, old] = [generation, in_force].map(Option::unwrap_or_default);
        let problem = format!("the bounds of generation {new} are not in force yet, but those of generation {old}");
        (false, "NotInForce", problem)
    } else if !unconfigured.is_empty() {
        (false, "NotConfigured", format!("perhaps not enforced: {unconfigured}"))
    } else if !lost.is_empty() {
        let lost: Vec<String> = lost.iter().map(|(kind, problem)| format!("{kind}: {problem}")).collect();
        (false, "NotCounted", format!("cannot count {}", lost.join("; ")))
    } else if charged.is_some_and(|place| place.node.is_suspended) {
        (false, "Suspended", "suspended: usage is counted, but nothing is rejected".to_owned())
    } else {
        (true, "InForce", "enforced and counted".to_owned())
    };
    let valid = match problem {
        "" => (true, "Valid", "the quota is valid".to_owned()),
        problem => (false, "Invalid", problem.to_owned()),
    };
    let within = match over.is_empty() {
        true => (true, "WithinBounds", "used is within hard".to_owned()),
        false => (false, "AboveBounds", format!("used exceeds hard: {}; only growth is rejected", over.join(", "))),
    };
    let condition = |kind: &str, generation, (is, reason, message): (bool, &str, String)| {
        let state = if is { "True" } else { "False" };
        let same = before.iter().find(|known| known.r#type == kind).filter(|known| known.status == state);
        let since = same.map(|same| same.last_transition_time.clone()).filter(|since| !since.is_empty());
        Condition {
            r#type: kind.to_owned(),
            status: state.to_owned(),
            reason: reason.to_owned(),
            message,
            last_transition_time: since.unwrap_or_else(|| Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
            observed_generation: generation,
        }
    };
    vec![
        condition("Ready", generation, ready),
        condition("WithinBounds", in_force, within),
        condition("Valid", generation, valid),
    ]
}

fn over(ChargedNode { view, at, node, .. }: ChargedNode) -> Vec<String> {
    let Some(used) = view.state.used.get(at) else { return Vec::new() };
    let over = node.hard.paired_with(used).filter(|(_, hard, used)| used.is_some_and(|used| used > *hard));
    over.map(|(name, hard, used)| format!("{name} {}/{hard}", used.map(ToString::to_string).unwrap_or_default()))
        .collect()
}

fn is_of_usage(patch: &Value) -> bool {
    patch.as_object().is_some_and(|fields| fields.keys().all(|field| OF_USAGE.contains(&field.as_str())))
}

/// A merge patch from one object to the other; none if they are equal.
fn patch(before: &Value, after: &Value) -> Option<Value> {
    match (before, after) {
        (before, after) if before == after => None,
        (Value::Object(old), Value::Object(new)) => {
            let mut fields: Map<String, Value> =
                old.keys().filter(|name| !new.contains_key(*name)).map(|name| (name.clone(), Value::Null)).collect();
            for (name, value) in new {
                if let Some(part) = patch(old.get(name).unwrap_or(&Value::Null), value) {
                    fields.insert(name.clone(), part);
                }
            }
            Some(Value::Object(fields))
        }
        _ => Some(after.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changed_conditions_cause_events() {
        let condition = |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason, "message": "why"});
        let read = |conditions: Value| -> Vec<Condition> { serde_json::from_value(conditions).unwrap() };
        let check = |before: Option<Value>, after: Value, expected: &[(EventType, &str)]| {
            let news = news(&before.map(read).unwrap_or_default(), &read(after));
            assert_eq!(news.iter().map(|(kind, reason, _)| (*kind, reason.as_str())).collect::<Vec<_>>(), expected);
        };
        let well = || json!([condition("Ready", "True", "InForce"), condition("Valid", "True", "Valid")]);
        check(None, well(), &[]);
        check(Some(well()), well(), &[]);
        check(None, json!([condition("Ready", "False", "NotInForce")]), &[]);
        check(None, json!([condition("Valid", "False", "Invalid")]), &[(EventType::Warning, "Invalid")]);
        check(Some(well()), json!([condition("Ready", "False", "Suspended")]), &[(EventType::Warning, "Suspended")]);
        check(Some(json!([condition("Ready", "False", "Suspended")])), well(), &[(EventType::Normal, "InForce")]);
    }

    #[test]
    fn the_largest_namespaces_of_each_bound_are_listed() {
        let list = |pods: u64, cpu: u64| -> ResourceList<'static> {
            let amounts = [("pods", pods), ("requests.cpu", cpu)];
            amounts.map(|(name, amount)| (name.into(), amount.to_string().parse().unwrap())).into_iter().collect()
        };
        // Many with few pods and some CPU, and one with many pods and hardly any.
        let mut namespaces: Vec<_> = (0..30).map(|at| (format!("n{at:02}"), list(1, 30 - at))).collect();
        namespaces.push(("pods".to_owned(), list(9, 1)));
        namespaces.push(("empty".to_owned(), list(0, 0)));
        let names: Vec<String> = largest(namespaces, &list(1000, 100)).into_iter().map(|(name, _)| name).collect();
        let cpu = ["n00", "n01", "n02", "n03", "n04", "n05", "n06", "n07", "n08", "n09"];
        assert_eq!(names, [&cpu[..], &["pods"]].concat());
    }

    #[test]
    fn a_patch_contains_only_changes() {
        let check = |before: Value, after: Value, expected: Option<Value>| assert_eq!(patch(&before, &after), expected);
        check(json!({"used": {"pods": "1"}}), json!({"used": {"pods": "1"}}), None);
        check(
            json!({"used": {"pods": "1", "cpu": "1"}, "count": 1}),
            json!({"used": {"pods": "2"}, "count": 1}),
            Some(json!({"used": {"pods": "2", "cpu": null}})),
        );
        check(Value::Null, json!({"used": {}}), Some(json!({"used": {}})));
        let is_of_usage =
            |after: Value| is_of_usage(&patch(&json!({"used": {"pods": "1"}, "hard": {"pods": "2"}}), &after).unwrap());
        assert!(is_of_usage(json!({"used": {"pods": "2"}, "hard": {"pods": "2"}, "request": "pods: 2/2"})));
        assert!(!is_of_usage(json!({"used": {"pods": "2"}, "hard": {"pods": "3"}})));
    }
}
