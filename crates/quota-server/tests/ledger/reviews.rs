//! Reviews one by one.

use std::time::Duration;

use headroom_fixtures::api_server::{ApiServer, Outcome, status};
use headroom_quota_protocol::tree::{MAX_LEVELS, MAX_QUOTAS};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cluster::*;

/// A resize is charged by its difference; room that it releases is available once it is stored.
#[tokio::test]
async fn a_resize_is_charged_by_its_difference() {
    let server = bounded(&json!({"requests.cpu": "1"}));
    server.put(pod_with("shop", "one", "cpu", "100m"));
    let replica = Running::start(&server);
    until_counted(&server, "requests.cpu=100m").await;
    let resize = async |cpu: &str| {
        let old = server.get("/api/v1/namespaces/shop/pods/one").unwrap();
        let mut object = pod_with("shop", "one", "cpu", cpu);
        object["metadata"] = old["metadata"].clone();
        let mut review = review(&object, &old);
        review["request"]["subResource"] = json!("resize");
        replica.ask(&review).await
    };
    for (cpu, is_stored) in [("800m", true), ("1200m", false), ("200m", true), ("900m", true)] {
        let response = resize(cpu).await;
        assert_eq!(response["allowed"], is_stored, "{response}");
        if is_stored {
            server.put(pod_with("shop", "one", "cpu", cpu));
            until_counted(&server, &format!("requests.cpu={cpu}")).await;
        } else {
            let text =
                "exceeded quota: team, requested: requests.cpu=400m, used: requests.cpu=800m, limited: requests.cpu=1";
            assert!(response["status"]["message"].as_str().unwrap().contains(text), "{response}");
        }
    }
}

/// A dry run gets the answer of the request, and takes no room.
#[tokio::test]
async fn dry_runs_take_no_room() {
    let (server, replica) = with_replica(1).await;
    let mut dry = review(&pod("shop", "dry"), &Value::Null);
    dry["request"]["dryRun"] = json!(true);
    for _ in 0..3 {
        assert_eq!(replica.ask(&dry).await["allowed"], true);
    }
    assert_eq!(replica.create(&pod("shop", "web")).await["allowed"], true);
    assert!(store_pod(&server, pod("shop", "web"), 1));
    let refused = replica.ask(&dry).await;
    let text = "pods \"dry\" is forbidden: exceeded quota: team, requested: pods=1, used: pods=1, limited: pods=1";
    assert!(refused["status"]["message"].as_str().unwrap().starts_with(text), "{refused}");
}

/// An API server that knows its address from before calls a replica that has just started: it waits until it can answer,
/// and rejects nothing for which there is room.
#[tokio::test]
async fn a_replica_that_starts_answers_as_soon_as_it_can() {
    let server = bounded(&json!({"pods": "2"}));
    let mut replicas = Vec::new();
    // For the first one, the quota has no plan yet either.
    for (name, is_allowed) in [("a", true), ("b", true), ("c", false)] {
        let replica = Running::start(&server);
        assert!(replica.problem().is_some());
        let response = replica.create(&pod("shop", name)).await;
        assert_eq!(response["allowed"], is_allowed, "{response}");
        assert!(is_allowed || response["status"]["code"] == 403, "{response}");
        replicas.push(replica);
    }
}

/// Requests by which one tenant could make the ledger unreadable, or too large to be written, are refused; the claims of
/// others stay.
#[tokio::test]
async fn no_request_makes_a_ledger_unusable() {
    let nines = json!({"ephemeral-storage": "9".repeat(29)});
    let names: Value =
        (0..40_000).map(|at| (format!("a.b/r{at:05}"), json!("1"))).collect::<serde_json::Map<_, _>>().into();
    let containers = |count: usize, requests: &Value| {
        let mut hostile = pod("shop", "hostile");
        let container = json!({"name": "a", "resources": {"limits": requests, "requests": requests}});
        hostile["spec"]["containers"] = json!(vec![container; count]);
        hostile
    };
    for (hostile, text) in [
        (containers(2, &nines), "ephemeral-storage is 1e20 or more, which quotas cannot count: set a smaller amount"),
        (
            containers(1, &names),
            "its name (7 bytes) and 40002 counted resources need more than 2048 bytes in the ledger: use a shorter name or \
             fewer resources",
        ),
    ] {
        let (server, replica) = with_replica(HARD).await;
        // The replica may not know yet that its ledger is stored, and reading the hostile pod keeps this thread busy.
        until(|| json!(replica.ledgers.covering("shop").len()), |ledgers| *ledgers == 1).await;
        let first = pod("shop", "first");
        let (first, refused) = tokio::join!(replica.create(&first), replica.create(&hostile));
        assert_eq!(first["allowed"], true, "{first}");
        let expected =
            json!({"code": 422, "reason": "Invalid", "message": format!("pods \"hostile\" is invalid: {text}")});
        assert_eq!(refused["status"], expected);
        // It may have been stored while the webhook was away. What is reserved beside it must not take its size.
        server.put(hostile);
        let mut again = pod("shop", "hostile");
        again["metadata"]["uid"] = json!("again");
        assert_eq!(replica.create(&again).await["allowed"], true);
        until(|| ledger(&server), |ledger| ledger["used"][0] == "pods=1").await;
        assert_eq!(replica.create(&pod("shop", "second")).await["allowed"], true);
        let claims = ledger(&server)["claims"].to_string();
        assert!(claims.contains("pods/shop/first ") && claims.len() < 4096, "{claims}");
        assert!(replica.ledgers.broken().is_empty());
    }
}

