//! The next size of one container.

use crate::decision::rules::percent;
use crate::decision::{ComputeResource, ContainerSize, ObservedContainer, ResizeReason, Rules, Time};

/// The changes of the pod before.
#[derive(Debug, Clone, Copy)]
pub struct Before {
    pub now: Time,
    /// The start of its last change.
    pub last_change: Option<Time>,
    /// Kills until then were at limits of before.
    pub kills_count_after: Option<Time>,
    /// The raises of its memory limit in the last week.
    pub limit_raises: usize,
}

/// A larger size after a kill, for lasting use, or for today's admission, and the most urgent reason for it.
pub fn raised(container: &ObservedContainer, before: &Before, rules: &Rules) -> Option<(ContainerSize, ResizeReason)> {
    let killed = after_kill(container, before, rules);
    let mut why = killed.map(|_| ResizeReason::Killed);
    let mut size = killed.unwrap_or(container.size);
    for resource in ComputeResource::ALL {
        if let Some((request, limit, reason)) = more(container, &size, resource, before, rules) {
            size.requests.set(resource, request);
            limit.into_iter().for_each(|limit| size.limits.set(resource, limit));
            why = why.into_iter().chain([reason]).min();
        }
    }
    why.map(|why| (size, why))
}

/// A larger request, the limit beside it if there is one, and the reason.
fn more(
    container: &ObservedContainer,
    size: &ContainerSize,
    resource: ComputeResource,
    before: &Before,
    rules: &Rules,
) -> Option<(u64, Option<u64>, ResizeReason)> {
    let (request, limit) = (size.requests.of(resource)?, size.limits.of(resource));
    if container.is_left.contains(&resource) {
        return None;
    }
    // Limits move where their author allows it, and were not raised too often already.
    let scaled = |to| {
        let limit = container.scaled_limit(resource, to).filter(|_| before.limit_raises < rules.limit_raises_a_week)?;
        Some(if limit == to { to } else { rules.rounded(resource, limit) })
    };
    // The kernel is about to kill.
    let is_near_limit = |used| {
        let is_near = limit.is_some_and(|limit| used > percent(limit, rules.near_limit_percent));
        resource == ComputeResource::Memory && is_near && scaled(used).is_some()
    };
    // Usage from before the last change says nothing about the size of now.
    let used = container.used(before.now, rules).filter(|used| before.last_change.is_none_or(|last| last < used.at));
    let used = used.and_then(|used| match resource {
        ComputeResource::Cpu => used.mean_cpu,
        ComputeResource::Memory => used.amounts.memory,
    });
    let wanted = container.wanted.of(resource).unwrap_or(0);
    let (to, why) = match used.filter(|used| rules.is_lacking(resource, *used, request) || is_near_limit(*used)) {
        Some(used) => {
            (rules.rounded(resource, percent(used, 100 + rules.margin_percent)).max(wanted), ResizeReason::Used)
        }
        None if wanted > request && rules.is_worth(resource, request, wanted) => (wanted, ResizeReason::Admission),
        None => return None,
    };
    let limit = limit.map(|limit| scaled(to).map_or(limit, |scaled| scaled.max(limit)));
    // A request may not exceed its limit.
    let to = limit.map_or(to, |limit| to.min(limit));
    (to > request).then_some((to, limit, why))
}

/// The size of a container that was killed at its memory limit: with a higher one, and the request as before, unless they are equal.
pub fn after_kill(container: &ObservedContainer, before: &Before, rules: &Rules) -> Option<ContainerSize> {
    let is_reason = |killed: Time| {
        // A node whose clock is ahead says that it was later, and would be believed again after the raise.
        let age = before.now - killed;
        let is_new = before.kills_count_after.is_none_or(|after| after < killed);
        is_new && (0..rules.kill_counts_for).contains(&age)
    };
    let mut size = container.size;
    let limit = size.limits.memory?;
    // Kubernetes 1.36 leaves the cgroup of a pod at its old limit if none of its containers runs at the moment of a resize, as
    // in a crash loop. Then only another raise helps, while it runs; and one that was not in force is not found too small.
    let may_raise = match before.limit_raises {
        0 => true,
        raises => raises < rules.limit_raises_a_week && container.runs_with == Some(limit),
    };
    if container.is_left.contains(&ComputeResource::Memory) || !may_raise || !container.killed.is_some_and(is_reason) {
        return None;
    }
    let raised = percent(limit, 120).max(limit.saturating_add(rules.kill_raise));
    let to = rules.rounded(ComputeResource::Memory, raised);
    size.limits.memory = Some(to);
    if size.requests.memory == Some(limit) {
        size.requests.memory = Some(to);
    }
    Some(size)
}

/// A smaller size. Memory limits stay, and a CPU limit moves only where it equals the request and its author allows it.
pub fn lowered(container: &ObservedContainer, now: Time, rules: &Rules) -> Option<ContainerSize> {
    let used = container.used(now, rules)?;
    if container.days < rules.history_days {
        return None;
    }
    let mut size = container.size;
    for resource in ComputeResource::ALL {
        let (Some(request), Some(wanted)) = (size.requests.of(resource), container.wanted.of(resource)) else {
            continue;
        };
        let (Some(floor), Some(used)) = (container.floor.of(resource), used.amounts.of(resource)) else { continue };
        let to = wanted.max(rules.rounded(resource, percent(request, rules.least_left_percent).max(floor).max(used)));
        if container.is_left.contains(&resource) || to >= request || !rules.is_worth(resource, request, to) {
            continue;
        }
        if size.limits.of(resource) == Some(request) {
            if resource == ComputeResource::Memory || container.scaled_limit(resource, to) != Some(to) {
                continue;
            }
            size.limits.set(resource, to);
        }
        size.requests.set(resource, to);
    }
    (size != container.size).then_some(size)
}
