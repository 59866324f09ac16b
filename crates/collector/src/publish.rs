//! Writes profiles to the cluster, a folder, or standard output.
//!
//! Only [`change`]d profiles are written. A profile carries the id of the store that it is made from: a root from another
//! store is replaced only if no history is lost ([`other_store`]) or if the user allows it, and a newer root stays. Pages are
//! written before the quarter that lists them, and those that it no longer lists are deleted only in the next round, so that a
//! reader who has seen either quarter finds its pages, whenever the collector is killed. What an older version laid out
//! otherwise stays until a round finds all quarters in its place. Files: [`cluster`] and [`folder`] are
//! destinations, [`ownership`] marks objects, [`outcome`] counts, [`restrictions`] follows the
//! namespaces that ask for fewer estimates, and [`lease`] prevents two collectors from writing at the same time.

pub mod change;
mod other_store;
pub mod ownership;
pub mod restrictions;

pub mod cluster;
pub mod folder;
pub mod lease;

pub mod outcome;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use headroom_admission::cluster::usage::{ProfileName, Quarter, Root};
use headroom_admission::timestamp::Timestamp;
use headroom_usage::profile::custom_resource::UsageProfileSpec;
use headroom_usage::profile::{RestrictedNamespaces, Share, UsageProfile, layout};
use serde::Deserialize;
use serde_json::Value;

use self::cluster::{ClusterError, ProfileCluster};
pub use self::outcome::{ProfileWrite, PublishError, Published};
use headroom_api_server::clock;
use headroom_api_server::lease::RenewedLease;
use headroom_usage::DAY;
use kube::ResourceExt;

use crate::metrics::CollectorMetrics;
use crate::profile::{self, Collected, Pooling};
use crate::store::{Store, StoreError};

pub enum Destination {
    Cluster(Box<ProfileCluster>),
    Folder(folder::Folder),
    /// All profiles, one document after the other.
    Stdout,
}

/// The existing objects of a root by name.
type There = BTreeMap<String, Value>;

pub struct Publisher<'a> {
    pub store: &'a Store,
    pub destination: &'a Destination,
    pub namespace: &'a str,
    pub pooling: &'a Pooling,
    /// The namespaces that may ask for fewer estimates; none if they are unknown.
    pub restricted: Option<&'a RestrictedNamespaces>,
    /// Replace histories of other stores that this store does not have.
    pub replace_other_stores: bool,
    /// Checked before each write if several collectors may write.
    pub lease: Option<&'a RenewedLease>,
    pub metrics: &'a CollectorMetrics,
}

impl Destination {
    async fn list(&self, namespace: &str, root: Root) -> Result<There, PublishError> {
        Ok(match self {
            Self::Cluster(cluster) => cluster.list(namespace, root).await?,
            Self::Folder(folder) => folder.list(namespace, root)?,
            Self::Stdout => There::new(),
        })
    }

    async fn put(&self, namespace: &str, name: &str, object: &Value) -> Result<(), PublishError> {
        match self {
            Self::Cluster(cluster) => cluster.apply(namespace, name, object).await?,
            Self::Folder(folder) => folder.write(namespace, name, object)?,
            Self::Stdout => {
                let text = folder::document(object);
                #[expect(clippy::disallowed_methods, reason = "the text is escaped")]
                std::io::stdout().lock().write_all(text.as_bytes()).map_err(PublishError::Stdout)?;
            }
        }
        Ok(())
    }

    /// Deletes the object unless it has changed.
    async fn delete(&self, namespace: &str, name: &str, object: &Value) -> Result<(), PublishError> {
        match self {
            Self::Cluster(cluster) => cluster.delete(namespace, name, object).await?,
            Self::Folder(folder) => folder.delete(namespace, name)?,
            Self::Stdout => {}
        }
        Ok(())
    }
}

