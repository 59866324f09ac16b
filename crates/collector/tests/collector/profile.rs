//! Published profiles, compared with figures computed from the samples.

use std::collections::BTreeSet;

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::Percentile;
use headroom_collector::profile::Pooling;
use headroom_collector::store::Store;
use headroom_usage::sample::{Batch, Resource, Sample, Window};
use serde_json::Value;

use crate::support::*;

const ALWAYS: Window = Window { from: 0, to: NOW };

/// Namespace, pod, image, time, bytes.
type Observation = (&'static str, String, &'static str, i64, u64);

/// Three pods over 35 days, a sample every 17 minutes, mostly low with rare peaks.
fn observations() -> Vec<Observation> {
    let mut observations = Vec::new();
    let mut random = 88_172_645_463_325_252_u64;
    let pods = [("shop", "nginx:1.27"), ("shop", "nginx:1.28"), ("lab", "nginx:1.28")];
    for (number, (namespace, image)) in pods.into_iter().enumerate() {
        let mut time = NOW - 35 * DAY;
        while time < NOW {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let peak = if random.is_multiple_of(50) { 10 } else { 1 };
            let bytes = (30 + 20 * number as u64) * (1 << 20) * peak + random % (1 << 24);
            observations.push((namespace, format!("web-{number}"), image, time, bytes));
            time += 17 * 60;
        }
    }
    observations
}

fn filled(folder: &std::path::Path) -> Store {
    let store = open(folder);
    let batch = |(namespace, pod, image, time, value): Observation| {
        used(namespace, &pod, image, Resource::Memory, vec![Sample { time, value, seconds: 60 }])
    };
    add(&store, ALWAYS, observations().into_iter().map(batch));
    store
}

/// The history of nginx in a namespace, or in the `pool`.
fn image_of(store: &Store, of: &str) -> Value {
    let pooling = Pooling { quorum: 1, ..Pooling::default() };
    histories(&objects(store, NOW, &pooling), "docker.io/library/nginx", of)
}

/// Compares a published history with its samples. Of two namespaces, the larger figure is the 90th percentile.
#[track_caller]
fn check(history: &Value, counts: impl Fn(&Observation) -> bool) {
    for (window, days) in [("7d", 7), ("30d", 30), ("recent", 30)] {
        // Whole days: today, of which nothing has passed yet, and the days before.
        let all = observations();
        let within: Vec<&Observation> = all.iter().filter(|one| counts(one) && one.3 >= NOW - days * DAY).collect();
        let namespaces: BTreeSet<&str> = within.iter().map(|one| one.0).collect();
        let published = &history["windows"][window];
        let pods: BTreeSet<(&str, &str)> = within.iter().map(|one| (one.0, one.1.as_str())).collect();
        assert_eq!(published["pods"], pods.len());
        assert_eq!(published["namespaces"], namespaces.len());
        let memory = &published["memory"];
        assert_eq!(figure(memory, "samples"), within.len().to_string());
        let peak = within.iter().map(|one| one.4).max().unwrap();
        assert_eq!(bytes_of(&figure(memory, "peak")), peak as f64);
        for percentile in Percentile::PUBLISHED.map(Percentile::name) {
            let found = bytes_of(&figure(memory, percentile));
            let of_namespace = |namespace: &&str| {
                let its = within.iter().filter(|one| one.0 == *namespace);
                let weight = |time: i64| {
                    let days_ago = ((NOW - time + DAY - 1) / DAY) as i32;
                    if window == "recent" { 0.5_f64.powi(days_ago) } else { 1.0 }
                };
                exact(its.map(|one| (one.4, weight(one.3))).collect(), percentile.parse().unwrap())
            };
            let exact = namespaces.iter().map(of_namespace).max().unwrap() as f64;
            assert!((found - exact).abs() <= exact * 0.01, "{window} {percentile}: {found} for {exact}");
        }
    }
    assert_eq!(history["days"], 30);
}

