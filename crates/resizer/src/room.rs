//! Checks whether a change fits: the room of the node, then the API server's own answer to a dry run of the resize, which holds it
//! against LimitRanges, quotas and every policy.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::decision::{Amounts, ComputeResource, Direction, Phase, PodChange, Unfit};
use headroom_admission::amount::Requirement;
use headroom_admission::json::Node;
use headroom_admission::request::{Pod, pod_totals};
use headroom_api_server::api_client::{ApiClient, ApiError, ListOptions, value};
use headroom_api_server::parts::locked;
use headroom_objects::kinds::{items, metadata, text};
use serde_json::Value;

use crate::observed::{amount, amounts, at};
use crate::round::{self, V1};

/// A node's room is read again after this time, and after each change that fits.
const FRESH: Duration = Duration::from_secs(10);

/// The free room of nodes, read lately.
#[derive(Debug, Default)]
pub struct Rooms(Mutex<HashMap<String, (Instant, Amounts)>>);

impl Rooms {
    /// `others` are changes under way of these pods.
    pub async fn fits(
        &self,
        api: &ApiClient,
        pods: &[Value],
        change: &PodChange,
        others: &[PodChange],
    ) -> Result<(), Unfit> {
        let of = |change: &PodChange| pods.iter().find(|pod| metadata(pod, "uid") == change.uid);
        let pod = of(change).ok_or(Unfit::Changed)?;
        let node = text(pod, "/spec/nodeName");
        if change.direction == Direction::Up {
            let is_near = |other: &&PodChange| of(other).is_some_and(|pod| text(pod, "/spec/nodeName") == node);
            let near: Vec<&PodChange> = others.iter().filter(is_near).collect();
            if near.iter().any(|other| matches!(other.phase, Phase::Watched { .. })) {
                // It may have been made since the room was read.
                locked(&self.0).remove(node);
            }
            self.fits_node(api, node, change, &near).await.map_err(Unfit::Refused)?;
        }
        let (namespace, version) = (metadata(pod, "namespace"), metadata(pod, "resourceVersion"));
        let path = V1.collection(Some(namespace), "pods").at(&change.pod).at("resize");
        match api.resize(&path.dry_run(), &round::patch(&change.uid, version, &change.containers)).await {
            Ok(answer) => {
                locked(&self.0).remove(node);
                round::altered(&answer, &change.containers, pod).map_or(Ok(()), |why| Err(Unfit::Refused(why)))
            }
            Err(ApiError::Conflict { .. }) => Err(Unfit::Changed),
            Err(error) => Err(Unfit::Refused(error.to_string())),
        }
    }

    async fn fits_node(
        &self,
        api: &ApiClient,
        name: &str,
        change: &PodChange,
        others: &[&PodChange],
    ) -> Result<(), String> {
        let left = self.left(api, name).await.map_err(|error| format!("cannot read node {name}: {error}"))?;
        for resource in ComputeResource::ALL {
            let more = growth(change, resource);
            let others = others.iter().map(|other| growth(other, resource)).fold(0, u64::saturating_add);
            let free = left.of(resource).unwrap_or(0).saturating_sub(others);
            if more > free {
                let [more, free] = [more, free].map(|amount| resource.readable(amount));
                return Err(format!("node {name} has {free} of {} left, and {more} more are needed", resource.name()));
            }
        }
        Ok(())
    }

    async fn left(&self, api: &ApiClient, name: &str) -> Result<Amounts, ApiError> {
        let rooms = || locked(&self.0);
        rooms().retain(|_, (at, _)| at.elapsed() < FRESH);
        let found = rooms().get(name).map(|(_, left)| *left);
        if let Some(left) = found {
            return Ok(left);
        }
        let read_at = Instant::now();
        let node = api.get(&V1.collection(None, "nodes").at(name)).await?;
        let most = amounts(at(&node, "/status/allocatable")).map_err(ApiError::Other)?;
        let mut left = most;
        let selector = format!("spec.nodeName={name},status.phase!=Succeeded,status.phase!=Failed");
        let options = ListOptions { field_selector: &selector, ..ListOptions::WHOLE };
        let take = |pod: Node<'_>| {
            let requests = requests(pod);
            for resource in ComputeResource::ALL {
                // The kubelet runs no pod that asks for more than all of its node.
                let [most, left_now] = [most, left].map(|of| of.of(resource).unwrap_or(0));
                let taken = requests.of(resource).filter(|taken| *taken <= most).unwrap_or(0);
                left.set(resource, left_now.saturating_sub(taken));
            }
        };
        api.for_each(&V1.collection(None, "pods"), options, take).await?;
        rooms().insert(name.to_owned(), (read_at, left));
        Ok(left)
    }
}

