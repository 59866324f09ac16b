//! A metrics store yields the memory that the policy gives the next pod of the image, once the same usage is published; and CPU
//! without the margin that the policy adds, because a store tells each pod's usage over all days.

use headroom_admission::amount::Quantity;
use headroom_wasm_host::built::workspace_file;
use serde_json::{Value, json};

use crate::command_recommend::scene::{STORE, Scene, settings};
use crate::guarded_namespace::resources;
use crate::objects::pod;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn the_next_pod_gets_the_recommended_requests() {
    crate::skip_without!("kube-controller-manager");
    let scene = Scene::start().await;
    let shop = scene.shop.namespace.as_str();
    let file = scene.file("settings.yaml", &settings().to_string());
    let source = scene.file("source.yaml", "step: 1m\n");
    let said = scene.run(&[
        "recommend",
        "-n",
        shop,
        "-o",
        "json",
        "--source",
        &source,
        "--prometheus",
        STORE,
        "--settings",
        &file,
    ]);
    assert_eq!(said.exit, 0, "{}", said.err);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(report["source"]["name"], "service monitoring/metrics:9090");
    let row = &report["workloads"][0];
    assert_eq!((&row["kind"], &row["name"], &row["pods"]), (&json!("Deployment"), &json!("web"), &json!(2)), "{row}");
    let recommended = |resource: &str| {
        let of_container = row["containers"][0]["resources"].as_array().unwrap();
        let of_resource = of_container.iter().find(|of| of["resource"] == resource).unwrap();
        of_resource["recommended"].clone()
    };
    let advised = json!({"cpu": recommended("cpu"), "memory": recommended("memory")});

    let definition = workspace_file("deploy/charts/headroom/files/crd.yaml");
    scene.kubectl(&["apply", "-f", definition.to_str().unwrap()]);
    scene.kubectl(&["create", "namespace", "headroom"]);
    scene.shop.cluster.wait_for_definitions().unwrap();
    let said = scene.collect(&["prometheus", STORE, "--store", "usage.redb"]);
    assert_eq!(said.exit, 0, "{}", said.err);
    let next = scene.shop.create(pod(shop, "next", json!({}))).await.unwrap();
    let given = &resources(&next)["requests"];
    assert_eq!(given["memory"], advised["memory"], "{report}");
    let millicores = |cpu: &Value| cpu.as_str().unwrap().parse::<Quantity>().unwrap().milli_value();
    let (advised, given) = (millicores(&advised["cpu"]), millicores(&given["cpu"]));
    assert!((333..=340).contains(&advised) && advised < given, "{advised} {given}: {report}");
}
