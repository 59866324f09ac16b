//! Facts about the containers of a pod template: the requests that admission gives them today, and their own history.

use std::collections::BTreeMap;

use crate::decision::ComputeResource;
use headroom_admission::cluster::usage::{Resource as Measured, Window};
use headroom_admission::estimate::Sources;
use headroom_admission::image::ImageName;
use headroom_admission::request::{Requirement, ValueOrigin};
use headroom_dry_run::evaluate::{Admission, request, with_decision};
use headroom_objects::cluster_reader::{ClusterReader, ReadError};
use headroom_objects::kinds::{ApiKind, items};
use headroom_workloads::autoscaler::Autoscalers;
use headroom_workloads::program::{self, ConfigMaps};
use headroom_workloads::{WorkloadRef, pod_of};
use serde_json::Value;

use crate::observed::{ContainerFacts, amount, at, size};

pub type Facts = BTreeMap<String, ContainerFacts>;

/// A template is not evaluated if the product of its containers and the bytes of LimitRanges and quotas is larger: a tenant chooses
/// both. A large real one is a hundredth of it.
const MOST_COMPARED: usize = 2 << 20;

/// Evaluates a template as a pod that its controller would create now. Quotas count the pods that run already, so the pod
/// is evaluated as one of them.
pub fn of_template(
    owner: &Value,
    bytes_of_rules: usize,
    admission: &Admission,
    cluster: &mut dyn ClusterReader,
) -> Result<Facts, String> {
    let Some(pod) = pod_of(owner) else { return Ok(Facts::new()) };
    let spec = at(&pod, "/spec").clone();
    let containers: Vec<&Value> = items(&spec, "/containers").collect();
    let all = containers.len() + items(&spec, "/initContainers").count();
    if all.saturating_mul(bytes_of_rules) > MOST_COMPARED {
        return Err(format!("{all} containers and {bytes_of_rules} bytes of LimitRanges and quotas are too much"));
    }
    let request = request::audit(pod, &ApiKind::new("v1", "Pod"));
    let (settings, _) = admission.settings_for(&request, cluster);
    with_decision(&request, settings, cluster, |request, decision, context, settings| {
        let mut facts = Facts::new();
        let Some(pod) = decision.pod.as_ref().filter(|_| decision.violations.is_empty()) else { return Ok(facts) };
        for container in &pod.containers {
            let in_template = containers.iter().copied().find(|of| at(of, "/name") == container.name.as_ref());
            let author = in_template.and_then(|container| size(container).ok());
            let mut found = ContainerFacts { author, ..ContainerFacts::default() };
            let image = ImageName::parse(&container.image).ok();
            let workload = (request.workload_name(), container.name.as_ref());
            // Faults of a history were noted when the estimate was made.
            let notes = &mut Vec::new();
            let sources =
                image.as_ref().map(|image| Sources::find(image, workload, context, &settings.estimates, notes));
            for (resource, measured) in
                [(ComputeResource::Cpu, Measured::Cpu), (ComputeResource::Memory, Measured::Memory)]
            {
                let request = container.resources.requests.get(measured.name());
                if let Some(request) = request {
                    found.wanted.set(resource, amount(&request.quantity, resource));
                }
                let chosen = sources
                    .as_ref()
                    .and_then(|sources| sources.choose(measured, &settings.estimates, &mut Vec::new()).0);
                let Some(own) = chosen.filter(|chosen| chosen.is_of_workload) else { continue };
                let is_estimate = request.is_some_and(|request| matches!(request.origin, ValueOrigin::Estimate(_)));
                found.is_evident.extend(is_estimate.then_some(resource));
                let month = own.history.observed(Window::Month, measured).ok().flatten().unwrap_or(own.observed);
                if let (Ok(peak), Ok(Some(days))) = (month.peak(), own.history.days()) {
                    let floor = if resource == ComputeResource::Memory { amount(&peak, resource) } else { 0 };
                    found.floor.set(resource, floor);
                    found.days = days;
                }
            }
            // Whoever may read no ConfigMap knows what stands in the template.
            let settings = in_template.map(|of| program::settings(&spec, of, "", &ConfigMaps::default()));
            for setting in settings.into_iter().flatten().filter(|setting| setting.grows) {
                let limit = container.resources.quantity(Requirement::Limit, "memory");
                let most = setting.memory(None, limit).map(|most| amount(&most, ComputeResource::Memory));
                // What it made of its request when it started is not known.
                found.floor.memory = found.floor.memory.zip(most).map(|(floor, most)| floor.max(most));
            }
            facts.insert(container.name.as_ref().to_owned(), found);
        }
        Ok(facts)
    })
}

/// Marks the resources by which HorizontalPodAutoscalers scale one of these owners.
pub fn mark_scaled<'a>(facts: &mut Facts, owners: impl Iterator<Item = &'a WorkloadRef>, autoscalers: &Autoscalers) {
    let targets: Vec<_> = owners.flat_map(|of| autoscalers.horizontal(of)).flat_map(|of| &of.by_utilization).collect();
    for (container, found) in facts {
        let is_scaled = |by: &ComputeResource| targets.iter().any(|target| target.is_about(container, by.name()));
        found.is_scaled_by = ComputeResource::ALL.into_iter().filter(is_scaled).collect();
    }
}

/// The bytes of the rules that each container of a template is compared with.
pub fn bytes_of_rules(namespace: &str, cluster: &mut dyn ClusterReader) -> Result<usize, ReadError> {
    let mut bytes = 0;
    for kind in ["LimitRange", "ResourceQuota"] {
        bytes += cluster.list(("v1", kind, Some(namespace)))?.iter().map(|of| of.to_string().len()).sum::<usize>();
    }
    Ok(bytes)
}
