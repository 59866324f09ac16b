//! Requests of honest clients: creations and updates of every kind, with subresources.

use proptest::option::weighted;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::listed;

#[derive(Debug, Clone)]
pub struct Sent {
    pub kind: Kind,
    pub subresource: &'static str,
    pub object: Value,
    /// The object before an update.
    pub old: Option<Value>,
}

/// The group and the plural name of a kind.
pub type Kind = (&'static str, &'static str);

pub const POD: Kind = ("", "pods");
const CLAIM: Kind = ("", "persistentvolumeclaims");
pub const SERVICE: Kind = ("", "services");
pub const DEVICE_CLAIM: Kind = ("resource.k8s.io", "resourceclaims");
const DEPLOYMENT: Kind = ("apps", "deployments");
const DAEMON_SET: Kind = ("apps", "daemonsets");
const JOB: Kind = ("batch", "jobs");
const CRON_JOB: Kind = ("batch", "cronjobs");

impl Sent {
    pub fn review(&self) -> Value {
        let (group, resource) = self.kind;
        json!({
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "name": "web", "namespace": "shop",
            "operation": if self.old.is_some() { "UPDATE" } else { "CREATE" }, "subResource": self.subresource,
            "resource": {"group": group, "version": "v1", "resource": resource},
            "userInfo": {"username": "author"}, "object": self.object, "oldObject": self.old,
        })
    }

    /// The same request with these fields instead of its own; null removes a field.
    pub fn with(mut self, fields: &Value) -> Self {
        json_patch::merge(&mut self.object, fields);
        self
    }
}

pub fn requests() -> impl Strategy<Value = Sent> {
    let pod = || (metadata(), pod_spec()).prop_map(|(metadata, spec)| json!({"metadata": metadata, "spec": spec}));
    let other_counted =
        prop::sample::select(vec![("", "configmaps"), ("", "resourcequotas"), ("example.com", "widgets")]);
    prop_oneof![
        4 => pod().prop_map(|pod| create(POD, pod)),
        2 => (pod(), any::<bool>(), past()).prop_map(|(pod, is_bounded, past)| {
            let mut bounded = pod.clone();
            bounded["spec"]["activeDeadlineSeconds"] = json!(30);
            let (new, old) = if is_bounded { (bounded, pod) } else { (pod, bounded) };
            update(POD, "", new, old, past)
        }),
        3 => (pod(), resources(), past()).prop_map(|(old, resources, past)| {
            let mut new = old.clone();
            new["spec"]["containers"][0]["resources"] = resources;
            update(POD, "resize", new, old, past)
        }),
        2 => claim().prop_map(|claim| create(CLAIM, claim)),
        2 => (claim(), storage(), past()).prop_map(|(old, storage, past)| {
            let mut new = old.clone();
            new["spec"]["resources"]["requests"]["storage"] = json!(storage);
            update(CLAIM, "", new, old, past)
        }),
        1 => (claim(), past(), past()).prop_map(|(old, past, status)| {
            let mut new = old.clone();
            new["status"] = status;
            Sent { subresource: "status", ..update_with(CLAIM, new, old, past) }
        }),
        1 => service().prop_map(|service| create(SERVICE, service)),
        3 => (service(), service()).prop_map(|(new, old)| update(SERVICE, "", new, old, json!({}))),
        2 => device_claim().prop_map(|claim| create(DEVICE_CLAIM, claim)),
        4 => workload().prop_map(|(kind, object)| create(kind, object)),
        3 => (workload(), 0..5_u32, past()).prop_map(|((kind, old), count, past)| {
            let mut new = old.clone();
            for field in ["replicas", "parallelism", "completions"] {
                if new["spec"].get(field).is_some() {
                    new["spec"][field] = json!(count);
                }
            }
            update(kind, "", new, old, past)
        }),
        1 => (0..5_u32, 0..5_u32).prop_map(|(new, old)| {
            let scale = |replicas| json!({"metadata": {"name": "web"}, "spec": {"replicas": replicas}});
            update(DEPLOYMENT, "scale", scale(new), scale(old), json!({"replicas": old}))
        }),
        1 => (other_counted, metadata()).prop_map(|(kind, metadata)| create(kind, json!({"metadata": metadata}))),
    ]
}

fn create(kind: Kind, object: Value) -> Sent {
    Sent { kind, subresource: "", object, old: None }
}

/// An update of an object that is stored with this status; the client sends the same status.
fn update(kind: Kind, subresource: &'static str, mut new: Value, old: Value, status: Value) -> Sent {
    new["status"] = status.clone();
    Sent { subresource, ..update_with(kind, new, old, status) }
}

fn update_with(kind: Kind, mut new: Value, mut old: Value, status: Value) -> Sent {
    old["status"] = status;
    old["metadata"]["resourceVersion"] = json!("1");
    new["metadata"] = old["metadata"].clone();
    Sent { kind, subresource: "", object: new, old: Some(old) }
}

