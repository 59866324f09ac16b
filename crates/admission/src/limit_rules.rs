//! Selects the ranges that apply to an object: the cluster's LimitRanges in name order, then the settings' rules.

use std::rc::Rc;

use crate::cluster::Context;
use crate::cluster::limit_range::{CONTAINER, Item, LimitRange};
use crate::json::{Malformed, Node};
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
    let rules = &settings.limit_ranges.rules;
    let labelled = pod.filter(|_| !rules.is_empty());
    let pod_labels = labelled.map(|pod| pod.node.at(&["metadata", "labels"])).transpose()?.flatten();
    for rule in rules {
        let selects_object = if pod.is_some() { rule.selects_pod(pod_labels)? } else { rule.pod_labels.is_none() };
        if selects_object && rule.selects_namespace(&request.namespace, context.namespace)? {
            ranges.push(Range::Rule(rule));
        }
    }
    if let Some(pod) = pod {
        bounded(pod.containers.len(), ("containers", pod.node), CONTAINER, &ranges)?;
    }
    Ok(ranges)
}

/// The containers times the amounts in ranges that any request may have, a hundred times those of the largest workloads that people
/// publish. Each pair costs some work, so without a bound a small object in a small namespace could cost seconds.
const PAIRS: usize = 16_000;
/// A large object may have as many pairs as a quarter of its bytes: that of many containers costs no more for each.
const BYTES_OF_PAIR: usize = 4;

/// Refuses to evaluate so many parts of an object, all with each amount of the ranges.
pub fn bounded(
    count: usize,
    (noun, node): (&str, Node<'_>),
    kind: &str,
    ranges: &[Range<'_>],
) -> Result<(), Malformed> {
    let amounts_of = |range: &Range<'_>| -> usize {
        let items = range.items().iter().filter(|item| item.kind == kind);
        items.map(|item| 1 + item.lists().map(|(_, list)| list.len()).iter().sum::<usize>()).sum()
    };
    let amounts: usize = ranges.iter().map(amounts_of).sum();
    let most = PAIRS.max(node.text().len() / BYTES_OF_PAIR);
    if count.saturating_mul(amounts) <= most {
        return Ok(());
    }
    let largest = ranges.iter().max_by_key(|range| amounts_of(range)).map(|range| range.name().to_string());
    Err(node.error(format!(
        "too much to evaluate: {count} {noun} times {amounts} amounts in LimitRanges and rules are more than {most}; use fewer \
         {noun}, or fewer amounts in {}",
        largest.unwrap_or_default()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Document;

    #[test]
    fn what_multiplies_is_bounded_whichever_of_both_is_large() {
        let check = |containers: usize, names: usize, expected: Option<&str>| {
            let list: Vec<String> = (0..names).map(|name| format!(r#""r{name}": "1""#)).collect();
            let range = format!(
                r#"{{"metadata": {{"name": "many"}}, "spec": {{"limits": [{{"type": "Container", "max": {{{}}}}}]}}}}"#,
                list.join(", ")
            );
            let documents = [range.as_str(), r#"{"spec": {}}"#].map(|text| Document::read(text).unwrap());
            let range = Range::LimitRange(Rc::new(LimitRange::read(documents[0].root()).unwrap()));
            let found = bounded(containers, ("containers", documents[1].root()), CONTAINER, &[range]);
            assert_eq!(found.err().map(|malformed| malformed.problem).as_deref(), expected, "{containers} x {names}");
        };
        check(160, 99, None);
        check(16_000, 0, None);
        check(
            161,
            99,
            Some(
                "too much to evaluate: 161 containers times 100 amounts in LimitRanges and rules are more than 16000; use fewer \
                 containers, or fewer amounts in LimitRange many",
            ),
        );
        assert_eq!(bounded(usize::MAX, ("claims", Document::read("{}").unwrap().root()), "Pod", &[]).ok(), Some(()));
    }
}
