//! The resizer with the rights that the chart gives it, where there is no node: a pass that only observes, and its Events.

use std::time::{SystemTime, UNIX_EPOCH};

use headroom_admission::timestamp::Timestamp;
use headroom_api_server::api_client::ApiClient;
use headroom_api_server::event::Recorder;
use headroom_api_server::kubeconfig::Chosen;
use headroom_e2e::cluster::{Cluster, create};
use headroom_e2e::control_plane::{Controllers, InTreePlugins};
use headroom_resizer::Resizer;
use headroom_resizer::decision::{Mode, Rules};
use headroom_resizer::metrics::ResizerMetrics;
use headroom_resizer::running::Modes;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::chart::apply;
use crate::objects::pod;

const RESIZER: &str = "system:serviceaccount:headroom:headroom-resizer";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn the_resizer_observes_with_its_own_rights() {
    let cluster = Cluster::start(InTreePlugins::On, Controllers::Off).await.unwrap();
    let client = cluster.client().await.unwrap();
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    create(&client, namespace("headroom")).await.unwrap();
    create(&client, namespace("shop")).await.unwrap();
    let is_of_resizer = |object: &Value| {
        let not_running = object["kind"] != "Deployment" && object["kind"] != "Service";
        object["metadata"]["name"] == "headroom-resizer" && not_running
    };
    assert_eq!(apply(&cluster, &["--set", "resize.enabled=true"], is_of_resizer), 7);

    let resources = json!({"requests": {"memory": "64Mi"}, "limits": {"memory": "64Mi"}});
    create(&client, pod("shop", "web", resources)).await.unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let end = Timestamp::from_unix_seconds(now - 60).unwrap().to_string();
    let terminated = json!({"reason": "OOMKilled", "exitCode": 137, "finishedAt": end});
    let pods: Api<Pod> = Api::namespaced(client.clone(), "shop");
    let status = json!({"status": {"phase": "Running", "containerStatuses": [{"name": "web", "image": "a", "imageID": "a", "ready": true,
        "restartCount": 1, "lastState": {"terminated": terminated}}]}});
    pods.patch_status("web", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();

    let api = ApiClient::new(cluster.client_as(RESIZER).await.unwrap());
    let chosen = Chosen {
        kubeconfig: Some(cluster.kubeconfig_file().unwrap()),
        user: Some(RESIZER.to_owned()),
        ..Chosen::default()
    };
    let has_resize = cluster.serves("v1", "pods/resize");
    let runtime = tokio::runtime::Handle::current();
    let metrics = tokio::task::spawn_blocking(move || {
        let mut resizer = Resizer {
            runtime,
            cluster: headroom_api_server::cluster_reader::LiveCluster::connect(&chosen).unwrap().0,
            records: "headroom".to_owned(),
            modes: Modes { least: Mode::Observe, unasked: Mode::Observe, most: Mode::Observe },
            rules: Rules::default(),
            signals: None,
            events: Recorder { api: api.clone(), component: "headroom-resizer", instance: "e2e".to_owned() },
            memory: headroom_resizer::Memory::default(),
            api,
        };
        assert_eq!(resizer.is_supported().unwrap(), has_resize);
        let metrics = ResizerMetrics::default();
        resizer.pass(&["headroom".to_owned()], &metrics, &|| true).unwrap();
        metrics.to_string()
    });
    let metrics = metrics.await.unwrap();
    for line in ["headroom_resize_pods_would_change 1\n", "headroom_resize_rounds_total{result=\"failed\"} 0\n"] {
        assert!(metrics.contains(line), "{metrics}");
    }
    let events: Api<Event> = Api::namespaced(client, "shop");
    let told = events.list(&ListParams::default()).await.unwrap().items;
    let told = told.iter().find(|event| event.reason.as_deref() == Some("WouldResize")).unwrap();
    assert!(
        told.message.as_ref().unwrap().ends_with("memory limit 64Mi -> 164Mi): it was killed for memory"),
        "{told:?}"
    );
}
