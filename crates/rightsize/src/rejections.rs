//! Pods that the API server has recently rejected: of each workload the last reason, as its condition and Events tell, and for the page
//! the workloads with the same reason together.
//!
//! A condition says what is rejected now, but only Deployments and ReplicaSets have one; Events are there for all controllers, for as long
//! as the cluster keeps them (an hour by default). Some users may write any Events they like, and as many: so only those about workloads
//! that there are count, and each namespace has the same share of what is shown.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use headroom_core::timestamp::Timestamp;
use headroom_core::truncate::{on_one_line, shortened};
use headroom_objects::kinds::metadata;
use serde::Serialize;
use serde_json::Value;

use headroom_workloads::WorkloadRef;

/// The reason of the Events that controllers write when a Pod cannot be created.
pub const EVENT_REASON: &str = "FailedCreate";

/// Workloads that are named for each reason.
const NAMED: usize = 5;
/// Reasons that are shown of all namespaces.
const SHOWN: usize = 500;
/// Characters of a message.
const LONGEST: usize = 400;

/// The rejections of a workload's pods for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The latest text, as the controller words it.
    pub message: String,
    /// The same for all rejections for one reason: without names of Pods and amounts.
    key: String,
    /// The number of Events.
    count: u64,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
}

impl Rejected {
    fn new(message: &str, made_by: &str) -> Self {
        let (message, key) = (message.to_owned(), key_of(reason_in(message), made_by));
        Self { message, key, count: 0, first: None, last: None }
    }

    /// Reads an Event, and who should have made the Pod; none if it tells of another failure.
    pub fn of_event(event: &Value) -> Option<(WorkloadRef, Self)> {
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let number = |pointer: &str| event.pointer(pointer).and_then(Value::as_u64);
        let time = |pointers: &[&str]| pointers.iter().find_map(|pointer| text(pointer).parse().ok());
        let message = text("/message");
        let is_rejection = [" is forbidden: ", " denied the request", "failed calling webhook", " is invalid: "]
            .iter()
            .any(|part| message.contains(part));
        if !is_rejection {
            return None;
        }
        let made_by =
            WorkloadRef::new(metadata(event, "namespace"), text("/involvedObject/kind"), text("/involvedObject/name"));
        let first = time(&["/firstTimestamp", "/eventTime", "/metadata/creationTimestamp"]);
        let last = time(&["/series/lastObservedTime", "/lastTimestamp"]).or(first);
        let count = number("/series/count").or_else(|| number("/count")).unwrap_or(1).max(1);
        let rejected = Self { count, first, last, ..Self::new(&on_one_line(message, LONGEST), &made_by.name) };
        Some((made_by, rejected))
    }

    /// Reads the condition of an object whose Pods are rejected now.
    pub fn of_condition(object: &Value) -> Option<Self> {
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array)?;
        let is = |of: &Value, field: &str, value: &str| of.get(field).is_some_and(|is| is == value);
        let failure = conditions.iter().find(|of| is(of, "type", "ReplicaFailure") && is(of, "status", "True"))?;
        let text = |field: &str| failure.get(field).and_then(Value::as_str);
        let since = text("lastTransitionTime").and_then(|since| since.parse().ok());
        Some(Self { first: since, last: since, ..Self::new(text("message")?, metadata(object, "name")) })
    }

    /// Adds rejections of the same workload. Of several reasons the latest counts.
    pub fn add(&mut self, other: Self) {
        let is_later = self.last <= other.last;
        if self.key != other.key {
            if is_later {
                *self = other;
            }
            return;
        }
        self.count = self.count.saturating_add(other.count);
        self.first = self.first.into_iter().chain(other.first).min();
        self.last = self.last.max(other.last);
        if is_later {
            self.message = other.message;
        }
    }
}

/// Rejections for one reason in one namespace.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rejection {
    pub namespace: String,
    /// The first few, as `deployment/web`; those that are blocked now before the others.
    pub workloads: Vec<String>,
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
pub struct RejectionSummary {
    pub groups: Vec<Rejection>,
    /// True if more are known than are listed.
    pub is_cut: bool,
    /// The reason that Events are missing.
    pub problem: Option<String>,
}

/// The rejections for one reason, and the workloads that have it: true for those that are blocked now.
struct RejectionGroup<'i> {
    rejected: Rejected,
    workloads: BTreeMap<&'i WorkloadRef, bool>,
}

