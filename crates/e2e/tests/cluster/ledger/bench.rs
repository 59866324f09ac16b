//! The time of a create with the ledger, and with the API server's own plugin, on the same machine.

use std::time::{Duration, Instant};

use headroom_e2e::cluster::{Cluster, create, resource};
use headroom_e2e::control_plane::{Controllers, InTreePlugins};
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::json;

use super::replicas::{Ledger, NAMESPACES};

/// Pods created for each number of writers.
const PODS: usize = 600;

fn print_times(what: &str, writers: usize, mut times: Vec<Duration>, took: Duration) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    let rate = times.len() as f64 / took.as_secs_f64();
    println!("{what:8} {writers:3} writers: p50 {:6.1?}, p99 {:6.1?}, {rate:5.0}/s", at(50), at(99));
}

async fn measured<F>(writers: usize, create: impl Fn(usize) -> F) -> (Vec<Duration>, Duration)
where
    F: Future<Output = bool>,
{
    use futures::StreamExt;
    let began = Instant::now();
    let create = &create;
    let timed = (0..PODS).map(|number| async move {
        let began = Instant::now();
        assert!(create(number).await);
        began.elapsed()
    });
    let times = futures::stream::iter(timed).buffer_unordered(writers).collect().await;
    (times, began.elapsed())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures: make bench-ledger"]
async fn bench() {
    if std::env::var_os("HEADROOM_BENCH").is_none() {
        return;
    }
    {
        let ledger = Ledger::start(json!({"pods": "100000"})).await;
        for writers in [1, 10, 50] {
            let create = |number: usize| {
                let (ledger, name) = (&ledger, json!({"name": format!("bench-{writers}-{number}")}));
                async move { ledger.create_pod(NAMESPACES[number % 2], name, false).await.is_ok() }
            };
            let (times, took) = measured(writers, create).await;
            print_times("ledger", writers, times, took);
            let (writes, conflicts) = ledger.writes();
            println!("         {writes} writes and {conflicts} conflicts so far");
        }
    }
    for plugins in [InTreePlugins::On, InTreePlugins::Off] {
        let cluster = Cluster::start(plugins, Controllers::On).await.unwrap();
        let client = cluster.client().await.unwrap();
        create(&client, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})).await.unwrap();
        create(&client, crate::objects::quota("shop", json!({"pods": "100000"}))).await.unwrap();
        let quotas: Api<DynamicObject> = Api::namespaced_with(client.clone(), "shop", &resource("v1", "ResourceQuota"));
        let deadline = Instant::now() + Duration::from_secs(60);
        while quotas.get("team").await.unwrap().data["status"]["used"].is_null() {
            assert!(Instant::now() < deadline, "the quota is not counted");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let pods: Api<DynamicObject> = Api::namespaced_with(client, "shop", &resource("v1", "Pod"));
        for writers in [1, 10, 50] {
            let create = |number: usize| {
                let pod = crate::objects::pod("shop", &format!("bench-{writers}-{number}"), json!({}));
                let (pods, pod) = (&pods, serde_json::from_value::<DynamicObject>(pod).unwrap());
                async move { pods.create(&PostParams::default(), &pod).await.is_ok() }
            };
            let (times, took) = measured(writers, create).await;
            print_times(if plugins == InTreePlugins::On { "plugin" } else { "neither" }, writers, times, took);
        }
    }
}
