//! Kubernetes' own kinds that create pods, as objects are read by them. The table of these kinds is the core's.

pub use headroom_admission::request::kinds::{
    CRON_JOB, DAEMON_SET, DEPLOYMENT, Growth, JOB, POD, POD_KINDS, PodKind, REPLICA_SET, REPLICATION_CONTROLLER,
    STATEFUL_SET,
};
use headroom_objects::cluster_reader::{List, ReadError};
use headroom_objects::kinds::ApiKind;
use serde_json::Value;

pub fn makers() -> impl Iterator<Item = &'static PodKind> {
    POD_KINDS.iter().filter(|kind| kind.growth != Growth::Pod)
}

/// The kind of an object; none if it is not Kubernetes' own, or has no pods.
pub fn of(object: &Value) -> Option<&'static PodKind> {
    of_api(&ApiKind::of(object))
}

pub fn of_api(kind: &ApiKind) -> Option<&'static PodKind> {
    PodKind::of(&kind.group, &kind.plural)
}

pub fn list<'n>(kind: &PodKind, namespace: Option<&'n str>) -> List<'n> {
    (kind.api_version, kind.kind, namespace)
}

/// The objects of a kind; none if the cluster does not serve it.
pub fn served(listed: Result<Vec<Value>, ReadError>) -> Result<Option<Vec<Value>>, ReadError> {
    match listed {
        Err(error) if error.is_unknown_kind() => Ok(None),
        listed => listed.map(Some),
    }
}

/// The kind that a word of kubectl means: `deploy`, `deployment` or `deployments`.
pub fn named_by(word: &str) -> Option<&'static PodKind> {
    POD_KINDS.iter().find(|kind| {
        let short = match kind.resource {
            "pods" => "po",
            "deployments" => "deploy",
            "statefulsets" => "sts",
            "daemonsets" => "ds",
            "replicationcontrollers" => "rc",
            "cronjobs" => "cj",
            "replicasets" => "rs",
            _ => "",
        };
        !word.is_empty() && (word == short || word == kind.resource || word == kind.kind.to_lowercase())
    })
}

/// True for a kind that Kubernetes creates for each revision or run of another.
pub fn comes_and_goes(kind: &str) -> bool {
    [REPLICA_SET.kind, REPLICATION_CONTROLLER.kind, JOB.kind].contains(&kind)
}

/// True if pods of a kind run to their end.
pub fn runs_once(kind: &str) -> bool {
    [CRON_JOB.kind, JOB.kind].contains(&kind)
}

/// The place of the pod in an object.
pub fn pod_at(kind: &PodKind) -> String {
    kind.path.iter().map(|part| format!("/{part}")).collect()
}

/// The places of the number of pods that a workload is to have, and of those that it has.
pub fn counts(kind: &ApiKind) -> Option<[&'static str; 2]> {
    match of_api(kind)?.growth {
        Growth::Deployment | Growth::StatefulSet | Growth::ReplicaSet => Some(["/spec/replicas", "/status/replicas"]),
        Growth::DaemonSet => Some(["/status/desiredNumberScheduled", "/status/currentNumberScheduled"]),
        Growth::Job => Some(["/spec/parallelism", "/status/active"]),
        Growth::Pod | Growth::CronJob => None,
    }
}

/// The place of the number of pods with the template of now, of kinds that replace pods.
pub fn updated_count(kind: &ApiKind) -> Option<&'static str> {
    match of_api(kind)?.growth {
        Growth::Deployment | Growth::StatefulSet => Some("/status/updatedReplicas"),
        Growth::DaemonSet => Some("/status/updatedNumberScheduled"),
        Growth::ReplicaSet | Growth::Job | Growth::Pod | Growth::CronJob => None,
    }
}
