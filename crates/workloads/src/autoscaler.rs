//! The autoscalers of workloads, read once from what they are written in: HorizontalPodAutoscalers, the ScaledObjects of KEDA that
//! write them, and VerticalPodAutoscalers.

use std::collections::BTreeMap;

use headroom_objects::cluster_reader::folder::amount_of;
use headroom_objects::cluster_reader::{ClusterReader, ReadError};
use headroom_objects::kinds::{ApiKind, items, metadata, number, text};
use serde_json::{Value, json};

use crate::kinds::{DEPLOYMENT, served};
use crate::owner::{Owner, WorkloadRef};

pub const HORIZONTAL: &str = "HorizontalPodAutoscaler";
const VERTICAL: &str = "VerticalPodAutoscaler";
pub const SCALED_OBJECT: &str = "ScaledObject";

/// The versions of a HorizontalPodAutoscaler with several metrics, newest first.
const VERSIONS: [&str; 2] = ["autoscaling/v2", "autoscaling/v2beta2"];

/// The field of the first version, which knows the CPU of all of the pod alone.
pub const FIRST_VERSION_TARGET: &str = "targetCPUUtilizationPercentage";
/// The share of the CPU request that the API server sets if an autoscaler names no metric.
const PERCENT_IF_UNSET: u64 = 80;

/// The most pods that KEDA scales to if nothing says so.
const MOST_OF_KEDA: u64 = 100;
/// Thousandths of its target by which an autoscaler may be off, if nothing says so.
const TOLERANCE: u64 = 100;

/// A HorizontalPodAutoscaler, or the one that KEDA makes for a ScaledObject.
#[derive(Debug, Clone, Default)]
pub struct HorizontalAutoscaler {
    pub api_version: String,
    pub name: String,
    /// The object that writes it again and again.
    pub controller: Option<Owner>,
    pub target: WorkloadRef,
    pub target_api_version: String,
    pub least: u64,
    pub most: Option<u64>,
    /// The pods that there are, and that it wants.
    pub current: Option<u64>,
    pub wanted: Option<u64>,
    /// All that it scales by, as it stands.
    pub metrics: Value,
    pub by_utilization: Vec<UtilizationTarget>,
    /// Thousandths of a target by which it may be off before it adds pods, and before it removes some.
    tolerance: [u64; 2],
    /// Its conditions that say that it cannot scale, or not as far as it wants to.
    pub problems: Vec<ScalingProblem>,
}

/// A target that is a share of the requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UtilizationTarget {
    /// Its place among all metrics.
    pub place: usize,
    pub resource: String,
    /// The one container whose request counts; none if all of the pod count.
    pub container: Option<String>,
    pub percent: u64,
    /// The utilization that was measured last.
    pub measured: Option<u64>,
}

#[derive(Debug, Clone)]
pub struct ScalingProblem {
    pub kind: String,
    pub reason: String,
    pub message: String,
    pub since: String,
}

impl HorizontalAutoscaler {
    /// Reads a HorizontalPodAutoscaler, or a ScaledObject; none for other kinds.
    pub fn of(object: &Value) -> Option<Self> {
        let kind = ApiKind::of(object);
        match (kind.group.as_str(), kind.kind.as_str()) {
            ("autoscaling", HORIZONTAL) => Some(Self::of_object(object)),
            ("keda.sh", SCALED_OBJECT) => Some(Self::of_scaled_object(object)),
            _ => None,
        }
    }

    fn of_object(object: &Value) -> Self {
        let measured: Vec<_> = items(object, "/status/currentMetrics").filter_map(measured_metric).collect();
        let metrics = metrics_of(object);
        let targets = metrics.as_array().into_iter().flatten().enumerate();
        let tolerance = |direction: &str| {
            let tolerance = object.pointer(&format!("/spec/behavior/{direction}/tolerance"));
            tolerance.and_then(amount_of).map_or(TOLERANCE, |tolerance| tolerance.milli_value().unsigned_abs())
        };
        let (target, target_api_version) = target_of(object, "/spec/scaleTargetRef", "");
        Self {
            api_version: ApiKind::of(object).api_version(),
            name: metadata(object, "name").to_owned(),
            controller: Owner::of(object),
            target,
            target_api_version,
            least: number(object, "/spec/minReplicas").unwrap_or(1),
            most: number(object, "/spec/maxReplicas"),
            current: number(object, "/status/currentReplicas"),
            wanted: number(object, "/status/desiredReplicas"),
            by_utilization: targets.filter_map(|(place, of)| UtilizationTarget::of(place, of, &measured)).collect(),
            metrics,
            tolerance: [tolerance("scaleUp"), tolerance("scaleDown")],
            problems: items(object, "/status/conditions").filter_map(ScalingProblem::of).collect(),
        }
    }

