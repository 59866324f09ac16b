//! Selects the estimates to make for a pod: which containers, and which resources.

use std::borrow::Cow;
use std::time::Duration;

use crate::annotations::limit_ranger::LIMIT_RANGER;
use crate::cluster::Context;
use crate::cluster::usage::Resource;
use crate::cluster::usage::read::age;
use crate::image::ImageName;
use crate::json::{Malformed, Node};
use crate::request::pod::ContainerIndex;
use crate::request::{Container, Pod, Requirement, ValueOrigin, is_of_default};
use crate::settings::{EstimateMode, EstimateSettings};
use crate::truncate::shortened;
use crate::well_known;

/// A label or an annotation of a namespace, or an annotation of a pod, that asks for fewer estimates than the settings, or for
/// estimates in place of what authors set.
pub const CHOICE: &str = "headroom.dev/estimates";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EstimateTarget {
    /// The container's place in the pod.
    pub container: usize,
    pub resource: Resource,
    pub purpose: Purpose,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To be set in this pod, or in a manifest.
    Pod,
    /// To be set in this pod in place of what its author set, because that was asked for.
    Replacement,
    /// Only to be reported, because the author set a value.
    Comparison,
}

/// A list of restricted namespaces that is older is not believed, because its collector no longer runs. More than a
/// collector's interval, after which it writes what has not changed.
const MAX_AGE_OF_RESTRICTIONS: Duration = Duration::from_secs(24 * 3_600);

/// True if each of these objects of history says that the namespace does not ask for fewer estimates. Otherwise the Namespace
/// has to be read: it may ask for fewer, or the collector does not know, or does not run.
pub fn is_unrestricted(objects: usize, context: &Context<'_>, settings: &EstimateSettings<'_>) -> bool {
    let Some(now) = settings.replay_time.or(context.now) else { return false };
    let mut collected = context.unrestricted_at.iter();
    objects > 0
        && context.unrestricted_at.len() == objects
        && collected.all(|collected_at| age(*collected_at, now, MAX_AGE_OF_RESTRICTIONS).is_ok())
}

/// The targets that remain in a namespace that asks for fewer by a label or an annotation; where it asks for it and the
/// actions allow it, those beside authors' values replace them.
pub fn chosen_by_namespace(
    mut targets: Vec<EstimateTarget>,
    may_replace: bool,
    namespace: Option<Node<'_>>,
    notes: &mut Vec<String>,
) -> Result<Vec<EstimateTarget>, Malformed> {
    let mut choice = None;
    for field in ["labels", "annotations"] {
        let text = namespace.map(|namespace| namespace.at(&["metadata", field, CHOICE])).transpose()?.flatten();
        let one = chosen("the namespace", text.map(Node::str).transpose()?, notes);
        choice = one.into_iter().chain(choice).min();
    }
    targets.retain(|target| {
        choice.unwrap_or(EstimateMode::Always)
            >= match target.purpose {
                Purpose::Comparison | Purpose::Replacement => EstimateMode::Always,
                Purpose::Pod => EstimateMode::IfNotSet,
            }
    });
    if may_replace && choice == Some(EstimateMode::Always) {
        let beside = targets.iter_mut().filter(|target| target.purpose == Purpose::Comparison);
        beside.for_each(|target| target.purpose = Purpose::Replacement);
    }
    Ok(targets)
}

/// The mode that is asked for, if any. An unknown choice restricts nothing and is noted.
pub fn chosen(whose: &str, choice: Option<Cow<'_, str>>, notes: &mut Vec<String>) -> Option<EstimateMode> {
    let choice = choice?;
    if let Some((_, mode)) = EstimateMode::WORDS.iter().find(|(word, _)| *word == choice) {
        return Some(*mode);
    }
    let words: Vec<String> = EstimateMode::WORDS.iter().map(|(word, _)| format!("`{word}`")).collect();
    notes.push(format!(
        "`{CHOICE}: {}` of {whose} is ignored: expected one of {}",
        shortened(&choice).into_owned(),
        words.join(", ")
    ));
    None
}

/// True if a pod whose values are not marked with their origins yet could use any estimate.
pub fn is_possible(pod: &Pod<'_>, settings: &EstimateSettings<'_>) -> Result<bool, Malformed> {
    Ok(pod.annotation(LIMIT_RANGER)?.is_some() || !all(pod, settings.mode, false, settings, &mut Vec::new()).is_empty())
}

/// All estimates to make for a pod whose values are marked with their origins. `replaces` says whether those beside authors'
/// values replace them.
pub fn all(
    pod: &Pod<'_>,
    mode: EstimateMode,
    replaces: bool,
    settings: &EstimateSettings<'_>,
    notes: &mut Vec<String>,
) -> Vec<EstimateTarget> {
    let mut targets = Vec::new();
    if mode == EstimateMode::Never {
        return targets;
    }
    // A value that the author sets at pod level is shared by the containers; a container's request could only
    // contradict it.
    let is_of_pod = |resource: Resource| pod.resources.contains(resource.name());
    let wanted = Resource::ALL.map(|resource| *settings.resources.of(resource) && !is_of_pod(resource));
    let by_name = (mode == EstimateMode::Always).then(|| ContainerIndex::of(&pod.containers));
    // The API server refuses two containers with one name; until then our annotation covers only the first.
    let is_first = |place: usize, container: &Container<'_>| {
        let first = |index: &ContainerIndex| index.find(&pod.containers, container.role.is_init(), &container.name);
        by_name.as_ref().and_then(first) == Some(place)
    };
    for (index, container) in pod.containers.iter().enumerate() {
        // Without history, only the table of well-known images can give an estimate.
        if settings.history.is_empty() && !is_well_known(container) {
            continue;
        }
        for (resource, is_wanted) in Resource::ALL.into_iter().zip(wanted) {
            let Some(purpose) = purpose(container, resource, replaces).filter(|_| is_wanted) else { continue };
            if purpose == Purpose::Pod || is_first(index, container) {
                targets.push(EstimateTarget { container: index, resource, purpose });
            }
        }
        if targets.len() >= MAX {
            notes.push(format!("only the first {MAX} missing requests are estimated"));
            break;
        }
    }
    targets
}

fn is_well_known(container: &Container<'_>) -> bool {
    ImageName::parse(&container.image).is_ok_and(|image| well_known::requests(image.repository()).is_some())
}

/// A limit, because an estimate costs far more than parsing a container.
const MAX: usize = 64;

/// The purpose of an estimate beside what is set; none if it was set when we evaluated this pod before. LimitRanger's values may
/// be replaced.
fn purpose(container: &Container<'_>, resource: Resource, replaces: bool) -> Option<Purpose> {
    let origin = |requirement| container.resources.of(requirement).get(resource.name()).map(|value| &value.origin);
    let beside_authors = Some(if replaces { Purpose::Replacement } else { Purpose::Comparison });
    match (origin(Requirement::Request), origin(Requirement::Limit)) {
        (Some(request), _) if request.is_authored() => beside_authors,
        // In place of an author's request, or of the API server's copy of his limit.
        (Some(ValueOrigin::Earlier(reason)), _) if !reason.is_empty() && !is_of_default(reason) => None,
        (_, Some(limit)) if limit.is_authored() => beside_authors,
        (None | Some(ValueOrigin::LimitRanger), _) => Some(Purpose::Pod),
        (Some(_), _) => None,
    }
}
