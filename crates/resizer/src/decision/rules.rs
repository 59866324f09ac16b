//! The rules as numbers.

use crate::decision::Time;
use crate::decision::amounts::{ComputeResource, MEBIBYTE};

pub const DAY: Time = 86_400;

#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Days of its own history before anything of a container is lowered.
    pub history_days: u64,
    /// A request is lowered to no less than this share of itself, in percent.
    pub least_left_percent: u64,
    /// The smallest change worth making, in percent of the request and in absolute amounts.
    pub worth_percent: u64,
    pub worth_cpu: u64,
    pub worth_memory: u64,
    /// CPU counts as lacking from this share of the request on, in percent: an estimate leaves short bursts out.
    pub cpu_lacks_percent: u64,
    /// The room above what a container uses when its request is raised for its use, in percent of the use.
    pub margin_percent: u64,
    /// Memory is written in multiples of this, unless the amount is admission's or a limit's.
    pub memory_step: u64,
    /// The least that a memory limit is raised by after an out-of-memory kill; else a fifth.
    pub kill_raise: u64,
    /// The time for which a kill is a reason to raise memory.
    pub kill_counts_for: Time,
    /// Where limits may move, memory counts as lacking from this share of its limit on, too, in percent.
    pub near_limit_percent: u64,
    /// The raises of a memory limit that a pod gets in a week: one that leaks gets no more.
    pub limit_raises_a_week: usize,
    pub changes_a_day: usize,
    pub watch: Time,
    /// A change that the kubelet has not made in this time holds up the workload no longer.
    pub kubelet_is_stuck_after: Time,
    /// Usage that is older does not count.
    pub stale_after: Time,
    /// By how many points throttling or pressure may grow after a decrease.
    pub stall_points: u32,
    /// The time for which a container is left alone after its first change that was taken back, and after further ones.
    pub left_alone: [Time; 2],
    /// The time for which changes that were taken back are remembered.
    pub strikes_count_for: Time,
    /// After so many pods whose kubelets deferred a change or cannot make it, the next strike is about all pods.
    pub most_full_nodes: usize,
    /// After so many refusals a change is not taken back any more.
    pub most_refused: u32,
    /// The containers whose last change is remembered to be undone, and the changes that are remembered at all. With more, a
    /// workload's record would outgrow its object.
    pub most_undoable: usize,
    pub most_past: usize,
    pub at_once: AtOnce,
}

/// The largest number of pods with a change under way.
#[derive(Debug, Clone, Copy)]
pub struct AtOnce {
    pub workload: usize,
    pub namespace: usize,
    pub cluster: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            history_days: 7,
            least_left_percent: 67,
            worth_percent: 20,
            worth_cpu: 10,
            worth_memory: 16 << 20,
            cpu_lacks_percent: 200,
            margin_percent: 20,
            memory_step: MEBIBYTE,
            kill_raise: 100 << 20,
            kill_counts_for: 3600,
            near_limit_percent: 90,
            limit_raises_a_week: 4,
            changes_a_day: 2,
            watch: 600,
            kubelet_is_stuck_after: 1800,
            stale_after: 300,
            stall_points: 10,
            left_alone: [DAY, 7 * DAY],
            strikes_count_for: 30 * DAY,
            most_full_nodes: 10,
            most_refused: 5,
            most_undoable: 500,
            most_past: 4_000,
            at_once: AtOnce { workload: 10, namespace: 20, cluster: 50 },
        }
    }
}

impl Rules {
    pub fn is_worth(&self, resource: ComputeResource, from: u64, to: u64) -> bool {
        let least = match resource {
            ComputeResource::Cpu => self.worth_cpu,
            ComputeResource::Memory => self.worth_memory,
        };
        from.abs_diff(to) >= least && from.abs_diff(to).saturating_mul(100) >= from.saturating_mul(self.worth_percent)
    }

    pub fn is_lacking(&self, resource: ComputeResource, used: u64, request: u64) -> bool {
        match resource {
            ComputeResource::Cpu => used > percent(request, self.cpu_lacks_percent),
            ComputeResource::Memory => used > request,
        }
    }

    /// An amount that people can read, and at least as much.
    pub fn rounded(&self, resource: ComputeResource, amount: u64) -> u64 {
        match resource {
            ComputeResource::Cpu => amount,
            ComputeResource::Memory => amount.checked_next_multiple_of(self.memory_step).unwrap_or(amount),
        }
    }
}

/// Rounds up.
pub fn percent(amount: u64, percent: u64) -> u64 {
    u64::try_from((u128::from(amount) * u128::from(percent)).div_ceil(100)).unwrap_or(u64::MAX)
}
