//! Settings, and the objects of a cluster.

use proptest::prelude::*;
use serde_json::{Value, json};

pub fn settings() -> impl Strategy<Value = Value> {
    let enforced = json!({"workloadMode": "enforce"});
    let of_tier = |tier: &str| json!({"matchLabels": {"tier": tier}});
    prop::sample::select(vec![
        json!({}),
        json!({"quotas": enforced, "limitRanges": enforced, "estimates": {"mode": "never"}}),
        json!({"role": "validate", "quotas": enforced, "limitRanges": enforced}),
        json!({"role": "mutate"}),
        json!({"mutateTemplates": true, "quotas": {"freshness": "live"}}),
        json!({"exempt": {"labels": of_tier("free"), "serviceAccounts": ["shop/free"]}}),
        json!({"limitRanges": {"rules": [{
            "name": "paid", "podLabels": of_tier("paid"), "limits": [{"type": "Container", "max": {"cpu": "1"}}],
        }]}}),
    ])
}

/// The host's answers, by kind.
pub fn cluster() -> impl Strategy<Value = Value> {
    let quotas: Vec<_> = quotas().into_iter().map(|quota| (Just(quota), any::<bool>(), 0..3_u32)).collect();
    (any::<bool>(), any::<bool>(), quotas).prop_map(|(is_bounded, has_defaults, quotas)| {
        let mut ranges = Vec::new();
        if is_bounded {
            ranges.push(bounds());
        }
        if has_defaults {
            ranges.push(defaults());
        }
        let chosen = quotas.into_iter().filter(|(_, is_there, _)| *is_there);
        let quotas: Vec<Value> = chosen.enumerate().map(|(number, (quota, _, level))| made(number, quota, level)).collect();
        let gpus = json!({"containers": [{"name": "a", "resources": {"requests": {"example.com/gpu": "9"}}}]});
        let template = json!({"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}});
        json!({
            "LimitRange": {"items": ranges},
            "ResourceQuota": {"items": quotas}, "Fresh": {"items": quotas},
            "DeviceClass": {"items": [{"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}]},
            "Pod": {"items": [{"metadata": {"name": "web", "uid": "the-pods"}, "spec": gpus}]},
            "Scaled": {"metadata": {"name": "web"}, "spec": {"replicas": 1, "template": template}},
        })
    })
}

fn bounds() -> Value {
    let (min, max) = (json!({"cpu": "100m"}), json!({"cpu": "3", "memory": "2Gi"}));
    json!({"metadata": {"name": "bounds"}, "spec": {"limits": [
        {"type": "Container", "min": min, "max": max},
        {"type": "Pod", "max": max},
        {"type": "PersistentVolumeClaim", "max": {"storage": "10Gi"}},
    ]}})
}

fn defaults() -> Value {
    json!({"metadata": {"name": "defaults"}, "spec": {"limits": [
        {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m", "memory": "64Mi"}},
    ]}})
}

/// The amounts of a quota by name, and its scopes.
type Quota = (Value, Value);

fn quotas() -> Vec<Quota> {
    let scope = |name: &str, operator: &str, values: Value| json!({"scopeSelector": {"matchExpressions": [{"scopeName": name, "operator": operator, "values": values}]}});
    let of_pods = json!({"pods": "2", "requests.cpu": "2", "limits.memory": "2Gi"});
    let of_claims = json!({"persistentvolumeclaims": "2", "requests.storage": "10Gi"});
    vec![
        (of_pods.clone(), json!({})),
        (of_pods.clone(), json!({"scopes": ["NotBestEffort"]})),
        (json!({"pods": "2"}), json!({"scopes": ["BestEffort"]})),
        (of_pods.clone(), json!({"scopes": ["Terminating"]})),
        (of_pods.clone(), json!({"scopes": ["NotTerminating"]})),
        (of_pods, scope("PriorityClass", "In", json!(["high"]))),
        (of_claims.clone(), json!({})),
        (of_claims.clone(), scope("VolumeAttributesClass", "In", json!(["fast"]))),
        (of_claims, scope("VolumeAttributesClass", "DoesNotExist", json!([]))),
        (json!({"services": "2", "services.nodeports": "3", "services.loadbalancers": "1"}), json!({})),
        (json!({"gpu.deviceclass.resource.k8s.io/devices": "2", "requests.example.com/gpu": "3"}), json!({})),
        (json!({"configmaps": "1", "count/widgets.example.com": "1", "resourcequotas": "2"}), json!({})),
        (json!({"count/deployments.apps": "1", "count/jobs.batch": "1", "replicationcontrollers": "1"}), json!({})),
    ]
}

fn made(number: usize, (hard, mut spec): Quota, level: u32) -> Value {
    let names = hard.as_object().unwrap().keys();
    let used: serde_json::Map<String, Value> = names.map(|name| (name.clone(), json!(level.to_string()))).collect();
    spec["hard"] = hard.clone();
    json!({"metadata": {"name": format!("q{number:02}")}, "spec": spec, "status": {"hard": hard, "used": used}})
}
