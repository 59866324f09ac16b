//! Recommendations as data: workloads with their containers, sums, effects on quotas, and notes. Every output is made of
//! this, whichever source the usage was read from.

use std::collections::BTreeMap;
use std::fmt;

use headroom_core::amount::Quantity;
use headroom_core::cluster::usage::{Resource, Window};
use serde::{Serialize, Serializer};

use super::autoscaler::{Requested, Scaled};
use super::distribution::Distribution;
use super::history::ContainerUsage;
use super::owners::WorkloadRef;
use super::price::{Money, Prices};
use super::quota_effect::QuotaEffect;
use super::reason::Reason;
use super::recommendation::Why;

/// From this share of throttled periods on, in percent, CPU usage shows less than the container wanted.
pub const MUCH_THROTTLED: u64 = 5;

/// Everything that is recommended in one run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub source: Source,
    pub workloads: Vec<Workload>,
    /// By namespace.
    pub totals: Vec<Total>,
    pub total: Total,
    /// What taking all recommendations does to each quota.
    pub quotas: Vec<QuotaEffect>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    #[serde(skip)]
    pub prices: Prices,
}

/// Where the usage comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// `service monitoring/prometheus`
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_seconds: Option<u32>,
    /// Whether something was not read, as the notes say.
    pub is_partial: bool,
}

/// `Usage from Prometheus at monitoring/prometheus:9090, 2026-11-08T10:00:00Z to 2026-11-22T10:00:00Z`
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Usage from {}", self.name)?;
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => write!(f, ", {from} to {to}"),
            _ => Ok(()),
        }
    }
}

/// An object that makes pods, a pod, or an image that does not run yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
    /// The file it was read from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    pub pods: u64,
    #[serde(rename = "qosClass")]
    pub qos: &'static str,
    #[serde(rename = "qosClassAfter")]
    pub qos_after: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub autoscalers: Vec<Scaled>,
    pub containers: Vec<Container>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// From the object to the pod in it.
    #[serde(skip)]
    pub path: Vec<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    pub name: String,
    pub image: String,
    pub is_init: bool,
    pub resources: Vec<ResourceAdvice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    pub oom_kills: u64,
    /// Of the periods in which it wanted to run; none where no CPU limit was in force, or the source does not count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_percent: Option<u64>,
    pub restarts: u64,
}

/// The recommendation for one resource of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceAdvice {
    #[serde(serialize_with = "name")]
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
    /// From the current request to the recommended one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Delta>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Distribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Why nothing is recommended.
    #[serde(serialize_with = "some_text", skip_serializing_if = "Option::is_none")]
    pub unknown: Option<Why>,
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
    pub from: SetBy,
}

/// Where a current request comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetBy {
    Author,
    /// The same estimate as the recommendation.
    Estimate,
    /// As the policy words it.
    Other(String),
}

impl fmt::Display for SetBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Author => f.write_str("author"),
            Self::Estimate => f.write_str("the same estimate at admission"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// In parentheses a request that is not in the manifest but applies.
impl fmt::Display for CurrentRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.from {
            SetBy::Author => write!(f, "{}", self.value),
            _ => write!(f, "({})", self.value),
        }
    }
}

/// The way from one amount to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Delta {
    #[serde(serialize_with = "signed_text")]
    pub amount: Quantity,
    /// Of the first amount; none of nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<i64>,
}

/// `-845m (-84%)`
impl fmt::Display for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.percent {
            _ if self.amount.is_zero() => f.write_str("none"),
            Some(percent) => write!(f, "{} ({percent:+}%)", signed(&self.amount)),
            None => f.write_str(&signed(&self.amount)),
        }
    }
}

impl Delta {
    pub fn new(before: Option<&Quantity>, after: &Quantity) -> Self {
        let Some(before) = before else { return Self { amount: after.clone(), percent: None } };
        Self { amount: after.minus(before), percent: percent_more(before, after) }
    }
}

/// By how many percent of the first amount the second is more; none of nothing.
fn percent_more(first: &Quantity, second: &Quantity) -> Option<i64> {
    match (i128::from(first.milli_value()), i128::from(second.milli_value())) {
        (0, _) => None,
        (first, second) => i64::try_from((second - first) * 100 / first).ok(),
    }
}

/// With its sign, unless it is nothing.
pub fn signed(amount: &Quantity) -> String {
    if amount.is_positive() { format!("+{amount}") } else { amount.to_string() }
}

pub(super) fn text<S: Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn some_text<S: Serializer>(value: &Option<impl fmt::Display>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

pub(super) fn signed_text<S: Serializer>(amount: &Quantity, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&signed(amount))
}

fn name<S: Serializer>(resource: &Resource, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(resource.name())
}

