//! Reads a store at a pace that it bears: several queries at a time, each within a time limit.

use std::collections::VecDeque;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio_util::sync::CancellationToken;

use super::SourceError;

/// Limits the time of a read. A store that does not answer in time is asked for too much.
pub async fn within<T>(
    timeout: Duration,
    read: impl Future<Output = Result<T, SourceError>>,
) -> Result<T, SourceError> {
    let late = |_| Err(SourceError::Overloaded(format!("no answer within {} s", timeout.as_secs())));
    tokio::time::timeout(timeout, read).await.unwrap_or_else(late)
}

/// Reads all `queries`, up to `concurrency` at a time. `take` gets each query with its result, and returns the queries that
/// come next, such as its halves if it was too large. Returns false if `stop` ended the reading, which drops the reads that are
/// under way.
pub async fn read_all<Q, T, E, R: Future<Output = (Q, T)>>(
    mut queries: VecDeque<Q>,
    concurrency: usize,
    stop: &CancellationToken,
    read: impl Fn(Q) -> R,
    mut take: impl FnMut(&mut VecDeque<Q>, Q, T) -> Result<(), E>,
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
            Some(Some((query, result))) => take(&mut queries, query, result)?,
        }
    }
}
