//! Reads a store at a pace that it bears: several queries at a time, each within a time limit, and those that are too large in
//! halves.

use std::collections::VecDeque;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt as _};
use headroom_usage::sample::Window;
use tokio_util::sync::CancellationToken;

use super::SourceError;

/// The usage of some namespaces in a window, which is read at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageSlice {
    pub namespaces: Vec<String>,
    pub window: Window,
}

impl UsageSlice {
    /// Half of the namespaces each, or of the window if there is one; none of a single step.
    pub fn halves(&self, step: i64) -> Option<[Self; 2]> {
        let window = self.window;
        if self.namespaces.len() > 1 {
            let (first, second) = self.namespaces.split_at(self.namespaces.len() / 2);
            return Some([first, second].map(|half| Self { namespaces: half.to_vec(), window }));
        }
        Some(window.halves(step)?.map(|window| Self { namespaces: self.namespaces.clone(), window }))
    }

    pub fn names(&self) -> Vec<&str> {
        self.namespaces.iter().map(String::as_str).collect()
    }
}

/// Limits the time of a read. A store that does not answer in time is asked for too much.
pub async fn within<T>(
    timeout: Duration,
    read: impl Future<Output = Result<T, SourceError>>,
) -> Result<T, SourceError> {
    let late = |_| Err(SourceError::Overloaded(format!("no answer within {} s", timeout.as_secs())));
    tokio::time::timeout(timeout, read).await.unwrap_or_else(late)
}

/// Reads all `queries`, up to `concurrency` at a time. One that fails is read in the halves that `cut` makes of it; `take` gets
/// each other with its result. Returns false if `stop` ended the reading, which drops the reads that are under way.
pub async fn read_all<Q, T, E, R: Future<Output = (Q, Result<T, SourceError>)>>(
    mut queries: VecDeque<Q>,
    concurrency: usize,
    stop: &CancellationToken,
    read: impl Fn(Q) -> R,
    cut: impl Fn(&Q, &SourceError) -> Option<[Q; 2]>,
    mut take: impl FnMut(Q, Result<T, SourceError>) -> Result<(), E>,
) -> Result<bool, E> {
    let mut reads = FuturesUnordered::new();
    loop {
        while reads.len() < concurrency.max(1)
            && let Some(query) = queries.pop_front()
        {
            reads.push(read(query));
        }
        match stop.run_until_cancelled(reads.next()).await {
            None => return Ok(false),
            Some(None) => return Ok(true),
            Some(Some((query, result))) => match result.as_ref().err().and_then(|error| cut(&query, error)) {
                Some(halves) => halves.into_iter().rev().for_each(|half| queries.push_front(half)),
                None => take(query, result)?,
            },
        }
    }
}