/// The growth of requests by a change that is not in the pod's spec yet.
fn growth(change: &PodChange, resource: ComputeResource) -> u64 {
    let grown = change.containers.iter().map(|of| {
        let [from, to] = [of.from, of.to].map(|size| size.requests.of(resource).unwrap_or(0));
        match change.phase {
            Phase::Asked { .. } | Phase::Withheld { .. } => to.saturating_sub(from),
            Phase::Watched { .. } => 0,
            Phase::TakenBack { .. } => from.saturating_sub(to),
        }
    });
    grown.fold(0, u64::saturating_add)
}

/// The requests of a pod on its node. Where not all of it can be read, those of its containers are added up: limits do not count
/// there, and no kubelet runs a pod whose requests cannot be read.
fn requests(pod: Node<'_>) -> Amounts {
    let mut requests = Amounts::default();
    let read = pod.get("status").and_then(|status| Pod::read(pod, status));
    if let Ok(total) = read.and_then(|pod| pod_totals::as_quotas_see_it(&pod, Requirement::Request)) {
        for resource in ComputeResource::ALL {
            total.get(resource.name()).iter().for_each(|quantity| requests.set(resource, amount(quantity, resource)));
        }
        return requests;
    }
    let pod = value(pod).unwrap_or_default();
    for of in items(&pod, "/spec/containers").map(|container| amounts(at(container, "/resources/requests"))) {
        for resource in ComputeResource::ALL {
            let more = of.as_ref().ok().and_then(|of| of.of(resource)).unwrap_or(0);
            requests.set(resource, requests.of(resource).unwrap_or(0).saturating_add(more));
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use headroom_fixtures::api_server::ApiServer;
    use headroom_objects::document;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn what_is_not_made_yet_takes_room_on_its_own_node() {
        let server = ApiServer::new();
        server.put(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "status": {"allocatable": {"memory": "1000"}}}));
        for (name, node) in [("web", "a"), ("near", "a"), ("far", "b")] {
            let containers = json!([{"name": "app", "resources": {"requests": {"memory": "400"}}}]);
            server.put(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": name},
                "spec": {"nodeName": node, "containers": containers}}));
        }
        let pods = server.list("/api/v1/pods");
        let service = tower::service_fn(move |request| Arc::clone(&server).answer(request));
        let api = ApiClient::new(kube::Client::new(service, "default"));
        let change = |name: &str, phase: &Value, to: u64| -> PodChange {
            let pod = pods.iter().find(|pod| metadata(pod, "name") == name).unwrap();
            let [from, to] = [400, to].map(|memory| json!({"requests": {"memory": memory}}));
            let containers = json!([{"name": "app", "from": from, "to": to, "restarts": 0}]);
            let change = json!({"uid": metadata(pod, "uid"), "pod": name, "direction": "up", "why": "used", "begun": 1,
                "containers": containers, "phase": phase});
            serde_json::from_value(change).unwrap()
        };
        // 200 are left, and 100 are needed.
        let [asked, watched] = [json!({"asked": {"version": ""}}), json!({"watched": {"since": 1}})];
        let taken_back = json!({"takenBack": {"version": "", "harm": "killed"}});
        for (name, phase, to, fits) in [
            ("near", &asked, 500, true),
            ("near", &asked, 501, false),
            ("near", &watched, 501, true),
            ("near", &taken_back, 501, true),
            ("near", &taken_back, 299, false),
            ("far", &asked, 501, true),
        ] {
            let others = [change(name, phase, to)];
            let found = Rooms::default().fits(&api, &pods, &change("web", &asked, 500), &others).await;
            assert_eq!(found.is_ok(), fits, "{name} {phase} {to}: {found:?}");
        }
    }

    #[test]
    fn a_pod_that_cannot_be_read_hides_no_other_and_what_can_be_read_of_it_counts() {
        let of = |resources: Value, status: Value| {
            let containers = json!([{"name": "app", "resources": resources}]);
            let pod = document(&json!({"spec": {"containers": containers}, "status": status})).unwrap();
            requests(pod.root()).memory.unwrap_or(0)
        };
        let gibibyte = 1 << 30;
        assert_eq!(of(json!({"requests": {"memory": "1Gi"}}), json!({})), gibibyte);
        for amount in ["1e30", "-1e30", "1e400", "many", ""] {
            assert_eq!(of(json!({"requests": {"memory": "1Gi"}, "limits": {"memory": amount}}), json!({})), gibibyte);
            let status = json!({"containerStatuses": [{"name": "app", "resources": {"limits": {"cpu": amount}}}]});
            assert_eq!(of(json!({"requests": {"memory": "1Gi"}}), status), gibibyte, "{amount}");
            assert_eq!(of(json!({"requests": {"memory": amount}}), json!({})), 0, "no kubelet runs it");
        }
    }
}
