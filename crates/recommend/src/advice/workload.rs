//! The recommendation for one workload: its containers, with what each requests, uses and should request.

use std::fmt;

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::Resource;
use headroom_admission::timestamp::Timestamp;
use serde::Serialize;

use crate::advice::amounts::{Delta, is_about, percent_more, resource_name, some_text, text, texts};
use crate::advice::autoscaler::{Requested, Scaled};
use crate::advice::blocked::Blocked;
use crate::advice::flag::{Flag, Growing};
use crate::advice::pod_request::{self, PodLevel, PodPart};
use crate::advice::quota_effect::QuotaEffect;
use crate::advice::reason::AdviceReason;
use crate::advice::template::CustomResource;
use crate::history::course::Seen;
use crate::history::description::Description;
use crate::history::distribution::Distribution;
use crate::history::evidence::Evidence;
use crate::history::timeline::Timeline;
use headroom_admission::recommend::NoRecommendation;
use headroom_usage::covered::Growth;
use headroom_usage::sample::quantity;
use headroom_workloads::WorkloadRef;
use headroom_workloads::program::{Setting, Told};

/// From this share of throttled periods on, in percent, CPU usage shows less than the container wanted.
const MUCH_THROTTLED: u64 = 5;

/// An object that makes pods, a pod, or an image that does not run yet.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    pub api_version: String,
    #[serde(flatten)]
    pub key: WorkloadRef,
    /// The object that was read in its place, where its own kind is not known here: `replicaset/web-5d8f`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// The object at the top of its owners: `kafka/events`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,
    /// The fields of that object that set requests, as far as they are known.
    #[serde(skip)]
    pub managed_fields: Vec<String>,
    /// Everybody who decides besides the author: `Argo CD application shop`, `vpa/web`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decided_by: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    pub pods: u64,
    /// The CPU and memory that one of its pods requests now, as the scheduler and quotas count it.
    #[serde(skip)]
    pub requested: [Quantity; 2],
    /// The changes of the requests of a pod as a whole, if the template sets those.
    #[serde(serialize_with = "texts", skip_serializing_if = "Vec::is_empty")]
    pub pod_level: Vec<PodLevel>,
    /// The memory limit of a pod as a whole, if the template sets one, and one that would do after kills.
    #[serde(skip)]
    pub pod_limit: Option<PodLevel>,
    #[serde(rename = "qosClass")]
    pub qos: &'static str,
    #[serde(rename = "qosClassAfter")]
    pub qos_after: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub autoscalers: Vec<Scaled>,
    pub containers: Vec<ContainerAdvice>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Blocked>,
    /// From the object to the pod in it.
    #[serde(skip)]
    pub path: Vec<&'static str>,
    /// Its place in the inventory.
    #[serde(skip)]
    pub entry: usize,
    /// Its turn in the order in which changes are made.
    #[serde(skip)]
    pub turn: usize,
    /// True while nobody has tried its changes, which no sum counts.
    #[serde(skip)]
    pub is_untried: bool,
    /// Those of the notes that the trial found.
    #[serde(skip)]
    pub notes_of_trial: Vec<String>,
    /// The effects of its changes on quotas, until they are added to those of the report.
    #[serde(skip)]
    pub effects: Box<[QuotaEffect]>,
    /// The workload itself, if its pods were read from what it owns.
    #[serde(skip)]
    pub custom: Option<CustomResource>,
    /// The other workload that has the template of its pods.
    #[serde(skip)]
    pub template_of: Option<WorkloadRef>,
    /// The node whose kubelet runs it from a file there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub static_on: Option<String>,
    /// The device of its node that it asks for: less CPU and memory beside it saves nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The flags of all of its containers: who else decides about it.
    #[serde(skip)]
    pub shared_flags: Vec<Flag>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerAdvice {
    pub name: String,
    pub image: String,
    pub is_init: bool,
    /// True for an init container that is no sidecar: most end before anybody measures them.
    #[serde(skip)]
    pub runs_at_start: bool,
    /// The place that sets its requests, if the template does not have it.
    #[serde(rename = "setBy", skip_serializing_if = "Option::is_none")]
    pub injected: Option<String>,
    pub resources: Vec<ResourceAdvice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    pub oom_kills: u64,
    /// True if some of them ended a child process, and not the container.
    #[serde(skip)]
    pub has_killed_children: bool,
    /// The memory at which it was last killed: its limit then, as far as it is known.
    #[serde(serialize_with = "some_text", skip_serializing_if = "Option::is_none")]
    pub killed_at: Option<Quantity>,
    /// The way to a higher memory limit, if the LimitRanges refuse that.
    #[serde(skip)]
    pub refused_limit: Option<String>,
    /// Percent of CFS periods that were throttled; none without a CPU limit, or if the source does not count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_percent: Option<u64>,
    pub restarts: u64,
    /// True if all of its pods end again and again.
    #[serde(skip)]
    pub is_crash_looping: bool,
    /// The way in which all of its pods fail: their usage is not that of work.
    #[serde(skip)]
    pub failing: Option<&'static str>,
    /// The settings by which its program is told how much it may use.
    #[serde(serialize_with = "texts", skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<Setting>,
    pub severity: Severity,
    #[serde(serialize_with = "texts", skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<Flag>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grows: Vec<Growing>,
    /// The flags for how usage runs over pods and days, as far as those are known.
    #[serde(skip)]
    pub patterns: Vec<Flag>,
    /// The peak of memory that a request covers, where not all is covered that was used.
    #[serde(skip)]
    pub peak_to_cover: Option<Quantity>,
    #[serde(skip)]
    pub timeline: Option<Timeline>,
}

