//! The workloads of a cluster, the chain of their owners, their pods, and who scales them.
//!
//! Kubernetes' own kinds are kept whole, because their templates are evaluated; of pods, and of ReplicaSets and Jobs that
//! something makes, only a few facts are kept, so that a large cluster fits into little memory.

mod newest_pod;

mod classify;

use std::collections::{BTreeMap, BTreeSet};

use headroom_admission::timestamp::Timestamp;
use headroom_objects::manifest::Origin;
use serde_json::Value;

use self::classify::Classifier;
pub use self::newest_pod::{as_it_runs, set_by};
use crate::autoscaler::Autoscalers;
use crate::kinds::{self, CRON_JOB, Growth, POD, POD_KINDS, PodKind};
use crate::owner::{Owner, PodOwners, WorkloadRef};
use crate::pod::pod_of;
use crate::refusal::{PodRefusal, events_of};
use headroom_objects::cluster_reader::{ClusterReader, CompressedObject, ReadError};
use headroom_objects::kinds::{ApiKind, items, metadata, number, text};

/// A workload whose containers get recommendations.
#[derive(Debug, Clone)]
pub struct WorkloadEntry {
    pub key: WorkloadRef,
    pub api_version: String,
    /// The object with the containers: the workload itself, or what it owns where its own kind is not known here.
    pub object: CompressedObject,
    /// The name of that object, if it is not the workload itself: `replicaset/web-5d8f`.
    pub through: Option<String>,
    /// The object at the top of the owners above the workload: `kafka/events`. Until all is read, that right above it.
    pub managed_by: Option<Owner>,
    pub running: RunningPods,
    /// The newest of its pods that have not ended.
    pub newest: Option<CompressedObject>,
    /// The refusals of its pods for the last reason that Events tell of.
    pub refused: Option<PodRefusal>,
    /// The place in a manifest that the object was read from.
    pub origin: Option<Origin>,
    /// True if the cluster has it, so that its pods are counted in the quotas.
    pub exists: bool,
}

/// The state of the pods of a workload, counted over them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunningPods {
    /// Pods that have not ended.
    pub pods: u64,
    /// By container.
    pub restarts: BTreeMap<String, u64>,
    /// Containers whose last termination was an out-of-memory kill.
    pub killed: BTreeMap<String, u64>,
    /// Containers that wait to be started again because they ended again and again.
    pub crash_loops: BTreeMap<String, u64>,
    /// The names of those that were started, with the time in Unix seconds.
    pub since: Vec<(String, i64)>,
    /// Those that have not been ready since they were started.
    pub never_ready: u64,
    /// The Jobs of a CronJob that ended, and those of them that failed.
    pub runs: u64,
    pub failed_runs: u64,
    /// The least of their priorities.
    pub priority: Option<i64>,
}

/// The workloads to recommend for.
#[derive(Debug, Default)]
pub struct Inventory {
    pub entries: Vec<WorkloadEntry>,
    /// Those of them that were not asked for, and may be peers of others.
    pub peers: BTreeSet<WorkloadRef>,
    pub pods: PodOwners,
    pub autoscalers: Autoscalers,
    pub notes: Vec<String>,
    /// True if some kinds could not be read, as the notes say.
    pub is_partial: bool,
}

/// The Events that are read of a namespace, or of all together.
const MAX_EVENTS: usize = 10_000;
/// If there are more, most may be of one namespace. Then so many are read in each of so many namespaces.
const EVENTS_OF_EACH: usize = 500;
const MAX_NAMESPACES: usize = 1_000;

/// Kubernetes 1.20 serves CronJobs under this version only.
const CRON_JOBS_BEFORE_1_21: &str = "batch/v1beta1";

impl WorkloadEntry {
    /// An object that is in the cluster.
    pub fn of_cluster(object: &Value) -> Self {
        Self {
            key: WorkloadRef::of(object),
            api_version: ApiKind::of(object).api_version(),
            object: CompressedObject::from(object),
            through: None,
            managed_by: None,
            running: RunningPods::default(),
            newest: None,
            refused: None,
            origin: None,
            exists: true,
        }
    }

    /// The images of its containers, as far as the place of its template is known.
    pub fn images(&self) -> Vec<String> {
        images_of(&self.object.value())
    }

