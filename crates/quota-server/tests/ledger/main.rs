//! The ledger's replicas at an in-memory API server that is slow, forgets watches, refuses writes and loses responses,
//! all by a seed. The bound is checked at every write. `HEADROOM_LEDGER_SEEDS=1000` tries more seeds.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop")]

mod cluster;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cluster::*;
use headroom_core::amount::Quantity;
use headroom_core::json::Document;
use headroom_fixtures::api_server::{ApiServer, Outcome, Request, status};
use headroom_fixtures::process::peak_kib;
use headroom_fixtures::unread_metrics;
use headroom_kube::api_client::ApiClient;
use headroom_kube::watch::Seen;
use headroom_quota_server::ledger_cache::LedgerCache;
use headroom_quota_server::metrics::Share;
use headroom_quota_server::objects::{self, Kept};
use headroom_quota_server::{Options, Replica, review, tls};
use headroom_tenant_quota::tree::{MAX_LEVELS, MAX_QUOTAS};
use headroom_tenant_quota::{Plan, State, plan, state};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_util::sync::CancellationToken;

const HARD: usize = 6;
/// So many that some may be held as spares.
const MANY: usize = 100;
/// Longer than any [`request`] takes after its review, on a busy machine.
const REQUEST_LIFETIME: Duration = Duration::from_secs(6);

fn replica(server: &Arc<ApiServer>, made: &tls::Made) -> Arc<Replica> {
    let options = Options { request_lifetime: REQUEST_LIFETIME, ..Options::new("headroom") };
    let replica = Replica::new(options, cluster::client(server), CancellationToken::new());
    replica.certificate.set(made.certificate.as_bytes(), made.key.as_bytes()).unwrap();
    drop(replica.start());
    replica
}

/// Like killing the process: all its work stops at once.
fn kill(replica: &Replica) {
    replica.stop.cancel();
    replica.drained.cancel();
}

/// The outcomes of creates.
#[derive(Debug, Default)]
struct Tally {
    stored: AtomicUsize,
    refused: AtomicUsize,
    others: AtomicUsize,
}

/// A create as in an API server: reviewed, perhaps refused by another webhook or abandoned, and stored.
async fn request(
    server: &ApiServer,
    replica: &Arc<Replica>,
    (namespace, name): (&str, &str),
    hard: usize,
    tally: &Tally,
) -> bool {
    let uid = format!("uid-{}", server.chance.u64());
    let object = pod(namespace, name, &uid);
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": format!("review-{uid}"), "operation": "CREATE", "namespace": namespace, "name": name,
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "kind": {"kind": "Pod"},
        "userInfo": {"username": "ann"}, "object": object,
    }});
    let body = review.to_string().into_bytes();
    let patience = if server.chance.one_in(20) { server.chance.millis(30) } else { Duration::from_secs(10) };
    let Ok(answer) = tokio::time::timeout(patience, review::answer(replica, &body)).await else {
        tally.others.fetch_add(1, Ordering::Relaxed);
        return false;
    };
    let response = &answer.unwrap()["response"];
    if response["allowed"] != true {
        let text = response["status"]["message"].as_str().unwrap();
        let is_refused = text.contains("exceeded quota: team") && response["status"]["code"] == 403;
        assert!(is_refused || response["status"]["code"] == 429, "{response}");
        (if is_refused { &tally.refused } else { &tally.others }).fetch_add(1, Ordering::Relaxed);
        return false;
    }
    tokio::time::sleep(server.chance.millis(40)).await;
    if server.chance.one_in(8) || !store_pod(server, object, hard) {
        tally.others.fetch_add(1, Ordering::Relaxed);
        return false;
    }
    tally.stored.fetch_add(1, Ordering::Relaxed);
    true
}

