//! Reasons to look closer at a container before taking what is recommended.

use std::fmt;

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::Resource;
use headroom_admission::recommend::{NO_USAGE_DATA, TOO_LITTLE_DATA};
use headroom_admission::timestamp::Timestamp;
use headroom_usage::covered::{Growth, Once};
use headroom_usage::{DAY, sample};
use serde::Serialize;

use crate::advice::amounts::{readable, resource_name, short, text};
use crate::advice::pod_request::PodLevel;
use crate::history::course::Seen;
use crate::history::description::{Difference, Fall, Recurrence, Rhythm};
use crate::history::evidence::{Evidence, weekday};

pub const RUNS_FAIL: &str = "all runs failed";
pub const NEVER_READY: &str = "never ready";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flag {
    OomKills(u64),
    Throttled(u64),
    Restarts(u64),
    CrashLoop,
    /// By how its pods fail.
    Failing(&'static str),
    PodsDiffer(Difference),
    Grows(Growing),
    /// With the end of what was read.
    Recurs(Recurrence, i64),
    Once(Once, i64),
    Fell(Fall, i64),
    BelowPeak,
    Injected,
    /// Running pods have other requests than the template.
    NewPodsGet(String),
    /// The largest request of an init container.
    Init(Quantity),
    PodLevel(Vec<PodLevel>),
    /// A changed template does not reach the pods as usual.
    OnDelete,
    Partition,
    Paused,
    Recreate,
    /// The settings that its program is told.
    Reads(String),
    Kept(Kept),
    /// Its node has a device that it asks for.
    Device(String),
    /// The amounts for which nodes lack room: `no node has memory 18Gi, at most 16Gi`
    BeyondNodes(String),
    AtLimit,
    Limit,
    Blocked,
    /// Nobody has tried the change.
    Untried,
    Autoscaler,
    QosClass,
    /// The amounts that would do: `cpu 2, memory 614Mi`
    WholeCpus(String),
    NoUsageData,
    TooBrief(Evidence),
    Thin(Evidence),
    /// Its pods run, but their usage was last seen so many days ago.
    Stale(u64),
    /// A part of its pods' time was not seen.
    Partly(Seen),
    BlockedNow,
    /// Its pods run, but others like them would be rejected.
    Rejected,
    StaticPod,
    /// The containers whose requests it sets.
    Vpa(Vec<String>),
    Keda,
    /// The kind of a custom resource, such as `rollout`.
    Custom(String),
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OomKills(kills) => write!(f, "oom {kills}"),
            Self::Throttled(percent) => write!(f, "throttled {percent}%"),
            Self::Restarts(restarts) => write!(f, "restarts {restarts}"),
            Self::PodsDiffer(differ) => {
                let Difference { resource, pods: (some, all), is_covered, .. } = differ;
                let [amount, others] = [differ.amount, differ.others].map(|amount| people_read(amount, *resource));
                let only = if *is_covered { "" } else { ", not covered" };
                write!(f, "pods differ ({amount} in {some} of {all}, {others} in others{only})")
            }
            Self::Grows(growing) => write!(f, "{growing}"),
            Self::Recurs(recurs, to) => {
                let cpu = people_read(recurs.amount, Resource::Cpu);
                match &recurs.rhythm {
                    Rhythm::AtStart => write!(f, "at start {cpu}"),
                    Rhythm::Daily(hours) => {
                        let at = hours.iter().map(|hour| format!("{hour:02}:00")).collect::<Vec<_>>().join(", ");
                        match hours.len() {
                            0 | 1 => write!(f, "nightly {cpu} (at {at} UTC)"),
                            times => write!(f, "{times} times a day {cpu} (at {at} UTC)"),
                        }
                    }
                    Rhythm::Weekly(ages) => {
                        let days: Vec<&str> = ages.iter().rev().map(|age| weekday(*to, *age)).collect();
                        write!(f, "weekly {cpu} (on {})", days.join(", "))
                    }
                    Rhythm::Bursts => write!(f, "bursts {cpu}"),
                }
            }
            Self::Once(once, to) => {
                write!(f, "once {} on {}", people_read(once.amount, once.resource), date_of(once.age, *to))
            }
            Self::Fell(fall, to) => {
                write!(f, "less since {} ({})", date_of(fall.age, *to), people_read(fall.amount, fall.resource))
            }
            Self::NewPodsGet(requests) => write!(f, "new pods get {requests}"),
            Self::Init(amount) => write!(f, "init {amount}"),
            Self::PodLevel(all) => {
                let all = all.iter().map(PodLevel::to_string).collect::<Vec<_>>().join(", ");
                write!(f, "pod level {all}")
            }
            Self::Reads(settings) => write!(f, "reads {settings}"),
            Self::Kept(kept) => write!(f, "{kept}"),
            Self::Device(name) => write!(f, "device {name}"),
            Self::BeyondNodes(lack) => f.write_str(lack),
            Self::WholeCpus(enough) if enough.is_empty() => f.write_str("whole cpus"),
            Self::WholeCpus(enough) => write!(f, "whole cpus ({enough} would do)"),
            Self::TooBrief(seen) => write!(f, "{TOO_LITTLE_DATA} ({seen})"),
            Self::Thin(seen) => write!(f, "short history ({seen})"),
            Self::Failing(how) => f.write_str(how),
            Self::Stale(days) => write!(f, "last seen {days} d ago"),
            Self::Partly(seen) => write!(f, "seen in {seen}"),
            Self::Custom(kind) => f.write_str(kind),
            // The others are named as their explanations begin.
            _ => f.write_str(self.explained().and_then(|text| text.split(':').next()).unwrap_or(NO_USAGE_DATA)),
        }
    }
}

