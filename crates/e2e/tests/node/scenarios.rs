//! The scenarios: each sees what becomes of the pods of a namespace of its own.

use std::time::Duration;

use headroom_admission::amount::Quantity;
use headroom_e2e::cluster::{api, api_in};
use kube::api::{DeleteParams, DynamicObject, ListParams};
use serde_json::{Value, json};

use crate::node::{condition, is_ready};
use crate::replica::Replica;
use crate::usage::now;
use crate::within;
use crate::world::{World, asked, quantity, restarts};

/// Longer than two passes of the controller.
const TWO_PASSES: Duration = Duration::from_secs(75);

fn is(amount: &str) -> impl Fn(&Quantity) -> bool {
    let amount: Quantity = amount.parse().unwrap();
    move |found| *found == amount
}

/// Requests more than the history gives: they are lowered by a third, one pod first, and the second ten minutes later.
pub async fn down(world: &World) {
    let pods = world.pods("down").await;
    let weight = world.node.cgroup(&pods[0], "cpu.weight");
    let first = world.resized("down", "requests", "cpu", is("67m")).await;
    assert_eq!(restarts(&first), 0);
    let lowered = world.node.cgroup(&first, "cpu.weight");
    assert!(lowered.parse::<u32>().unwrap() < weight.parse().unwrap(), "{weight} -> {lowered}");
    // The history says less than two thirds, but no request falls by more, and memory is asked for in whole Mi.
    assert_eq!(asked(&first, "requests", "memory"), quantity(&json!("172Mi")));
    let settled = within(1200, "down: the change settles", async || {
        // Before the Events: the second pod may be changed between two reads.
        let lowered = world.pods("down").await.iter().filter(|pod| is("67m")(&asked(pod, "requests", "cpu"))).count();
        let events = world.list("down", "Event").await;
        if events.iter().any(|event| event.data["reason"] == "Resized") {
            return Ok(());
        }
        assert_eq!(lowered, 1, "the second pod is changed before the first one has settled");
        Err("no Event Resized".to_owned())
    });
    settled.await;
    within(600, "down: the second pod follows", async || {
        let pods = world.pods("down").await;
        let lowered = pods.iter().filter(|pod| is("67m")(&asked(pod, "requests", "cpu"))).count();
        if lowered == 2 { Ok(()) } else { Err(format!("{lowered} pods")) }
    })
    .await;
    world.pods("down").await.iter().for_each(|pod| assert_eq!(restarts(pod), 0));
}

/// Requests less than the history gives: raised at once.
pub async fn up(world: &World) {
    let weight = world.node.cgroup(&world.pods("up").await[0], "cpu.weight");
    let pod = world.resized("up", "requests", "cpu", |cpu| *cpu > quantity(&json!("80m"))).await;
    assert!(asked(&pod, "requests", "memory") > quantity(&json!("50Mi")));
    assert_eq!(restarts(&pod), 0);
    let raised = world.node.cgroup(&pod, "cpu.weight");
    assert!(raised.parse::<u32>().unwrap() > weight.parse().unwrap(), "{weight} -> {raised}");
}

/// A decrease is taken back when the pod is no longer ready, and is not made again when it is.
pub async fn taken_back(world: &World) {
    world.resized("back", "requests", "cpu", is("67m")).await;
    world.node.load("back", 5, 20, false);
    let pod = world.resized("back", "requests", "cpu", is("100m")).await;
    assert_eq!(restarts(&pod), 0);
    assert!(world.event("back", "ResizeTakenBack").await.contains("no longer ready"));
    world.node.load("back", 5, 20, true);
    world.until("back", "the pod is ready again", is_ready).await;
    tokio::time::sleep(TWO_PASSES).await;
    world.resized("back", "requests", "cpu", is("100m")).await;
}

/// Memory near its limit: request and limit rise in the template's proportion before the kernel kills.
pub async fn scaled(world: &World) {
    world.node.load("scale", 5, 75, true);
    let pod = world.resized("scale", "limits", "memory", |limit| *limit > quantity(&json!("100Mi"))).await;
    assert_eq!(restarts(&pod), 0);
    let [request, limit] = ["requests", "limits"].map(|kind| asked(&pod, kind, "memory").value());
    assert!((limit - 2 * request).abs() <= 1 << 20, "{request} {limit}");
    // The kernel counts pages.
    assert_eq!(world.node.cgroup(&pod, "memory.max"), (limit / 4096 * 4096).to_string());
}

