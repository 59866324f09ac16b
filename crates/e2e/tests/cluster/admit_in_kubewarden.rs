//! Our policy in Kubewarden's own policy server, where `POLICY_SERVER` names the program. Its answers are compared with those of
//! our host in every test that guards a namespace; this one counts what it reads.

use std::time::Duration;

use headroom_e2e::control_plane::{Controllers, InTreePlugins};
use headroom_e2e::policy_server::GROUP;
use serde_json::json;

use crate::audit_log::{ApiRequest, AuditLog};
use crate::chart_policies;
use crate::guarded_namespace::{guard_by, resources, wait_for};
use crate::objects::{limit_range, pod, quota};

/// The requests of the policy server, once it has made no more for a second.
async fn reads(audit: &AuditLog) -> Vec<ApiRequest> {
    let reads = || {
        audit.requests(|event| {
            let mut groups = event["impersonatedUser"]["groups"].as_array().into_iter().flatten();
            groups.any(|group| group == GROUP)
        })
    };
    let mut found = reads();
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before = std::mem::replace(&mut found, reads()).len();
        if found.len() == before {
            return found;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn requests_in_a_known_namespace_read_nothing_from_the_api_server() {
    crate::skip_without!("kube-controller-manager");
    let (cluster, audit) = AuditLog::start(InTreePlugins::Off, Controllers::On).await;
    cluster.install("deploy/charts/headroom/files/crd.yaml").unwrap();
    let shop = guard_by(cluster, chart_policies::policies()).await;
    let namespace = &shop.namespace;
    let item = json!({"default": {"cpu": "200m"}, "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "1"}});
    shop.create(limit_range(namespace, item)).await.unwrap();
    shop.create(quota(namespace, json!({"requests.cpu": "3"}))).await.unwrap();
    let quotas = shop.all("v1", "ResourceQuota");
    wait_for(&quotas, "team", "the quota is observed", |quota| quota["status"]["used"]["requests.cpu"] == "0").await;
    // Each kind of request once, so that every policy has its watches.
    let round = async |number: usize| {
        let name = |what: &str| format!("{what}-{number}");
        let filled = shop.create(pod(namespace, &name("filled"), json!({}))).await.unwrap();
        assert_eq!(*resources(&filled), json!({"limits": {"cpu": "200m"}, "requests": {"cpu": "100m"}}));
        let large = json!({"requests": {"cpu": "900m"}, "limits": {"cpu": "2"}});
        let refused = shop.refusal(pod(namespace, &name("large"), large)).await;
        assert!(refused.contains("maximum cpu usage per Container is 1, but limit is 2"), "{refused}");
        let wide = ["create", "deployment", &name("wide"), "--image=web", "--replicas=40", "--dry-run=server"];
        let said = shop.kubectl(&wide);
        assert!(said.contains("of 40 replicas fit quota \"team\""), "{said}");
    };
    round(0).await;
    let before = reads(&audit).await;
    for number in 1..10 {
        round(number).await;
    }
    let after = reads(&audit).await;
    println!("{} requests of the policy server for the first objects, {} after them", before.len(), after.len());
    assert_eq!(before.is_empty(), std::env::var_os("POLICY_SERVER").is_none(), "{before:?}");
    assert!(after.len() == before.len(), "{:?}", &after[before.len()..]);
}
