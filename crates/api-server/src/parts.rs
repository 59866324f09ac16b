//! The parts of a program that have to run as long as it does: watches, a leader's work, servers.
//!
//! A part that ends unasked, also by a panic, ends the program: others may take over from one that is gone, and from none that
//! still answers while a part of it is dead. A part that hangs shows in `/healthz`, by which the kubelet ends the program.

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use anyhow::bail;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinError, JoinHandle};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

tokio::task_local! {
    static PULSE: Arc<Pulse>;
}

/// The longest time between two signs of life of a part that waits only for answers with a timeout, plus some seconds.
pub const BRIEF: Duration = Duration::from_secs(120);
/// For a part that waits for others.
pub const UNBOUNDED: Duration = Duration::MAX;

/// Runs parts, and tells of the first that failed, of those that hang, and how old what watches know is.
#[derive(Debug, Clone, Default)]
pub struct Parts(Arc<Running>);

#[derive(Debug, Default)]
struct Running {
    failed: watch::Sender<Option<String>>,
    tasks: Mutex<Vec<(Arc<Pulse>, AbortHandle)>>,
}

/// The signs of life of a part: it has one whenever it is woken.
#[derive(Debug)]
struct Pulse {
    part: String,
    /// The longest time from one sign of life to the next that its work allows.
    longest: Duration,
    last: Mutex<Instant>,
    /// The last moment up to which a watch knows everything; at first, when it began. Other parts have none.
    known: Mutex<Option<Instant>>,
    is_held: AtomicBool,
}

impl Pulse {
    fn beat(&self) {
        *locked(&self.last) = Instant::now();
    }

    async fn of<T>(self: Arc<Self>, part: impl Future<Output = T>) -> T {
        let mut part = pin!(PULSE.scope(Arc::clone(&self), part));
        poll_fn(|context| {
            if self.is_held.load(Ordering::Relaxed) {
                return Poll::Pending;
            }
            self.beat();
            part.as_mut().poll(context)
        })
        .await
    }
}

/// A sign of life of the part that calls this, amid work for which it does not wait.
pub fn alive() {
    // OK because commands for people have no parts.
    _ = PULSE.try_with(|pulse| pulse.beat());
}

/// Notes the moment up to which the watch that calls this knows everything.
pub fn knows(moment: Instant) {
    _ = PULSE.try_with(|pulse| *locked(&pulse.known) = Some(moment));
}

impl Collector for Parts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Time since the API server last confirmed what a watch knows";
        let mut family = encoder.encode_descriptor("watch_age_seconds", help, None, MetricType::Gauge)?;
        self.ages().iter().try_for_each(|(watch, age)| {
            ConstGauge::new(age.as_secs_f64()).encode(family.encode_family(&[("watch", watch.as_str())])?)
        })
    }
}

impl Parts {
    /// Runs a part that ends when it was asked to stop, and not before.
    pub fn run(
        &self,
        name: impl Into<String>,
        longest: Duration,
        stop: &CancellationToken,
        part: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        let name = name.into();
        let (last, known, is_held) = (Mutex::new(Instant::now()), Mutex::default(), AtomicBool::new(false));
        let pulse = Arc::new(Pulse { part: name.clone(), longest, last, known, is_held });
        let (running, stop) = (Arc::clone(&self.0), stop.clone());
        let part = tokio::spawn(Arc::clone(&pulse).of(part));
        let mut tasks = locked(&self.0.tasks);
        tasks.retain(|(_, task)| !task.is_finished());
        tasks.push((pulse, part.abort_handle()));
        tokio::spawn(async move {
            let is_broken = part.await.is_err();
            if is_broken || !stop.is_cancelled() {
                tracing::error!(part = %name, is_broken, "a part ended that nobody asked to end");
                running.failed.send_replace(Some(name));
            }
        })
    }

    /// Runs a part that ends when its work is done, whenever that is.
    pub fn finish(
        &self,
        name: impl Into<String>,
        longest: Duration,
        part: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        let stop = CancellationToken::new();
        stop.cancel();
        self.run(name, longest, &stop, part)
    }

    /// Like [`Self::run`], for a part that blocks its thread. It is alive when it calls [`alive`].
    pub fn run_blocking(
        &self,
        name: impl Into<String>,
        longest: Duration,
        stop: &CancellationToken,
        part: impl FnOnce() + Send + 'static,
    ) -> JoinHandle<()> {
        self.run(name, longest, stop, async move {
            let pulse = PULSE.get();
            let blocking = tokio::task::spawn_blocking(move || PULSE.sync_scope(pulse, part));
            if let Err(Ok(panic)) = blocking.await.map_err(JoinError::try_into_panic) {
                resume_unwind(panic);
            }
        })
    }

    /// Runs a program until its work is done, or until a part has failed.
    pub async fn or_failed<T>(&self, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        tokio::select! {
            // It may have been the work itself.
            biased;
            part = self.failed() => bail!("part `{part}` ended that nobody asked to end"),
            done = work => done,
        }
    }

    /// Returns when a part has failed, with its name.
    pub async fn failed(&self) -> String {
        let mut failed = self.0.failed.subscribe();
        // OK because the sender is held here.
        let name = failed.wait_for(Option::is_some).await.ok().and_then(|name| name.clone());
        name.unwrap_or_default()
    }

