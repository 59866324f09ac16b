//! Our policy alone: the API server's own LimitRanger and ResourceQuota are off.

use headroom_e2e::cluster::Cluster;
use headroom_e2e::control_plane::{Controllers, InTreePlugins};
use headroom_e2e::policy_server::Deployment;
use serde_json::json;

use crate::guarded_namespace::guard;
use crate::objects::{deployment, limit_range, pod};

/// docs/src/tasks/gitops.md says of Argo CD (client-side apply, or server-side) and Flux (server-side, a dry run
/// first): an object whose missing values were set at admission is the same after it is applied again.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn applying_a_manifest_again_changes_nothing() {
    for settings in [json!({}), json!({"mutateTemplates": true})] {
        let cluster = Cluster::start(InTreePlugins::Off, Controllers::Off).await.unwrap();
        let shop = guard(cluster, Deployment::mutating(settings.clone())).await;
        let item = json!({"default": {"cpu": "200m"}, "defaultRequest": {"cpu": "100m"}});
        shop.create(limit_range(&shop.namespace, item)).await.unwrap();
        let is_filled = json!({"limits": {"cpu": "200m"}, "requests": {"cpu": "100m"}});
        let file = tempfile::NamedTempFile::new().unwrap();
        for (way, arguments) in [
            ("client-side", &["--field-manager=argocd-controller"][..]),
            ("server-side", &["--server-side", "--field-manager=kustomize-controller"]),
        ] {
            for mut object in [pod(&shop.namespace, way, json!({})), deployment(&shop.namespace, 0, json!({}))] {
                object["metadata"]["name"] = json!(way);
                serde_json::to_writer(file.reopen().unwrap(), &object).unwrap();
                let path = file.path().to_str().unwrap();
                let apply = |more: &[&str]| shop.kubectl(&[&["apply", "-f", path], arguments, more].concat());
                let api = shop.all(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
                let first = apply(&[]);
                let stored = api.get(way).await.unwrap_or_else(|error| panic!("{first}: {error}"));
                let pod_spec = stored.data["spec"].pointer("/template/spec").unwrap_or(&stored.data["spec"]);
                let found = &pod_spec["containers"][0]["resources"];
                // A template is filled in only where the settings ask for it.
                let is_expected = object["kind"] == "Pod" || settings["mutateTemplates"] == true;
                assert_eq!(*found, if is_expected { is_filled.clone() } else { json!({}) }, "{way}: {first}");
                let again = [apply(&["--dry-run=server"]), apply(&[])].concat();
                let after = api.get(way).await.unwrap();
                assert_eq!(after.metadata.resource_version, stored.metadata.resource_version, "{way}: {again}");
                assert!(way == "server-side" || again.contains("unchanged"), "{again}");
                std::fs::write(file.path(), "").unwrap();
            }
        }
    }
}
