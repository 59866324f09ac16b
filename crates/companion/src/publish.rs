//! Brings profiles to where they are read: the cluster, a folder, or standard output.
//!
//! Decides which profiles there are, when each was collected, that only what [`change`]d is written, and what may be
//! touched: a profile carries the id of the store it was made of. What another store published is merged with ours
//! before it is overwritten, what is newer than ours is left, and only our own is deleted, once its history has expired
//! in this store. Files: [`cluster`] talks to the API server, [`folder`] to the file system, [`manifest`] makes the text
//! for people, [`outcome`] counts, and [`turns`] keeps two collectors apart.

pub mod change;
pub mod cluster;
pub mod folder;
pub mod manifest;
pub mod outcome;
pub mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use headroom_advice::profile::UsageProfile;
use headroom_core::cluster::usage::{Scope, Shard};
use headroom_core::timestamp::Timestamp;
use serde_json::Value;

use self::cluster::ClusterError;
pub use self::outcome::{PublishError, Published, Written};
use crate::clock;
use crate::history::DAY;
use crate::metrics::Metrics;
use crate::profile::adopted::Adopted;
use crate::profile::{self, Pooling};
use crate::store::{Ended, Store, StoreError};

/// Where profiles go.
pub enum Destination {
    Cluster(Box<cluster::Cluster>),
    Folder(folder::Folder),
    /// All of them, one document after the other.
    Stdout(manifest::Format),
}

/// Namespace and name of an object.
pub type ObjectName = (String, String);

pub struct Publisher<'a> {
    pub store: &'a Store,
    pub destination: &'a Destination,
    /// Where the pooled profiles stand.
    pub pool_namespace: &'a str,
    pub pooling: &'a Pooling,
    /// How many seconds a profile may stay as it is although it was collected anew.
    pub refresh: i64,
    /// Asked before anything is written, where several collectors may write.
    pub turns: Option<&'a turns::Turns>,
    pub metrics: &'a Metrics,
}

impl Destination {
    /// The object that is there.
    async fn get(&self, (namespace, name): &ObjectName) -> Result<Option<Value>, PublishError> {
        Ok(match self {
            Self::Cluster(cluster) => cluster.get(namespace, name).await?,
            Self::Folder(folder) => folder.get(namespace, name)?,
            Self::Stdout(_) => None,
        })
    }

    async fn put(&self, (namespace, name): &ObjectName, object: &Value) -> Result<Written, PublishError> {
        match self {
            Self::Cluster(cluster) => Ok(cluster.apply(namespace, name, object).await?),
            Self::Folder(folder) => Ok(folder.write(namespace, name, object)?),
            Self::Stdout(format) => {
                let text = manifest::text(object, *format);
                std::io::stdout().lock().write_all(text.as_bytes()).map_err(PublishError::Stdout)?;
                Ok(Written::Written)
            }
        }
    }

    /// Deletes the object if it is still this one.
    async fn delete(&self, (namespace, name): &ObjectName, object: &Value) -> Result<(), PublishError> {
        match self {
            Self::Cluster(cluster) => cluster.delete(namespace, name, object).await?,
            Self::Folder(folder) => folder.delete(namespace, name)?,
            Self::Stdout(_) => {}
        }
        Ok(())
    }
}

