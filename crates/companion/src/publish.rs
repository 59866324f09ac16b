//! Brings profiles to where they are read: the cluster, a folder, or standard output.
//!
//! Decides which profiles there are, when each was collected, and that only what [`change`]d is written. Rooms:
//! [`cluster`] talks to the API server, [`folder`] to the file system, [`manifest`] makes the text for people.

pub mod change;
pub mod cluster;
pub mod folder;
pub mod manifest;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use headroom_core::context::usage::{Scope, Shard, UsageProfile};
use headroom_core::timestamp::Timestamp;
use serde_json::Value;

use crate::metrics::Metrics;
use crate::profile;
use crate::store::{Store, StoreError};

/// Where profiles go.
pub enum Destination {
    Cluster(Box<cluster::Cluster>),
    Folder(folder::Folder),
    /// All of them, one document after the other.
    Stdout(manifest::Format),
}

/// Namespace and name of an object.
pub type ObjectName = (String, String);

/// What became of one profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    Written,
    /// What is there says the same.
    Unchanged,
    /// Its namespace is no more; what is known of it still counts in the pool until it is too old.
    NamespaceGone,
}

/// Why a profile could not be written. Others may be.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    #[error(transparent)]
    Cluster(#[from] cluster::ClusterError),
    #[error(transparent)]
    Folder(#[from] folder::FolderError),
    #[error("cannot write to standard output: {0}")]
    Stdout(std::io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A bug of ours: the text of a profile is no JSON.
    #[error("the profile {0} cannot be read back: {1}")]
    Unreadable(String, serde_json::Error),
}

impl PublishError {
    /// Whether the next profile would meet the same.
    fn concerns_all(&self) -> bool {
        match self {
            Self::Cluster(error) => error.concerns_all(),
            Self::Folder(_) | Self::Stdout(_) | Self::Store(_) => true,
            Self::Unreadable(..) => false,
        }
    }

    /// Whether a server error (5xx) stands behind it: of the API server, or of a webhook of one namespace.
    fn is_of_server(&self) -> bool {
        matches!(self, Self::Cluster(cluster::ClusterError::Failed { .. }))
    }

    fn is_missing_right(&self) -> bool {
        matches!(self, Self::Cluster(cluster::ClusterError::Forbidden { .. }))
    }
}

impl Published {
    /// Where everything failed for want of rights, that is what is wrong, and not some namespaces.
    fn unless_rights_are_missing(mut self) -> Result<Self, PublishError> {
        let nothing_worked = self.written + self.unchanged == 0;
        if nothing_worked
            && self.failed.values().all(PublishError::is_missing_right)
            && let Some((_, error)) = self.failed.pop_first()
        {
            return Err(error);
        }
        Ok(self)
    }
}

/// What a round of publishing did.
#[derive(Debug, Default)]
pub struct Published {
    pub written: u64,
    pub unchanged: u64,
    pub deleted: u64,
    /// Of all profiles together, whether they had to be written or not.
    pub bytes: u64,
    pub failed: BTreeMap<ObjectName, PublishError>,
    /// Failures since the last profile that worked.
    failed_in_a_row: usize,
}

/// After so many server errors in a row it is the API server that is in trouble, and not some namespaces.
const MOST_SERVER_ERRORS: usize = 5;
/// Failures that are logged one by one; the rest is counted.
const MOST_LOGGED: usize = 10;

pub struct Publisher<'a> {
    pub store: &'a Store,
    pub destination: &'a Destination,
    /// Where the pooled profiles stand.
    pub pool_namespace: &'a str,
    /// How many seconds a profile may stay as it is although it was collected anew.
    pub refresh: i64,
    pub metrics: &'a Metrics,
}

impl Publisher<'_> {
    /// Writes all profiles as of a moment, and takes away those that nothing is known for any more.
    pub async fn publish(&self, as_of: Timestamp) -> Result<Published, PublishError> {
        let mut published = Published::default();
        let mut current: BTreeSet<ObjectName> = BTreeSet::new();
        let owed_since = self.owed_since()?;
        let own = self.store.namespaces()?.into_iter().map(|namespace| (namespace, Scope::Namespace));
        let pooled = Shard::all().map(|shard| (self.pool_namespace.to_owned(), Scope::Pool(shard)));
        for (namespace, scope) in own.chain(pooled) {
            // What is owed of a namespace is not in its profile, which must not look fresher than it is.
            let since = owed_since.get(&namespace).filter(|_| scope == Scope::Namespace);
            let collected_at = since.and_then(|since| Timestamp::from_unix_seconds(*since)).unwrap_or(as_of).min(as_of);
            let profile = profile::build(self.store, &namespace, scope, collected_at)?;
            if profile.images.is_empty() {
                continue;
            }
            let name = (namespace, scope.object_name());
            let written = self.write(&profile, &mut published).await;
            current.insert(name.clone());
            self.count(name, written, &mut published)?;
        }
        let mut published = published.unless_rights_are_missing()?;
        match &self.destination {
            Destination::Cluster(cluster) => published.deleted = cluster.delete_others(&current).await?,
            Destination::Folder(folder) => published.deleted = folder.delete_others(&current, self.pool_namespace)?,
            Destination::Stdout(_) => {}
        }
        (0..published.deleted).for_each(|_| self.metrics.profile_deleted());
        self.metrics.sizes(published.bytes, self.store.bytes());
        Ok(published)
    }

    async fn write(&self, profile: &UsageProfile, published: &mut Published) -> Result<Written, PublishError> {
        let text = profile.to_string();
        published.bytes += text.len() as u64;
        let mut object: Value = serde_json::from_str(&text).map_err(|error| {
            PublishError::Unreadable(format!("{}/{}", profile.namespace, profile.scope.object_name()), error)
        })?;
        manifest::label(&mut object);
        match &self.destination {
            Destination::Cluster(cluster) => Ok(cluster.apply(profile, &object, self.refresh).await?),
            Destination::Folder(folder) => Ok(folder.write(profile, &object, self.refresh)?),
            Destination::Stdout(format) => {
                let text = manifest::text(&object, *format);
                std::io::stdout().lock().write_all(text.as_bytes()).map_err(PublishError::Stdout)?;
                Ok(Written::Written)
            }
        }
    }

    /// Counts what became of a profile. An error that concerns all ends the round.
    fn count(
        &self,
        name: ObjectName,
        written: Result<Written, PublishError>,
        published: &mut Published,
    ) -> Result<(), PublishError> {
        let error = match written {
            Ok(written) => {
                published.failed_in_a_row = 0;
                match written {
                    Written::Written => {
                        published.written += 1;
                        self.metrics.profile_written();
                    }
                    Written::Unchanged => {
                        published.unchanged += 1;
                        self.metrics.profile_unchanged();
                    }
                    Written::NamespaceGone => tracing::debug!(namespace = name.0, "the namespace is gone"),
                }
                return Ok(());
            }
            Err(error) => error,
        };
        self.metrics.profile_failed();
        published.failed_in_a_row += 1;
        if error.concerns_all() || error.is_of_server() && published.failed_in_a_row >= MOST_SERVER_ERRORS {
            return Err(error);
        }
        match published.failed.len() < MOST_LOGGED {
            true => tracing::error!(namespace = name.0, name = name.1, %error, "a profile was not written"),
            false => tracing::debug!(namespace = name.0, name = name.1, %error, "a profile was not written"),
        }
        published.failed.insert(name, error);
        Ok(())
    }

    /// Since when something is missing, by namespace.
    fn owed_since(&self) -> Result<BTreeMap<String, i64>, StoreError> {
        let mut since = BTreeMap::new();
        for piece in self.store.owed()? {
            let first = since.entry(piece.namespace).or_insert(piece.window.from);
            *first = piece.window.from.min(*first);
        }
        Ok(since)
    }
}
