//! Advice on requests: for each container what its image's history suggests, what is set now, and what taking the advice
//! would do to the quotas.
//!
//! The estimates are the core's, by the same steps as at admission; here they become data that words itself in several
//! forms.

pub mod autoscaler;
pub mod effect;
pub mod owner;
pub mod picture;
pub mod summary;
pub mod table;

use std::time::Duration;

use headroom_advice::recommend::Measurements;
use headroom_advice::recommend::{self as core, Recommendation};
use headroom_core::amount::Quantity;
use headroom_core::cluster::usage::Resource;
use headroom_core::cluster::usage::read::Age;
use headroom_core::estimate::{Basis, Estimate};
use headroom_core::json::Malformed;
use headroom_core::request::{Container, Origin, Pod, Requirement, Role, rollout};
use headroom_core::settings::HistoryOwner;
use headroom_core::{Context, Request, Settings};
use serde::Serialize;

use crate::change as changes;
use crate::distribution::Distribution;

use autoscaler::{Requested, Scaled};
pub use effect::QuotaEffect;

/// Everything that is advised in one run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Advice {
    pub workloads: Vec<Workload>,
    /// What taking all of it does to each quota.
    pub quotas: Vec<QuotaEffect>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// An object that makes pods, or a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// What of it was read, where its own kind is not known here: `replicaset/web-5d8f`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// The file it was read from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// How many pods it makes.
    pub pods: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assumption: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub autoscalers: Vec<Scaled>,
    pub containers: Vec<ContainerAdvice>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// From the object to the pod in it.
    #[serde(skip)]
    pub path: Vec<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerAdvice {
    pub name: String,
    pub image: String,
    pub is_init: bool,
    pub resources: Vec<ResourceAdvice>,
}

/// What is advised for one resource of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceAdvice {
    pub resource: &'static str,
    /// The request that admission makes of what is set now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<Current>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommended: Option<String>,
    /// From the current request to the recommended one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// Why nothing is recommended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// The request as the object itself has it, which the advice would replace.
    #[serde(skip)]
    pub written: Option<Quantity>,
    /// The limit as the author wrote it.
    #[serde(skip)]
    pub written_limit: Option<Quantity>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Current {
    pub value: String,
    /// `author`, or where else it comes from.
    pub from: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Signed.
    pub amount: String,
    /// Of the current request; none of nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<i64>,
}

/// What an amount is made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// All of it in one sentence, as admission would word it.
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
    /// How the amount changed on its way, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub adjustments: Vec<String>,
    /// Histories that were looked at first and not used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct History {
    pub percentile: String,
    pub window: String,
    /// The image as it was looked up.
    pub key: String,
    /// `namespace` or `cluster`.
    pub scope: &'static str,
    pub samples: u64,
    pub age_seconds: u64,
    pub pods: u64,
    pub namespaces: u64,
    pub oom_kills: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution: Option<Distribution>,
}

/// What an object is, beside what the core knows of it.
#[derive(Debug, Clone)]
pub struct Subject {
    pub api_version: String,
    pub kind: String,
    pub file: Option<String>,
    /// Whether its pods run already, and are counted in the quotas.
    pub is_running: bool,
}

/// Advises on one object; none if it makes no pods.
pub fn advise<'d>(
    subject: &Subject,
    request: &'d Request<'d>,
    context: &Context<'d>,
    settings: &'d Settings<'d>,
) -> Result<Option<(Workload, Vec<QuotaEffect>)>, Malformed> {
    let Some(found) = core::recommend(request, context, settings)? else { return Ok(None) };
    let (pods, assumption) = pods_of(request)?;
    let wanted: Vec<Resource> =
        Resource::ALL.into_iter().filter(|resource| *settings.estimates.resources.of(*resource)).collect();
    let containers = found.as_it_stands.containers.iter().enumerate();
    let workload = Workload {
        api_version: subject.api_version.clone(),
        kind: subject.kind.clone(),
        namespace: request.namespace.to_string(),
        name: request.name.to_string(),
        through: None,
        file: subject.file.clone(),
        pods,
        assumption,
        autoscalers: Vec::new(),
        containers: containers.map(|(place, container)| of_container(place, container, &wanted, &found)).collect(),
        notes: found.advice.estimates.notes.clone(),
        path: request.pod_kind().map(|kind| kind.path.to_vec()).unwrap_or_default(),
    };
    let before: Option<&Pod<'_>> = subject.is_running.then_some(&found.before);
    let effects = effect::of(&request.namespace, pods, before, &found.after, context)?;
    Ok(Some((workload, effects)))
}

