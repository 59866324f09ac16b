//! The workloads of a cluster, the chain of their owners, their pods, and who scales them.
//!
//! Kubernetes' own kinds are kept whole, because their templates are evaluated; of pods, and of ReplicaSets and Jobs that
//! something makes, only a few facts are kept, so that a large cluster fits into little memory.

mod pods;
mod top_owner;

mod classify;

use headroom_objects::manifest::Origin;
use serde_json::Value;

use self::classify::Classifier;
pub use self::pods::Running;
use super::autoscaler::{self, Autoscalers};
use super::owners::{Owner, Pods, WorkloadRef};
use super::rejections::{EVENT_REASON, RejectedPod};
use headroom_core::timestamp::Timestamp;
use headroom_core::truncate::on_one_line;
use headroom_dryrun::evaluate::{request, running};
use headroom_objects::cluster_reader::{ClusterReader, Events, Kept, ReadError};
use headroom_objects::kinds::{ApiKind, metadata};

/// A workload whose containers get recommendations.
#[derive(Debug, Clone)]
pub struct Entry {
    pub key: WorkloadRef,
    pub api_version: String,
    /// The object with the containers: the workload itself, or what it owns where its own kind is not known here.
    pub object: Kept,
    /// The name of that object, if it is not the workload itself: `replicaset/web-5d8f`.
    pub through: Option<String>,
    /// The object at the top of the owners above the workload: `kafka/events`.
    pub managed_by: Option<String>,
    pub running: Running,
    /// The last rejection of one of its pods that an Event tells of, and its time.
    pub rejected: Option<(Option<Timestamp>, String)>,
    /// The place in a manifest that the object was read from.
    pub origin: Option<Origin>,
    /// True if the cluster has it, so that its pods are counted in the quotas.
    pub exists: bool,
}

/// The workloads to recommend for.
#[derive(Debug, Default)]
pub struct Inventory {
    pub entries: Vec<Entry>,
    pub pods: Pods,
    pub autoscalers: Autoscalers,
    pub notes: Vec<String>,
    /// True if some kinds could not be read, as the notes say.
    pub is_partial: bool,
}

/// Kinds with a template, in the order in which they are listed.
pub const TEMPLATES: [(&str, &str); 7] = [
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("v1", "ReplicationController"),
    ("batch/v1", "CronJob"),
    ("apps/v1", "ReplicaSet"),
    ("batch/v1", "Job"),
];

/// The Events that are read of a namespace, or of all together, and the characters that are kept of one.
const MAX_EVENTS: usize = 10_000;
const MAX_MESSAGE: usize = 400;

/// Kubernetes 1.20 serves CronJobs under this version only.
const CRON_JOBS_BEFORE_1_21: &str = "batch/v1beta1";

/// True if objects of a kind are pods, or make them by a template whose path is known.
pub fn makes_pods(kind: &ApiKind) -> bool {
    let mut kinds = TEMPLATES.into_iter().chain([("v1", "Pod")]);
    kinds.any(|(api_version, name)| name == kind.kind && ApiKind::new(api_version, name).group == kind.group)
}

impl Entry {
    /// An object that is in the cluster.
    pub fn of_cluster(object: &Value) -> Self {
        let kind = ApiKind::of(object);
        Self {
            key: WorkloadRef::new(metadata(object, "namespace"), &kind.kind, metadata(object, "name")),
            api_version: kind.api_version(),
            object: Kept::from(object),
            through: None,
            managed_by: None,
            running: Running::default(),
            rejected: None,
            origin: None,
            exists: true,
        }
    }
}

impl Entry {
    /// The images of its containers, as far as the place of its template is known.
    pub fn images(&self) -> Vec<String> {
        self.of_containers("image")
    }

    /// True for the patch of a kustomization, which has containers and leaves their images to what it patches.
    pub fn is_patch(&self) -> bool {
        self.images().is_empty() && !self.containers().is_empty()
    }

    /// The names of its containers, likewise.
    pub fn containers(&self) -> Vec<String> {
        self.of_containers("name")
    }

