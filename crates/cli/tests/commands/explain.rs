//! `explain`: explanations of manifests and of existing objects.

use crate::support::*;

#[test]
fn manifests_are_explained() {
    for form in ["text", "json", "yaml"] {
        let said = headroom(
            &root(),
            &["explain", "-f", "docs/examples/shop/app", "--cluster-dir", "docs/examples/shop/cluster", "-o", form],
        );
        assert_eq!((said.code, said.err.as_str()), (1, ""), "{form}");
        snapshot(&format!("explain.{form}"), &said.out);
    }
}

#[test]
fn an_existing_object_is_explained_without_its_own_usage() {
    let said = headroom(
        &root(),
        &["explain", "db-0", "deployment/web", "-n", "shop", "--cluster-dir", "docs/examples/shop/cluster"],
    );
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    snapshot("explain-live.text", &said.out);
    // Even if it fills the quota.
    let full = folder(&[(
        "all.yaml",
        &(pod("a", "{requests: {cpu: 1}}") + "---\n" + &quota("team", "{requests.cpu: 1, pods: 1}")),
    )]);
    let said = headroom(full.path(), &["explain", "a", "-n", "shop", "--cluster-dir", "all.yaml"]);
    assert_eq!(said.code, 0, "{}", said.out);
}

#[test]
fn every_step_of_a_value_is_named() {
    let files = [
        (
            "range.yaml",
            limit_range(
                "limits",
                "default: {cpu: 500m}, defaultRequest: {cpu: 100m}, max: {memory: 1Gi}, min: {memory: 64Mi}, maxLimitRequestRatio: {cpu: 10}",
            ),
        ),
        (
            "pods.yaml",
            pod("copied", "{limits: {memory: 512Mi}}")
                + "---\n"
                + &pod("repaired", "{requests: {cpu: 800m, memory: 32Mi}}"),
        ),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let folder = folder(&files);
    let said = headroom(folder.path(), &["explain", "-f", "pods.yaml", "--cluster-dir", "range.yaml"]);
    assert_eq!(said.code, 1, "{}", said.err);
    snapshot("explain-steps.text", &said.out);
}

#[test]
fn totals_of_pods_and_claims_have_bounds_too() {
    let range = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: limits, namespace: shop}\nspec: {limits: [{type: Pod, max: {cpu: 2}}, \
                 {type: PersistentVolumeClaim, min: {storage: 1Gi}, max: {storage: 10Gi}}]}\n";
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: shop}\nspec: {accessModes: \
                 [ReadWriteOnce], resources: {requests: {storage: 20Gi}}}\n";
    let app = pod("a", "{requests: {cpu: 1}, limits: {cpu: 3}}") + "---\n" + claim;
    let folder = folder(&[("range.yaml", range), ("app.yaml", &app)]);
    let said = headroom(folder.path(), &["explain", "-f", "app.yaml", "--cluster-dir", "range.yaml"]);
    assert_eq!(said.code, 1, "{}", said.err);
    snapshot("explain-in-all.text", &said.out);
}

#[test]
fn missing_objects_are_reported() {
    let said = headroom(&root(), &["explain", "gone", "-n", "shop", "--cluster-dir", "docs/examples/shop/cluster"]);
    let expected = "error: pod \"gone\" not found in namespace \"shop\"; there is pod/db-0, pod/web-7d4b9c6f5-2xkqv, \
                    pod/web-7d4b9c6f5-9jzrt\n";
    assert_eq!((said.code, said.err.as_str()), (2, expected));
    let said = headroom(&root(), &["explain", "node/a", "--offline"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("`node` is not a supported kind"), "{}", said.err);
}

#[test]
fn containers_that_stay_in_an_existing_object_are_explained_too() {
    let with = |container: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, namespace: shop}}\nspec: {{replicas: 1, selector: \
             {{matchLabels: {{a: b}}}}, template: {{metadata: {{labels: {{a: b}}}}, spec: {{containers: [{container}]}}}}}}\n"
        )
    };
    let there = with("{name: old, image: nginx, resources: {requests: {cpu: 100m}, limits: {cpu: 200m}}}");
    let folder = folder(&[("there.yaml", &there), ("web.yaml", &with("{name: new, image: nginx}"))]);
    let said = headroom(folder.path(), &["explain", "-f", "web.yaml", "--cluster-dir", "there.yaml"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let text = said.out;
    assert!(text.contains("container old stays: it is in the existing object, and was not applied before"), "{text}");
    assert!(text.contains("container new, image nginx") && text.contains("container old, image nginx"), "{text}");
    assert!(text.contains("100m   authored") && !text.contains("copied"), "{text}");
}
