//! Pods that the API server has recently rejected, for the page: the workloads with the same reason together.
//!
//! Some users may write any Events they like, and as many: so only those about workloads that there are count, and each namespace has
//! the same share of what is shown.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use headroom_admission::timestamp::Timestamp;
use headroom_admission::truncate::{on_one_line, shortened};
use serde::Serialize;

use headroom_workloads::WorkloadRef;
use headroom_workloads::inventory::Inventory;
use headroom_workloads::refusal::PodRefusal;

/// Workloads that are named for each reason.
const NAMED: usize = 5;
/// Reasons that are shown of all namespaces.
const SHOWN: usize = 500;
/// Characters of a message.
const LONGEST: usize = 400;

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
    refusal: PodRefusal,
    workloads: BTreeMap<&'i WorkloadRef, bool>,
}

impl RejectionSummary {
    /// The rejections of all workloads of an inventory. `events` says how reading Events ended: true if there are more than were read.
    pub fn of_inventory(inventory: &Inventory, events: Result<bool, String>) -> Self {
        Self::of(inventory.entries.iter().map(|entry| (&entry.key, entry.refusals(&entry.object.value()))), events)
    }

    /// The latest of each namespace, then the second of each, and so on, made of the refusals of each workload, with true for those
    /// at present.
    fn of<'i>(
        workloads: impl Iterator<Item = (&'i WorkloadRef, Vec<(PodRefusal, bool)>)>,
        events: Result<bool, String>,
    ) -> Self {
        let mut namespaces: BTreeMap<&str, BTreeMap<String, RejectionGroup<'_>>> = BTreeMap::new();
        for (workload, rejections) in workloads {
            let groups = namespaces.entry(&workload.namespace).or_default();
            for (refusal, is_now) in rejections {
                let group = groups.entry(refusal.key.clone());
                let group = group
                    .and_modify(|group| group.refusal.add(refusal.clone()))
                    .or_insert_with(|| RejectionGroup { refusal, workloads: BTreeMap::new() });
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
        let Self { refusal, workloads } = self;
        let (blocked, others): (Vec<_>, Vec<_>) = workloads.iter().partition(|(_, is_now)| **is_now);
        let named = blocked.iter().chain(&others).take(NAMED);
        let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
        Rejection {
            namespace: shortened(namespace).into_owned(),
            workloads: named.map(|(of, _)| shortened(&of.to_string()).into_owned()).collect(),
            workload_count: workloads.len(),
            blocked: blocked.len(),
            message: on_one_line(refusal.reason(), LONGEST),
            count: refusal.count,
            first: time(refusal.first),
            last: time(refusal.last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

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
        let mut all: BTreeMap<WorkloadRef, PodRefusal> = BTreeMap::new();
        for (made_by, refusal) in events.iter().filter_map(PodRefusal::of_event) {
            match all.get_mut(&made_by) {
                Some(before) => before.add(refusal),
                None => _ = all.insert(made_by, refusal),
            }
        }
        let is_now = |of: &WorkloadRef| blocked.contains(&of.to_string().as_str());
        RejectionSummary::of(all.iter().map(|(of, refusal)| (of, vec![(refusal.clone(), is_now(of))])), Ok(false))
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
    fn only_rejections_count_and_times_are_of_either_kind_of_event() {
        for other in ["Error creating: pods \"a\" already exists", "Error creating: context deadline exceeded", ""] {
            let read = PodRefusal::of_event(&event("shop", "ReplicaSet", "web", 1, other));
            assert!(read.is_none_or(|(_, refusal)| !refusal.is_a_decision()), "{other}");
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
        assert_eq!(PodRefusal::of_condition(&of("False")), None);
        let (web, now) =
            (WorkloadRef::new("shop", "Deployment", "web"), PodRefusal::of_condition(&of("True")).unwrap());
        let (_, before) =
            PodRefusal::of_event(&event("shop", "ReplicaSet", "web-5d4f", 10, &over_quota("web-5d4f-x2x4z", "8")))
                .unwrap();
        let (db, other) =
            PodRefusal::of_event(&event("shop", "StatefulSet", "db", 50, "pods \"db-0\" is forbidden: no")).unwrap();
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