    /// Each part that runs, with the time since its last sign of life, if that is too long.
    pub fn silent(&self) -> Vec<(String, Option<Duration>)> {
        let of = |pulse: &Pulse| Some(locked(&pulse.last).elapsed()).filter(|silent| *silent > pulse.longest);
        self.running().into_iter().map(|pulse| (pulse.part.clone(), of(&pulse))).collect()
    }

    /// The age of what each watch knows, by the name of what it watches.
    pub fn ages(&self) -> BTreeMap<String, Duration> {
        let watches = self.running().into_iter().filter_map(|pulse| {
            let known = (*locked(&pulse.known))?;
            Some((watched(&pulse.part).to_owned(), known.elapsed()))
        });
        watches.collect()
    }

    /// A watch of those that matter that knows nothing newer than this, and the age of that. Each review asks, so nothing is collected.
    pub fn older(&self, than: Duration, matters: impl Fn(&str) -> bool) -> Option<(String, Duration)> {
        locked(&self.0.tasks).iter().filter(|(_, task)| !task.is_finished()).find_map(|(pulse, _)| {
            let age = (*locked(&pulse.known))?.elapsed();
            let watch = watched(&pulse.part);
            (age > than && matters(watch)).then(|| (watch.to_owned(), age))
        })
    }

    fn running(&self) -> Vec<Arc<Pulse>> {
        let tasks = locked(&self.0.tasks);
        tasks.iter().filter(|(_, task)| !task.is_finished()).map(|(pulse, _)| Arc::clone(pulse)).collect()
    }

    /// Returns which part hangs, if any.
    pub fn problem(&self) -> Option<String> {
        let (part, silent) = self.silent().into_iter().find_map(|(part, silent)| Some((part, silent?)))?;
        Some(format!("part `{part}`: no sign of life for {} s", silent.as_secs()))
    }

    /// Ends a part, or lets it hang: for tests.
    pub fn disturb(&self, name: &str, hangs: bool) {
        for (pulse, task) in locked(&self.0.tasks).iter().filter(|(pulse, _)| pulse.part == name) {
            pulse.is_held.store(true, Ordering::Relaxed);
            (!hangs).then(|| task.abort());
        }
    }
}

/// Gives access to what a lock guards. A part that panicked may have left half of a change behind, so nothing goes on with it.
#[expect(clippy::panic, reason = "the part that asks ends, and with it the program")]
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|_| panic!("a part panicked while it held this lock"))
}

/// The objects that a watch is about, by the name of its part.
fn watched(part: &str) -> &str {
    part.trim_start_matches("watch of ")
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, timeout};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test]
    async fn a_part_that_ends_unasked_is_told() {
        let (parts, stop) = (Parts::default(), CancellationToken::new());
        parts.run("asked", BRIEF, &stop, stop.clone().cancelled_owned());
        parts.finish("done", BRIEF, async {});
        stop.cancel();
        assert!(timeout(Duration::from_millis(100), parts.failed()).await.is_err());
        let running = CancellationToken::new();
        parts.run("watch", BRIEF, &running, async { sleep(Duration::from_millis(10)).await });
        assert_eq!(timeout(10 * SECOND, parts.failed()).await.unwrap(), "watch");

        let parts = Parts::default();
        let lock = Arc::new(Mutex::new(1));
        let held = Arc::clone(&lock);
        parts.run_blocking("panics", BRIEF, &running, move || {
            let _guard = locked(&held);
            panic!("for the test");
        });
        assert_eq!(timeout(10 * SECOND, parts.failed()).await.unwrap(), "panics");
        let parts = Parts::default();
        parts.finish("next", BRIEF, async move { drop(locked(&lock)) });
        let ended = timeout(10 * SECOND, parts.or_failed(std::future::pending::<anyhow::Result<()>>())).await;
        let problem = ended.unwrap().unwrap_err().to_string();
        assert_eq!(problem, "part `next` ended that nobody asked to end", "its lock is poisoned");
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_that_hangs_is_not_healthy() {
        let (parts, stop) = (Parts::default(), CancellationToken::new());
        parts.run("ticks", BRIEF, &stop, async {
            loop {
                sleep(SECOND).await;
            }
        });
        sleep(10 * BRIEF).await;
        assert_eq!(parts.problem(), None);
        parts.finish("hangs", 2 * BRIEF, std::future::pending());
        sleep(2 * BRIEF).await;
        assert_eq!(parts.problem(), None, "its work allows that");
        sleep(SECOND).await;
        assert_eq!(parts.problem().as_deref(), Some("part `hangs`: no sign of life for 241 s"));
    }

    #[tokio::test]
    async fn a_part_that_blocks_its_thread_lives_while_it_says_so() {
        let (parts, stop, is_alive) = (Parts::default(), CancellationToken::new(), Arc::new(AtomicBool::new(true)));
        let (goes_on, ends) = (Arc::clone(&is_alive), stop.clone());
        let blocking = parts.run_blocking("passes", SECOND, &stop, move || {
            while !ends.is_cancelled() {
                goes_on.load(Ordering::Relaxed).then(alive);
                std::thread::sleep(SECOND / 100);
            }
        });
        sleep(2 * SECOND).await;
        assert_eq!(parts.problem(), None);
        is_alive.store(false, Ordering::Relaxed);
        sleep(2 * SECOND).await;
        assert!(parts.problem().is_some());
        stop.cancel();
        blocking.await.unwrap();
    }
}
