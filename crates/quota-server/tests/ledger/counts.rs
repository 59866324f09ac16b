//! Counts, plans, and what a replica knows of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use headroom_admission::json::Document;
use headroom_api_server::api_client::ApiClient;
use headroom_api_server::watch::WatchUpdate;
use headroom_fixtures::api_server::{ApiServer, Outcome, Request, status};
use headroom_quota_protocol::{Plan, State};
use headroom_quota_server::check::check;
use headroom_quota_server::ledger_cache::LedgerCache;
use headroom_quota_server::objects::{self, LedgerContent};
use serde_json::json;
use tokio::time::Instant;

use crate::cluster::*;

/// The policy reads them, so that it does not refuse what the ledger never charges.
#[tokio::test]
async fn the_status_lists_the_namespaces_that_are_never_charged() {
    let (server, _replica) = with_replica(HARD).await;
    let exempt = json!(["headroom", "kube-node-lease", "kube-public", "kube-system"]);
    until(|| quota_status(&server, "team"), |status| status["exemptNamespaces"] == exempt).await;
}

/// The status shows the bounds that are in force, and tells of a change that is late.
#[tokio::test(start_paused = true)]
async fn the_status_has_no_bounds_that_are_not_in_force() {
    let (server, _replica) = with_replica(HARD).await;
    let shown = || {
        let (status, of) = (quota_status(&server, "team"), "observedGeneration");
        let [ready, within] = [0, 1].map(|at| &status["conditions"][at]);
        json!([status["hard"]["pods"], ready["reason"], status[of], ready[of], within[of]])
    };
    let change = |generation: u64, pods: &str| {
        let team = json!({"metadata": {"generation": generation}, "spec": {"quota": {"hard": {"pods": pods}}}});
        server.edit("/apis/headroom.dev/v1alpha1/tenantquotas/team", &team);
    };
    until(shown, |shown| *shown == json!(["6", "InForce", 1, 1, 1])).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.take_requests();
    change(2, "5");
    until(shown, |shown| *shown == json!(["5", "InForce", 2, 2, 2])).await;
    server.on_request(|request| (request.path == LEDGERS && request.method == "POST").then(|| status(500, "no room")));
    change(3, "2");
    until(shown, |shown| *shown != json!(["5", "InForce", 2, 2, 2])).await;
    assert_eq!(shown(), json!(["5", "NotInForce", 2, 3, 2]));
    server.on_request(|_| Outcome::Serve);
    until(shown, |shown| *shown == json!(["2", "InForce", 3, 3, 3])).await;
    let events = server.requests().into_iter().filter(|request| request.path.ends_with("/events"));
    assert_eq!(events.map(|event| event.body["reason"].clone()).collect::<Vec<_>>(), ["NotInForce", "InForce"]);
}

/// Others in its ledger get new plans, and its own one stays in force.
#[tokio::test(start_paused = true)]
async fn a_tree_that_no_ledger_can_hold_stays_as_it_is() {
    let server = bounded(&json!({"pods": HARD.to_string()}));
    server.put(namespace("web"));
    server.put(quota("zoo", &["web"], &json!({"pods": "1"})));
    let replica = Running::start(&server);
    until(|| quota_status(&server, "zoo"), |status| status["hard"]["pods"] == "1").await;
    let classes: Vec<String> = (0..2000).map(|at| format!("{}{at}", "class.".repeat(30))).collect();
    let classes = json!([{"scopeName": "PriorityClass", "operator": "In", "values": classes}]);
    let mut huge = quota("zoo", &["web"], &json!({"pods": "9"}));
    huge["spec"]["quota"]["scopeSelector"] = json!({"matchExpressions": classes});
    huge["metadata"]["generation"] = json!(2);
    let problem = "the tree of quotas and its namespaces need ";
    let response = replica.create(&huge).await;
    assert!(response["status"]["message"].as_str().unwrap().starts_with(problem), "{response}");
    // It may be stored while the webhook is away.
    server.put(huge);
    server.put(quota("team", &["shop"], &json!({"pods": "2"})));
    until(|| quota_status(&server, "team"), |status| status["hard"]["pods"] == "2").await;
    until(|| quota_status(&server, "zoo"), |status| status["conditions"][2]["status"] == "False").await;
    let status = quota_status(&server, "zoo");
    assert!(status["conditions"][2]["message"].as_str().unwrap().starts_with(problem), "{status}");
    assert_eq!(json!([status["conditions"][0]["reason"], status["hard"]]), json!(["NotInForce", {"pods": "1"}]));
    let found = check(&replica.api, "headroom", &[]).await.unwrap().problems;
    assert!(found.len() == 1 && found[0].starts_with(&format!("tenant quota zoo: {problem}")), "{found:?}");
    for (name, is_allowed) in [("a", true), ("b", false)] {
        assert_eq!(replica.create(&pod("web", name)).await["allowed"], is_allowed);
    }
}

