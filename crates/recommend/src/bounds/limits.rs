//! A LimitRange from the distribution of a namespace's containers, such that nothing that runs is rejected: as it is written, as it
//! runs with what webhooks injected, and as it would be once right-sized.

use std::collections::{BTreeMap, BTreeSet};

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::Resource;
use headroom_admission::truncate::count_of;
use headroom_dry_run::Overlay;
use headroom_objects::cluster_reader::ClusterReader;
use headroom_objects::cluster_reader::folder::amount_of;
use headroom_objects::kinds::{items, metadata, text};
use headroom_workloads::running::has_ended;
use serde::Serialize;
use serde_json::{Value, json};

use super::consumer::WorkloadConsumer;
use crate::advice::amounts::{CPU_AND_MEMORY, some_text};
use crate::advice::workload::{ContainerAdvice, Workload};
use crate::engine::memory_limit;
use crate::report::Recommendations;

/// The name of a LimitRange that there is not yet.
const NEW: &str = "limits";

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitRangeProposal {
    pub namespace: String,
    pub name: String,
    pub bounds: Vec<ProposedBound>,
    /// Other LimitRanges for containers that apply as well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    /// To commit.
    pub object: Value,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProposedBound {
    /// As in the LimitRange: `defaultRequest`.
    pub field: &'static str,
    pub resource: &'static str,
    #[serde(serialize_with = "some_text", skip_serializing_if = "Option::is_none")]
    pub today: Option<Quantity>,
    /// None where there should be none, for the same reason.
    #[serde(serialize_with = "some_text", skip_serializing_if = "Option::is_none")]
    pub proposed: Option<Quantity>,
    pub reason: String,
}

#[derive(Debug, Clone)]
struct ContainerAmounts {
    /// `deployment/web front`
    who: String,
    request: Option<Quantity>,
    limit: Option<Quantity>,
}

/// Proposes a LimitRange for each namespace with containers.
pub fn propose(
    namespaces: &[String],
    consumers: &[WorkloadConsumer],
    report: &Recommendations,
    cluster: &mut Overlay,
) -> Result<Vec<LimitRangeProposal>, String> {
    let name = |(workload, container): (&Workload, &ContainerAdvice)| {
        format!("{} {} {}", workload.key.namespace, workload.key, container.name)
    };
    let peaks: BTreeMap<String, Quantity> = report
        .containers()
        .filter_map(|(workload, container)| {
            let peak = container.resource(Resource::Memory)?.used.as_ref()?.peak().clone();
            Some((name((workload, container)), peak))
        })
        .collect();
    let unmeasured = report.containers().filter(|(_, container)| container.is_without_usage());
    let unmeasured: BTreeSet<String> = unmeasured.map(name).collect();
    let mut proposals = Vec::new();
    for namespace in namespaces {
        let here = || consumers.iter().filter(|of| of.key.namespace == *namespace);
        let mut running = Vec::new();
        cluster.visit(("v1", "Pod", Some(namespace)), &mut |pod| {
            if !has_ended(&pod) {
                running.push((format!("pod/{}", metadata(&pod, "name")), pod));
            }
        })?;
        if here().next().is_none() && running.is_empty() {
            continue;
        }
        let ranges = cluster.list(("v1", "LimitRange", Some(namespace)))?;
        let mut of_containers = ranges.iter().filter(|range| container_item(range).is_some());
        let today = of_containers.next();
        let item = today.and_then(container_item).cloned().unwrap_or_else(|| json!({"type": "Container"}));
        let mut bounds = Vec::new();
        for resource in CPU_AND_MEMORY {
            let sizes = |pod: fn(&WorkloadConsumer) -> &Value| -> Vec<ContainerAmounts> {
                here().flat_map(|of| sizes_of(pod(of), &of.key.to_string(), resource)).collect()
            };
            let (written, after) = (sizes(|of| &of.pod), sizes(|of| &of.right_sized));
            let live = running.iter().flat_map(|(who, pod)| sizes_of(pod, who, resource)).collect();
            let (peaks, unmeasured) = (&peaks, &unmeasured);
            bounds.extend(ContainersOf { resource, namespace, peaks, unmeasured, written, after, live }.bounds(&item));
        }
        let beside = of_containers.map(|range| metadata(range, "name").to_owned()).collect();
        let name = today.map_or(NEW, |range| metadata(range, "name")).to_owned();
        let object = object(namespace, &name, today, item, &bounds);
        proposals.push(LimitRangeProposal { namespace: namespace.clone(), name, bounds, beside, object });
    }
    Ok(proposals)
}

fn container_item(range: &Value) -> Option<&Value> {
    items(range, "/spec/limits").find(|item| text(item, "/type") == "Container")
}

/// Today's LimitRange with these bounds; what it says of Pods, claims and other resources stays.
fn object(namespace: &str, name: &str, today: Option<&Value>, mut item: Value, bounds: &[ProposedBound]) -> Value {
    for ProposedBound { field, resource, proposed, .. } in bounds {
        let Value::Object(fields) = &mut item else { continue };
        let amounts = fields.entry(*field).or_insert_with(|| json!({}));
        if let Value::Object(amounts) = amounts {
            match proposed {
                Some(amount) => amounts.insert((*resource).to_owned(), json!(amount.to_string())),
                None => amounts.remove(*resource),
            };
        }
    }
    if let Value::Object(fields) = &mut item {
        fields.retain(|_, amounts| amounts != &json!({}));
    }
    let items = today.into_iter().flat_map(|range| items(range, "/spec/limits"));
    let others = items.filter(|item| text(item, "/type") != "Container");
    let limits: Vec<Value> = [item].into_iter().chain(others.cloned()).collect();
    json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name, "namespace": namespace},
        "spec": {"limits": limits}})
}