/// A kill raises the limit once, and nothing else.
pub async fn killed(world: &World) {
    world.node.load("killed", 5, 90, true);
    world.until("killed", "the container is killed", |pod| restarts(pod) > 0).await;
    // It has to run when the limit is raised: Kubernetes 1.36 leaves the cgroup of a pod without a running container as it was.
    world.node.load("killed", 5, 20, true);
    world.until("killed", "the container runs again", |pod| restarts(pod) > 0 && is_ready(pod)).await;
    let mode = ["label", "namespace", "killed", "headroom.dev/resize=afterOom", "--overwrite"];
    world.cluster.run_kubectl(&mode).unwrap();
    world.resized("killed", "limits", "memory", is("148Mi")).await;
    // The container that was seen may have ended meanwhile; the next one has the new limit from its start.
    let pod = within(120, "the kernel has the new limit", async || {
        let pod = world.pods("killed").await.remove(0);
        let limit = world.node.cgroup(&pod, "memory.max");
        if limit == (148 << 20).to_string() { Ok(pod) } else { Err(format!("memory.max {limit}")) }
    })
    .await;
    let kills = restarts(&pod);
    world.node.load("killed", 5, 90, true);
    tokio::time::sleep(TWO_PASSES).await;
    let pod = world.resized("killed", "limits", "memory", is("148Mi")).await;
    assert_eq!(restarts(&pod), kills, "killed below its new limit");
    assert!(is("32Mi")(&asked(&pod, "requests", "memory")), "{}", pod.data["spec"]);
}

/// A raise that a quota has no room for is not begun.
pub async fn beyond_the_quota(world: &World) {
    let hard = json!({"requests.memory": "48Mi"});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small", "namespace": "quota"}, "spec": {"hard": hard}});
    headroom_e2e::cluster::create(&world.client, quota).await.unwrap();
    world.node.load("quota", 5, 60, true);
    let message = world.event("quota", "ResizeDoesNotFit").await;
    assert!(message.contains("exceeded quota: small"), "{message}");
    assert!(is("32Mi")(&asked(&world.pods("quota").await[0], "requests", "memory")));
}

/// A raise that the node has no room for is not begun.
pub async fn beyond_the_node(world: &World) {
    let message = world.event("room", "ResizeDoesNotFit").await;
    assert!(message.contains("node node has "), "{message}");
    assert!(is("32Mi")(&asked(&world.pods("room").await[0], "requests", "memory")));
}

/// A pod that was admitted before there were estimates gets the size that the policy gives the next one.
pub async fn always(world: &World) {
    let pod = world.resized("always", "requests", "cpu", |cpu| *cpu < quantity(&json!("140m"))).await;
    assert_eq!(restarts(&pod), 0);
    assert!(world.policies.calls("headroom-subresources", "always") > 0, "the policy was not asked about the resize");
    let weight = world.node.cgroup(&pod, "cpu.weight");
    let pods = api_in(&world.client, "always", "v1", "Pod");
    pods.delete(pod.metadata.name.as_deref().unwrap(), &DeleteParams::default()).await.unwrap();
    let next = world.until("always", "another pod runs", |next| {
        next.metadata.uid != pod.metadata.uid && next.data["status"]["phase"] == "Running"
    });
    let next = next.await;
    for resource in ["cpu", "memory"] {
        assert_eq!(asked(&next, "requests", resource), asked(&pod, "requests", resource), "{}", next.data["spec"]);
    }
    assert_eq!(world.node.cgroup(&next, "cpu.weight"), weight);
}

/// Two replicas die, one before its request arrives and one before the answer does: the change is made once.
pub async fn leaders_die(world: &World) {
    let pod = world.resized("leader", "requests", "cpu", |cpu| *cpu > quantity(&json!("80m"))).await;
    tokio::time::sleep(TWO_PASSES).await;
    let now = &world.pods("leader").await[0];
    assert_eq!(now.data["spec"], pod.data["spec"]);
    assert_eq!(now.metadata.generation, Some(2), "{:?}", now.metadata);
    let records = world.list("headroom", "ConfigMap").await;
    let record = records.iter().find(|map| map.data["data"]["workload"] == "leader/Deployment/web").unwrap();
    let record: Value = serde_json::from_str(record.data["data"]["record"].as_str().unwrap()).unwrap();
    assert_eq!(record["past"][now.metadata.uid.as_deref().unwrap()].as_array().unwrap().len(), 1, "{record}");
}

