//! The parts of a program that have to run as long as it does: watches, a leader's work, servers.
//!
//! A part that ends unasked, also by a panic, ends the program: others may take over from one that is gone, and from none that
//! still answers while a part of it is dead.

use std::future::Future;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Runs parts, and tells of the first that failed.
#[derive(Debug, Clone)]
pub struct Parts(watch::Sender<Option<&'static str>>);

impl Default for Parts {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Parts {
    /// Runs a part that ends when it was asked to stop, and not before.
    pub fn run(
        &self,
        name: &'static str,
        stop: &CancellationToken,
        part: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        let stop = stop.clone();
        self.watch(name, part, move || stop.is_cancelled())
    }

    /// Runs a part that ends when its work is done, whenever that is.
    pub fn finish(&self, name: &'static str, part: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        self.watch(name, part, || true)
    }

    fn watch(
        &self,
        name: &'static str,
        part: impl Future<Output = ()> + Send + 'static,
        may_end: impl Fn() -> bool + Send + 'static,
    ) -> JoinHandle<()> {
        let (failed, part) = (self.0.clone(), tokio::spawn(part));
        tokio::spawn(async move {
            let has_panicked = part.await.is_err_and(|error| error.is_panic());
            if has_panicked || !may_end() {
                tracing::error!(part = name, has_panicked, "a part ended that nobody asked to end");
                failed.send_replace(Some(name));
            }
        })
    }

    /// Returns when a part has failed, with its name.
    pub async fn failed(&self) -> &'static str {
        let mut failed = self.0.subscribe();
        // OK because the sender is held here.
        let name = failed.wait_for(Option::is_some).await.ok().and_then(|name| *name);
        name.unwrap_or_default()
    }
}

/// Gives access to what a lock guards. A part that panicked may have left half of a change behind, so nothing goes on with it.
#[expect(clippy::panic, reason = "the part that asks ends, and with it the program")]
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|_| panic!("a part panicked while it held this lock"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::{sleep, timeout};

    use super::*;

    #[tokio::test]
    async fn a_part_that_ends_unasked_is_told() {
        let (parts, stop) = (Parts::default(), CancellationToken::new());
        parts.run("asked", &stop, stop.clone().cancelled_owned());
        parts.finish("done", async {});
        stop.cancel();
        assert!(timeout(Duration::from_millis(100), parts.failed()).await.is_err());
        let running = CancellationToken::new();
        parts.run("watch", &running, async { sleep(Duration::from_millis(10)).await });
        assert_eq!(timeout(Duration::from_secs(10), parts.failed()).await, Ok("watch"));

        let parts = Parts::default();
        let lock = Arc::new(Mutex::new(1));
        let held = Arc::clone(&lock);
        parts.finish("panics", async move {
            let _guard = locked(&held);
            panic!("for the test");
        });
        assert_eq!(timeout(Duration::from_secs(10), parts.failed()).await, Ok("panics"));
        let parts = Parts::default();
        parts.finish("next", async move { drop(locked(&lock)) });
        assert_eq!(timeout(Duration::from_secs(10), parts.failed()).await, Ok("next"), "its lock is poisoned");
    }
}
