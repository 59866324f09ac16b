//! Recommendations written into manifests.

use std::fs;

use super::{cluster, here, prometheus, recommend};
use crate::support::folder;

#[test]
fn an_autoscaler_that_is_not_in_the_manifests_is_named() {
    let server = prometheus(cluster::history(true));
    let text = fs::read_to_string(here().join("world/shop.yaml")).unwrap();
    let without = text.split("---\n").filter(|document| !document.contains("HorizontalPodAutoscaler"));
    let hard = "{requests.cpu: 40, requests.memory: 60Gi}";
    let quota = format!(
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: team, namespace: shop}}\nspec: {{hard: {hard}}}\n\
         status: {{hard: {hard}, used: {{requests.cpu: 3500m, requests.memory: 5Gi}}}}\n"
    );
    let folder = folder(&[("web.yaml", &without.collect::<Vec<_>>().join("---\n")), ("quota.yaml", &quota)]);
    let [manifest, quota] = ["web.yaml", "quota.yaml"].map(|name| folder.path().join(name).display().to_string());
    let arguments = format!("-n shop --cluster-dir world --cluster-dir {quota} -o csv --write {manifest}");
    let said = recommend(&format!("deployment/web {arguments} --prometheus {}", server.url()));
    assert_eq!(said.code, 0, "{}", said.err);
    let warning = "warning: not in the manifests: HorizontalPodAutoscaler web scales at 70% of the cpu";
    assert!(said.err.contains(warning), "{}", said.err);
}