/// How many pods an object makes, and what had to be assumed for that.
fn pods_of(request: &Request<'_>) -> Result<(u64, Option<&'static str>), Malformed> {
    let Some(object) = request.object else { return Ok((1, None)) };
    if request.resource == "daemonsets"
        && let Some(nodes) = object.node.at(&["status", "desiredNumberScheduled"])?
    {
        return Ok((u64::try_from(nodes.integer()?).unwrap_or(0), None));
    }
    match rollout::rollout(request)? {
        Some(rollout) => Ok((rollout.wanted, rollout.assumption)),
        None if request.resource == "pods" => Ok((1, None)),
        None => Ok((0, None)),
    }
}

fn of_container(
    place: usize,
    container: &Container<'_>,
    wanted: &[Resource],
    found: &Recommendation<'_>,
) -> ContainerAdvice {
    let resources = wanted.iter().map(|resource| of_resource(place, container, *resource, found));
    ContainerAdvice {
        name: container.name.to_string(),
        image: container.image.to_string(),
        is_init: container.role != Role::Main,
        resources: resources.collect(),
    }
}

fn of_resource(
    place: usize,
    container: &Container<'_>,
    resource: Resource,
    found: &Recommendation<'_>,
) -> ResourceAdvice {
    let name = resource.name();
    let before = found.before.containers.get(place).and_then(|container| container.resources.requests.get(name));
    let written = container.resources.requests.get(name).filter(|value| value.origin.is_authored());
    let written_limit = container.resources.limits.get(name).filter(|value| value.origin.is_authored());
    let current = before.map(|value| Current {
        value: value.quantity.to_string(),
        from: match &value.origin {
            origin if origin.is_authored() => "author".to_owned(),
            // Where that comes from is told beside it.
            Origin::Estimate(_) => "the same estimate at admission".to_owned(),
            origin => origin.to_string(),
        },
    });
    let limit = container.resources.quantity(Requirement::Limit, name).map(ToString::to_string);
    let mut advice = ResourceAdvice {
        resource: name,
        current,
        limit,
        recommended: None,
        change: None,
        evidence: None,
        unknown: None,
        written: written.map(|value| value.quantity.clone()),
        written_limit: written_limit.map(|value| value.quantity.clone()),
    };
    let is_this = |of: usize, resource_of: Resource| of == place && resource_of == resource;
    if let Some(unknown) = found.advice.unknown.iter().find(|unknown| is_this(unknown.container, unknown.resource)) {
        advice.unknown = Some(unknown.why.clone());
        return advice;
    }
    let mut all = found.advice.estimates.estimates.iter();
    let Some(estimate) = all.find(|estimate| is_this(estimate.target.container, estimate.target.resource)) else {
        advice.unknown = Some("no amount satisfies the LimitRanges; see the notes".to_owned());
        return advice;
    };
    let measured = found.advice.measured.iter().find(|of| is_this(of.container, of.resource));
    advice.recommended = Some(estimate.quantity.to_string());
    advice.change = Some(change(before.map(|value| &value.quantity), &estimate.quantity));
    advice.evidence = Some(evidence_of(estimate, measured));
    advice
}

fn change(before: Option<&Quantity>, after: &Quantity) -> Change {
    let Some(before) = before else { return Change { amount: signed(after), percent: None } };
    let percent = match (i128::from(before.milli_value()), i128::from(after.milli_value())) {
        (0, _) => None,
        (before, after) => i64::try_from((after - before) * 100 / before).ok(),
    };
    Change { amount: signed(&after.minus(before)), percent }
}

