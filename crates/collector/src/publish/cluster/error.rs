//! Errors of writing a UsageProfile, with advice, and whether they affect the others.

use headroom_admission::cluster::usage::profile_layout::KIND;
use headroom_api_server::api_client::ApiError;

/// The most characters of a message of the API server: a conflict over a whole profile names each of its fields.
const MAX_MESSAGE: usize = 300;

#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error(
        "another writer owns parts of usageprofile `{object}` ({message}): let one of the two keep it, or take it over with --force-conflicts"
    )]
    Conflict { object: String, message: String },
    #[error(
        "not allowed to {verb} {what} ({message}): bind this account to the Role and ClusterRole headroom-collector"
    )]
    Forbidden { verb: &'static str, what: &'static str, message: String },
    #[error(
        "usageprofile `{object}` is rejected ({message}): let the quota or admission webhook of its namespace admit usageprofiles"
    )]
    Refused { object: String, message: String },
    #[error("the cluster does not know this account ({message}): check the kubeconfig or the service account's token")]
    Unauthenticated { message: String },
    #[error("the cluster does not know the kind {KIND}: install the Helm chart or a release's manifests.yaml")]
    NotInstalled,
    #[error("usageprofile `{object}` is invalid ({message}): apply the CustomResourceDefinition of this version")]
    Invalid { object: String, message: String },
    #[error("cannot {verb} {what}: {message}")]
    Failed { verb: &'static str, what: &'static str, message: String },
    #[error("cannot {verb} {what}: the API server cannot be reached ({message})")]
    Unreachable { verb: &'static str, what: &'static str, message: String },
    #[error(
        "another collector, `{holder}`, writes the profiles of this cluster (it renewed the lease {lease} at {renewed}): \
         stop one of the two, or write elsewhere with --output"
    )]
    NotOurTurn { holder: String, lease: String, renewed: String },
    #[error(
        "the lease was lost while profiles were written: another collector may have taken it; the next run tries again"
    )]
    LostTurn,
    #[error(
        "there is no namespace `{namespace}` for the profiles: create it, or name another \
         with --namespace"
    )]
    NoNamespace { namespace: String },
    #[error("{message}; to write elsewhere, choose --output with a folder or `stdout`")]
    NoCluster { message: String },
}

impl ClusterError {
    /// True if every other profile would fail too. A webhook may refuse one of them, or be down for a moment.
    pub fn concerns_all(&self) -> bool {
        !matches!(self, Self::Conflict { .. } | Self::Refused { .. } | Self::Invalid { .. } | Self::Failed { .. })
    }

    /// The error of a request about an object, or about objects of a kind.
    pub(in crate::publish) fn of(error: ApiError, verb: &'static str, what: &'static str, object: &str) -> Self {
        let object = object.to_owned();
        match error {
            ApiError::Unauthenticated { message } => Self::Unauthenticated { message: one_line(&message) },
            ApiError::Forbidden { message } => Self::Forbidden { verb, what, message: one_line(&message) },
            ApiError::Refused { message } | ApiError::NamespaceTerminating { message } => {
                Self::Refused { object, message: one_line(&message) }
            }
            ApiError::NotFound(_) => Self::NotInstalled,
            ApiError::Conflict { message } => Self::Conflict { object, message: one_line(&message) },
            ApiError::Invalid { message } => Self::Invalid { object, message: one_line(&message) },
            ApiError::Unreachable { cause } => Self::Unreachable { verb, what, message: cause },
            ApiError::TimedOut(_) | ApiError::TooLong(_) => {
                Self::Unreachable { verb, what, message: error.to_string() }
            }
            ApiError::Unavailable { message } | ApiError::Other(message) => {
                Self::Failed { verb, what, message: one_line(&message) }
            }
        }
    }
}

fn one_line(message: &str) -> String {
    let words: Vec<&str> = message.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(MAX_MESSAGE) {
        None => line,
        Some((end, _)) => format!("{}…", line.split_at(end).0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `…` stands for the message in the expected text.
    #[track_caller]
    fn check(code: u16, message: &str, expected: &str, concerns_all: bool) {
        let error = kube::Error::Api(kube::core::Status::failure(message, "").with_code(code).boxed()).into();
        let error = ClusterError::of(error, "patch", "usageprofiles", "headroom/usage-26");
        assert_eq!((error.to_string(), error.concerns_all()), (expected.replace('…', message), concerns_all));
    }

    #[test]
    fn a_refusal_differs_from_missing_permissions() {
        let rights =
            r#"usageprofiles.headroom.dev "usage" is forbidden: User "eve" cannot patch resource "usageprofiles""#;
        let quota = r#"usageprofiles.headroom.dev "usage" is forbidden: exceeded quota: objects, requested: count/usageprofiles.headroom.dev=1"#;
        let webhook = r#"admission webhook "guard.example" denied the request: no"#;
        let conflict = r#"Apply failed with 1 conflict: conflict with "kubectl": .spec"#;
        let rejected = "usageprofile `headroom/usage-26` is rejected (…): let the quota or admission webhook of its namespace admit usageprofiles";
        let owned = "another writer owns parts of usageprofile `headroom/usage-26` (…): let one of the two keep it, or take it over with --force-conflicts";
        let unknown = "the cluster does not know this account (…): check the kubeconfig or the service account's token";
        let advice =
            "not allowed to patch usageprofiles (…): bind this account to the Role and ClusterRole headroom-collector";
        check(403, rights, advice, true);
        check(403, quota, rejected, false);
        check(403, webhook, rejected, false);
        check(409, conflict, owned, false);
        check(500, "failed calling webhook", "cannot patch usageprofiles: …", false);
        check(401, "Unauthorized", unknown, true);
        let not_installed =
            "the cluster does not know the kind UsageProfile: install the Helm chart or a release's manifests.yaml";
        check(404, "the server could not find the requested resource", not_installed, true);
    }
}
