//! The objects that the policy reads, natively and in the wasm: none for exempt requests. A deleted quota is not
//! applied.

use headroom_wasm_host::admission::{AdmissionRequest, ValidationResponse};
use headroom_wasm_host::cluster::Cluster;
use headroom_wasm_host::host_call::{CallbackRequest, HostCalls};
use serde_json::{Value, json};

use crate::request_for;
use crate::runner::Runner;

/// A pod with too much memory for the namespace's LimitRange and quota.
fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "labels": {"tier": "free"}},
        "spec": {
            "serviceAccountName": "builder",
            "containers": [{"name": "web", "image": "nginx", "resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "2Gi"}}}],
        },
    })
}

fn shop() -> Cluster {
    let hard = json!({"requests.memory": "1Gi"});
    Cluster::new()
        .with(json!({
            "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits", "namespace": "shop"},
            "spec": {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]},
        }))
        .with(json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team", "namespace": "shop"},
            "spec": {"hard": hard}, "status": {"hard": hard, "used": {"requests.memory": "0"}},
        }))
        .with(
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"tier": "free"}}}),
        )
}

fn evaluate(runner: &Runner, user: &str, settings: &Value, host: &mut dyn HostCalls) -> ValidationResponse {
    let request = AdmissionRequest { user_info: json!({"username": user}), ..request_for(&pod()) };
    runner.evaluate(&request, settings, host)
}

#[test]
fn of_an_exempt_request_nothing_is_read_but_the_namespace_whose_labels_exempt_it() {
    let free = json!({"matchLabels": {"tier": "free"}});
    for runner in [Runner::Native, Runner::wasm()] {
        for (exempt, read) in [
            (json!({"namespaces": ["sh*"]}), &[][..]),
            (json!({"serviceAccounts": ["shop/builder"]}), &[]),
            (json!({"labels": free}), &[]),
            (json!({"namespaceLabels": free}), &["Namespace"]),
        ] {
            let mut cluster = shop();
            let response = evaluate(&runner, "ann", &json!({"exempt": exempt}), &mut cluster);
            assert!(response.accepted && response.warnings.is_none() && response.mutated_object.is_none(), "{exempt}");
            let kinds: Vec<&str> = cluster.calls().iter().map(CallbackRequest::kind).collect();
            assert_eq!(kinds, read, "{exempt}");
        }
    }
}

#[test]
fn a_pod_is_exempt_by_its_own_service_account_and_not_by_its_creators() {
    let controller = "system:serviceaccount:kube-system:replicaset-controller";
    for runner in [Runner::Native, Runner::wasm()] {
        let is_admitted = |pattern: &str| {
            let settings = json!({"exempt": {"serviceAccounts": [pattern]}});
            evaluate(&runner, controller, &settings, &mut shop()).accepted
        };
        assert!(is_admitted("shop/*"));
        assert!(!is_admitted("kube-system/*"));
        assert!(!is_admitted("shop/default"));
    }
}

/// A cluster whose watch still has a quota that a live read does not find.
struct StaleWatch {
    watch: Cluster,
    fresh: &'static str,
}

impl HostCalls for StaleWatch {
    fn call(&mut self, request: &CallbackRequest) -> Result<Vec<u8>, String> {
        match request {
            CallbackRequest::KubernetesGetResource { disable_cache: true, .. } => Err(self.fresh.to_owned()),
            _ => self.watch.call(request),
        }
    }
}

#[test]
fn a_quota_that_was_deleted_meanwhile_refuses_nothing() {
    let settings = json!({"limitRanges": {"mode": "off"}, "quotas": {"freshness": "live"}});
    for runner in [Runner::Native, Runner::wasm()] {
        let evaluate = |fresh| evaluate(&runner, "ann", &settings, &mut StaleWatch { watch: shop(), fresh });
        let gone = evaluate("Cannot find v1/ResourceQuota named 'team' inside of namespace 'Some(\"shop\")'");
        assert!(gone.accepted, "{gone:?}");
        // After any other failure, the usage from the watch is used.
        let unreadable = evaluate("the API server does not answer");
        assert!(!unreadable.accepted, "{unreadable:?}");
    }
}