/// With its sign, unless it is nothing.
pub fn signed(amount: &Quantity) -> String {
    if amount.is_positive() { format!("+{amount}") } else { amount.to_string() }
}

fn evidence_of(estimate: &Estimate<'_>, measured: Option<&Measurements>) -> Evidence {
    let adjustments: Vec<String> = estimate.adjustments.iter().map(ToString::to_string).collect();
    let mut text = estimate.basis.to_string();
    for adjustment in &adjustments {
        text.push_str("; ");
        text.push_str(adjustment);
    }
    let history = match &estimate.basis {
        Basis::History { percentile, window, key, owner, samples, age } => Some(History {
            percentile: percentile.name().to_owned(),
            window: window.to_string(),
            key: key.clone(),
            scope: match owner {
                HistoryOwner::OwnNamespace => "namespace",
                HistoryOwner::AllNamespaces => "cluster",
            },
            samples: *samples,
            age_seconds: age.as_secs(),
            pods: measured.map_or(0, |measured| measured.pods),
            namespaces: measured.map_or(0, |measured| measured.namespaces),
            oom_kills: measured.map_or(0, |measured| measured.oom_kills.len()),
            distribution: measured.map(|of| Distribution::new(of.resource, *samples, of.percentiles.clone(), &of.peak)),
        }),
        Basis::WellKnown { .. } => None,
    };
    let passed_over = estimate.rejected.iter().map(ToString::to_string).collect();
    Evidence { text, history, adjustments, passed_over }
}

impl ResourceAdvice {
    /// What was observed, if the advice is made from that.
    pub fn observed(&self) -> Option<(&History, &Distribution)> {
        let history = self.evidence.as_ref()?.history.as_ref()?;
        Some((history, history.distribution.as_ref()?))
    }

    /// What is to be written: none if there is no advice, or the object says it already.
    pub fn to_write(&self) -> Option<&str> {
        let recommended = self.recommended.as_deref()?;
        let is_written =
            self.written.as_ref().is_some_and(|written| recommended.parse().ok().as_ref() == Some(written));
        (!is_written).then_some(recommended)
    }
}

impl ContainerAdvice {
    /// Resources whose requests the object does not have yet, with the amounts.
    pub fn to_write(&self) -> Vec<(&'static str, String)> {
        let amounts = self.resources.iter().map(|advice| Some((advice.resource, advice.to_write()?.to_owned())));
        amounts.flatten().collect()
    }
}

impl Workload {
    /// The change that applies the advice; none if nothing differs or the place of the template is unknown.
    pub fn change(&self) -> Option<changes::Change> {
        let containers = self.containers.iter();
        let containers =
            containers.filter_map(|of| changes::Container::new(&of.name, of.is_init, vec![], of.to_write()));
        let containers: Vec<_> = containers.collect();
        (self.through.is_none() && !containers.is_empty()).then(|| changes::Change {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            file: self.file.clone(),
            path: self.path.clone(),
            containers,
            autoscalers: self.autoscalers.clone(),
        })
    }

    /// What its containers request, for those who scale by it.
    pub fn requested(&self) -> Vec<Requested<'_>> {
        let parsed = |text: Option<&String>| text.and_then(|text| text.parse().ok());
        let running = self.containers.iter().filter(|container| !container.is_init);
        let all = running.flat_map(|container| container.resources.iter().map(move |advice| (container, advice)));
        all.map(|(container, advice)| Requested {
            container: &container.name,
            resource: advice.resource,
            before: parsed(advice.current.as_ref().map(|current| &current.value)),
            after: parsed(advice.recommended.as_ref()),
        })
        .collect()
    }

    /// `deployment/web`
    pub fn told(&self) -> String {
        format!("{}/{}", self.kind.to_lowercase(), self.name)
    }

    pub fn is_without_advice(&self) -> bool {
        let mut all = self.containers.iter().flat_map(|container| &container.resources);
        all.all(|advice| advice.recommended.is_none())
    }
}

impl History {
    /// `5h`
    pub fn age(&self) -> String {
        Age(Duration::from_secs(self.age_seconds)).to_string()
    }
}
