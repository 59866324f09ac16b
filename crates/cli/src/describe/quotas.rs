//! The available amounts of each quota, its top consumers, containers without requests, and the accuracy of its status.
//!
//! Usage is counted as the quota server counts it, devices of resource claims with their pods, and attributed to owners.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_admission::amount::{Quantity, ResourceList};
use headroom_admission::cluster::resource_quota::ResourceQuota;
use headroom_admission::json::{Document, Malformed};
use headroom_admission::quota::charged_names::{RESOURCE_CLAIMS, kinds_charged_under};
use headroom_admission::quota::{Charged, ChargedKind, ObjectUsage, QuotaObject, Stored};
use headroom_admission::request::Requirement;
use headroom_admission::timestamp::Timestamp;
use headroom_dry_run::quota_levels::share;
use headroom_objects::cluster_reader::ClusterReader;
use headroom_objects::document;
use headroom_objects::kinds::{ApiKind, metadata};
use headroom_output::draw::{self, Charset};
use headroom_output::{Page, Paint, Table, people};
use headroom_quota_protocol::cache::CachedObject;
use headroom_quota_protocol::devices::{DEVICE_CLASSES, Link};
use headroom_quota_protocol::plan::PlanNode;
use headroom_quota_protocol::{Cache, Footprint, ObjectKey, Plan};
use headroom_workloads::WorkloadRef;
use serde::Serialize;
use serde_json::Value;

use super::{GAUGE, MAX_CONSUMERS, kubectl, section, thousandths};

/// An object of the namespace, and the workload that owns it, such as `deployment/web`.
struct Owned<'a, 'd> {
    owner: String,
    object: QuotaObject<'a, 'd>,
    /// The amounts that are counted.
    footprint: Arc<Footprint>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DescribedQuotas {
    pub namespace: String,
    pub quotas: Vec<DescribedQuota>,
    /// Containers of pods that have no request or no limit for what a quota counts.
    pub without_resources: Vec<Unset>,
    /// The objects that could not be recounted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DescribedQuota {
    pub name: String,
    #[serde(skip)]
    pub as_kubectl: String,
    pub resources: Vec<QuotaResource>,
}

/// One name that a quota bounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaResource {
    pub resource: String,
    pub used: String,
    pub hard: String,
    pub free: String,
    /// Percent of `hard`, rounded down; none for a bound of zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<u64>,
    /// The result of recounting the objects, if it differs from `used`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recounted: Option<String>,
    /// The top consumers first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub consumers: Vec<QuotaConsumer>,
    #[serde(skip)]
    parts: (u64, u64),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QuotaConsumer {
    pub owner: String,
    /// Objects of it that are charged under this name.
    pub objects: u64,
    pub amount: String,
    /// Percent of `hard`, rounded down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<u64>,
}

/// A container without some request or limit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unset {
    pub owner: String,
    pub container: String,
    /// Such as `requests.cpu`.
    pub missing: Vec<String>,
    pub pods: u64,
}

/// The kinds that are charged to quotas or decide what is charged, pods among them in any case, and names under which
/// nothing can be counted.
pub fn kinds_of<'q>(quotas: &[&'q Value]) -> (BTreeMap<String, ApiKind>, BTreeSet<&'q str>) {
    let mut kinds: BTreeMap<String, ApiKind> = BTreeMap::new();
    let mut add = |qualified: &str| match ApiKind::counted(qualified) {
        // Their contents would have to be read to count them.
        Some(kind) if kind.kind != "Secret" => _ = kinds.insert(qualified.to_owned(), kind),
        _ => {}
    };
    add("pods");
    let names = quotas.iter().filter_map(|quota| quota.pointer("/spec/hard")?.as_object()).flat_map(|hard| hard.keys());
    let names: BTreeSet<&'q str> = names.map(String::as_str).collect();
    names.iter().flat_map(|name| kinds_charged_under(name)).for_each(&mut add);
    if names.iter().any(|name| kinds_charged_under(name).any(|kind| kind == RESOURCE_CLAIMS)) {
        add(DEVICE_CLASSES);
    }
    let is_counted = |name: &&str| kinds_charged_under(name).next().is_some_and(|kind| kinds.contains_key(kind));
    let uncounted = names.into_iter().filter(|name| !is_counted(name)).collect();
    (kinds, uncounted)
}

