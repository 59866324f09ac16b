//! Pods of one workload that differ in what they use, or that live for minutes only.

use std::ops::RangeInclusive;

use headroom_fixtures::open_metrics::OpenMetrics;

use super::{cluster, prometheus, recommend};
use crate::support::{Said, folder};

/// A pod with so many cores in some of the minutes of two days.
type Life = (String, f64, RangeInclusive<i64>);

/// The recommendations for an object, whose pods' CPU is known each minute.
fn on_lives(object: &str, lives: &[Life], output: &str) -> Said {
    let from = cluster::NOW - 2 * 86_400;
    let mut history = OpenMetrics::default();
    for (pod, cores, minutes) in lives {
        let place = format!(r#"namespace="shop",pod="{pod}",container="main""#);
        let used = |minute: i64| cores * 60.0 * (minute - minutes.start()) as f64;
        let points = minutes.clone().map(|minute| (from + minute * 60, used(minute)));
        history.add("container_cpu_usage_seconds_total", &place, points);
    }
    let store = prometheus(history);
    let template = "template: {spec: {containers: [{name: main, image: \"example.com/app:1\"}]}}";
    let world = folder(&[("objects.yaml", &object.replace("TEMPLATE", template))]);
    recommend(&format!("-n shop --cluster-dir {} --prometheus {} -o {output}", world.path().display(), store.url()))
}

/// The test of an outage: usage before it counts, and every output says first that there is one.
#[test]
fn an_outage_of_the_store_is_said_first() {
    let object = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {TEMPLATE}\n";
    let lives = [("web-6d4cf56db6-x7x2k".to_owned(), 0.2, 0..=2_700)];
    let said = |output: &str| on_lives(object, &lives, output);
    let since = "outage: the store has no usage of anything since 2026-11-2";
    for output in ["table", "markdown", "pull-request"] {
        let said = said(output);
        let top = said.out.lines().take(3).collect::<String>();
        assert!(top.contains(since) && said.out.contains("deployment/web") && said.code == 2, "{said:?}");
    }
    for output in ["csv", "kustomize"] {
        let said = said(output);
        assert!(said.err.contains(since), "{output}: {}", said.err);
    }
    let report = said("json").out;
    assert!(report.contains(r#""outageSince": "2026-11-2"#) && report.contains(r#""recommended": "2"#), "{report}");
}

/// Four minutes with 800m, each hour, are no five minutes with 640m.
#[test]
fn cpu_of_jobs_shorter_than_a_step_is_computed_over_the_time_they_ran() {
    let job = |hour: i64| (format!("report-{}-x7x2k", 29_000_000 + hour), 0.8, hour * 60 + 7..=hour * 60 + 11);
    let object = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: report, namespace: shop}\n\
                  spec: {schedule: \"7 * * * *\", jobTemplate: {spec: {TEMPLATE}}}\n";
    // Discovery only sees containers that run now.
    let other = ("other".to_owned(), 0.01, 0..=2_880);
    let said = on_lives(object, &(0..48).map(job).chain([other]).collect::<Vec<_>>(), "csv");
    let row = said.out.lines().find(|line| line.contains("report") && line.contains(",cpu,")).expect(&said.out);
    let recommended: f64 = row.split(',').nth(10).unwrap().parse().unwrap();
    assert!((0.8..1.0).contains(&recommended) && !row.contains("pods differ"), "{row}");
}
