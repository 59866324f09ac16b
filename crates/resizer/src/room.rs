//! Checks whether a change fits: the room of the node, then the API server's own answer to a dry run of the resize, which holds it
//! against LimitRanges, quotas and every policy.

use crate::decision::{Amounts, ComputeResource, Direction, PodChange, Unfit};
use headroom_core::amount::Requirement;
use headroom_core::json::Node;
use headroom_core::request::{Pod, pod_totals};
use headroom_kube::api_client::{ApiClient, ApiError, ListOptions};
use headroom_kube::api_path::ApiPath;
use serde_json::Value;

use crate::observed::{amount, amounts, at};
use crate::round;

const V1: ApiPath = ApiPath::new("/api/v1");

/// Returns why a change of a pod is not begun. `others` may be made any moment.
pub async fn fits(api: &ApiClient, pod: &Value, change: &PodChange, others: &[PodChange]) -> Result<(), Unfit> {
    if change.direction == Direction::Up {
        let node = at(pod, "/spec/nodeName").as_str().unwrap_or_default();
        fits_node(api, node, change, others).await.map_err(Unfit::Refused)?;
    }
    let namespace = at(pod, "/metadata/namespace").as_str().unwrap_or_default();
    let version = at(pod, "/metadata/resourceVersion").as_str().unwrap_or_default();
    let path = V1.collection(Some(namespace), "pods").at(&change.pod).at("resize");
    match api.try_resize(&path, &round::patch(&change.uid, version, &change.containers)).await {
        Ok(_) => Ok(()),
        Err(ApiError::Conflict { .. }) => Err(Unfit::Changed),
        Err(error) => Err(Unfit::Refused(error.to_string())),
    }
}

/// Compares what is requested on a node, with the changes, with what it may give.
async fn fits_node(api: &ApiClient, name: &str, change: &PodChange, others: &[PodChange]) -> Result<(), String> {
    let unread = |error: ApiError| format!("cannot read node {name}: {error}");
    let node = api.get(&V1.collection(None, "nodes").at(name)).await.map_err(unread)?;
    let selector = format!("spec.nodeName={name},status.phase!=Succeeded,status.phase!=Failed");
    let options = ListOptions { field_selector: &selector, ..ListOptions::WHOLE };
    let (_, requested) =
        api.list(&V1.collection(None, "pods"), options, |pod| Some(requests(pod))).await.map_err(unread)?;
    let allocatable = amounts(at(&node, "/status/allocatable"))?;
    for resource in ComputeResource::ALL {
        let growth = |change: &PodChange| {
            let grows = |of: &crate::decision::Resized| {
                let amount = |size: crate::decision::ContainerSize| size.requests.of(resource).unwrap_or(0);
                amount(of.to).saturating_sub(amount(of.from))
            };
            change.containers.iter().map(grows).sum::<u64>()
        };
        let more = growth(change);
        if more == 0 {
            continue;
        }
        let known: Option<u64> = requested.iter().map(|of| of.map(|of| of.of(resource).unwrap_or(0))).sum();
        let requested = known.ok_or_else(|| format!("a pod on node {name} cannot be read"))?;
        let most = allocatable.of(resource).unwrap_or(0);
        let free = most.saturating_sub(requested.saturating_add(others.iter().map(growth).sum()));
        if more > free {
            let [more, free] = [more, free].map(|amount| resource.readable(amount));
            return Err(format!("node {name} has {free} of {} left, and {more} more are needed", resource.name()));
        }
    }
    Ok(())
}

/// The requests of a pod on its node; none if it cannot be read.
fn requests(pod: Node<'_>) -> Option<Amounts> {
    let pod = Pod::read(pod, pod.get("status").ok()?).ok()?;
    let total = pod_totals::as_quotas_see_it(&pod, Requirement::Request).ok()?;
    let mut requests = Amounts::default();
    for resource in ComputeResource::ALL {
        total.get(resource.name()).iter().for_each(|quantity| requests.set(resource, amount(quantity, resource)));
    }
    Some(requests)
}