impl Flag {
    /// True if whoever applies a patch should know it, since they may not see the report.
    pub fn goes_beside_patches(&self) -> bool {
        let is_of_rollout = matches!(self, Self::OnDelete | Self::Partition | Self::Paused | Self::Recreate);
        is_of_rollout || matches!(self, Self::WholeCpus(_) | Self::Device(_) | Self::BeyondNodes(_) | Self::Thin(_))
    }

    /// A line that explains the flag; none for a flag that needs no explanation.
    pub fn explained(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoUsageData => return None,
            Self::OomKills(_) => "oom: OOM-killed so many times",
            Self::Throttled(_) => {
                "throttled: CPU usage was capped by the limit in so many of its periods: raise or remove the limit, then \
                 run this again"
            }
            Self::Restarts(_) => "restarts: of its pods that run now",
            Self::PodsDiffer(_) => {
                "pods differ: some pods use over one and a half times as much as the others on the same days, and all get a \
                 request for it, unless it is `not covered`: single pods of many that use over three times as much. Split the \
                 workload, spread its load, or resize such a pod in place"
            }
            Self::Grows(_) => {
                "grows: usage rises steadily; the CPU request covers a week of that, the memory request is not lowered"
            }
            Self::Recurs(recurs, _) => match recurs.rhythm {
                Rhythm::AtStart => {
                    "at start: it uses so much CPU for minutes when a pod starts, and little otherwise; the request does not cover \
                     that: starts take longer where a node has no CPU to spare"
                }
                Rhythm::Daily(_) | Rhythm::Weekly(_) => {
                    "nightly, times a day, weekly: it uses so much CPU in the same hours of each day or week, and little otherwise; the \
                     request covers 92.5% of the time: if it must not be slowed down then, use --cpu p99"
                }
                Rhythm::Bursts => {
                    "bursts: it uses so much CPU for minutes at a time, over three times the usual; the request covers 92.5% of the \
                     time: if it must not be slowed down in the rest, use --cpu p99"
                }
            },
            Self::Once(..) => {
                "once: on that day it used over three times as much as on all others, also than a week before or after, as what \
                 comes once a month does, too; the request does not cover it: --cpu p95 and --memory peak cover all days"
            }
            Self::Fell(..) => {
                "less since: since that day it used at most two thirds of what it used on each day before: no request is lowered \
                 below that, since load may come back, or raised to it while it covers what came since; fewer --days leave it out"
            }
            Self::BelowPeak => {
                "below peak: the recommended memory is below a peak of its usage, for the last reason under Reasons (-o wide): \
                 raise that bound or percentile, or give the pod a memory limit above the peak"
            }
            Self::Injected => {
                "injected: added when pods are created, and not in the template, so no patch changes it: see Notes for what sets it"
            }
            Self::NewPodsGet(_) => {
                "new pods get: pods run with other requests than the template has, since they were resized or the template was not \
                 rolled out: in parentheses what runs counts"
            }
            Self::Init(_) => {
                "init: an init container requests so much, and the whole pod with it: lower requests of the others save nothing below \
                 that"
            }
            Self::PodLevel(_) => {
                "pod level: spec.resources of the pod sets these requests for all its containers together: change them there"
            }
            Self::OnDelete => "on delete: its pods get a changed template only once somebody deletes them",
            Self::Partition => {
                "partition: its pods below the partition of its rolling update keep the earlier template, even if they are deleted"
            }
            Self::Paused => "paused: a changed template is not rolled out until the rollout is resumed",
            Self::Recreate => "recreate: a changed template stops its pods before new ones start, so it is an outage",
            Self::Reads(_) => {
                "reads: its program is told how much it may use, or reads its own request: change that together with the request \
                 (see Notes)"
            }
            Self::Kept(Kept::Reserve(_)) => {
                "reserve: a placeholder that others displace, idle with a negative priority or a pause image: its request is not lowered"
            }
            Self::Kept(Kept::Twin(_)) => {
                "twin of: it runs the same as a busy one, which leads or which a Service selects, and may take over: its request is \
                 not lowered"
            }
            Self::Kept(Kept::Standby(_)) => {
                "standby of: a database that may take over from a busy one: its request is not lowered"
            }
            Self::Device(_) => {
                "device: its node is there for that, so less CPU and memory may be of use to nobody, and do not count as saved"
            }
            Self::BeyondNodes(_) => {
                "no node has, not every node has: its pods would request more than the largest node that they may use can give, or \
                 those of a DaemonSet more than one of its nodes, and wait for a larger one"
            }
            Self::AtLimit => {
                "at its limit: memory fills the limit most of the time without a kill, so much of it is page cache, which would fill \
                 a higher limit too"
            }
            Self::Limit => "limit: a new memory limit is recommended beside the request: see -o wide",
            Self::Blocked => "blocked: the change would be rejected, or stop its rollout, and is left out: see Blocked",
            Self::Untried => {
                "not tried yet: nobody knows if the change would be rejected, so no sum counts it, and no patch has it: open its details"
            }
            Self::Autoscaler => "hpa: an autoscaler would scale differently: see Autoscalers",
            Self::QosClass => "qos: the pod's QoS class would change: see -o wide",
            Self::WholeCpus(_) => {
                "whole cpus: a node with the static CPU manager gives a Guaranteed pod whole CPUs of its own, while all its requests \
                 equal its limits: change both together, CPU to whole CPUs; --lower-limits does so for memory"
            }
            Self::TooBrief(_) => {
                "too little data: measured for less than two hours or five runs, so later peaks are unknown"
            }
            Self::Stale(_) => {
                "last seen: its pods run, but the store has no samples of them any more: `kubectl headroom doctor` checks what \
                 is scraped"
            }
            Self::Partly(_) => {
                "seen in: the store has no samples of the rest of its pods' time, or none of other pods that run: of less than 90% no \
                 request that its author wrote is lowered, and no limit; `kubectl headroom doctor` checks what is scraped"
            }
            Self::BlockedNow => "blocked now: the API server rejects its pods at present: see Notes",
            Self::Rejected => "rejected: its pods run, but would be rejected if they were created again: see Notes",
            Self::CrashLoop => "crash loop: its pods end soon after each start, so nothing is known of its usage",
            Self::Failing(_) => {
                "never ready, all runs failed: no pod that runs was ready since its start, or no Job of it that the cluster has succeeded: \
                 its requests and limits are not lowered"
            }
            Self::StaticPod => {
                "static pod: a kubelet runs it from a file on its node, so no patch of the API changes it"
            }
            Self::Vpa(_) => {
                "vpa: a VerticalPodAutoscaler sets requests when pods are created, whatever the template has: see Notes"
            }
            Self::Keda => "keda: a ScaledObject keeps the autoscaler's target: see Notes",
            Self::Custom(_) => {
                "rollout and other kinds of custom resources: patched by operations, since their lists cannot be merged"
            }
            Self::Thin(_) => {
                "short history: measured for less than three days, so it may be busier on others: no request that its author wrote is lowered"
            }
        })
    }
}

