//! Follows a collection: lists it from etcd, then watches it from that revision on.
//!
//! kube-runtime's watcher hides revisions and bookmarks. The quota server needs both: they tell up to which revision it
//! has seen all changes.

use std::pin::pin;
use std::time::Duration;

use futures::TryStreamExt;
use http::Request;
use kube::core::WatchEvent;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::api_client::{ApiClient, ApiError, revision_of};
use crate::api_path::ApiPath;

/// An update of a collection, with whole objects or reduced ones.
#[derive(Debug)]
pub enum Seen<T = Value> {
    /// All objects at a revision. Replaces everything seen before.
    Listed(u64, Vec<T>),
    Stored(T),
    Deleted(Value),
    /// Nothing else has changed up to this revision.
    UpTo(u64),
    /// The collection cannot be listed, and a retry will not help soon: permissions are missing, or the kind is not
    /// served.
    Lost(String),
}

/// The API server ends a watch after this many seconds, and a new one starts.
const MAX_WATCH_SECONDS: u64 = 290;
/// The longest time without events of a watch, which has bookmarks every minute.
const MAX_SILENCE: Duration = Duration::from_secs(MAX_WATCH_SECONDS + 10);
const RETRY_DELAY: Duration = Duration::from_millis(200);
const LONG_RETRY_DELAY: Duration = Duration::from_secs(2);

/// Calls `notify` for each update of a collection until `stop`. `read` reduces an object, or drops it.
pub async fn follow<T>(
    api: ApiClient,
    path: ApiPath,
    stop: CancellationToken,
    read: impl Fn(Value) -> Option<T>,
    notify: impl FnMut(Seen<T>),
) {
    stop.run_until_cancelled(follow_on(api, path, read, notify)).await;
}

async fn follow_on<T>(
    api: ApiClient,
    path: ApiPath,
    read: impl Fn(Value) -> Option<T>,
    mut notify: impl FnMut(Seen<T>),
) {
    loop {
        let mut revision = match api.list_as(&path, &read).await {
            Ok((revision, items)) => {
                notify(Seen::Listed(revision, items));
                revision
            }
            Err(error) => {
                tracing::warn!(%path, failure = %error, "cannot list");
                // Keep what was seen while the API server is briefly unavailable.
                if error.is_lasting() {
                    notify(Seen::Lost(error.to_string()));
                }
                tokio::time::sleep(if error.is_lasting() { LONG_RETRY_DELAY } else { RETRY_DELAY }).await;
                continue;
            }
        };
        // A watch that ended early continues from its revision, until that is too old for the API server.
        while let Ends::Early = watch(&api, &path, &mut revision, &read, &mut notify).await {
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }
}

enum Ends {
    Early,
    /// The revision is too old: the collection must be listed again.
    Gone,
}

async fn watch<T>(
    api: &ApiClient,
    path: &ApiPath,
    revision: &mut u64,
    read: &impl Fn(Value) -> Option<T>,
    notify: &mut impl FnMut(Seen<T>),
) -> Ends {
    let query =
        format!("watch=1&allowWatchBookmarks=true&timeoutSeconds={MAX_WATCH_SECONDS}&resourceVersion={revision}");
    let Ok(request) = Request::get(format!("{path}?{query}")).body(Vec::new()) else { return Ends::Gone };
    let events = match api.client().request_events::<Value>(request).await {
        Ok(events) => events,
        Err(kube::Error::Api(status)) if status.code == 410 => return Ends::Gone,
        Err(error) => {
            tracing::debug!(%path, failure = %ApiError::from(error), "cannot watch");
            return Ends::Early;
        }
    };
    let mut events = pin!(events);
    loop {
        let event = match tokio::time::timeout(MAX_SILENCE, events.try_next()).await {
            Ok(Ok(Some(event))) => event,
            Ok(Ok(None)) | Err(_) => return Ends::Early,
            Ok(Err(error)) => {
                tracing::debug!(%path, failure = %ApiError::from(error), "a watch ended");
                return Ends::Early;
            }
        };
        let (object, is_deleted) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Bookmark(bookmark) => {
                if let Ok(seen) = bookmark.metadata.resource_version.parse() {
                    *revision = seen;
                    notify(Seen::UpTo(seen));
                }
                continue;
            }
            WatchEvent::Error(status) => {
                tracing::debug!(%path, %status.message, "a watch ended");
                return if status.code == 410 { Ends::Gone } else { Ends::Early };
            }
        };
        // Without a revision nothing can be counted: list again.
        let Some(seen) = revision_of(&object) else { return Ends::Gone };
        *revision = seen;
        if is_deleted {
            notify(Seen::Deleted(object));
        } else if let Some(wanted) = read(object) {
            notify(Seen::Stored(wanted));
        }
    }
}
