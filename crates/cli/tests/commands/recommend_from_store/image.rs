//! Sizes by image from a metrics store, of pods that are gone and belong to nothing.

use std::fmt::Write as _;
use std::time::SystemTime;

use super::prometheus;
use crate::support::{folder, headroom};

#[test]
fn runners_that_are_gone_are_sized_by_their_image() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let mut text = String::new();
    for (metric, kind) in [
        ("container_memory_working_set_bytes", "gauge"),
        ("container_cpu_usage_seconds_total", "counter"),
        ("kube_pod_container_info", "gauge"),
    ] {
        let _ = writeln!(text, "# TYPE {metric} {kind}");
        for pod in 0..6 {
            for minute in 0..30 {
                let mut labels = format!(r#"namespace="ci",pod="runner-{pod}",container="runner""#);
                let value = match metric {
                    "container_memory_working_set_bytes" => format!("{pod}00e6"),
                    "container_cpu_usage_seconds_total" => (minute * 30).to_string(),
                    _ => "1".to_owned(),
                };
                if metric.starts_with("kube") {
                    labels.push_str(r#",image_spec="registry.example/runner:2""#);
                }
                let _ = writeln!(text, "{metric}{{{labels}}} {value} {}", now - 1_740 - pod * 60 + minute * 60);
            }
        }
    }
    let store = prometheus(text + "# EOF\n");
    let cluster = folder(&[("ns.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: ci}\n")]);
    let (url, files) = (store.url(), cluster.path().to_str().unwrap());
    let said = headroom(
        cluster.path(),
        &["recommend", "image", "runner", "-n", "ci", "--cluster-dir", files, "--prometheus", &url, "--days", "2"],
    );
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
    let row: Vec<&str> = said.out.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    assert_eq!(row[..3], ["ci", "registry.example/runner:2", "6"], "{}", said.out);
}
