//! The state of the pods of a workload.

use std::collections::BTreeMap;

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
            for status in pod.pointer(list).and_then(Value::as_array).into_iter().flatten() {
                let name = status.get("name").and_then(Value::as_str).unwrap_or_default();
                let restarts = status.get("restartCount").and_then(Value::as_u64).unwrap_or(0);
                if restarts > 0 {
                    running.restarts.insert(name.to_owned(), restarts);
                }
                let reason = |state: &str| status.pointer(state).and_then(Value::as_str);
                let ends = [reason("/lastState/terminated/reason"), reason("/state/terminated/reason")];
                if ends.contains(&Some("OOMKilled")) {
                    running.killed.insert(name.to_owned(), 1);
                }
                if reason("/state/waiting/reason") == Some("CrashLoopBackOff") {
                    running.crash_loops.insert(name.to_owned(), 1);
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
