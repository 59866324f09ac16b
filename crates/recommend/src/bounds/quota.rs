//! Quotas as large as what is charged to them needs: ResourceQuotas as they are, TenantQuotas that cover the namespaces, and a
//! new ResourceQuota for a namespace that has neither.

use std::collections::BTreeSet;

use headroom_admission::amount::Quantity;
use headroom_admission::timestamp::Timestamp;
use headroom_admission::truncate::count_of;
use headroom_dry_run::Overlay;
use headroom_dry_run::evaluate::{Admission, request, tenant_quotas};
use headroom_dry_run::overlay::tenants::TENANT_QUOTA;
use headroom_dry_run::quota_levels::{QuotaKey, QuotaLevels};
use headroom_dry_run::simulate::{charged, put};
use headroom_objects::cluster_reader::ClusterReader;
use headroom_objects::cluster_reader::folder::amount_of;
use headroom_objects::kinds::{ApiKind, items, metadata};
use headroom_output::people::Unit;
use headroom_usage::DAY;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::consumer::WorkloadConsumer;
use crate::advice::amounts::{some_text, text};
use crate::advice::flag::date;

/// Quotas are sized for the growth of so many days.
pub const DAYS: u64 = 30;

/// The name of a ResourceQuota that there is not yet.
const NEW: &str = "compute";
const NAMES: [&str; 3] = ["requests.cpu", "requests.memory", "pods"];
/// A bound that nothing reaches, until it is known.
const UNBOUNDED: &str = "1E";
/// A day on which a quota is full is named up to so many days ahead.
const FORESEEN: i64 = 365;

/// The usage of a quota in the last 30 days, as a metrics store knows it.
#[derive(Debug, Clone)]
pub struct Past {
    /// Empty for a TenantQuota.
    pub namespace: String,
    /// Empty for what all pods of a namespace request.
    pub quota: String,
    pub name: String,
    pub peak: Quantity,
    /// Less than nothing where it shrinks.
    pub per_day: Quantity,
}

pub struct Evidence<'a> {
    pub namespaces: &'a [String],
    pub consumers: &'a [WorkloadConsumer],
    pub past: &'a [Past],
    pub now: Timestamp,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaProposal {
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    pub amounts: Vec<Proposed>,
    /// To commit.
    pub object: Value,
}

/// One name of a quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Proposed {
    pub resource: String,
    #[serde(serialize_with = "text")]
    pub used: Quantity,
    /// Today's bound.
    #[serde(serialize_with = "some_text", skip_serializing_if = "Option::is_none")]
    pub hard: Option<Quantity>,
    #[serde(serialize_with = "text")]
    pub proposed: Quantity,
    /// The rest of today's bound.
    #[serde(serialize_with = "some_text", skip_serializing_if = "Option::is_none")]
    pub unused: Option<Quantity>,
    #[serde(serialize_with = "text")]
    pub unused_then: Quantity,
    /// The days on which usage reaches both bounds, if it does within a year.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_then: Option<String>,
    pub reason: String,
}

/// The amounts that a pod of a consumer is charged, now and after right-sizing.
type Charged<'a> = (&'a WorkloadConsumer, [Vec<(QuotaKey, Quantity)>; 2]);

