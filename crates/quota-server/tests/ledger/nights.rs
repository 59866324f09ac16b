//! Parts that end or hang, watches that hear nothing, and leaders that follow each other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use headroom_fixtures::api_server::{ApiServer, Outcome, Request, status};
use headroom_quota_server::replica::{NO_CERTIFICATE, Webhook};
use headroom_quota_server::{Options, Replica, tls, webhook_config};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::cluster::*;

const MINUTE: Duration = Duration::from_secs(60);
const SECRET: &str = "/api/v1/namespaces/headroom/secrets/headroom-ledger-tls";
const CONFIGURATION: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/headroom-ledger";

/// The parts of a replica that leads, and the minutes in which one that hangs is told.
const PARTS: [(&str, u32); 16] = [
    ("ResourceQuotas", 3),
    ("certificate", 3),
    ("leader", 3),
    ("planner", 3),
    ("releasing", 3),
    ("reviews", 3),
    ("settling", 3),
    // It answers the question itself.
    ("status", u32::MAX),
    ("status of quotas", 3),
    ("watch of Namespaces", 6),
    ("watch of ResourceQuotas", 6),
    ("watch of TenantQuotas", 6),
    ("watch of ledgers", 6),
    ("watch of counted pods", 6),
    ("webhook configuration", 3),
    ("writer of a ledger", 13),
];

/// A replica that serves, with all its parts.
async fn serving() -> (Running, JoinHandle<String>) {
    let server = bounded(&json!({"pods": "10"}));
    let replica = Running::new(&server, Options { resource_quotas: true, ..Options::new("headroom") });
    let [reviews, pages] = [TcpListener::bind("127.0.0.1:0").await, TcpListener::bind("127.0.0.1:0").await];
    let serving = Arc::clone(&replica.0).serve(reviews.unwrap(), Some(pages.unwrap()));
    let ended = tokio::spawn(async { serving.await.err().map(|error| error.to_string()).unwrap_or_default() });
    let all = BTreeSet::from(PARTS.map(|(name, _)| name));
    let names = || BTreeSet::from_iter(replica.parts.silent().into_iter().map(|(name, _)| name));
    until(|| json!(names()), |names| *names == json!(all)).await;
    (replica, ended)
}

#[tokio::test(start_paused = true)]
async fn a_replica_ends_with_each_of_its_parts_and_tells_of_each_that_hangs() {
    for (name, minutes) in PARTS {
        let (replica, ended) = serving().await;
        replica.parts.disturb(name, false);
        let ended = timeout(MINUTE, ended).await.unwrap().unwrap();
        assert_eq!(ended, format!("part `{name}` ended that nobody asked to end"));
        if minutes == u32::MAX {
            continue;
        }
        let (replica, ended) = serving().await;
        sleep(MINUTE).await;
        replica.parts.disturb(name, true);
        assert_eq!(replica.parts.problem(), None);
        sleep(minutes * MINUTE).await;
        let problem = replica.parts.problem().unwrap_or_default();
        assert!(problem.starts_with(&format!("part `{name}`: no sign of life for ")), "{name}: {problem}");
        assert!(!ended.is_finished(), "the kubelet ends it");
    }
}

