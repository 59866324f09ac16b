//! Small histories for the tests of this module.

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::{Percentile, Repository, Root, TagKey};
use headroom_admission::image::ImageName;
use headroom_admission::timestamp::Timestamp;
use serde_json::json;

use super::{Histories, History, OomKill, RestrictedNamespaces, Share, UsageProfile};

pub fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub fn history(last_seen: Timestamp) -> History {
    let amounts = |unit: &str| Percentile::PUBLISHED.map(|percentile| format!("{}{unit}", percentile.permille()));
    let week = json!({
        "pods": 2,
        "namespaces": 1,
        "cpu": {"samples": 120, "peak": "1", "busiest": "960m", "percentiles": amounts("m")},
        "memory": {"samples": 120, "peak": "1Gi", "percentiles": amounts("Mi")},
    });
    let history = json!({"lastSeen": last_seen.to_string(), "days": 2, "oomKills": [], "windows": {"7d": week}});
    serde_json::from_value(history).unwrap()
}

/// A share with these images, each with its tag, in namespace `shop`; each is last seen one second after the previous.
pub fn share_of(images: impl IntoIterator<Item = String>) -> Share {
    let collected_at = at("2026-11-21T00:00:00Z");
    let mut share = Share {
        quorum: Some(3),
        restricted: Some(RestrictedNamespaces::of(["lab", "staging"])),
        ..Share::empty("headroom", Root::of("docker.io/library/nginx"), collected_at, "0f1e")
    };
    for (seconds, text) in (0..).zip(images) {
        let image = ImageName::parse(&text).unwrap();
        let seen = Timestamp::from_unix_seconds(collected_at.unix_seconds() - 86_400 + seconds).unwrap();
        let entry = share.images.entry(Repository::of(&image)).or_default();
        let own = entry.own.entry("shop".to_owned());
        let own = own.or_insert_with(|| Histories::of(history(seen)));
        own.all.last_seen = seen;
        own.tags.extend(TagKey::of(&image).map(|key| (key, history(seen))));
    }
    share
}

/// A share that uses every field of the format.
pub fn share() -> Share {
    let mut share = share_of(["nginx:1.27".to_owned()]);
    for image in share.images.values_mut() {
        let own = image.own.get_mut("shop").unwrap();
        let mut pool = own.clone();
        own.workloads.insert("web/main".to_owned(), own.all.clone());
        own.collected_at = Some(at("2026-11-20T12:00:00Z"));
        pool.all.oom_kills = vec![OomKill { at: at("2026-11-19T10:00:00Z"), memory: Quantity::from_bytes(310 << 20) }];
        for tag in pool.tags.values_mut() {
            for window in tag.windows.values_mut() {
                window.cpu = None;
            }
        }
        image.pool = Some(pool);
    }
    share
}

/// The object of [`share`] with its histories.
pub fn profile() -> UsageProfile {
    let has_history = |profile: &UsageProfile| profile.spec.images.values().any(|image| !image.own.is_empty());
    share().lay_out().into_iter().find(has_history).unwrap()
}
