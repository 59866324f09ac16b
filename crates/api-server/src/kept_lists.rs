//! Lists that outlive a reading of the cluster: the next reading asks only for what has changed since, by a short watch.
//!
//! A list of a large cluster has hundreds of megabytes. It is read again where the account may not watch, and where the API server
//! has forgotten its revision.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headroom_admission::json::Node;
use headroom_objects::cluster_reader::{CompressedObject, LeftOut};
use tokio::sync::Notify;

use crate::api_client::{ApiClient, ApiResult, ListOptions};
use crate::api_path::ApiPath;
use crate::parts::locked;
use crate::watch::{Ends, WatchUpdate, watch};

/// The API server first tells what it knows, and ends the watch after this time.
const MOMENT_SECONDS: u64 = 1;
/// The longest time until then.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tells what nobody who reads the lists asks for of an object of an API version and kind.
pub type Unread = fn(Node<'_>, (&str, &str)) -> &'static LeftOut;

/// The lists of one cluster, by path.
#[derive(Debug, Clone)]
pub struct KeptLists {
    lists: Arc<Mutex<BTreeMap<String, KeptList>>>,
    pub(crate) unread: Unread,
}

/// The objects of a list by namespace and name, which is the API server's order.
#[derive(Debug, Default)]
pub struct KeptList {
    revision: u64,
    /// With each namespace once: names take as much of the memory as small objects.
    objects: BTreeMap<String, BTreeMap<String, CompressedObject>>,
}

/// An object with its namespace and name.
pub type KeptObject = ([String; 2], CompressedObject);

impl KeptLists {
    pub fn new(unread: Unread) -> Self {
        Self { lists: Arc::default(), unread }
    }

    pub fn take(&self, path: &ApiPath) -> Option<KeptList> {
        locked(&self.lists).remove(path.as_str())
    }

    /// An object of a list as it was read last, or none if that does not have it; none if no such list is at hand.
    pub fn find(&self, path: &ApiPath, namespace: &str, name: &str) -> Option<Option<CompressedObject>> {
        let lists = locked(&self.lists);
        Some(lists.get(path.as_str())?.objects.get(namespace).and_then(|within| within.get(name)).cloned())
    }

    pub fn keep(&self, path: &ApiPath, list: KeptList) {
        locked(&self.lists).insert(path.as_str().to_owned(), list);
    }

    /// Takes a list as it is now. What two readers take at once is read twice.
    pub async fn take_current(
        &self,
        api: &ApiClient,
        path: &ApiPath,
        options: ListOptions<'_>,
        read: &impl Fn(Node<'_>) -> KeptObject,
    ) -> ApiResult<KeptList> {
        if let Some(mut known) = self.take(path)
            && known.catch_up(api, path, options, read).await
        {
            return Ok(known);
        }
        let mut list = KeptList::default();
        let listed = api.for_each(path, options, |object| list.put(read(object)));
        list.revision = listed.await?.revision;
        Ok(list)
    }
}

impl KeptList {
    pub fn objects(&self) -> impl Iterator<Item = (&str, &str, &CompressedObject)> {
        let all = self.objects.iter().flat_map(|(namespace, within)| within.iter().map(move |of| (namespace, of)));
        all.map(|(namespace, (name, object))| (namespace.as_str(), name.as_str(), object))
    }

    fn put(&mut self, ([namespace, name], object): KeptObject) {
        self.objects.entry(namespace).or_default().insert(name, object);
    }

    /// Applies what has changed. Returns false if that is not known.
    async fn catch_up(
        &mut self,
        api: &ApiClient,
        path: &ApiPath,
        options: ListOptions<'_>,
        read: &impl Fn(Node<'_>) -> KeptObject,
    ) -> bool {
        let (is_known, is_told, mut revision) = (Cell::new(false), Notify::new(), self.revision);
        let mut apply = |seen: WatchUpdate<KeptObject>| match seen {
            WatchUpdate::Stored(object) => self.put(object),
            WatchUpdate::Deleted(([namespace, name], _)) => {
                if let Entry::Occupied(mut within) = self.objects.entry(namespace) {
                    within.get_mut().remove(&name);
                    if within.get().is_empty() {
                        within.remove();
                    }
                }
            }
            WatchUpdate::UpTo(_) => {
                is_known.set(true);
                is_told.notify_one();
            }
            WatchUpdate::Listed(..) | WatchUpdate::Lost(_) => {}
        };
        let read = |object: Node<'_>| Some(read(object));
        let is_at_its_end = tokio::select! {
            ends = watch(api, path, options, MOMENT_SECONDS, &mut revision, &read, &mut apply) => matches!(ends, Ends::InTime),
            () = is_told.notified() => true,
            () = tokio::time::sleep(PATIENCE) => false,
        };
        self.revision = revision;
        is_at_its_end || is_known.get()
    }
}