/// The reason why a workload is kept empty on purpose, so that its request is not lowered. It displays as the flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// Others displace it: by its `priority -10` or `pause image`.
    Reserve(String),
    /// This workload runs the same: a Service selects it and may be switched, or it leads.
    Twin(String),
    /// The busy peer of a database.
    Standby(String),
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserve(_) => f.write_str("reserve"),
            Self::Twin(of) => write!(f, "twin of {of}"),
            Self::Standby(of) => write!(f, "standby of {of}"),
        }
    }
}

impl Kept {
    pub fn reason(&self) -> String {
        match self {
            Self::Reserve(why) => format!("it keeps room for others ({why}), so its request is not lowered"),
            Self::Twin(of) | Self::Standby(of) => {
                format!("it may take over from {of}, so its request is not lowered: size both alike")
            }
        }
    }
}

fn people_read(amount: u64, resource: Resource) -> String {
    short(resource, &readable(amount, resource))
}

/// `2026-11-22`
pub fn date(unix_seconds: i64) -> String {
    let moment = Timestamp::from_unix_seconds(unix_seconds).map(|moment| moment.to_string()).unwrap_or_default();
    moment.split('T').next().unwrap_or_default().to_owned()
}

/// The day of such an age, of what was read up to a moment.
fn date_of(age: u32, to: i64) -> String {
    date(to - 1 - i64::from(age) * DAY)
}