/// Whoever may write TenantQuotas cannot make a tree that no plan holds, or one of others too large for theirs.
#[tokio::test]
async fn a_quota_that_makes_its_tree_too_large_is_refused() {
    let server = ApiServer::new();
    let quota = |name: &str, parent: Option<&str>| {
        let mut quota = quota(name, &[], &json!({"pods": "1"}));
        quota["spec"]["parent"] = json!(parent);
        quota
    };
    server.put(quota("wide", None));
    (1..MAX_QUOTAS).for_each(|at| server.put(quota(&format!("w{at}"), Some("wide"))));
    server.put(quota("d1", None));
    (2..=MAX_LEVELS).for_each(|level| server.put(quota(&format!("d{level}"), Some(&format!("d{}", level - 1)))));
    let replica = Running::start(&server);
    until(|| json!(replica.tenants.quotas().len()), |known| *known == json!(MAX_QUOTAS + MAX_LEVELS)).await;
    for (name, parent, expected) in [
        ("alone", None, None),
        ("x", Some("wide"), Some("spec.parent: quota x: the tree of wide already has 64 quotas")),
        // By its name it would be before others.
        ("a", Some("w1"), Some("spec.parent: quota w9: the tree of wide already has 64 quotas")),
        ("d9", Some("d8"), Some("spec.parent: quota d9: a tree has at most 8 levels, and below d8 it would have more")),
    ] {
        let response = replica.create(&quota(name, parent)).await;
        assert_eq!(response["status"]["message"].as_str(), expected, "{response}");
        assert_eq!(response["allowed"], expected.is_none());
    }
}

/// A caller that forges a namespace does not learn what the ledger may read.
#[tokio::test]
async fn a_forged_namespace_leads_to_no_other_object() {
    let (server, replica) = with_replica(9).await;
    server.put(pod("shop", "web"));
    for namespace in ["shop/pods/web", "shop/pods/nope", "shop?watch=1", "../secrets/x"] {
        let response = replica.create(&pod(namespace, "a")).await;
        assert_eq!(response["status"]["message"], format!("namespace {namespace} does not exist"), "{response}");
    }
}

/// Quotas of other tenants are in the same ledger.
#[tokio::test(start_paused = true)]
async fn a_kind_that_cannot_be_found_delays_only_the_first_plan_and_no_other_quota() {
    let server = bounded(&json!({"pods": "3"}));
    server.on_request(|request| match request.path.as_str() {
        "/apis/down.example.com" => status(503, "service unavailable").into(),
        _ => Outcome::Serve,
    });
    server.put(quota("away", &["shop"], &json!({"count/things.down.example.com": "9"})));
    let replica = Running::start(&server);
    until(|| ledger(&server), |ledger| ledger["used"].as_array().is_some_and(|used| used.len() == 2)).await;
    let reason = async |name: &str, reason: &str| {
        until(|| quota_status(&server, name), |status| status["conditions"][0]["reason"] == reason).await;
    };
    reason("away", "NotCounted").await;
    reason("team", "InForce").await;
    for name in ["a", "b", "c"] {
        assert_eq!(replica.create(&pod("shop", name)).await["allowed"], true, "{name}");
        assert!(store_pod(&server, pod("shop", name), 3));
    }
    until(|| ledger(&server), |ledger| ledger["used"][1] == "pods=3" && ledger.get("claims").is_none()).await;
    // It is not waited for again.
    let began = Instant::now();
    server.put(namespace("web"));
    server.put(quota("new", &["web"], &json!({"pods": "9"})));
    reason("new", "InForce").await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

/// The API server waits 10 s for a webhook, and a client that it then tells of an internal error does not retry.
#[tokio::test(start_paused = true)]
async fn clients_are_asked_to_retry_while_the_api_server_answers_nothing() {
    let (server, replica) = with_replica(HARD).await;
    server.on_request(|request| if request.method == "GET" { Outcome::Hang } else { Outcome::HoldAnswer });
    let began = Instant::now();
    let response = replica.create(&pod("shop", "web")).await;
    assert_eq!(response["status"]["code"], 429, "{response}");
    assert!(began.elapsed() < Duration::from_millis(9500), "{:?}", began.elapsed());
    // The room that it had reserved by then, of which it has not heard, is given back.
    assert!(ledger(&server).get("claims").is_some());
    server.on_request(|_| Outcome::Serve);
    until_counted(&server, "pods=0").await;
}