/// A tenant may make his pods as large as etcd takes them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_objects_are_listed_in_small_pages() {
    let server = bounded(&json!({"pods": "100"}));
    for number in 0..70 {
        let mut large = pod("shop", &format!("p{number}"));
        large["metadata"]["annotations"] = json!({"x": "x".repeat(128 << 10)});
        server.put(large);
    }
    let replica = Running::start(&server);
    until_counted(&server, "pods=70").await;
    drop(replica);
    let requests = server.requests().into_iter().filter(|request| request.path == "/api/v1/pods");
    let limits: Vec<String> = requests.filter_map(|request| Some(request.parameter("limit")?.to_owned())).collect();
    // The first page was larger than a page may be.
    assert_eq!(limits, ["100", "25", "25", "25"]);
}

/// Without a claim, which would make the ledger due anyway.
#[tokio::test]
async fn a_ledger_stays_due_until_it_was_written_and_a_plan_that_failed_is_tried_again_within_seconds() {
    let server = bounded(&json!({"pods": HARD.to_string()}));
    ["one", "two"].into_iter().for_each(|name| server.put(pod("shop", name)));
    let (failing, began) = (fail_ledger_writes(&server, 4), Instant::now());
    let _replica = Running::start(&server);
    until_counted(&server, "pods=2").await;
    assert_eq!(failing.load(Ordering::Relaxed), 0);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let failing = fail_ledger_writes(&server, 2);
    delete_pod(&server, "shop", "one");
    until_counted(&server, "pods=1").await;
    assert_eq!(failing.load(Ordering::Relaxed), 0);
    // A write by another client is not a count.
    server.edit(LEDGER, &json!({"used": ["pods=5"]}));
    until_counted(&server, "pods=1").await;
}

/// A replica's own writes come back by its watch, and are half of what that brings.
#[tokio::test]
async fn a_known_state_is_not_read_again() {
    let cache = LedgerCache::new(ApiClient::new(client(&ApiServer::new())), "headroom");
    cache.add_plan("acme", Arc::new(Plan::read(1, &["acme 4 - pods=10"], &["shop 0"]).unwrap()));
    cache.add_state("acme", 7, State { plan: 1, ..State::default() }).unwrap();
    let seen = |revision: u64| {
        let object = objects::write_state("headroom", "acme", &State { plan: 1, ..State::default() }, Some(revision));
        cache.read(Document::read(&object.to_string()).unwrap().root()).unwrap()
    };
    assert!(matches!(seen(7).1, Ok(LedgerContent::AlreadyRead)) && matches!(seen(6).1, Ok(LedgerContent::AlreadyRead)));
    assert!(matches!(seen(8).1, Ok(LedgerContent::State { revision: 8, .. })));
    cache.take(WatchUpdate::Listed(9, vec![seen(7)]));
    cache.take(WatchUpdate::Stored(seen(7)));
    assert_eq!(cache.view("acme").unwrap().revision, 7);
    cache.take(WatchUpdate::Deleted(seen(7)));
    assert!(cache.view("acme").is_none());
}

/// Otherwise no write would succeed, and nothing would be counted, until the revisions have caught up.
#[tokio::test(start_paused = true)]
async fn a_ledger_from_a_backup_is_read_again_and_from_that_of_another_cluster_counted_again() {
    let (server, replica) = with_replica(HARD).await;
    let view = replica.ledgers.load("trees.1").await.unwrap();
    replica.ledgers.add_state("trees.1", view.revision + 1_000_000, State::clone(&view.state));
    for (name, used) in [("one", "pods=1"), ("two", "pods=2")] {
        assert_eq!(replica.create(&pod("shop", name)).await["allowed"], true);
        assert!(store_pod(&server, pod("shop", name), 2));
        until_counted(&server, used).await;
        server.edit(LEDGER, &json!({"used": ["pods=5"], "countedAt": ["pods 1000000"]}));
        until_counted(&server, used).await;
        // Where usage is the same, too.
        server.edit(LEDGER, &json!({"countedAt": ["pods 1000000"]}));
        let counted_at = || ledger(&server)["countedAt"][0].clone();
        until(counted_at, |at| at.is_string() && at != "pods 1000000").await;
    }
}

/// An API server that refuses watches is not asked five times a second for ever.
#[tokio::test]
async fn a_refused_watch_is_tried_again_ever_more_rarely() {
    let server = bounded(&json!({"pods": "3"}));
    let is_watch = |request: &Request| request.parameter("watch").is_some() && request.path == "/api/v1/namespaces";
    let refused = || Outcome::from(status(403, "no watches"));
    server.on_request(move |request| if is_watch(request) { refused() } else { Outcome::Serve });
    let _replica = Running::start(&server);
    tokio::time::sleep(Duration::from_secs(4)).await;
    let watches = server.requests().iter().filter(|request| is_watch(request)).count();
    assert!((2..=6).contains(&watches), "{watches} in four seconds");
}
