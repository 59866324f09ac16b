//! Follows a collection: lists it from etcd, then watches it from that revision on.
//!
//! kube-runtime's watcher hides revisions and bookmarks. The quota server needs both, to know up to which revision it has
//! seen all changes. It reduces every pod of a cluster to a few amounts, so objects are read in place.

use std::pin::pin;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use futures::{AsyncBufReadExt, AsyncReadExt as _};
use headroom_admission::json::Node;
use http::{Request, header};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api_client::{ApiClient, ApiError, JSON, ListOptions, METADATA, document, revision_in};
use crate::api_path::ApiPath;
use crate::parts::knows;

/// An update of a collection, with whole objects or reduced ones.
#[derive(Debug)]
pub enum WatchUpdate<T = Value> {
    /// All objects at a revision. Replaces everything seen before.
    Listed(u64, Vec<T>),
    Stored(T),
    Deleted(T),
    /// Nothing else has changed up to this revision.
    UpTo(u64),
    /// The collection cannot be listed, and a retry will not help soon: permissions are missing, or the kind is not
    /// served. What was seen is no longer known.
    Lost(String),
}

/// The API server ends a watch after this many seconds, and a new one starts.
const MAX_WATCH_SECONDS: u64 = 290;
/// The longest event. Objects have at most 1.5 MiB in etcd.
const MAX_EVENT_BYTES: u64 = 32 << 20;
/// The longest time without an answer or an event of a watch, which has bookmarks every minute, and the first after two (seen at
/// 1.36). Then it is listed again, which finds out whether the API server is there also where it sends none.
const MAX_SILENCE: Duration = Duration::from_secs(150);
/// A watch falls this far behind only if it cannot list again either.
pub const OLD: Duration = Duration::from_secs(300);
/// The first pause after a failure, and the longest: each is twice the one before it, and more by chance, so that the programs of
/// a cluster do not ask all at once when its API server is back.
const RETRY_DELAY: Duration = Duration::from_millis(200);
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// With this many failures one after the other, people are told.
const WORTH_A_WARNING: u32 = 3;
/// With this many, what was seen may be missing something: list again.
const TOO_MANY: u32 = 8;