impl RejectionSummary {
    /// The latest of each namespace, then the second of each, and so on, made of the rejections of each workload, with true for those
    /// at present. `events` says how reading Events ended: true if there are more than were read.
    pub fn of<'i>(
        workloads: impl Iterator<Item = (&'i WorkloadRef, Vec<(Rejected, bool)>)>,
        events: Result<bool, String>,
    ) -> Self {
        let mut namespaces: BTreeMap<&str, BTreeMap<String, RejectionGroup<'_>>> = BTreeMap::new();
        for (workload, rejections) in workloads {
            let groups = namespaces.entry(&workload.namespace).or_default();
            for (rejected, is_now) in rejections {
                let group = groups.entry(rejected.key.clone());
                let group = group
                    .and_modify(|group| group.rejected.add(rejected.clone()))
                    .or_insert_with(|| RejectionGroup { rejected, workloads: BTreeMap::new() });
                *group.workloads.entry(workload).or_default() |= is_now;
            }
        }
        let mut rounds: Vec<(usize, Rejection)> = Vec::new();
        for (namespace, groups) in namespaces {
            let mut groups: Vec<Rejection> = groups.into_values().map(|group| group.shown(namespace)).collect();
            groups.sort_by(latest_first);
            rounds.extend(groups.into_iter().enumerate());
        }
        rounds.sort_by(|(round, a), (other, b)| round.cmp(other).then_with(|| latest_first(a, b)));
        let is_cut = events == Ok(true) || rounds.len() > SHOWN;
        let groups = rounds.into_iter().take(SHOWN).map(|(_, rejection)| rejection).collect();
        Self { groups, is_cut, problem: events.err() }
    }
}

fn latest_first(a: &Rejection, b: &Rejection) -> Ordering {
    (b.blocked > 0, &b.last).cmp(&(a.blocked > 0, &a.last))
}

