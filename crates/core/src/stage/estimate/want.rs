//! Which estimates a pod wants: of which containers and resources.

use crate::context::Context;
use crate::context::usage::Resource;
use crate::json::{Malformed, Node};
use crate::order;
use crate::request::template::{Bound, Container, Origin, PodTemplate};
use crate::settings::{EstimateMode, EstimateSettings};

/// A label or an annotation of a namespace, or an annotation of a pod, that asks for fewer estimates than the settings.
pub const CHOICE: &str = "headroom.dev/estimates";

/// One estimate that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// The container's place in the pod.
    pub container: usize,
    pub resource: Resource,
    /// Only to be told, beside what the author set.
    pub beside: bool,
}

/// The mode for a pod: the least that settings, namespace and pod ask for. A choice that is none of the words asks for
/// nothing and is noted.
pub fn mode(
    pod: &PodTemplate<'_>,
    context: &Context<'_>,
    settings: &EstimateSettings<'_>,
    notes: &mut Vec<String>,
) -> Result<EstimateMode, Malformed> {
    let mut mode = settings.mode;
    let namespace = context.namespace;
    let of_namespace = |field| match namespace {
        Some(namespace) => namespace.at(&["metadata", field, CHOICE])?.map(Node::str).transpose(),
        None => Ok(None),
    };
    for (whose, choice) in [
        ("the namespace", of_namespace("labels")?),
        ("the namespace", of_namespace("annotations")?),
        ("the pod", pod.annotation(CHOICE)?),
    ] {
        let Some(choice) = choice else { continue };
        match EstimateMode::WORDS.iter().find(|(word, _)| *word == choice) {
            Some((_, chosen)) => mode = mode.min(*chosen),
            None => {
                let words: Vec<String> = EstimateMode::WORDS.iter().map(|(word, _)| format!("`{word}`")).collect();
                notes.push(format!("`{CHOICE}: {choice}` of {whose} is ignored: expected one of {}", words.join(", ")));
            }
        }
    }
    Ok(mode)
}

/// Everything that is wanted for a pod whose values are marked with who spoke them.
pub fn all(pod: &PodTemplate<'_>, mode: EstimateMode, settings: &EstimateSettings<'_>) -> Vec<Want> {
    let mut wants = Vec::new();
    if mode == EstimateMode::Never {
        return wants;
    }
    for resource in Resource::ALL {
        // What the author says for the pod as a whole is shared out by the kernel; a container's request beside it
        // could only contradict it.
        let is_of_pod =
            [Bound::Request, Bound::Limit].iter().any(|bound| pod.resources.of(*bound).contains(resource.name()));
        if is_of_pod || !settings.resources.of(resource) {
            continue;
        }
        for (index, container) in pod.containers.iter().enumerate() {
            match Spoken::of(container, resource) {
                Spoken::Nobody => wants.push(Want { container: index, resource, beside: false }),
                Spoken::Author if mode == EstimateMode::Always => {
                    wants.push(Want { container: index, resource, beside: true });
                }
                Spoken::Author | Spoken::Us => {}
            }
        }
    }
    order::sort_by(&mut wants, |a, b| a.container.cmp(&b.container));
    wants
}

/// Who spoke of a container's resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spoken {
    /// Or LimitRanger, whose values may be replaced.
    Nobody,
    Author,
    /// When we judged this pod before.
    Us,
}

impl Spoken {
    fn of(container: &Container<'_>, resource: Resource) -> Self {
        let origin = |bound| container.resources.of(bound).get(resource.name()).map(|value| &value.origin);
        match (origin(Bound::Request), origin(Bound::Limit)) {
            (Some(request), _) if request.is_authored() => Self::Author,
            (_, Some(limit)) if limit.is_authored() => Self::Author,
            (None | Some(Origin::LimitRanger), _) => Self::Nobody,
            (Some(_), _) => Self::Us,
        }
    }
}
