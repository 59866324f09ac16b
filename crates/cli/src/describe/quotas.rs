//! The available amounts of each quota, its top consumers, containers without requests, and the accuracy of its status.
//!
//! Usage is counted as the quota server counts it, devices of resource claims with their pods, and attributed to owners.

use std::collections::BTreeMap;
use std::sync::Arc;

use headroom_admission::amount::{Quantity, ResourceList};
use headroom_admission::cluster::resource_quota::ResourceQuota;
use headroom_admission::quota::{Charged, ObjectUsage, QuotaObject};
use headroom_admission::request::Requirement;
use headroom_admission::timestamp::Timestamp;
use headroom_dry_run::quota_levels::share;
use headroom_output::draw::{self, Charset};
use headroom_output::{Page, Paint, Table, people};
use headroom_quota_protocol::plan::PlanNode;
use headroom_quota_protocol::{Cache, Footprint, Plan};

use serde::Serialize;

use super::{GAUGE, MAX_CONSUMERS, kubectl, section, thousandths};

/// An object of the namespace, and the workload that owns it, such as `deployment/web`.
#[derive(Debug, Clone)]
pub struct Owned<'a, 'd> {
    pub owner: String,
    pub object: QuotaObject<'a, 'd>,
    /// The amounts that are counted.
    pub footprint: Arc<Footprint>,
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

#[derive(Clone, Copy)]
pub struct Inventory<'a, 'd> {
    pub namespace: &'a str,
    pub quotas: &'a [ResourceQuota<'d>],
    pub objects: &'a [Owned<'a, 'd>],
    /// The objects of all kinds that could be listed.
    pub cache: &'a Cache,
    pub now: Option<Timestamp>,
}

impl Inventory<'_, '_> {
    pub fn quotas(&self) -> DescribedQuotas {
        let plan = Plan::of_namespace(self.namespace, self.quotas);
        let recounted = self.cache.count(&plan);
        let quotas = self.quotas.iter().zip(&plan.nodes).zip(&recounted);
        DescribedQuotas {
            namespace: self.namespace.to_owned(),
            quotas: quotas.map(|((quota, node), recounted)| self.quota(quota, node, recounted)).collect(),
            without_resources: self.without_resources(),
            notes: Vec::new(),
        }
    }

    fn quota(&self, quota: &ResourceQuota<'_>, node: &PlanNode, recounted: &ResourceList<'_>) -> DescribedQuota {
        let is_charged = |owned: &&Owned<'_, '_>| owned.footprint.matches(&node.requirements);
        let charged: Vec<&Owned<'_, '_>> = self.objects.iter().filter(is_charged).collect();
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
                consumers: Self::consumers(&charged, name, hard),
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
    fn without_resources(&self) -> Vec<Unset> {
        let mut wanted: Vec<(Requirement, &str, String)> = Vec::new();
        let pairs = |requirement| ["cpu", "memory"].map(|resource| (requirement, resource));
        for (requirement, resource) in Requirement::BOTH.into_iter().flat_map(pairs) {
            let name = format!("{}.{resource}", requirement.field());
            let is_counted = |quota: &ResourceQuota<'_>| {
                quota.hard.contains(&name) || requirement == Requirement::Request && quota.hard.contains(resource)
            };
            if requirement == Requirement::Request || self.quotas.iter().any(is_counted) {
                wanted.push((requirement, resource, name));
            }
        }
        let mut unset: BTreeMap<(&str, String, Vec<String>), u64> = BTreeMap::new();
        for Owned { owner, object, .. } in self.objects {
            let Some(pod) = object.pod else { continue };
            // Pods that have ended need no requests.
            if ObjectUsage::of(object, self.now).is_ok_and(|usage| usage.amount(Charged::LivePod).is_none()) {
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
            section(
                &mut page,
                &format!("Containers without requests or limits in namespace {}:", self.namespace),
                table,
            );
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
        let drifted: Vec<&QuotaResource> = self.resources.iter().filter(|level| level.recounted.is_some()).collect();
        if drifted.is_empty() {
            return;
        }
        let mut table = Table::new(&["RESOURCE", "STATUS.USED", "RECOUNTED"]).right(&["STATUS.USED", "RECOUNTED"]);
        for level in drifted {
            let recounted = level.recounted.clone().unwrap_or_default();
            table.row([level.resource.clone(), level.used.clone(), recounted]);
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
