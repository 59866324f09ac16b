//! A request and a cluster as JSON.

use headroom_admission::cluster::usage::{Percentile, ProfileName, Root};
use serde_json::{Value, json};

use crate::harness::{Outcome, answer};

const NOW: &str = "2026-11-21T06:00:00Z";
/// nginx's key.
pub const NGINX: &str = "docker,io/library/nginx";

/// A pod `web` whose container `web` runs nginx.
pub fn web() -> Value {
    json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "nginx:1.27"}]}})
}

#[derive(Debug, Clone)]
pub struct Situation {
    pub request: Value,
    pub settings: Value,
    /// The host's answers, as [`answer`] takes them.
    pub lists: Value,
}

impl Situation {
    /// A new pod in the namespace `shop`.
    pub fn of_pod(pod: Value) -> Self {
        Self {
            request: json!({
                "uid": "1", "operation": "CREATE", "namespace": "shop", "object": pod,
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "resource": {"group": "", "version": "v1", "resource": "pods"},
            }),
            settings: plain(json!({})),
            lists: json!({"LimitRange": {"items": []}, "UsageProfile": {"items": []}}),
        }
    }

    pub fn with_settings(mut self, settings: Value) -> Self {
        self.settings = plain(settings);
        self
    }

    /// With these settings and the defaults, without the simplifications of [`plain`].
    pub fn with_real_settings(mut self, settings: Value) -> Self {
        self.settings = with_history(settings);
        self
    }

    pub fn with_limits(mut self, limits: Value) -> Self {
        let ranges = self.lists["LimitRange"]["items"].as_array_mut().unwrap();
        let metadata = json!({"name": format!("limits-{}", ranges.len())});
        ranges.push(json!({"metadata": metadata, "spec": {"limits": limits}}));
        self
    }

    /// Adds this history to what the same object contains already.
    pub fn with_profile(mut self, mut profile: Value) -> Self {
        let profiles = self.lists["UsageProfile"]["items"].as_array_mut().unwrap();
        let Some(known) = profiles.iter_mut().find(|known| known["metadata"] == profile["metadata"]) else {
            profiles.push(profile);
            return self;
        };
        for (key, entry) in profile["spec"]["images"].as_object_mut().unwrap() {
            let entry = entry.as_object_mut().unwrap();
            known["spec"]["images"][key].as_object_mut().unwrap().append(entry);
        }
        self
    }

    pub fn evaluate(&self) -> Outcome {
        answer(&self.request, &self.settings, &self.lists, Some(NOW.parse().unwrap()))
    }

    /// Evaluates the resulting object of an earlier evaluation.
    pub fn evaluate_again(&self, outcome: &Outcome) -> Outcome {
        let mut again = self.clone();
        again.request["object"] = outcome.object.clone();
        again.evaluate()
    }
}

impl Outcome {
    /// `requests.cpu` and the like of a container, empty if it is not set.
    pub fn value(&self, container: &str, place: &str) -> String {
        let (bound, resource) = place.split_once('.').unwrap();
        let spec = &self.object["spec"];
        let lists = [&spec["containers"], &spec["initContainers"]];
        let mut containers = lists.into_iter().filter_map(Value::as_array).flatten();
        let found = containers.find(|have| have["name"] == container).unwrap();
        found["resources"][bound][resource].as_str().unwrap_or_default().to_owned()
    }

    /// The value and its reason in our annotation.
    pub fn explained(&self, container: &str, place: &str) -> String {
        let annotation: Value = serde_json::from_str(self.annotation("headroom.dev/resources").unwrap()).unwrap();
        annotation[container][place].as_str().unwrap().to_owned()
    }

    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.object["metadata"]["annotations"][name].as_str()
    }

    pub fn profiles_read(&self) -> usize {
        self.reads.iter().filter(|(kind, _)| kind == "UsageProfile").count()
    }
}

/// The settings, with the namespace of the profiles.
fn with_history(mut settings: Value) -> Value {
    settings["estimates"]["namespace"] = json!("headroom");
    settings
}

/// The settings, with a single percentile and without margins unless they set them, so that amounts are easy to follow.
fn plain(settings: Value) -> Value {
    let mut settings = with_history(settings);
    let estimates = &mut settings["estimates"];
    for (name, plain) in [("percentile", json!("90")), ("margin", json!({"cpu": 0, "memory": 0}))] {
        if estimates.get(name).is_none() {
            estimates[name] = plain;
        }
    }
    settings
}

/// The usage of images in the namespace `shop`, collected an hour ago.
pub fn own(images: Value) -> Value {
    root(images, |histories| json!({"own": {"shop": histories}}))
}

/// The usage of images in all namespaces.
pub fn pool(images: Value) -> Value {
    root(images, |histories| json!({"pool": histories}))
}

/// The root of the first image, with all images in it.
fn root(mut images: Value, entry: impl Fn(Value) -> Value) -> Value {
    let images_of = images.as_object_mut().unwrap();
    let name = images_of.keys().next().unwrap().replace(',', ".");
    images_of.values_mut().for_each(|histories| *histories = entry(histories.take()));
    object(&ProfileName::of(Root::of(&name), "shop").to_string(), json!({"images": images}))
}

/// A profile with this in its spec.
pub fn object(name: &str, mut spec: Value) -> Value {
    let header = json!({"format": 3, "collectedAt": "2026-11-21T05:00:00Z", "quorum": 3});
    spec.as_object_mut().unwrap().entry("header").or_insert(header);
    json!({
        "apiVersion": "headroom.dev/v1alpha1", "kind": "UsageProfile",
        "metadata": {"name": name, "namespace": "headroom"}, "spec": spec,
    })
}

/// The usage of a resource, from a text such as `samples=60 peak=900m 50=50m 99.9=90m`.
pub fn usage(figures: &str) -> Value {
    let mut usage = json!({});
    for (name, amount) in figures.split(' ').filter_map(|figure| figure.split_once('=')) {
        match name {
            "samples" => usage[name] = amount.parse::<Value>().unwrap_or_else(|_| json!(amount)),
            "peak" => usage[name] = json!(amount),
            percentile => {
                let place = percentile.parse::<Percentile>().unwrap().place().unwrap();
                let mut amounts = usage["percentiles"].as_array().cloned().unwrap_or_default();
                amounts.resize(amounts.len().max(place + 1), Value::Null);
                amounts[place] = json!(amount);
                usage["percentiles"] = json!(amounts);
            }
        }
    }
    usage
}

/// The observations of a window: every percentile is this amount, of so many pods that nothing is added for few.
pub fn window(samples: u64, cpu: &str, memory: &str) -> Value {
    let usage = |amount: &str| {
        let percentiles = vec![amount; Percentile::PUBLISHED.len()];
        json!({"samples": samples, "peak": amount, "percentiles": percentiles})
    };
    json!({"pods": 120, "namespaces": 3, "cpu": usage(cpu), "memory": usage(memory)})
}

pub fn history(windows: Value) -> Value {
    json!({"lastSeen": "2026-11-21T04:00:00Z", "oomKills": [], "windows": windows})
}
