//! Repeats an operation that failed. Waits between attempts double after each failure and are partly random.

use std::fmt::Display;
use std::time::Duration;

use crate::random;

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

    /// Makes attempts until one succeeds, one fails for a reason that does not pass, or all have failed.
    pub async fn run<T, E: Display, A: Future<Output = Result<T, E>>>(
        &self,
        may_pass: impl Fn(&E) -> bool,
        mut attempt: impl FnMut() -> A,
    ) -> Result<T, E> {
        let mut failures = 0;
        loop {
            match attempt().await {
                Err(error) if failures + 1 < self.attempts && may_pass(&error) => {
                    failures += 1;
                    let wait = self.wait_after(failures);
                    tracing::warn!(%error, wait_seconds = wait.as_secs_f32(), "trying again");
                    tokio::time::sleep(wait).await;
                }
                done => return done,
            }
        }
    }

    /// The wait after so many failures. It is shortened at random by up to a half, so that many clients do not return at the
    /// same moment.
    fn wait_after(&self, failures: u32) -> Duration {
        let doubled = self.first_wait.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1)));
        let longest = doubled.min(self.longest_wait);
        let chance = random::number() % 512;
        longest - longest.saturating_mul(chance as u32) / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: Retry =
        Retry { attempts: 6, first_wait: Duration::from_secs(1), longest_wait: Duration::from_secs(60) };

    #[test]
    fn waits_double_up_to_the_longest_and_vary_at_random() {
        for (failures, full) in [(1, 1), (2, 2), (3, 4), (7, 60), (100, 60)] {
            let wait = RETRY.wait_after(failures);
            let full = Duration::from_secs(full);
            assert!(full / 2 <= wait && wait <= full, "{wait:?} after {failures} failures");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_failures_that_may_pass_are_repeated_and_not_for_ever() {
        for (failing, may_pass, expected) in [(0, true, 1), (3, true, 4), (9, true, 6), (9, false, 1)] {
            let mut attempts = 0;
            let done = RETRY.run(
                |_| may_pass,
                || {
                    attempts += 1;
                    std::future::ready(if attempts > failing { Ok(()) } else { Err("busy") })
                },
            );
            assert_eq!(done.await.is_ok(), expected > failing);
            assert_eq!(attempts, expected);
        }
    }
}