impl RejectionGroup<'_> {
    fn shown(self, namespace: &str) -> Rejection {
        let Self { rejected, workloads } = self;
        let (blocked, others): (Vec<_>, Vec<_>) = workloads.iter().partition(|(_, is_now)| **is_now);
        let named = blocked.iter().chain(&others).take(NAMED);
        let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
        Rejection {
            namespace: shortened(namespace).into_owned(),
            workloads: named.map(|(of, _)| shortened(&of.to_string()).into_owned()).collect(),
            workload_count: workloads.len(),
            blocked: blocked.len(),
            message: on_one_line(reason_in(&rejected.message), LONGEST),
            count: rejected.count,
            first: time(rejected.first),
            last: time(rejected.last),
        }
    }
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

    /// The rejections of some workloads by these Events, of which these are blocked now.
    fn summary(events: &[Value], blocked: &[&str]) -> RejectionSummary {
        let mut all: BTreeMap<WorkloadRef, Rejected> = BTreeMap::new();
        for (made_by, rejected) in events.iter().filter_map(Rejected::of_event) {
            match all.get_mut(&made_by) {
                Some(before) => before.add(rejected),
                None => _ = all.insert(made_by, rejected),
            }
        }
        let is_now = |of: &WorkloadRef| blocked.contains(&of.to_string().as_str());
        RejectionSummary::of(all.iter().map(|(of, rejected)| (of, vec![(rejected.clone(), is_now(of))])), Ok(false))
    }

    #[test]
    fn rejections_for_one_reason_are_one_whatever_the_pods_and_amounts() {
        let of_db = format!("create Pod db-0 in StatefulSet db failed error: {}", &over_quota("db-0", "7")[16..]);
        // A breach of other resources of the quota is another reason.
        let of_agent = "Error creating: pods \"agent-\" is forbidden: exceeded quota: team, requested: pods=1, used: pods=5, limited: pods=5";
        let events = [
            event("shop", "Deployment", "web", 10, &over_quota("web-5d4f-x2x4z", "8")),
            event("shop", "CronJob", "report", 40, &over_quota("report-29-", "9")),
            event("shop", "StatefulSet", "db", 20, &of_db),
            event("shop", "DaemonSet", "agent", 5, of_agent),
        ];
        let groups = summary(&events, &["statefulset/db"]).groups;
        assert_eq!(groups.len(), 2, "{groups:#?}");
        assert_eq!(
            groups[0],
            Rejection {
                namespace: "shop".to_owned(),
                workloads: ["statefulset/db", "cronjob/report", "deployment/web"].map(str::to_owned).to_vec(),
                workload_count: 3,
                blocked: 1,
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
            let events = [(1, a), (2, b)].map(|(at, message)| event("shop", "ReplicaSet", "web-5d4f", at, message));
            let groups = summary(&events, &[]).groups;
            assert_eq!((groups.len(), groups[0].count, groups[0].message.as_str()), (1, 6, reason));
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
    fn of_several_reasons_of_a_workload_the_latest_counts() {
        let of = |at, reason: &str| event("shop", "Job", "a", at, &format!("pods \"a-\" is forbidden: {reason}"));
        let groups = summary(&[of(20, "late"), of(10, "early"), of(5, "late")], &[]).groups;
        assert_eq!((groups.len(), groups[0].message.as_str(), groups[0].count), (1, "late", 6));
        assert_eq!(groups[0].last.as_deref(), Some("2026-11-25T09:20:00Z"));
    }

    #[test]
    fn only_rejections_count_and_times_are_of_either_kind_of_event() {
        for other in ["Error creating: pods \"a\" already exists", "Error creating: context deadline exceeded", ""] {
            assert_eq!(Rejected::of_event(&event("shop", "ReplicaSet", "web", 1, other)), None);
        }
        let of_series = json!({"metadata": {"namespace": "shop"}, "involvedObject": {"kind": "Job", "name": "a"},
            "eventTime": "2026-11-25T08:00:00.123456Z", "series": {"count": 12, "lastObservedTime": "2026-11-25T08:30:00.000000Z"},
            "message": "Error creating: pods \"a-\" is forbidden: violates PodSecurity \"restricted:latest\""});
        let groups = summary(&[of_series], &[]).groups;
        assert_eq!(groups[0].count, 12);
        assert_eq!(groups[0].first.as_deref(), Some("2026-11-25T08:00:00Z"));
        assert_eq!(groups[0].last.as_deref(), Some("2026-11-25T08:30:00Z"));
    }

    #[test]
    fn what_is_blocked_now_is_said_once_and_comes_first() {
        let of = |status: &str| {
            json!({"metadata": {"namespace": "shop", "name": "web"}, "status": {"conditions": [{"type": "ReplicaFailure",
                "status": status, "lastTransitionTime": "2026-11-25T07:00:00Z", "message": over_quota("web-5d4f-x2x4z", "8")}]}})
        };
        assert_eq!(Rejected::of_condition(&of("False")), None);
        let (web, now) = (WorkloadRef::new("shop", "Deployment", "web"), Rejected::of_condition(&of("True")).unwrap());
        let (_, before) =
            Rejected::of_event(&event("shop", "ReplicaSet", "web-5d4f", 10, &over_quota("web-5d4f-x2x4z", "8")))
                .unwrap();
        let (db, other) =
            Rejected::of_event(&event("shop", "StatefulSet", "db", 50, "pods \"db-0\" is forbidden: no")).unwrap();
        let all = [(&web, vec![(now, true), (before, false)]), (&db, vec![(other, false)])];
        let groups = RejectionSummary::of(all.into_iter(), Ok(false)).groups;
        assert_eq!(groups.len(), 2, "{groups:#?}");
        assert_eq!((groups[0].blocked, &groups[0].workloads), (1, &vec!["deployment/web".to_owned()]));
        assert_eq!(groups[0].first.as_deref(), Some("2026-11-25T07:00:00Z"));
        assert_eq!((groups[1].blocked, groups[1].message.as_str()), (0, "no"));
    }

    #[test]
    fn a_namespace_with_many_rejections_pushes_nobody_else_out() {
        let of_evil = |index: usize| {
            let message = format!("x is forbidden: {index} {}", "y".repeat(5_000));
            let mut event = event("evil", "Job", &format!("job-{index}"), 0, &message);
            event["lastTimestamp"] = json!("9999-01-01T00:00:00Z");
            event["count"] = json!(u64::MAX);
            [event.clone(), event]
        };
        let of_db = |namespace: &str, at| event(namespace, "StatefulSet", "db", at, "pods \"db-0\" is forbidden: no");
        let events = (0..2 * SHOWN).flat_map(of_evil).chain([of_db("shop", 1), of_db("bank", 2)]);
        let summary = summary(&events.collect::<Vec<_>>(), &[]);
        let first: Vec<&str> = summary.groups.iter().map(|of| of.namespace.as_str()).take(4).collect();
        assert_eq!(first, ["evil", "bank", "shop", "evil"]);
        assert_eq!((summary.groups.len(), summary.is_cut), (SHOWN, true));
        let bytes = serde_json::to_string(&summary).unwrap().len();
        assert!(bytes < SHOWN * 1_000, "{bytes}");
    }
}