    fn of_containers(&self, field: &str) -> Vec<String> {
        let object = self.object.value();
        let pod = request::pod_of(&object);
        let containers = ["/spec/containers", "/spec/initContainers"].into_iter().filter_map(|list| {
            let containers = pod.as_ref().unwrap_or(&object).pointer(list)?.as_array()?;
            Some(containers.iter().filter_map(|of| Some(of.get(field)?.as_str()?.to_owned())).collect::<Vec<_>>())
        });
        containers.flatten().collect()
    }
}

impl Entry {
    /// The reason why the API server rejects pods at present: as the condition of a Deployment or ReplicaSet tells, or for other
    /// kinds an Event, while pods are missing.
    pub fn rejection(&self) -> Option<String> {
        let object = self.object.value();
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array).map(Vec::as_slice);
        let is = |of: &Value, field: &str, value: &str| of.get(field).is_some_and(|is| is == value);
        let is_failure = |of: &&Value| is(of, "type", "ReplicaFailure") && is(of, "status", "True");
        match conditions.unwrap_or_default().iter().find(is_failure) {
            Some(failure) => failure.get("message")?.as_str().map(str::to_owned),
            None => self.rejected.as_ref().filter(|_| self.lacks_pods(&object)).map(|(_, message)| message.clone()),
        }
    }

    /// True if there are fewer pods than its object asks for, of the kinds that have no condition for that.
    fn lacks_pods(&self, object: &Value) -> bool {
        let number = |at: &str| object.pointer(at).and_then(Value::as_u64);
        let active = || object.pointer("/status/active").and_then(Value::as_array).map_or(0, |jobs| jobs.len() as u64);
        match self.key.kind.as_str() {
            "CronJob" => self.running.pods < active(),
            "StatefulSet" | "DaemonSet" | "Job" => running::counts(&ApiKind::of(object))
                .is_some_and(|[wanted, present]| number(present).unwrap_or(0) < number(wanted).unwrap_or(1)),
            _ => false,
        }
    }

    /// The node of a static pod, which the API server only mirrors.
    pub fn static_on(&self) -> Option<String> {
        let object = self.object.value();
        let annotations = object.pointer("/metadata/annotations");
        let is_mirror = annotations.is_some_and(|all| all.get("kubernetes.io/config.mirror").is_some());
        let owner = Owner::of(&object).filter(|owner| owner.kind == "Node").map(|owner| owner.name);
        let node = object.pointer("/spec/nodeName").and_then(Value::as_str).map(str::to_owned);
        (is_mirror || owner.is_some()).then(|| node.or(owner).unwrap_or_default())
    }
}

impl Inventory {
    /// Reads what runs in some namespaces, or for none in all; `advised` words what could not be read.
    pub fn read(
        cluster: &mut dyn ClusterReader,
        namespaces: &[Option<&str>],
        advised: impl Fn(ReadError) -> String,
    ) -> Result<Self, String> {
        let mut classifier = Classifier::default();
        let mut problems: Vec<String> = Vec::new();
        for namespace in namespaces {
            for (api_version, kind) in TEMPLATES {
                let add = &mut |object| classifier.add_template(kind, object);
                let mut read = cluster.visit((api_version, kind, *namespace), add);
                if kind == "CronJob" && read.as_ref().is_err_and(ReadError::is_unknown_kind) {
                    read = cluster.visit((CRON_JOBS_BEFORE_1_21, kind, *namespace), add);
                }
                // An old cluster has none of a kind that it does not know.
                problems.extend(read.err().filter(|error| !error.is_unknown_kind()).map(&advised));
            }
            let read = cluster.visit(("v1", "Pod", *namespace), &mut |object| classifier.add_pod(object));
            problems.extend(read.err().map(&advised));
        }
        if problems.len() >= (TEMPLATES.len() + 1) * namespaces.len() {
            return Err(problems.swap_remove(0));
        }
        let mut inventory = classifier.finish(cluster);
        inventory.is_partial = !problems.is_empty();
        inventory.notes.splice(0..0, problems);
        for namespace in namespaces {
            inventory.add_autoscalers(cluster, *namespace, &advised);
        }
        Ok(inventory)
    }

