//! What became of profiles, and what ends a round of publishing.

use std::collections::BTreeMap;

use super::cluster::ClusterError;
use super::other_store::Lost;
use super::{ObjectName, folder};
use crate::metrics::Metrics;
use crate::store::StoreError;

/// After so many server errors in a row it is the API server that is in trouble, and not some namespaces.
const MOST_SERVER_ERRORS: usize = 5;
/// Failures that are logged one by one; the rest is counted.
const MOST_LOGGED: usize = 10;

/// What became of one profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    Written,
    /// What is there says the same.
    Unchanged,
    /// What is there was collected later.
    Newer,
}

/// Why a profile could not be written. Others may be.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Folder(#[from] folder::FolderError),
    #[error("cannot write to standard output: {0}")]
    Stdout(std::io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "it was written from another store ({store}), which knows more: {lost}; wait until this store knows as much, \
         collect with that store, or replace what it knows with --replace-other-stores"
    )]
    OtherStore { store: String, lost: Lost },
}

impl PublishError {
    /// Whether the next profile would meet the same.
    fn concerns_all(&self) -> bool {
        match self {
            Self::Cluster(error) => error.concerns_all(),
            Self::Folder(_) | Self::Stdout(_) | Self::Store(_) => true,
            Self::OtherStore { .. } => false,
        }
    }

    /// Whether a server error (5xx) stands behind it: of the API server, or of a webhook of one namespace.
    fn is_of_server(&self) -> bool {
        matches!(self, Self::Cluster(ClusterError::Failed { .. }))
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

impl Published {
    /// Counts what became of a profile. An error that concerns all ends the round.
    pub(super) fn count(
        &mut self,
        name: ObjectName,
        written: Result<Written, PublishError>,
        metrics: &Metrics,
    ) -> Result<(), PublishError> {
        let written = match written {
            Ok(written) => written,
            Err(error) => return self.fail(name, error, metrics),
        };
        self.failed_in_a_row = 0;
        match written {
            Written::Written => {
                self.written += 1;
                metrics.profile_written();
            }
            Written::Unchanged => {
                self.unchanged += 1;
                metrics.profile_unchanged();
            }
            Written::Newer => {
                self.unchanged += 1;
                metrics.profile_unchanged();
                tracing::warn!(
                    namespace = name.0,
                    name = name.1,
                    "what is published was collected later, and is left as it is"
                );
            }
        }
        Ok(())
    }

    pub(super) fn count_deleted(
        &mut self,
        name: ObjectName,
        deleted: Result<bool, PublishError>,
        metrics: &Metrics,
    ) -> Result<(), PublishError> {
        match deleted {
            Ok(true) => {
                self.deleted += 1;
                metrics.profile_deleted();
                Ok(())
            }
            Ok(false) => Ok(()),
            Err(error) => self.fail(name, error, metrics),
        }
    }

    pub(super) fn fail(
        &mut self,
        name: ObjectName,
        error: PublishError,
        metrics: &Metrics,
    ) -> Result<(), PublishError> {
        metrics.profile_failed();
        self.failed_in_a_row += 1;
        if error.concerns_all() || error.is_of_server() && self.failed_in_a_row >= MOST_SERVER_ERRORS {
            return Err(error);
        }
        match self.failed.len() < MOST_LOGGED {
            true => tracing::error!(namespace = name.0, name = name.1, %error, "a profile was not written"),
            false => tracing::debug!(namespace = name.0, name = name.1, %error, "a profile was not written"),
        }
        self.failed.insert(name, error);
        Ok(())
    }
}
