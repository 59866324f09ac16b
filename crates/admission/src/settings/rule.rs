//! Rules: LimitRange items in the settings, with selectors.

use std::borrow::Cow;

use super::{SettingsReader, any_matches, read_selector};
use crate::cluster::label_selector::LabelSelector;
use crate::cluster::limit_range::{CLAIM, CONTAINER, Item, LimitRange};
use crate::image::{ImageName, ImagePattern};
use crate::json::{Malformed, Node};

/// One entry of `limitRanges.rules`. An absent selector selects everything.
#[derive(Debug, Clone)]
pub struct LimitRangeRule<'d> {
    pub range: LimitRange<'d>,
    namespaces: Vec<Cow<'d, str>>,
    pub namespace_labels: Option<LabelSelector<'d>>,
    /// A rule for some pods selects no claims.
    pub pod_labels: Option<LabelSelector<'d>>,
    containers: Vec<Cow<'d, str>>,
    images: Vec<ImagePattern<'d>>,
}

impl<'d> LimitRangeRule<'d> {
    pub(super) fn read_all(section: &mut SettingsReader<'_, 'd>, derive_defaults: bool) -> Vec<Self> {
        let rules = section.sections("rules", |rule| Self::read(rule, derive_defaults));
        for (index, rule) in rules.iter().enumerate() {
            let is_repeated = rules.iter().take(index).any(|earlier| earlier.range.name == rule.range.name);
            if is_repeated && !rule.range.name.is_empty() {
                section.problem(&format!("rules[{index}].name"), &format!("`{}` is used twice", rule.range.name));
            }
        }
        rules
    }

    fn read(reader: &mut SettingsReader<'_, 'd>, derive_defaults: bool) -> Self {
        let name = reader.string("name").unwrap_or_default();
        if name.is_empty() {
            reader.problem("name", "is missing: messages refer to rules by name");
        }
        let items = reader.sections("limits", read_item);
        let mut range = LimitRange { name, items };
        if range.items.is_empty() {
            reader.problem("limits", "is missing: a rule needs at least one LimitRange item");
        }
        if derive_defaults {
            range.imply_defaults();
        }
        let place = reader.path_of("limits");
        for problem in range.problems(&place) {
            reader.add(problem.to_string());
        }
        let rule = Self {
            range,
            namespaces: reader.patterns("namespaces", "-*"),
            namespace_labels: reader.section("namespaceLabels", read_selector),
            pod_labels: reader.section("podLabels", read_selector),
            containers: reader.patterns("containers", "-*"),
            images: reader.field("images", read_images).unwrap_or_default(),
        };
        let selects_containers = !rule.containers.is_empty() || !rule.images.is_empty();
        if selects_containers && rule.range.items.iter().any(|item| item.kind != CONTAINER) {
            reader.problem("limits", "may have only items of type `Container` if `containers` or `images` is set");
        }
        if rule.pod_labels.is_some() && rule.range.items.iter().any(|item| item.kind == CLAIM) {
            reader.problem("limits", "may have no items of type `PersistentVolumeClaim` if `podLabels` is set");
        }
        rule
    }

    pub fn selects_namespace(&self, name: &str, namespace: Option<Node<'_>>) -> Result<bool, Malformed> {
        let by_name = self.namespaces.is_empty() || any_matches(&self.namespaces, name);
        let labels = self.namespace_labels.as_ref();
        Ok(by_name && labels.map_or(Ok(true), |selector| selector.matches_namespace(namespace))?)
    }

    pub fn selects_pod(&self, labels: Option<Node<'_>>) -> Result<bool, Malformed> {
        self.pod_labels.as_ref().map_or(Ok(true), |selector| selector.matches_node(labels))
    }

    pub fn selects_container(&self, name: &str, image: &str) -> bool {
        let by_name = self.containers.is_empty() || any_matches(&self.containers, name);
        // An invalid image name, which no runtime can pull, matches no pattern.
        let matches = |name: ImageName<'_>| self.images.iter().any(|pattern| pattern.matches(&name));
        by_name && (self.images.is_empty() || ImageName::parse(image).is_ok_and(matches))
    }
}

fn read_images(list: Node<'_>) -> Result<Vec<ImagePattern<'_>>, Malformed> {
    list.items()?.map(|node| ImagePattern::parse(node.plain_str()?).map_err(|error| node.error(error))).collect()
}

fn read_item<'d>(reader: &mut SettingsReader<'_, 'd>) -> Item<'d> {
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
