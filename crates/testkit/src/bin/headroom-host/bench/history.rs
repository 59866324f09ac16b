//! Pods whose containers get estimates, and a history of as many images as are asked for.

use headroom_core::cluster::usage::address::{API_VERSION, KIND, Scope, image_key};
use std::time::SystemTime;

use headroom_core::timestamp::Timestamp;
use serde_json::{Value, json};

const HOUR: u64 = 3_600;
/// How old the history is.
const HOURS: u64 = 6;

/// The images of the containers, in turn.
const IMAGES: [(&str, &str, &str); 2] = [
    ("nginx:1.25", "docker.io/library/nginx", "1,25"),
    ("registry.example.com/shop/api:2.4.1", "registry.example.com/shop/api", "2,4,1"),
];

/// Gives each container an image that the history knows.
pub fn use_known_images(request: &mut Value) {
    let containers = request.pointer_mut("/request/object/spec/containers").and_then(Value::as_array_mut);
    for (container, (image, _, _)) in containers.into_iter().flatten().zip(IMAGES.iter().cycle()) {
        if let Some(name) = container.get_mut("image") {
            *name = json!(image);
        }
    }
}

/// One of the images that a profile of enough images knows: there is one for each number.
pub fn known_image(number: usize) -> String {
    IMAGES.get(number).map_or_else(|| format!("{}:1.0", other_repository(number)), |(image, _, _)| (*image).to_owned())
}

fn other_repository(number: usize) -> String {
    format!("registry.example.com/team/app-{number}")
}

/// A namespace's own profile of so many images, those of the containers among them.
pub fn profile(images: usize) -> Value {
    let known = IMAGES.iter().map(|(_, repository, tag)| ((*repository).to_owned(), *tag));
    let others = (IMAGES.len()..).map(|number| (other_repository(number), "1,0"));
    let entries: serde_json::Map<String, Value> = known
        .chain(others)
        .take(images)
        .map(|(repository, tag)| {
            let entry = json!({ "repository": repository, "all": history(), "tags": { tag: history() } });
            (image_key(&repository), entry)
        })
        .collect();
    // At the full hour, so that it is the same text all through a run.
    let hour = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() / HOUR;
    let collected_at = Timestamp::from_unix_seconds((hour.saturating_sub(HOURS) * HOUR) as i64);
    json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": { "name": Scope::Namespace.object_name(), "namespace": "default" },
        "spec": { "format": 1, "collectedAt": collected_at.map(|at| at.to_string()), "images": entries },
    })
}

const PERCENTILES: [(&str, u32); 11] = [
    ("50", 80),
    ("60", 83),
    ("70", 88),
    ("75", 90),
    ("80", 94),
    ("85", 101),
    ("90", 120),
    ("95", 131),
    ("98", 144),
    ("99", 150),
    ("99.9", 188),
];

fn history() -> Value {
    let usage = |unit: &str| {
        let percentiles = PERCENTILES.map(|(percentile, amount)| format!(" {percentile}={amount}{unit}")).concat();
        format!("samples=10080 peak=190{unit}{percentiles}")
    };
    let window = json!({ "pods": 12, "namespaces": 1, "cpu": usage("m"), "memory": usage("Mi") });
    json!({ "lastSeen": "2026-11-20T23:59:00Z", "windows": { "7d": window, "30d": window } })
}
