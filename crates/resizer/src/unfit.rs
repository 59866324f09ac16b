//! The changes that did not fit, so that they are not asked about in each pass: the quota or LimitRange that refuses them is the
//! tenant's own, and so is their number.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use crate::decision::{Direction, PodChange};

/// The pause before the next try, which doubles up to the second.
const PAUSES: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(600)];
/// The pods of a namespace that are remembered. Further ones are not asked about before there is room again.
const MOST: usize = 500;

/// By namespace, the uid of the pod, and direction.
#[derive(Debug, Default)]
pub struct UnfitChanges(BTreeMap<String, HashMap<(String, Direction), Refusal>>);

#[derive(Debug)]
struct Refusal {
    why: String,
    at: Instant,
    pause: Duration,
}

impl UnfitChanges {
    /// Returns why a change does not fit, as far as it was found lately.
    pub fn known(&self, namespace: &str, change: &PodChange) -> Option<String> {
        let of = self.0.get(namespace)?;
        match of.get(&(change.uid.clone(), change.direction)) {
            Some(refusal) if refusal.at.elapsed() < refusal.pause => Some(refusal.why.clone()),
            None if of.len() >= MOST => Some("nor do those of many other pods of the namespace".to_owned()),
            _ => None,
        }
    }

    pub fn add(&mut self, namespace: &str, change: &PodChange, why: &str) {
        let [first, longest] = PAUSES;
        let key = (change.uid.clone(), change.direction);
        let of = self.0.entry(namespace.to_owned()).or_default();
        let pause = of.get(&key).map_or(first, |before| (before.pause * 2).min(longest));
        of.insert(key, Refusal { why: why.chars().take(300).collect(), at: Instant::now(), pause });
    }

    /// Forgets what was not asked about again long after its pause.
    pub fn forget_old(&mut self) {
        self.0.retain(|_, of| {
            of.retain(|_, refusal| refusal.at.elapsed() < refusal.pause + PAUSES[1]);
            !of.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::decision::{Phase, ResizeReason};

    use super::*;

    fn change(uid: usize, direction: Direction) -> PodChange {
        let (why, phase, containers) = (ResizeReason::Killed, Phase::Watched { since: 0 }, Vec::new());
        PodChange { uid: uid.to_string(), pod: "a".to_owned(), direction, why, begun: 0, containers, phase }
    }

    #[test]
    fn what_did_not_fit_is_not_asked_about_again_soon_and_others_are() {
        let (mut unfit, up) = (UnfitChanges::default(), |uid| change(uid, Direction::Up));
        unfit.add("shop", &up(0), "exceeded quota");
        assert_eq!(unfit.known("shop", &up(0)).as_deref(), Some("exceeded quota"));
        assert_eq!(unfit.known("shop", &change(0, Direction::Down)), None);
        assert_eq!(unfit.known("other", &up(0)), None);
        (0..MOST).for_each(|uid| unfit.add("shop", &up(uid), &"long".repeat(1_000)));
        assert!(unfit.known("shop", &up(MOST)).is_some(), "memory is bounded");
        assert_eq!(unfit.known("other", &up(MOST)), None);
    }
}
