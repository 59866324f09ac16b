//! Recommendations written into manifests.

use std::fs;

use super::{cluster, here, prometheus, recommend};

#[test]
fn an_autoscaler_that_is_not_in_the_manifests_is_named() {
    let server = prometheus(cluster::history(true));
    let folder = tempfile::tempdir().unwrap();
    let manifest = folder.path().join("web.yaml");
    let text = fs::read_to_string(here().join("world/shop.yaml")).unwrap();
    let without = text.split("---\n").filter(|document| !document.contains("HorizontalPodAutoscaler"));
    fs::write(&manifest, without.collect::<Vec<_>>().join("---\n")).unwrap();
    let quota = folder.path().join("quota.yaml");
    let hard = "{requests.cpu: 40, requests.memory: 60Gi}";
    let spec = format!(
        "spec: {{hard: {hard}}}\nstatus: {{hard: {hard}, used: {{requests.cpu: 3500m, requests.memory: 5Gi}}}}\n"
    );
    let metadata = "metadata: {name: team, namespace: shop}";
    fs::write(&quota, format!("apiVersion: v1\nkind: ResourceQuota\n{metadata}\n{spec}")).unwrap();
    let said = recommend(&format!(
        "deployment/web -n shop --cluster-dir world --cluster-dir {} --prometheus {} -o csv --write {}",
        quota.display(),
        server.url(),
        manifest.display()
    ));
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        said.err.contains("warning: not in the manifests: HorizontalPodAutoscaler web scales at 70% of the cpu"),
        "{}",
        said.err
    );
}
