//! What a scan found, as data: workloads with their containers, totals, quotas and notes. Every output is made of this.

use std::collections::BTreeMap;

use headroom_core::amount::Quantity;
use headroom_core::cluster::usage::Resource;
use headroom_usage::sketch::Sketch;
use headroom_usage::window_merge::quantity;
use serde::{Serialize, Serializer};

use super::history::Kept;
use super::owners::Key;
use super::price::{Money, Prices};
use crate::recommend::autoscaler::{Requested, Scaled};
use crate::recommend::{Change, Current, QuotaEffect};

/// CPU usage that had to wait more often than this, in percent, tells less than was wanted.
pub const MUCH_THROTTLED: u64 = 5;

/// Everything that a scan found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub source: Source,
    pub workloads: Vec<Row>,
    /// By namespace.
    pub totals: Vec<Total>,
    pub total: Total,
    /// What taking all of the advice does to each quota.
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

impl Source {
    /// `Usage from Prometheus at monitoring/prometheus:9090, 2026-11-08T10:00:00Z to 2026-11-22T10:00:00Z`
    pub fn told(&self) -> String {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => format!("Usage from {}, {from} to {to}", self.name),
            _ => format!("Usage from {}", self.name),
        }
    }
}

/// A workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// What was read in its place, where its own kind is not known: `replicaset/web-5d8f`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// What is at the top of its owners: `kafka/events`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,
    pub pods: u64,
    #[serde(rename = "qosClass")]
    pub qos: &'static str,
    #[serde(rename = "qosClassAfter")]
    pub qos_after: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub autoscalers: Vec<Scaled>,
    pub containers: Vec<ContainerRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// From the object to the pod in it.
    #[serde(skip)]
    pub path: Vec<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRow {
    pub name: String,
    pub image: String,
    pub is_init: bool,
    pub resources: Vec<ResourceRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    pub oom_kills: u64,
    /// Of the periods in which it wanted to run; none where no CPU limit was in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_percent: Option<u64>,
    pub restarts: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRow {
    pub resource: &'static str,
    /// What admission makes of what is set now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Current>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommended: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommended_limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Used>,
    /// How the recommendation came about: margins, kills, and what the LimitRanges say to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Whether it is made of what this workload used, and not of what is usual for the image.
    pub is_measured: bool,
    /// Why nothing is recommended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    #[serde(skip)]
    pub amounts: Amounts,
}

/// The same as numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Amounts {
    pub current: Option<Quantity>,
    pub recommended: Option<Quantity>,
    /// As the object itself has it.
    pub written: Option<Quantity>,
    pub pods: u64,
}

/// What was used, in figures that people know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Used {
    #[serde(serialize_with = "as_text")]
    pub p50: Quantity,
    #[serde(serialize_with = "as_text")]
    pub p75: Quantity,
    #[serde(serialize_with = "as_text")]
    pub p90: Quantity,
    #[serde(serialize_with = "as_text")]
    pub p95: Quantity,
    #[serde(serialize_with = "as_text")]
    pub p99: Quantity,
    #[serde(serialize_with = "as_text")]
    pub peak: Quantity,
}

fn as_text<S: Serializer>(amount: &Quantity, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(amount)
}

/// How much the advice is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Evidence {
    pub days: u64,
    /// Minutes observed, of all pods.
    pub samples: u64,
    /// Different ones, of which most may be gone.
    pub pods: u64,
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
    /// Containers without any advice.
    pub without_advice: u64,
    pub cpu: Sum,
    pub memory: Sum,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved_a_month: Option<Money>,
}

/// Of one resource, over the containers with advice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sum {
    #[serde(serialize_with = "as_text")]
    pub requested: Quantity,
    #[serde(serialize_with = "as_text")]
    pub recommended: Quantity,
    /// Less than nothing where more should be requested.
    #[serde(serialize_with = "as_text")]
    pub saved: Quantity,
}

impl Default for Sum {
    fn default() -> Self {
        Self { requested: Quantity::ZERO, recommended: Quantity::ZERO, saved: Quantity::ZERO }
    }
}

/// By what rows are sorted.
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

impl Used {
    pub fn of(sketch: &Sketch, resource: Resource) -> Option<Self> {
        if sketch.is_empty() {
            return None;
        }
        let [p50, p75, p90, p95, p99] =
            sketch.percentiles([500, 750, 900, 950, 990]).map(|amount| quantity(amount, resource));
        Some(Self { p50, p75, p90, p95, p99, peak: quantity(sketch.peak(), resource) })
    }
}

impl Evidence {
    pub fn of(kept: &Kept) -> Option<Self> {
        let samples = Resource::ALL.map(|resource| kept.sketch(resource).seconds().div_ceil(60));
        let samples = samples.into_iter().max().filter(|samples| *samples > 0)?;
        let counted = kept.usage.counted(headroom_core::cluster::usage::Window::MONTH);
        Some(Self { days: kept.usage.days(), samples, pods: counted.pods.count() })
    }
}

impl ResourceRow {
    /// What the advice saves over all pods; less than nothing where it asks for more.
    pub fn saved(&self) -> Option<Quantity> {
        let recommended = self.amounts.recommended.as_ref()?;
        let current = self.amounts.current.clone().unwrap_or(Quantity::ZERO);
        Some(current.minus(recommended).times_count(self.amounts.pods))
    }