    /// Reads from Events whose pods are rejected: workloads without a condition say so by them alone. Others may write any number
    /// of Events, so a part is read.
    pub fn read_events(
        &mut self,
        cluster: &mut dyn ClusterReader,
        namespaces: &[Option<&str>],
        advised: impl Fn(ReadError) -> String,
    ) {
        for namespace in namespaces {
            let mut count = 0;
            let events = Events { namespace: *namespace, reason: EVENT_REASON, most: MAX_EVENTS };
            let read = cluster.visit_events(events, &mut |event| {
                count += 1;
                self.add_event(&event);
            });
            match read {
                Err(error) if !error.is_unknown_kind() => {
                    return self.notes.push(advised(error.context("pods that are blocked now may be missing")));
                }
                _ if count >= MAX_EVENTS => self.notes.push(format!(
                    "more than {MAX_EVENTS} Events tell of rejected pods, so workloads that are blocked now may be missing"
                )),
                _ => {}
            }
        }
    }

    pub fn add_event(&mut self, event: &Value) {
        let Some(RejectedPod { made_by, message, last }) = RejectedPod::of(event) else { return };
        let number = self.pods.numbers.get(&self.pods.owners.of(made_by));
        if let Some(entry) = number.and_then(|number| self.entries.get_mut(*number))
            && entry.rejected.as_ref().is_none_or(|(at, _)| *at <= last)
        {
            entry.rejected = Some((last, on_one_line(message, MAX_MESSAGE)));
        }
    }

    /// Adds the autoscalers of a namespace, or of all.
    pub fn add_autoscalers(
        &mut self,
        cluster: &mut dyn ClusterReader,
        namespace: Option<&str>,
        advised: impl Fn(ReadError) -> String,
    ) {
        match autoscaler::list(cluster, namespace) {
            Ok(autoscalers) => autoscalers.iter().for_each(|object| self.autoscalers.add(object)),
            Err(error) => {
                self.notes.push(advised(error.context("HorizontalPodAutoscalers are not looked at")));
                self.is_partial = true;
            }
        }
        match autoscaler::list_vertical(cluster, namespace) {
            Ok(autoscalers) => autoscalers.iter().for_each(|object| self.autoscalers.add(object)),
            Err(error) => self.notes.push(advised(error.context("VerticalPodAutoscalers are not looked at"))),
        }
    }

    /// Numbers the entries again after some were taken out or added.
    pub fn renumber(&mut self) {
        let numbered = self.entries.iter().enumerate();
        self.pods.numbers = numbered.map(|(number, entry)| (entry.key.clone(), number)).collect();
    }

