//! A small profile for the tests of this room.

use std::collections::BTreeMap;

use super::{Dropped, History, ImageHistory, Percentiles, Usage, UsageProfile, WindowUsage};
use headroom_core::amount::Quantity;
use headroom_core::cluster::usage::{OomKill, Repository, Scope, Shard, TagKey, Window};
use headroom_core::image::ImageName;
use headroom_core::timestamp::Timestamp;

pub fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub fn image(text: &str) -> ImageName<'_> {
    ImageName::parse(text).unwrap()
}

pub fn history(last_seen: Timestamp) -> History {
    let cpu = Usage {
        samples: 120,
        percentiles: Percentiles::from_fn(|percentile| Quantity::from_milli(percentile.permille().into())),
        peak: Some(Quantity::from_units(1)),
    };
    let memory = Usage {
        samples: 120,
        percentiles: Percentiles::from_fn(|percentile| Quantity::from_bytes(u64::from(percentile.permille()) << 20)),
        peak: Some(Quantity::from_bytes(1 << 30)),
    };
    let usage = WindowUsage { pods: 2, namespaces: 1, cpu: Some(cpu), memory: Some(memory) };
    History { last_seen, days: 2, oom_kills: Vec::new(), windows: BTreeMap::from([(Window::WEEK, usage)]) }
}

/// Of these images, each written with its tag, the second one seen a second after the first and so on.
pub fn profile_of(images: impl IntoIterator<Item = String>) -> UsageProfile {
    let collected_at = at("2026-11-21T00:00:00Z");
    let mut profile = UsageProfile {
        namespace: "shop".to_owned(),
        scope: Scope::Namespace,
        collected_at,
        quorum: None,
        images: BTreeMap::new(),
        dropped: Dropped::default(),
    };
    for (seconds, text) in (0..).zip(images) {
        let image = image(&text);
        let seen = Timestamp::from_unix_seconds(collected_at.unix_seconds() - 86_400 + seconds).unwrap();
        let entry = profile
            .images
            .entry(Repository::of(&image))
            .or_insert_with(|| ImageHistory { all: history(seen), tags: BTreeMap::new() });
        entry.all.last_seen = seen;
        entry.tags.extend(TagKey::of(&image).map(|key| (key, history(seen))));
    }
    profile
}

/// One with everything that the format knows.
pub fn profile() -> UsageProfile {
    let mut profile = profile_of(["nginx:1.27".to_owned()]);
    profile.namespace = "headroom".to_owned();
    profile.scope = Scope::Pool(Shard::of("docker.io/library/nginx"));
    profile.quorum = Some(3);
    for image in profile.images.values_mut() {
        image.all.oom_kills = vec![OomKill { at: at("2026-11-19T10:00:00Z"), memory: Quantity::from_bytes(310 << 20) }];
        for tag in image.tags.values_mut() {
            for window in tag.windows.values_mut() {
                window.cpu = None;
            }
        }
    }
    profile
}
