//! The state of the pods of a workload.

use std::collections::BTreeMap;

use headroom_objects::kinds::{items, number, text};
use serde_json::Value;

/// Counted over pods.
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
    /// The least of their priorities.
    pub priority: Option<i64>,
}

impl RunningPods {
    /// The facts of one pod that has not ended.
    pub fn of_pod(pod: &Value) -> Self {
        let priority = pod.pointer("/spec/priority").and_then(Value::as_i64);
        let mut running = Self { pods: 1, priority, ..Self::default() };
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

    pub fn add(&mut self, other: Self) {
        self.pods += other.pods;
        self.priority = self.priority.into_iter().chain(other.priority).min();
        let add = |to: &mut BTreeMap<String, u64>, of: BTreeMap<String, u64>| {
            of.into_iter().for_each(|(name, count)| *to.entry(name).or_default() += count);
        };
        add(&mut self.restarts, other.restarts);
        add(&mut self.killed, other.killed);
        add(&mut self.crash_loops, other.crash_loops);
    }
}