impl Publisher<'_> {
    /// Writes all profiles as of a moment, and deletes those of ours whose history has expired.
    pub async fn publish(&self, as_of: Timestamp) -> Result<Published, PublishError> {
        let mut published = Published::default();
        let mut current: BTreeSet<ObjectName> = BTreeSet::new();
        let incomplete = self.incomplete_since()?;
        let own = self.store.namespaces()?.into_iter().map(|namespace| (namespace, Scope::Namespace));
        let pooled = Shard::all().map(|shard| (self.pool_namespace.to_owned(), Scope::Pool(shard)));
        for (namespace, scope) in own.chain(pooled) {
            // A profile must not look fresher than what was read of its namespace.
            let since = incomplete.get(&namespace).filter(|_| scope == Scope::Namespace);
            let collected_at = since.and_then(|since| Timestamp::from_unix_seconds(*since)).unwrap_or(as_of).min(as_of);
            let profile = profile::build(self.store, &namespace, scope, collected_at, self.pooling)?;
            self.metrics.alive(clock::now());
            if profile.images.is_empty() {
                continue;
            }
            let name = (namespace, scope.object_name());
            let written = self.write(profile, &name, &mut published).await;
            current.insert(name.clone());
            published.count(name, written, self.metrics)?;
        }
        let mut published = published.unless_rights_are_missing()?;
        for ended in self.store.ended()? {
            self.metrics.alive(clock::now());
            let namespace = ended.namespace.clone().unwrap_or_else(|| self.pool_namespace.to_owned());
            let name = (namespace, ended.name.clone());
            if current.contains(&name) {
                self.store.forget_ended(&ended)?;
            } else if !incomplete.contains_key(&name.0) {
                let deleted = self.delete(&ended, &name).await;
                published.count_deleted(name, deleted, self.metrics)?;
            }
        }
        self.metrics.sizes(published.bytes, self.store.bytes());
        Ok(published)
    }

    async fn write(
        &self,
        mut profile: UsageProfile,
        name: &ObjectName,
        published: &mut Published,
    ) -> Result<Written, PublishError> {
        let there = self.destination.get(name).await?;
        let is_ours = there.as_ref().is_some_and(|there| manifest::store_of(there) == Some(self.store.id()));
        if let Some(there) = &there {
            if is_newer(there, &profile) {
                return Ok(Written::Newer);
            }
            if !is_ours {
                self.adopt(name, there)?;
            }
        }
        if let Some(text) = self.store.adopted(&name.0, &name.1)?
            && let Some(adopted) = serde_json::from_str(&text).ok().as_ref().and_then(Adopted::read)
        {
            adopted.merge_into(&mut profile);
            profile.bound();
        }
        let text = profile.to_string();
        published.bytes += text.len() as u64;
        let mut object: Value = serde_json::from_str(&text)
            .map_err(|error| PublishError::Unreadable { object: format!("{}/{}", name.0, name.1), error })?;
        manifest::mark(&mut object, self.store.id());
        if is_ours && there.is_some_and(|there| !change::is_due(&there, &object, self.refresh)) {
            return Ok(Written::Unchanged);
        }
        self.check_turn()?;
        self.destination.put(name, &object).await
    }

    fn check_turn(&self) -> Result<(), ClusterError> {
        match self.turns {
            Some(turns) if !turns.are_ours() => Err(ClusterError::LostTurn),
            _ => Ok(()),
        }
    }

    /// Keeps the history in an object that a collector wrote from another store.
    fn adopt(&self, (namespace, name): &ObjectName, there: &Value) -> Result<(), PublishError> {
        let Some(spec) = there.get("spec").filter(|_| manifest::is_collected(there)) else { return Ok(()) };
        let Some(adopted) = Adopted::read(spec) else { return Ok(()) };
        let store = manifest::store_of(there).unwrap_or("unknown");
        tracing::warn!(
            namespace,
            name,
            "this profile was written from another store ({store}): its history is kept where it is longer than ours; \
             if that collector still runs, stop one of the two"
        );
        let collected_at = adopted.collected_at.unix_seconds();
        Ok(self.store.adopt(namespace, name, collected_at, &spec.to_string())?)
    }

    /// Deletes a profile of ours whose history has expired. One that another store made, and one with an adopted history
    /// that still counts, is left.
    async fn delete(&self, ended: &Ended, name: &ObjectName) -> Result<bool, PublishError> {
        if matches!(self.destination, Destination::Stdout(_)) || self.store.adopted(&name.0, &name.1)?.is_some() {
            return Ok(false);
        }
        let there = self.destination.get(name).await?;
        let ours = there.filter(|there| manifest::store_of(there) == Some(self.store.id()));
        if let Some(there) = &ours {
            self.check_turn()?;
            self.destination.delete(name, there).await?;
        }
        self.store.forget_ended(ended)?;
        Ok(ours.is_some())
    }

    /// Since when the newest usage is missing, by namespace. A gap in the past does not make a profile old.
    fn incomplete_since(&self) -> Result<BTreeMap<String, i64>, StoreError> {
        let planned = self.store.planned()?.unwrap_or(i64::MAX);
        let missing = self.store.owed()?.into_iter().filter(|piece| piece.window.to >= planned);
        Ok(missing.map(|piece| (piece.namespace, piece.window.from)).collect())
    }
}

/// Whether what is there was collected later than what would be written. A time in the future is a mistake, and
/// must not be kept for ever.
fn is_newer(there: &Value, profile: &UsageProfile) -> bool {
    change::collected_at(there).is_some_and(|moment| {
        moment > profile.collected_at.unix_seconds() && moment <= clock::now().saturating_add(DAY)
    })
}