/// The urgency of a container, the most urgent first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It is OOM-killed, or above its memory request most of the time, and so among the first to be evicted.
    Critical,
    /// It is throttled, above its CPU request most of the time, or has no request.
    Warning,
    /// A request is off its recommendation by more than [`MUCH_PERCENT`].
    Adjust,
    Ok,
    /// Nothing is recommended.
    #[default]
    Unknown,
}

/// A request that is off its recommendation by more than this is worth a change.
const MUCH_PERCENT: u64 = 20;

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The recommendation for one resource of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceAdvice {
    #[serde(serialize_with = "resource_name")]
    pub resource: Resource,
    /// The request that admission makes of what is set now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<CurrentRequest>,
    #[serde(serialize_with = "some_text", skip_serializing_if = "Option::is_none")]
    pub limit: Option<Quantity>,
    #[serde(serialize_with = "some_text", skip_serializing_if = "Option::is_none")]
    pub recommended: Option<Quantity>,
    #[serde(serialize_with = "some_text", skip_serializing_if = "Option::is_none")]
    pub recommended_limit: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Delta>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Distribution>,
    /// The median of today and yesterday, where a metrics store tells it.
    #[serde(skip)]
    pub lately: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<AdviceReason>,
    /// The reason that nothing is recommended.
    #[serde(serialize_with = "some_text", skip_serializing_if = "Option::is_none")]
    pub unknown: Option<NoRecommendation>,
    /// The amount that would do as request and limit, where its pod may have whole CPUs while both are equal.
    #[serde(serialize_with = "some_text", skip_serializing_if = "Option::is_none")]
    pub enough: Option<Quantity>,
    /// The typical request of the image, if neither usage nor the author sets one. It is never written.
    #[serde(serialize_with = "some_text", skip_serializing_if = "Option::is_none")]
    pub typical: Option<Quantity>,
    /// The request as the object itself has it, which the recommendation would replace.
    #[serde(skip)]
    pub written: Option<Quantity>,
    /// The limit as the author wrote it.
    #[serde(skip)]
    pub written_limit: Option<Quantity>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CurrentRequest {
    #[serde(serialize_with = "text")]
    pub value: Quantity,
    #[serde(serialize_with = "text")]
    pub from: RequestOrigin,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestOrigin {
    Author,
    Estimate,
    /// The typical request of the image, since no usage is known.
    Typical,
    /// The newest pod has it, and a new one would get this.
    Running(Option<Quantity>),
    /// As the policy words it.
    Other(String),
}

impl fmt::Display for RequestOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Author => f.write_str("author"),
            Self::Estimate => f.write_str("estimated at admission"),
            Self::Typical => f.write_str("typical for this image, set at admission"),
            Self::Running(Some(then)) => write!(f, "of its newest pod, a new one gets {then}"),
            Self::Running(None) => f.write_str("of its newest pod, a new one gets none"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// In parentheses a request that is not in the manifest but applies.
impl fmt::Display for CurrentRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.from {
            RequestOrigin::Author => write!(f, "{}", self.value),
            _ => write!(f, "({})", self.value),
        }
    }
}

impl ResourceAdvice {
    /// The amount to write: none if there is no recommendation, or the object has about as much already.
    pub fn to_write(&self) -> Option<&Quantity> {
        let is_close = |to: &Quantity| self.written.as_ref().is_some_and(|from| is_about(from, to, self.resource));
        self.recommended.as_ref().filter(|recommended| !is_close(recommended))
    }

    /// The amount of usage that requests are compared with: what CPU mostly needs, and what memory needs at most.
    pub fn mostly_used(&self) -> Option<&Quantity> {
        let used = self.used.as_ref()?;
        if self.resource == Resource::Cpu { used.percentile(950) } else { Some(used.peak()) }
    }

    /// By how many percent of the recommendation the request is above it, or below.
    pub fn off_by_percent(&self) -> Option<i64> {
        percent_more(self.recommended.as_ref()?, &self.request.as_ref()?.value)
    }

    /// Sets the current request, and how the recommendation changes it.
    pub fn set_current(&mut self, request: Option<CurrentRequest>) {
        let current = request.as_ref().map(|request| &request.value);
        self.change = self.recommended.as_ref().map(|recommended| Delta::new(current, recommended));
        self.request = request;
    }

    /// Takes the request of a running pod, if that has another than a new one gets. Without one it takes no room, even where
    /// admission would set one now.
    pub fn take_running(&mut self, running: Option<Quantity>) {
        let then = self.request.as_ref().map(|request| &request.value);
        if running.as_ref() != then {
            let from = RequestOrigin::Running(then.cloned());
            self.set_current(Some(CurrentRequest { value: running.unwrap_or(Quantity::ZERO), from }));
        }
    }

    /// True if it is left alone because its pod may have whole CPUs.
    pub fn keeps_whole_cpus(&self) -> bool {
        self.unknown == Some(NoRecommendation::WholeCpus)
    }

    /// True if the container requests nothing of this, which is no choice of its author's.
    pub fn lacks_request(&self) -> bool {
        let is_author = |of: &CurrentRequest| of.from == RequestOrigin::Author;
        self.request.as_ref().is_none_or(|of| of.value.is_zero() && !is_author(of))
    }

    pub fn recommend(&mut self, amount: Option<Quantity>) {
        self.recommended = amount;
        let request = self.request.take();
        self.set_current(request);
    }

    pub fn withdraw(&mut self) {
        (self.recommended, self.recommended_limit, self.change, self.reason) = (None, None, None, None);
    }

    /// Explains the recommendation, or why there is none.
    pub fn explained(&self) -> String {
        let mut text = match (&self.reason, &self.unknown) {
            (Some(reason), _) => reason.to_string(),
            (None, Some(unknown)) => format!("no recommendation: {unknown}"),
            (None, None) => "-".to_owned(),
        };
        // An estimate of admission with the same amount has just been explained.
        let is_news = |request: &&CurrentRequest| {
            request.from != RequestOrigin::Author && Some(&request.value) != self.recommended.as_ref()
        };
        match (self.request.as_ref().filter(is_news), &self.typical) {
            (Some(CurrentRequest { value, from }), _) => text.push_str(&format!("; now {value}: {from}")),
            (None, Some(typical)) => text.push_str(&format!("; typical for this image: {typical}")),
            (None, None) => {}
        }
        text
    }
}

fn is_whole(cpu: &Quantity) -> bool {
    cpu.milli_value() > 0 && cpu.milli_value() % 1000 == 0
}

impl ContainerAdvice {
    pub fn resource(&self, resource: Resource) -> Option<&ResourceAdvice> {
        self.resources.iter().find(|advice| advice.resource == resource)
    }

    pub fn memory_mut(&mut self) -> Option<&mut ResourceAdvice> {
        self.resources.iter_mut().find(|advice| advice.resource == Resource::Memory)
    }

    /// `oom 3, hpa`
    pub fn flag_text(&self) -> String {
        self.flags.iter().map(Flag::to_string).collect::<Vec<_>>().join(", ")
    }

    pub fn is_without_advice(&self) -> bool {
        self.resources.iter().all(|advice| advice.recommended.is_none())
    }

    /// True if nobody has measured it, although it runs for long.
    pub fn is_without_usage(&self) -> bool {
        !self.runs_at_start
            && self.resources.iter().any(|advice| matches!(advice.unknown, Some(NoRecommendation::NoUsageData(_))))
            && self.is_without_advice()
    }

    /// True if there is too little usage to write what is recommended.
    pub fn is_too_brief(&self) -> bool {
        self.evidence.is_some_and(|evidence| evidence.is_too_brief)
    }

    /// True if less memory is recommended than the peak that a request covers, as a bound or a chosen percentile has it.
    pub fn is_below_peak(&self) -> bool {
        self.resource(Resource::Memory).is_some_and(|of| {
            let recommended = of.recommended.as_ref().zip(of.used.as_ref());
            recommended.is_some_and(|(to, used)| to < self.peak_to_cover.as_ref().unwrap_or(used.peak()))
        })
    }

    /// True if its memory mostly fills its limit without a kill, as page cache does, which is given back when needed.
    pub fn stays_at_limit(&self) -> bool {
        let memory = self.resource(Resource::Memory);
        let bound = memory.and_then(|of| Some((of.used.as_ref()?.percentile(500)?, of.written_limit.as_ref()?)));
        self.oom_kills == 0
            && bound.is_some_and(|(usual, limit)| {
                (99..=100).contains(&(usual.value().saturating_mul(100) / limit.value().max(1)))
            })
    }

    pub fn severity_without_risk(&self) -> Severity {
        let is_much_off =
            |advice: &ResourceAdvice| advice.off_by_percent().is_some_and(|off| off.unsigned_abs() > MUCH_PERCENT);
        match self.resources.iter().any(is_much_off) {
            _ if self.is_without_advice() => Severity::Unknown,
            true => Severity::Adjust,
            false => Severity::Ok,
        }
    }

    /// Adds what its usage shows, read up to a moment, beside what is recommended now.
    pub fn add_patterns(&mut self, of: &Description, now: Timestamp, to: i64) {
        let growing = |(resource, growth): &(Resource, Growth)| {
            let advice = self.resource(*resource)?;
            let request = advice.recommended.as_ref().or(advice.request.as_ref().map(|request| &request.value));
            let limit = advice.recommended_limit.as_ref().or(advice.limit.as_ref());
            Some(Growing::new(*growth, *resource, [request, limit], now))
        };
        self.grows = of.grows.iter().filter_map(growing).collect();
        let pods = of.pods.iter().cloned().map(Flag::PodsDiffer);
        let recurs = of.recurs.iter().cloned().map(|recurs| Flag::Recurs(recurs, to));
        let once = of.left_out.once.iter().cloned().map(|once| Flag::Once(once, to));
        let falls = of.falls.iter().cloned().map(|fall| Flag::Fell(fall, to));
        self.patterns = pods.chain(recurs).chain(once).chain(falls).collect();
        for advice in &mut self.resources {
            let lately = of.lately.iter().find(|(resource, _)| *resource == advice.resource);
            advice.lately = lately.map(|(resource, amount)| quantity(*amount, *resource));
        }
    }

    /// True if enough is known of it that a memory limit may be lowered.
    pub fn may_lower_limit(&self) -> bool {
        self.reads.iter().all(|of| matches!(of.told, Told::Cpus))
            && self.failing.is_none()
            && self.evidence.is_some_and(|evidence| evidence.may_lower_limits())
    }

    /// True if its author limits it to whole CPUs, which may be its own if its pod is Guaranteed.
    pub fn is_limited_to_whole_cpus(&self) -> bool {
        self.resource(Resource::Cpu).and_then(|advice| advice.written_limit.as_ref()).is_some_and(is_whole)
    }

    /// Percent of throttled periods, if they are so many that they hide how much CPU it needs.
    pub fn much_throttled(&self) -> Option<u64> {
        self.throttled_percent.filter(|percent| *percent >= MUCH_THROTTLED)
    }
}

impl Workload {
    /// The requests that autoscalers scale by, now and with what patches write: of the pod as a whole, or of containers that run.
    pub fn requested<'c>(containers: &'c [ContainerAdvice], pod_level: &[PodLevel]) -> Vec<Requested<'c>> {
        let of_pod = pod_level.iter().map(|PodLevel { resource, from, to }| Requested {
            container: "",
            resource: resource.name(),
            before: Some(from.clone()),
            after: Some(to.clone()),
        });
        let running = containers.iter().filter(|container| !container.runs_at_start);
        let all = running.flat_map(|container| container.resources.iter().map(move |advice| (container, advice)));
        let all = all.filter(|(_, advice)| !pod_level.iter().any(|of| of.resource == advice.resource));
        let of_containers = all.map(|(container, advice)| Requested {
            container: &container.name,
            resource: advice.resource.name(),
            before: advice.request.as_ref().filter(|_| !advice.lacks_request()).map(|request| request.value.clone()),
            after: advice.to_write().filter(|_| container.injected.is_none()).cloned(),
        });
        of_pod.chain(of_containers).collect()
    }

    /// The flags of a container with all that is recommended.
    pub fn flags(&self, container: &ContainerAdvice) -> Vec<Flag> {
        let has_limit = container.resource(Resource::Memory).is_some_and(|memory| memory.recommended_limit.is_some());
        let is_told =
            |seen: &Seen, of: &Evidence| of.silent_days.is_none() && (seen.pods < seen.of || of.too_partly().is_some());
        let partly = container.evidence.and_then(|of| of.partly.filter(|seen| is_told(seen, &of)));
        let first = [
            (container.oom_kills > 0).then_some(Flag::OomKills(container.oom_kills)),
            container.much_throttled().map(Flag::Throttled),
            (container.restarts > 0).then_some(Flag::Restarts(container.restarts)),
            container.is_crash_looping.then_some(Flag::CrashLoop),
            container.failing.filter(|_| !container.is_crash_looping).map(Flag::Failing),
            container.evidence.and_then(|of| of.silent_days).map(Flag::Stale),
            partly.map(Flag::Partly),
        ];
        let thin = container.evidence.filter(|of| of.is_thin() && !of.is_too_brief);
        let enough = |of: &ResourceAdvice| Some(format!("{} {}", of.resource.name(), of.enough.as_ref()?));
        let enough: Vec<String> = container.resources.iter().filter_map(enough).collect();
        let is_other_class = self.qos != self.qos_after;
        let has_cpus = is_other_class && self.has_whole_cpus(container)
            || container.resources.iter().any(ResourceAdvice::keeps_whole_cpus);
        let place = self.place_of(container).unwrap_or(0);
        let held = |resource| pod_request::held_by_init(&self.parts(resource), place);
        // Where the author wrote a request, and running pods have another.
        let of_new = |of: &ResourceAdvice| match &of.request.as_ref().zip(of.written.as_ref())?.0.from {
            RequestOrigin::Running(Some(then)) => Some(format!("{} {then}", of.resource.name())),
            _ => None,
        };
        let of_new: Vec<String> = container.resources.iter().filter_map(of_new).collect();
        let told: Vec<&str> = container.told().map(|setting| setting.text.as_str()).collect();
        let last = [
            container.injected.is_some().then_some(Flag::Injected),
            (!of_new.is_empty()).then(|| Flag::NewPodsGet(of_new.join(", "))),
            held(Resource::Cpu).or_else(|| held(Resource::Memory)).map(Flag::Init),
            (!self.pod_level.is_empty()).then(|| Flag::PodLevel(self.pod_level.clone())),
            container.is_below_peak().then_some(Flag::BelowPeak),
            (!told.is_empty()).then(|| Flag::Reads(told.join(", "))),
            container.stays_at_limit().then_some(Flag::AtLimit),
            has_limit.then_some(Flag::Limit),
            (!self.autoscalers.is_empty()).then_some(Flag::Autoscaler),
            has_cpus.then(|| Flag::WholeCpus(enough.join(", "))),
            (is_other_class && !has_cpus).then_some(Flag::QosClass),
            container.is_without_usage().then_some(Flag::NoUsageData),
            container.evidence.filter(|of| of.is_too_brief).map(Flag::TooBrief),
            thin.map(Flag::Thin),
            self.is_untried.then_some(Flag::Untried),
        ];
        let mut flags: Vec<Flag> = first.into_iter().flatten().collect();
        flags.extend(container.grows.iter().cloned().map(Flag::Grows));
        flags.extend(container.patterns.iter().cloned());
        flags.extend(last.into_iter().flatten());
        let is_of_others = |flag: &Flag| matches!(flag, Flag::Vpa(sized) if !sized.contains(&container.name));
        flags.extend(self.shared_flags.iter().filter(|flag| !is_of_others(flag)).cloned());
        flags
    }

    /// True if a node may give a container whole CPUs of its own.
    pub fn has_whole_cpus(&self, container: &ContainerAdvice) -> bool {
        let cpu = container.resource(Resource::Cpu).and_then(|advice| advice.request.as_ref());
        self.qos == "Guaranteed" && cpu.is_some_and(|cpu| is_whole(&cpu.value))
    }

    /// The reason why no patch can be made for it, whatever is recommended.
    pub fn why_unpatched(&self) -> Option<String> {
        let is_other_class = self.key.kind == "Pod" && self.file.is_none() && self.qos != self.qos_after;
        if let Some(node) = &self.static_on {
            return Some(format!("static pod: change its manifest on node {node}"));
        }
        if let Some(owner) = &self.managed_by {
            return Some(format!(
                "{owner} controls it and reverts what is changed here: set {} there",
                self.field_above()
            ));
        }
        if is_other_class {
            return Some(format!(
                "its QoS class would change from {} to {}, which a pod never does: create it again with these requests",
                self.qos, self.qos_after
            ));
        }
        let through = self.through.as_ref().filter(|_| self.custom.is_none())?;
        let of = self.template_of.as_ref().unwrap_or(&self.key);
        Some(format!("read from {through}: set {} of {of}", self.field_above()))
    }

    /// Where a container's requests are set, if not in the template.
    pub fn place_of_requests(&self, container: &ContainerAdvice) -> Option<String> {
        let owner = self.managed_by.clone().or_else(|| self.template_of.as_ref().map(WorkloadRef::to_string));
        container.injected.clone().or_else(|| Some(format!("set {} of {}", self.field_above(), owner?)))
    }

    /// `spec.resources`, or what to look for.
    fn field_above(&self) -> String {
        match self.managed_fields.as_slice() {
            [] => "the requests in the template".to_owned(),
            fields => fields.join(" or "),
        }
    }

    /// The amount that a container's recommendation saves over all pods; none where nobody else can use it, or it was not tried.
    pub fn saved_by(&self, container: &ContainerAdvice, resource: Resource) -> Option<Quantity> {
        self.could_save(container, resource).filter(|_| !self.is_untried)
    }

    fn could_save(&self, container: &ContainerAdvice, resource: Resource) -> Option<Quantity> {
        let place = self.place_of(container)?;
        let saved = pod_request::saved(&self.parts(resource), place)?.times_count(self.pods);
        Some(saved).filter(|saved| self.device.is_none() || !saved.is_positive())
    }

    /// The amounts that a pod requests, now and with all that is recommended.
    pub fn requests_of_pod(&self, resource: Resource) -> [Quantity; 2] {
        let parts = self.parts(resource);
        [0, parts.len()].map(|changed| pod_request::of_pod(&parts, changed))
    }

    /// A request of the pod as a whole counts as one of its first container.
    pub fn parts(&self, resource: Resource) -> Vec<PodPart<'_>> {
        let of_pod = self.pod_level.iter().find(|of| of.resource == resource);
        let parts = self.containers.iter().enumerate().map(|(place, of)| {
            if let Some(PodLevel { from, to, .. }) = of_pod {
                let (now, then) = Some((from, to)).filter(|_| place == 0).unzip();
                return PodPart { is_init: false, runs_at_start: false, now, then };
            }
            let advice = of.resource(resource);
            let now = advice.and_then(|advice| advice.request.as_ref()).map(|request| &request.value);
            // Close enough stays as it is.
            let then = advice.and_then(|advice| advice.to_write().or(now.filter(|_| advice.recommended.is_some())));
            PodPart { is_init: of.is_init, runs_at_start: of.runs_at_start, now, then }
        });
        parts.collect()
    }

    /// The medians of its containers together.
    pub fn mostly_runs_at(&self, resource: Resource) -> Quantity {
        let running = self.containers.iter().filter(|of| !of.runs_at_start);
        let medians = running.filter_map(|of| of.resource(resource)?.used.as_ref()?.percentile(500));
        medians.fold(Quantity::ZERO, |sum, median| sum.plus(median))
    }

    fn place_of(&self, container: &ContainerAdvice) -> Option<usize> {
        self.containers.iter().position(|of| of.name == container.name)
    }

    /// True if something of a template is to be changed.
    pub fn is_changed(&self) -> bool {
        let own = self.containers.iter().filter(|of| of.injected.is_none());
        own.flat_map(|of| &of.resources).any(|of| of.to_write().is_some() || of.recommended_limit.is_some())
    }

    /// `deployment/web (Argo CD application shop)`
    pub fn with_deciders(&self) -> String {
        match self.decided_by.as_slice() {
            [] => self.key.to_string(),
            all => format!("{} ({})", self.key, all.join(", ")),
        }
    }

    /// Over all containers.
    pub fn saved(&self, resource: Resource) -> Quantity {
        if self.is_untried { Quantity::ZERO } else { self.possible_saving(resource) }
    }

    /// The same of a change that may not have been tried.
    pub fn possible_saving(&self, resource: Resource) -> Quantity {
        let saved = self.containers.iter().filter_map(|container| self.could_save(container, resource));
        saved.fold(Quantity::ZERO, |sum, saved| sum.plus(&saved))
    }

    /// True if patches may have its changes: they were tried, and pass.
    pub fn is_handed_out(&self) -> bool {
        !self.is_untried && self.blocked.is_none()
    }
}