/// Returns the number of stored pods. With many, a replica writes spares, until few are left.
async fn run(seed: u64, hard: usize, made: Arc<tls::Made>) -> usize {
    let server = ApiServer::troubled(seed);
    server.put(cluster::namespace("shop"));
    server.put(cluster::namespace("web"));
    let mut team = quota("team", &[], &json!({"pods": hard.to_string()}));
    team["spec"]["namespaces"] = json!({"selector": {"matchLabels": {"team": "a"}}});
    server.put(team);
    // A second tree in the same ledger, which charges one of the namespaces too.
    server.put(quota("zoo", &["web"], &json!({"pods": "1000"})));
    let replicas = [replica(&server, &made), replica(&server, &made)];
    let replicas = Arc::new(std::sync::Mutex::new(replicas));
    let tally = Arc::new(Tally::default());
    let writers = (0..8).map(|writer| {
        let (server, replicas, tally) = (Arc::clone(&server), Arc::clone(&replicas), Arc::clone(&tally));
        tokio::spawn(async move {
            let namespace = ["shop", "web"][writer % 2];
            let (rounds, names) = if hard == HARD { (12, 5) } else { (40, 20) };
            for round in 0..rounds {
                let which = server.chance.below(2);
                let replica = Arc::clone(&replicas.lock().unwrap()[which]);
                // Some names conflict, and some are created again.
                let name = format!("pod-{}-{}", writer / 2, round % names);
                let is_stored = request(&server, &replica, (namespace, &name), hard, &tally).await;
                if !is_stored || server.chance.one_in(if hard == HARD { 2 } else { 8 }) {
                    delete_pod(&server, namespace, &format!("pod-{}-{}", writer / 2, server.chance.below(names)));
                }
                tokio::time::sleep(server.chance.millis(20)).await;
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    for _ in 0..3 {
        tokio::time::sleep(server.chance.millis(900)).await;
        let which = server.chance.below(2);
        let fresh = replica(&server, &made);
        let killed = std::mem::replace(&mut replicas.lock().unwrap()[which], fresh);
        kill(&killed);
    }
    for writer in writers {
        writer.await.unwrap();
    }
    // Without further requests, the ledger becomes equal to what is stored.
    let deadline = tokio::time::Instant::now() + REQUEST_LIFETIME + Duration::from_secs(60);
    loop {
        let (stored, ledger) = (pods(&server), ledger(&server));
        let is_counted = ledger["used"][0] == format!("pods={stored}");
        if is_counted && ledger.get("claims").is_none() {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "seed {seed}: {stored} are stored, the ledger has {ledger}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("seed {seed}: {tally:?}, {}", server.counters());
    replicas.lock().unwrap().iter().for_each(|replica| kill(replica));
    tally.stored.load(Ordering::Relaxed)
}

/// Waits until the ledger has counted this usage and has no claims.
async fn until_counted(server: &ApiServer, used: &str) {
    until(|| ledger(server), |ledger| ledger["used"][0] == used && ledger.get("claims").is_none()).await;
}

/// Waits until what is read is as expected.
async fn until(read: impl Fn() -> Value, is_expected: impl Fn(&Value) -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let found = read();
        if is_expected(&found) {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "not as expected: {found}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn put_class(server: &ApiServer) {
    server.serve("resource.k8s.io/v1", "ResourceClaim", true);
    server.put(json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {"extendedResourceName": "example.com/gpu"}}));
}

fn pod_with_gpus(namespace: &str, name: &str) -> Value {
    let mut pod = pod(namespace, name, &format!("uid-{name}"));
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"example.com/gpu": "2"}});
    pod
}

/// A claim for so many devices, perhaps as the scheduler makes it for a pod.
fn claim(namespace: &str, name: &str, count: u32, made_for: Option<&str>) -> Value {
    let mut claim = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}")},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": count}}]}}});
    if let Some(pod) = made_for {
        claim["metadata"]["annotations"] = json!({"resource.kubernetes.io/extended-resource-claim": "true"});
        claim["metadata"]["ownerReferences"] = json!([
            {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": format!("uid-{pod}"), "controller": true}]);
    }
    claim
}

/// Returns whether a write of a claim is allowed, and else why not.
async fn ask_for_claim(replica: &Arc<Replica>, object: &Value, old: Value) -> (bool, String) {
    let operation = if old.is_null() { "CREATE" } else { "UPDATE" };
    let review = json!({"request": {"uid": "r", "operation": operation, "namespace": object["metadata"]["namespace"],
        "name": object["metadata"]["name"], "kind": {"kind": "ResourceClaim"}, "userInfo": {"username": "ann"},
        "resource": {"group": "resource.k8s.io", "version": "v1", "resource": "resourceclaims"},
        "object": object, "oldObject": old}});
    let answer = review::answer(replica, review.to_string().as_bytes()).await.unwrap();
    let response = &answer["response"];
    (response["allowed"] == true, response["status"]["message"].as_str().unwrap_or_default().to_owned())
}

/// Devices count for pods and for the claims that request them, and once for a pod and the scheduler's claim for it.
#[tokio::test]
async fn resource_claims_are_charged_for_their_devices() {
    let made = tls::make(&["127.0.0.1".to_owned()], 1).unwrap();
    let server = bounded(&json!({"requests.example.com/gpu": "3"}));
    put_class(&server);
    server.put(pod_with_gpus("shop", "web"));
    let replica = replica(&server, &made);
    until_counted(&server, "requests.example.com/gpu=2").await;
    let ask = async |object: &Value, old: Value| ask_for_claim(&replica, object, old).await;
    let (is_allowed, message) = ask(&claim("shop", "own", 2, None), Value::Null).await;
    let text = "exceeded quota: team, requested: requests.example.com/gpu=2, used: requests.example.com/gpu=2";
    assert!(!is_allowed && message.contains(text), "{message}");
    // A claim for a pod that is not there is charged in full.
    assert!(!ask(&claim("shop", "forged", 2, Some("ghost")), Value::Null).await.0);
    let of_web = claim("shop", "web-gpu", 2, Some("web"));
    assert!(ask(&of_web, Value::Null).await.0);
    // Only one claim has the pod's share, and the first is not stored yet.
    let (is_allowed, message) = ask(&claim("shop", "first", 2, Some("web")), Value::Null).await;
    assert!(!is_allowed && message.contains("retry"), "{message}");
    server.put(of_web);
    until_counted(&server, "requests.example.com/gpu=2").await;
    assert!(!ask(&claim("shop", "second", 2, Some("web")), Value::Null).await.0);
    let stored = server.get("/apis/resource.k8s.io/v1/namespaces/shop/resourceclaims/web-gpu").unwrap();
    let mut given_up = stored.clone();
    given_up["metadata"].as_object_mut().unwrap().retain(|field, _| field != "annotations");
    let (is_allowed, message) = ask(&given_up, stored.clone()).await;
    assert!(!is_allowed && message.contains(text), "{message}");
    let mut labelled = stored.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(ask(&labelled, stored).await, (true, String::new()));
    delete_pod(&server, "shop", "web");
    until_counted(&server, "requests.example.com/gpu=2").await;
    kill(&replica);
}

/// The reads for a claim depend only on the number of claims in its own namespace, and do not delay other namespaces.
#[tokio::test]
async fn claims_of_a_namespace_are_read_one_after_the_other() {
    let made = tls::make(&["127.0.0.1".to_owned()], 1).unwrap();
    let server = ApiServer::new();
    for namespace in ["shop", "web"] {
        server.put(cluster::namespace(namespace));
        server.put(pod_with_gpus(namespace, namespace));
    }
    server.put(quota("team", &["shop", "web"], &json!({"requests.example.com/gpu": "9k"})));
    server.put(pod_with_gpus("web", "other"));
    put_class(&server);
    let of_shop = |number: usize| claim("shop", &format!("many-{number}"), 1, Some("shop"));
    (0..1_200).for_each(|number| server.put(of_shop(number)));
    let replica = replica(&server, &made);
    until_counted(&server, "requests.example.com/gpu=1205").await;
    // Classes, the pod and pages of 500 claims; once more if the claim may have the pod's share.
    for (namespace, reads) in [("web", 6), ("shop", 5)] {
        server.take_requests();
        assert_eq!(ask_for_claim(&replica, &claim(namespace, "one", 3, Some(namespace)), Value::Null).await.1, "");
        let read = server.take_requests();
        let is_of_claims = |read: &&Request| {
            ["deviceclasses", "resourceclaims", "pods"].iter().any(|kind| read.path.contains(kind))
                && read.parameter("watch").is_none()
        };
        assert_eq!(read.iter().filter(is_of_claims).count(), reads, "{namespace}: {read:?}");
    }
    // Nobody waits for lists of another namespace that take long, however many reviews wait for them.
    let is_slow = |request: &Request| request.path.ends_with("/namespaces/shop/resourceclaims");
    server.on_request(move |request| if is_slow(request) { Outcome::Hang } else { Outcome::Serve });
    let slow: Vec<_> = (0..20)
        .map(|number| {
            let (replica, claim) = (Arc::clone(&replica), claim("shop", &format!("slow-{number}"), 1, Some("shop")));
            tokio::spawn(async move { ask_for_claim(&replica, &claim, Value::Null).await })
        })
        .collect();
    until(|| json!(server.take_requests().iter().any(is_slow)), |is_asked| *is_asked == true).await;
    assert_eq!(ask_for_claim(&replica, &claim("web", "two", 3, Some("other")), Value::Null).await.1, "");
    assert!(slow.iter().all(|review| !review.is_finished()));
    for review in slow {
        let (is_allowed, message) = review.await.unwrap();
        assert!(!is_allowed && message.ends_with("too many claims of this namespace are waiting; retry"), "{message}");
    }
    kill(&replica);
}

/// A resize is charged by its difference; room that it releases is available once it is stored.
#[tokio::test]
async fn a_resize_is_charged_by_its_difference() {
    let made = tls::make(&["127.0.0.1".to_owned()], 1).unwrap();
    let server = bounded(&json!({"requests.cpu": "1"}));
    let sized = |cpu: &str| {
        let mut pod = pod("shop", "one", "one");
        pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
        pod
    };
    server.put(sized("100m"));
    let replica = replica(&server, &made);
    until_counted(&server, "requests.cpu=100m").await;
    let resize = async |cpu: &str| {
        let old = server.get("/api/v1/namespaces/shop/pods/one").unwrap();
        let mut object = sized(cpu);
        object["metadata"] = old["metadata"].clone();
        let review = json!({"request": {"uid": cpu, "operation": "UPDATE", "namespace": "shop", "name": "one",
            "resource": {"group": "", "version": "v1", "resource": "pods"}, "subResource": "resize",
            "kind": {"kind": "Pod"}, "userInfo": {"username": "ann"}, "object": object, "oldObject": old}});
        let answer = review::answer(&replica, review.to_string().as_bytes()).await.unwrap();
        answer["response"].clone()
    };
    let stored = async |cpu: &str| {
        assert_eq!(resize(cpu).await["allowed"], true);
        server.put(sized(cpu));
        until_counted(&server, &format!("requests.cpu={cpu}")).await;
    };
    stored("800m").await;
    let refused = resize("1200m").await;
    let text = "exceeded quota: team, requested: requests.cpu=400m, used: requests.cpu=800m, limited: requests.cpu=1";
    assert!(refused["status"]["message"].as_str().unwrap().contains(text), "{refused}");
    stored("200m").await;
    stored("900m").await;
    kill(&replica);
}

/// The response to a review of a pod's creation.
async fn create(replica: &Arc<Replica>, object: &Value) -> Value {
    let review = json!({"request": {"uid": "review", "operation": "CREATE", "namespace": object["metadata"]["namespace"],
        "name": object["metadata"]["name"], "resource": {"group": "", "version": "v1", "resource": "pods"},
        "kind": {"kind": "Pod"}, "userInfo": {"username": "ann"}, "object": object}});
    let answer = review::answer(replica, review.to_string().as_bytes()).await.unwrap();
    answer["response"].clone()
}

/// An API server that knows its address from before calls a replica that has just started: it waits until it can answer,
/// and rejects nothing for which there is room.
#[tokio::test]
async fn a_replica_that_starts_answers_as_soon_as_it_can() {
    let made = tls::make(&["127.0.0.1".to_owned()], 1).unwrap();
    let server = bounded(&json!({"pods": "2"}));
    // The quota has no plan yet either.
    let first = replica(&server, &made);
    assert!(!first.is_ready());
    assert_eq!(create(&first, &pod("shop", "a", "a")).await["allowed"], true);
    let second = replica(&server, &made);
    assert!(!second.is_ready());
    assert_eq!(create(&second, &pod("shop", "b", "b")).await["allowed"], true);
    let third = replica(&server, &made);
    assert!(!third.is_ready());
    assert_eq!(create(&third, &pod("shop", "c", "c")).await["status"]["code"], 403);
    [first, second, third].iter().for_each(|replica| kill(replica));
}

/// A conflict costs the API server nearly as much as a write, and every request of the batch another one.
#[tokio::test]
async fn replicas_that_write_at_the_same_time_take_turns() {
    let made = tls::make(&["127.0.0.1".to_owned()], 1).unwrap();
    let server = bounded(&json!({"pods": "1000"}));
    let replicas = [replica(&server, &made), replica(&server, &made)];
    assert_eq!(create(&replicas[0], &pod("shop", "first", "first")).await["allowed"], true);
    let writers = (0..8).map(|writer| {
        let (server, replicas, chance) = (&server, &replicas, &server.chance);
        async move {
            for round in 0..40 {
                let name = format!("pod-{writer}-{round}");
                let mut object = pod("shop", &name, &name);
                // None is like another, so each needs a write.
                object["spec"]["containers"][0]["resources"] =
                    json!({"requests": {"cpu": format!("{}m", 40 * writer + round + 1)}});
                let answer = create(&replicas[chance.below(2)], &object).await;
                assert_eq!(answer["allowed"], true, "{answer}");
                assert!(store_pod(server, object, 1000));
                tokio::time::sleep(chance.millis(4)).await;
            }
        }
    });
    futures::future::join_all(writers).await;
    let count = |count: fn(&Replica) -> u64| replicas.iter().map(|replica| count(replica)).sum::<u64>();
    let (writes, conflicts) = (count(|it| it.metrics.writes.get()), count(|it| it.metrics.conflicts.get()));
    // It was every other one.
    assert!(conflicts * 3 < writes, "{conflicts} conflicts beside {writes} writes");
    replicas.iter().for_each(|replica| kill(replica));
}

/// Equal creates share writes also if they come one after the other, and the ledger ends with nothing but what is stored.
#[tokio::test]
async fn of_many_equal_creates_few_wait_for_a_write() {
    let made = tls::make(&["127.0.0.1".to_owned()], 1).unwrap();
    let server = bounded(&json!({"pods": "1000"}));
    let replica = replica(&server, &made);
    for at in 0..200 {
        let object = pod("shop", &format!("pod-{at}"), &format!("uid-{at}"));
        assert_eq!(create(&replica, &object).await["allowed"], true);
        // Some are refused by another webhook.
        assert!(at % 4 == 0 || store_pod(&server, object, 1000));
    }
    let writes = replica.metrics.writes.get();
    assert!(writes < 100, "{writes}");
    // The claims of those that were not stored are released, and no spare is left.
    until_counted(&server, "pods=150").await;
    kill(&replica);
}

/// A bound that is lowered holds from the moment at which the replica knows of it.
#[tokio::test]
async fn no_spare_is_taken_after_the_plan_has_changed() {
    let made = tls::make(&["127.0.0.1".to_owned()], 1).unwrap();
    let server = bounded(&json!({"pods": "1000"}));
    let replica = replica(&server, &made);
    let ask = async |at: usize| create(&replica, &pod("shop", &format!("pod-{at}"), &format!("uid-{at}"))).await;
    for at in 0..20 {
        assert_eq!(ask(at).await["allowed"], true);
        assert!(store_pod(&server, pod("shop", &format!("pod-{at}"), &format!("uid-{at}")), 1000));
    }
    server.edit(
        "/apis/headroom.dev/v1alpha1/tenantquotas/team",
        &json!({"metadata": {"generation": 2}, "spec": {"quota": {"hard": {"pods": "3"}}}}),
    );
    let hard = || replica.ledgers.view("trees.1").and_then(|view| view.plan.nodes[0].hard.get("pods").cloned());
    until(|| json!(hard().map(|hard| hard.to_string())), |hard| *hard == json!("3")).await;
    assert_eq!(ask(20).await["allowed"], false);
    kill(&replica);
}

/// Requests by which one tenant could make the ledger unreadable are refused; the claims of others stay.
#[tokio::test]
async fn no_request_makes_a_ledger_unreadable() {
    let made = tls::make(&["127.0.0.1".to_owned()], 1).unwrap();
    let server = bounded(&json!({"pods": HARD.to_string()}));
    let replica = replica(&server, &made);
    until_counted(&server, "pods=0").await;
    assert_eq!(create(&replica, &pod("shop", "first", "first")).await["allowed"], true);
    let mut hostile = pod("shop", "hostile", "hostile");
    let container = json!({"name": "a", "resources": {"requests": {"ephemeral-storage": "9".repeat(29)}}});
    hostile["spec"]["containers"] = json!([container, container]);
    let response = create(&replica, &hostile).await;
    assert_eq!(response["status"]["code"], 422, "{response}");
    let text = "pods \"hostile\" is invalid: ephemeral-storage is 1e20 or more, which quotas cannot count: set a smaller amount";
    assert_eq!(response["status"]["message"], text);
    // It may have been stored while the webhook was away.
    server.put(hostile);
    until(|| ledger(&server), |ledger| ledger["used"][0] == "pods=1").await;
    assert!(ledger(&server)["claims"][0].as_str().unwrap().starts_with("pods/shop/first "), "{}", ledger(&server));
    assert!(replica.ledgers.broken().is_empty());
    kill(&replica);
}

/// One object of more than 1 MB, which API servers accept, neither stops the ledger nor what is reserved in it.
#[tokio::test]
async fn no_request_makes_a_ledger_too_large_to_be_written() {
    let made = tls::make(&["127.0.0.1".to_owned()], 1).unwrap();
    let server = bounded(&json!({"pods": HARD.to_string()}));
    let replica = replica(&server, &made);
    until_counted(&server, "pods=0").await;
    // The replica may not know yet that its ledger is stored, and reading the hostile pod keeps this thread busy.
    until(|| json!(replica.ledgers.covering("shop").len()), |ledgers| *ledgers == 1).await;
    let names: serde_json::Map<String, Value> = (0..40_000).map(|at| (format!("a.b/r{at:05}"), json!("1"))).collect();
    let mut hostile = pod("shop", "hostile", "hostile");
    hostile["spec"]["containers"][0]["resources"] = json!({"limits": names, "requests": names});
    let (first, refused) = (pod("shop", "first", "first"), hostile.clone());
    let (first, refused) = tokio::join!(create(&replica, &first), create(&replica, &refused));
    assert_eq!(first["allowed"], true, "{first}");
    let text = "pods \"hostile\" is invalid: its name (7 bytes) and 40002 counted resources need more than 2048 bytes in the \
        ledger: use a shorter name or fewer resources";
    assert_eq!((&refused["status"]["code"], &refused["status"]["message"]), (&json!(422), &json!(text)));
    // It may have been stored while the webhook was away. What is reserved beside it must not take its size.
    server.put(hostile);
    let again = create(&replica, &pod("shop", "hostile", "again")).await;
    assert_eq!(again["allowed"], true, "{again}");
    until(|| ledger(&server), |ledger| ledger["used"][0] == "pods=1").await;
    let second = create(&replica, &pod("shop", "second", "second")).await;
    assert_eq!(second["allowed"], true, "{second}");
    assert!(ledger(&server).to_string().len() < 4096);
    kill(&replica);
}

/// Whoever may write TenantQuotas cannot make a tree that no plan holds, or one of others too large for theirs.
#[tokio::test]
async fn a_quota_that_makes_its_tree_too_large_is_refused() {
    let made = tls::make(&["127.0.0.1".to_owned()], 1).unwrap();
    let server = ApiServer::new();
    let quota = |name: &str, parent: Option<&str>| {
        json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "TenantQuota", "metadata": {"name": name},
            "spec": {"parent": parent, "quota": {"hard": {"pods": "1"}}}})
    };
    server.put(quota("wide", None));
    (1..MAX_QUOTAS).for_each(|at| server.put(quota(&format!("w{at}"), Some("wide"))));
    server.put(quota("d1", None));
    for level in 2..=MAX_LEVELS {
        server.put(quota(&format!("d{level}"), Some(&format!("d{}", level - 1))));
    }
    let replica = replica(&server, &made);
    let known = || json!(replica.tenants.quotas().len());
    until(known, |known| *known == json!(MAX_QUOTAS + MAX_LEVELS)).await;
    let check = async |name: &str, parent: Option<&str>, expected: Option<&str>| {
        let resource = json!({"group": "headroom.dev", "version": "v1alpha1", "resource": "tenantquotas"});
        let review = json!({"request": {"uid": "review", "operation": "CREATE", "name": name, "resource": resource,
            "kind": {"kind": "TenantQuota"}, "userInfo": {"username": "ann"}, "object": quota(name, parent)}});
        let answer = review::answer(&replica, review.to_string().as_bytes()).await.unwrap();
        assert_eq!(answer["response"]["status"]["message"].as_str(), expected, "{answer}");
        assert_eq!(answer["response"]["allowed"], expected.is_none());
    };
    check("alone", None, None).await;
    check("x", Some("wide"), Some("spec.parent: quota x: the tree of wide already has 64 quotas")).await;
    // By its name it would be before others.
    check("a", Some("w1"), Some("spec.parent: quota w9: the tree of wide already has 64 quotas")).await;
    let deep = "spec.parent: quota d9: a tree has at most 8 levels, and below d8 it would have more";
    check("d9", Some("d8"), Some(deep)).await;
    kill(&replica);
}