    fn of_scaled_object(object: &Value) -> Self {
        let target = |(place, trigger): (usize, &Value)| {
            let text = |path: &str| trigger.pointer(path).and_then(Value::as_str);
            let percent: u64 = text("/metadata/value")?.parse().ok()?;
            let resource = text("/type").filter(|kind| ["cpu", "memory"].contains(kind))?.to_owned();
            let is_share = text("/metricType").or(text("/metadata/type")).is_none_or(|kind| kind == "Utilization");
            let container = text("/metadata/containerName").map(str::to_owned);
            is_share.then_some(UtilizationTarget { place, resource, container, percent, measured: None })
        };
        let (name, kind) = (metadata(object, "name").to_owned(), ApiKind::of(object));
        let (workload, target_api_version) = target_of(object, "/spec/scaleTargetRef", DEPLOYMENT.kind);
        Self {
            api_version: VERSIONS[0].to_owned(),
            name: format!("keda-hpa-{name}"),
            controller: Some(Owner { api_version: kind.api_version(), kind: kind.kind, name }),
            target: workload,
            target_api_version,
            least: number(object, "/spec/minReplicaCount").unwrap_or(0),
            most: Some(number(object, "/spec/maxReplicaCount").unwrap_or(MOST_OF_KEDA)),
            by_utilization: items(object, "/spec/triggers").enumerate().filter_map(target).collect(),
            tolerance: [TOLERANCE; 2],
            ..Self::default()
        }
    }

    /// True if it leaves the number of pods at a utilization so near to its target.
    pub fn is_tolerated(&self, utilization: u64, target: u64) -> bool {
        let [up, down] = self.tolerance;
        let milli = if utilization > target { up } else { down };
        utilization.abs_diff(target).saturating_mul(1000) <= target.saturating_mul(milli)
    }
}

impl UtilizationTarget {
    fn of(place: usize, metric: &Value, measured: &[(String, Option<String>, u64)]) -> Option<Self> {
        let (source, resource, container) = source_of(metric)?;
        // An object that the API server has read names its type; its status may not.
        let is_known = matches!(metric.get("type").and_then(Value::as_str), Some("Resource" | "ContainerResource"));
        let percent = source.pointer("/target/averageUtilization").and_then(Value::as_u64).filter(|_| is_known)?;
        let is_it = |(name, of, _): &&(String, Option<String>, u64)| *name == resource && *of == container;
        let measured = measured.iter().find(is_it).map(|(_, _, percent)| *percent);
        Some(Self { place, resource, container, percent, measured })
    }

    /// True if it depends on the request of this container.
    pub fn is_about(&self, container: &str, resource: &str) -> bool {
        self.resource == resource && self.container.as_ref().is_none_or(|name| name == container)
    }
}

/// The metrics of a HorizontalPodAutoscaler as its second version has them: without any, the API server sets one.
fn metrics_of(object: &Value) -> Value {
    let percent = number(object, &format!("/spec/{FIRST_VERSION_TARGET}"));
    let written = object.pointer("/spec/metrics").filter(|of| of.as_array().is_some_and(|of| !of.is_empty()));
    match (written, object.pointer("/metadata/annotations/autoscaling.alpha.kubernetes.io~1metrics")) {
        (Some(written), _) => written.clone(),
        (None, Some(_)) if percent.is_none() => Value::Null,
        (None, _) => json!([{"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": percent.unwrap_or(PERCENT_IF_UNSET)}}}]),
    }
}

fn measured_metric(metric: &Value) -> Option<(String, Option<String>, u64)> {
    let (source, resource, container) = source_of(metric)?;
    Some((resource, container, source.pointer("/current/averageUtilization").and_then(Value::as_u64)?))
}

/// A metric of a resource: the resource and, if it is of one container, that.
fn source_of(metric: &Value) -> Option<(&Value, String, Option<String>)> {
    let of_container = metric.get("containerResource");
    let source = of_container.or_else(|| metric.get("resource"))?;
    let text = |field: &str| source.get(field).and_then(Value::as_str).map(str::to_owned);
    let container = if of_container.is_some() { Some(text("container")?) } else { None };
    Some((source, text("name")?, container))
}

impl ScalingProblem {
    fn of(condition: &Value) -> Option<Self> {
        let [kind, reason, message, since] =
            ["/type", "/reason", "/message", "/lastTransitionTime"].map(|at| text(condition, at).to_owned());
        let is_problem = match (kind.as_str(), text(condition, "/status")) {
            ("AbleToScale" | "ScalingActive", "False") => reason != "ScalingDisabled",
            ("ScalingLimited", "True") => reason == "TooManyReplicas",
            _ => false,
        };
        is_problem.then_some(Self { kind, reason, message, since })
    }
}

#[derive(Debug, Clone)]
pub struct VerticalAutoscaler {
    pub name: String,
    pub target: WorkloadRef,
    /// `Auto`, `Initial`, `Off`, ...
    pub mode: String,
    /// The modes of containers by their names, and of all others by `*`.
    modes: BTreeMap<String, String>,
}

