//! Finds history that would be lost if a root from another store were replaced.
//!
//! A collector whose volume was lost creates a new store and reads the source again. The published profile stays until that
//! store has as many days of each image in each namespace; readers use it until it is too old. So a lost store recovers by itself
//! if the source has a past, and a second collector, or one that reads only some namespaces, replaces no history that it lacks.

use headroom_admission::cluster::usage::profile_layout::key_of;
use headroom_admission::truncate::count_of;
use headroom_usage::DAY;
use headroom_usage::profile::Share;
use serde_json::Value;

use super::change::collected_at;

/// The first history in a published object that `share` does not have for as many days, in words. The days that have passed since
/// it was collected are no longer in its windows, and do not count.
pub fn first_lost(object: &Value, share: &Share) -> Option<String> {
    let age = collected_at(object).map_or(0, |at| (share.collected_at.unix_seconds() - at).max(0) / DAY);
    let days_in_share = |image: &str, namespace: &str| {
        let history = share.images.iter().find(|(repository, _)| key_of(repository.as_str()) == image);
        history.and_then(|(_, history)| history.own.get(namespace)).map_or(0, |own| own.all.days)
    };
    let images = object.pointer("/spec/images").and_then(Value::as_object);
    images.into_iter().flatten().find_map(|(image, history)| {
        let own = history.get("own").and_then(Value::as_object);
        own.into_iter().flatten().find_map(|(namespace, own)| {
            let days = own.pointer("/all/days").and_then(Value::as_u64).unwrap_or(1);
            let days = days.saturating_sub(age.unsigned_abs());
            let days_here = days_in_share(image, namespace);
            (days > days_here).then(|| {
                let (image, days) = (image.replace(',', "."), count_of(days, "day"));
                format!("{image} in namespace {namespace} has {days} of history, and this store has {days_here}")
            })
        })
    })
}
