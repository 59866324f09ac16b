//! Pods whose containers get estimates, and histories with any number of images and namespaces.

use std::collections::BTreeMap;
use std::time::SystemTime;

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::profile_layout::{API_VERSION, KIND};
use headroom_admission::cluster::usage::{Percentile, Repository, Root, TagKey, Window, workload};
use headroom_admission::image::ImageName;
use headroom_admission::timestamp::Timestamp;
use headroom_usage::profile::{
    Histories, History, ImageHistory, Images, Percentiles, RestrictedNamespaces, Share, Usage, UsageProfile,
    WindowUsage,
};
use serde_json::{Value, json};

const HOUR: u64 = 3_600;
/// The age of the history.
const HOURS: u64 = 6;
const NAMESPACE: &str = "headroom";
/// Names of the measured pod's workload, and of its containers without their number.
const WORKLOAD: &str = "plain-7b89ff4ccb";
const CONTAINER: &str = "nginx";

#[derive(Debug, Clone, Copy)]
pub enum State {
    /// No collector has run yet.
    Cold,
    /// A collector has run, but has not seen the images.
    Empty,
    /// The collector has seen this many images, including those of the containers, each in this many namespaces.
    Warm { images: usize, namespaces: usize },
}

/// The containers' images, used in rotation.
const IMAGES: [&str; 2] = ["nginx:1.25", "registry.example.com/shop/api:2.4.1"];

/// Gives each container an image that is in the history.
pub fn use_known_images(request: &mut Value) {
    let containers = request.pointer_mut("/object/spec/containers").and_then(Value::as_array_mut);
    for (container, image) in containers.into_iter().flatten().zip(IMAGES.iter().cycle()) {
        container["image"] = json!(image);
    }
}

/// The image with this number in a large enough history.
pub fn known_image(number: usize) -> String {
    let other = || format!("registry.example.com/team/app-{number}:1.0");
    IMAGES.get(number).map_or_else(other, |image| (*image).to_owned())
}

/// The objects of a history. Only the roots of `wanted` images have content; the others are empty.
pub fn profiles(state: State, wanted: usize) -> Vec<Value> {
    let root_of = |image: &str| ImageName::parse(image).ok().map(|name| Root::of(name.repository()));
    let (images, namespaces) = match state {
        State::Cold => return Vec::new(),
        State::Empty => (0, 0),
        State::Warm { images, namespaces } => (images, namespaces),
    };
    let needed: Vec<Root> = (0..wanted).filter_map(|number| root_of(&known_image(number))).collect();
    let mut shares: BTreeMap<Root, Images> = Root::all().map(|root| (root, Images::new())).collect();
    for number in 0..images {
        let text = known_image(number);
        let Ok(name) = ImageName::parse(&text) else { continue };
        let root = Root::of(name.repository());
        // All namespaces use the containers' images; each other image is used by one namespace.
        let spread = if number < IMAGES.len() { namespaces } else { 1 };
        if let Some(share) = shares.get_mut(&root).filter(|_| needed.contains(&root)) {
            share.insert(Repository::of(&name), image_history(&name, spread));
        }
    }
    let objects = shares.into_iter().flat_map(|(root, images)| share(root, images).lay_out());
    objects.map(|object| manifest(&object)).collect()
}

fn share(root: Root, images: Images) -> Share {
    // Rounded to the hour, so that the text does not change during a run.
    let hour = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() / HOUR;
    let collected_at = Timestamp::from_unix_seconds((hour.saturating_sub(HOURS) * HOUR) as i64);
    let collected_at = collected_at.unwrap_or(Timestamp::UNIX_EPOCH);
    let empty = Share::empty(NAMESPACE, root, collected_at, "0123456789abcdef");
    let restricted = Some(RestrictedNamespaces::of(["lab", "staging"]));
    let mut share = Share { quorum: Some(3), images, restricted, ..empty };
    share.bound();
    share
}

/// The object as the collector writes it and the API server stores it.
#[expect(clippy::indexing_slicing, reason = "a field of an object is added where it is missing")]
fn manifest(profile: &UsageProfile) -> Value {
    let mut object = profile.to_value();
    let manager = "headroom-collector";
    let name = profile.metadata.name.as_deref().unwrap_or_default();
    let root = name.split_once('.').map_or(name, |(root, _)| root);
    let metadata = &mut object["metadata"];
    metadata["annotations"] = json!({ "headroom.dev/store": "0123456789abcdef" });
    metadata["labels"] = json!({ "app.kubernetes.io/managed-by": manager, "headroom.dev/root": root });
    metadata["creationTimestamp"] = json!("2026-11-20T00:00:00Z");
    metadata["generation"] = json!(12);
    metadata["resourceVersion"] = json!("123456789");
    metadata["uid"] = json!("0f8fad5b-d9cb-469f-a165-70867728950e");
    metadata["managedFields"] = json!([{
        "apiVersion": API_VERSION, "fieldsType": "FieldsV1", "manager": manager, "operation": "Apply",
        "time": "2026-11-20T00:00:00Z",
        "fieldsV1": {
            "f:metadata": {
                "f:annotations": { "f:headroom.dev/store": {} },
                "f:labels": { "f:app.kubernetes.io/managed-by": {}, "f:headroom.dev/root": {} },
            },
            "f:spec": {},
        },
    }]);
    debug_assert_eq!(object.get("kind"), Some(&json!(KIND)));
    object
}

/// The history of an image, with a pool if enough namespaces use it.
fn image_history(name: &ImageName<'_>, namespaces: usize) -> ImageHistory {
    let all = history();
    let tags = TagKey::of(name).map(|tag| (tag, all.clone())).collect();
    let histories = Histories { tags, ..Histories::of(all) };
    // Each namespace uses the image in one workload, as is usual.
    let container = IMAGES.iter().position(|image| ImageName::parse(image).as_ref() == Ok(name)).unwrap_or_default();
    let in_workload = |of: &Histories| Histories {
        workloads: BTreeMap::from([(workload::key(WORKLOAD, &format!("{CONTAINER}-{container}")), of.all.clone())]),
        ..of.clone()
    };
    let named = |number| if number == 0 { "default".to_owned() } else { format!("team-{number:04}") };
    let own = (0..namespaces).map(|number| (named(number), in_workload(&histories))).collect();
    ImageHistory { pool: (namespaces >= 3).then_some(histories), own }
}

const PERCENTILES: [u32; 11] = [80, 83, 88, 90, 94, 101, 120, 131, 144, 150, 188];

fn history() -> History {
    let usage = |unit: fn(u64) -> Quantity, busiest| {
        let mut amounts = PERCENTILES.iter();
        let percentile = |_: Percentile| amounts.next().map(|amount| unit(u64::from(*amount)));
        let percentiles = Percentiles::agreed(percentile);
        Some(Box::new(Usage {
            samples: 10_080,
            peak: Some(unit(190)),
            percentiles,
            busiest,
            each_pod: None,
            not_covered: None,
        }))
    };
    let milli = |amount| Quantity::from_milli(i64::try_from(amount).unwrap_or_default());
    let cpu = usage(milli, Some(milli(135)));
    let memory = usage(|amount| Quantity::from_bytes(amount << 20), None);
    let window = WindowUsage { pods: 12, namespaces: 5, cpu, memory, ephemeral_storage: None };
    let last_seen = Timestamp::from_unix_seconds(1_795_219_140).unwrap_or(Timestamp::UNIX_EPOCH);
    let windows = [Window::Week, Window::Month].map(|of| (of, window.clone())).into();
    History { last_seen, days: 30, oom_kills: Vec::new(), windows }
}
