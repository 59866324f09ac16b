//! Pods that the API server has recently rejected, grouped by reason, as Events and the conditions of workloads tell.
//!
//! A condition says what is rejected now, but only Deployments and ReplicaSets have one; Events are there for all controllers, for as long
//! as the cluster keeps them (an hour by default). Some users may write any Events they like, and as many: so each namespace has the
//! same share of what is kept and shown.

use std::collections::{BTreeMap, BTreeSet};

use headroom_core::timestamp::Timestamp;
use headroom_core::truncate::{on_one_line, shortened};
use headroom_objects::kinds::metadata;
use serde::Serialize;
use serde_json::Value;

use headroom_workloads::kinds::{JOB, REPLICA_SET};
use headroom_workloads::owner::{Owner, Owners, WorkloadRef};

/// The reason of the Events that controllers write when a Pod cannot be created.
pub const EVENT_REASON: &str = "FailedCreate";

/// Reasons that are kept of each namespace.
const REASONS: usize = 16;
/// Workloads that are counted for each reason.
const WORKLOADS: usize = 1_000;
/// Workloads that are named for each reason.
const NAMED: usize = 5;
/// Reasons that are shown of all namespaces.
const SHOWN: usize = 500;
/// Characters of a message.
const LONGEST: usize = 400;

/// Rejected Pods.
#[derive(Debug, Clone, Default)]
pub struct Rejections {
    owners: Owners,
    /// By namespace, then by what rejections for the same reason have in common.
    groups: BTreeMap<String, BTreeMap<String, Group>>,
    /// True if more are known than were kept.
    pub is_cut: bool,
}

#[derive(Debug, Clone, Default)]
struct Group {
    message: String,
    workloads: BTreeSet<String>,
    /// Those of the workloads whose condition says so now.
    blocked: BTreeSet<String>,
    count: u64,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
}

/// A Pod that was rejected, as an Event tells.
pub struct RejectedPod<'e> {
    /// The object that should have made it.
    pub made_by: WorkloadRef,
    pub message: &'e str,
    pub last: Option<Timestamp>,
}

impl<'e> RejectedPod<'e> {
    /// None if the Event tells of another failure.
    pub fn of(event: &'e Value) -> Option<Self> {
        let message = text(event, "/message");
        let is_rejection = [" is forbidden: ", " denied the request", "failed calling webhook", " is invalid: "]
            .iter()
            .any(|part| message.contains(part));
        let [kind, name] = ["/involvedObject/kind", "/involvedObject/name"].map(|field| text(event, field));
        let last = time(event, &["/series/lastObservedTime", "/lastTimestamp"]).or_else(|| first(event));
        let made_by = WorkloadRef::new(metadata(event, "namespace"), kind, name);
        is_rejection.then_some(Self { made_by, message, last })
    }
}

fn text<'e>(event: &'e Value, pointer: &str) -> &'e str {
    event.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn time(event: &Value, pointers: &[&str]) -> Option<Timestamp> {
    pointers.iter().find_map(|pointer| text(event, pointer).parse().ok())
}

fn first(event: &Value) -> Option<Timestamp> {
    time(event, &["/firstTimestamp", "/eventTime", "/metadata/creationTimestamp"])
}

/// Rejections for one reason in one namespace.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rejection {
    pub namespace: String,
    /// The first few, as `deployment/web`; those that are blocked now before the others.
    pub workloads: Vec<String>,
    /// The number of workloads, at most a thousand.
    pub workload_count: usize,
    /// The number of workloads that are blocked now.
    pub blocked: usize,
    /// The latest text of Kubernetes, without the name of the Pod.
    pub message: String,
    /// The number of Events.
    pub count: u64,
    pub first: Option<String>,
    pub last: Option<String>,
}

/// The rejections as the page reads them.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub groups: Vec<Rejection>,
    /// True if more are known than are listed.
    pub is_cut: bool,
    /// The reason that Events are missing.
    pub problem: Option<String>,
}

impl Rejections {
    /// Reads who made an object, and whether its condition says that its Pods are rejected. Deployments speak for their ReplicaSets.
    pub fn add_object(&mut self, object: &Value) {
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let workload = WorkloadRef::new(metadata(object, "namespace"), text("kind"), metadata(object, "name"));
        if let Some(owner) = Owner::of(object) {
            if [REPLICA_SET.kind, JOB.kind].contains(&workload.kind.as_str()) {
                self.owners.add_owner(workload, &owner);
            }
            return;
        }
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        for condition in conditions.into_iter().flatten() {
            let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
            if text("type") == "ReplicaFailure" && text("status") == "True" {
                let since = text("lastTransitionTime").parse().ok();
                let group = self.group(&workload, text("message"), since);
                if let Some(group) = group.filter(|group| group.blocked.len() < WORKLOADS) {
                    group.blocked.insert(name_of(&workload));
                    group.note(&workload, since, since);
                }
            }
        }
    }

