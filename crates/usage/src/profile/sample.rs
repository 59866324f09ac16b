//! Small histories for the tests of this module.

use std::collections::BTreeMap;

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::{Repository, Root, TagKey, Window};
use headroom_admission::image::ImageName;
use headroom_admission::timestamp::Timestamp;

use super::{Histories, History, OomKill, Percentiles, RestrictedNamespaces, Share, Usage, UsageProfile, WindowUsage};

pub fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub fn history(last_seen: Timestamp) -> History {
    let used = |amount: fn(u16) -> Quantity, peak, busiest| Usage {
        samples: 120,
        percentiles: Percentiles::agreed(|percentile| Some(amount(percentile.permille()))),
        peak: Some(peak),
        busiest,
        each_pod: None,
        not_covered: None,
    };
    let milli = |permille: u16| Quantity::from_milli(permille.into());
    let cpu = used(milli, Quantity::from_units(1), Some(milli(960)));
    let memory = used(|permille| Quantity::from_bytes(u64::from(permille) << 20), Quantity::from_bytes(1 << 30), None);
    let usage = WindowUsage {
        pods: 2,
        namespaces: 1,
        cpu: Some(Box::new(cpu)),
        memory: Some(Box::new(memory)),
        ephemeral_storage: None,
    };
    History { last_seen, days: 2, oom_kills: Vec::new(), windows: BTreeMap::from([(Window::Week, usage)]) }
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
