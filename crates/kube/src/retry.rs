//! Waits between attempts: twice as long after each failure, and partly random.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// The number of attempts, and the waits between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    pub attempts: u32,
    /// The wait after the first failure; it doubles with each.
    pub first_wait: Duration,
    pub longest_wait: Duration,
}

impl Retry {
    pub const NEVER: Self = Self { attempts: 1, first_wait: Duration::ZERO, longest_wait: Duration::ZERO };

    /// The wait before the given attempt (the first failure is followed by attempt 1). It is shortened at random by up
    /// to a half, so that many clients do not return at the same moment.
    pub fn wait_before(&self, attempt: u32) -> Duration {
        let doubled = self.first_wait.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1)));
        let longest = doubled.min(self.longest_wait);
        // The hasher's keys are random; no other randomness is needed.
        let chance = RandomState::new().build_hasher().finish() % 512;
        longest - longest.saturating_mul(chance as u32) / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_vary_at_random() {
        let retry = Retry { attempts: 6, first_wait: Duration::from_secs(1), longest_wait: Duration::from_secs(60) };
        for (attempt, full) in [(1, 1), (2, 2), (3, 4), (7, 60), (100, 60)] {
            let wait = retry.wait_before(attempt);
            let full = Duration::from_secs(full);
            assert!(full / 2 <= wait && wait <= full, "{wait:?} before attempt {attempt}");
        }
    }
}