/// The percentile of weighted amounts.
fn exact(mut weighted: Vec<(u64, f64)>, percent: f64) -> u64 {
    weighted.sort_by_key(|(amount, _)| *amount);
    let wanted = weighted.iter().map(|(_, weight)| weight).sum::<f64>() * percent / 100.0;
    let mut reached = 0.0;
    let enough = weighted.iter().find(|(_, weight)| {
        reached += weight;
        reached >= wanted * (1.0 - 1e-12)
    });
    enough.or(weighted.last()).unwrap().0
}

fn bytes_of(text: &str) -> f64 {
    text.parse::<Quantity>().unwrap().value() as f64
}

#[test]
fn profiles_have_the_percentiles_of_their_samples() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path());
    let pooled = image_of(&store, "pool");
    check(&pooled["all"], |_| true);
    check(&pooled["tags"]["1,27"], |one| one.2 == "nginx:1.27");
    check(&pooled["tags"]["1,28"], |one| one.2 == "nginx:1.28");
    let own = image_of(&store, "shop");
    check(&own["all"], |one| one.0 == "shop");
    check(&own["tags"]["1,28"], |one| one.0 == "shop" && one.2 == "nginx:1.28");
    let lab = image_of(&store, "lab");
    check(&lab["all"], |one| one.0 == "lab");
    assert_eq!(lab["tags"].as_object().unwrap().len(), 1);
}

#[test]
fn a_tag_with_a_digest_is_found_by_either_and_counted_once_in_all() {
    let (_folder, store) = new_store();
    let digest = format!("sha256:{}", "0".repeat(64));
    let images = ["nginx:1.27".to_owned(), format!("nginx:1.27@{digest}"), format!("nginx@{digest}")];
    let samples = vec![Sample { time: NOW - DAY, value: 1 << 20, seconds: 60 }];
    add(&store, ALWAYS, images.map(|image| used("shop", &image, &image, Resource::Memory, samples.clone())));
    let image = image_of(&store, "shop");
    let samples = |history: &Value| figure(&history["windows"]["7d"]["memory"], "samples");
    assert_eq!(samples(&image["all"]), "3");
    assert_eq!(samples(&image["tags"]["1,27"]), "2");
    assert_eq!(samples(&image["tags"][digest.as_str()]), "2");
}

/// A container that used this many mebibytes a day ago.
fn hour(pod: &str, mebibytes: u64) -> Batch {
    let at = |minute: i64| Sample { time: NOW - DAY + minute * 60, value: mebibytes << 20, seconds: 60 };
    used("shop", pod, "nginx:1.27", Resource::Memory, (1..=60).map(at).collect())
}

#[test]
fn each_container_of_a_workload_has_its_own_history() {
    let (_folder, store) = new_store();
    let add = |window, batches: Vec<Batch>| store.add_present(window, &gathered(ALWAYS, batches), None).unwrap();
    add(Window { from: 0, to: NOW - 60 }, vec![hour("web-7d4b9c6f5-x2x4z", 100)]);
    let text = published(&store, NOW);
    let is_only_named = text.contains(r#""same":["1,27","web/web"]"#) && !text.contains("workloads");
    assert!(is_only_named, "equal histories should only be named: {text}");

    // Pods of two ReplicaSets, added one after the other, belong to one workload.
    add(Window { from: NOW - 60, to: NOW }, vec![hour("web-6c8f5d7b94-qwrtz", 100), hour("db-0", 900)]);
    let image = image_of(&store, "shop");
    let of = |key: &str| image["workloads"][key]["windows"]["7d"].clone();
    let peak = |window: &Value| figure(&window["memory"], "peak");
    assert_eq!((of("web/web")["pods"].as_u64(), peak(&of("web/web")).as_str()), (Some(2), "100Mi"));
    assert_eq!((of("db/web")["pods"].as_u64(), peak(&of("db/web")).as_str()), (Some(1), "900Mi"));
    assert_eq!(image["all"]["windows"]["7d"]["pods"], 3);
}
