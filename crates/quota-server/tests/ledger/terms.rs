//! One leader after the other, where ResourceQuotas are enforced.

use std::sync::Arc;
use std::time::Duration;

use headroom_fixtures::api_server::{ApiServer, Outcome, Request, status};
use headroom_quota_server::Options;
use headroom_quota_server::replica::Webhook;
use serde_json::json;
use tokio::time::sleep;

use crate::cluster::*;

const QUOTA: &str = "/api/v1/namespaces/shop/resourcequotas/small";
const OF_SHOP: &str = "/apis/headroom.dev/v1alpha1/namespaces/headroom/quotaledgers/ns.shop";
const CONFIGURATION: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/headroom-ledger";

fn plain() -> Options {
    let webhook = Webhook { service: "ledger".to_owned(), url: None, makes_certificate: false };
    Options { resource_quotas: true, webhook: Some(webhook), ..options() }
}

/// The answer of an API server whose plugin is off.
fn probed(request: &Request) -> Outcome {
    if request.path.ends_with("/podtemplates") { Outcome::Answer(201, json!({})) } else { Outcome::Serve }
}

/// A server with room for one pod, and a replica that enforces it.
async fn enforced() -> (Arc<ApiServer>, Running) {
    let server = ApiServer::new();
    server.on_request(probed);
    server.serve("headroom.dev/v1alpha1", "TenantQuota", false);
    server.put(namespace("shop"));
    server.put(json!({"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "1"}},
        "metadata": {"name": "small", "namespace": "shop"}}));
    let replica = Running::start_with(&server, plain());
    let entries = || server.get(CONFIGURATION).unwrap_or_default()["webhooks"].clone();
    until(entries, |entries| entries[0]["name"] == "quota.headroom.dev").await;
    until(|| server.get(OF_SHOP).unwrap_or_default(), |ledger| ledger["used"][0] == "pods=0").await;
    (server, replica)
}

/// A new leader does not know yet whether the API server enforces them.
#[tokio::test(start_paused = true)]
async fn resource_quotas_stay_in_force_under_the_next_leader() {
    let (server, first) = enforced().await;
    server.put(pod("shop", "one"));
    until(|| server.get(OF_SHOP).unwrap_or_default(), |ledger| ledger["used"][0] == "pods=1").await;
    let second = Running::start_with(&server, plain());
    until(|| json!(second.problem()), |problem| problem.is_null()).await;
    server.take_requests();
    drop(first);
    while second.enforces_resource_quotas().is_none() {
        assert_eq!(second.create(&pod("shop", "two")).await["status"]["code"], 403);
        sleep(Duration::from_millis(20)).await;
    }
    sleep(Duration::from_secs(2)).await;
    assert_eq!(second.metrics.leads.get(), 1);
    let requests = server.requests();
    let is_change =
        |request: &&Request| request.method == "DELETE" || request.path == CONFIGURATION && request.method != "GET";
    assert_eq!(requests.iter().filter(is_change).map(ToString::to_string).collect::<Vec<_>>(), [""; 0]);
}

/// What another leader wrote in between is not foreign, and what this one counted is not known any more.
#[tokio::test(start_paused = true)]
async fn a_replica_that_leads_again_knows_nothing_of_its_last_term() {
    let (server, first) = enforced().await;
    let second = Running::start_with(&server, plain());
    let mut leader = (&first, &second);
    for (turn, (name, used)) in [("one", "1"), ("two", "2"), ("three", "3")].into_iter().enumerate() {
        server.put(pod("shop", name));
        let shown = || server.get(QUOTA).unwrap()["status"]["used"]["pods"].clone();
        until(shown, |pods| *pods == used).await;
        let (leading, other) = leader;
        until(|| json!(leading.metrics.objects.get()), |objects| *objects == turn + 1).await;
        // Its next renewals fail.
        let name = leading.identity.clone();
        server.on_request(move |request| match request.body["spec"]["holderIdentity"] == *name {
            true => status(500, "no renewal").into(),
            false => probed(request),
        });
        until(|| json!(other.metrics.leads.get()), |leads| *leads == 1).await;
        let gauges = || json!([leading.metrics.leads.get(), leading.metrics.objects.get()]);
        until(gauges, |gauges| *gauges == json!([0, 0])).await;
        leader = (other, leading);
    }
    for replica in [&first, &second] {
        assert_eq!(replica.metrics.foreign_statuses.get(), 0);
    }
}
