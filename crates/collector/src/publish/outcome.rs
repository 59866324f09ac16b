//! The results of writing profiles, and the errors that end a round of publishing.

use std::collections::BTreeMap;

use headroom_api_server::metric_registry::count;

use super::cluster::ClusterError;
use super::other_store::Lost;
use super::{ObjectName, folder};
use crate::metrics::CollectorMetrics;
use crate::store::StoreError;

/// Server errors in a row that end a round: the API server has failed, not the webhooks of some namespaces.
const MAX_SERVER_ERRORS: usize = 5;
/// Failures that are logged one by one; the rest is counted.
const MAX_LOGGED: usize = 10;

/// The result of writing one UsageProfile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileWrite {
    Written,
    /// The existing profile has the same content.
    Unchanged,
    /// The existing profile was collected later.
    Newer,
}

/// An error of writing one UsageProfile. Others may be written.
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
         collect with that store, or replace what it knows with --adopt"
    )]
    OtherStore { store: String, lost: Lost },
}

impl PublishError {
    /// True if the next profile would fail too.
    fn concerns_all(&self) -> bool {
        match self {
            Self::Cluster(error) => error.concerns_all(),
            Self::Folder(_) | Self::Stdout(_) | Self::Store(_) => true,
            Self::OtherStore { .. } => false,
        }
    }
}

/// The result of a round of publishing.
#[derive(Debug, Default)]
pub struct Published {
    pub written: u64,
    pub unchanged: u64,
    pub deleted: u64,
    /// The length of all profiles, written or not.
    pub bytes: u64,
    pub failed: BTreeMap<ObjectName, PublishError>,
    /// Failures since the last success.
    failed_in_a_row: usize,
}

impl Published {
    /// Counts the result of a profile. An error that concerns all profiles is returned and ends the round.
    pub(super) fn count(
        &mut self,
        name: ObjectName,
        written: Result<ProfileWrite, PublishError>,
        metrics: &CollectorMetrics,
    ) -> Result<(), PublishError> {
        let written = match written {
            Ok(written) => written,
            Err(error) => return self.fail(name, error, metrics),
        };
        self.failed_in_a_row = 0;
        if written == ProfileWrite::Written {
            self.written += 1;
            count(&metrics.profiles, "written");
            return Ok(());
        }
        self.unchanged += 1;
        count(&metrics.profiles, "unchanged");
        if written == ProfileWrite::Newer {
            let (namespace, name) = name;
            tracing::warn!(namespace, name, "the existing profile was collected later, and stays as it is");
        }
        Ok(())
    }

    pub(super) fn count_deleted(
        &mut self,
        name: ObjectName,
        deleted: Result<(), PublishError>,
        metrics: &CollectorMetrics,
    ) -> Result<(), PublishError> {
        if let Err(error) = deleted {
            return self.fail(name, error, metrics);
        }
        self.deleted += 1;
        count(&metrics.profiles, "deleted");
        Ok(())
    }

    pub(super) fn fail(
        &mut self,
        name: ObjectName,
        error: PublishError,
        metrics: &CollectorMetrics,
    ) -> Result<(), PublishError> {
        count(&metrics.profiles, "failed");
        self.failed_in_a_row += 1;
        // A server error (5xx), of the API server or of a webhook of one namespace.
        let is_of_server = matches!(error, PublishError::Cluster(ClusterError::Failed { .. }));
        if error.concerns_all() || is_of_server && self.failed_in_a_row >= MAX_SERVER_ERRORS {
            return Err(error);
        }
        match self.failed.len() < MAX_LOGGED {
            true => tracing::error!(namespace = name.0, name = name.1, %error, "a profile was not written"),
            false => tracing::debug!(namespace = name.0, name = name.1, %error, "a profile was not written"),
        }
        self.failed.insert(name, error);
        Ok(())
    }
}