/// Usage that only the kubelet has told of becomes history.
pub async fn measured(world: &World) {
    world.collect().await;
    let profiles = api_in(&world.client, "headroom", "headroom.dev/v1alpha1", "UsageProfile");
    let profiles = profiles.list(&ListParams::default()).await.unwrap().items;
    let has = |namespace: &str| {
        profiles.iter().any(|profile| profile.data.to_string().contains(&format!("\"{namespace}\":")))
    };
    assert!(has("quota") && has("killed") && !has("nowhere"));
}

/// The kubelet starts with less to give than a resize asks for that is on its way: it defers the resize, which is taken back.
pub async fn smaller_node(world: &World) {
    // The smaller node has no room for the pods of the other scenarios.
    let deployments = api(&world.client, "apps/v1", "Deployment").list(&ListParams::default()).await.unwrap();
    for deployment in deployments.items {
        let of_namespace = api_in(&world.client, &deployment.metadata.namespace.unwrap(), "apps/v1", "Deployment");
        of_namespace.delete("web", &DeleteParams::background()).await.unwrap();
    }
    let pods = api(&world.client, "v1", "Pod");
    within(600, "all pods end", async || {
        let count = pods.list(&ListParams::default()).await.unwrap().items.len();
        if count == 0 { Ok(()) } else { Err(format!("{count} pods")) }
    })
    .await;
    world.run("shrunk", 1, json!({"requests": {"cpu": "20m", "memory": "32Mi"}}), json!({})).await;
    tokio::time::timeout(Duration::from_secs(600), world.gate.asked.notified()).await.unwrap();
    world.node.shell("kill -STOP $(pidof kubelet)");
    world.gate.opened.cancel();
    world
        .until("shrunk", "the resize is asked for", |pod| asked(pod, "requests", "cpu") > quantity(&json!("400m")))
        .await;
    world.node.reserve(&world.cluster, "600m");
    let is_pending =
        |pod: &DynamicObject| condition(pod, "PodResizePending").is_some_and(|pending| pending["reason"] == "Deferred");
    world.until("shrunk", "the kubelet defers it", is_pending).await;
    let message = world.event("shrunk", "ResizeTakenBack").await;
    assert!(message.contains("deferred"), "{message}");
    let pod = world.resized("shrunk", "requests", "cpu", is("20m")).await;
    assert_eq!(restarts(&pod), 0);
    world.until("shrunk", "no resize is pending", |pod| condition(pod, "PodResizePending").is_none()).await;
}

/// Without the API server for a minute all containers stay, the controller lives, and goes on afterwards. As the API server is back,
/// Kubernetes has not heard of the node for too long: it counts its pods as not ready, which is no harm that a resize did.
pub async fn api_server_away(world: &World) {
    const CONTAINERS: &str =
        "cd /sys/fs/cgroup/kubepods && ls -d */pod*/*/ && cat */pod*/*/memory.max */pod*/*/cpu.weight";
    // The kubelet may still be carrying out the resize that the last scenario has seen asked for.
    let before = within(120, "the node rests", async || {
        let before = world.node.shell(CONTAINERS);
        tokio::time::sleep(Duration::from_secs(10)).await;
        if world.node.shell(CONTAINERS) == before { Ok(before) } else { Err("limits change".to_owned()) }
    })
    .await;
    assert!(before.lines().count() > 20, "{before}");
    let (mut control_plane, replicas) = (world.control_plane.lock().await, world.replicas.lock().await);
    control_plane.stop_api_server();
    tokio::time::sleep(Duration::from_secs(65)).await;
    assert_eq!(world.node.shell(CONTAINERS), before);
    assert!(replicas.iter().all(|replica| replica.page("/healthz").is_some()));
    control_plane.start_api_server().await.unwrap();
    world.node.wait_until_ready(&world.cluster).await;
    let back = now();
    within(600, "a replica leads again", async || {
        let leads = replicas.iter().any(|replica| replica.has_passed_since(back));
        leads.then_some(()).ok_or_else(|| replicas.iter().map(Replica::log).collect())
    })
    .await;
    assert_eq!(world.node.shell(CONTAINERS), before);
    for pod in world.pods("down").await {
        assert!(is("67m")(&asked(&pod, "requests", "cpu")), "{}", pod.data["spec"]);
    }
}
