//! The caller's observation of a workload.

use serde::{Deserialize, Serialize};

use crate::decision::{Amounts, ComputeResource, ContainerSize, Rules, Time};

/// The changes that the loop may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// Only a person takes back what was done.
    Off,
    /// Reports what it would do.
    Observe,
    /// Raises memory after an out-of-memory kill, and nothing else.
    AfterOom,
    On,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Workload {
    pub pods: Vec<ObservedPod>,
    /// True while pods of two templates run, or fewer than wanted.
    pub is_rolling_out: bool,
    /// False if the team's own PromQL expression says that the workload suffers; none if there is no expression or no answer.
    pub objective_is_met: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObservedPod {
    pub uid: String,
    pub name: String,
    /// The `resourceVersion`.
    pub version: String,
    pub mode: Mode,
    /// The reason that nobody may resize it: a VerticalPodAutoscaler acts on it, it is static, it terminates.
    pub left_alone: Option<String>,
    pub readiness: Readiness,
    /// The state of the last resize, by the conditions that the kubelet sets.
    pub kubelet: Kubelet,
    pub containers: Vec<ObservedContainer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Readiness {
    Ready,
    NotReady,
    /// Kubernetes has not heard of the node for a while. The containers may be well.
    NotHeardOf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kubelet {
    /// The containers have the size in the spec.
    Done,
    InProgress,
    Deferred,
    Infeasible,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ObservedContainer {
    pub name: String,
    /// The size in the spec.
    pub size: ContainerSize,
    /// The requests that it would be admitted with now; none for a resource without an estimate.
    pub wanted: Amounts,
    /// The days of its own history.
    pub days: u64,
    /// The least that its requests are lowered to, by its own history: of memory its peak, of CPU nothing, because the estimate
    /// leaves short bursts out. None without such a history.
    pub floor: Amounts,
    pub used: Option<Used>,
    /// The time of its last out-of-memory kill.
    pub killed: Option<Time>,
    /// The memory limit that it runs with; none while it does not run. The kubelet reports what it has set only for what runs.
    pub runs_with: Option<u64>,
    pub restarts: u32,
    /// The resources for which its `resizePolicy` is `RestartContainer`, or that a HorizontalPodAutoscaler scales by.
    pub is_left: Vec<ComputeResource>,
    /// The author's size, where the author allows limits to move with requests: in its proportion.
    pub scales: Option<ContainerSize>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Used {
    pub at: Time,
    pub amounts: Amounts,
    /// The mean of CPU over a quarter of an hour; none if less is known. A container that starts or collects garbage needs much
    /// more for seconds.
    pub mean_cpu: Option<u64>,
    /// The share of time in which it waited for CPU or was throttled, in percent.
    pub stalled_percent: Option<u32>,
}

impl ObservedPod {
    pub(crate) fn container(&self, name: &str) -> Option<&ObservedContainer> {
        self.containers.iter().find(|container| container.name == name)
    }
}

impl ObservedContainer {
    /// The limit beside a request, in the author's proportion; none if limits stay.
    pub(crate) fn scaled_limit(&self, resource: ComputeResource, request: u64) -> Option<u64> {
        let author = self.scales?;
        let (of, limit) = author.requests.of(resource).filter(|of| *of > 0).zip(author.limits.of(resource))?;
        u64::try_from((u128::from(request) * u128::from(limit)).div_ceil(u128::from(of))).ok()
    }

    /// The recent usage, unless it is too old.
    pub(crate) fn used(&self, now: Time, rules: &Rules) -> Option<&Used> {
        self.used.as_ref().filter(|used| now - used.at <= rules.stale_after)
    }
}
