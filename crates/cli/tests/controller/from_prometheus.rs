//! End to end: from a real store through `headroom-controller collect` to a profile, whose percentiles must equal those
//! computed here directly from the data.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use headroom_core::amount::Quantity;
use headroom_core::cluster::usage::{Percentile, profile_layout};
use headroom_core::image::ImageName;
use headroom_fixtures::servers::PrometheusServer;
use headroom_usage::sample::{Resource, Window};
use headroom_usage_profile::Usage;
use serde_json::Value;

use crate::data::{self, Cluster, percentile};

/// Runs `collect`. Returns the profiles and the log.
fn collect(url: &str, folder: &Path) -> (Vec<Value>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_headroom-controller"))
        .args(["collect", "prometheus", url, "--once", "--days", "1", "--format", "json", "--store"])
        .arg(folder.join("usage.redb"))
        .arg("--output")
        .arg(folder.join("profiles"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let files = std::fs::read_dir(folder.join("profiles/headroom")).unwrap();
    let read = |path| serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut profiles: Vec<Value> = files.map(|file| read(file.unwrap().path())).collect();
    profiles.sort_by_key(|profile| profile["metadata"]["name"].to_string());
    (profiles, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn published_percentiles_are_those_of_the_data() {
    // All data is old enough to be read by the first run, and recent enough to be found by probing.
    let now = data::now().div_euclid(60) * 60;
    let cluster = Cluster::new(Window { from: now - 183 * 60, to: now - 180 });
    let server = PrometheusServer { history: cluster.open_metrics(), ..PrometheusServer::default() }.start();
    let folder = tempfile::tempdir().unwrap();
    let (profiles, _) = collect(&server.url(), folder.path());
    check(&profiles, &cluster);

    // A second run finds nothing new, and counts nothing twice.
    let (again, _) = collect(&server.url(), folder.path());
    let images =
        |profiles: &[Value]| profiles.iter().map(|profile| profile["spec"]["images"].clone()).collect::<Vec<_>>();
    assert_eq!(images(&again), images(&profiles));
}

#[test]
fn a_store_with_low_limits_is_read_in_small_pieces() {
    let now = data::now().div_euclid(60) * 60;
    let cluster = Cluster::new(Window { from: now - 183 * 60, to: now - 180 });
    let server = PrometheusServer {
        history: cluster.open_metrics(),
        more_arguments: vec!["--query.max-samples=500".to_owned()],
        ..PrometheusServer::default()
    }
    .start();
    let folder = tempfile::tempdir().unwrap();
    let (profiles, log) = collect(&server.url(), folder.path());
    assert!(log.contains("too many samples") && log.contains("asking for less"), "{log}");
    check(&profiles, &cluster);
}

/// Checks that the profiles of `shop` match the data.
fn check(profiles: &[Value], cluster: &Cluster) {
    let mut expected = BTreeMap::<(String, Resource), Vec<f64>>::new();
    for (key, samples) in cluster.expected() {
        if key.namespace == "shop" {
            let values = samples.into_iter().map(|(_, value)| value);
            expected.entry((key.image, key.resource)).or_default().extend(values);
        }
    }
    assert_eq!(expected.len(), 8);
    for ((image, resource), mut values) in expected {
        values.sort_by(f64::total_cmp);
        let name = ImageName::parse(&image).unwrap();
        let tag = name.tag().unwrap().replace('.', ",");
        let entry = of_tag(profiles, &profile_layout::key_of(name.repository()), &tag);
        let name = if resource == Resource::Cpu { "cpu" } else { "memory" };
        let usage: Usage = serde_json::from_value(entry["windows"]["7d"][name].clone()).unwrap();
        assert_eq!(usage.samples, values.len() as u64, "{image} {name}: {entry}");
        for percent in Percentile::PUBLISHED {
            let found = value(usage.percentiles.get(percent).unwrap());
            let exact = percentile(&values, percent.name().parse().unwrap());
            assert!(
                (found - exact).abs() <= exact * 0.01,
                "{image} {name}: percentile {percent} is {found}, expected {exact}"
            );
        }
        let (peak, exact) = (value(&usage.peak.unwrap()), values[values.len() - 1]);
        assert!((peak - exact).abs() <= exact * 0.01, "{image} {name}: the peak is {peak}, expected {exact}");
        let kills = entry["oomKills"].as_array().map_or(0, Vec::len);
        assert_eq!(kills, usize::from(image.starts_with("postgres")), "{image}: {entry}");
    }
}

/// The history of a tag in `shop`, which equals that of all tags if no other tag ran.
fn of_tag<'p>(profiles: &'p [Value], image: &str, tag: &str) -> &'p Value {
    let own =
        profiles.iter().map(|profile| &profile["spec"]["images"][image]["own"]["shop"]).find(|own| !own.is_null());
    let own = own.unwrap();
    if own["all"]["same"].as_array().is_some_and(|same| same.iter().any(|same| same == tag)) {
        return &own["all"];
    }
    &own["tags"][tag]
}

fn value(quantity: &Quantity) -> f64 {
    quantity.scaled(1_000_000_000, 1).value() as f64 / 1e9
}
