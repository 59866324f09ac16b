//! The next size of one container.

use crate::{Container, Resource, Rules, Size, Time, Why};

/// The changes of the pod before.
#[derive(Debug, Clone, Copy)]
pub struct Before {
    pub now: Time,
    /// The start of its last change.
    pub last_change: Option<Time>,
    pub limit_raises_left: bool,
}

impl Before {
    fn is_since_last_change(&self, at: Time) -> bool {
        self.last_change.is_none_or(|last| last < at)
    }
}

/// A larger size, and the reason for it.
pub fn raised(container: &Container, before: &Before, rules: &Rules) -> Option<(Size, Why)> {
    let mut size = container.size;
    let mut why = after_kill(container, before, rules, &mut size).then_some(Why::Killed);
    for resource in Resource::ALL {
        let Some(request) = size.requests.of(resource) else { continue };
        if container.is_scaled_by.is(resource) || container.restarts_for.is(resource) {
            continue;
        }
        let wanted = container.wanted.of(resource).unwrap_or(0);
        let used = container.used(before.now, rules).filter(|used| before.is_since_last_change(used.at));
        let used = used.and_then(|used| used.lasting(resource));
        let limit = size.limits.of(resource);
        let scaled = |to| container.scaled_limit(resource, to).filter(|_| before.limit_raises_left);
        let is_near_limit =
            |used| scaled(used).is_some() && limit.is_some_and(|limit| rules.is_near_limit(resource, used, limit));
        let used = used.filter(|used| rules.is_lacking(resource, *used, request) || is_near_limit(*used));
        let to = match used {
            Some(used) => rules.with_margin(used).max(wanted),
            None if wanted > request && rules.is_worth(resource, request, wanted) => wanted,
            None => continue,
        };
        let limit = limit.map(|limit| scaled(to).map_or(limit, |scaled| scaled.max(limit)));
        let to = limit.map_or(to, |limit| to.min(limit));
        if to > request {
            size.requests.set(resource, to);
            limit.into_iter().for_each(|limit| size.limits.set(resource, limit));
            let this = if used.is_some() { Why::Used } else { Why::Admission };
            why = Some(why.map_or(this, |why| why.min(this)));
        }
    }
    why.map(|why| (size, why))
}

/// Raises the memory limit of a container that was killed at it.
fn after_kill(container: &Container, before: &Before, rules: &Rules, size: &mut Size) -> bool {
    let is_reason = |killed: Time| {
        // A node whose clock is ahead says that it was later, and would be believed again after the raise.
        let age = before.now - killed;
        before.is_since_last_change(killed) && (0..rules.kill_counts_for).contains(&age) && before.limit_raises_left
    };
    let Some(limit) = size.limits.memory else { return false };
    let is_left = container.is_scaled_by.memory || container.restarts_for.memory;
    if is_left || !container.killed.is_some_and(is_reason) {
        return false;
    }
    let to = rules.after_kill(limit);
    size.limits.memory = Some(to);
    if size.requests.memory == Some(limit) {
        size.requests.memory = Some(to);
    }
    true
}

/// A smaller size. Memory limits stay, and a CPU limit moves only where it equals the request and its author allows it.
pub fn lowered(container: &Container, now: Time, rules: &Rules) -> Option<Size> {
    let used = container.used(now, rules)?;
    if container.days < rules.history_days {
        return None;
    }
    let mut size = container.size;
    for resource in Resource::ALL {
        let (Some(request), Some(wanted)) = (size.requests.of(resource), container.wanted.of(resource)) else {
            continue;
        };
        let (Some(floor), Some(used)) = (container.floor.of(resource), used.amounts.of(resource)) else { continue };
        if container.is_scaled_by.is(resource) || container.restarts_for.is(resource) {
            continue;
        }
        let to = wanted.max(rules.least_left(request)).max(floor).max(used);
        if to >= request || !rules.is_worth(resource, request, to) {
            continue;
        }
        if size.limits.of(resource) == Some(request) {
            if resource == Resource::Memory || container.scaled_limit(resource, to) != Some(to) {
                continue;
            }
            size.limits.set(resource, to);
        }
        size.requests.set(resource, to);
    }
    (size != container.size).then_some(size)
}