    /// The namespaces of the entries, each once.
    pub fn namespaces(&self) -> Vec<String> {
        let mut namespaces: Vec<String> = self.entries.iter().map(|entry| entry.key.namespace.clone()).collect();
        namespaces.sort();
        namespaces.dedup();
        namespaces
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_objects::cluster_reader::{Folder, List, Overlay};
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

    fn inventory(objects: Vec<Value>) -> Inventory {
        let mut folder = Folder::default();
        objects.into_iter().for_each(|object| folder.put(object).unwrap());
        let mut around = Overlay::new(folder, None);
        Inventory::read(&mut around, &[Some("shop")], |error| error.to_string()).unwrap()
    }

    /// A cluster of Kubernetes 1.20.
    struct Old(Overlay);

    impl ClusterReader for Old {
        fn list(&mut self, list: List<'_>) -> Result<Vec<Value>, ReadError> {
            if list.0 == "batch/v1" && list.1 == "CronJob" {
                return Err(ReadError::UnknownKind { api_version: list.0.to_owned(), kind: list.1.to_owned() });
            }
            self.0.list(list)
        }
    }

    #[test]
    fn cron_jobs_of_old_clusters_are_found() {
        let mut folder = Folder::default();
        folder.put(owned("CronJob", "batch/v1beta1", "night", None, json!({}))).unwrap();
        let mut cluster = Old(Overlay::new(folder, None));
        let inventory = Inventory::read(&mut cluster, &[Some("shop")], |error| error.to_string()).unwrap();
        assert_eq!(inventory.entries.len(), 1, "{inventory:?}");
        assert_eq!(inventory.entries[0].api_version, "batch/v1beta1");
        assert!(!inventory.is_partial);
    }

    #[test]
    fn events_say_which_workloads_are_blocked_now() {
        let event = |kind: &str, name: &str, at: &str, message: &str| {
            json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("{name}{at}"), "namespace": "shop"},
                "reason": "FailedCreate", "involvedObject": {"kind": kind, "name": name},
                "lastTimestamp": format!("2026-11-25T09:{at}:00Z"), "message": message})
        };
        let status = |wanted: u64, present: u64| {
            json!({"spec": {"replicas": wanted, "parallelism": wanted}, "status": {"replicas": present,
                "active": present, "currentNumberScheduled": present, "desiredNumberScheduled": wanted}})
        };
        let job = Some(("batch/v1", "CronJob", "night"));
        let over = |quota: &str| format!("Error creating: pods \"x\" is forbidden: exceeded quota: {quota}");
        let mut found = inventory(vec![
            owned("StatefulSet", "apps/v1", "db", None, status(2, 1)),
            owned("StatefulSet", "apps/v1", "done", None, status(2, 2)),
            owned("StatefulSet", "apps/v1", "other", None, status(2, 1)),
            owned("DaemonSet", "apps/v1", "agent", None, status(3, 0)),
            owned("Job", "batch/v1", "once", None, status(1, 0)),
            owned("CronJob", "batch/v1", "night", None, json!({"status": {"active": [{"name": "night-1"}]}})),
            owned("Job", "batch/v1", "night-1", job, status(1, 0)),
        ]);
        let mut events = Folder::default();
        for event in [
            event("StatefulSet", "db", "20", &over("late")),
            event("StatefulSet", "db", "10", &over("early")),
            event("StatefulSet", "done", "10", &over("team")),
            event("StatefulSet", "other", "10", "Error creating: context deadline exceeded"),
            event("DaemonSet", "agent", "10", &over("team")),
            event("Job", "once", "10", &over("team")),
            event("Job", "night-1", "10", &over("team")),
        ] {
            events.put(event).unwrap();
        }
        found.read_events(&mut Overlay::new(events, None), &[Some("shop")], |error| error.to_string());
        let blocked: Vec<String> =
            found.entries.iter().filter_map(|of| Some(format!("{} {}", of.key, of.rejection()?))).collect();
        let expected = ["statefulset/db late", "daemonset/agent team", "cronjob/night team", "job/once team"];
        let expected =
            expected.map(|of| of.split_once(' ').map(|(of, quota)| format!("{of} {}", over(quota))).unwrap());
        assert_eq!(blocked, expected);
    }

    #[test]
    fn every_kind_is_found_once_and_the_chain_of_owners_is_followed_to_its_top() {
        let scaled = |replicas: u64| json!({"spec": {"replicas": replicas}});
        let status = |restarts: u64, reason: &str| {
            json!({"status": {"phase": "Running", "containerStatuses": [{"name": "a", "restartCount": restarts,
                "lastState": {"terminated": {"reason": reason}}}]}})
        };
        let inventory = inventory(vec![
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
        let entries: Vec<String> = inventory
            .entries
            .iter()
            .map(|Entry { key, through, managed_by, running, .. }| {
                format!("{key} {through:?} {managed_by:?} {}", running.pods)
            })
            .collect();
        assert_eq!(
            entries,
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
        let web = &inventory.entries[1].running;
        assert_eq!((web.restarts.get("a"), web.killed.get("a")), (Some(&3), Some(&1)));
        assert_eq!(
            inventory.notes,
            [
                "1 finished pod or Job skipped",
                "1 workload is scaled to 0; its recommendation saves nothing until it runs",
            ]
        );
    }
}