impl Publisher<'_> {
    /// Writes all profiles as of a time, and deletes pages that nothing lists any more.
    pub async fn publish(&self, as_of: Timestamp) -> Result<Published, PublishError> {
        let mut published = Published::default();
        let behind = self.behind(as_of)?;
        let collected = Collected { at: as_of, behind: &behind, restricted: self.restricted };
        for root in Root::all() {
            let there = match self.destination.list(self.namespace, root).await {
                Ok(there) => there,
                Err(error) => {
                    published.count(self, root.to_string(), Err(error))?;
                    continue;
                }
            };
            if there.values().any(|there| is_newer(there, as_of)) {
                let (namespace, name) = (self.namespace, root.to_string());
                tracing::warn!(namespace, name, "the existing profile was collected later, and stays as it is");
                published.count(self, name, Ok(ProfileWrite::Unchanged))?;
                continue;
            }
            let share = profile::build(self.store, self.namespace, root, &collected, self.pooling)?;
            match self.check_other_stores(&there, &share) {
                Ok(()) => self.write_all(root, share, &there, &mut published).await?,
                Err(error) => published.count(self, root.to_string(), Err(error))?,
            }
        }
        self.metrics.sizes(published.bytes, self.store.bytes());
        Ok(published)
    }

    /// Writes the quarters that are missing, so that a policy does not look for an older layout at every request, while the
    /// first usage may take hours to read; and in the others the list of restricted namespaces, if it is known. Histories
    /// stay as they are, also those of an older layout, which are read only where a quarter is missing.
    pub async fn update_quarters(&self, cluster: &ProfileCluster, collected_at: Timestamp) -> Result<(), PublishError> {
        let mut published = Published::default();
        for root in Root::all() {
            let mut quarters = Vec::new();
            for quarter in Quarter::ALL {
                let name = ProfileName::of_quarter(root, quarter);
                quarters.push((quarter, cluster.get(self.namespace, &name).await?));
            }
            let is_missing = quarters.iter().any(|(_, there)| there.is_none());
            if is_missing && cluster.get(self.namespace, &ProfileName::older(root)).await?.is_some() {
                continue;
            }
            let empty = Share::empty(self.namespace, root, collected_at, self.store.page_key());
            let empty = Share { restricted: self.restricted.cloned(), ..empty }.lay_out();
            for ((quarter, there), empty) in quarters.into_iter().zip(empty) {
                let profile = match (&there, self.restricted) {
                    (None, _) => empty,
                    (Some(there), Some(restricted)) if self.is_ours(there) => {
                        // Written by another version: the next publication replaces it.
                        let Some(Ok(mut spec)) = there.get("spec").map(UsageProfileSpec::deserialize) else { continue };
                        spec.header.restricted_namespaces = Some(restricted.of_quarter(quarter));
                        UsageProfile::named(&ProfileName::of_quarter(root, quarter), self.namespace, spec)
                    }
                    _ => continue,
                };
                self.write(profile, root, there.as_ref(), &mut published).await?;
            }
        }
        Ok(())
    }

    /// Writes the objects of a root, pages first, and deletes those that neither what was there lists nor what is there now.
    async fn write_all(
        &self,
        root: Root,
        share: Share,
        there: &There,
        published: &mut Published,
    ) -> Result<(), PublishError> {
        let older = ProfileName::older(root);
        let quarters = Quarter::ALL.map(|quarter| ProfileName::of_quarter(root, quarter));
        let listing = quarters.iter().chain([&older]);
        let mut kept: BTreeSet<String> =
            listing.filter_map(|name| Some(pages(there.get(&name.to_string())?, name))).flatten().collect();
        let quarters = quarters.map(|name| name.to_string());
        if quarters.iter().any(|name| !there.contains_key(name)) {
            kept.insert(older.to_string());
        }
        let failed_before = published.failed.len();
        let mut is_page_missing = false;
        for profile in share.lay_out() {
            let name = profile.name_any();
            let is_page = !quarters.contains(&name);
            if is_page_missing && !is_page {
                return Ok(());
            }
            let written = self.write(profile, root, there.get(&name), published).await;
            is_page_missing |= is_page && written.is_err();
            kept.insert(name.clone());
            published.count(self, name, written)?;
        }
        if published.failed.len() > failed_before {
            return Ok(());
        }
        for (name, there) in there.iter().filter(|(name, _)| !kept.contains(*name)) {
            if ownership::is_collected(there) {
                published.count(self, name.clone(), self.delete(name, there).await)?;
            }
        }
        Ok(())
    }

    async fn write(
        &self,
        mut profile: UsageProfile,
        root: Root,
        there: Option<&Value>,
        published: &mut Published,
    ) -> Result<ProfileWrite, PublishError> {
        let name = profile.name_any();
        ownership::mark(&mut profile, self.store.id(), root);
        published.bytes += profile.bytes() as u64;
        let object = profile.to_value();
        if there.is_some_and(|there| self.is_ours(there) && !change::is_due(there, &object)) {
            return Ok(ProfileWrite::Unchanged);
        }
        self.check_turn()?;
        self.destination.put(self.namespace, &name, &object).await?;
        Ok(ProfileWrite::Written)
    }

    async fn delete(&self, name: &str, there: &Value) -> Result<ProfileWrite, PublishError> {
        self.check_turn()?;
        self.destination.delete(self.namespace, name, there).await?;
        Ok(ProfileWrite::Deleted)
    }

    fn check_turn(&self) -> Result<(), ClusterError> {
        match self.lease {
            Some(lease) if !lease.is_ours() => Err(ClusterError::LostTurn),
            _ => Ok(()),
        }
    }

    /// An error if objects of a root that another store wrote have history that `share` does not have.
    fn check_other_stores(&self, there: &There, share: &Share) -> Result<(), PublishError> {
        let others = there.iter().filter(|(_, there)| ownership::is_collected(there) && !self.is_ours(there));
        for (name, there) in others {
            let (namespace, store) = (self.namespace, ownership::store_of(there).unwrap_or("unknown"));
            if !self.replace_other_stores
                && let Some(lost) = other_store::first_lost(there, share)
            {
                return Err(PublishError::OtherStore { store: store.to_owned(), lost });
            }
            tracing::warn!(
                namespace,
                name,
                "replacing a profile that was written from another store ({store}): if that collector still runs, stop one of the two"
            );
        }
        Ok(())
    }

    fn is_ours(&self, there: &Value) -> bool {
        ownership::store_of(there) == Some(self.store.id())
    }

    /// The namespaces whose newest usage is missing, and the time since which it is missing: their histories must not look
    /// newer than they are. A gap in the past does not make a history old.
    fn behind(&self, as_of: Timestamp) -> Result<BTreeMap<String, Timestamp>, StoreError> {
        let planned = self.store.planned()?.unwrap_or(i64::MAX);
        let missing = self.store.owed()?.into_iter().filter(|(_, window)| window.to >= planned);
        let since = missing.filter_map(|(namespace, window)| {
            let since = Timestamp::from_unix_seconds(window.from).filter(|since| *since < as_of)?;
            Some((namespace, since))
        });
        Ok(since.collect())
    }
}

/// The names of the pages that an object lists.
fn pages(object: &Value, name: &ProfileName) -> Vec<String> {
    let pages = object.pointer("/spec/header/pages").and_then(Value::as_str).unwrap_or_default();
    layout::paths(pages).into_iter().map(|path| name.page(path).to_string()).collect()
}

/// True if an existing profile was collected later than a time. A time in the future is a mistake, so such a profile must not
/// stay for ever.
fn is_newer(there: &Value, as_of: Timestamp) -> bool {
    change::collected_at(there)
        .is_some_and(|moment| moment > as_of.unix_seconds() && moment <= clock::now().saturating_add(DAY))
}
