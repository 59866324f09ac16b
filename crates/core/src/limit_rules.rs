//! Selects the ranges that apply to an object: the cluster's LimitRanges in name order, then the settings' rules.

use std::rc::Rc;

use crate::cluster::Context;
use crate::cluster::limit_range::{CONTAINER, Item, LimitRange};
use crate::json::Malformed;
use crate::request::{Container, Pod, RangeName, Request};
use crate::settings::{LimitRangeRule, Settings};

/// A LimitRange or a rule that applies.
#[derive(Debug, Clone)]
pub enum Range<'d> {
    LimitRange(Rc<LimitRange<'d>>),
    Rule(&'d LimitRangeRule<'d>),
}

impl<'d> Range<'d> {
    pub fn name(&self) -> RangeName<'d> {
        match self {
            Self::LimitRange(range) => RangeName::LimitRange(range.name.clone()),
            Self::Rule(rule) => RangeName::Rule(rule.range.name.clone()),
        }
    }

    pub fn items(&self) -> &[Item<'d>] {
        match self {
            Self::LimitRange(range) => &range.items,
            Self::Rule(rule) => &rule.range.items,
        }
    }

    /// The items of type Container, if the range applies to this container.
    pub fn items_for<'a>(&'a self, container: &Container<'_>) -> impl Iterator<Item = &'a Item<'d>> + use<'a, 'd> {
        let applies = self.applies_to(container);
        self.items().iter().filter(move |item| applies && item.kind == CONTAINER)
    }

    pub fn applies_to(&self, container: &Container<'_>) -> bool {
        match self {
            Self::LimitRange(_) => true,
            Self::Rule(rule) => rule.selects_container(&container.name, &container.image),
        }
    }
}

/// The ranges for a pod of this request, or for its claim if there is no pod.
pub fn applicable<'d>(
    request: &Request<'d>,
    pod: Option<&Pod<'d>>,
    context: &Context<'d>,
    settings: &'d Settings<'d>,
) -> Result<Vec<Range<'d>>, Malformed> {
    let of_cluster = context.limit_ranges.iter().flatten();
    let mut ranges: Vec<Range<'d>> = of_cluster.map(|range| Range::LimitRange(range.clone())).collect();
    if settings.limit_ranges.rules.is_empty() {
        return Ok(ranges);
    }
    let pod_labels = pod.map(|pod| pod.node.at(&["metadata", "labels"])).transpose()?.flatten();
    for rule in &settings.limit_ranges.rules {
        let selects_object = if pod.is_some() { rule.selects_pod(pod_labels)? } else { !rule.is_about_pods() };
        if selects_object && rule.selects_namespace(&request.namespace, context.namespace)? {
            ranges.push(Range::Rule(rule));
        }
    }
    Ok(ranges)
}
