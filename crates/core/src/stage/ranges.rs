//! Which ranges speak of an object: the cluster's LimitRanges in name order, then the rules of the settings.

use crate::context::Context;
use crate::context::limit_range::{CONTAINER, Item, LimitRange};
use crate::json::Malformed;
use crate::request::{Container, PodTemplate, Request, template::RangeName};
use crate::settings::{Rule, Settings};

/// A LimitRange or a rule that applies.
#[derive(Debug, Clone, Copy)]
pub struct Range<'a, 'd> {
    range: &'a LimitRange<'d>,
    rule: Option<&'a Rule<'d>>,
}

impl<'a, 'd> Range<'a, 'd> {
    pub fn name(&self) -> RangeName<'d> {
        let name = self.range.name.clone();
        if self.rule.is_some() { RangeName::Rule(name) } else { RangeName::LimitRange(name) }
    }

    pub fn items(&self) -> &'a [Item<'d>] {
        &self.range.items
    }

    /// The items of type Container, if the range speaks of this container.
    pub fn items_for(&self, container: &Container<'_>) -> impl Iterator<Item = &'a Item<'d>> + use<'a, 'd> {
        let speaks = self.speaks_of(container);
        self.range.items.iter().filter(move |item| speaks && item.kind == CONTAINER)
    }

    pub fn speaks_of(&self, container: &Container<'_>) -> bool {
        self.rule.is_none_or(|rule| rule.selects_container(container))
    }
}

/// The ranges for a pod of this request, or for its claim if there is no pod.
pub fn applicable<'a, 'd>(
    request: &Request<'d>,
    pod: Option<&PodTemplate<'d>>,
    context: &'a Context<'d>,
    settings: &'a Settings<'d>,
) -> Result<Vec<Range<'a, 'd>>, Malformed> {
    let of_cluster = context.limit_ranges.iter().flatten().map(|range| Range { range, rule: None });
    let mut ranges: Vec<Range<'a, 'd>> = of_cluster.collect();
    if settings.limit_ranges.rules.is_empty() {
        return Ok(ranges);
    }
    let pod_labels = pod.map(|pod| pod.node.at(&["metadata", "labels"])).transpose()?.flatten();
    let namespace_labels = context.namespace_labels()?;
    for rule in &settings.limit_ranges.rules {
        let selects_object = if pod.is_some() { rule.selects_pod(pod_labels)? } else { !rule.is_about_pods() };
        if selects_object && rule.selects_namespace(&request.namespace, namespace_labels)? {
            ranges.push(Range { range: &rule.range, rule: Some(rule) });
        }
    }
    Ok(ranges)
}