impl VerticalAutoscaler {
    fn of(object: &Value) -> Self {
        let mode = Some(text(object, "/spec/updatePolicy/updateMode")).filter(|mode| !mode.is_empty());
        let policies = items(object, "/spec/resourcePolicy/containerPolicies");
        Self {
            name: metadata(object, "name").to_owned(),
            target: target_of(object, "/spec/targetRef", "").0,
            mode: mode.unwrap_or("Auto").to_owned(),
            modes: policies.map(|of| ["/containerName", "/mode"].map(|at| text(of, at).to_owned()).into()).collect(),
        }
    }

    /// True if no policy lets it only recommend for a container.
    pub fn sets(&self, container: &str) -> bool {
        self.modes.get(container).or_else(|| self.modes.get("*")).is_none_or(|mode| mode != "Off")
    }
}

/// The workload that an object refers to, with its version.
fn target_of(object: &Value, at: &str, default_kind: &str) -> (WorkloadRef, String) {
    let text = |field: &str| object.pointer(&format!("{at}/{field}")).and_then(Value::as_str);
    let (kind, name) = (text("kind").unwrap_or(default_kind), text("name").unwrap_or_default());
    let target = WorkloadRef::new(metadata(object, "namespace"), kind, name);
    (target, text("apiVersion").unwrap_or(DEPLOYMENT.api_version).to_owned())
}

#[derive(Debug, Default)]
pub struct Autoscalers {
    horizontal: BTreeMap<WorkloadRef, Vec<HorizontalAutoscaler>>,
    vertical: BTreeMap<WorkloadRef, Vec<VerticalAutoscaler>>,
}

impl Autoscalers {
    /// Reads those of a namespace.
    pub fn read(cluster: &mut dyn ClusterReader, namespace: &str) -> Result<Self, ReadError> {
        let mut autoscalers = Self::default();
        autoscalers.add_horizontal(cluster, Some(namespace))?;
        autoscalers.add_vertical(cluster, Some(namespace))?;
        Ok(autoscalers)
    }

    /// Adds HorizontalPodAutoscalers of a namespace, or of all, by the first version that the cluster serves.
    pub fn add_horizontal(
        &mut self,
        cluster: &mut dyn ClusterReader,
        namespace: Option<&str>,
    ) -> Result<(), ReadError> {
        for version in VERSIONS {
            if let Some(listed) = served(cluster.list((version, HORIZONTAL, namespace)))? {
                listed.iter().for_each(|object| self.add(object));
                break;
            }
        }
        Ok(())
    }

    pub fn add_vertical(&mut self, cluster: &mut dyn ClusterReader, namespace: Option<&str>) -> Result<(), ReadError> {
        let listed = served(cluster.list(("autoscaling.k8s.io/v1", VERTICAL, namespace)))?;
        for autoscaler in listed.iter().flatten().map(VerticalAutoscaler::of) {
            self.vertical.entry(autoscaler.target.clone()).or_default().push(autoscaler);
        }
        Ok(())
    }

    /// Adds a HorizontalPodAutoscaler or a ScaledObject; nothing for other kinds.
    pub fn add(&mut self, object: &Value) {
        if let Some(autoscaler) = HorizontalAutoscaler::of(object) {
            self.horizontal.entry(autoscaler.target.clone()).or_default().push(autoscaler);
        }
    }

    /// Counts the autoscalers of the object that owns a workload as its own: they may name the custom resource that makes it.
    pub fn add_of_owner(&mut self, workload: &WorkloadRef, owner: &WorkloadRef) {
        let horizontal = self.horizontal(owner).iter().filter(|of| of.target == *owner).cloned().collect::<Vec<_>>();
        let vertical = self.vertical(owner).iter().filter(|of| of.target == *owner).cloned().collect::<Vec<_>>();
        self.horizontal.entry(workload.clone()).or_default().extend(horizontal);
        self.vertical.entry(workload.clone()).or_default().extend(vertical);
    }

    pub fn horizontal(&self, workload: &WorkloadRef) -> &[HorizontalAutoscaler] {
        self.horizontal.get(workload).map_or(&[], Vec::as_slice)
    }

    pub fn vertical(&self, workload: &WorkloadRef) -> &[VerticalAutoscaler] {
        self.vertical.get(workload).map_or(&[], Vec::as_slice)
    }

    /// The VerticalPodAutoscaler that changes a workload's pods, and does not only recommend.
    pub fn acting(&self, workload: &WorkloadRef) -> Option<&VerticalAutoscaler> {
        self.vertical(workload).iter().find(|autoscaler| autoscaler.mode != "Off")
    }

    /// The most pods that a workload is scaled to; none without an autoscaler.
    pub fn most(&self, workload: &WorkloadRef) -> Option<u64> {
        self.horizontal(workload).iter().filter_map(|autoscaler| autoscaler.most).max()
    }
}
