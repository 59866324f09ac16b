//! Errors name a missing permission and the role that grants it; read permissions are sufficient.

use crate::command_recommend::scene::{MONITORING, STORE, Scene};

const EVE: &str = "eve";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn each_missing_permission_is_named_with_the_role_that_grants_it() {
    crate::skip_without!("kube-controller-manager");
    let scene = Scene::start().await;
    let shop = scene.shop.namespace.as_str();
    let refused = |arguments: &[&str], expected: &[&str]| {
        let said = scene.run_as(EVE, &[&["recommend"], arguments].concat());
        assert_eq!(said.exit, 2, "{}{}", said.out, said.err);
        for part in expected {
            assert!(said.err.contains(part), "{part}: {}", said.err);
        }
    };
    refused(&["-n", shop], &["User \"eve\" cannot list", "bind this account to the ClusterRole headroom-reader"]);

    scene.grant(EVE, shop, "reader.yaml", "clusterrole/headroom-reader", &["list", "pods"]);
    let store = "bind this account to the Role headroom-metrics in the store's namespace";
    refused(&["-n", shop], &["no metrics store was found, because cannot read services in all namespaces", store]);
    let reach = "this account needs `get services/proxy` or `create pods/portforward` in namespace monitoring: bind it to \
                 the Role headroom-metrics there";
    refused(&["-n", shop, "--prometheus", STORE], &[reach]);

    scene.grant(EVE, MONITORING, "metrics-reader.yaml", "role/headroom-metrics", &["get", "services/proxy"]);
    refused(
        &["-n", shop],
        &["found monitoring/metrics:9090 (Prometheus)", "trust with --prometheus monitoring/metrics:9090"],
    );
    let said = scene.run_as(EVE, &["recommend", "-n", shop, "-o", "json", "--prometheus", STORE]);
    assert_eq!(said.exit, 0, "{}", said.err);
    refused(&["-A"], &["-A needs permission to list in all namespaces", "headroom-reader by a ClusterRoleBinding"]);

    scene.grant(EVE, "", "reader.yaml", "clusterrole/headroom-reader", &["list", "pods"]);
    let said = scene.run_as(EVE, &["recommend", "-A", "--prometheus", STORE]);
    assert_eq!(said.exit, 0, "{}", said.err);

    let requests = scene.requests_by(EVE);
    assert!(
        requests.iter().any(|request| request.uri.contains("/services/metrics:9090/proxy/api/v1/")),
        "{requests:?}"
    );
    let more: Vec<_> = requests.iter().filter(|request| !matches!(request.verb.as_str(), "get" | "list")).collect();
    assert!(more.is_empty(), "{more:?}");
}