/// A resource whose usage grows steadily.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Growing {
    #[serde(serialize_with = "resource_name")]
    pub resource: Resource,
    #[serde(serialize_with = "text")]
    pub a_day: Quantity,
    /// The days on which usage reaches the recommended request, or the one that is set, and the limit, if it does within a year.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_reached: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_reached: Option<String>,
}

/// `memory grows 136Mi a day, reaches its request on 2026-11-30, its limit on 2026-12-08`
impl fmt::Display for Growing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} grows {} a day", self.resource.name(), self.a_day)?;
        let reached = [("request", &self.request_reached), ("limit", &self.limit_reached)];
        let known = reached.iter().filter_map(|(what, day)| Some((what, day.as_ref()?)));
        for (number, (what, day)) in known.enumerate() {
            write!(f, "{} its {what} on {day}", if number == 0 { ", reaches" } else { "," })?;
        }
        Ok(())
    }
}

impl Growing {
    /// The growth of a resource, with the days after `now` on which it reaches its bounds.
    pub fn new(growth: Growth, resource: Resource, [request, limit]: [Option<&Quantity>; 2], now: Timestamp) -> Self {
        let reached = |bound: &Quantity| {
            let left = sample::amount(resource, bound)?.saturating_sub(growth.now);
            let days = i64::try_from(left / growth.a_day.max(1)).ok().filter(|days| *days < 365)?;
            Some(date(now.unix_seconds() + days * DAY))
        };
        Self {
            resource,
            a_day: readable(growth.a_day, resource),
            request_reached: request.and_then(reached),
            limit_reached: limit.and_then(reached),
        }
    }
}