/// How much a recommendation is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Evidence {
    pub days: u64,
    /// Minutes observed, of all pods.
    pub samples: u64,
    /// Different ones, of which most may be gone.
    pub pods: u64,
}

impl Evidence {
    pub fn of(usage: &ContainerUsage) -> Option<Self> {
        let samples = Resource::ALL.map(|resource| usage.sketch(resource).seconds().div_ceil(60));
        let samples = samples.into_iter().max().filter(|samples| *samples > 0)?;
        Some(Self { days: usage.usage.days(), samples, pods: usage.usage.counted(Window::MONTH).pods.count() })
    }
}

/// Sums over containers and their pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Total {
    /// None for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub workloads: u64,
    pub containers: u64,
    /// Containers without any recommendation.
    pub without_advice: u64,
    pub cpu: Sum,
    pub memory: Sum,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved_a_month: Option<Money>,
}

/// Of one resource, over the containers with a recommendation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sum {
    #[serde(serialize_with = "text")]
    pub requested: Quantity,
    #[serde(serialize_with = "text")]
    pub recommended: Quantity,
    /// Less than nothing where more should be requested.
    #[serde(serialize_with = "text")]
    pub saved: Quantity,
}

/// The order of workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Order {
    /// What would be saved, in money, or as if 1 core cost as much as 8 GiB
    #[default]
    Waste,
    Cpu,
    Memory,
    Name,
    OomKills,
    Throttling,
    Restarts,
}

impl ResourceAdvice {
    /// The amount to write: none if there is no recommendation, or the object has it already.
    pub fn to_write(&self) -> Option<&Quantity> {
        self.recommended.as_ref().filter(|recommended| self.written.as_ref() != Some(recommended))
    }

    /// Whether the recommendation comes from usage, and is not what is usual for the image.
    pub fn is_measured(&self) -> bool {
        self.reason.as_ref().is_some_and(Reason::is_measured)
    }

    /// By how many percent of the recommendation the request is above it, or below.
    pub fn off_by_percent(&self) -> Option<i64> {
        percent_more(self.recommended.as_ref()?, &self.request.as_ref()?.value)
    }

    /// Takes a recommendation that is not wanted back.
    pub fn withdraw(&mut self) {
        (self.recommended, self.recommended_limit, self.change, self.reason) = (None, None, None, None);
    }

    /// What the recommendation saves in so many pods; less than nothing where it asks for more.
    pub fn saved(&self, pods: u64) -> Option<Quantity> {
        let recommended = self.recommended.as_ref()?;
        let current = self.request.as_ref().map_or(Quantity::ZERO, |request| request.value.clone());
        Some(current.minus(recommended).times_count(pods))
    }

    /// Where the recommendation comes from, or why there is none.
    pub fn explained(&self) -> String {
        let mut text = match (&self.reason, &self.unknown) {
            (Some(reason), _) => reason.to_string(),
            (None, Some(unknown)) => format!("unknown: {unknown}"),
            (None, None) => "-".to_owned(),
        };
        // Where admission would estimate the same, that was just said.
        let is_news = |request: &&CurrentRequest| {
            request.from != SetBy::Author && Some(&request.value) != self.recommended.as_ref()
        };
        if let Some(CurrentRequest { value, from }) = self.request.as_ref().filter(is_news) {
            text.push_str(&format!("; now {value}: {from}"));
        }
        text
    }
}

impl Container {
    pub fn resource(&self, resource: Resource) -> Option<&ResourceAdvice> {
        self.resources.iter().find(|advice| advice.resource == resource)
    }

    pub fn is_without_advice(&self) -> bool {
        self.resources.iter().all(|advice| advice.recommended.is_none())
    }

    /// Whether its CPU usage shows less than it wanted.
    pub fn is_much_throttled(&self) -> bool {
        self.throttled_percent.is_some_and(|percent| percent >= MUCH_THROTTLED)
    }
}

impl Workload {
    /// The requests of containers that run, for autoscalers that scale by them.
    pub fn requested(containers: &[Container]) -> Vec<Requested<'_>> {
        let running = containers.iter().filter(|container| !container.is_init);
        let all = running.flat_map(|container| container.resources.iter().map(move |advice| (container, advice)));
        all.map(|(container, advice)| Requested {
            container: &container.name,
            resource: advice.resource.name(),
            before: advice.request.as_ref().map(|request| request.value.clone()),
            after: advice.recommended.clone(),
        })
        .collect()
    }

    /// What a container's recommendation saves over all pods.
    pub fn saved_by(&self, container: &Container, resource: Resource) -> Option<Quantity> {
        container.resource(resource).and_then(|advice| advice.saved(self.pods))
    }

    /// Over all containers.
    pub fn saved(&self, resource: Resource) -> Quantity {
        let saved = self.containers.iter().filter_map(|container| self.saved_by(container, resource));
        saved.fold(Quantity::ZERO, |sum, saved| sum.plus(&saved))
    }
}

