//! The labels and annotations of the objects that the collector writes.

use headroom_admission::cluster::usage::Root;
use headroom_usage::profile::UsageProfile;
use headroom_usage::profile::custom_resource::ROOT_LABEL;
use serde_json::Value;

/// The value of the label `app.kubernetes.io/managed-by`, and the field manager.
pub const MANAGER: &str = "headroom-collector";
const MANAGER_LABEL: &str = "app.kubernetes.io/managed-by";
/// The annotation with the id of the store that an object is made from.
const STORE_ANNOTATION: &str = "headroom.dev/store";

/// Marks an object as the collector's, as made from this store, and as part of a root.
pub fn mark(profile: &mut UsageProfile, store: &str, root: Root) {
    let owned = |(name, value): (&str, String)| (name.to_owned(), value);
    profile.metadata.annotations = Some([(STORE_ANNOTATION, store.to_owned())].map(owned).into());
    let labels = [(MANAGER_LABEL, MANAGER.to_owned()), (ROOT_LABEL, root.to_string())];
    profile.metadata.labels = Some(labels.map(owned).into());
}

pub fn is_collected(object: &Value) -> bool {
    metadata(object, "labels", MANAGER_LABEL) == Some(MANAGER)
}

pub fn store_of(object: &Value) -> Option<&str> {
    metadata(object, "annotations", STORE_ANNOTATION)
}

fn metadata<'o>(object: &'o Value, field: &str, key: &str) -> Option<&'o str> {
    object.get("metadata")?.get(field)?.get(key)?.as_str()
}
