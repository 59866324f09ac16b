//! Computes how new requests change a HorizontalPodAutoscaler that scales by utilization: the target that keeps its behavior,
//! and the replicas without it.

use std::fmt;

use headroom_admission::amount::Quantity;
use serde::Serialize;
use serde_json::Value;

use headroom_workloads::autoscaler::{Autoscalers, UtilizationTarget, VerticalAutoscaler};
use headroom_workloads::{Owner, WorkloadRef};

/// A target that is a share of the requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scaled {
    pub name: String,
    pub resource: String,
    /// The one container whose request counts; none if all of the pod count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    pub target_percent: u64,
    /// The target at which it scales by the same usage as now.
    pub target_to_keep: u64,
    pub pods: u64,
    /// If the target stays.
    pub pods_after: u64,
    /// The bound of its pods that keeps it away from its target now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<&'static str>,
    /// The reason that it scales nothing now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inactive: Option<String>,
    #[serde(skip)]
    pub api_version: String,
    /// All targets as they stand, and which of them this is.
    #[serde(skip)]
    pub metrics: Value,
    #[serde(skip)]
    pub place: usize,
}

/// The request of a running container, or of the pod as a whole, now and as recommended.
#[derive(Debug, Clone)]
pub struct Requested<'c> {
    /// Empty for the pod as a whole.
    pub container: &'c str,
    pub resource: &'static str,
    pub before: Option<Quantity>,
    /// None if it stays.
    pub after: Option<Quantity>,
}

impl fmt::Display for Scaled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, resource, target_percent, target_to_keep, pods, pods_after, .. } = self;
        let of = self.container.as_ref().map(|container| format!(" of container {container}")).unwrap_or_default();
        write!(
            f,
            "HorizontalPodAutoscaler {name} scales at {target_percent}% of the {resource} request{of}: set the target to \
             {target_to_keep}% to keep scaling as it is"
        )?;
        if let Some(reason) = &self.inactive {
            return write!(f, "; it scales nothing now: {reason}");
        }
        if *pods > 0 {
            write!(f, ", or expect {pods} -> {pods_after} pods")?;
        }
        match self.bound {
            Some(bound @ "minReplicas") => {
                write!(f, "; its {bound} of {pods} keeps it below the target: lower that first")
            }
            Some(bound) => write!(f, "; its {bound} of {pods} keeps it above the target: raise that first"),
            None => Ok(()),
        }
    }
}

/// The note about the VerticalPodAutoscaler that sets the requests of these containers, or of all.
pub fn vertical_note(of: &VerticalAutoscaler, containers: Option<&[String]>) -> String {
    let containers = containers.map(|some| format!("container {} in ", some.join(", container "))).unwrap_or_default();
    format!(
        "VerticalPodAutoscaler {} (updateMode {}) sets the requests of {containers}new pods: give it bounds in its resourcePolicy, \
         or set updateMode Off before the template counts",
        of.name, of.mode
    )
}

/// A target that another object keeps where it is, so that new requests would change how many pods run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptTarget<'a> {
    pub target: &'a UtilizationTarget,
    autoscaler: &'a str,
    pub owner: &'a Owner,
}

impl fmt::Display for KeptTarget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target: UtilizationTarget { resource, percent, .. }, autoscaler, owner } = self;
        write!(
            f,
            "{} {} keeps HorizontalPodAutoscaler {autoscaler} at {percent}% of the {resource} request, so no {resource} is \
             recommended: change its target together with the request",
            owner.kind, owner.name
        )
    }
}

/// The targets of a workload's autoscalers that have a controller: KEDA writes those of a ScaledObject again and again.
pub fn kept_targets<'a>(workload: &WorkloadRef, autoscalers: &'a Autoscalers) -> Vec<KeptTarget<'a>> {
    let controlled = autoscalers.horizontal(workload).iter().filter_map(|of| Some((of, of.controller.as_ref()?)));
    let kept = controlled.flat_map(|(autoscaler, owner)| {
        let targets = autoscaler.by_utilization.iter();
        targets.map(move |target| KeptTarget { target, autoscaler: &autoscaler.name, owner })
    });
    kept.collect()
}

