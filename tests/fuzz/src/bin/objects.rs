//! Reviews built from bytes: always well formed, so that the rules are tested and not only the readers.

#![no_main]

use headroom_admission::json::Document;
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Unstructured::new(bytes);
    let Ok((request, settings, cluster)) = review(&mut bytes) else { return };
    let documents = [&settings, &cluster].map(|value| value.to_string());
    let [settings, cluster] = documents.each_ref().map(|text| Document::read(text).expect("made well formed"));
    headroom_fuzz::check_request(&request.to_string(), settings.root(), cluster.root());
});

const AMOUNTS: &[&str] =
    &["0", "1m", "10m", "250m", "1", "1500m", "4", "1e3", "64Mi", "1Gi", "1.5Gi", "2G", "9999999E", "0.1m", "-1", "x"];
const RESOURCES: &[&str] = &["cpu", "memory", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi", "storage"];
const IMAGES: &[&str] = &["nginx", "nginx:1.27", "redis:7", "registry.example.com/team/app@sha256:0123", "::"];
const SETTINGS: &[&str] = &[
    "{}",
    r#"{"role": "mutate"}"#,
    r#"{"role": "validate"}"#,
    r#"{"estimates":{"namespace":"headroom","mode":"always"}}"#,
    r#"{"estimates":{"namespace":"headroom","shrinkToQuota": true}}"#,
    r#"{"mutateTemplates":true,"limitRanges": {"workloadMode":"enforce"},"quotas": {"workloadMode":"enforce"}}"#,
    r#"{"limitRanges":{"mode":"warn"},"quotas":{"mode":"warn"}}"#,
    r#"{"limitRanges":{"raiseDefaultLimits":false}}"#,
    r#"{"kubernetesVersion":"1.30"}"#,
];

fn review(bytes: &mut Unstructured<'_>) -> Result<(Value, Value, Value)> {
    let (group, resource, kind, path) = *bytes.choose(&[
        ("", "pods", "Pod", ""),
        ("", "pods", "Pod", ""),
        ("apps", "deployments", "Deployment", "template"),
        ("batch", "cronjobs", "CronJob", "jobTemplate"),
        ("", "persistentvolumeclaims", "PersistentVolumeClaim", "claim"),
        ("", "services", "Service", "service"),
    ])?;
    let object = object(bytes, path)?;
    let mut request = json!({
        "uid": "1", "namespace": "shop", "name": "web", "operation": "CREATE", "object": object,
        "kind": {"group": group, "version": "v1", "kind": kind},
        "resource": {"group": group, "version": "v1", "resource": resource},
        "userInfo": {"username": bytes.choose(&["alice", "system:serviceaccount:kube-system:replicaset-controller"])?},
    });
    if bytes.arbitrary()? {
        request["operation"] = json!("UPDATE");
        request["oldObject"] = self::object(bytes, path)?;
        if bytes.arbitrary()? {
            request["oldObject"] = request["object"].clone();
        }
        if bytes.ratio(1, 3)? {
            request["subResource"] = json!(bytes.choose(&["resize", "status", "ephemeralcontainers"])?);
        }
    }
    let settings = serde_json::from_str(bytes.choose(SETTINGS)?).expect("JSON");
    let cluster = json!({
        "LimitRange": {"items": list(bytes, 3, range)?},
        "ResourceQuota": {"items": list(bytes, 2, quota)?},
        "HorizontalPodAutoscaler": {"items": []},
        "Namespace": {"items": [{"metadata": {"name": "shop", "labels": {"team": "a"}}}]},
    });
    Ok((request, settings, cluster))
}

fn object(bytes: &mut Unstructured<'_>, path: &str) -> Result<Value> {
    let mut metadata = json!({"name": "web", "namespace": "shop"});
    if bytes.ratio(1, 4)? {
        metadata["annotations"] = json!({"kubernetes.io/limit-ranger":
            "LimitRanger plugin set: cpu, memory request for container c0; cpu limit for container c1"});
    }
    if bytes.ratio(1, 4)? {
        metadata["deletionTimestamp"] = json!("2026-11-20T00:00:00Z");
    }
    let spec = match path {
        "" => pod_spec(bytes)?,
        "template" => json!({"replicas": bytes.int_in_range(0..=5)?, "template": {"spec": pod_spec(bytes)?}}),
        "jobTemplate" => {
            let completions = bytes.int_in_range(1..=3)?;
            json!({"jobTemplate": {"spec": {"completions": completions, "template": {"spec": pod_spec(bytes)?}}}})
        }
        "claim" => json!({"resources": resources(bytes)?, "storageClassName": bytes.choose(&["", "fast"])?}),
        _ => json!({"type": bytes.choose(&["LoadBalancer", "NodePort", "ClusterIP"])?, "ports": [{"port": 80}]}),
    };
    let mut object = json!({"metadata": metadata, "spec": spec});
    if bytes.ratio(1, 3)? {
        object["status"] = json!({"phase": bytes.choose(&["Running", "Succeeded"])?, "capacity": amounts(bytes)?});
    }
    Ok(object)
}

fn pod_spec(bytes: &mut Unstructured<'_>) -> Result<Value> {
    let mut spec = json!({"containers": containers(bytes, 3, "c")?});
    if bytes.ratio(1, 3)? {
        spec["initContainers"] = containers(bytes, 2, "i")?;
    }
    if bytes.ratio(1, 4)? {
        spec["resources"] = resources(bytes)?;
    }
    if bytes.ratio(1, 8)? {
        spec["overhead"] = amounts(bytes)?;
    }
    if bytes.ratio(1, 8)? {
        spec["activeDeadlineSeconds"] = json!(60);
        spec["priorityClassName"] = json!("high");
    }
    Ok(spec)
}

/// All names differ, because the API server refuses a pod with two containers of one name.
fn containers(bytes: &mut Unstructured<'_>, most: usize, prefix: &str) -> Result<Value> {
    let mut containers = list(bytes, most, container)?;
    for (number, container) in containers.iter_mut().enumerate() {
        container["name"] = json!(format!("{prefix}{number}"));
    }
    Ok(json!(containers))
}

fn container(bytes: &mut Unstructured<'_>) -> Result<Value> {
    let mut container = json!({"image": bytes.choose(IMAGES)?});
    if bytes.arbitrary()? {
        container["resources"] = resources(bytes)?;
    }
    if bytes.ratio(1, 4)? {
        container["restartPolicy"] = json!("Always");
    }
    Ok(container)
}

fn resources(bytes: &mut Unstructured<'_>) -> Result<Value> {
    Ok(json!({"requests": amounts(bytes)?, "limits": amounts(bytes)?}))
}

fn range(bytes: &mut Unstructured<'_>) -> Result<Value> {
    let mut limit = json!({"type": bytes.choose(&["Container", "Container", "Pod", "PersistentVolumeClaim"])?});
    for field in ["min", "max", "default", "defaultRequest", "maxLimitRequestRatio"] {
        if bytes.arbitrary()? {
            limit[field] = amounts(bytes)?;
        }
    }
    Ok(json!({"metadata": {"name": bytes.choose(&["a", "b"])?}, "spec": {"limits": [limit]}}))
}

fn quota(bytes: &mut Unstructured<'_>) -> Result<Value> {
    const NAMES: &[&str] =
        &["cpu", "limits.memory", "requests.cpu", "pods", "count/pods", "services", "requests.storage"];
    let mut hard = Map::new();
    for _ in 0..bytes.int_in_range(0..=3)? {
        hard.insert((*bytes.choose(NAMES)?).to_owned(), json!(bytes.choose(AMOUNTS)?));
    }
    let mut spec = json!({"hard": hard});
    if bytes.ratio(1, 3)? {
        spec["scopes"] = json!([bytes.choose(&["BestEffort", "NotTerminating", "Terminating", "NotBestEffort"])?]);
    }
    Ok(json!({"metadata": {"name": "team"}, "spec": spec, "status": {"hard": hard, "used": {}}}))
}

fn amounts(bytes: &mut Unstructured<'_>) -> Result<Value> {
    let mut amounts = Map::new();
    for _ in 0..bytes.int_in_range(0..=2)? {
        amounts.insert((*bytes.choose(RESOURCES)?).to_owned(), json!(bytes.choose(AMOUNTS)?));
    }
    Ok(Value::Object(amounts))
}

fn list(
    bytes: &mut Unstructured<'_>,
    most: usize,
    item: impl Fn(&mut Unstructured<'_>) -> Result<Value>,
) -> Result<Vec<Value>> {
    (0..bytes.int_in_range(0..=most)?).map(|_| item(bytes)).collect()
}