/// The policy reads them, so that it does not refuse what the ledger never charges.
#[tokio::test]
async fn the_status_lists_the_namespaces_that_are_never_charged() {
    let made = tls::make(&["127.0.0.1".to_owned()], 1).unwrap();
    let server = bounded(&json!({"pods": HARD.to_string()}));
    let replica = replica(&server, &made);
    let status = || server.get("/apis/headroom.dev/v1alpha1/tenantquotas/team").unwrap()["status"].clone();
    let exempt = json!(["headroom", "kube-node-lease", "kube-public", "kube-system"]);
    until(status, |status| status["exemptNamespaces"] == exempt).await;
    kill(&replica);
}

/// A tenant may make his pods as large as etcd takes them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_objects_are_listed_in_small_pages() {
    let made = tls::make(&["127.0.0.1".to_owned()], 1).unwrap();
    let server = bounded(&json!({"pods": "100"}));
    for number in 0..70 {
        let mut large = pod("shop", &format!("p{number}"), &format!("uid-{number}"));
        large["metadata"]["annotations"] = json!({"x": "x".repeat(128 << 10)});
        server.put(large);
    }
    let replica = replica(&server, &made);
    until_counted(&server, "pods=70").await;
    kill(&replica);
    let requests = server.requests().into_iter().filter(|request| request.path == "/api/v1/pods");
    let limits: Vec<String> = requests.filter_map(|request| Some(request.parameter("limit")?.to_owned())).collect();
    // The first page was larger than a page may be.
    assert_eq!(limits, ["100", "25", "25", "25"]);
}