/// Proposes a bound for every name of every quota, and puts nothing but new quotas without a bound into the cluster.
pub fn propose(
    evidence: &Evidence<'_>,
    admission: &Admission,
    cluster: &mut Overlay,
) -> Result<Vec<QuotaProposal>, String> {
    tenant_quotas::prepare(cluster)?;
    let mut quotas = Vec::new();
    for namespace in evidence.namespaces {
        quotas.extend(cluster.list(("v1", "ResourceQuota", Some(namespace)))?);
    }
    let charged_by = |consumer: &WorkloadConsumer, cluster: &mut Overlay| {
        let namespace = &consumer.key.namespace;
        [&consumer.pod, &consumer.right_sized].map(|pod| charged(pod, namespace, admission, cluster))
    };
    let mut all: Vec<Charged<'_>> = evidence.consumers.iter().map(|of| (of, charged_by(of, cluster))).collect();
    let has_quota: BTreeSet<&str> = quotas.iter().map(|quota| metadata(quota, "namespace")).collect();
    let mut is_new = Vec::new();
    for namespace in evidence.namespaces.iter().filter(|namespace| !has_quota.contains(namespace.as_str())) {
        let is_here = |of: &WorkloadConsumer| of.key.namespace == *namespace;
        let is_charged = all.iter().any(|(of, [now, _])| is_here(of) && !now.is_empty());
        let pods: Vec<&Value> = evidence.consumers.iter().filter(|of| is_here(of)).map(|of| &of.pod).collect();
        if is_charged || pods.is_empty() {
            continue;
        }
        let hard: Map<String, Value> = NAMES
            .iter()
            .filter(|name| pods.iter().all(|pod| has_request(pod, name, admission, cluster)))
            .map(|name| ((*name).to_owned(), json!(UNBOUNDED)))
            .collect();
        let metadata = json!({"name": NEW, "namespace": namespace});
        let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}});
        put(quota.clone(), cluster)?;
        is_new.push(quota);
        all.iter_mut().filter(|(of, _)| is_here(of)).for_each(|(of, amounts)| *amounts = charged_by(of, cluster));
    }
    let is_charged = |quota: &Value| {
        let amounts = || all.iter().flat_map(|(_, [now, _])| now);
        amounts().any(|(key, _)| key.namespace.is_empty() && key.quota == metadata(quota, "name"))
    };
    let tenants = cluster.list((TENANT_QUOTA.0, TENANT_QUOTA.1, None)).unwrap_or_default();
    quotas.extend(tenants.into_iter().filter(is_charged));
    let counted = |cluster: &mut Overlay, quota: &Value| {
        cluster.get(("v1", "ResourceQuota", Some(metadata(quota, "namespace"))), metadata(quota, "name")).ok()?
    };
    let levels: Vec<Value> =
        quotas.iter().cloned().chain(is_new.iter().filter_map(|quota| counted(cluster, quota))).collect();
    let levels = QuotaLevels::of(&levels);
    let both = quotas.iter().map(|quota| (quota, false)).chain(is_new.iter().map(|quota| (quota, true)));
    let mut proposals: Vec<QuotaProposal> =
        both.map(|(quota, is_new)| evidence.proposal(quota, is_new, &all, &levels)).collect();
    proposals.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Ok(proposals)
}

/// True if each container of a pod has the request that a quota's name bounds, once the pod is admitted: others would be
/// rejected.
fn has_request(pod: &Value, name: &str, admission: &Admission, cluster: &mut Overlay) -> bool {
    let Some(resource) = name.strip_prefix("requests.") else { return true };
    let admitted = admission.evaluate(request::create(pod.clone(), &ApiKind::new("v1", "Pod"), ""), cluster);
    let lists = ["/spec/containers", "/spec/initContainers"];
    let path = format!("/resources/requests/{resource}");
    lists.iter().flat_map(|list| items(admitted.outcome(), list)).all(|container| container.pointer(&path).is_some())
}

/// The place of the bounds in a quota.
pub fn hard_of(kind: &str) -> &'static str {
    if kind == TENANT_QUOTA.1 { "/spec/quota/hard" } else { "/spec/hard" }
}

/// The sum of what consumers need under one name of a quota.
#[derive(Debug)]
struct Need {
    pods: u64,
    steady: Quantity,
    autoscaled: Quantity,
    periodic: Quantity,
    surge: Quantity,
    /// The consumer with the largest rollout.
    surge_of: String,
}

