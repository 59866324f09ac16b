//! Many creates by replicas that are killed, whose clocks differ, whose plans change, and that write at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headroom_fixtures::api_server::ApiServer;
use headroom_quota_protocol::{Plan, State, encoding};
use headroom_quota_server::{Options, objects, review};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::{self, *};

/// So many that some may be held as spares.
const MANY: usize = 100;

#[derive(Debug, Default)]
struct Tally {
    stored: AtomicUsize,
    refused: AtomicUsize,
    others: AtomicUsize,
}

/// A create as in an API server: reviewed, perhaps refused by another webhook or abandoned, and stored.
async fn request(
    server: &ApiServer,
    replica: &Running,
    (namespace, name): (&str, &str),
    hard: usize,
    tally: &Tally,
) -> bool {
    let count = |count: &AtomicUsize| _ = count.fetch_add(1, Ordering::Relaxed);
    let mut object = pod(namespace, name);
    object["metadata"]["uid"] = json!(format!("uid-{}", server.chance.u64()));
    let body = cluster::review(&object, &Value::Null).to_string();
    let max_wait = if server.chance.one_in(20) { server.chance.millis(30) } else { Duration::from_secs(10) };
    let Ok(answer) = timeout(max_wait, review::answer(replica, body.as_bytes())).await else {
        count(&tally.others);
        return false;
    };
    let response = &answer.unwrap()["response"];
    if response["allowed"] != true {
        let text = response["status"]["message"].as_str().unwrap();
        let is_refused = text.contains("exceeded quota: team") && response["status"]["code"] == 403;
        assert!(is_refused || response["status"]["code"] == 429, "{response}");
        count(if is_refused { &tally.refused } else { &tally.others });
        return false;
    }
    sleep(server.chance.millis(40)).await;
    let is_stored = !server.chance.one_in(8) && store_pod(server, object, hard);
    count(if is_stored { &tally.stored } else { &tally.others });
    is_stored
}