/// The quotas of a namespace with what is charged to them.
pub fn quotas_of(
    namespace: &str,
    now: Option<Timestamp>,
    quotas: &[&Value],
    around: &mut dyn ClusterReader,
) -> Result<DescribedQuotas, Malformed> {
    let mut notes = Vec::new();
    let (kinds, uncounted) = kinds_of(quotas);
    if !uncounted.is_empty() {
        let names: Vec<&str> = uncounted.into_iter().collect();
        notes.push(format!("not recounted: {}", names.join(", ")));
    }
    let mut cache = Cache::default();
    let mut objects = Vec::new();
    for (qualified, kind) in kinds {
        match around.list((&kind.api_version(), &kind.kind, kind.is_namespaced.then_some(namespace))) {
            Ok(listed) => {
                cache.advance(&qualified, 1);
                objects.extend(listed.into_iter().map(|object| (qualified.clone(), object)));
            }
            // Before Kubernetes 1.34 devices are charged for pods alone.
            Err(problem)
                if problem.is_unknown_kind() && matches!(qualified.as_str(), RESOURCE_CLAIMS | DEVICE_CLASSES) =>
            {
                cache.advance(&qualified, 1);
            }
            Err(problem) => notes.push(format!("{qualified} are not recounted: {problem}")),
        }
    }
    let quota_documents = quotas.iter().map(|quota| read(quota)).collect::<Result<Vec<_>, _>>()?;
    let mut quotas =
        quota_documents.iter().map(|document| ResourceQuota::read(document.root())).collect::<Result<Vec<_>, _>>()?;
    quotas.sort_by(|one, other| one.name.cmp(&other.name));
    let documents = objects.iter().map(|(_, object)| read(object)).collect::<Result<Vec<_>, _>>()?;
    let mut read_objects = Vec::new();
    for ((kind, object), document) in objects.iter().zip(&documents) {
        let key = ObjectKey::new(kind, namespace, metadata(object, "name"));
        let footprint = Footprint::of_stored(kind, document.root(), now)?.into();
        let link = Link::read(kind, document.root())?.map(Box::new);
        let uid = metadata(object, "uid").to_owned();
        cache.put(key.clone(), CachedObject { uid, version: 1, footprint, ends: None, link });
        if kind != DEVICE_CLASSES {
            let stored = Stored::read(ChargedKind::from_qualified(kind), document.root())?;
            read_objects.push((key, owner_of(object), stored));
        }
    }
    let owned = read_objects.iter().map(|(key, owner, stored)| Owned {
        owner: owner.clone(),
        object: stored.object(),
        footprint: cache.counted_of(key, &[]).unwrap_or_default(),
    });
    let owned: Vec<Owned<'_, '_>> = owned.collect();
    let plan = Plan::of_namespace(namespace, &quotas);
    let counted = cache.count(&plan);
    let levels = quotas.iter().zip(&plan.nodes).zip(&counted);
    Ok(DescribedQuotas {
        namespace: namespace.to_owned(),
        quotas: levels.map(|((quota, node), recounted)| described(quota, node, recounted, &owned)).collect(),
        without_resources: without_resources(&quotas, &owned, now),
        notes,
    })
}

fn read(object: &Value) -> Result<Document<'static>, Malformed> {
    document(object).map_err(|problem| Malformed { path: "object".to_owned(), problem })
}

/// The workload that owns an object: `deployment/web` for the pods of its ReplicaSets.
fn owner_of(object: &Value) -> String {
    let owner = WorkloadRef::owner_of(object).unwrap_or_else(|| WorkloadRef::of(object));
    owner.deployment_of(object).unwrap_or(owner).to_string()
}

fn described(
    quota: &ResourceQuota<'_>,
    node: &PlanNode,
    recounted: &ResourceList<'_>,
    objects: &[Owned<'_, '_>],
) -> DescribedQuota {
    let is_charged = |owned: &&Owned<'_, '_>| owned.footprint.matches(&node.requirements);
    let charged: Vec<&Owned<'_, '_>> = objects.iter().filter(is_charged).collect();
    let levels = quota.hard.iter().map(|(name, hard)| {
        let used = quota.used.get(name).cloned().unwrap_or(Quantity::ZERO);
        let free = if used < *hard { hard.minus(&used) } else { Quantity::ZERO.plus(&hard.minus(hard)) };
        let recounted = recounted.get(name).filter(|recounted| **recounted != used);
        // The suffixes that a recount is best compared in.
        let family = if used.is_zero() { hard.family() } else { used.family() };
        QuotaResource {
            resource: name.to_string(),
            used: used.to_string(),
            hard: hard.to_string(),
            free: free.to_string(),
            percent: share(&used, hard, 100),
            recounted: recounted.map(|recounted| recounted.to_family(family).to_string()),
            consumers: consumers(&charged, name, hard),
            parts: (thousandths(&used), thousandths(hard)),
        }
    });
    DescribedQuota { name: quota.name.to_string(), as_kubectl: kubectl::quota(quota), resources: levels.collect() }
}