/// The effect on each target that would scale differently. [`kept_targets`] has those of autoscalers with a controller.
pub fn effects(
    workload: &WorkloadRef,
    autoscalers: &Autoscalers,
    requested: &[Requested<'_>],
    pods: u64,
) -> Vec<Scaled> {
    let mut effects = Vec::new();
    for autoscaler in autoscalers.horizontal(workload).iter().filter(|of| of.controller.is_none()) {
        let pods = autoscaler.current.unwrap_or(pods.max(1));
        let (least, most) = (autoscaler.least, autoscaler.most.unwrap_or(u64::MAX));
        for target in &autoscaler.by_utilization {
            let Some((before, after)) = sums(target, requested).filter(|(before, after)| before != after) else {
                continue;
            };
            let target_to_keep = share(target.percent, &before, &after).max(1);
            if target_to_keep == target.percent {
                continue;
            }
            let now = target.measured.unwrap_or(target.percent);
            let inactive = autoscaler.problems.iter().find(|of| of.kind != "ScalingLimited");
            let inactive = inactive.map(|of| of.reason.clone());
            // At a bound and off its target, the bound decides how many pods run, not the request.
            let off_target = target.measured.filter(|now| !autoscaler.is_tolerated(*now, target.percent));
            let bound = off_target.and_then(|now| match now < target.percent {
                true => (pods == least && pods > 1).then_some("minReplicas"),
                false => (pods == most).then_some("maxReplicas"),
            });
            // The autoscaler's own formula: pods times utilization by target, rounded up, if it is not tolerated.
            let wanted = match autoscaler.is_tolerated(share(now, &before, &after), target.percent) {
                true => pods,
                false => share(pods.saturating_mul(now), &before, &after).div_ceil(target.percent.max(1)),
            };
            effects.push(Scaled {
                name: autoscaler.name.clone(),
                resource: target.resource.clone(),
                container: target.container.clone(),
                target_percent: target.percent,
                target_to_keep,
                pods,
                // An autoscaler does nothing while there are no pods.
                pods_after: match pods {
                    0 => 0,
                    pods if inactive.is_some() => pods,
                    _ => wanted.clamp(least.min(most), most.max(least)),
                },
                bound,
                inactive,
                api_version: autoscaler.api_version.clone(),
                metrics: autoscaler.metrics.clone(),
                place: target.place,
            });
        }
    }
    effects
}

/// The requests now and as recommended; none if one is missing, because then the autoscaler has no utilization.
fn sums(target: &UtilizationTarget, requested: &[Requested<'_>]) -> Option<(Quantity, Quantity)> {
    let (mut sum_before, mut sum_after) = (Quantity::ZERO, Quantity::ZERO);
    for Requested { before, after, .. } in requested.iter().filter(|of| target.is_about(of.container, of.resource)) {
        let before = before.as_ref()?;
        sum_before = sum_before.plus(before);
        sum_after = sum_after.plus(after.as_ref().unwrap_or(before));
    }
    (sum_before.is_positive() && sum_after.is_positive()).then_some((sum_before, sum_after))
}

/// A number of percent of the one amount, in percent of the other, rounded up.
fn share(percent: u64, before: &Quantity, after: &Quantity) -> u64 {
    let (before, after) = (i128::from(before.milli_value()), i128::from(after.milli_value()));
    let scaled = (i128::from(percent) * before + after - 1) / after.max(1);
    u64::try_from(scaled).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn container<'c>(container: &'c str, before: Option<&str>, after: Option<&str>) -> Requested<'c> {
        let parsed = |text: Option<&str>| text.map(|text| text.parse().unwrap());
        Requested { container, resource: "cpu", before: parsed(before), after: parsed(after) }
    }

    fn autoscaler(metric: Value, status: Value) -> Value {
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web", "namespace": "shop"}, "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 2, "maxReplicas": 10,
                "metrics": [metric]},
            "status": status})
    }

    fn check(autoscaler: Value, containers: &[Requested<'_>], expected: Option<(u64, u64)>) {
        let mut autoscalers = Autoscalers::default();
        autoscalers.add(&autoscaler);
        let effects = effects(&WorkloadRef::new("shop", "Deployment", "web"), &autoscalers, containers, 4);
        assert_eq!(effects.first().map(|effect| (effect.target_to_keep, effect.pods_after)), expected);
    }

    #[test]
    fn half_the_request_is_twice_the_share() {
        let by_cpu = json!({"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 70}}});
        let both = [container("a", Some("500m"), Some("200m")), container("b", Some("100m"), Some("100m"))];
        check(autoscaler(by_cpu.clone(), json!({})), &both, Some((140, 8)));
        let mut first_version = autoscaler(json!({}), json!({}));
        first_version["spec"] = json!({"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 2,
            "maxReplicas": 10, "targetCPUUtilizationPercentage": 70});
        check(first_version, &both, Some((140, 8)));
        // The utilization that it measured itself counts, and its bounds do.
        let measured = |percent: u64| {
            json!({"currentReplicas": 4, "currentMetrics": [{"type": "Resource",
            "resource": {"name": "cpu", "current": {"averageUtilization": percent}}}]})
        };
        check(autoscaler(by_cpu.clone(), measured(35)), &both, Some((140, 4)));
        check(autoscaler(by_cpu.clone(), measured(10)), &both, Some((140, 2)));
        check(autoscaler(by_cpu.clone(), measured(700)), &both, Some((140, 10)));
        // It is a bound, not the request, that keeps it away from its target.
        let bounded = |pods: u64, percent: u64| {
            let mut status = measured(percent);
            status["currentReplicas"] = json!(pods);
            let mut autoscalers = Autoscalers::default();
            autoscalers.add(&autoscaler(by_cpu.clone(), status));
            effects(&WorkloadRef::new("shop", "Deployment", "web"), &autoscalers, &both, 4)[0].bound
        };
        assert_eq!([bounded(2, 10), bounded(3, 10), bounded(2, 68)], [Some("minReplicas"), None, None]);
        assert_eq!([bounded(10, 120), bounded(2, 120), bounded(10, 72)], [Some("maxReplicas"), None, None]);
        // Nothing is different, or there is no share.
        check(autoscaler(by_cpu.clone(), json!({})), &[container("a", Some("500m"), None)], None);
        check(autoscaler(by_cpu, json!({})), &[container("a", None, Some("500m"))], None);
    }

    #[test]
    fn a_small_difference_is_tolerated_and_no_pods_stay_none() {
        let by_cpu = json!({"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 70}}});
        let check_with = |behavior: Value, status: Value, after: &str, expected| {
            let mut scaler = autoscaler(by_cpu.clone(), status);
            scaler["spec"]["behavior"] = behavior;
            check(scaler, &[container("a", Some("1000m"), Some(after))], Some(expected));
        };
        check_with(json!({}), json!({}), "920m", (77, 4));
        check_with(json!({"scaleUp": {"tolerance": "50m"}}), json!({}), "920m", (77, 5));
        check_with(json!({"scaleUp": {"tolerance": 0}}), json!({}), "980m", (72, 5));
        check_with(json!({"scaleDown": {"tolerance": "300m"}}), json!({}), "1250m", (56, 4));
        check_with(json!({}), json!({"currentReplicas": 0}), "500m", (140, 0));
    }

    #[test]
    fn an_autoscaler_with_a_controller_is_left_alone() {
        let of = json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"scaleTargetRef": {"name": "web"}, "triggers": [
                {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "70"}},
                {"type": "memory", "metricType": "AverageValue", "metadata": {"value": "1Gi"}}]}});
        let mut autoscalers = Autoscalers::default();
        autoscalers.add(&of);
        let workload = WorkloadRef::new("shop", "Deployment", "web");
        let kept = kept_targets(&workload, &autoscalers);
        let about = |container: &str, resource: &str| kept.iter().any(|kept| kept.target.is_about(container, resource));
        assert!(about("a", "cpu") && !about("a", "memory"));
        assert_eq!(
            kept[0].to_string(),
            "ScaledObject web keeps HorizontalPodAutoscaler keda-hpa-web at 70% of the cpu request, so no cpu is recommended: \
             change its target together with the request"
        );
        assert_eq!(effects(&workload, &autoscalers, &[container("a", Some("500m"), Some("250m"))], 4), []);
    }

    #[test]
    fn a_container_may_be_looked_at_alone() {
        let by_container = json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "a",
            "target": {"type": "Utilization", "averageUtilization": 50}}});
        let both = [container("a", Some("500m"), Some("250m")), container("b", Some("100m"), Some("900m"))];
        check(autoscaler(by_container, json!({})), &both, Some((100, 8)));
        let by_value = json!({"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "AverageValue", "averageValue": "500m"}}});
        check(autoscaler(by_value, json!({})), &both, None);
    }
}
