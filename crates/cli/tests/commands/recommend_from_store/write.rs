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
    let said = recommend(&format!(
        "deployment/web -n shop --cluster-dir world --prometheus {} -o rows --allow-blocked --write {}",
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