    /// True for the patch of a kustomization, which has containers and leaves their images to what it patches.
    pub fn is_patch(&self) -> bool {
        self.images().is_empty() && !self.containers().is_empty()
    }

    /// The names of its containers, likewise.
    pub fn containers(&self) -> Vec<String> {
        of_containers(&self.object.value(), "name")
    }

    /// The reason why the API server refuses pods at present, by the object of the entry.
    pub fn refusal(&self, object: &Value) -> Option<String> {
        self.refusals(object).into_iter().find(|(_, is_now)| *is_now).map(|(refusal, _)| refusal.message)
    }

    /// The refusals of its pods, with true for those at present: as the condition of a Deployment or ReplicaSet tells, or for
    /// other kinds an Event, while pods are missing.
    pub fn refusals(&self, object: &Value) -> Vec<(PodRefusal, bool)> {
        let condition = PodRefusal::of_condition(object);
        let is_now = condition.is_none() && self.lacks_pods(object);
        let of_events = self.refused.clone().map(|refusal| (refusal, is_now));
        condition.map(|refusal| (refusal, true)).into_iter().chain(of_events).collect()
    }

    /// True if there are fewer pods than its object asks for, of the kinds that have no condition for that.
    fn lacks_pods(&self, object: &Value) -> bool {
        match PodKind::named(&self.key.kind).map(|kind| kind.growth) {
            Some(Growth::CronJob) => self.running.pods < items(object, "/status/active").count() as u64,
            Some(Growth::StatefulSet | Growth::DaemonSet | Growth::Job) => kinds::counts(&ApiKind::of(object))
                .is_some_and(|[wanted, present]| {
                    number(object, present).unwrap_or(0) < number(object, wanted).unwrap_or(1)
                }),
            _ => false,
        }
    }

    /// The node of a static pod, which the API server only mirrors.
    pub fn static_on(object: &Value) -> Option<String> {
        let is_mirror = object.pointer("/metadata/annotations/kubernetes.io~1config.mirror").is_some();
        let owner = Owner::of(object).filter(|owner| owner.kind == "Node").map(|owner| owner.name);
        let node = object.pointer("/spec/nodeName").and_then(Value::as_str).map(str::to_owned);
        (is_mirror || owner.is_some()).then(|| node.or(owner).unwrap_or_default())
    }
}

/// A field of each container of an object's pods.
fn of_containers(object: &Value, field: &str) -> Vec<String> {
    let pod = pod_of(object);
    let lists = ["/spec/containers", "/spec/initContainers"].into_iter();
    let containers = lists.flat_map(|list| items(pod.as_ref().unwrap_or(object), list));
    containers.filter_map(|of| Some(of.get(field)?.as_str()?.to_owned())).collect()
}

pub fn images_of(object: &Value) -> Vec<String> {
    of_containers(object, "image")
}

impl RunningPods {
    /// The facts of one pod that has not ended.
    pub fn of_pod(pod: &Value) -> Self {
        let priority = pod.pointer("/spec/priority").and_then(Value::as_i64);
        let started = text(pod, "/status/startTime").parse::<Timestamp>().ok();
        let started = started.filter(|_| text(pod, "/status/phase") == "Running");
        let since = started.map(|at| (metadata(pod, "name").to_owned(), at.unix_seconds())).into_iter().collect();
        let is_unready = |of: &&Value| text(of, "/type") == "Ready" && text(of, "/status") == "False";
        let unready = items(pod, "/status/conditions").find(is_unready);
        let unready = unready.and_then(|of| text(of, "/lastTransitionTime").parse::<Timestamp>().ok());
        let is_never_ready =
            started.zip(unready).is_some_and(|(at, then)| then.unix_seconds() - at.unix_seconds() < 60);
        let never_ready = is_never_ready.into();
        let mut running = Self { pods: 1, since, never_ready, priority, ..Self::default() };
        for list in ["/status/containerStatuses", "/status/initContainerStatuses"] {
            for status in items(pod, list) {
                let name = || text(status, "/name").to_owned();
                let restarts = number(status, "/restartCount").unwrap_or(0);
                if restarts > 0 {
                    running.restarts.insert(name(), restarts);
                }
                let ends = ["/lastState/terminated/reason", "/state/terminated/reason"].map(|at| text(status, at));
                if ends.contains(&"OOMKilled") {
                    running.killed.insert(name(), 1);
                }
                if text(status, "/state/waiting/reason") == "CrashLoopBackOff" {
                    running.crash_loops.insert(name(), 1);
                }
            }
        }
        running
    }