    /// Reads a `FailedCreate` Event. Those that tell of another failure than a rejection are passed over.
    pub fn add_event(&mut self, event: &Value) {
        let Some(RejectedPod { made_by, message, last }) = RejectedPod::of(event) else { return };
        let number = |pointer: &str| event.pointer(pointer).and_then(Value::as_u64);
        let count = number("/series/count").or_else(|| number("/count")).unwrap_or(1).max(1);
        let (first, workload) = (first(event), self.owners.of(made_by.clone()));
        if let Some(group) = self.group(&made_by, message, last) {
            group.count = group.count.saturating_add(count);
            group.note(&workload, first, last);
        }
    }

    /// The group of a rejection at this time; none if its namespace has enough later ones.
    fn group(&mut self, made_by: &WorkloadRef, message: &str, at: Option<Timestamp>) -> Option<&mut Group> {
        let reason = reason_in(message);
        let key = key_of(reason, &made_by.name);
        let groups = self.groups.entry(made_by.namespace.clone()).or_default();
        if groups.len() >= REASONS && !groups.contains_key(&key) {
            self.is_cut = true;
            let oldest = groups.iter().min_by_key(|(_, group)| (!group.blocked.is_empty(), group.last));
            let oldest = oldest.filter(|(_, group)| group.blocked.is_empty() && group.last < at);
            let oldest = oldest.map(|(key, _)| key.clone())?;
            groups.remove(&oldest);
        }
        let group = groups.entry(key).or_default();
        if group.message.is_empty() || group.last <= at {
            group.message = on_one_line(reason, LONGEST);
        }
        Some(group)
    }

    /// The latest of each namespace, then the second of each, and so on.
    pub fn summary(self, problem: Option<String>) -> Summary {
        let mut rounds: Vec<(usize, Rejection)> = Vec::new();
        for (namespace, groups) in self.groups {
            let mut groups: Vec<Rejection> = groups.into_values().map(|group| group.shown(&namespace)).collect();
            groups.sort_by(latest_first);
            rounds.extend(groups.into_iter().enumerate());
        }
        rounds.sort_by(|(round, a), (other, b)| round.cmp(other).then_with(|| latest_first(a, b)));
        let is_cut = self.is_cut || rounds.len() > SHOWN;
        let groups = rounds.into_iter().take(SHOWN).map(|(_, rejection)| rejection).collect();
        Summary { groups, is_cut, problem }
    }
}

fn latest_first(a: &Rejection, b: &Rejection) -> std::cmp::Ordering {
    (b.blocked > 0, &b.last).cmp(&(a.blocked > 0, &a.last))
}

impl Group {
    fn note(&mut self, workload: &WorkloadRef, first: Option<Timestamp>, last: Option<Timestamp>) {
        if self.workloads.len() < WORKLOADS {
            self.workloads.insert(name_of(workload));
        }
        self.first = self.first.into_iter().chain(first).min();
        self.last = self.last.max(last);
    }

    fn shown(self, namespace: &str) -> Rejection {
        let others = self.workloads.difference(&self.blocked);
        let named = self.blocked.iter().chain(others).take(NAMED).cloned().collect();
        let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
        Rejection {
            namespace: shortened(namespace).into_owned(),
            workloads: named,
            workload_count: self.workloads.len(),
            blocked: self.blocked.len(),
            message: self.message,
            count: self.count,
            first: time(self.first),
            last: time(self.last),
        }
    }
}

fn name_of(workload: &WorkloadRef) -> String {
    shortened(&workload.to_string()).into_owned()
}

/// Kubernetes' own text, without the name of the Pod and the controller's words before it.
fn reason_in(message: &str) -> &str {
    let said = ["Error creating: ", " failed error: "].iter().find_map(|before| message.split_once(before));
    let said = said.map_or(message, |(_, said)| said);
    let of_pod = said.strip_prefix("pods \"").and_then(|rest| rest.split_once("\" is forbidden: "));
    of_pod.map_or(said, |(_, reason)| reason)
}