/// The answer of an API server to a request about what is watched.
fn row(of_lists: fn() -> Outcome, of_watches: fn() -> Outcome) -> impl Fn(&Request) -> Outcome {
    move |request| {
        let is_known = ["/namespaces", "/tenantquotas", "/quotaledgers"].iter().any(|end| request.path.ends_with(end));
        match request.parameter("watch") {
            _ if !is_known || request.method != "GET" => Outcome::Serve,
            Some(_) => of_watches(),
            None => of_lists(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_replica_is_ready_while_the_api_server_confirms_what_it_knows() {
    let serves: fn() -> Outcome = || Outcome::Serve;
    let hangs: fn() -> Outcome = || Outcome::Hang;
    let fails: fn() -> Outcome = || status(503, "apiserver is shutting down").into();
    let forbids: fn() -> Outcome = || status(403, "is forbidden: User \"ledger\" cannot list").into();
    for (name, lists, watches, after_3_minutes, after_8_minutes) in [
        ("nothing happens, and there are bookmarks", serves, serves, true, true),
        ("watches are refused", serves, fails, true, true),
        ("watches are forbidden", serves, forbids, true, true),
        ("watches hang", serves, hangs, true, true),
        ("everything is refused", fails, fails, true, false),
        ("everything hangs", hangs, hangs, true, false),
        ("nothing is allowed", forbids, forbids, false, false),
    ] {
        let server = bounded(&json!({"pods": "9"}));
        // No watch goes on while others are refused.
        server.on_request(row(serves, if name.contains("bookmarks") { serves } else { fails }));
        let replica = Running::start(&server);
        until_counted(&server, "pods=0").await;
        sleep(3 * MINUTE).await;
        assert_eq!(replica.problem(), None, "{name}");
        server.on_request(row(lists, watches));
        for (minutes, is_ready) in [(3, after_3_minutes), (5, after_8_minutes)] {
            sleep(minutes * MINUTE).await;
            assert_eq!(replica.problem().is_none(), is_ready, "{name}: {:?}", replica.problem());
        }
        let response = replica.create(&pod("shop", "a")).await;
        assert_eq!(response["allowed"], after_8_minutes, "{name}: {response}");
        assert!(after_8_minutes || response["status"]["code"] == 429, "{name}: {response}");
        let ages = replica.parts.ages();
        assert_eq!(ages["TenantQuotas"] > 5 * MINUTE, !after_8_minutes, "{name}: {ages:?}");
        assert!(replica.metrics.to_string().contains("headroom_ledger_watch_age_seconds{watch=\"counted pods\"} "));
        server.on_request(row(serves, serves));
        sleep(2 * MINUTE).await;
        assert_eq!(replica.problem(), None, "{name}");
    }
}

/// API servers judge a certificate by their own clock.
#[tokio::test(start_paused = true)]
async fn a_certificate_is_made_by_the_api_server_s_clock_and_at_once_where_nobody_accepts_it() {
    const NOW: i64 = 1_796_083_200;
    const DAY: i64 = 86_400;
    let server = bounded(&json!({"pods": "9"}));
    server.set_date("Tue, 01 Dec 2026 00:00:00 GMT");
    let url = Some("https://[::1]:1".to_owned());
    let webhook = Some(Webhook { service: "ledger".to_owned(), url, makes_certificate: true });
    let options = Options { webhook, clock: || NOW + 400 * DAY, ..Options::new("headroom") };
    let _replica = Running::start_with(&server, options);
    let secret = || server.get(SECRET).unwrap_or_default();
    let is_now = |secret: &serde_json::Value| {
        let made = &secret["metadata"]["annotations"]["headroom.dev/made-at"];
        made.as_str().and_then(|at| at.parse().ok()).is_some_and(|at: i64| (NOW..NOW + 7 * 60).contains(&at))
    };
    until(secret, is_now).await;
    let names = |secret: &serde_json::Value| secret["metadata"]["annotations"]["headroom.dev/names"].clone();
    assert_eq!(names(&secret()), "::1,ledger.headroom.svc");
    server.edit(SECRET, &json!({"metadata": {"annotations": {"headroom.dev/names": "ledger.other.svc"}}}));
    let other = secret()["data"]["tls.crt"].clone();
    until(secret, |secret| names(secret) == "::1,ledger.headroom.svc" && secret["data"]["tls.crt"] != other).await;
    // By a clock that was ahead, a cluster that was off for months, and a successor by a clock that was ahead.
    for (made, next) in [(400 * DAY, None), (-91 * DAY, None), (-61 * DAY, Some(400 * DAY))] {
        let [made, next] = [Some(made), next].map(|of| of.map(|of| (NOW + of).to_string()));
        let times = json!({"headroom.dev/made-at": made, "headroom.dev/next-made-at": next});
        server.edit(SECRET, &json!({"metadata": {"annotations": times}}));
        until(secret, is_now).await;
    }
    // Replicas use one that was deleted until they read the Secret again.
    let authorities = || {
        let text = STANDARD.decode(secret()["data"]["ca.crt"].as_str().unwrap()).unwrap();
        String::from_utf8(text).unwrap()
    };
    sleep(Duration::from_secs(5)).await;
    let former = authorities();
    server.remove(SECRET);
    until(secret, is_now).await;
    let all = authorities();
    let (kept, made) = all.split_at(all.rfind("-----BEGIN").unwrap());
    assert!(kept.starts_with("-----BEGIN") && former.ends_with(kept) && !former.contains(made), "{former}\n{all}");
    // API servers refuse one whose key, authority or time is another.
    let [other, old] = [0, 92].map(|days| tls::make(&["::1".to_owned()], NOW - days * DAY, 90).unwrap());
    let data = |secret: &serde_json::Value, name: &str| {
        STANDARD.decode(secret["data"][name].as_str().unwrap_or_default()).unwrap()
    };
    let is_accepted = |secret: &serde_json::Value| {
        let [certificate, key, authorities] = ["tls.crt", "tls.key", "ca.crt"].map(|name| data(secret, name));
        tls::verify(&certificate, &key, &authorities, NOW).is_ok()
    };
    for (made, names) in [
        (&other, &["tls.key"][..]),
        (&other, &["ca.crt"]),
        (&other, &["tls.crt", "tls.key"]),
        (&old, &["tls.crt", "tls.key", "ca.crt"]),
    ] {
        let texts = json!({"tls.crt": STANDARD.encode(&made.certificate), "tls.key": STANDARD.encode(&made.key),
            "ca.crt": STANDARD.encode(&made.authority)});
        for name in names {
            server.edit(SECRET, &json!({"data": {*name: texts[name]}}));
        }
        assert!(!is_accepted(&secret()), "{names:?}");
        until(secret, is_accepted).await;
    }
    // One that is old, but valid, is used until its successor is trusted.
    let made = (NOW - 61 * DAY).to_string();
    server.edit(SECRET, &json!({"metadata": {"annotations": {"headroom.dev/made-at": made}}}));
    until(secret, |secret| secret["data"]["next.crt"].is_string()).await;
    assert_eq!(secret()["metadata"]["annotations"]["headroom.dev/made-at"], made);
}

/// The account may not create what it fills in, and deleting the configuration unblocks a cluster.
#[tokio::test(start_paused = true)]
async fn quotas_tell_while_the_webhook_is_not_configured_and_are_enforced_as_far_as_it_is() {
    let server = bounded(&json!({"pods": "9"}));
    let webhook = Webhook { service: "ledger".to_owned(), url: None, makes_certificate: true };
    let replica = Running::start_with(&server, Options { webhook: Some(webhook), ..options() });
    let shown = || {
        let ready = &quota_status(&server, "team")["conditions"][0];
        json!([ready["reason"], ready["message"], replica.metrics.unconfigured.get()])
    };
    let configured = || server.get(CONFIGURATION).unwrap_or_default()["webhooks"][0].clone();
    let well = json!(["InForce", "enforced and counted", 0]);
    for (verb, lost, problem) in [
        ("create", Some(SECRET), "Secret headroom-ledger-tls is gone: "),
        ("update", None, "is forbidden: User \"ledger\" cannot update"),
        ("create", Some(CONFIGURATION), "ValidatingWebhookConfiguration headroom-ledger is gone: "),
    ] {
        until(shown, |shown| *shown == well).await;
        let trusted = configured()["clientConfig"]["caBundle"].clone();
        server.on_request(move |request| match (request.method.as_str(), verb) {
            _ if !["secrets", "validatingwebhookconfigurations"].iter().any(|kind| request.path.contains(kind)) => {
                Outcome::Serve
            }
            ("POST", "create") | ("PUT", "update") => {
                status(403, &format!("is forbidden: User \"ledger\" cannot {verb}")).into()
            }
            _ => Outcome::Serve,
        });
        lost.inspect(|lost| server.remove(lost));
        server.put(quota(verb, &["web"], &json!({"pods": "1"})));
        until(shown, |shown| shown[0] == "NotConfigured" && shown[2] == 1).await;
        assert!(shown()[1].as_str().unwrap().contains(problem), "{}", shown());
        if lost == Some(SECRET) {
            assert_eq!(configured()["clientConfig"]["caBundle"], trusted);
            assert_eq!(configured()["namespaceSelector"]["matchExpressions"][0]["values"], json!(["shop", "web"]));
            let started = Running(Replica::new(options(), client(&server), CancellationToken::new()));
            drop(started.start());
            until(|| json!(started.problem()), |problem| *problem == NO_CERTIFICATE).await;
            let failure = webhook_config::use_certificate(&started).await.unwrap_err();
            assert_eq!(failure.to_string(), NO_CERTIFICATE);
        }
        assert!(lost.is_none_or(|lost| server.get(lost).is_none()));
        server.remove(&format!("/apis/headroom.dev/v1alpha1/tenantquotas/{verb}"));
        server.on_request(|_| Outcome::Serve);
    }
    until(shown, |shown| *shown == well).await;
    let told = server.requests().into_iter().filter(|request| request.path.ends_with("/events"));
    let of_team = told.filter(|event| event.body["involvedObject"]["name"] == "team");
    assert_eq!(
        of_team.map(|event| event.body["reason"].clone()).collect::<Vec<_>>(),
        ["NotConfigured", "InForce", "NotConfigured", "InForce", "NotConfigured", "InForce"]
    );
    server.on_request(|request| match request.path.ends_with("/status") {
        true => status(403, "is forbidden: User \"ledger\" cannot patch").into(),
        false => Outcome::Serve,
    });
    server.put(pod("shop", "a"));
    until(|| json!(replica.metrics.failed_statuses.get()), |failed| failed.as_u64() > Some(1)).await;
}

/// The answer of an API server whose plugin for ResourceQuotas is off.
fn probed(request: &Request) -> Outcome {
    if request.path.ends_with("/podtemplates") { Outcome::Answer(201, json!({})) } else { Outcome::Serve }
}

/// A new leader does not know yet whether the API server enforces them. What another one wrote in between is not foreign,
/// and what it counted in its last term is not known any more.
#[tokio::test(start_paused = true)]
async fn resource_quotas_stay_in_force_under_the_next_leader() {
    const QUOTA: &str = "/api/v1/namespaces/shop/resourcequotas/small";
    let server = ApiServer::new();
    server.on_request(probed);
    server.serve("headroom.dev/v1alpha1", "TenantQuota", false);
    server.put(namespace("shop"));
    server.put(json!({"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "1"}},
        "metadata": {"name": "small", "namespace": "shop"}}));
    let webhook = Webhook { service: "ledger".to_owned(), url: None, makes_certificate: false };
    let options = Options { resource_quotas: true, webhook: Some(webhook), ..options() };
    let first = Running::start_with(&server, options.clone());
    let entry = || server.get(CONFIGURATION).unwrap_or_default()["webhooks"][0]["name"].clone();
    until(entry, |name| name == "quota.headroom.dev").await;
    let second = Running::start_with(&server, options);
    let mut leader = (&first, &second);
    for (turn, (name, used)) in [("one", "1"), ("two", "2"), ("three", "3")].into_iter().enumerate() {
        let (leading, other) = leader;
        server.put(pod("shop", name));
        let shown = || server.get(QUOTA).unwrap()["status"]["used"]["pods"].clone();
        until(shown, |pods| pods == used).await;
        until(|| json!(leading.metrics.objects.get()), |objects| *objects == turn + 1).await;
        server.take_requests();
        // Its next renewals fail.
        let name = leading.identity.clone();
        server.on_request(move |request| match request.body["spec"]["holderIdentity"] == *name {
            true => status(500, "no renewal").into(),
            false => probed(request),
        });
        until(|| json!(other.metrics.leads.get()), |leads| *leads == 1).await;
        while other.enforces_resource_quotas().is_none() {
            assert_eq!(other.create(&pod("shop", "more")).await["status"]["code"], 403);
            sleep(Duration::from_millis(20)).await;
        }
        let gauges = || json!([leading.metrics.leads.get(), leading.metrics.objects.get()]);
        until(gauges, |gauges| *gauges == json!([0, 0])).await;
        sleep(Duration::from_secs(2)).await;
        let is_change =
            |request: &Request| request.method == "DELETE" || request.path == CONFIGURATION && request.method != "GET";
        assert_eq!(server.requests().into_iter().find(is_change).map(|request| request.to_string()), None);
        leader = (other, leading);
    }
    for replica in [&first, &second] {
        assert_eq!(replica.metrics.foreign_statuses.get(), 0);
    }
}
