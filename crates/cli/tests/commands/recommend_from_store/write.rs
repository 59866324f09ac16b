//! Recommendations written into manifests.

use std::fs;

use super::{cluster, here, prometheus, recommend};

#[test]
fn manifests_get_the_recommended_requests_and_nothing_else_changes() {
    let server = prometheus(cluster::history(true));
    let folder = tempfile::tempdir().unwrap();
    let manifest = folder.path().join("shop.yaml");
    fs::copy(here().join("world/shop.yaml"), &manifest).unwrap();
    let arguments = format!(
        "-n shop --cluster-dir world --prometheus {} -o rows --allow-blocked --write {}",
        server.url(),
        folder.path().display()
    );
    let said = recommend(&arguments);
    assert_eq!((said.code, said.err), (0, format!("wrote {}\n", manifest.display())));
    let (before, after) =
        (fs::read_to_string(here().join("world/shop.yaml")).unwrap(), fs::read_to_string(&manifest).unwrap());
    let changed: Vec<(&str, &str)> =
        before.lines().zip(after.lines()).filter(|(before, after)| before != after).collect();
    assert_eq!(before.lines().count(), after.lines().count());
    assert_eq!(changed.len(), 4, "{changed:?}");
    assert!(changed[1].1.contains("{cpu: 50m, memory: 437Mi}"), "{changed:?}");
    assert!(changed[2].1.contains("{requests: {cpu: 21m, memory: 356Mi}, limits: {memory: 356Mi}}"), "{changed:?}");
    // The Deployment's autoscaler has a utilization target, which changes with the request.
    assert!(changed[3].1.contains("averageUtilization: 172"), "{changed:?}");
    // From the written manifests nothing more is recommended.
    let said = recommend(&format!(
        "statefulset/db -n shop --cluster-dir {0} --prometheus {1} -o rows --write {0}",
        folder.path().display(),
        server.url()
    ));
    assert_eq!((said.code, said.err.as_str()), (0, "nothing to write: the manifests already have these values\n"));
}

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
