//! The rows of a report: a container each, with what every output shows of it.

use std::fmt;

use headroom_core::amount::Quantity;
use headroom_core::cluster::usage::Resource;
use headroom_core::recommend::{NO_USAGE_DATA, TOO_LITTLE_DATA};
use headroom_report::people;

use super::price::Money;
use super::report::Report;
use super::workload::{Container, ResourceAdvice, SetBy, Workload};

pub const CPU_AND_MEMORY: [Resource; 2] = [Resource::Cpu, Resource::Memory];

/// A container of a report.
pub struct Row<'r> {
    pub workload: &'r Workload,
    pub container: &'r Container,
    pub flags: Vec<Flag>,
    /// The CPU and memory that are saved over all pods.
    pub saved: [Option<Quantity>; 2],
    /// The price of both; none without prices, or without a recommendation.
    pub money: Option<Money>,
    /// The weight of both among those of other rows.
    pub weight: Money,
}

impl Report {
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.containers().map(|(workload, container)| {
            let saved = CPU_AND_MEMORY.map(|resource| workload.saved_by(container, resource));
            let is_known = saved.iter().any(Option::is_some);
            let [cpu, memory] = saved.clone().map(|saved| saved.unwrap_or(Quantity::ZERO));
            let money = self.prices.money(&cpu, &memory).filter(|_| is_known);
            let weight = self.prices.weight(&cpu, &memory);
            Row { workload, container, flags: flags(workload, container), saved, money, weight }
        })
    }

    /// A line for each kind of flag.
    pub fn flags_explained(&self) -> Vec<String> {
        let all = self.rows().flat_map(|row| row.flags);
        let mut explained: Vec<&str> = all.filter_map(Flag::explained).collect();
        let is_set_by_others =
            |advice: &ResourceAdvice| advice.request.as_ref().is_some_and(|request| request.from != SetBy::Author);
        if self.containers().any(|(_, container)| container.resources.iter().any(is_set_by_others)) {
            explained.push("(0.10): a request that is set at admission and not in the manifest");
        }
        explained.sort_unstable();
        explained.dedup();
        explained.into_iter().map(str::to_owned).collect()
    }
}

impl Row<'_> {
    /// `oom 3, hpa`
    pub fn flag_text(&self) -> String {
        self.flags.iter().map(Flag::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// The amount of usage that requests are compared with: what CPU mostly needs, and what memory needs at most.
pub fn typical(advice: &ResourceAdvice) -> Option<&Quantity> {
    let used = advice.used.as_ref()?;
    if advice.resource == Resource::Cpu { used.percentile(950) } else { Some(used.peak()) }
}

/// A reason to look closer before taking a recommendation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    OomKills(u64),
    Throttled(u64),
    Restarts(u64),
    PodsDiffer,
    Bursts,
    BelowPeak,
    Limit,
    Autoscaler,
    QosClass,
    NoUsageData,
    TooBrief(u64),
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OomKills(kills) => write!(f, "oom {kills}"),
            Self::Throttled(percent) => write!(f, "throttled {percent}%"),
            Self::Restarts(restarts) => write!(f, "restarts {restarts}"),
            Self::PodsDiffer => f.write_str("pods differ"),
            Self::Bursts => f.write_str("bursts"),
            Self::BelowPeak => f.write_str("below peak"),
            Self::Limit => f.write_str("limit"),
            Self::Autoscaler => f.write_str("hpa"),
            Self::QosClass => f.write_str("qos"),
            Self::NoUsageData => f.write_str(NO_USAGE_DATA),
            Self::TooBrief(minutes) => write!(f, "{TOO_LITTLE_DATA} ({minutes} min)"),
        }
    }
}

impl Flag {
    /// A line that explains the flag; none for a flag that needs no explanation.
    fn explained(self) -> Option<&'static str> {
        Some(match self {
            Self::NoUsageData => return None,
            Self::OomKills(_) => "oom: OOM-killed so many times",
            Self::Throttled(_) => {
                "throttled: CPU usage was capped by the limit in so many of its periods: raise or remove the limit, then \
                 run this again"
            }
            Self::Restarts(_) => "restarts: of its pods that run now",
            Self::PodsDiffer => {
                "pods differ: the busiest pod uses far more CPU than the others, and all get a request for it: split the \
                 workload, spread its load, or resize that pod in place"
            }
            Self::Bursts => {
                "bursts: for a twentieth of the time or more it used over twice the recommended CPU, in bursts or on earlier \
                 days: if it must not be slowed down then, use --cpu-percentile p95"
            }
            Self::BelowPeak => {
                "below peak: the recommended memory is below a peak of its usage, for the last reason under Reasons (-o wide): \
                 raise that bound or percentile, or give the pod a memory limit above the peak"
            }
            Self::Limit => "limit: a new memory limit is recommended beside the request: see -o wide",
            Self::Autoscaler => "hpa: an autoscaler would scale differently: see Autoscalers",
            Self::QosClass => "qos: the pod's QoS class would change: see -o wide",
            Self::TooBrief(_) => {
                "too little data: measured for less than two hours, of which later peaks are not known"
            }
        })
    }
}

fn flags(of: &Workload, container: &Container) -> Vec<Flag> {
    let has_limit = container.resource(Resource::Memory).is_some_and(|memory| memory.recommended_limit.is_some());
    let throttled = container.throttled_percent.filter(|_| container.is_much_throttled());
    let flags = [
        (container.oom_kills > 0).then_some(Flag::OomKills(container.oom_kills)),
        throttled.map(Flag::Throttled),
        (container.restarts > 0).then_some(Flag::Restarts(container.restarts)),
        container.has_pods_that_differ().then_some(Flag::PodsDiffer),
        container.has_bursts().then_some(Flag::Bursts),
        container.is_below_peak().then_some(Flag::BelowPeak),
        has_limit.then_some(Flag::Limit),
        (!of.autoscalers.is_empty()).then_some(Flag::Autoscaler),
        (of.qos != of.qos_after).then_some(Flag::QosClass),
        container.is_without_usage().then_some(Flag::NoUsageData),
        container.evidence.filter(|of| of.is_too_brief).map(|of| Flag::TooBrief(of.samples)),
    ];
    flags.into_iter().flatten().collect()
}

/// An amount with its unit.
pub fn short(resource: Resource, amount: &Quantity) -> String {
    people::amount(resource.name(), amount)
}
