//! Follows a collection: lists it from etcd, then watches it from that revision on.
//!
//! kube-runtime's watcher hides revisions and bookmarks. The quota server needs both, to know up to which revision it has
//! seen all changes. It reduces every pod of a cluster to a few amounts, so objects are read in place.

use std::pin::pin;
use std::time::Duration;

use futures::{AsyncBufReadExt, AsyncReadExt as _};
use headroom_core::json::{Document, Node};
use http::{Request, header};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::api_client::{ApiClient, ApiError, ListOptions, revision_in};
use crate::api_path::ApiPath;

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
    /// served.
    Lost(String),
}

/// The API server ends a watch after this many seconds, and a new one starts.
const MAX_WATCH_SECONDS: u64 = 290;
/// The longest event. Objects have at most 1.5 MiB in etcd.
const MAX_EVENT_BYTES: u64 = 32 << 20;
/// The longest time without events of a watch, which has bookmarks every minute.
const MAX_SILENCE: Duration = Duration::from_secs(MAX_WATCH_SECONDS + 10);
const RETRY_DELAY: Duration = Duration::from_millis(200);
const LONG_RETRY_DELAY: Duration = Duration::from_secs(2);

/// Calls `notify` for each update of a collection until `stop`. `read` reduces an object, or drops it.
pub async fn follow<T>(
    api: ApiClient,
    path: ApiPath,
    stop: CancellationToken,
    read: impl Fn(Node<'_>) -> Option<T>,
    notify: impl FnMut(WatchUpdate<T>),
) {
    stop.run_until_cancelled(follow_on(api, path, read, notify)).await;
}

async fn follow_on<T>(
    api: ApiClient,
    path: ApiPath,
    read: impl Fn(Node<'_>) -> Option<T>,
    mut notify: impl FnMut(WatchUpdate<T>),
) {
    loop {
        let mut revision = match api.list(&path, ListOptions::WHOLE, &read).await {
            Ok((revision, items)) => {
                notify(WatchUpdate::Listed(revision, items));
                revision
            }
            Err(error) => {
                tracing::warn!(%path, failure = %error, "cannot list");
                // Keep what was seen while the API server is briefly unavailable.
                if error.is_lasting() {
                    notify(WatchUpdate::Lost(error.to_string()));
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
    read: &impl Fn(Node<'_>) -> Option<T>,
    notify: &mut impl FnMut(WatchUpdate<T>),
) -> Ends {
    let query =
        format!("watch=1&allowWatchBookmarks=true&timeoutSeconds={MAX_WATCH_SECONDS}&resourceVersion={revision}");
    let request = Request::get(format!("{path}?{query}"));
    // From Kubernetes 1.37 on, each event would be compressed on its own.
    let request = request.header(header::ACCEPT_ENCODING, "identity").body(Vec::new());
    let Ok(request) = request else { return Ends::Gone };
    let events = match api.client().request_stream(request).await {
        Ok(events) => events,
        Err(kube::Error::Api(status)) if status.code == 410 => return Ends::Gone,
        Err(error) => {
            tracing::debug!(%path, failure = %ApiError::from(error), "cannot watch");
            return Ends::Early;
        }
    };
    let (mut events, mut line) = (pin!(events), Vec::new());
    loop {
        line.clear();
        // A longer one is read in pieces, of which the first is no event.
        let mut event = events.as_mut().take(MAX_EVENT_BYTES);
        match tokio::time::timeout(MAX_SILENCE, event.read_until(b'\n', &mut line)).await {
            Ok(Ok(0)) | Err(_) => return Ends::Early,
            Ok(Ok(_)) => {}
            Ok(Err(failure)) => {
                tracing::debug!(%path, %failure, "a watch ended");
                return Ends::Early;
            }
        }
        // The last line of a connection that broke is not whole.
        let Ok(event) = Document::read_bytes(&line) else { return Ends::Early };
        let field = |name| event.root().get(name).ok().flatten();
        let (Some(kind), Some(object)) = (field("type").and_then(|kind| kind.str().ok()), field("object")) else {
            return Ends::Gone;
        };
        if kind == "ERROR" {
            tracing::debug!(%path, status = object.text(), "a watch ended");
            let is_gone = object.get("code").is_ok_and(|code| code.is_some_and(|code| code.text() == "410"));
            return if is_gone { Ends::Gone } else { Ends::Early };
        }
        // Without a revision nothing can be counted: list again.
        let Some(seen) = revision_in(object) else { return Ends::Gone };
        *revision = seen;
        match kind.as_ref() {
            "BOOKMARK" => notify(WatchUpdate::UpTo(seen)),
            "DELETED" => read(object).map(WatchUpdate::Deleted).into_iter().for_each(&mut *notify),
            _ => read(object).map(WatchUpdate::Stored).into_iter().for_each(&mut *notify),
        }
    }
}