/// A key that rejections for the same reason share: without the names of Pods and the amounts that a quota counts.
fn key_of(reason: &str, made_by: &str) -> String {
    if let Some((quota, amounts)) = reason.split_once(", requested: ")
        && quota.starts_with("exceeded quota: ")
    {
        let requested = amounts.split(", used: ").next().unwrap_or_default();
        let names = requested.split(',').filter_map(|amount| amount.split('=').next());
        return on_one_line(&format!("{quota} {}", names.collect::<Vec<_>>().join(",")), LONGEST);
    }
    let mut key = String::new();
    let mut rest = reason;
    while let Some((before, after)) = rest.split_once(made_by).filter(|_| !made_by.is_empty()) {
        key.push_str(before);
        key.push('…');
        rest = after.trim_start_matches(|char: char| char.is_ascii_alphanumeric() || char == '-');
    }
    key.push_str(rest);
    on_one_line(&key, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(namespace: &str, kind: &str, name: &str, minute: u32, message: &str) -> Value {
        json!({"metadata": {"namespace": namespace}, "involvedObject": {"kind": kind, "name": name}, "count": 3,
            "firstTimestamp": "2026-11-25T08:00:00Z", "lastTimestamp": format!("2026-11-25T09:{minute:02}:00Z"), "message": message})
    }

    fn over_quota(pod: &str, used: &str) -> String {
        format!(
            "Error creating: pods \"{pod}\" is forbidden: exceeded quota: team, requested: requests.cpu=2,pods=1, \
             used: requests.cpu={used},pods=4, limited: requests.cpu=9,pods=5"
        )
    }

    fn owned(kind: &str, name: &str, owner: &str, owner_name: &str) -> Value {
        json!({"kind": kind, "metadata": {"namespace": "shop", "name": name,
            "ownerReferences": [{"kind": owner, "name": owner_name, "controller": true}]}})
    }

    #[test]
    fn rejections_for_one_reason_are_one_whatever_the_pods_and_amounts() {
        let mut rejections = Rejections::default();
        rejections.add_object(&owned("ReplicaSet", "web-5d4f", "Deployment", "web"));
        rejections.add_object(&owned("Job", "report-29", "CronJob", "report"));
        rejections.add_event(&event("shop", "ReplicaSet", "web-5d4f", 10, &over_quota("web-5d4f-x2x4z", "8")));
        rejections.add_event(&event("shop", "Job", "report-29", 40, &over_quota("report-29-", "9")));
        rejections.add_event(&event(
            "shop",
            "StatefulSet",
            "db",
            20,
            &format!("create Pod db-0 in StatefulSet db failed error: {}", &over_quota("db-0", "7")[16..]),
        ));
        // A breach of other resources of the quota is another reason.
        rejections.add_event(&event(
            "shop",
            "DaemonSet",
            "agent",
            5,
            "Error creating: pods \"agent-\" is forbidden: exceeded quota: team, requested: pods=1, used: pods=5, limited: pods=5",
        ));
        let groups = rejections.summary(None).groups;
        assert_eq!(groups.len(), 2, "{groups:#?}");
        assert_eq!(
            groups[0],
            Rejection {
                namespace: "shop".to_owned(),
                workloads: ["cronjob/report", "deployment/web", "statefulset/db"].map(str::to_owned).to_vec(),
                workload_count: 3,
                blocked: 0,
                message: "exceeded quota: team, requested: requests.cpu=2,pods=1, used: requests.cpu=9,pods=4, \
                          limited: requests.cpu=9,pods=5"
                    .to_owned(),
                count: 9,
                first: Some("2026-11-25T08:00:00Z".to_owned()),
                last: Some("2026-11-25T09:40:00Z".to_owned()),
            }
        );
    }

    #[test]
    fn a_webhook_that_repeats_the_name_of_the_pod_is_one_reason() {
        let check = |a: &str, b: &str, reason: &str| {
            let mut rejections = Rejections::default();
            rejections.add_event(&event("shop", "ReplicaSet", "web-5d4f", 1, a));
            rejections.add_event(&event("shop", "ReplicaSet", "web-5d4f", 2, b));
            let groups = rejections.summary(None).groups;
            assert_eq!((groups.len(), groups[0].message.as_str()), (1, reason));
        };
        let denied = |pod: &str| {
            format!(
                "Error creating: admission webhook \"a.example\" denied the request:\n\npod shop/{pod} has no owner"
            )
        };
        check(
            &denied("web-5d4f-aaaaa"),
            &denied("web-5d4f-bbbbb"),
            "admission webhook \"a.example\" denied the request:  pod shop/web-5d4f-bbbbb has no owner",
        );
        let maximum = "maximum memory usage per Container is 1Gi, but limit is 2Gi";
        let forbidden = |pod: &str| format!("Error creating: pods \"{pod}\" is forbidden: {maximum}");
        check(&forbidden("web-5d4f-aaaaa"), &forbidden("web-5d4f-bbbbb"), maximum);
    }

    #[test]
    fn only_rejections_count_and_times_are_of_either_kind_of_event() {
        let mut rejections = Rejections::default();
        for other in ["Error creating: pods \"a\" already exists", "Error creating: context deadline exceeded", ""] {
            rejections.add_event(&event("shop", "ReplicaSet", "web", 1, other));
        }
        assert!(rejections.clone().summary(None).groups.is_empty());
        rejections.add_event(&json!({"metadata": {"namespace": "shop"}, "involvedObject": {"kind": "Job", "name": "a"},
            "eventTime": "2026-11-25T08:00:00.123456Z", "series": {"count": 12, "lastObservedTime": "2026-11-25T08:30:00.000000Z"},
            "message": "Error creating: pods \"a-\" is forbidden: violates PodSecurity \"restricted:latest\""}));
        let groups = rejections.summary(None).groups;
        assert_eq!(groups[0].count, 12);
        assert_eq!(groups[0].first.as_deref(), Some("2026-11-25T08:00:00Z"));
        assert_eq!(groups[0].last.as_deref(), Some("2026-11-25T08:30:00Z"));
    }

    #[test]
    fn what_is_blocked_now_is_said_once_and_comes_first() {
        let mut rejections = Rejections::default();
        let condition = json!({"type": "ReplicaFailure", "status": "True", "lastTransitionTime": "2026-11-25T07:00:00Z",
            "message": over_quota("web-5d4f-x2x4z", "8").replace("Error creating: ", "")});
        let of = |kind: &str, name: &str| json!({"kind": kind, "metadata": {"namespace": "shop", "name": name}, "status": {"conditions": [condition]}});
        rejections.add_object(&of("Deployment", "web"));
        let mut owned = owned("ReplicaSet", "web-5d4f", "Deployment", "web");
        owned["status"] = json!({"conditions": [condition]});
        rejections.add_object(&owned);
        rejections.add_event(&event("shop", "ReplicaSet", "web-5d4f", 10, &over_quota("web-5d4f-x2x4z", "8")));
        rejections.add_event(&event("shop", "StatefulSet", "db", 50, "pods \"db-0\" is forbidden: no"));
        rejections.add_object(&json!({"kind": "Deployment", "metadata": {"namespace": "shop", "name": "fine"},
            "status": {"conditions": [{"type": "ReplicaFailure", "status": "False"}]}}));
        let groups = rejections.summary(None).groups;
        assert_eq!(groups.len(), 2, "{groups:#?}");
        assert_eq!((groups[0].blocked, &groups[0].workloads), (1, &vec!["deployment/web".to_owned()]));
        assert_eq!(groups[0].first.as_deref(), Some("2026-11-25T07:00:00Z"));
        assert_eq!((groups[1].blocked, groups[1].message.as_str()), (0, "no"));
    }

    #[test]
    fn a_namespace_with_many_events_pushes_nobody_else_out() {
        let mut rejections = Rejections::default();
        for index in 0..5_000 {
            let mut event = event(
                "evil",
                "Job",
                &format!("job-{index}"),
                index % 60,
                &format!("x is forbidden: {index} {}", "y".repeat(5_000)),
            );
            event["lastTimestamp"] = json!("9999-01-01T00:00:00Z");
            event["count"] = json!(u64::MAX);
            rejections.add_event(&event);
        }
        let same = "pods \"a\" is forbidden: the same";
        (0..5_000).for_each(|index| rejections.add_event(&event("evil", "Job", &"z".repeat(index), 59, same)));
        rejections.add_event(&event("shop", "StatefulSet", "db", 1, "pods \"db-0\" is forbidden: no"));
        rejections.add_event(&event("bank", "StatefulSet", "db", 2, "pods \"db-0\" is forbidden: no"));
        let summary = rejections.summary(None);
        let first: Vec<&str> = summary.groups.iter().map(|of| of.namespace.as_str()).take(4).collect();
        assert_eq!(first, ["evil", "bank", "shop", "evil"]);
        assert_eq!((summary.groups.len(), summary.is_cut), (REASONS + 2, true));
        let bytes = serde_json::to_string(&summary).unwrap().len();
        assert!(bytes < (REASONS + 2) * 2_500, "{bytes}");
    }

    #[test]
    fn of_very_many_namespaces_each_has_its_latest() {
        let mut rejections = Rejections::default();
        for namespace in 0..SHOWN {
            for reason in 0..3 {
                let message = format!("pods \"a\" is forbidden: {reason}");
                rejections.add_event(&event(&format!("team-{namespace}"), "Job", "a", reason, &message));
            }
        }
        let summary = rejections.summary(None);
        assert_eq!((summary.groups.len(), summary.is_cut), (SHOWN, true));
        assert!(summary.groups.iter().all(|of| of.message == "2"));
    }
}
