//! Quotas from what was requested in 30 days, as kube-state-metrics told it.

use headroom_fixtures::open_metrics::OpenMetrics;

use super::{cluster, prometheus, recommend};
use crate::support::folder;

const HOUR: i64 = 3_600;

/// A namespace without a quota: two pods of a Deployment, a third for a week, and for three hours a Job whose pod is still there.
#[test]
fn a_new_quota_covers_the_peak_and_the_growth_of_what_was_requested() {
    let mut history = OpenMetrics::default();
    let place = r#"namespace="lab",pod="web-6d4cf56db6-x7x2k",container="web""#;
    let minutes = (0..60).map(|minute| (cluster::NOW - HOUR + minute * 60, 1e8));
    history.add("container_memory_working_set_bytes", place, minutes);
    history.add("kube_pod_container_info", &format!(r#"{place},image_spec="web:1""#), [(cluster::NOW, 1)]);
    let pods: [(&str, f64, i64, i64); 4] =
        [("web-a", 0.5, 0, 240), ("web-b", 0.5, 0, 240), ("web-c", 0.5, 150, 240), ("once", 3.0, 100, 103)];
    for (pod, cores, from, to) in pods {
        let hours = (from..=240).map(|hour| (cluster::NOW - (240 - hour) * HOUR, hour));
        for (phase, is_running) in [("Running", true), ("Succeeded", false)] {
            let labels = format!(r#"namespace="lab",pod="{pod}",phase="{phase}""#);
            let points = hours.clone().map(|(time, hour)| (time, u8::from((hour <= to) == is_running)));
            history.add("kube_pod_status_phase", &labels, points);
        }
        let labels = format!(r#"namespace="lab",pod="{pod}",container="web",resource="cpu",unit="core""#);
        history.add("kube_pod_container_resource_requests", &labels, hours.map(|(time, _)| (time, cores)));
    }
    let store = prometheus(history);
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
