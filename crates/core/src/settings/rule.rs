//! Rules: LimitRange items that an operator writes into the settings, with selectors.

use std::borrow::Cow;

use super::{LabelSelector, Pattern, Reader};
use crate::context::limit_range::{CONTAINER, Item, LimitRange};
use crate::json::{Malformed, Node};
use crate::request::Container;

/// One entry of `limitRanges.rules`. A selector that is absent selects everything.
#[derive(Debug, Clone)]
pub struct Rule<'d> {
    pub range: LimitRange<'d>,
    namespaces: Vec<Pattern<'d>>,
    pub namespace_labels: Option<LabelSelector<'d>>,
    pod_labels: Option<LabelSelector<'d>>,
    containers: Vec<Pattern<'d>>,
    images: Vec<Pattern<'d>>,
}

impl<'d> Rule<'d> {
    pub(super) fn read_all(section: &mut Reader<'_, 'd>, implied_defaults: bool) -> Vec<Self> {
        let rules = section.sections("rules", |rule| Self::read(rule, implied_defaults));
        for (index, rule) in rules.iter().enumerate() {
            let is_repeated = rules.iter().take(index).any(|earlier| earlier.range.name == rule.range.name);
            if is_repeated && !rule.range.name.is_empty() {
                section.problem(&format!("rules[{index}].name"), &format!("`{}` is used twice", rule.range.name));
            }
        }
        rules
    }

    fn read(reader: &mut Reader<'_, 'd>, implied_defaults: bool) -> Self {
        let name = reader.string("name").unwrap_or_default();
        if name.is_empty() {
            reader.problem("name", "is missing: messages name the rule by it");
        }
        let items = reader.sections("limits", read_item);
        let mut range = LimitRange { name, items };
        if range.items.is_empty() {
            reader.problem("limits", "is missing: a rule needs at least one LimitRange item");
        }
        if implied_defaults {
            range.imply_defaults();
        }
        let place = reader.path_of("limits");
        for problem in range.problems(&place) {
            reader.add(problem.to_string());
        }
        let rule = Self {
            range,
            namespaces: reader.patterns("namespaces"),
            namespace_labels: reader.label_selector("namespaceLabels"),
            pod_labels: reader.label_selector("podLabels"),
            containers: reader.patterns("containers"),
            images: reader.patterns("images"),
        };
        let selects_containers = !rule.containers.is_empty() || !rule.images.is_empty();
        if selects_containers && rule.range.items.iter().any(|item| item.kind != CONTAINER) {
            reader.problem("limits", "may hold only items of type `Container` beside `containers` or `images`");
        }
        rule
    }

    /// Whether the rule speaks of objects in this namespace.
    pub fn selects_namespace(&self, name: &str, labels: Option<Node<'_>>) -> Result<bool, Malformed> {
        let by_name = self.namespaces.is_empty() || self.namespaces.iter().any(|pattern| pattern.matches(name));
        Ok(by_name && self.namespace_labels.as_ref().map_or(Ok(true), |selector| selector.matches(labels))?)
    }

    /// Whether the rule speaks of a pod with these labels.
    pub fn selects_pod(&self, labels: Option<Node<'_>>) -> Result<bool, Malformed> {
        self.pod_labels.as_ref().map_or(Ok(true), |selector| selector.matches(labels))
    }

    /// Whether the rule is about pods by their labels, and so never about claims.
    pub fn is_about_pods(&self) -> bool {
        self.pod_labels.is_some()
    }

    pub fn selects_container(&self, container: &Container<'_>) -> bool {
        let any = |patterns: &[Pattern<'_>], text: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(text))
        };
        any(&self.containers, &container.name) && any(&self.images, &container.image)
    }
}

fn read_item<'d>(reader: &mut Reader<'_, 'd>) -> Item<'d> {
    use crate::amount::ResourceList;
    Item {
        kind: reader.string("type").unwrap_or(Cow::Borrowed("")),
        min: reader.field("min", ResourceList::read).unwrap_or_default(),
        max: reader.field("max", ResourceList::read).unwrap_or_default(),
        default_limit: reader.field("default", ResourceList::read).unwrap_or_default(),
        default_request: reader.field("defaultRequest", ResourceList::read).unwrap_or_default(),
        max_ratio: reader.field("maxLimitRequestRatio", ResourceList::read).unwrap_or_default(),
    }
}