/// Without a claim, which would make the ledger due anyway.
#[tokio::test]
async fn a_ledger_stays_due_until_it_was_written() {
    let made = tls::make(&["127.0.0.1".to_owned()], 1).unwrap();
    let server = bounded(&json!({"pods": HARD.to_string()}));
    for name in ["one", "two"] {
        assert!(store_pod(&server, pod("shop", name, name), HARD));
    }
    let replica = replica(&server, &made);
    until_counted(&server, "pods=2").await;
    let failing = fail_ledger_writes(&server, 2);
    delete_pod(&server, "shop", "one");
    until_counted(&server, "pods=1").await;
    assert_eq!(failing.load(Ordering::Relaxed), 0);
    // A write by another client is not a count.
    server.edit(LEDGER, &json!({"used": ["pods=5"]}));
    until_counted(&server, "pods=1").await;
    kill(&replica);
}

/// A TLS client of a replica.
struct Caller(TlsConnector);

/// A client that trusts the authority of one certificate, and presents another if requested.
fn client(trusted: &tls::Made, shown: Option<&tls::Made>) -> Caller {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.authority.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match shown {
        Some(shown) => {
            let chain = vec![CertificateDer::from_pem_slice(shown.certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(shown.key.as_bytes()).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
        None => config.with_no_client_auth(),
    };
    Caller(TlsConnector::from(Arc::new(config)))
}

impl Caller {
    async fn connect(&self, address: SocketAddr) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(address).await?;
        self.0.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await
    }
}

/// With `--client-ca`, a caller without a certificate of that authority gets no answer.
#[tokio::test]
async fn only_callers_with_a_certificate_of_the_authority_are_answered() {
    let made = tls::make(&["127.0.0.1".to_owned()], 1).unwrap();
    let other = tls::make(&["127.0.0.1".to_owned()], 1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("ca.crt");
    std::fs::write(&authority, &made.authority).unwrap();
    let certificate = Arc::new(tls::Certificate::default());
    certificate.set(made.certificate.as_bytes(), made.key.as_bytes()).unwrap();
    let acceptor = tls::acceptor(certificate, Some(&authority)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(mut stream) = acceptor.accept(stream).await {
                drop(stream.write_all(b"answered").await);
                drop(stream.shutdown().await);
            }
        }
    });
    let call = async |shown: Option<&tls::Made>| {
        // A rejected caller may only notice when it reads.
        let Ok(mut stream) = client(&made, shown).connect(address).await else { return false };
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.is_ok() && answer == b"answered"
    };
    assert!(call(Some(&made)).await);
    assert!(!call(None).await);
    assert!(!call(Some(&other)).await);
    let nothing = folder.path().join("empty.crt");
    std::fs::write(&nothing, "").unwrap();
    assert!(tls::acceptor(Arc::default(), Some(&nothing)).is_err());
}

/// A caller that forges a namespace does not learn what the ledger may read.
#[tokio::test]
async fn a_forged_namespace_leads_to_no_other_object() {
    let made = tls::make(&["127.0.0.1".to_owned()], 1).unwrap();
    let server = bounded(&json!({"pods": "9"}));
    server.put(pod("shop", "web", "uid-web"));
    let replica = replica(&server, &made);
    until_counted(&server, "pods=1").await;
    for namespace in ["shop/pods/web", "shop/pods/nope", "shop?watch=1", "../secrets/x"] {
        let review = json!({"request": {"uid": "r", "operation": "CREATE", "namespace": namespace, "name": "a",
            "resource": {"group": "", "version": "v1", "resource": "pods"}, "kind": {"kind": "Pod"},
            "userInfo": {"username": "ann"}, "object": pod(namespace, "a", "uid-a")}});
        let answer = review::answer(&replica, review.to_string().as_bytes()).await.unwrap();
        let message = answer["response"]["status"]["message"].as_str().unwrap_or_default();
        assert_eq!(message, format!("namespace {namespace} does not exist"), "{answer}");
    }
    kill(&replica);
}

/// The memory limit of a replica in the chart.
const MEMORY_LIMIT_KIB: u64 = 256 << 10;

/// Clients that send as much as is allowed and never finish, hold connections, or vanish: memory stays within the limit,
/// and an API server is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_many_and_vanishing_clients_are_bounded() {
    let made = Arc::new(tls::make(&["127.0.0.1".to_owned()], 1).unwrap());
    let server = bounded(&json!({"pods": "100"}));
    let replica = Replica::new(Options::new("headroom"), cluster::client(&server), CancellationToken::new());
    replica.certificate.set(made.certificate.as_bytes(), made.key.as_bytes()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(Arc::clone(&replica).serve(listener, None));
    until_counted(&server, "pods=0").await;
    let peak = || peak_kib(std::process::id()).unwrap();
    let before = peak();
    const BODY: usize = 8 << 20;
    let head = format!("POST /review HTTP/1.1\r\nhost: ledger\r\ncontent-length: {BODY}\r\n\r\n");
    let part: Arc<[u8]> = vec![b'x'; BODY / 64].into();
    let hostile = |vanishes: bool| {
        let (made, head, part) = (Arc::clone(&made), head.clone(), Arc::clone(&part));
        tokio::spawn(async move {
            let Ok(mut stream) = client(&made, None).connect(address).await else { return };
            drop(stream.write_all(head.as_bytes()).await);
            for _ in 0..63 {
                if stream.write_all(&part).await.is_err() || vanishes && fastrand::u8(..) < 8 {
                    return;
                }
            }
            // The last part never comes.
            drop(stream.read(&mut [0; 64]).await);
        })
    };
    let clients: Vec<_> = (0..120).map(|at| hostile(at % 3 == 0)).collect();
    // Until they have sent as much as is taken of them.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let review = json!({"request": {"uid": "review", "operation": "CREATE", "namespace": "shop", "name": "pod",
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "kind": {"kind": "Pod"},
        "userInfo": {"username": "ann"}, "object": pod("shop", "pod", "uid")}})
    .to_string();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        assert!(tokio::time::Instant::now() < deadline, "no answer");
        let Ok(mut stream) = client(&made, None).connect(address).await else { continue };
        let head = format!("POST /review HTTP/1.1\r\nhost: ledger\r\ncontent-length: {}\r\n\r\n", review.len());
        stream.write_all(&[head.as_bytes(), review.as_bytes()].concat()).await.unwrap();
        let mut answer = vec![0; 4096];
        let read = stream.read(&mut answer).await.unwrap_or_default();
        if String::from_utf8_lossy(&answer[..read]).contains("\"allowed\":true") {
            break;
        }
    }
    let after = peak();
    println!("peak memory: {} MiB before, {} MiB after", before >> 10, after >> 10);
    assert!(after < MEMORY_LIMIT_KIB, "{} MiB", after >> 10);
    for client in clients {
        client.abort();
    }
    kill(&replica);
}