impl Report {
    /// Workloads in order, and their sums.
    pub fn new(
        source: Source,
        mut workloads: Vec<Workload>,
        quotas: Vec<QuotaEffect>,
        notes: Vec<String>,
        prices: Prices,
        order: Order,
    ) -> Self {
        sort(&mut workloads, order, &prices);
        let mut of_namespaces: BTreeMap<&str, Vec<&Workload>> = BTreeMap::new();
        workloads.iter().for_each(|of| of_namespaces.entry(&of.key.namespace).or_default().push(of));
        let totals = of_namespaces.iter().map(|(namespace, of)| total(Some(namespace), of, &prices)).collect();
        let total = total(None, &workloads.iter().collect::<Vec<_>>(), &prices);
        Self { source, workloads, totals, total, quotas, notes, prices }
    }

    /// Each container with its workload.
    pub fn containers(&self) -> impl Iterator<Item = (&Workload, &Container)> {
        self.workloads.iter().flat_map(|of| of.containers.iter().map(move |container| (of, container)))
    }

    /// A line for each autoscaler that would scale differently.
    pub fn scaled(&self) -> Vec<String> {
        let all = self.workloads.iter().flat_map(|of| of.autoscalers.iter().map(move |scaled| (of, scaled)));
        all.map(|(of, scaled)| format!("{} {}: {scaled}", of.key.namespace, of.key)).collect()
    }

    /// Each note once, with the first workload that it is about.
    pub fn all_notes(&self) -> Vec<String> {
        let mut about: Vec<(&str, Vec<&WorkloadRef>)> = Vec::new();
        for workload in &self.workloads {
            for note in &workload.notes {
                match about.iter_mut().find(|(have, _)| have == note) {
                    Some((_, workloads)) => workloads.push(&workload.key),
                    None => about.push((note, vec![&workload.key])),
                }
            }
        }
        let worded = about.into_iter().map(|(note, workloads)| match workloads.as_slice() {
            [] => note.to_owned(),
            [one] => format!("{} {one}: {note}", one.namespace),
            [first, others @ ..] => format!("{} {first} and {} more: {note}", first.namespace, others.len()),
        });
        worded.chain(self.notes.iter().cloned()).collect()
    }
}

fn sort(workloads: &mut [Workload], order: Order, prices: &Prices) {
    let most = |of: fn(&Container) -> u64| move |all: &Workload| all.containers.iter().map(of).max().unwrap_or(0);
    let by_count = |workloads: &mut [Workload], of: fn(&Container) -> u64| {
        workloads.sort_by_key(|workload| std::cmp::Reverse(most(of)(workload)));
    };
    // What is alike stays in the order of names.
    workloads.sort_by(|a, b| a.key.cmp(&b.key));
    let saved = |resource| move |of: &Workload| std::cmp::Reverse(of.saved(resource));
    match order {
        Order::Name => {}
        Order::Waste => workloads
            .sort_by_key(|of| std::cmp::Reverse(prices.weight(&of.saved(Resource::Cpu), &of.saved(Resource::Memory)))),
        Order::Cpu => workloads.sort_by_key(saved(Resource::Cpu)),
        Order::Memory => workloads.sort_by_key(saved(Resource::Memory)),
        Order::OomKills => by_count(workloads, |container| container.oom_kills),
        Order::Throttling => by_count(workloads, |container| container.throttled_percent.unwrap_or(0)),
        Order::Restarts => by_count(workloads, |container| container.restarts),
    }
}

fn total(namespace: Option<&str>, workloads: &[&Workload], prices: &Prices) -> Total {
    let containers = || workloads.iter().flat_map(|of| of.containers.iter().map(move |container| (of, container)));
    let sum = |resource: Resource| {
        let (mut requested, mut recommended) = (Quantity::ZERO, Quantity::ZERO);
        for (of, container) in containers() {
            let Some(advice) = container.resource(resource) else { continue };
            let Some(amount) = &advice.recommended else { continue };
            recommended = recommended.plus(&amount.times_count(of.pods));
            if let Some(request) = &advice.request {
                requested = requested.plus(&request.value.times_count(of.pods));
            }
        }
        let saved = requested.minus(&recommended);
        Sum { requested, recommended, saved }
    };
    let (cpu, memory) = (sum(Resource::Cpu), sum(Resource::Memory));
    Total {
        namespace: namespace.map(str::to_owned),
        workloads: workloads.len() as u64,
        containers: containers().count() as u64,
        without_advice: containers().filter(|(_, container)| container.is_without_advice()).count() as u64,
        saved_a_month: prices.money(&cpu.saved, &memory.saved),
        cpu,
        memory,
    }
}