/// The containers of a pod, with requests as the API server completes them.
fn sizes_of(pod: &Value, who: &str, resource: Resource) -> Vec<ContainerAmounts> {
    let lists = ["/spec/containers", "/spec/initContainers"];
    let size = |container: &Value| {
        let amount = |field: &str| amount_of(container.pointer(&format!("/resources/{field}/{}", resource.name()))?);
        let (limit, who) = (amount("limits"), format!("{who} {}", text(container, "/name")));
        ContainerAmounts { who, request: amount("requests").or_else(|| limit.clone()), limit }
    };
    lists.iter().flat_map(|list| items(pod, list)).map(size).collect()
}

/// One resource of all containers of a namespace.
struct ContainersOf<'p> {
    resource: Resource,
    namespace: &'p str,
    /// The peaks of memory, by namespace, workload and container.
    peaks: &'p BTreeMap<String, Quantity>,
    /// Containers without usage data, likewise.
    unmeasured: &'p BTreeSet<String>,
    written: Vec<ContainerAmounts>,
    after: Vec<ContainerAmounts>,
    live: Vec<ContainerAmounts>,
}

type Reasoned = (Option<Quantity>, String);

impl ContainersOf<'_> {
    fn bounds(&self, today: &Value) -> Vec<ProposedBound> {
        let name = self.resource.name();
        let of_today = |field: &str| today.get(field)?.get(name)?.as_str()?.parse::<Quantity>().ok();
        let default_request = self.default_request();
        let default = match of_today("default").filter(|_| self.resource == Resource::Cpu) {
            Some(today) => self.kept_default(today, default_request.0.as_ref()),
            None => self.default_limit(default_request.0.as_ref()),
        };
        let bounds = [
            ("default", default.clone()),
            ("defaultRequest", default_request.clone()),
            ("max", self.max(default.0.as_ref())),
            ("min", self.min(default_request.0.as_ref())),
            ("maxLimitRequestRatio", self.ratio(default.0.as_ref(), default_request.0.as_ref())),
        ];
        let bound = |(field, (proposed, reason)): (&'static str, Reasoned)| ProposedBound {
            field,
            resource: name,
            today: of_today(field),
            proposed,
            reason,
        };
        // Most namespaces have no ratio, and need no reason for that.
        let is_shown = |bound: &ProposedBound| {
            bound.today.is_some() || bound.proposed.is_some() || ["default", "max"].contains(&bound.field)
        };
        bounds.into_iter().map(bound).filter(is_shown).collect()
    }

    fn all(&self) -> impl Iterator<Item = &ContainerAmounts> {
        self.written.iter().chain(&self.after).chain(&self.live)
    }

    /// The median request, once right-sized. What nobody has measured counts only if that is all there is.
    fn default_request(&self) -> Reasoned {
        let of = |is_measured: bool| -> Vec<&Quantity> {
            let name = |who: &str| format!("{} {who}", self.namespace);
            let sizes = self.after.iter().filter(|of| !is_measured || !self.unmeasured.contains(&name(&of.who)));
            sizes.filter_map(|size| size.request.as_ref()).collect()
        };
        let mut requests = Some(of(true)).filter(|of| !of.is_empty()).unwrap_or_else(|| of(false));
        requests.sort();
        let Some(median) = requests.get(requests.len() / 2) else {
            return (None, "no container has a request or usage data".to_owned());
        };
        let of = count_of(requests.len() as u64, "container");
        (Some(self.rounded(median)), format!("the median of {of}, right-sized, is {median}"))
    }

    /// Today's default limit of CPU, which bounds what has none of its own.
    fn kept_default(&self, today: Quantity, request: Option<&Quantity>) -> Reasoned {
        let requests = self.all().filter(|size| size.limit.is_none()).filter_map(|size| size.request.as_ref());
        let needed = requests.chain(request).max().cloned().unwrap_or(Quantity::ZERO);
        if needed <= today {
            return (Some(today), "as it is: no request is above it".to_owned());
        }
        (Some(self.rounded(&needed)), format!("a request is {needed}"))
    }

    /// A limit for those that have none. CPU is bounded only where all are bounded: a limit only slows down. A memory limit must be
    /// above what each of those uses.
    fn default_limit(&self, request: Option<&Quantity>) -> Reasoned {
        let limitless = || self.written.iter().chain(&self.after).filter(|size| size.limit.is_none());
        let mut limits: Vec<&Quantity> = self.after.iter().filter_map(|size| size.limit.as_ref()).collect();
        limits.sort();
        let most = limits.get(limits.len() * 9 / 10).copied();
        if let Some(one) = limitless().next().filter(|_| self.resource == Resource::Cpu) {
            return (None, format!("{} runs without a CPU limit, which would only slow it down", one.who));
        }
        let of_limits = most.map(|most| (most.clone(), format!("nine of ten limits are at most {most}")));
        let of_request = request.map(|request| (request.clone(), format!("the default request is {request}")));
        let largest = of_request.into_iter().chain(of_limits).max_by(|(one, _), (other, _)| one.cmp(other));
        let (mut needed, mut reason) = largest.map_or((None, String::new()), |(needed, why)| (Some(needed), why));
        for size in limitless() {
            let Some(peak) = self.peaks.get(&format!("{} {}", self.namespace, size.who)) else {
                return (None, format!("{} has no limit and no usage data: a default would be a guess", size.who));
            };
            let of_usage = memory_limit::of_usage(u64::try_from(peak.value()).unwrap_or(0), None, 0);
            let need = of_usage.max(size.request.clone().unwrap_or(Quantity::ZERO));
            if needed.as_ref().is_none_or(|needed| *needed < need) {
                reason = format!("{} has no limit and used {peak} at its peak", size.who);
                needed = Some(need);
            }
        }
        (needed.filter(|_| !self.written.is_empty()).map(|needed| self.rounded(&needed)), reason)
    }

    /// A quarter above the largest. A maximum rejects what has no limit, so it needs a default where some have none.
    fn max(&self, default: Option<&Quantity>) -> Reasoned {
        if let Some(one) = self.all().find(|size| size.limit.is_none()).filter(|_| default.is_none()) {
            return (None, format!("{} has no limit and would be rejected", one.who));
        }
        let limits = self.all().filter_map(|size| Some((size.limit.as_ref()?, size.who.as_str())));
        match limits.chain(default.map(|default| (default, "the default"))).max() {
            Some((largest, who)) => {
                let reason = format!("a quarter above the largest limit, {largest} of {who}");
                (Some(self.rounded(&largest.plus(&largest.scaled(1, 4)))), reason)
            }
            None => (None, String::new()),
        }
    }

    /// Half of the smallest request.
    fn min(&self, default: Option<&Quantity>) -> Reasoned {
        let requests = self.all().filter_map(|size| Some((size.request.as_ref()?, size.who.as_str())));
        match requests.chain(default.map(|default| (default, "the default"))).min() {
            Some((least, who)) if default.is_some() && least.is_positive() => {
                let half = match self.resource {
                    Resource::Cpu => Quantity::from_milli((least.milli_value() / 2).max(1)),
                    _ => Quantity::from_bytes((u64::try_from(least.value()).unwrap_or(0) >> 21 << 20).max(1)),
                };
                (Some(half), format!("half of the smallest request, {least} of {who}"))
            }
            _ => (None, "no container has a request or usage data".to_owned()),
        }
    }

    /// The largest ratio of limit to request. It rejects what lacks either, so it needs both defaults where some lack one.
    fn ratio(&self, default: Option<&Quantity>, default_request: Option<&Quantity>) -> Reasoned {
        let of = |size: &ContainerAmounts| {
            let limit = size.limit.clone().or_else(|| default.cloned())?;
            let request = size.request.clone().or_else(|| default_request.cloned())?;
            Some((limit.milli_value().max(0) as u64).div_ceil(request.milli_value().max(1) as u64))
        };
        let mut largest: Option<(u64, &str)> = None;
        for size in self.all() {
            match of(size) {
                None => return (None, format!("{} has no limit or request and would be rejected", size.who)),
                Some(ratio) => largest = largest.max(Some((ratio, size.who.as_str()))),
            }
        }
        match largest {
            Some((ratio, who)) => {
                let amount = Quantity::from_units(i64::try_from(ratio.max(1)).unwrap_or(i64::MAX));
                (Some(amount), format!("the largest ratio of limit to request, of {who}"))
            }
            None => (None, String::new()),
        }
    }

    fn rounded(&self, amount: &Quantity) -> Quantity {
        let size = amount.value();
        let step = match self.resource {
            Resource::Cpu if amount.milli_value() < 100 => Quantity::from_milli(5),
            Resource::Cpu => Quantity::from_milli(50),
            _ if size < 256 << 20 => Quantity::from_bytes(16 << 20),
            _ => Quantity::from_bytes(64 << 20),
        };
        amount.to_family(step.family()).rounded_up_to_multiple_of(&step)
    }
}