/// Clients from which nobody reads the metrics of many quotas: memory stays within the limit, and probes are answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_do_not_read_the_metrics_are_bounded() {
    let made = tls::make(&["127.0.0.1".to_owned()], 1).unwrap();
    let replica = Replica::new(
        Options::new("headroom"),
        cluster::client(&bounded(&json!({"pods": "1"}))),
        CancellationToken::new(),
    );
    replica.certificate.set(made.certificate.as_bytes(), made.key.as_bytes()).unwrap();
    let share = |number: usize| {
        let quota = format!("{}-{number}", "q".repeat(200));
        (Share { quota, resource: "requests.cpu".to_owned(), r#type: "used" }, Quantity::from_units(1))
    };
    let (reviews, status) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = status.local_addr().unwrap();
    tokio::spawn(Arc::clone(&replica).serve(reviews, Some(status)));
    // The replica sets those of the quotas that there are.
    unread_metrics::check(address, MEMORY_LIMIT_KIB, || replica.metrics.set_quotas((0..30_000).map(share).collect()));
    kill(&replica);
}

#[tokio::test]
async fn a_plan_that_failed_is_tried_again_within_seconds() {
    let made = tls::make(&["127.0.0.1".to_owned()], 1).unwrap();
    let server = bounded(&json!({"pods": "3"}));
    let failing = fail_ledger_writes(&server, 4);
    let began = tokio::time::Instant::now();
    let replica = replica(&server, &made);
    until(|| ledger(&server), |ledger| !ledger.is_null()).await;
    assert_eq!(failing.load(Ordering::Relaxed), 0);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    kill(&replica);
}

/// Quotas of other tenants are in the same ledger.
#[tokio::test(start_paused = true)]
async fn a_kind_that_cannot_be_found_delays_only_the_first_plan_and_no_other_quota() {
    let made = tls::make(&["127.0.0.1".to_owned()], 1).unwrap();
    let server = bounded(&json!({"pods": "3"}));
    server.on_request(|request| match request.path.as_str() {
        "/apis/down.example.com" => status(503, "service unavailable").into(),
        _ => Outcome::Serve,
    });
    server.put(quota("away", &["shop"], &json!({"count/things.down.example.com": "9"})));
    let replica = replica(&server, &made);
    until(|| ledger(&server), |ledger| ledger["used"].as_array().is_some_and(|used| used.len() == 2)).await;
    let ready = |name: &str| {
        server.get(&format!("/apis/headroom.dev/v1alpha1/tenantquotas/{name}")).unwrap()["status"]["conditions"][0]
            .clone()
    };
    until(|| ready("away"), |ready| ready["reason"] == "NotCounted").await;
    until(|| ready("team"), |ready| ready["reason"] == "InForce").await;
    for name in ["a", "b", "c"] {
        let object = pod("shop", name, name);
        assert_eq!(create(&replica, &object).await["allowed"], true, "{name}");
        assert!(store_pod(&server, object, 3));
    }
    until(|| ledger(&server), |ledger| ledger["used"][1] == "pods=3" && ledger.get("claims").is_none()).await;
    // It is not waited for again.
    let began = tokio::time::Instant::now();
    server.put(cluster::namespace("web"));
    server.put(quota("new", &["web"], &json!({"pods": "9"})));
    until(|| ready("new"), |ready| ready["reason"] == "InForce").await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    kill(&replica);
}

/// Trees move only between ledgers that both charge them, for longer than the request lasts that only the first one knows.
#[tokio::test(start_paused = true)]
async fn a_tree_that_moves_is_charged_in_both_ledgers_for_a_while() {
    let made = tls::make(&["127.0.0.1".to_owned()], 1).unwrap();
    for seed in 0..8 {
        let server = ApiServer::troubled(seed);
        server.put(cluster::namespace("shop"));
        for (name, hard) in [("team", HARD), ("zoo", 1_000)] {
            server.put(quota(name, &["shop"], &json!({"pods": hard.to_string()})));
        }
        // A ledger with a name of its own, as they had before they were shared.
        let lines = plan::Lines { nodes: vec![format!("team 1 - pods={HARD}")], namespaces: vec!["shop 0".to_owned()] };
        let old_plan = objects::write_plan("headroom", "team", &Plan::read(1, &lines).unwrap());
        server.put(old_plan);
        let lines = state::Lines { plan: 1, used: vec!["pods=0".to_owned()], ..state::Lines::default() };
        let state = objects::write_state("headroom", "team", &State::read(&lines).unwrap(), None);
        server.put(state);
        let old = || server.get(&format!("{LEDGERS}/team"));
        let replicas = [replica(&server, &made), replica(&server, &made)];
        let (tally, began, chance) = (Tally::default(), tokio::time::Instant::now(), &server.chance);
        let (charged_in_both, left) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
        let writers = (0..6).map(|writer| {
            let (server, replicas, tally, charged_in_both, left, old) =
                (&server, &replicas, &tally, &charged_in_both, &left, &old);
            async move {
                for round in 0.. {
                    let name = format!("pod-{writer}-{}", round % 3);
                    request(server, &replicas[chance.below(2)], ("shop", &name), HARD, tally).await;
                    delete_pod(server, "shop", &format!("pod-{writer}-{}", chance.below(3)));
                    let seconds = began.elapsed().as_secs() as usize;
                    if old().is_none() {
                        left.fetch_min(seconds, Ordering::Relaxed);
                    } else if !ledger(server).is_null() {
                        charged_in_both.fetch_add(1, Ordering::Relaxed);
                    }
                    if seconds > 60 {
                        return;
                    }
                    tokio::time::sleep(chance.millis(200)).await;
                }
            }
        });
        futures::future::join_all(writers).await;
        let lines = ledger(&server);
        assert_eq!(lines["used"].as_array().unwrap().len(), 2, "{lines}");
        let (left, both) = (left.into_inner(), charged_in_both.into_inner());
        assert!((16..50).contains(&left) && both > 20, "seed {seed}: it was left after {left} s, {both} times in both");
        assert!(tally.stored.into_inner() > 30 && tally.refused.into_inner() > 30);
        replicas.iter().for_each(|replica| kill(replica));
    }
}

/// A replica's own writes come back by its watch, and are half of what that brings.
#[tokio::test]
async fn a_known_state_is_not_read_again() {
    let cache = LedgerCache::new(ApiClient::new(cluster::client(&ApiServer::new())), "headroom");
    let lines = plan::Lines { nodes: vec!["acme 4 - pods=10".to_owned()], namespaces: vec!["shop 0".to_owned()] };
    cache.add_plan("acme", Arc::new(Plan::read(1, &lines).unwrap()));
    cache.add_state("acme", 7, State { plan: 1, ..State::default() }).unwrap();
    let seen = |revision: u64| {
        let object = objects::write_state("headroom", "acme", &State { plan: 1, ..State::default() }, Some(revision));
        cache.read(Document::read(&object.to_string()).unwrap().root()).unwrap()
    };
    assert!(matches!(seen(7).1, Ok(Kept::Known)) && matches!(seen(6).1, Ok(Kept::Known)));
    assert!(matches!(seen(8).1, Ok(Kept::State { revision: 8, .. })));
    cache.take(Seen::Listed(9, vec![seen(7)]));
    cache.take(Seen::Stored(seen(7)));
    assert_eq!(cache.view("acme").unwrap().revision, 7);
    cache.take(Seen::Deleted(seen(7)));
    assert!(cache.view("acme").is_none());
}

/// An API server that gives up closes its connection, which ends the handling. Its reservation is released long before
/// the longest lifetime of a request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn room_of_an_abandoned_request_is_released_at_once() {
    let made = tls::make(&["127.0.0.1".to_owned()], 1).unwrap();
    let server = ApiServer::troubled(7);
    server.put(cluster::namespace("shop"));
    server.put(quota("team", &["shop"], &json!({"pods": "100"})));
    let options = Options { request_lifetime: Duration::from_secs(3600), ..Options::new("headroom") };
    let replica = Replica::new(options, cluster::client(&server), CancellationToken::new());
    replica.certificate.set(made.certificate.as_bytes(), made.key.as_bytes()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(Arc::clone(&replica).serve(listener, None));
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while !replica.is_ready() || replica.ledgers.covering("shop").is_empty() {
        assert!(tokio::time::Instant::now() < deadline, "the quota is not in force");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut given_up = 0;
    for round in 0..60_u64 {
        let mut object = pod("shop", &format!("pod-{round}"), &format!("uid-{round}"));
        // None is like another, so each needs a write.
        object["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": format!("{}m", round + 1)}});
        let review = json!({"request": {"uid": "review", "operation": "CREATE", "namespace": "shop", "name": "pod",
            "resource": {"group": "", "version": "v1", "resource": "pods"}, "kind": {"kind": "Pod"},
            "userInfo": {"username": "ann"}, "object": object}})
        .to_string();
        let mut stream = client(&made, None).connect(address).await.unwrap();
        let head = format!("POST /review HTTP/1.1\r\nhost: ledger\r\ncontent-length: {}\r\n\r\n", review.len());
        stream.write_all(&[head.as_bytes(), review.as_bytes()].concat()).await.unwrap();
        let mut answer = vec![0; 4096];
        match tokio::time::timeout(Duration::from_millis(round % 20), stream.read(&mut answer)).await {
            Err(_) => given_up += 1,
            // The request may still be stored, so its claim stays; the pod is deleted to make room for the next ones.
            Ok(length) => {
                let text = String::from_utf8_lossy(&answer[..length.unwrap()]).into_owned();
                assert!(text.contains("\"allowed\":true"), "{text}");
                assert!(store_pod(&server, object, HARD));
                delete_pod(&server, "shop", &format!("pod-{round}"));
            }
        }
    }
    assert!(given_up > 20, "only {given_up} were abandoned");
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    // Some may have been answered just before; it is unknown whether the answer was read, so their claims stay.
    while ledger(&server)["claims"].as_array().map_or(0, Vec::len) > given_up / 4 {
        assert!(tokio::time::Instant::now() < deadline, "{given_up} were abandoned: {}", ledger(&server));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    kill(&replica);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_schedule_exceeds_a_bound_or_leaves_a_claim() {
    let seeds: u64 = std::env::var("HEADROOM_LEDGER_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    let made = Arc::new(tls::make(&["127.0.0.1".to_owned()], 1).unwrap());
    let (mut runs, mut stored) = (tokio::task::JoinSet::new(), 0);
    for seed in 0..seeds {
        if runs.len() == 6 {
            stored += runs.join_next().await.unwrap().unwrap();
        }
        let hard = if seed % 3 == 0 { MANY } else { HARD };
        runs.spawn(run(seed, hard, Arc::clone(&made)));
    }
    // With some schedules nothing is stored, because the replicas are killed again and again.
    assert!(stored + runs.join_all().await.iter().sum::<usize>() > 0);
}
