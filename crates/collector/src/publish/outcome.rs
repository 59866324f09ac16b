//! The results of writing profiles, and the errors that end a round of publishing.

use std::collections::BTreeMap;

use headroom_api_server::metric_registry::count;

use super::cluster::ClusterError;
use super::{Publisher, folder};
use crate::store::StoreError;

/// Server errors in a row that end a round: the API server has failed, not the webhooks of some namespaces.
const MAX_SERVER_ERRORS: usize = 5;
/// Failures that are logged one by one; the rest is counted.
const MAX_LOGGED: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileWrite {
    Written,
    /// There is nothing new to write, or the existing profile was collected later.
    Unchanged,
    Deleted,
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
    OtherStore { store: String, lost: String },
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

#[derive(Debug, Default)]
pub struct Published {
    pub written: u64,
    pub unchanged: u64,
    pub deleted: u64,
    /// The length of all profiles, written or not.
    pub bytes: u64,
    /// By the name of the profile.
    pub failed: BTreeMap<String, PublishError>,
    /// Failures since the last success.
    failed_in_a_row: usize,
}

impl Published {
    /// Counts the result of a profile. An error that concerns all profiles is returned and ends the round.
    pub(super) fn count(
        &mut self,
        Publisher { namespace, metrics, .. }: &Publisher<'_>,
        name: String,
        done: Result<ProfileWrite, PublishError>,
    ) -> Result<(), PublishError> {
        let (counted, result) = match done {
            Ok(ProfileWrite::Written) => (&mut self.written, "written"),
            Ok(ProfileWrite::Unchanged) => (&mut self.unchanged, "unchanged"),
            Ok(ProfileWrite::Deleted) => (&mut self.deleted, "deleted"),
            Err(error) => {
                count(&metrics.profiles, "failed");
                self.failed_in_a_row += 1;
                // A server error (5xx), of the API server or of a webhook of one namespace.
                let is_of_server = matches!(error, PublishError::Cluster(ClusterError::Failed { .. }));
                if error.concerns_all() || is_of_server && self.failed_in_a_row >= MAX_SERVER_ERRORS {
                    return Err(error);
                }
                match self.failed.len() < MAX_LOGGED {
                    true => tracing::error!(namespace, name, %error, "a profile was not written"),
                    false => tracing::debug!(namespace, name, %error, "a profile was not written"),
                }
                self.failed.insert(name, error);
                return Ok(());
            }
        };
        *counted += 1;
        self.failed_in_a_row = 0;
        count(&metrics.profiles, result);
        Ok(())
    }
}
