//! The values that the API server itself fills in, before or after admission. We never write them ourselves.
//!
//! See <https://kubernetes.io/docs/tasks/configure-pod-container/assign-pod-level-resources/>.

use super::origin::ValueOrigin;
use super::pod::{Pod, Resources, Value};
use super::pod_totals::{self, is_pod_level};
use crate::amount::{Quantity, Requirement, ResourceName};
use crate::settings::ServerVersion;

/// A limit without a request also sets the request. The API server has done this in pods, but not in templates.
pub fn limits_to_requests(pod: &mut Pod<'_>) {
    for container in &mut pod.containers {
        copy_limits(&mut container.resources, |_, _| Some(ValueOrigin::AuthorsLimit));
    }
}

/// The same for limits that are set now: the API server looks at a pod again after each webhook. A value copied from a
/// default is a default, too.
pub fn new_limits_to_requests(pod: &mut Pod<'_>) {
    for container in &mut pod.containers {
        copy_limits(&mut container.resources, |_, origin| {
            matches!(origin, ValueOrigin::Default(_)).then(|| origin.clone())
        });
    }
}

fn copy_limits<'d>(
    resources: &mut Resources<'d>,
    origin_of: impl Fn(&str, &ValueOrigin<'d>) -> Option<ValueOrigin<'d>>,
) {
    let Resources { requests, limits } = resources;
    let mut missing = Vec::new();
    for (name, limit, request) in limits.paired_with(requests) {
        if request.is_none()
            && let Some(origin) = origin_of(name, &limit.origin)
        {
            missing.push((name.clone(), Value { quantity: limit.quantity.clone(), origin }));
        }
    }
    requests.add_missing(missing);
}

/// Makes a pod what it is to this version of the API server, once admission has filled in its containers: the pod-level
/// values are completed from the present ones and from the containers, or dropped where they are not known.
pub fn of_version(pod: &mut Pod<'_>, server: ServerVersion) {
    pod.is_largest_by_container = !server.sums_resizes();
    if pod.resources.is_empty() {
        return;
    }
    if !server.has_pod_level_resources() {
        pod.resources = Resources::default();
        return;
    }
    let limits_too = server.completes_pod_level_limits();
    let sum_of_limits = pod_totals::of_containers(pod, Requirement::Limit);
    let is_missing = |name: &str| name.starts_with("hugepages-") && !pod.resources.contains(name);
    let missing = sum_of_limits.iter().filter(|(name, _)| is_missing(name)).map(|(name, sum)| derived(name, sum));
    let missing = missing.collect();
    pod.resources.limits.add_missing(missing);
    if limits_too || !pod.resources.limits.is_empty() {
        for (name, sum) in pod_totals::of_containers(pod, Requirement::Request).iter() {
            if matches!(name.as_ref(), "cpu" | "memory") && !pod.resources.requests.contains(name) {
                let (name, request) = derived(name, sum);
                pod.resources.requests.set(name, request);
            }
        }
        copy_limits(&mut pod.resources, |name, _| is_pod_level(name).then_some(ValueOrigin::AuthorsLimit));
    }
    if !limits_too {
        return;
    }
    let mut missing = Vec::new();
    for (name, sum, limit) in sum_of_limits.paired_with(&pod.resources.limits) {
        let is_everywhere = || pod.containers.iter().all(|container| container.resources.limits.contains(name));
        if limit.is_none() && is_pod_level(name) && is_everywhere() {
            let request = pod.resources.quantity(Requirement::Request, name);
            missing.push(derived(name, request.filter(|request| *request > sum).unwrap_or(sum)));
        }
    }
    pod.resources.limits.add_missing(missing);
}

fn derived<'d>(name: &ResourceName<'d>, quantity: &Quantity) -> (ResourceName<'d>, Value<'d>) {
    (name.clone(), Value { quantity: quantity.clone(), origin: ValueOrigin::AuthorsLimit })
}
