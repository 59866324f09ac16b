//! The fields of Pods and their templates that no evaluation reads: most of their bytes.
//!
//! A list of what is left out rather than of what is kept, so that a field that some rule reads one day is there.

use headroom_admission::json::Node;
use headroom_objects::cluster_reader::LeftOut;
use headroom_objects::kinds::ApiKind;
use serde_json::Value;

use crate::redact::READ;
use headroom_workloads::Owner;
use headroom_workloads::kinds::{self, POD, comes_and_goes};

const OF_SPEC: [&str; 17] = [
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "ephemeralContainers",
    "hostAliases",
    "imagePullSecrets",
    "nodeName",
    "nodeSelector",
    "preemptionPolicy",
    "readinessGates",
    "schedulerName",
    "securityContext",
    "serviceAccount",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
];

const OF_CONTAINER: [&str; 19] = [
    "args",
    "command",
    "env",
    "envFrom",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "ports",
    "readinessProbe",
    "securityContext",
    "startupProbe",
    "stdin",
    "stdinOnce",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeDevices",
    "volumeMounts",
    "workingDir",
];

const OF_STATUS: [&str; 8] =
    ["ephemeralContainerStatuses", "hostIP", "hostIPs", "message", "nominatedNodeName", "podIP", "podIPs", "startTime"];

const OF_CONTAINER_STATUS: [&str; 7] =
    ["allocatedResourcesStatus", "containerID", "image", "imageID", "ready", "started", "volumeMounts"];

const CONTAINERS: LeftOut = LeftOut::Fields(&OF_CONTAINER, &[]);
const STATUSES: LeftOut = LeftOut::Fields(&OF_CONTAINER_STATUS, &[]);

/// The one condition that decides which amounts count while a Pod is resized.
const CONDITIONS: LeftOut = LeftOut::OtherTypes("PodResizePending");

const OF_POD: LeftOut = LeftOut::Fields(
    &[],
    &[
        ("metadata", LeftOut::Fields(&[], &[("annotations", LeftOut::AllFieldsBut(&READ))])),
        ("spec", LeftOut::Fields(&OF_SPEC, &[("containers", CONTAINERS), ("initContainers", CONTAINERS)])),
        (
            "status",
            LeftOut::Fields(
                &OF_STATUS,
                &[("conditions", CONDITIONS), ("containerStatuses", STATUSES), ("initContainerStatuses", STATUSES)],
            ),
        ),
    ],
);

const OF_TEMPLATE: LeftOut = LeftOut::Fields(&[], &[("spec", LeftOut::Fields(&[], &[("template", OF_POD)]))]);

/// The fields that tell how containers ended, which an inventory counts.
const ENDS: LeftOut = LeftOut::Fields(&["lastState", "restartCount", "state"], &[]);
const OF_ENDS: LeftOut = LeftOut::Fields(
    &[],
    &[("status", LeftOut::Fields(&[], &[("containerStatuses", ENDS), ("initContainerStatuses", ENDS)]))],
);

/// Leaves out what is not read of a Pod, or of the template of an object.
pub fn leave_out(object: &mut Value) {
    let pod = kinds::of(object).and_then(|kind| object.pointer_mut(&kinds::pod_at(kind)));
    if let Some(pod) = pod {
        OF_POD.leave_out(pod);
        OF_ENDS.leave_out(pod);
    }
}

/// The same for objects of which an inventory counts, too, how their containers ended: of what Kubernetes' own controllers made, most
/// of a cluster. Everything else is asked what programs in it are told.
pub fn of_made(object: Node<'_>, (api_version, kind): (&str, &str)) -> &'static LeftOut {
    let made = match kinds::of_api(&ApiKind::new(api_version, kind)) {
        Some(kind) if *kind == POD => &OF_POD,
        // The path is the same in all of these.
        Some(kind) if comes_and_goes(kind.kind) => &OF_TEMPLATE,
        _ => return &LeftOut::Nothing,
    };
    if Owner::in_place(object).is_some_and(|owner| owner.is_read()) { made } else { &LeftOut::Nothing }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_objects::cluster_reader::Folder;
    use headroom_objects::document;
    use headroom_workloads::inventory::Inventory;
    use serde_json::json;

    #[test]
    fn an_inventory_is_the_same_without_what_nobody_reads_of_what_controllers_made() {
        let object = |kind: &str, api_version: &str, name: &str, owner: (&str, &str, &str), rest: Value| {
            let owners = json!([{"apiVersion": owner.0, "kind": owner.1, "name": owner.2, "controller": true}]);
            let mut object = json!({"apiVersion": api_version, "kind": kind,
                "metadata": {"name": name, "namespace": "shop", "ownerReferences": owners, "annotations": {"a": "b"}}});
            rest.as_object().unwrap().iter().for_each(|(field, value)| object[field] = value.clone());
            object
        };
        let container = json!({"name": "a", "image": "a:1", "env": [{"name": "GOMEMLIMIT", "value": "1GiB"}]});
        let spec = json!({"containers": [container], "nodeName": "node-1", "priority": -1, "overhead": {"cpu": "1"}});
        let status = json!({"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [{"name": "a", "restartCount": 2,
            "containerID": "containerd://1", "resources": {"requests": {"cpu": "1"}},
            "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"reason": "OOMKilled"}}}]});
        let pod = json!({"spec": spec, "status": status});
        let maker = json!({"spec": {"replicas": 1, "template": {"spec": spec}}});
        let (rollout, nobody) = (("argoproj.io/v1alpha1", "Rollout", "canary"), ("", "", ""));
        let objects = [
            ("Deployment", "apps/v1", "web", nobody, &maker),
            ("ReplicaSet", "apps/v1", "web-1", ("apps/v1", "Deployment", "web"), &maker),
            ("Pod", "v1", "web-1-a", ("apps/v1", "ReplicaSet", "web-1"), &pod),
            ("ReplicaSet", "apps/v1", "canary-1", rollout, &maker),
            ("Pod", "v1", "canary-1-a", ("apps/v1", "ReplicaSet", "canary-1"), &pod),
            ("Pod", "v1", "set-0", ("example.com/v1", "PodSet", "set"), &pod),
            ("Pod", "v1", "proxy", ("v1", "Node", "node-1"), &pod),
            ("StatefulSet", "apps/v1", "db", ("apps/v1", "Deployment", "web"), &maker),
        ];
        let objects = objects.map(|(kind, api, name, owner, rest)| object(kind, api, name, owner, rest.clone()));
        let reduced: Vec<Value> = objects
            .iter()
            .map(|whole| {
                let (mut object, kind, document) = (whole.clone(), ApiKind::of(whole), document(whole).unwrap());
                of_made(document.root(), (&kind.api_version(), &kind.kind)).leave_out(&mut object);
                object
            })
            .collect();
        let changed: Vec<bool> = objects.iter().zip(&reduced).map(|(whole, reduced)| whole != reduced).collect();
        assert_eq!(changed, [false, true, true, false, true, false, false, false]);
        let told = |objects: &[Value]| {
            let mut folder = Folder::with(objects.to_vec()).unwrap();
            let found = Inventory::read(&mut folder, &[Some("shop")], |error| error.to_string()).unwrap();
            let as_they_run = found.entries.iter().map(|entry| entry.as_it_runs().to_string());
            let running = found.entries.iter().map(|entry| format!("{} {:?}", entry.key, entry.running));
            as_they_run.zip(running).collect::<Vec<_>>()
        };
        assert_eq!(told(&reduced), told(&objects));
        assert_eq!(told(&objects).len(), 5);
    }
}