    /// The end of a Job that a CronJob made.
    pub fn of_job(job: &Value) -> Self {
        let is_true = |of: &Value, kind: &str| text(of, "/type") == kind && text(of, "/status") == "True";
        let is = |kind| items(job, "/status/conditions").any(|of| is_true(of, kind));
        let (failed, complete) = (is("Failed"), is("Complete"));
        Self { runs: (failed || complete).into(), failed_runs: failed.into(), ..Self::default() }
    }

    pub fn add(&mut self, other: Self) {
        self.pods += other.pods;
        self.never_ready += other.never_ready;
        self.runs += other.runs;
        self.failed_runs += other.failed_runs;
        self.since.extend(other.since);
        self.priority = self.priority.into_iter().chain(other.priority).min();
        let add = |to: &mut BTreeMap<String, u64>, of: BTreeMap<String, u64>| {
            of.into_iter().for_each(|(name, count)| *to.entry(name).or_default() += count);
        };
        add(&mut self.restarts, other.restarts);
        add(&mut self.killed, other.killed);
        add(&mut self.crash_loops, other.crash_loops);
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
            for kind in kinds::makers() {
                let add = &mut |object| classifier.add_template(object);
                let mut read = cluster.visit(kinds::list(kind, *namespace), add);
                if *kind == CRON_JOB && read.as_ref().is_err_and(ReadError::is_unknown_kind) {
                    read = cluster.visit((CRON_JOBS_BEFORE_1_21, kind.kind, *namespace), add);
                }
                // An old cluster has none of a kind that it does not know.
                problems.extend(read.err().filter(|error| !error.is_unknown_kind()).map(&advised));
            }
            let read = cluster.visit(kinds::list(&POD, *namespace), &mut |object| classifier.add_pod(object));
            problems.extend(read.err().map(&advised));
        }
        if problems.len() >= POD_KINDS.len() * namespaces.len() {
            return Err(problems.swap_remove(0));
        }
        let mut inventory = classifier.finish(cluster);
        inventory.is_partial = !problems.is_empty();
        inventory.notes.splice(0..0, problems);
        for namespace in namespaces {
            inventory.add_autoscalers(cluster, *namespace, &advised);
        }
        inventory.add_autoscalers_of_owners();
        Ok(inventory)
    }

    /// Reads from Events whose pods are rejected: workloads without a condition say so by them alone. Others may write any number
    /// of Events, so a part is read, which one namespace cannot fill; true if there are more.
    pub fn read_events(
        &mut self,
        cluster: &mut dyn ClusterReader,
        namespaces: &[Option<&str>],
        advised: impl Fn(ReadError) -> String,
    ) -> Result<bool, String> {
        let read = match self.add_events(cluster, namespaces, MAX_EVENTS) {
            Ok(true) if namespaces.contains(&None) => {
                self.entries.iter_mut().for_each(|entry| entry.refused = None);
                let all = self.namespaces();
                let each: Vec<_> = all.iter().take(MAX_NAMESPACES).map(|name| Some(name.as_str())).collect();
                let is_cut = self.add_events(cluster, &each, EVENTS_OF_EACH);
                is_cut.map(|is_cut| is_cut || all.len() > MAX_NAMESPACES)
            }
            read => read,
        };
        match read {
            Err(error) if error.is_unknown_kind() => Ok(false),
            read => read.map_err(advised),
        }
    }

    /// Reads at most so many Events of each namespace; true if there are more in one.
    fn add_events(
        &mut self,
        cluster: &mut dyn ClusterReader,
        namespaces: &[Option<&str>],
        most: usize,
    ) -> Result<bool, ReadError> {
        let mut is_cut = false;
        for namespace in namespaces {
            let mut count = 0;
            cluster.visit_events(events_of(*namespace, most), &mut |event| {
                count += 1;
                let decision = PodRefusal::of_event(&event).filter(|(_, refusal)| refusal.is_a_decision());
                let Some((made_by, refusal)) = decision else { return };
                let Some(entry) = self.entry_of(made_by) else { return };
                match &mut entry.refused {
                    Some(before) => before.add(refusal),
                    none => *none = Some(refusal),
                }
            })?;
            is_cut |= count >= most;
        }
        Ok(is_cut)
    }

    /// The workload that the pods of an object are counted under.
    fn entry_of(&mut self, maker: WorkloadRef) -> Option<&mut WorkloadEntry> {
        let number = self.pods.numbers.get(&self.pods.owners.of(maker))?;
        self.entries.get_mut(*number)
    }

    /// Adds the autoscalers of a namespace, or of all.
    pub fn add_autoscalers(
        &mut self,
        cluster: &mut dyn ClusterReader,
        namespace: Option<&str>,
        advised: impl Fn(ReadError) -> String,
    ) {
        if let Err(error) = self.autoscalers.add_horizontal(cluster, namespace) {
            self.notes.push(advised(error.context("HorizontalPodAutoscalers are not looked at")));
            self.is_partial = true;
        }
        if let Err(error) = self.autoscalers.add_vertical(cluster, namespace) {
            self.notes.push(advised(error.context("VerticalPodAutoscalers are not looked at")));
        }
    }

    /// Adds to each workload those of what makes it, and of what is at the top of its owners.
    pub fn add_autoscalers_of_owners(&mut self) {
        for WorkloadEntry { key, managed_by, .. } in &self.entries {
            let top = managed_by.as_ref().map(|owner| owner.within(&key.namespace));
            let owners: BTreeSet<_> = self.pods.owners.maker(key).into_iter().chain(top).collect();
            owners.iter().filter(|owner| *owner != key).for_each(|owner| self.autoscalers.add_of_owner(key, owner));
        }
    }

    /// Numbers the entries again after some were taken out or added.
    pub fn renumber(&mut self) {
        let numbered = self.entries.iter().enumerate();
        self.pods.numbers = numbered.map(|(number, entry)| (entry.key.clone(), number)).collect();
    }

    /// Keeps some workloads, and beside them those that have the same containers in the same namespace.
    pub fn keep(&mut self, wanted: Vec<WorkloadEntry>) {
        let runs = |of: &WorkloadEntry| (of.key.namespace.clone(), of.containers());
        let keys: BTreeSet<WorkloadRef> = wanted.iter().map(|of| of.key.clone()).collect();
        let programs: BTreeSet<_> = wanted.iter().map(runs).collect();
        self.entries.retain(|of| !keys.contains(&of.key) && programs.contains(&runs(of)));
        self.peers = self.entries.iter().map(|of| of.key.clone()).collect();
        self.entries.splice(0..0, wanted);
    }

    pub fn namespaces(&self) -> Vec<String> {
        let namespaces: BTreeSet<&String> = self.entries.iter().map(|entry| &entry.key.namespace).collect();
        namespaces.into_iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_objects::cluster_reader::{Events, Folder, List};
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
        Inventory::read(&mut Folder::with(objects).unwrap(), &[Some("shop")], |error| error.to_string()).unwrap()
    }

    /// A cluster of Kubernetes 1.20.
    struct Old(Folder);

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
        let mut cluster = Old(Folder::with([owned("CronJob", "batch/v1beta1", "night", None, json!({}))]).unwrap());
        let inventory = Inventory::read(&mut cluster, &[Some("shop")], |error| error.to_string()).unwrap();
        assert_eq!(inventory.entries.len(), 1, "{inventory:?}");
        assert_eq!(inventory.entries[0].api_version, "batch/v1beta1");
        assert!(!inventory.is_partial);
    }

    /// A cluster that refuses to show an object whose name somebody made up.
    struct Refusing(Folder);

    impl ClusterReader for Refusing {
        fn list(&mut self, list: List<'_>) -> Result<Vec<Value>, ReadError> {
            self.0.list(list)
        }

        fn get(&mut self, list: List<'_>, name: &str) -> Result<Option<Value>, ReadError> {
            if name == "a" { Err(ReadError::Failed("refused".to_owned())) } else { self.0.get(list, name) }
        }
    }

    #[test]
    fn a_made_up_owner_hides_the_owners_of_no_other_workload() {
        let (api, kind) = ("argoproj.io/v1alpha1", "Rollout");
        let mut elsewhere = owned("Pod", "v1", "x", Some((api, kind, "a")), json!({}));
        elsewhere["metadata"]["namespace"] = json!("else");
        let objects = [
            elsewhere,
            owned("Pod", "v1", "x", Some((api, kind, "a")), json!({})),
            owned("Deployment", "apps/v1", "x", Some(("argoproj.io/v9", kind, "web")), json!({})),
            owned("ReplicaSet", "apps/v1", "web-1", Some((api, kind, "web")), json!({})),
            owned(kind, api, "web", Some(("example.com/v1", "Shop", "big")), json!({})),
        ];
        let mut cluster = Refusing(Folder::with(objects).unwrap());
        let inventory = Inventory::read(&mut cluster, &[None], |error| error.to_string()).unwrap();
        let web = inventory.entries.iter().find(|of| of.key == WorkloadRef::new("shop", kind, "web")).unwrap();
        assert_eq!(web.managed_by.as_ref().map(|of| of.within("").to_string()).as_deref(), Some("shop/big"));
        assert_eq!(inventory.notes, ["owners of rollout/a are not known: refused"; 2], "one of each namespace");
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
        let events = [
            event("StatefulSet", "db", "20", &over("late")),
            event("StatefulSet", "db", "10", &over("early")),
            event("StatefulSet", "done", "10", &over("team")),
            event("StatefulSet", "other", "10", "Error creating: context deadline exceeded"),
            event("DaemonSet", "agent", "10", &over("team")),
            event("Job", "once", "10", &over("team")),
            event("Job", "night-1", "10", &over("team")),
        ];
        let read = found.read_events(&mut Folder::with(events).unwrap(), &[Some("shop")], |error| error.to_string());
        assert_eq!(read, Ok(false));
        let blocked: Vec<String> = found
            .entries
            .iter()
            .filter_map(|of| Some(format!("{} {}", of.key, of.refusal(&of.object.value())?)))
            .collect();
        let expected = ["statefulset/db late", "daemonset/agent team", "cronjob/night team", "job/once team"];
        let expected =
            expected.map(|of| of.split_once(' ').map(|(of, quota)| format!("{of} {}", over(quota))).unwrap());
        assert_eq!(blocked, expected);
    }

    /// A cluster in which the namespace `evil` has any number of Events, which the API server lists before those of `shop`.
    struct Flooded;

    impl ClusterReader for Flooded {
        fn list(&mut self, _: List<'_>) -> Result<Vec<Value>, ReadError> {
            Ok(Vec::new())
        }

        fn visit_events(&mut self, events: Events<'_>, each: &mut dyn FnMut(Value)) -> Result<(), ReadError> {
            let of = events.namespace.unwrap_or("evil");
            let event = |index: usize| {
                json!({"metadata": {"namespace": of}, "involvedObject": {"kind": "Job", "name": "a"},
                    "message": format!("pods \"a\" is forbidden: {index}")})
            };
            (0..if of == "evil" { events.most } else { 1 }).map(event).for_each(each);
            Ok(())
        }
    }

    #[test]
    fn a_namespace_with_more_events_than_are_read_hides_no_other() {
        let jobs = ["evil", "shop"].map(|namespace| {
            let mut job = owned("Job", "batch/v1", "a", None, json!({}));
            job["metadata"]["namespace"] = json!(namespace);
            job
        });
        let mut folder = Folder::with(jobs).unwrap();
        let mut found = Inventory::read(&mut folder, &[None], |error| error.to_string()).unwrap();
        assert_eq!(found.read_events(&mut Flooded, &[None], |error| error.to_string()), Ok(true));
        assert!(found.entries.iter().all(|entry| entry.refused.is_some()), "{found:?}");
    }

    #[test]
    fn every_kind_is_found_once_and_the_chain_of_owners_is_followed_to_its_top() {
        let scaled = |replicas: u64| json!({"spec": {"replicas": replicas}});
        let status = |restarts: u64, reason: &str| {
            let unready = json!([{"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-21T00:00:05Z"}]);
            json!({"status": {"phase": "Running", "containerStatuses": [{"name": "a", "restartCount": restarts,
                "lastState": {"terminated": {"reason": reason}}}], "conditions": unready,
                "startTime": if restarts > 1 { "2026-11-21T00:00:00Z" } else { "" }}})
        };
        let [node_pool, kafka] =
            [("NodePool", "events"), ("Kafka", "all")].map(|(kind, name)| Some(("kafka.example.com/v1", kind, name)));
        let failed = json!({"status": {"conditions": [{"type": "Failed", "status": "True"}]}});
        let inventory = inventory(vec![
            owned("Deployment", "apps/v1", "web", None, scaled(2)),
            owned("ReplicaSet", "apps/v1", "web-1", Some(("apps/v1", "Deployment", "web")), scaled(2)),
            owned("Pod", "v1", "web-1-a", Some(("apps/v1", "ReplicaSet", "web-1")), status(2, "OOMKilled")),
            owned("Pod", "v1", "web-1-b", Some(("apps/v1", "ReplicaSet", "web-1")), status(1, "Error")),
            owned("ReplicaSet", "apps/v1", "canary-1", Some(("argoproj.io/v1alpha1", "Rollout", "canary")), scaled(0)),
            owned("ReplicaSet", "apps/v1", "canary-2", Some(("argoproj.io/v1alpha1", "Rollout", "canary")), scaled(1)),
            owned("Pod", "v1", "canary-2-a", Some(("apps/v1", "ReplicaSet", "canary-2")), json!({})),
            owned("StatefulSet", "apps/v1", "events", node_pool, scaled(1)),
            owned("NodePool", "kafka.example.com/v1", "events", kafka, json!({})),
            owned("Pod", "v1", "set-0", Some(("example.com/v1", "PodSet", "set")), json!({})),
            owned("CronJob", "batch/v1", "night", None, json!({})),
            owned("Job", "batch/v1", "night-1", Some(("batch/v1", "CronJob", "night")), failed),
            owned("Job", "batch/v1", "once", None, json!({"status": {"completionTime": "2026-11-21T00:00:00Z"}})),
            owned("Pod", "v1", "debug", None, json!({})),
            owned("Pod", "v1", "proxy-node1", Some(("v1", "Node", "node1")), json!({})),
            owned("Deployment", "apps/v1", "off", None, scaled(0)),
            owned("Pod", "v1", "exec-1", Some(("v1", "Pod", "debug")), json!({})),
            owned("Job", "batch/v1", "side", Some(("v1", "Pod", "debug")), json!({})),
            owned("StatefulSet", "apps/v1", "llm-0", Some(("v1", "Pod", "set-0")), scaled(1)),
            owned("Pod", "v1", "llm-0-1", Some(("apps/v1", "StatefulSet", "llm-0")), json!({})),
        ]);
        let entries: Vec<String> = inventory
            .entries
            .iter()
            .map(|WorkloadEntry { key, through, managed_by, running, .. }| {
                let above = managed_by.as_ref().map(|of| of.within("").to_string());
                format!("{key} {through:?} {above:?} {}", running.pods)
            })
            .collect();
        assert_eq!(
            entries,
            [
                "deployment/off None None 0",
                "deployment/web None None 2",
                r#"statefulset/events None Some("kafka/all") 0"#,
                r#"statefulset/llm-0 None Some("podset/set") 1"#,
                "cronjob/night None None 0",
                r#"job/side None Some("pod/debug") 0"#,
                "pod/debug None None 1",
                r#"pod/exec-1 None Some("pod/debug") 1"#,
                "pod/proxy-node1 None None 1",
                r#"podset/set Some("pod/set-0") None 1"#,
                r#"rollout/canary Some("replicaset/canary-2") None 1"#,
            ]
        );
        let web = &inventory.entries[1].running;
        assert_eq!((web.restarts.get("a"), web.killed.get("a")), (Some(&3), Some(&1)));
        assert_eq!((web.since.len(), web.never_ready), (1, 1));
        let night = &inventory.entries[4].running;
        assert_eq!((night.runs, night.failed_runs), (1, 1));
        assert_eq!(
            inventory.notes,
            [
                "1 finished pod or Job skipped",
                "1 workload is scaled to 0; its recommendation saves nothing until it runs",
            ]
        );
    }
}
