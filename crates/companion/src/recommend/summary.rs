//! Advice as a snapshot carries it to the page, which has no engine for advice: a line for each container and resource, with
//! amounts as people write them and as numbers to draw.

use headroom_core::amount::Quantity;
use serde::Serialize;

use super::{Advice, ContainerAdvice, QuotaEffect, ResourceAdvice, Workload, table};
use crate::distribution::{Distribution, thousandths};

#[derive(Debug, Serialize)]
pub struct Summary<'a> {
    lines: Vec<Line<'a>>,
    quotas: &'a [QuotaEffect],
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Line<'a> {
    namespace: &'a str,
    /// `deployment/web`
    object: String,
    pods: u64,
    container: &'a str,
    resource: &'static str,
    request: Option<Amount>,
    limit: Option<Amount>,
    recommended: Option<Amount>,
    /// Of the request, with its sign.
    change: String,
    /// What was observed, in rising order.
    usage: Vec<Level<'a>>,
    /// Where the advice comes from, or why there is none.
    source: String,
}

#[derive(Debug, Serialize)]
struct Amount {
    text: String,
    /// In thousandths.
    value: u64,
}

#[derive(Debug, Serialize)]
struct Level<'a> {
    /// `p95`
    at: &'a str,
    text: &'a str,
    /// In thousandths.
    value: u64,
}

const DRAWN: [&str; 5] = ["p50", "p90", "p95", "p99", "peak"];

/// None if nothing runs.
pub fn of(advice: &Advice) -> Option<Summary<'_>> {
    let lines = table::containers(advice).flat_map(|(workload, container)| {
        container.resources.iter().map(move |advice| Line::of(workload, container, advice))
    });
    let lines: Vec<Line<'_>> = lines.collect();
    let is_of_something = !lines.is_empty();
    is_of_something.then(|| Summary { lines, quotas: &advice.quotas, notes: table::notes(advice) })
}

impl<'a> Line<'a> {
    fn of(workload: &'a Workload, container: &'a ContainerAdvice, advice: &'a ResourceAdvice) -> Self {
        Self {
            namespace: &workload.namespace,
            object: workload.told(),
            pods: workload.pods,
            container: &container.name,
            resource: advice.resource,
            request: advice.current.as_ref().map(|current| Amount::new(table::current(current), &current.value)),
            limit: advice.limit.as_ref().map(|limit| Amount::new(limit.clone(), limit)),
            recommended: advice.recommended.as_ref().map(|amount| Amount::new(amount.clone(), amount)),
            change: table::change(advice),
            usage: advice.observed().into_iter().flat_map(|(_, observed)| Level::all(observed)).collect(),
            source: table::source(advice),
        }
    }
}

impl Amount {
    fn new(text: String, amount: &str) -> Self {
        // OK because it was written from a quantity.
        Self { text, value: amount.parse::<Quantity>().map_or(0, |amount| thousandths(&amount)) }
    }
}

impl<'a> Level<'a> {
    fn all(observed: &'a Distribution) -> impl Iterator<Item = Self> {
        observed.at(&DRAWN).map(|(at, text, value)| Self { at, text, value })
    }
}
