//! The rows of a report: a container each, with what every output shows of it.

use headroom_core::amount::Quantity;
use headroom_core::cluster::usage::Resource;
use headroom_report::people;

use crate::advice::flag::Flag;
use crate::advice::workload::{ContainerAdvice, RequestOrigin, ResourceAdvice, Workload};
use crate::report::Recommendations;
use crate::report::price::Money;

pub const CPU_AND_MEMORY: [Resource; 2] = [Resource::Cpu, Resource::Memory];

/// A container of a report.
pub struct ContainerRow<'r> {
    pub workload: &'r Workload,
    pub container: &'r ContainerAdvice,
    pub flags: &'r [Flag],
    /// The CPU and memory that are saved over all pods.
    pub saved: [Option<Quantity>; 2],
    /// The price of both; none without prices, or without a recommendation.
    pub money: Option<Money>,
    /// The weight of both among those of other rows.
    pub weight: Money,
}

impl Recommendations {
    pub fn rows(&self) -> impl Iterator<Item = ContainerRow<'_>> {
        self.containers().map(|(workload, container)| {
            let saved = CPU_AND_MEMORY.map(|resource| workload.saved_by(container, resource));
            let is_known = saved.iter().any(Option::is_some);
            let [cpu, memory] = saved.clone().map(|saved| saved.unwrap_or(Quantity::ZERO));
            let money = self.prices.money(&cpu, &memory).filter(|_| is_known);
            let weight = self.prices.weight(&cpu, &memory);
            ContainerRow { workload, container, flags: &container.flags, saved, money, weight }
        })
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
}

impl ContainerRow<'_> {
    /// `oom 3, hpa`
    pub fn flag_text(&self) -> String {
        self.flags.iter().map(Flag::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// An amount with its unit.
pub fn short(resource: Resource, amount: &Quantity) -> String {
    people::amount(resource.name(), amount)
}
