//! Recommendations as data: workloads with their containers, risks, sums, effects on quotas, and notes. Every output is made
//! of this, whichever source the usage was read from.

pub mod price;
pub mod rule;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::Resource;
use headroom_admission::recommend::NoRecommendation;
use headroom_admission::truncate::count_of;
use serde::Serialize;

use self::price::{Money, Prices};
use self::rule::RequestRule;
use crate::advice::amounts::{CPU_AND_MEMORY, text};
use crate::advice::flag::Flag;
use crate::advice::quota_effect::{self, QuotaEffect};
use crate::advice::risk::{self, Risk};
use crate::advice::workload::{ContainerAdvice, RequestOrigin, ResourceAdvice, Severity, Workload};
use headroom_workloads::WorkloadRef;

/// Everything that is recommended in one run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Recommendations {
    /// The context of the cluster; none for files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    pub source: ReportSource,
    pub rules: Vec<RequestRule>,
    pub workloads: Vec<Workload>,
    /// By namespace.
    pub totals: Vec<Total>,
    pub total: Total,
    pub quotas: Vec<QuotaEffect>,
    pub risks: Vec<Risk>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    #[serde(skip)]
    pub prices: Prices,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportSource {
    /// `service monitoring/prometheus`
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_seconds: Option<u32>,
    /// The step of CPU, if it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_step_seconds: Option<u32>,
    /// The last moment with usage of anything, if an outage of the store lasts since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage_since: Option<String>,
    /// True if something was not read, as the notes say.
    pub is_partial: bool,
}

impl ReportSource {
    /// `outage: no usage of anything since 2026-11-22T07:00:00Z; what was used before counts`
    pub fn outage(&self) -> Option<String> {
        let since = self.outage_since.as_ref()?;
        Some(format!("outage: the store has no usage of anything since {since}; what was used before counts"))
    }
}

/// `Usage from Prometheus at monitoring/prometheus:9090, 2026-11-08T10:00:00Z to 2026-11-22T10:00:00Z, step 5m`
impl fmt::Display for ReportSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Usage from {}", self.name)?;
        if let (Some(from), Some(to)) = (&self.from, &self.to) {
            write!(f, ", {from} to {to}")?;
        }
        let text = |step: u32| if step.is_multiple_of(60) { format!("{}m", step / 60) } else { format!("{step}s") };
        match (self.step_seconds, self.cpu_step_seconds) {
            (Some(step), Some(of_cpu)) => write!(f, ", step {}, CPU {}", text(step), text(of_cpu)),
            (Some(step), None) => write!(f, ", step {}", text(step)),
            (None, _) => Ok(()),
        }
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
    /// Those of them of which no usage is known.
    pub without_usage: u64,
    pub cpu: Sum,
    pub memory: Sum,
    /// The cost of what is requested now, also by containers without a recommendation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_a_month: Option<Money>,
    /// The cost of the requests that are made smaller, and of those that are made larger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub freed_a_month: Option<Money>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_a_month: Option<Money>,
    /// The difference of both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved_a_month: Option<Money>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
}

/// The sum of one resource over the pods of workloads with a recommendation.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Savings in money, or as if 1 core cost as much as 8 GiB.
    #[default]
    Waste,
    Name,
}

impl Recommendations {
    /// Workloads in order, and their sums.
    pub fn new(
        (source, rules): (ReportSource, Vec<RequestRule>),
        mut workloads: Vec<Workload>,
        notes: Vec<String>,
        prices: Prices,
        order: Order,
    ) -> Self {
        // Equal workloads stay in the order of names.
        workloads.sort_by(|a, b| a.key.cmp(&b.key));
        if order == Order::Waste {
            workloads.sort_by_key(|of| {
                let [cpu, memory] = CPU_AND_MEMORY.map(|resource| of.possible_saving(resource));
                Reverse(prices.weight(&cpu, &memory))
            });
        }
        for of in &mut workloads {
            let told = of.containers.iter().map(|container| (risk::severity(of, container), of.flags(container)));
            let told: Vec<(Severity, Vec<Flag>)> = told.collect();
            of.containers.iter_mut().zip(told).for_each(|(of, told)| (of.severity, of.flags) = told);
        }
        let (totals, total, quotas) = (Vec::new(), total(None, &[], &prices), Vec::new());
        let risks = risk::of_all(&workloads);
        let mut report = Self { cluster: None, source, rules, workloads, totals, total, quotas, risks, notes, prices };
        report.add_up();
        report
    }

