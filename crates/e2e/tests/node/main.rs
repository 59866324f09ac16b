//! Headroom at a real node. It takes a quarter of an hour and a network of its own, so it is ignored by default. Run it with
//! `make e2e-node`.

#![expect(clippy::disallowed_methods, reason = "tests write the files that programs read")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic on unexpected data")]

// Helpers.
#[path = "../cluster/chart.rs"]
mod chart;
mod node;
mod replica;
mod usage;
mod world;

mod scenarios;

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt;
use headroom_e2e::cluster::Cluster;
use headroom_e2e::control_plane::{Controllers, InTreePlugins};
use serde_json::json;
use tokio::task::{JoinSet, LocalSet};

use replica::{Fate, Hook, Replica};
use world::World;

/// Polls until an attempt succeeds. The machine may be busy, so that only minutes tell something.
async fn within<T>(seconds: u64, claim: &str, attempt: impl AsyncFnMut() -> Result<T, String>) -> T {
    let patience = [seconds, 2].map(Duration::from_secs);
    headroom_e2e::wait::within(patience, claim, attempt).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a node: make e2e-node"]
async fn pods_are_resized() -> Result<(), Failed> {
    LocalSet::new().run_until(resize_pods()).await
}

/// The scenarios that failed, each with the reason. It is the last that is printed: far above it are the panics, with the traces of a
/// runtime, and the logs of the programs.
struct Failed(Vec<String>);

impl fmt::Debug for Failed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|reason| write!(to, "\n{reason}"))
    }
}

async fn resize_pods() -> Result<(), Failed> {
    let began = Instant::now();
    let say = move |what: &str| eprintln!("{:4} s: {what}", began.elapsed().as_secs());
    let cluster = Cluster::start_with(InTreePlugins::On, Controllers::On, &node::API_SERVER).await.unwrap();
    // The usage of the past days of each namespace's Deployment, in millicores and Mi.
    let past = [
        ("down", 20, 60),
        ("back", 20, 60),
        ("up", 80, 40),
        ("leader", 80, 40),
        ("always", 100, 80),
        ("room", 10, 1300),
        ("shrunk", 500, 40),
    ];
    let world = Arc::new(World::start(cluster, &past).await);
    say("the node is ready");
    for (namespace, ..) in past {
        world.namespace(namespace, "on").await;
    }
    for (namespace, mode) in [("quota", "on"), ("scale", "on"), ("killed", "observe")] {
        world.namespace(namespace, mode).await;
    }
    let requests = |cpu: &str, memory: &str| json!({"requests": {"cpu": cpu, "memory": memory}});
    let limited =
        |memory: &str, limit: &str| json!({"requests": {"cpu": "10m", "memory": memory}, "limits": {"memory": limit}});
    let scale = json!({"headroom.dev/limits": "scale"});
    tokio::join!(
        world.run("down", 2, requests("100m", "256Mi"), json!({})),
        world.run("back", 1, requests("100m", "128Mi"), json!({})),
        world.run("up", 1, requests("20m", "32Mi"), json!({})),
        world.run("leader", 1, requests("20m", "32Mi"), json!({})),
        world.run("always", 1, requests("140m", "140Mi"), json!({})),
        world.run("room", 1, requests("10m", "32Mi"), json!({})),
        world.run("quota", 1, requests("10m", "32Mi"), json!({})),
        world.run("scale", 1, limited("40Mi", "80Mi"), scale),
        world.run("killed", 1, limited("32Mi", "48Mi"), json!({})),
    );
    say("the pods are ready");
    world.policies.guard(&world.client, "always").await.unwrap();
    world.collect().await;
    say("profiles are collected");

    let (asked_by_leader, of_world) = (AtomicUsize::new(0), Arc::clone(&world));
    let hook: Hook = Arc::new(move |namespace| match namespace {
        "shrunk" => Some(Fate::Held(Arc::clone(&of_world.gate))),
        "leader" => match asked_by_leader.fetch_add(1, Ordering::Relaxed) {
            0 => Some(Fate::Lost),
            1 => Some(Fate::Unanswered),
            _ => None,
        },
        _ => None,
    });
    let dead = [Replica::start(&world.cluster, &hook).await, Replica::start(&world.cluster, &hook).await];
    let (mut scenarios, mut failed) = (JoinSet::new(), Vec::new());
    macro_rules! begin {
        ($($scenario:ident)*) => {$(
            let of_scenario = Arc::clone(&world);
            scenarios.spawn_local(async move {
                let ended = AssertUnwindSafe(scenarios::$scenario(&of_scenario)).catch_unwind().await;
                say(stringify!($scenario));
                ended.map_err(|panic| format!("{}: {}", stringify!($scenario), reason_of(&*panic)))
            });
        )*};
    }
    macro_rules! end {
        () => {
            while let Some(ended) = scenarios.join_next().await {
                failed.extend(ended.unwrap().err());
            }
        };
    }
    begin!(up taken_back scaled killed beyond_the_quota beyond_the_node always leaders_die down);
    within(600, "both leaders die", async || {
        let are_dead = dead.iter().all(Replica::is_killed);
        are_dead.then_some(()).ok_or_else(|| dead.iter().map(Replica::log).collect())
    })
    .await;
    say("two leaders are dead, and two others start");
    for _ in 0..2 {
        let replica = Replica::start(&world.cluster, &hook).await;
        world.replicas.lock().await.push(replica);
    }
    end!();
    // These need the API server, or the room of the node, for themselves.
    begin!(api_server_away);
    end!();
    begin!(measured);
    end!();
    begin!(smaller_node);
    end!();
    if failed.is_empty() {
        return Ok(());
    }
    for replica in world.replicas.lock().await.iter().chain(&dead) {
        eprintln!("--- controller ---\n{}", replica.log());
    }
    eprintln!("{}", world.node.last_words());
    Err(Failed(failed))
}

/// The start of what a panic says.
fn reason_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or_default().chars().take(1000).collect()
}
