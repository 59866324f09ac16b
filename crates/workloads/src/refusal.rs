//! Refusals of the API server to create a workload's pods, as its condition and Events tell.
//!
//! A condition says what is refused now, but only Deployments and ReplicaSets have one; Events are there for all controllers, for
//! as long as the cluster keeps them (an hour by default).

use headroom_admission::timestamp::Timestamp;
use headroom_admission::truncate::on_one_line;
use headroom_objects::cluster_reader::Events;
use headroom_objects::kinds::{items, metadata, number, text};
use serde_json::Value;

use crate::owner::WorkloadRef;

/// Characters of a message.
const LONGEST: usize = 400;

/// The Events that controllers write when a Pod cannot be created.
pub fn events_of(namespace: Option<&str>, most: usize) -> Events<'_> {
    Events { namespace, reason: "FailedCreate", most }
}

/// The API server's refusals to create more pods of a workload, for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRefusal {
    /// The latest text, as the controller words it.
    pub message: String,
    /// The same for all refusals for one reason: without names of Pods and amounts.
    pub key: String,
    /// The number of Events.
    pub count: u64,
    pub first: Option<Timestamp>,
    pub last: Option<Timestamp>,
}

impl PodRefusal {
    fn new(message: &str, made_by: &str) -> Self {
        let (message, key) = (message.to_owned(), key_of(reason_in(message), made_by));
        Self { message, key, count: 0, first: None, last: None }
    }

    /// Reads an Event of a Pod that could not be created, and who should have made it.
    pub fn of_event(event: &Value) -> Option<(WorkloadRef, Self)> {
        let time = |pointers: &[&str]| pointers.iter().find_map(|pointer| text(event, pointer).parse().ok());
        let message = Some(text(event, "/message")).filter(|message| !message.is_empty())?;
        let [kind, name] = ["/involvedObject/kind", "/involvedObject/name"].map(|at| text(event, at));
        let made_by = WorkloadRef::new(metadata(event, "namespace"), kind, name);
        let first = time(&["/firstTimestamp", "/eventTime", "/metadata/creationTimestamp"]);
        let last = time(&["/series/lastObservedTime", "/lastTimestamp"]).or(first);
        let count = number(event, "/series/count").or_else(|| number(event, "/count")).unwrap_or(1).max(1);
        let refusal = Self { count, first, last, ..Self::new(&on_one_line(message, LONGEST), &made_by.name) };
        Some((made_by, refusal))
    }

    /// True if admission has refused it, and not a time-out or a name that is taken.
    pub fn is_a_decision(&self) -> bool {
        let parts = [" is forbidden: ", " denied the request", "failed calling webhook", " is invalid: "];
        parts.iter().any(|part| self.message.contains(part))
    }

    /// Kubernetes' own text, without the name of the Pod and the controller's words before it.
    pub fn reason(&self) -> &str {
        reason_in(&self.message)
    }

    /// Reads the condition of an object whose Pods are refused now.
    pub fn of_condition(object: &Value) -> Option<Self> {
        let is_it = |of: &&Value| text(of, "/type") == "ReplicaFailure" && text(of, "/status") == "True";
        let failure = items(object, "/status/conditions").find(is_it)?;
        let (since, message) = (text(failure, "/lastTransitionTime").parse().ok(), failure.get("message")?.as_str()?);
        Some(Self { first: since, last: since, ..Self::new(message, metadata(object, "name")) })
    }

    /// Adds refusals of the same workload. Of several reasons the latest counts.
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

fn reason_in(message: &str) -> &str {
    let said = ["Error creating: ", " failed error: "].iter().find_map(|before| message.split_once(before));
    let said = said.map_or(message, |(_, said)| said);
    let of_pod = said.strip_prefix("pods \"").and_then(|rest| rest.split_once("\" is forbidden: "));
    of_pod.map_or(said, |(_, reason)| reason)
}

/// A key that refusals for the same reason share: without the names of Pods and the amounts that a quota counts.
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
