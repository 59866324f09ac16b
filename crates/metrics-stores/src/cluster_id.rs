//! Identifies the cluster that usage is read from, and the one that profiles are written to.

use std::collections::BTreeSet;
use std::fmt;

use headroom_admission::timestamp::Timestamp;
use serde_json::Value;

/// The namespace that every cluster has from its first day to its last.
pub const KUBE_SYSTEM: &str = "kube-system";

/// The usual labels with the cluster's name, of series and of points.
pub const LABELS: [&str; 5] = ["cluster", "cluster_name", "k8s_cluster", "k8s_cluster_name", "cluster_id"];

/// The identity of a cluster, by its namespace kube-system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterId {
    /// Its address, for people.
    pub address: Option<String>,
    /// UID of kube-system.
    pub uid: Option<String>,
    /// The Unix time of the creation of kube-system, which kube-state-metrics has.
    pub created: Option<i64>,
}

impl ClusterId {
    pub fn of(kube_system: &Value) -> Self {
        let text = |field: &str| kube_system.pointer(field).and_then(Value::as_str);
        let created = text("/metadata/creationTimestamp").and_then(|time| time.parse().ok());
        let uid = text("/metadata/uid").map(str::to_owned);
        Self { address: None, uid, created: created.map(Timestamp::unix_seconds) }
    }

    /// Returns true if the two are certainly different clusters.
    pub fn differs_from(&self, other: &Self) -> bool {
        match (&self.uid, &other.uid) {
            (Some(ours), Some(theirs)) => ours != theirs,
            _ => self.created.zip(other.created).is_some_and(|(ours, theirs)| ours != theirs),
        }
    }

    /// Adds the parts that only the other has.
    pub fn add(&mut self, other: &Self) {
        let Self { address, uid, created } = other;
        self.address = self.address.take().or_else(|| address.clone());
        self.uid = self.uid.take().or_else(|| uid.clone());
        self.created = self.created.or(*created);
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(address) = &self.address {
            write!(f, "`{address}` ")?;
        }
        let created = self.created.and_then(Timestamp::from_unix_seconds);
        match (&self.uid, created) {
            (Some(uid), _) => write!(f, "(UID of kube-system: {uid})"),
            (None, Some(created)) => write!(f, "(kube-system created {created})"),
            (None, None) => f.write_str("(not known)"),
        }
    }
}

/// The maximum number of names in a message.
pub const MAX_NAMES: usize = 5;

/// The values of a label with the cluster's name, for a message.
pub fn listed(values: &BTreeSet<String>) -> String {
    let shown = |value: &String| if value.is_empty() { "none".to_owned() } else { format!("`{value}`") };
    let names: Vec<_> = values.iter().take(MAX_NAMES).map(shown).collect();
    names.join(", ") + if values.len() > MAX_NAMES { ", …" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(uid: Option<&str>, created: Option<i64>) -> ClusterId {
        ClusterId { address: None, uid: uid.map(str::to_owned), created }
    }

    #[test]
    fn clusters_differ_by_what_both_sides_know() {
        let check = |a: &ClusterId, b: &ClusterId, differs| {
            assert_eq!((a.differs_from(b), b.differs_from(a)), (differs, differs), "{a}, {b}");
        };
        let (one, other) = (id(Some("1"), Some(100)), id(Some("2"), Some(200)));
        check(&one, &one, false);
        check(&one, &other, true);
        check(&id(None, Some(100)), &one, false);
        check(&id(None, Some(200)), &one, true);
        check(&ClusterId::default(), &one, false);
        check(&id(Some("1"), None), &id(None, Some(200)), false);
    }

    #[test]
    fn what_is_learned_is_kept() {
        let mut known = id(None, Some(100));
        known.add(&ClusterId { address: Some("https://a".to_owned()), ..id(Some("1"), Some(200)) });
        assert_eq!(known, ClusterId { address: Some("https://a".to_owned()), ..id(Some("1"), Some(100)) });
        assert_eq!(known.to_string(), "`https://a` (UID of kube-system: 1)");
        assert_eq!(id(None, Some(100)).to_string(), "(kube-system created 1970-01-01T00:01:40Z)");
    }
}