/// The owners of the most that is charged under a name.
fn consumers(charged: &[&Owned<'_, '_>], name: &str, hard: &Quantity) -> Vec<QuotaConsumer> {
    let mut owners: BTreeMap<&str, (Quantity, u64)> = BTreeMap::new();
    for Owned { owner, footprint, .. } in charged {
        let Some(amount) = footprint.amounts.get(name) else { continue };
        let (sum, objects) = owners.entry(owner).or_insert((Quantity::ZERO, 0));
        *sum = sum.plus(amount);
        *objects += u64::from(amount.is_positive());
    }
    let mut all: Vec<_> = owners.into_iter().filter(|(_, (amount, _))| amount.is_positive()).collect();
    // Those of one amount stay in the order of their names.
    all.sort_by(|(_, (one, _)), (_, (other, _))| other.cmp(one));
    let found = all.into_iter().take(MAX_CONSUMERS).map(|(owner, (amount, objects))| QuotaConsumer {
        owner: owner.to_owned(),
        objects,
        percent: share(&amount, hard, 100),
        amount: amount.to_string(),
    });
    found.collect()
}

/// Containers of live pods without what a quota of the namespace counts, or without requests if there is no quota.
fn without_resources(quotas: &[ResourceQuota<'_>], objects: &[Owned<'_, '_>], now: Option<Timestamp>) -> Vec<Unset> {
    let mut wanted: Vec<(Requirement, &str, String)> = Vec::new();
    let pairs = |requirement| ["cpu", "memory"].map(|resource| (requirement, resource));
    for (requirement, resource) in Requirement::BOTH.into_iter().flat_map(pairs) {
        let name = format!("{}.{resource}", requirement.field());
        let is_counted = |quota: &ResourceQuota<'_>| {
            quota.hard.contains(&name) || requirement == Requirement::Request && quota.hard.contains(resource)
        };
        if requirement == Requirement::Request || quotas.iter().any(is_counted) {
            wanted.push((requirement, resource, name));
        }
    }
    let mut unset: BTreeMap<(&str, String, Vec<String>), u64> = BTreeMap::new();
    for Owned { owner, object, .. } in objects {
        let Some(pod) = object.pod else { continue };
        // Pods that have ended need no requests.
        if ObjectUsage::of(object, now).is_ok_and(|usage| usage.amount(Charged::LivePod).is_none()) {
            continue;
        }
        for container in &pod.containers {
            let is_missing = |(requirement, resource, _): &&(Requirement, &str, String)| {
                container.resources.quantity(*requirement, resource).is_none()
                    && pod.resources.quantity(*requirement, resource).is_none()
            };
            let missing: Vec<String> = wanted.iter().filter(is_missing).map(|(_, _, name)| name.clone()).collect();
            if !missing.is_empty() {
                *unset.entry((owner, container.name.to_string(), missing)).or_default() += 1;
            }
        }
    }
    let found = unset.into_iter().map(|((owner, container, missing), pods)| Unset {
        owner: owner.to_owned(),
        container,
        missing,
        pods,
    });
    found.collect()
}

/// In percent.
const ALMOST_FULL: u64 = 80;

impl DescribedQuotas {
    pub fn page(&self, charset: Charset, paint: Paint) -> Page {
        let mut page = Page::new();
        for quota in &self.quotas {
            page.gap();
            page.lines(&quota.as_kubectl);
        }
        if self.quotas.is_empty() {
            writeln!(page, "No ResourceQuota in namespace {}.", self.namespace);
        }
        for quota in &self.quotas {
            quota.usage(&mut page, charset, paint);
        }
        for quota in &self.quotas {
            quota.biggest(&mut page);
        }
        for quota in &self.quotas {
            quota.drift(&mut page);
        }
        if !self.without_resources.is_empty() {
            let mut table = Table::new(&["OWNER", "CONTAINER", "PODS", "MISSING"]);
            for Unset { owner, container, missing, pods } in &self.without_resources {
                table.row([owner.clone(), container.clone(), pods.to_string(), missing.join(", ")]);
            }
            let heading = format!("Containers without requests or limits in namespace {}:", self.namespace);
            section(&mut page, &heading, table);
        }
        if !self.notes.is_empty() {
            page.gap();
        }
        self.notes.iter().for_each(|note| writeln!(page, "Note: {note}"));
        page
    }
}