    /// Makes all sums anew, of the changes that were tried.
    pub fn add_up(&mut self) {
        let mut of_namespaces: BTreeMap<&str, Vec<&Workload>> = BTreeMap::new();
        self.workloads.iter().for_each(|of| of_namespaces.entry(&of.key.namespace).or_default().push(of));
        self.totals = of_namespaces.iter().map(|(namespace, of)| total(Some(namespace), of, &self.prices)).collect();
        self.total = total(None, &self.workloads.iter().collect::<Vec<_>>(), &self.prices);
        let tried = self.workloads.iter_mut().filter(|of| !of.is_untried);
        let effects = tried.flat_map(|of| std::mem::take(&mut of.effects));
        self.quotas = quota_effect::together(std::mem::take(&mut self.quotas).into_iter().chain(effects));
        self.quotas.sort_by(|a, b| a.level.key.namespace.cmp(&b.level.key.namespace));
    }

    /// `Cluster: prod. Usage from …`
    pub fn about(&self) -> String {
        let cluster = self.cluster.as_ref().map(|cluster| format!("Cluster: {cluster}. ")).unwrap_or_default();
        format!("{cluster}{}", self.source)
    }

    /// The first line for people: an outage, what is at risk, and what is left alone because nobody has measured it; empty if nothing
    /// is.
    pub fn headline(&self) -> String {
        let all = count_of(self.total.containers, "container");
        let at_risk = BTreeSet::from_iter(self.risks.iter().map(|risk| (&risk.workload, &risk.container))).len();
        let at_risk = (at_risk > 0).then(|| format!("{at_risk} of {all} at risk"));
        let blocked = Some(self.blocked().len() as u64).filter(|count| *count > 0);
        let blocked = blocked.map(|count| format!("{} would be blocked", count_of(count, "recommendation")));
        let partial = self.source.is_partial.then(|| "not everything could be read (see the notes)".to_owned());
        let first = self.source.outage().into_iter().chain(at_risk).chain(blocked);
        first.chain(self.left_alone()).chain(partial).collect::<Vec<_>>().join("; ")
    }

