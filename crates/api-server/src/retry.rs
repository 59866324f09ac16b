//! Repeats an operation that failed.

use std::fmt::Display;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    pub attempts: u32,
    /// The wait after the first failure; it doubles with each. Each is lengthened at random, up to twice, so that many clients do not
    /// return at the same moment.
    pub first_wait: Duration,
    pub longest_wait: Duration,
}

impl Retry {
    pub const NEVER: Self = Self { attempts: 1, first_wait: Duration::ZERO, longest_wait: Duration::ZERO };

    /// Makes attempts until one succeeds, one fails for a reason that does not pass, or all have failed.
    pub async fn run<T, E: Display, A: Future<Output = Result<T, E>>>(
        &self,
        may_pass: impl Fn(&E) -> bool,
        attempt: impl FnMut() -> A,
    ) -> Result<T, E> {
        let waits = ExponentialBuilder::new()
            .with_min_delay(self.first_wait)
            .with_max_delay(self.longest_wait)
            .with_max_times(self.attempts.saturating_sub(1) as usize)
            .with_jitter();
        let warn = |error: &E, wait: Duration| {
            tracing::warn!(%error, wait_seconds = wait.as_secs_f32(), "trying again");
        };
        attempt.retry(waits).when(may_pass).notify(warn).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: Retry =
        Retry { attempts: 6, first_wait: Duration::from_secs(1), longest_wait: Duration::from_secs(60) };

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