impl Need {
    fn of<'a>(
        key: &QuotaKey,
        charged: impl Iterator<Item = (&'a WorkloadConsumer, &'a Vec<(QuotaKey, Quantity)>)>,
    ) -> Self {
        let zero = Quantity::ZERO;
        let (steady, autoscaled, periodic, surge) = (zero.clone(), zero.clone(), zero.clone(), zero);
        let mut need = Self { pods: 0, steady, autoscaled, periodic, surge, surge_of: String::new() };
        for (WorkloadConsumer { key: workload, counts, .. }, amounts) in charged {
            let of_name = amounts.iter().filter(|(of, _)| of == key);
            let amount = of_name.fold(Quantity::ZERO, |sum, (_, amount)| sum.plus(amount));
            if amount.is_zero() {
                continue;
            }
            if counts.is_periodic {
                need.periodic = need.periodic.plus(&amount.times_count(counts.most));
                continue;
            }
            need.pods += counts.steady;
            need.steady = need.steady.plus(&amount.times_count(counts.steady));
            need.autoscaled = need.autoscaled.plus(&amount.times_count(counts.most - counts.steady));
            let surge = amount.times_count(counts.surge);
            if surge > need.surge {
                (need.surge, need.surge_of) = (surge, workload.to_string());
            }
        }
        need
    }

    fn total(&self) -> Quantity {
        self.steady.plus(&self.autoscaled).plus(&self.periodic).plus(&self.surge)
    }

    /// `1800m for 14 pods, 600m up to the maxima of autoscalers`
    fn explained(&self) -> String {
        let pods = count_of(self.pods, "pod");
        let parts = [
            (&self.steady, format!("for {pods}")),
            (&self.autoscaled, "up to the maxima of autoscalers".to_owned()),
            (&self.periodic, "for all CronJobs at once".to_owned()),
            (&self.surge, format!("for a rollout of {}", self.surge_of)),
        ];
        let parts = parts.into_iter().filter(|(amount, _)| !amount.is_zero());
        parts.map(|(amount, what)| format!("{amount} {what}")).collect::<Vec<_>>().join(", ")
    }
}

