//! HorizontalPodAutoscalers with a utilization target: an estimate of a request that they scale by would change how
//! they scale.

use std::borrow::Cow;

use super::usage::Resource;
use crate::json::{Malformed, Node};

/// A HorizontalPodAutoscaler: its target, and the resources that it scales by.
#[derive(Debug, Clone)]
pub struct Autoscaler<'d> {
    target_kind: Cow<'d, str>,
    target_name: Cow<'d, str>,
    /// Resources, each with the container whose usage counts; none for the whole pod.
    by_utilization: Vec<(Cow<'d, str>, Option<Cow<'d, str>>)>,
}

impl<'d> Autoscaler<'d> {
    pub fn read_list(list: Node<'d>) -> Result<Vec<Self>, Malformed> {
        list.list("items")?.map(Self::read).collect()
    }

    fn read(node: Node<'d>) -> Result<Self, Malformed> {
        let text = |node: Option<Node<'d>>| node.map_or(Ok(Cow::Borrowed("")), Node::str);
        let mut by_utilization = Vec::new();
        if let Some(spec) = node.get("spec")? {
            for metric in spec.list("metrics")? {
                for (field, is_of_container) in [("resource", false), ("containerResource", true)] {
                    let Some(source) = metric.get(field)? else { continue };
                    if text(source.at(&["target", "type"])?)? == "Utilization" {
                        let container = if is_of_container { source.string("container")? } else { None };
                        by_utilization.push((text(source.get("name")?)?, container));
                    }
                }
            }
        }
        Ok(Self {
            target_kind: text(node.at(&["spec", "scaleTargetRef", "kind"])?)?,
            target_name: text(node.at(&["spec", "scaleTargetRef", "name"])?)?,
            by_utilization,
        })
    }

    /// True if the autoscaler scales one of these owners by this resource of this container.
    pub fn scales_by(&self, owners: &[ScaleTarget<'_>], container: &str, resource: Resource) -> bool {
        let is_target = owners.iter().any(|owner| owner.kind == self.target_kind && owner.name == self.target_name);
        is_target
            && self.by_utilization.iter().any(|(name, of_container)| {
                name == resource.name() && of_container.as_ref().is_none_or(|of_container| of_container == container)
            })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaleTarget<'d> {
    pub kind: Cow<'d, str>,
    pub name: Cow<'d, str>,
}
