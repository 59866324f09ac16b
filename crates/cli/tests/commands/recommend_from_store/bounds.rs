//! Quotas from what was requested in 30 days, as kube-state-metrics told it.

use std::fmt::Write as _;

use super::{cluster, prometheus, recommend};
use crate::support::folder;

const HOUR: i64 = 3_600;

/// A namespace without a quota: two pods of a Deployment, a third for a week, and for three hours a Job whose pod is still there.
#[test]
fn a_new_quota_covers_the_peak_and_the_growth_of_what_was_requested() {
    let mut history = "# TYPE container_memory_working_set_bytes gauge\n".to_owned();
    let place = r#"namespace="lab",pod="web-6d4cf56db6-x7x2k",container="web""#;
    for minute in 0..60 {
        let _ = writeln!(
            history,
            "container_memory_working_set_bytes{{{place}}} 1e8 {}",
            cluster::NOW - HOUR + minute * 60
        );
    }
    let pods: [(&str, &str, i64, i64); 4] =
        [("web-a", "500m", 0, 240), ("web-b", "500m", 0, 240), ("web-c", "500m", 150, 240), ("once", "3", 100, 103)];
    history += "# TYPE kube_pod_container_info gauge\n";
    let _ = writeln!(history, r#"kube_pod_container_info{{{place},image_spec="web:1"}} 1 {}"#, cluster::NOW);
    history += "# TYPE kube_pod_status_phase gauge\n";
    let at = |hour: i64| cluster::NOW - (240 - hour) * HOUR;
    for (pod, _, from, to) in pods {
        for hour in from..=240 {
            for (phase, is_it) in [("Running", hour <= to), ("Succeeded", hour > to)] {
                let labels = format!(r#"namespace="lab",pod="{pod}",phase="{phase}""#);
                let _ = writeln!(history, "kube_pod_status_phase{{{labels}}} {} {}", u8::from(is_it), at(hour));
            }
        }
    }
    history += "# TYPE kube_pod_container_resource_requests gauge\n";
    for (pod, cpu, from, _) in pods {
        let cores = if cpu == "3" { 3.0 } else { 0.5 };
        for hour in from..=240 {
            let labels = format!(r#"namespace="lab",pod="{pod}",container="web",resource="cpu",unit="core""#);
            let _ = writeln!(history, "kube_pod_container_resource_requests{{{labels}}} {cores} {}", at(hour));
        }
    }
    let store = prometheus(history + "# EOF\n");
    let world = folder(&[(
        "lab.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: lab}\n\
         spec: {replicas: 3, template: {spec: {containers: [{name: web, image: \"web:1\", resources: {requests: {cpu: 500m}}}]}}}\n",
    )]);
    let said = recommend(&format!(
        "bounds -n lab --cluster-dir {} --prometheus {} -o yaml",
        world.path().display(),
        store.url()
    ));
    let lines = said.out.lines().skip_while(|line| !line.contains("hard:")).take_while(|line| *line != "---");
    let lines: Vec<&str> = lines.collect();
    let expected = [
        "  hard:",
        "    # 3 for 3 pods, 1 for a rollout of deployment/web, 6 for 30 days of growth, 0 used",
        "    pods: \"10\"",
        "    # 4 was the peak of 30 days, 2050m for 30 days of growth, 0 used",
        "    requests.cpu: 6050m",
    ];
    assert_eq!(lines, expected, "{}{}", said.out, said.err);
}