    /// The containers that no output changes, counted by the reason.
    pub fn left_alone(&self) -> Vec<String> {
        let all = count_of(self.total.containers, "container");
        let withheld = |is_why: fn(&NoRecommendation) -> bool| {
            let is_withheld =
                |of: &ContainerAdvice| of.resources.iter().any(|of| of.unknown.as_ref().is_some_and(is_why));
            self.containers().filter(|(_, container)| is_withheld(container)).count() as u64
        };
        let counts = [
            ("no usage data", self.total.without_usage),
            ("too little data", self.containers().filter(|(_, of)| of.is_too_brief()).count() as u64),
            ("short history", withheld(|why| matches!(why, NoRecommendation::ShortHistory { .. }))),
            ("seen in a part of the time", withheld(|why| matches!(why, NoRecommendation::PartlySeen { .. }))),
            ("whole cpus", withheld(|why| *why == NoRecommendation::WholeCpus)),
        ];
        counts
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(why, count)| format!("{why} for {count} of {all}"))
            .collect()
    }

    pub fn containers(&self) -> impl Iterator<Item = (&Workload, &ContainerAdvice)> {
        self.workloads.iter().flat_map(|of| of.containers.iter().map(move |container| (of, container)))
    }

    /// The price of what a container's recommendation saves; none without prices, or without a recommendation.
    pub fn money_of(&self, of: &Workload, container: &ContainerAdvice) -> Option<Money> {
        let saved = CPU_AND_MEMORY.map(|resource| of.saved_by(container, resource));
        let is_known = saved.iter().any(Option::is_some);
        let [cpu, memory] = saved.map(|saved| saved.unwrap_or(Quantity::ZERO));
        self.prices.money(&cpu, &memory).filter(|_| is_known)
    }

    /// True if changes are not handed out because they would be blocked.
    pub fn leaves_out_blocked(&self) -> bool {
        self.workloads.iter().any(|of| of.blocked.is_some())
    }

    /// A line for each change that would be blocked, in the order in which they were tried.
    pub fn blocked(&self) -> Vec<String> {
        let worded = |of: &Workload| Some(format!("{} {}: {}", of.key.namespace, of.key, of.blocked.as_ref()?));
        let mut blocked: Vec<&Workload> = self.workloads.iter().filter(|of| of.blocked.is_some()).collect();
        blocked.sort_by_key(|of| of.turn);
        blocked.into_iter().filter_map(worded).collect()
    }

    /// The cost of the requests, and how it would change; none without prices.
    pub fn money(&self) -> Option<String> {
        let Total { cost_a_month, freed_a_month, added_a_month, saved_a_month, .. } = &self.total;
        let shown = |money: &Option<Money>| money.map(|money| self.prices.shown(money));
        Some(format!(
            "Per month at {}: {} requested now; {} freed, {} added, {} net. Freed requests save money once nodes are removed",
            self.prices,
            shown(cost_a_month)?,
            shown(freed_a_month)?,
            shown(added_a_month)?,
            shown(saved_a_month)?,
        ))
    }

    /// A line for each autoscaler that would scale differently.
    pub fn scaled(&self) -> Vec<String> {
        let all = self.workloads.iter().flat_map(|of| of.autoscalers.iter().map(move |scaled| (of, scaled)));
        all.map(|(of, scaled)| format!("{} {}: {scaled}", of.key.namespace, of.key)).collect()
    }

    /// The flags of each container that has some.
    pub fn flagged(&self) -> Vec<String> {
        let flagged = self.containers().filter(|(_, container)| !container.flags.is_empty());
        let text = |(of, container): (&Workload, &ContainerAdvice)| {
            format!("{} {} {}: {}", of.key.namespace, of.key, container.name, container.flag_text())
        };
        flagged.map(text).collect()
    }

    /// A line for each kind of flag.
    pub fn flags_explained(&self) -> Vec<String> {
        let all = self.containers().flat_map(|(_, container)| &container.flags);
        let mut explained: Vec<&str> = all.filter_map(Flag::explained).collect();
        let is_set_by_others = |advice: &ResourceAdvice| {
            advice.request.as_ref().is_some_and(|request| request.from != RequestOrigin::Author)
        };
        if self.containers().any(|(_, container)| container.resources.iter().any(is_set_by_others)) {
            explained.push("(0.10): a request that is set at admission and not in the manifest");
        }
        explained.sort_unstable();
        explained.dedup();
        explained.into_iter().map(str::to_owned).collect()
    }

    /// Each note once, with the first workload that it is about.
    pub fn all_notes(&self) -> Vec<String> {
        let mut about: Vec<(&str, Vec<&WorkloadRef>)> = Vec::new();
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for (note, workload) in self.workloads.iter().flat_map(|of| of.notes.iter().map(move |note| (note, &of.key))) {
            let place = *places.entry(note).or_insert(about.len());
            match about.get_mut(place) {
                Some((_, workloads)) => workloads.push(workload),
                None => about.push((note, vec![workload])),
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

fn total(namespace: Option<&str>, workloads: &[&Workload], prices: &Prices) -> Total {
    let containers = || workloads.iter().flat_map(|of| of.containers.iter().map(move |container| (of, container)));
    let add_up = |amounts: &mut dyn Iterator<Item = Quantity>| amounts.fold(Quantity::ZERO, |sum, of| sum.plus(&of));
    let requested = |of: &Workload, place: usize| of.requested.get(place).map(|amount| amount.times_count(of.pods));
    let sum = |(place, resource): (usize, Resource)| {
        let is_advised = |of: &&&Workload| of.parts(resource).iter().any(|part| part.then.is_some());
        let advised = || workloads.iter().filter(|of| !of.is_untried).filter(is_advised);
        let requested = add_up(&mut advised().filter_map(|of| requested(of, place)));
        let saved = add_up(&mut advised().map(|of| of.saved(resource)));
        Sum { recommended: requested.minus(&saved), requested, saved }
    };
    let (cpu, memory) = (sum((0, Resource::Cpu)), sum((1, Resource::Memory)));
    let saved = |resource| containers().filter_map(move |(of, container)| of.saved_by(container, resource));
    let freed = |resource| add_up(&mut saved(resource).filter(Quantity::is_positive));
    let added = |resource| Quantity::ZERO.minus(&add_up(&mut saved(resource).filter(Quantity::is_negative)));
    let now = |place| add_up(&mut workloads.iter().filter_map(|of| requested(of, place)));
    Total {
        namespace: namespace.map(str::to_owned),
        workloads: workloads.len() as u64,
        containers: containers().count() as u64,
        without_advice: containers().filter(|(_, container)| container.is_without_advice()).count() as u64,
        without_usage: containers().filter(|(_, container)| container.is_without_usage()).count() as u64,
        cost_a_month: prices.money(&now(0), &now(1)),
        freed_a_month: prices.money(&freed(Resource::Cpu), &freed(Resource::Memory)),
        added_a_month: prices.money(&added(Resource::Cpu), &added(Resource::Memory)),
        saved_a_month: prices.money(&cpu.saved, &memory.saved),
        currency: prices.currency.clone(),
        cpu,
        memory,
    }
}