    /// What is to be written: none if there is no advice, or the object says it already.
    pub fn to_write(&self) -> Option<&str> {
        let recommended = self.recommended.as_deref()?;
        (self.amounts.written != self.amounts.recommended).then_some(recommended)
    }

    /// By how many percent of the recommendation the request is above it, or below.
    pub fn off_by_percent(&self) -> Option<i64> {
        let recommended = i128::from(self.amounts.recommended.as_ref()?.milli_value());
        let current = i128::from(self.amounts.current.as_ref()?.milli_value());
        if recommended == 0 {
            return None;
        }
        i64::try_from((current - recommended) * 100 / recommended).ok()
    }
}

impl ContainerRow {
    pub fn resource(&self, name: &str) -> Option<&ResourceRow> {
        self.resources.iter().find(|row| row.resource == name)
    }

    pub fn is_without_advice(&self) -> bool {
        self.resources.iter().all(|row| row.recommended.is_none())
    }

    /// Whether its CPU usage tells less than it wanted.
    pub fn is_much_throttled(&self) -> bool {
        self.throttled_percent.is_some_and(|percent| percent >= MUCH_THROTTLED)
    }

    pub fn saved(&self, name: &str) -> Option<Quantity> {
        self.resource(name).and_then(ResourceRow::saved)
    }
}

impl Row {
    /// What its containers request, for those who scale by it.
    pub fn requested(containers: &[ContainerRow]) -> Vec<Requested<'_>> {
        let running = containers.iter().filter(|container| !container.is_init);
        let all = running.flat_map(|container| container.resources.iter().map(move |row| (container, row)));
        all.map(|(container, row)| Requested {
            container: &container.name,
            resource: row.resource,
            before: row.amounts.current.clone(),
            after: row.amounts.recommended.clone(),
        })
        .collect()
    }

    pub fn key(&self) -> Key {
        Key::new(&self.namespace, &self.kind, &self.name)
    }

    pub fn told(&self) -> String {
        self.key().told()
    }

    /// Over all containers.
    pub fn saved(&self, name: &str) -> Quantity {
        let saved = self.containers.iter().filter_map(|container| container.saved(name));
        saved.fold(Quantity::ZERO, |sum, saved| sum.plus(&saved))
    }
}

impl Report {
    /// Rows in order, and their sums.
    pub fn new(
        source: Source,
        mut workloads: Vec<Row>,
        quotas: Vec<QuotaEffect>,
        notes: Vec<String>,
        prices: Prices,
        order: Order,
    ) -> Self {
        sort(&mut workloads, order, &prices);
        let mut of_namespaces: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
        workloads.iter().for_each(|row| of_namespaces.entry(&row.namespace).or_default().push(row));
        let totals = of_namespaces.iter().map(|(namespace, rows)| total(Some(namespace), rows, &prices)).collect();
        let total = total(None, &workloads.iter().collect::<Vec<_>>(), &prices);
        Self { source, workloads, totals, total, quotas, notes, prices }
    }

    /// Each container with its workload.
    pub fn containers(&self) -> impl Iterator<Item = (&Row, &ContainerRow)> {
        self.workloads.iter().flat_map(|row| row.containers.iter().map(move |container| (row, container)))
    }
}

fn sort(rows: &mut [Row], order: Order, prices: &Prices) {
    let most = |of: fn(&ContainerRow) -> u64| move |row: &Row| row.containers.iter().map(of).max().unwrap_or(0);
    let by_count = |rows: &mut [Row], of: fn(&ContainerRow) -> u64| {
        rows.sort_by_key(|row| std::cmp::Reverse(most(of)(row)));
    };
    // What is alike stays in the order of names.
    rows.sort_by_key(Row::key);
    match order {
        Order::Name => {}
        Order::Waste => {
            rows.sort_by_key(|row| std::cmp::Reverse(prices.weight(&row.saved("cpu"), &row.saved("memory"))));
        }
        Order::Cpu => rows.sort_by_key(|row| std::cmp::Reverse(row.saved("cpu"))),
        Order::Memory => rows.sort_by_key(|row| std::cmp::Reverse(row.saved("memory"))),
        Order::OomKills => by_count(rows, |container| container.oom_kills),
        Order::Throttling => by_count(rows, |container| container.throttled_percent.unwrap_or(0)),
        Order::Restarts => by_count(rows, |container| container.restarts),
    }
}

fn total(namespace: Option<&str>, rows: &[&Row], prices: &Prices) -> Total {
    let containers = || rows.iter().flat_map(|row| &row.containers);
    let sum = |name: &str| {
        let mut sum = Sum::default();
        let with_advice = containers().filter_map(|container| container.resource(name));
        for row in with_advice.filter(|row| row.amounts.recommended.is_some()) {
            let all = |amount: &Option<Quantity>| {
                amount.as_ref().map_or(Quantity::ZERO, |amount| amount.times_count(row.amounts.pods))
            };
            sum.requested = sum.requested.plus(&all(&row.amounts.current));
            sum.recommended = sum.recommended.plus(&all(&row.amounts.recommended));
        }
        sum.saved = sum.requested.minus(&sum.recommended);
        sum
    };
    let (cpu, memory) = (sum("cpu"), sum("memory"));
    Total {
        namespace: namespace.map(str::to_owned),
        workloads: rows.len() as u64,
        containers: containers().count() as u64,
        without_advice: containers().filter(|container| container.is_without_advice()).count() as u64,
        saved_a_month: prices.money(&cpu.saved, &memory.saved),
        cpu,
        memory,
    }
}
