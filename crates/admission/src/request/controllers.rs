//! In which order the controllers of workloads create pods and remove others, apart from any quota.
//!
//! A rollout is a sequence of at most three [`Stage`]s. Each creates pods of one template and removes old ones for them;
//! the next begins when all its pods run. It is assumed that each pod that is created also becomes ready.
//!
//! | controller | stages |
//! |---|---|
//! | ReplicaSet, Job, new workloads | the missing pods |
//! | Deployment, Recreate | all old pods go, then all new ones come |
//! | Deployment, RollingUpdate | its old ReplicaSet gets the new number of replicas; then each new pod that runs lets an old one go, as `maxUnavailable` lets some at first |
//! | StatefulSet | the missing pods, by their ordinals; then, once these run, the others are replaced in place |
//! | DaemonSet | the missing pods; then the others are replaced in place, or with `maxSurge` beside the old ones |

/// A change that may create new pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollout {
    /// The pods that the workload is to have at the same time.
    pub wanted: u64,
    /// The pods that it has.
    pub present: u64,
    /// Those of them that were created from the new template.
    pub current: u64,
    /// Removed pods that still terminate, and hold the quota until they are gone.
    pub terminating: u64,
    pub controller: Controller,
    /// The noun for what is counted: `replicas` or `pods`.
    pub noun: &'static str,
    /// The assumption behind the numbers, if any.
    pub assumption: Option<&'static str>,
    /// True if the assumption may well be wrong, so that nothing is refused by it.
    pub is_uncertain: bool,
}

/// The way in which a controller brings its pods to the wanted number and template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// Creates what is missing, and leaves the pods that it has.
    Adds { template: Template },
    /// Removes all old pods, then creates the new ones.
    Recreates,
    /// Rolls. `is_scaled`: the number of replicas changes too. `refills`: the old ReplicaSet creates what it lacks.
    Deployment { surge: u64, unavailable: u64, is_scaled: bool, refills: bool },
    /// Replaces so many at once, from the last ordinal down to the first that is `kept`.
    StatefulSet { at_once: u64, kept: u64 },
    /// Replaces so many at once, or creates up to `surge` pods beside old ones.
    DaemonSet { surge: u64, at_once: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    New,
    Old,
}

/// Pods that are created from one template, and the old pods that go for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    pub template: Template,
    pub pods: u64,
    /// The old pods that are removed before anything is created.
    pub removed_first: u64,
    /// The old pods that are removed as new ones run: `ahead` of them before the first runs, then one for each.
    pub replaced: u64,
    pub ahead: u64,
    /// The new pods that have to run before the next old ones go.
    pub batch: u64,
    /// The new pods that are created first, while all the replaced ones are there.
    pub surge: u64,
    /// The most by which the new pods may outnumber the replaced ones that have gone.
    pub ahead_of_gone: u64,
}

impl Rollout {
    /// Pods are added to those that stay.
    pub fn adding(wanted: u64, present: u64, noun: &'static str) -> Self {
        let controller = Controller::Adds { template: Template::New };
        Self { wanted, present, current: 0, terminating: 0, controller, noun, assumption: None, is_uncertain: false }
    }

    pub fn adds_pods(&self) -> bool {
        self.wanted > self.present
    }

    /// The pods that an old ReplicaSet creates before the new one does. If they do not fit, the rollout goes on without
    /// them.
    pub fn refill(&self) -> u64 {
        match self.controller {
            Controller::Deployment { refills: true, .. } => self.wanted.saturating_sub(self.present),
            _ => 0,
        }
    }

    /// The stages in their order, if the old ReplicaSet could create `refilled` pods.
    pub fn stages(&self, refilled: u64) -> [Stage; 3] {
        let Self { wanted, present, current, controller, .. } = *self;
        let missing = wanted.saturating_sub(present);
        let new = Stage::creating(Template::New, wanted - current.min(wanted));
        match controller {
            Controller::Adds { template } => [Stage::creating(template, missing), Stage::NONE, Stage::NONE],
            Controller::Recreates => [Stage { removed_first: present - current, ..new }, Stage::NONE, Stage::NONE],
            Controller::Deployment { surge, unavailable, is_scaled, .. } => {
                // Scaling comes before the rollout.
                let old = present - current;
                let removed_first = if is_scaled { present.saturating_sub(wanted).min(old) } else { 0 };
                let old = old - removed_first + refilled;
                let running = old + current;
                let needed = wanted - unavailable.min(wanted);
                // Without so many, no old pod may go.
                let lacking = needed.saturating_sub(running).min(new.pods);
                // The places of pods that the old ReplicaSet cannot create are given up when the first old pods go.
                let most = wanted.saturating_add(surge);
                let ahead_of_gone = most.saturating_sub(running);
                let surge =
                    if lacking > 0 { ahead_of_gone } else { most.saturating_sub(running + self.refill() - refilled) };
                [
                    Stage { removed_first, ..Stage::creating(Template::Old, refilled) },
                    Stage::creating(Template::New, lacking),
                    Stage {
                        pods: new.pods - lacking,
                        replaced: old,
                        ahead: running.saturating_sub(needed),
                        batch: 1,
                        surge: surge.saturating_sub(lacking),
                        ahead_of_gone: ahead_of_gone.saturating_sub(lacking),
                        ..new
                    },
                ]
            }
            Controller::StatefulSet { at_once, kept } => {
                let of_old = kept.min(wanted).saturating_sub(present);
                let renewed = present.min(wanted).saturating_sub(kept);
                let removed_first = present.saturating_sub(wanted);
                let in_place = Stage { removed_first, ..Stage::in_place(renewed, at_once) };
                [Stage::creating(Template::Old, of_old), Stage::creating(Template::New, missing - of_old), in_place]
            }
            Controller::DaemonSet { surge, at_once } => {
                let replaces = match surge {
                    0 => Stage::in_place(present, at_once),
                    _ => {
                        let beside = Stage { replaced: present, batch: 1, ..Stage::creating(Template::New, present) };
                        Stage { surge, ahead_of_gone: surge, ..beside }
                    }
                };
                [Stage::creating(Template::New, missing), replaces, Stage::NONE]
            }
        }
    }
}

impl Stage {
    const NONE: Self = Self::creating(Template::New, 0);

    const fn creating(template: Template, pods: u64) -> Self {
        Self {
            template,
            pods,
            removed_first: 0,
            replaced: 0,
            ahead: 0,
            batch: u64::MAX,
            surge: u64::MAX,
            ahead_of_gone: u64::MAX,
        }
    }

    /// Pods that are replaced, `at_once` of them after the other.
    const fn in_place(pods: u64, at_once: u64) -> Self {
        Self {
            replaced: pods,
            ahead: at_once,
            batch: at_once,
            surge: 0,
            ahead_of_gone: 0,
            ..Self::creating(Template::New, pods)
        }
    }

    /// The old pods that are gone when batch `index` is created, counted from 0.
    pub fn gone_before(&self, index: u64) -> u64 {
        let in_turn = self.ahead.saturating_add(index.saturating_mul(self.batch));
        self.removed_first + in_turn.min(self.replaced)
    }

    /// The old pods that are gone at the earliest moment at which `created` pods may exist.
    pub fn gone_at_least(&self, created: u64) -> u64 {
        let in_turn = match created {
            _ if created <= self.surge => 0,
            _ => self.ahead.max(created.saturating_sub(self.ahead_of_gone)),
        };
        self.removed_first + in_turn.min(self.replaced)
    }

    /// The old pods that are gone at its end.
    pub fn gone(&self) -> u64 {
        self.removed_first + self.replaced
    }
}