fn metadata() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!({"name": "web"}),
        json!({"name": "web", "labels": {"tier": "free"}}),
        json!({"name": "web", "labels": {"tier": "paid"}}),
    ])
}

/// The status of a stored object, as the API server wrote it.
fn past() -> impl Strategy<Value = Value> {
    prop_oneof![Just(json!({})), prop::sample::select(listed("/statuses"))]
}

fn amounts() -> impl Strategy<Value = Value> {
    let cpu = weighted(0.6, prop::sample::select(vec!["0", "100m", "500m", "1", "2", "4"]));
    let memory = weighted(0.4, prop::sample::select(vec!["64Mi", "512Mi", "1Gi", "4Gi"]));
    (cpu, memory).prop_map(|(cpu, memory)| {
        let named = [("cpu", cpu), ("memory", memory)].into_iter();
        named
            .filter_map(|(name, amount)| Some((name.to_owned(), json!(amount?))))
            .collect::<serde_json::Map<_, _>>()
            .into()
    })
}

fn resources() -> impl Strategy<Value = Value> {
    (amounts(), weighted(0.5, amounts())).prop_map(|(requests, limits)| match limits {
        Some(limits) => json!({"requests": requests, "limits": limits}),
        None => json!({"requests": requests}),
    })
}

fn pod_spec() -> impl Strategy<Value = Value> {
    let priority = weighted(0.3, prop::sample::select(vec!["high", "low"]));
    let parts = (
        prop::collection::vec(resources(), 1..3),
        weighted(0.3, (resources(), any::<bool>())),
        weighted(0.2, amounts()),
        weighted(0.2, amounts()),
        priority,
        any::<bool>(),
    );
    parts.prop_map(|(containers, init, of_pod, overhead, priority, is_bounded)| {
        let containers: Vec<Value> = containers
            .into_iter()
            .zip(["a", "b"])
            .map(|(resources, name)| json!({"name": name, "image": "app", "resources": resources}))
            .collect();
        let mut spec = json!({"containers": containers});
        if let Some((resources, is_sidecar)) = init {
            spec["initContainers"] = json!([{"name": "i", "image": "app", "resources": resources}]);
            if is_sidecar {
                spec["initContainers"][0]["restartPolicy"] = json!("Always");
            }
        }
        if let Some(requests) = of_pod {
            spec["resources"] = json!({"requests": requests});
        }
        for (field, value) in [("overhead", overhead), ("priorityClassName", priority.map(Value::from))] {
            if let Some(value) = value {
                spec[field] = value;
            }
        }
        if is_bounded {
            spec["activeDeadlineSeconds"] = json!(60);
        }
        spec
    })
}

fn storage() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["1Gi", "5Gi", "10Gi", "50Gi"])
}

fn claim() -> impl Strategy<Value = Value> {
    let class = || weighted(0.5, prop::sample::select(vec!["fast", "slow"]));
    (metadata(), storage(), class(), class()).prop_map(|(metadata, storage, class, attributes)| {
        json!({"metadata": metadata, "spec": {
            "resources": {"requests": {"storage": storage}}, "storageClassName": class,
            "volumeAttributesClassName": attributes,
        }})
    })
}

fn service() -> impl Strategy<Value = Value> {
    let of_type = prop::sample::select(vec!["ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer"]);
    (of_type, 1..4_usize, prop::bool::weighted(0.3)).prop_map(|(of_type, ports, allocates)| {
        let port = |number: usize| match of_type {
            "ClusterIP" => json!({"name": format!("p{number}"), "port": number}),
            _ => json!({"name": format!("p{number}"), "port": number, "nodePort": 30_000 + number}),
        };
        let ports: Vec<Value> = (1..=ports).map(port).collect();
        json!({"metadata": {"name": "web"}, "spec": {
            "type": of_type, "ports": ports, "allocateLoadBalancerNodePorts": allocates,
        }})
    })
}

fn device_claim() -> impl Strategy<Value = Value> {
    (metadata(), 1..4_u32).prop_map(|(metadata, count)| {
        let device = json!({"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": count}});
        json!({"metadata": metadata, "spec": {"devices": {"requests": [device]}}})
    })
}

/// An object that creates pods.
fn workload() -> impl Strategy<Value = (Kind, Value)> {
    let kinds = prop::sample::select(vec![
        ("", "replicationcontrollers"),
        ("apps", "replicasets"),
        DEPLOYMENT,
        ("apps", "statefulsets"),
        DAEMON_SET,
        JOB,
        CRON_JOB,
    ]);
    (kinds, metadata(), pod_spec(), 1..5_u32).prop_map(|(kind, metadata, pod, count)| {
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": pod});
        let job = json!({"parallelism": count, "completions": count, "template": template});
        let spec = match kind {
            JOB => job,
            CRON_JOB => json!({"schedule": "@daily", "jobTemplate": {"spec": job}}),
            DAEMON_SET => json!({"template": template}),
            _ => json!({"replicas": count, "template": template}),
        };
        (kind, json!({"metadata": metadata, "spec": spec}))
    })
}
