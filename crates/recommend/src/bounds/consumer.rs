//! Workloads as bounds meet them: one pod each, and how many there are at most.

use std::collections::HashMap;

use headroom_admission::Request;
use headroom_admission::request::controllers::{Controller, Rollout};
use headroom_admission::request::{Requirement, rollout};
use headroom_dry_run::evaluate::request;
use headroom_objects::document;
use headroom_objects::kinds::{ApiKind, items, number, set};
use serde_json::{Value, json};

use crate::advice::template::set_amount;
use crate::report::Recommendations;
use headroom_workloads::inventory::{Inventory, WorkloadEntry};
use headroom_workloads::kinds::CRON_JOB;
use headroom_workloads::{WorkloadRef, pod_of};

#[derive(Debug, Clone)]
pub struct WorkloadConsumer {
    pub key: WorkloadRef,
    /// A pod as it is created now.
    pub pod: Value,
    /// The same with all recommendations written.
    pub right_sized: Value,
    pub counts: Counts,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Those that exist, or are asked for.
    pub steady: u64,
    /// At the maximum of its autoscaler.
    pub most: u64,
    /// Above that during a rollout.
    pub surge: u64,
    /// True if they come when their time comes, and go when they are done.
    pub is_periodic: bool,
}

impl WorkloadConsumer {
    /// Everything of an inventory that makes pods.
    pub fn all(inventory: &Inventory) -> Vec<Self> {
        let of = |entry: &WorkloadEntry| {
            let object = entry.as_it_runs();
            let itself = || (ApiKind::of(&object).kind == "Pod").then(|| object.clone());
            let pod = pod_of(&object).or_else(itself)?;
            let counts = Counts::of(entry, &object, inventory.autoscalers.most(&entry.key));
            Some(Self { key: entry.key.clone(), right_sized: pod.clone(), pod, counts })
        };
        inventory.entries.iter().filter_map(of).collect()
    }

    /// Writes the recommendations of a report, where they differ from what is written.
    pub fn right_size(consumers: &mut [Self], report: &Recommendations) {
        let workloads: HashMap<_, _> = report.workloads.iter().map(|workload| (&workload.key, workload)).collect();
        for consumer in consumers {
            let Some(workload) = workloads.get(&consumer.key) else { continue };
            for container in &workload.containers {
                for advice in &container.resources {
                    let limit = advice.recommended_limit.as_ref();
                    let amounts = [(Requirement::Request, advice.to_write()), (Requirement::Limit, limit)];
                    for (requirement, amount) in amounts.into_iter().filter(|(_, amount)| amount.is_some()) {
                        let (place, name) = ((container.name.as_str(), container.is_init), advice.resource.name());
                        set_amount(&mut consumer.right_sized, &[], place, (requirement, name), amount);
                    }
                }
            }
        }
    }
}

impl Counts {
    fn of(entry: &WorkloadEntry, object: &Value, of_autoscaler: Option<u64>) -> Self {
        let kind = ApiKind::of(object);
        let wanted = rollout_of(&request::create(object.clone(), &kind, "")).map_or(0, |rollout| rollout.wanted);
        if kind.kind == CRON_JOB.kind {
            let runs = items(object, "/status/active").count().max(1) as u64;
            return Self { most: wanted.saturating_mul(runs), is_periodic: true, ..Self::default() };
        }
        let wanted = number(object, "/status/desiredNumberScheduled").unwrap_or(wanted);
        let steady = wanted.max(entry.running.pods);
        let most = steady.max(of_autoscaler.unwrap_or(0));
        Self { steady, most, surge: surge(object, &kind, most).min(most), is_periodic: false }
    }
}

/// The pods that a rollout adds before it removes others.
fn surge(object: &Value, kind: &ApiKind, pods: u64) -> u64 {
    let mut old = object.clone();
    let status = json!({"replicas": pods, "updatedReplicas": pods, "desiredNumberScheduled": pods,
        "currentNumberScheduled": pods});
    set(&mut old, "status", status);
    if let Some(replicas) = old.pointer_mut("/spec/replicas") {
        *replicas = json!(pods);
    }
    let mut new = old.clone();
    if let Some(template) = new.pointer_mut("/spec/template") {
        set(template, "metadata", json!({"labels": {"headroom.dev/rollout": "next"}}));
    }
    match rollout_of(&request::update(new, old, kind, "")).map(|rollout| rollout.controller) {
        Some(Controller::Deployment { surge, .. } | Controller::DaemonSet { surge, .. }) => surge,
        _ => 0,
    }
}

/// None for an object that cannot be read: its evaluation has said so.
fn rollout_of(request: &Value) -> Option<Rollout> {
    let document = document(request).ok()?;
    Request::read(document.root()).and_then(|request| rollout::rollout(&request)).ok()?
}
