//! The kinds that create pods: where each has its pod template, and how it creates pods.
//!
//! To support another kind, add a row here.

#[derive(Debug, PartialEq, Eq)]
pub struct PodKind {
    groups: &'static [&'static str],
    /// The plural name.
    pub resource: &'static str,
    /// The `apiVersion` of the kind's objects, in the version that all supported clusters serve.
    pub api_version: &'static str,
    pub kind: &'static str,
    /// The path from the object to the pod in it.
    pub path: &'static [&'static str],
    pub growth: Growth,
}

/// The rule for how many pods an object of a kind creates, and how a change replaces existing pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// The object is the pod.
    Pod,
    /// `spec.replicas`, replaced by a rolling update or all at once.
    Deployment,
    /// `spec.replicas`, replaced one by one.
    StatefulSet,
    /// `spec.replicas`, never replaced.
    ReplicaSet,
    /// One pod per node.
    DaemonSet,
    /// `spec.parallelism`
    Job,
    /// The pods of the jobs that it starts.
    CronJob,
}

const APPS: &[&str] = &["apps", "extensions"];
const TEMPLATE: &[&str] = &["spec", "template"];
const OF_CRON_JOB: &[&str] = &["spec", "jobTemplate", "spec", "template"];

// The path to the pod is the same in every served version of a kind.
pub const POD: PodKind = kind(&[""], "pods", ["v1", "Pod"], &[], Growth::Pod);
pub const DEPLOYMENT: PodKind = kind(APPS, "deployments", ["apps/v1", "Deployment"], TEMPLATE, Growth::Deployment);
pub const STATEFUL_SET: PodKind =
    kind(&["apps"], "statefulsets", ["apps/v1", "StatefulSet"], TEMPLATE, Growth::StatefulSet);
pub const DAEMON_SET: PodKind = kind(APPS, "daemonsets", ["apps/v1", "DaemonSet"], TEMPLATE, Growth::DaemonSet);
pub const REPLICATION_CONTROLLER: PodKind =
    kind(&[""], "replicationcontrollers", ["v1", "ReplicationController"], TEMPLATE, Growth::ReplicaSet);
pub const CRON_JOB: PodKind = kind(&["batch"], "cronjobs", ["batch/v1", "CronJob"], OF_CRON_JOB, Growth::CronJob);
pub const REPLICA_SET: PodKind = kind(APPS, "replicasets", ["apps/v1", "ReplicaSet"], TEMPLATE, Growth::ReplicaSet);
pub const JOB: PodKind = kind(&["batch"], "jobs", ["batch/v1", "Job"], TEMPLATE, Growth::Job);

/// Pods, and the kinds that create them: first those that people write, then those that others create first.
pub static POD_KINDS: [PodKind; 8] =
    [POD, DEPLOYMENT, STATEFUL_SET, DAEMON_SET, REPLICATION_CONTROLLER, CRON_JOB, REPLICA_SET, JOB];

const fn kind(
    groups: &'static [&'static str],
    resource: &'static str,
    [api_version, kind]: [&'static str; 2],
    path: &'static [&'static str],
    growth: Growth,
) -> PodKind {
    PodKind { groups, resource, api_version, kind, path, growth }
}

impl PodKind {
    /// The kind of a resource; none if it creates no pods.
    pub fn of(group: &str, resource: &str) -> Option<&'static Self> {
        let kind = POD_KINDS.iter().find(|kind| kind.resource == resource);
        kind.filter(|kind| kind.groups.contains(&group))
    }

    /// The kind of this name; none if it is not Kubernetes' own, or creates no pods.
    pub fn named(name: &str) -> Option<&'static Self> {
        POD_KINDS.iter().find(|kind| kind.kind == name)
    }

    /// True if the kind has the subresource `scale`.
    pub fn is_scalable(&self) -> bool {
        matches!(self.growth, Growth::Deployment | Growth::StatefulSet | Growth::ReplicaSet)
    }
}
