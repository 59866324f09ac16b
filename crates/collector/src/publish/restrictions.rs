//! Follows the namespaces that ask for fewer estimates. The collector publishes their names, and users who label a Namespace
//! expect an effect before the next publication.

use std::collections::BTreeSet;

use headroom_admission::actions::estimate_targets::CHOICE;
use headroom_admission::json::Node;
use headroom_api_server::ApiPath;
use headroom_api_server::api_client::{ApiClient, ListOptions, value};
use headroom_api_server::parts::Parts;
use headroom_api_server::watch::{OLD, WatchUpdate, follow};
use headroom_objects::kinds::metadata;
use headroom_usage::profile::RestrictedNamespaces;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub const NAMESPACES: ApiPath = ApiPath::new("/api/v1/namespaces");

/// True if a Namespace has the label or annotation with which it can ask for fewer estimates.
pub fn has_choice(namespace: &Value) -> bool {
    let chooses = |field| namespace.get("metadata")?.get(field)?.get(CHOICE);
    ["labels", "annotations"].into_iter().any(|field| chooses(field).is_some())
}

/// The names of the namespaces that may ask for fewer estimates.
pub struct Restrictions(watch::Receiver<BTreeSet<String>>);

impl Restrictions {
    /// Follows the Namespaces of a cluster until `stop`.
    pub fn follow(api: ApiClient, parts: &Parts, stop: CancellationToken) -> Self {
        let (sender, receiver) = watch::channel(BTreeSet::new());
        let read = |namespace: Node<'_>| {
            value(namespace).map(|namespace| (metadata(&namespace, "name").to_owned(), has_choice(&namespace)))
        };
        let watch = follow(api, NAMESPACES, ListOptions::WHOLE, stop.clone(), read, move |seen| {
            sender.send_if_modified(|restricted| update(restricted, seen));
        });
        parts.run("watch of Namespaces", OLD, &stop, watch);
        Self(receiver)
    }

    /// Restrictions of no cluster, which never change.
    pub fn none() -> Self {
        Self(watch::channel(BTreeSet::new()).1)
    }

    /// Lets [`Self::changed`] return them once more.
    pub fn take_again(&mut self) {
        self.0.mark_changed();
    }

    /// Waits until they differ from those that were returned last.
    pub async fn changed(&mut self) -> RestrictedNamespaces {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        RestrictedNamespaces::of(self.0.borrow_and_update().iter().map(String::as_str))
    }
}

/// Applies an update. Returns true if it changed `restricted`.
fn update(restricted: &mut BTreeSet<String>, seen: WatchUpdate<(String, bool)>) -> bool {
    match seen {
        WatchUpdate::Listed(_, namespaces) => {
            let listed =
                namespaces.into_iter().filter_map(|(name, is_restricted)| is_restricted.then_some(name)).collect();
            let is_new = *restricted != listed;
            *restricted = listed;
            is_new
        }
        WatchUpdate::Stored((name, true)) => restricted.insert(name),
        WatchUpdate::Stored((name, false)) | WatchUpdate::Deleted((name, _)) => restricted.remove(&name),
        WatchUpdate::UpTo(_) | WatchUpdate::Lost(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_of_the_choice_is_a_change() {
        let mut restricted = BTreeSet::new();
        let stored = |name: &str, is_restricted| WatchUpdate::Stored((name.to_owned(), is_restricted));
        let deleted = |name: &str| WatchUpdate::Deleted((name.to_owned(), false));
        for (seen, is_change, expected) in [
            (stored("shop", false), false, ""),
            (stored("shop", true), true, "shop"),
            (stored("shop", true), false, "shop"),
            (stored("lab", true), true, "lab shop"),
            (stored("shop", false), true, "lab"),
            (deleted("shop"), false, "lab"),
            (WatchUpdate::UpTo(7), false, "lab"),
            (WatchUpdate::Lost("forbidden".to_owned()), false, "lab"),
            (WatchUpdate::Listed(8, vec![("lab".to_owned(), true), ("shop".to_owned(), false)]), false, "lab"),
            (WatchUpdate::Listed(9, vec![("shop".to_owned(), true)]), true, "shop"),
            (deleted("shop"), true, ""),
        ] {
            let text = format!("{seen:?}");
            assert_eq!(update(&mut restricted, seen), is_change, "{text}");
            assert_eq!(Vec::from_iter(restricted.iter().map(String::as_str)).join(" "), expected, "{text}");
        }
    }
}