impl Evidence<'_> {
    fn proposal(&self, quota: &Value, is_new: bool, charged: &[Charged<'_>], levels: &QuotaLevels) -> QuotaProposal {
        let kind = ApiKind::of(quota);
        let (namespace, name) = (metadata(quota, "namespace").to_owned(), metadata(quota, "name").to_owned());
        let place = match namespace.as_str() {
            "" => json!({"name": name}),
            namespace => json!({"name": name, "namespace": namespace}),
        };
        let mut object = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": place,
            "spec": quota.get("spec")});
        let is_scoped = ["/spec/scopes", "/spec/scopeSelector"].iter().any(|field| quota.pointer(field).is_some());
        let mut amounts = Vec::new();
        let hard = object.pointer_mut(hard_of(&kind.kind)).and_then(Value::as_object_mut);
        for (resource, bound) in hard.into_iter().flatten() {
            let key = QuotaKey { namespace: namespace.clone(), quota: name.clone(), name: resource.clone() };
            let today = amount_of(bound).filter(|_| !is_new);
            let used = levels.get(&key).map_or(Quantity::ZERO, |level| level.used.clone());
            let proposed = self.proposed(&key, used, today, !is_scoped, charged);
            *bound = json!(proposed.proposed.to_string());
            amounts.push(proposed);
        }
        QuotaProposal { kind: kind.kind, namespace, name, amounts, object }
    }

    fn proposed(
        &self,
        key: &QuotaKey,
        used: Quantity,
        hard: Option<Quantity>,
        counts_all: bool,
        charged: &[Charged<'_>],
    ) -> Proposed {
        let need =
            |place: usize| Need::of(key, charged.iter().filter_map(|(of, amounts)| Some((*of, amounts.get(place)?))));
        let (today, right_sized) = (need(0), need(1));
        let is_of =
            |past: &&Past, quota: &str| past.namespace == key.namespace && past.quota == quota && past.name == key.name;
        let of_quota = |quota: &str| self.past.iter().find(|past| is_of(past, quota));
        let past = of_quota(&key.quota).or_else(|| of_quota("").filter(|_| counts_all && !key.namespace.is_empty()));
        let (proposed, reason) = match &hard {
            Some(hard) if today.total().is_zero() && right_sized.total().is_zero() => {
                let reason = match used.is_positive() {
                    true => format!("as it is: not charged by pods; {used} of {hard} used"),
                    false => "as it is: nothing here is charged for it".to_owned(),
                };
                (hard.clone(), reason)
            }
            _ => Self::sized(&key.name, &used, [&today, &right_sized], past),
        };
        let full = |hard: &Quantity| {
            let per_day = past.map(|past| &past.per_day).filter(|per_day| per_day.is_positive())?;
            let days = hard.minus(&used).milli_value().max(0) / per_day.milli_value().max(1);
            (days <= FORESEEN).then(|| date(self.now.unix_seconds() + days * DAY))
        };
        Proposed {
            resource: key.name.clone(),
            unused: hard.as_ref().map(|hard| hard.minus(&used)),
            unused_then: proposed.minus(&used),
            full: hard.as_ref().and_then(full),
            full_then: full(&proposed),
            used,
            hard,
            proposed,
            reason,
        }
    }

    /// An amount for what is needed, and why. Unless right-sized requests alone count, it also has room for those of today.
    fn sized(name: &str, used: &Quantity, [today, after]: [&Need; 2], past: Option<&Past>) -> (Quantity, String) {
        // Pods that are gone were as large as those of today, so they become as much smaller.
        let scaled = |amount: &Quantity, need: &Need| {
            let [all, part] = [today, need].map(|need| u64::try_from(need.total().milli_value()).unwrap_or(0));
            if all == part { amount.clone() } else { amount.scaled(part, all.max(1)) }
        };
        let growth = past.map(|past| past.per_day.times_count(DAYS)).filter(Quantity::is_positive);
        let whole = |need: &Need| {
            let peak = past.map(|past| scaled(&past.peak, need)).filter(|peak| *peak > need.total());
            let growth = growth.as_ref().map(|growth| scaled(growth, need));
            let base = peak.clone().unwrap_or_else(|| need.total());
            let more =
                growth.clone().unwrap_or_else(|| if past.is_none() { base.scaled(1, 5) } else { Quantity::ZERO });
            (base.plus(&more), peak, growth)
        };
        let (of_today, of_after) = (whole(today), whole(after));
        let is_today = of_today.0 > of_after.0;
        let (need, (total, peak, growth)) = if is_today { (today, of_today) } else { (after, of_after.clone()) };
        let mut reason = match peak {
            Some(peak) => format!("{} was the peak of {DAYS} days", rounded(name, &peak)),
            None => need.explained(),
        };
        if past.is_none() {
            reason.push_str(", and a fifth, since peaks and growth are not known");
        }
        if let Some(growth) = growth {
            reason.push_str(&format!(", {} for {DAYS} days of growth", rounded(name, &growth)));
        }
        if *used > total {
            return (rounded(name, used), format!("{used} is used now; {reason}"));
        }
        let enough = rounded(name, &of_after.0);
        if is_today && enough < rounded(name, &total) {
            reason.push_str(&format!("; {enough} once the recommendations are applied"));
        }
        (rounded(name, &total), reason)
    }
}

/// An amount as people write it in a quota.
fn rounded(name: &str, amount: &Quantity) -> Quantity {
    let size = amount.value();
    let step = match Unit::of(name, [amount]) {
        Unit::Cores if size < 10 => Quantity::from_milli(50),
        Unit::Cores => Quantity::from_milli(500),
        Unit::MiB => Quantity::from_bytes(64 << 20),
        Unit::GiB if size < 16 << 30 => Quantity::from_bytes(256 << 20),
        Unit::GiB => Quantity::from_bytes(1 << 30),
        Unit::One => Quantity::from_units(1),
    };
    amount.to_family(step.family()).rounded_up_to_multiple_of(&step)
}
