//! The workloads of a cluster as far as a scan wants to know them, the chain of their owners, and who scales them.
//!
//! Kubernetes' own kinds are read whole, because their templates are judged; of pods, and of ReplicaSets and Jobs that somebody
//! makes, only a few facts are kept, so that a large cluster fits into little memory.

mod found;
mod running;
mod tops;

use serde_json::Value;

use self::found::Found;
pub use self::running::Running;
use headroom_dryrun::cluster_reader::{ClusterReader, is_of_unknown_kind};

use super::owners::{Key, Places};
use crate::recommend::autoscaler;

/// Something whose containers are advised on.
#[derive(Debug, Clone)]
pub struct Workload {
    pub key: Key,
    pub api_version: String,
    /// The object with the containers: the workload itself, or what it owns where its own kind is not known here.
    pub object: Value,
    /// What the object is, if it is not the workload itself: `replicaset/web-5d8f`.
    pub through: Option<String>,
    /// What is at the top of the chain of owners above the workload: `kafka/events`.
    pub managed_by: Option<String>,
    pub running: Running,
}

/// What is there.
#[derive(Debug, Default)]
pub struct World {
    pub workloads: Vec<Workload>,
    /// HorizontalPodAutoscalers as they stand.
    pub autoscalers: Vec<Value>,
    pub notes: Vec<String>,
}

/// Kinds with a template, in the order in which they are told.
const TEMPLATES: [(&str, &str); 7] = [
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("v1", "ReplicationController"),
    ("batch/v1", "CronJob"),
    ("apps/v1", "ReplicaSet"),
    ("batch/v1", "Job"),
];

/// Reads what runs in some namespaces, or for none in all; `problem` words what could not be read.
pub fn read(
    around: &mut dyn ClusterReader,
    namespaces: &[Option<&str>],
    problem: impl Fn(String) -> String,
) -> Result<(World, Places), String> {
    let mut found = Found::default();
    let mut problems: Vec<String> = Vec::new();
    for namespace in namespaces {
        for (api_version, kind) in TEMPLATES {
            let read = around.visit(api_version, kind, *namespace, &mut |object| found.add_template(kind, object));
            // An old cluster has none of a kind that it does not know.
            problems.extend(read.err().filter(|error| !is_of_unknown_kind(error)).map(&problem));
        }
        let read = around.visit("v1", "Pod", *namespace, &mut |object| found.add_pod(object));
        problems.extend(read.err().map(&problem));
    }
    if problems.len() >= (TEMPLATES.len() + 1) * namespaces.len() {
        return Err(problems.swap_remove(0));
    }
    let mut world = World { notes: problems, ..World::default() };
    for namespace in namespaces {
        match autoscaler::list(around, *namespace) {
            Ok(autoscalers) => world.autoscalers.extend(autoscalers),
            Err(other) => world.notes.push(problem(other)),
        }
    }
    let places = found.close(around, &mut world);
    Ok((world, places))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_dryrun::cluster_reader::{Folder, Overlay};
    use serde_json::json;

    fn owned(kind: &str, api: &str, name: &str, owner: Option<(&str, &str, &str)>, more: Value) -> Value {
        let owners: Vec<Value> = owner
            .into_iter()
            .map(|(api, kind, name)| json!({"apiVersion": api, "kind": kind, "name": name, "controller": true}))
            .collect();
        let mut object = json!({"apiVersion": api, "kind": kind,
            "metadata": {"name": name, "namespace": "shop", "ownerReferences": owners}});
        for (field, value) in more.as_object().unwrap() {
            object[field] = value.clone();
        }
        object
    }

    fn world(objects: Vec<Value>) -> World {
        let mut folder = Folder::default();
        objects.into_iter().for_each(|object| folder.put(object).unwrap());
        let mut around = Overlay::new(folder, None);
        read(&mut around, &[Some("shop")], |problem| problem).unwrap().0
    }

    #[test]
    fn every_kind_is_found_once_and_the_chain_of_owners_is_followed_to_its_top() {
        let scaled = |replicas: u64| json!({"spec": {"replicas": replicas}});
        let status = |restarts: u64, reason: &str| {
            json!({"status": {"phase": "Running", "containerStatuses": [{"name": "a", "restartCount": restarts,
                "lastState": {"terminated": {"reason": reason}}}]}})
        };
        let world = world(vec![
            owned("Deployment", "apps/v1", "web", None, scaled(2)),
            owned("ReplicaSet", "apps/v1", "web-1", Some(("apps/v1", "Deployment", "web")), scaled(2)),
            owned("Pod", "v1", "web-1-a", Some(("apps/v1", "ReplicaSet", "web-1")), status(2, "OOMKilled")),
            owned("Pod", "v1", "web-1-b", Some(("apps/v1", "ReplicaSet", "web-1")), status(1, "Error")),
            owned("ReplicaSet", "apps/v1", "canary-1", Some(("argoproj.io/v1alpha1", "Rollout", "canary")), scaled(0)),
            owned("ReplicaSet", "apps/v1", "canary-2", Some(("argoproj.io/v1alpha1", "Rollout", "canary")), scaled(1)),
            owned("Pod", "v1", "canary-2-a", Some(("apps/v1", "ReplicaSet", "canary-2")), json!({})),
            owned("StatefulSet", "apps/v1", "events", Some(("kafka.example.com/v1", "NodePool", "events")), scaled(1)),
            owned(
                "NodePool",
                "kafka.example.com/v1",
                "events",
                Some(("kafka.example.com/v1", "Kafka", "all")),
                json!({}),
            ),
            owned("Pod", "v1", "set-0", Some(("example.com/v1", "PodSet", "set")), json!({})),
            owned("CronJob", "batch/v1", "night", None, json!({})),
            owned("Job", "batch/v1", "night-1", Some(("batch/v1", "CronJob", "night")), json!({})),
            owned("Job", "batch/v1", "once", None, json!({"status": {"completionTime": "2026-11-21T00:00:00Z"}})),
            owned("Pod", "v1", "debug", None, json!({})),
            owned("Pod", "v1", "proxy-node1", Some(("v1", "Node", "node1")), json!({})),
            owned("Deployment", "apps/v1", "off", None, scaled(0)),
        ]);
        let told: Vec<String> = world
            .workloads
            .iter()
            .map(|workload| {
                let Workload { key, through, managed_by, running, .. } = workload;
                format!("{} {through:?} {managed_by:?} {}", key.told(), running.pods)
            })
            .collect();
        assert_eq!(
            told,
            [
                "deployment/off None None 0",
                "deployment/web None None 2",
                r#"statefulset/events None Some("kafka/all") 0"#,
                "cronjob/night None None 0",
                "pod/debug None None 1",
                "pod/proxy-node1 None None 1",
                r#"podset/set Some("pod/set-0") None 1"#,
                r#"rollout/canary Some("replicaset/canary-2") None 1"#,
            ]
        );
        let web = &world.workloads[1].running;
        assert_eq!((web.restarts.get("a"), web.killed.get("a")), (Some(&3), Some(&1)));
        assert_eq!(
            world.notes,
            [
                "1 finished pods and Jobs are left out: they will not ask for anything again",
                "1 workloads are scaled to 0: their advice saves nothing until they run",
            ]
        );
    }
}