impl DescribedQuota {
    fn usage(&self, page: &mut Page, charset: Charset, paint: Paint) {
        let mut table = Table::new(&["RESOURCE", "USED", "HARD", "AVAILABLE", "FULL", ""])
            .right(&["USED", "HARD", "AVAILABLE", "FULL"])
            .spare(&[""]);
        for level in &self.resources {
            let share = level.percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent}%"));
            let (part, whole) = level.parts;
            let gauge = draw::gauge(part, whole, GAUGE, charset);
            let painted = match level.percent {
                Some(ALMOST_FULL..100) => paint.yellow(&gauge),
                Some(100..) => paint.red(&gauge),
                _ => paint.green(&gauge),
            };
            let [used, hard, free] = people::row(&level.resource, [&level.used, &level.hard, &level.free]);
            table.row([level.resource.clone(), used, hard, free, share, painted]);
        }
        section(page, &format!("Usage of quota {}:", self.name), table);
    }

    fn biggest(&self, page: &mut Page) {
        let mut table = Table::new(&["RESOURCE", "OWNER", "OBJECTS", "AMOUNT", "OF QUOTA"])
            .right(&["OBJECTS", "AMOUNT", "OF QUOTA"]);
        for level in &self.resources {
            for consumer in &level.consumers {
                let share = consumer.percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent}%"));
                let QuotaConsumer { owner, objects, amount, .. } = consumer;
                let [amount] = people::row(&level.resource, [amount]);
                table.row([level.resource.clone(), owner.clone(), objects.to_string(), amount, share]);
            }
        }
        if !table.is_empty() {
            section(page, &format!("Top consumers of quota {}:", self.name), table);
        }
    }

    fn drift(&self, page: &mut Page) {
        let mut table = Table::new(&["RESOURCE", "STATUS.USED", "RECOUNTED"]).right(&["STATUS.USED", "RECOUNTED"]);
        for QuotaResource { resource, used, recounted, .. } in &self.resources {
            if let Some(recounted) = recounted {
                table.row([resource, used, recounted].map(String::clone));
            }
        }
        if table.is_empty() {
            return;
        }
        let heading = format!("Quota {}: status.used differs from a recount:", self.name);
        section(page, &heading, table);
        writeln!(
            page,
            "  The quota controller recounts within minutes; if the difference remains, check the log of \
             kube-controller-manager."
        );
    }
}

#[cfg(test)]
mod tests {
    use headroom_objects::cluster_reader::Folder;
    use serde_json::json;

    use super::*;

    fn described(quota: Value, requests: &[Value]) -> DescribedQuotas {
        let mut cluster = Folder::default();
        for (number, requests) in requests.iter().enumerate() {
            let metadata = json!({"name": number.to_string(), "namespace": "shop"});
            let containers = json!([{"name": "main", "resources": {"requests": requests}}]);
            let spec = json!({"containers": containers});
            cluster.put(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})).unwrap();
        }
        quotas_of("shop", None, &[&quota], &mut cluster).unwrap()
    }

    fn quota(scopes: Value, hard: Value, used: Value) -> Value {
        json!({"metadata": {"name": "team", "namespace": "shop"}, "spec": {"hard": hard, "scopes": scopes},
            "status": {"hard": hard, "used": used}})
    }

    #[test]
    fn a_quota_lists_the_pods_that_its_scopes_are_about() {
        let quota = quota(json!(["BestEffort"]), json!({"pods": "2"}), json!({"pods": "0"}));
        let found = described(quota, &[json!({}), json!({"cpu": "1"})]);
        let level = &found.quotas[0].resources[0];
        assert_eq!((level.recounted.as_deref(), level.consumers[0].amount.as_str()), (Some("1"), "1"));
        assert_eq!(found.without_resources[0].missing, ["requests.cpu", "requests.memory"]);
    }

    #[test]
    fn bounds_of_nothing_and_levels_above_the_bound_are_shown_as_they_are() {
        let hard = json!({"pods": "0", "requests.memory": "1Gi"});
        let used = json!({"pods": "0", "requests.memory": "3Gi"});
        let found = described(quota(json!([]), hard, used), &[json!({"memory": "3Gi"})]);
        let [pods, memory] = [0, 1].map(|place| &found.quotas[0].resources[place]);
        assert_eq!((pods.free.as_str(), pods.percent, pods.recounted.as_deref()), ("0", None, Some("1")));
        assert_eq!((memory.free.as_str(), memory.percent, memory.recounted.as_deref()), ("0", Some(300), None));
    }
}
