//! Lists that outlive a reading of the cluster: the next reading asks only for what has changed since, by a short watch.
//!
//! A list of a large cluster has hundreds of megabytes. It is read again where the account may not watch, and where the API server
//! has forgotten its revision.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headroom_admission::json::Node;
use headroom_objects::cluster_reader::CompressedObject;
use headroom_objects::kinds::metadata;
use serde_json::Value;
use tokio::sync::Notify;

use crate::api_client::{ApiClient, ApiResult, ListOptions};
use crate::api_path::ApiPath;
use crate::parts::locked;
use crate::watch::{Ends, WatchUpdate, watch};

/// The API server first tells what it knows, and ends the watch after this time.
const MOMENT_SECONDS: u64 = 1;
/// The longest time until then.
const PATIENCE: Duration = Duration::from_secs(10);

/// The lists of one cluster, by path.
#[derive(Debug, Clone)]
pub struct KeptLists {
    lists: Arc<Mutex<BTreeMap<String, KeptList>>>,
    /// Leaves out of an object what nobody who reads the lists asks for.
    pub(crate) reduce: fn(&mut Value),
}

/// The objects of a list by namespace and name, which is the API server's order.
#[derive(Debug, Default)]
pub struct KeptList {
    revision: u64,
    objects: BTreeMap<(String, String), CompressedObject>,
}

impl KeptLists {
    pub fn new(reduce: fn(&mut Value)) -> Self {
        Self { lists: Arc::default(), reduce }
    }

    /// Takes a list as it was read last.
    pub fn take(&self, path: &ApiPath) -> Option<KeptList> {
        locked(&self.lists).remove(path.as_str())
    }

    /// An object of a list as it was read last, or none if that does not have it; none if no such list is at hand.
    pub fn find(&self, path: &ApiPath, namespace: &str, name: &str) -> Option<Option<CompressedObject>> {
        let lists = locked(&self.lists);
        Some(lists.get(path.as_str())?.objects.get(&(namespace.to_owned(), name.to_owned())).cloned())
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
        read: &impl Fn(Node<'_>) -> Option<Value>,
    ) -> ApiResult<KeptList> {
        if let Some(mut known) = self.take(path)
            && known.catch_up(api, path, options, read).await
        {
            return Ok(known);
        }
        let mut list = KeptList::default();
        let listed = api.for_each(path, options, |object| read(object).iter().for_each(|object| list.put(object)));
        list.revision = listed.await?.revision;
        Ok(list)
    }
}

impl KeptList {
    /// The objects with their namespaces and names.
    pub fn objects(&self) -> impl Iterator<Item = (&str, &str, &CompressedObject)> {
        self.objects.iter().map(|((namespace, name), object)| (namespace.as_str(), name.as_str(), object))
    }

    fn put(&mut self, object: &Value) {
        self.objects.insert(key(object), CompressedObject::from(object));
    }

    /// Applies what has changed. Returns false if that is not known.
    async fn catch_up(
        &mut self,
        api: &ApiClient,
        path: &ApiPath,
        options: ListOptions<'_>,
        read: &impl Fn(Node<'_>) -> Option<Value>,
    ) -> bool {
        let (is_known, is_told, mut revision) = (Cell::new(false), Notify::new(), self.revision);
        let mut apply = |seen| match seen {
            WatchUpdate::Stored(object) => self.put(&object),
            WatchUpdate::Deleted(object) => _ = self.objects.remove(&key(&object)),
            WatchUpdate::UpTo(_) => {
                is_known.set(true);
                is_told.notify_one();
            }
            WatchUpdate::Listed(..) | WatchUpdate::Lost(_) => {}
        };
        let is_at_its_end = tokio::select! {
            ends = watch(api, path, options, MOMENT_SECONDS, &mut revision, read, &mut apply) => matches!(ends, Ends::InTime),
            () = is_told.notified() => true,
            () = tokio::time::sleep(PATIENCE) => false,
        };
        self.revision = revision;
        is_at_its_end || is_known.get()
    }
}

fn key(object: &Value) -> (String, String) {
    (metadata(object, "namespace").to_owned(), metadata(object, "name").to_owned())
}
