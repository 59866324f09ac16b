//! The kinds that make pods: where each keeps its pod, and how it brings pods into being.
//!
//! To teach the policy a kind, add a row here.

/// A kind that is or makes pods.
#[derive(Debug, PartialEq, Eq)]
pub struct PodKind {
    groups: &'static [&'static str],
    /// The plural name.
    pub resource: &'static str,
    /// As objects of the kind name themselves, in the version that all supported clusters serve.
    pub api_version: &'static str,
    pub kind: &'static str,
    /// From the object to the pod in it.
    pub path: &'static [&'static str],
    pub growth: Growth,
}

/// How many pods an object of a kind brings, and how a change replaces those that are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// It is the pod.
    Pod,
    /// `spec.replicas`, replaced by a rolling update or all at once.
    Deployment,
    /// `spec.replicas`, replaced one by one.
    StatefulSet,
    /// `spec.replicas`, never replaced.
    ReplicaSet,
    /// One a node.
    DaemonSet,
    /// `spec.parallelism`
    Job,
    /// Those of the job that it starts.
    CronJob,
}

const TEMPLATE: &[&str] = &["spec", "template"];

/// Any served version of a kind keeps its pod in the same place, so versions do not matter for that.
static POD_KINDS: [PodKind; 8] = [
    kind(&[""], "pods", ["v1", "Pod"], &[], Growth::Pod),
    kind(&["apps", "extensions"], "deployments", ["apps/v1", "Deployment"], TEMPLATE, Growth::Deployment),
    kind(&["apps", "extensions"], "replicasets", ["apps/v1", "ReplicaSet"], TEMPLATE, Growth::ReplicaSet),
    kind(&["apps", "extensions"], "daemonsets", ["apps/v1", "DaemonSet"], TEMPLATE, Growth::DaemonSet),
    kind(&["apps"], "statefulsets", ["apps/v1", "StatefulSet"], TEMPLATE, Growth::StatefulSet),
    kind(&["batch"], "jobs", ["batch/v1", "Job"], TEMPLATE, Growth::Job),
    kind(
        &["batch"],
        "cronjobs",
        ["batch/v1", "CronJob"],
        &["spec", "jobTemplate", "spec", "template"],
        Growth::CronJob,
    ),
    kind(&[""], "replicationcontrollers", ["v1", "ReplicationController"], TEMPLATE, Growth::ReplicaSet),
];

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
    /// The kind of a resource; none if it makes no pods.
    pub fn of(group: &str, resource: &str) -> Option<&'static Self> {
        let kind = POD_KINDS.iter().find(|kind| kind.resource == resource);
        kind.filter(|kind| kind.groups.contains(&group))
    }

    /// Whether the kind has the subresource `scale`.
    pub fn is_scalable(&self) -> bool {
        matches!(self.growth, Growth::Deployment | Growth::StatefulSet | Growth::ReplicaSet)
    }
}
