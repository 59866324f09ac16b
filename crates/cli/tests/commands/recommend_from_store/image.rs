//! Sizes by image from a metrics store, of pods that are gone and belong to nothing.

use headroom_fixtures::open_metrics::OpenMetrics;

use super::prometheus;
use crate::support::{folder, headroom};

#[test]
fn runners_that_are_gone_are_sized_by_their_image() {
    let (now, mut history) = (headroom_api_server::clock::now(), OpenMetrics::default());
    for pod in 0..6 {
        let labels = format!(r#"namespace="ci",pod="runner-{pod}",container="runner""#);
        let minutes = (0..30).map(|minute| (now - 1_740 - pod * 60 + minute * 60, minute * 30, pod * 100_000_000));
        history.add_container(&labels, "registry.example/runner:2", minutes);
    }
    let store = prometheus(history);
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