/// Returns the number of stored pods. With many, a replica writes spares, until few are left.
async fn run(seed: u64, hard: usize) -> usize {
    let server = ApiServer::troubled(seed);
    ["shop", "web"].into_iter().for_each(|name| server.put(namespace(name)));
    let mut team = quota("team", &[], &json!({"pods": hard.to_string()}));
    team["spec"]["namespaces"] = json!({"selector": {"matchLabels": {"team": "a"}}});
    server.put(team);
    // A second tree in the same ledger, which charges one of the namespaces too.
    server.put(quota("zoo", &["web"], &json!({"pods": "1000"})));
    // Their clocks differ, and either may lead.
    let clocks: [fn() -> i64; 2] = [clock, || clock() + 600];
    let start = |which: usize| Arc::new(Running::start_with(&server, Options { clock: clocks[which], ..options() }));
    let replicas = [0, 1].map(start);
    let (replicas, tally) = (Arc::new(Mutex::new(replicas)), Arc::new(Tally::default()));
    let writers = (0..8).map(|writer| {
        let (server, replicas, tally) = (Arc::clone(&server), Arc::clone(&replicas), Arc::clone(&tally));
        tokio::spawn(async move {
            let namespace = ["shop", "web"][writer % 2];
            let (rounds, names) = if hard == HARD { (12, 5) } else { (40, 20) };
            for round in 0..rounds {
                let replica = Arc::clone(&replicas.lock().unwrap()[server.chance.below(2)]);
                // Some names conflict, and some are created again.
                let name = format!("pod-{}-{}", writer / 2, round % names);
                let is_stored = request(&server, &replica, (namespace, &name), hard, &tally).await;
                if !is_stored || server.chance.one_in(if hard == HARD { 2 } else { 8 }) {
                    delete_pod(&server, namespace, &format!("pod-{}-{}", writer / 2, server.chance.below(names)));
                }
                sleep(server.chance.millis(20)).await;
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    for _ in 0..3 {
        sleep(server.chance.millis(900)).await;
        let which = server.chance.below(2);
        let killed = std::mem::replace(&mut replicas.lock().unwrap()[which], start(which));
        killed.stop.cancel();
        killed.drained.cancel();
    }
    for writer in writers {
        writer.await.unwrap();
    }
    // Without further requests, the ledger becomes equal to what is stored.
    let seen = || json!({"seed": seed, "used": format!("pods={}", pods(&server)), "ledger": ledger(&server)});
    until(seen, |seen| seen["ledger"]["used"][0] == seen["used"] && seen["ledger"].get("claims").is_none()).await;
    println!("seed {seed}: {tally:?}");
    tally.stored.load(Ordering::Relaxed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_schedule_exceeds_a_bound_or_leaves_a_claim() {
    let seeds: u64 = std::env::var("HEADROOM_LEDGER_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    let (mut runs, mut stored) = (tokio::task::JoinSet::new(), 0);
    for seed in 0..seeds {
        if runs.len() == 6 {
            stored += runs.join_next().await.unwrap().unwrap();
        }
        runs.spawn(run(seed, if seed % 3 == 0 { MANY } else { HARD }));
    }
    // With some schedules nothing is stored, because the replicas are killed again and again.
    assert!(stored + runs.join_all().await.iter().sum::<usize>() > 0);
}

/// Trees move only between ledgers that both charge them, for longer than the request lasts that only the first one knows.
#[tokio::test(start_paused = true)]
async fn a_tree_that_moves_is_charged_in_both_ledgers_for_a_while() {
    for seed in 0..4 {
        let server = ApiServer::troubled(seed);
        server.put(namespace("shop"));
        server.put(quota("team", &["shop"], &json!({"pods": HARD.to_string()})));
        server.put(quota("zoo", &["shop"], &json!({"pods": "1000"})));
        // A ledger with a name of its own, as they had before they were shared.
        let plan = Plan::read(1, &[format!("team 1 - pods={HARD}")], &["shop 0"]).unwrap();
        server.put(objects::write_plan("headroom", "team", &plan));
        let used = vec![encoding::read_amounts("pods=0").unwrap()];
        server.put(objects::write_state("headroom", "team", &State { plan: 1, used, ..State::default() }, None));
        let replicas = [0, 1].map(|_| Running::start(&server));
        let (tally, began, chance) = (Tally::default(), Instant::now(), &server.chance);
        let (charged_in_both, left) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
        let writers = (0..6).map(async |writer| {
            for round in 0.. {
                let name = format!("pod-{writer}-{}", round % 3);
                request(&server, &replicas[chance.below(2)], ("shop", &name), HARD, &tally).await;
                delete_pod(&server, "shop", &format!("pod-{writer}-{}", chance.below(3)));
                let seconds = began.elapsed().as_secs() as usize;
                if server.get(&format!("{LEDGERS}/team")).is_none() {
                    left.fetch_min(seconds, Ordering::Relaxed);
                } else if !ledger(&server).is_null() {
                    charged_in_both.fetch_add(1, Ordering::Relaxed);
                }
                if seconds > 60 {
                    return;
                }
                sleep(chance.millis(200)).await;
            }
        });
        futures::future::join_all(writers).await;
        assert_eq!(ledger(&server)["used"].as_array().unwrap().len(), 2, "{}", ledger(&server));
        let (left, both) = (left.into_inner(), charged_in_both.into_inner());
        assert!((16..50).contains(&left) && both > 20, "seed {seed}: it was left after {left} s, {both} times in both");
        assert!(tally.stored.into_inner() > 30 && tally.refused.into_inner() > 30);
    }
}

/// A conflict costs the API server nearly as much as a write, and every request of the batch another one.
#[tokio::test]
async fn replicas_that_write_at_the_same_time_take_turns() {
    let server = bounded(&json!({"pods": "1000"}));
    let replicas = [0, 1].map(|_| Running::start(&server));
    assert_eq!(replicas[0].create(&pod("shop", "first")).await["allowed"], true);
    let writers = (0..8).map(async |writer| {
        for round in 0..40 {
            // None is like another, so each needs a write.
            let cpu = format!("{}m", 40 * writer + round + 1);
            let object = pod_with("shop", &format!("pod-{writer}-{round}"), "cpu", &cpu);
            let answer = replicas[server.chance.below(2)].create(&object).await;
            assert_eq!(answer["allowed"], true, "{answer}");
            assert!(store_pod(&server, object, 1000));
            sleep(server.chance.millis(4)).await;
        }
    });
    futures::future::join_all(writers).await;
    let (writes, conflicts) = replicas.iter().fold((0, 0), |(writes, conflicts), replica| {
        (writes + replica.metrics.writes.get(), conflicts + replica.metrics.conflicts.get())
    });
    // It was every other one; on a busy machine, turns are missed.
    assert!(conflicts * 9 < writes * 4, "{conflicts} conflicts beside {writes} writes");
}

/// Equal creates share writes also if they come one after the other, and the ledger ends with nothing but what is stored.
#[tokio::test]
async fn of_many_equal_creates_few_wait_for_a_write() {
    let (server, replica) = with_replica(1000).await;
    for at in 0..200 {
        let object = pod("shop", &format!("pod-{at}"));
        assert_eq!(replica.create(&object).await["allowed"], true);
        // Some are refused by another webhook.
        assert!(at % 4 == 0 || store_pod(&server, object, 1000));
    }
    let writes = replica.metrics.writes.get();
    assert!(writes < 100, "{writes}");
    // The claims of those that were not stored are released, and no spare is left.
    until_counted(&server, "pods=150").await;
}