/// Calls `notify` for each update of a collection until `stop`, and notes for the part up to when it knows all of them. The
/// options select the objects, and the part of them; `read` reduces an object, or drops it.
pub async fn follow<T>(
    api: ApiClient,
    path: ApiPath,
    options: ListOptions<'_>,
    stop: CancellationToken,
    read: impl Fn(Node<'_>) -> Option<T>,
    mut notify: impl FnMut(WatchUpdate<T>),
) {
    let following = async {
        let mut failures = 0;
        knows(Instant::now());
        loop {
            let asked = Instant::now();
            let mut revision = match api.list(&path, options, &read).await {
                Ok((revision, items)) => {
                    // Whoever is woken looks at the age.
                    knows(asked);
                    notify(WatchUpdate::Listed(revision, items));
                    revision
                }
                Err(error) => {
                    tracing::warn!(%path, failure = %error, "cannot list");
                    // Keep what was seen while the API server is briefly unavailable.
                    if error.is_lasting() {
                        notify(WatchUpdate::Lost(error.to_string()));
                    }
                    failures += 1;
                    pause(failures).await;
                    continue;
                }
            };
            // A watch that ended early continues from its revision, until that is too old for the API server.
            loop {
                let before = revision;
                let ends = watch(&api, &path, options, MAX_WATCH_SECONDS, &mut revision, &read, &mut notify).await;
                failures =
                    if revision > before || matches!(ends, Ends::InTime | Ends::Silent) { 0 } else { failures + 1 };
                if let Ends::Early(failure) | Ends::Gone(failure) = &ends {
                    match failures {
                        0..WORTH_A_WARNING => tracing::debug!(%path, failure, "a watch ended"),
                        _ => tracing::warn!(%path, failure, failures, "cannot watch: what is known may be old"),
                    }
                }
                pause(failures).await;
                if matches!(ends, Ends::Gone(_) | Ends::Silent) || failures >= TOO_MANY {
                    break;
                }
            }
        }
    };
    stop.run_until_cancelled(following).await;
}

async fn pause(failures: u32) {
    let delays =
        ExponentialBuilder::new().with_min_delay(RETRY_DELAY).with_max_delay(LONGEST_DELAY).without_max_times();
    let delay = delays.with_jitter().build().nth(failures.saturating_sub(1) as usize);
    tokio::time::sleep(delay.unwrap_or(LONGEST_DELAY)).await;
}

pub(crate) enum Ends {
    /// The API server ends each watch after some minutes.
    InTime,
    Early(String),
    /// Nothing came for so long that even bookmarks are missing.
    Silent,
    /// The revision is too old: the collection must be listed again.
    Gone(String),
}

pub(crate) async fn watch<T>(
    api: &ApiClient,
    path: &ApiPath,
    options: ListOptions<'_>,
    seconds: u64,
    revision: &mut u64,
    read: &impl Fn(Node<'_>) -> Option<T>,
    notify: &mut impl FnMut(WatchUpdate<T>),
) -> Ends {
    let query = format!("watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={revision}");
    let accept = if options.only_metadata { METADATA } else { JSON };
    let request = Request::get(format!("{path}?{query}{}", options.selectors())).header(header::ACCEPT, accept);
    // From Kubernetes 1.37 on, each event would be compressed on its own.
    let request = request.header(header::ACCEPT_ENCODING, "identity").body(Vec::new());
    let Ok(request) = request else { return Ends::Gone("its path is no path".to_owned()) };
    let begun = Instant::now();
    let events = match tokio::time::timeout(MAX_SILENCE, api.client().request_stream(request)).await {
        Ok(Ok(events)) => events,
        Ok(Err(kube::Error::Api(status))) if status.code == 410 => return Ends::Gone(status.message),
        Ok(Err(error)) => return Ends::Early(ApiError::from(error).to_string()),
        Err(_) => return Ends::Silent,
    };
    let (mut events, mut line) = (pin!(events), Vec::new());
    loop {
        line.clear();
        // A longer one is read in pieces, of which the first is no event.
        let mut event = events.as_mut().take(MAX_EVENT_BYTES);
        match tokio::time::timeout(MAX_SILENCE, event.read_until(b'\n', &mut line)).await {
            Ok(Ok(0)) if begun.elapsed() >= LONGEST_DELAY.min(Duration::from_secs(seconds)) => return Ends::InTime,
            Ok(Ok(0)) => return Ends::Early("it ended at once".to_owned()),
            Ok(Ok(_)) => {}
            Ok(Err(failure)) => return Ends::Early(failure.to_string()),
            Err(_) => return Ends::Silent,
        }
        // The last line of a connection that broke is not whole.
        let Ok(event) = document(&line) else { return Ends::Early("an event is not whole".to_owned()) };
        let field = |name| event.root().get(name).ok().flatten();
        let (Some(kind), Some(object)) = (field("type").and_then(|kind| kind.str().ok()), field("object")) else {
            return Ends::Gone("an event has no type or no object".to_owned());
        };
        if kind == "ERROR" {
            let is_gone = object.get("code").is_ok_and(|code| code.is_some_and(|code| code.text() == "410"));
            let status = object.text().to_owned();
            return if is_gone { Ends::Gone(status) } else { Ends::Early(status) };
        }
        // Without a revision nothing can be counted: list again.
        let Some(seen) = revision_in(object) else { return Ends::Gone("an object has no revision".to_owned()) };
        *revision = seen;
        knows(Instant::now());
        match kind.as_ref() {
            "BOOKMARK" => notify(WatchUpdate::UpTo(seen)),
            "DELETED" => read(object).map(WatchUpdate::Deleted).into_iter().for_each(&mut *notify),
            _ => read(object).map(WatchUpdate::Stored).into_iter().for_each(&mut *notify),
        }
    }
}
