//! Requests of honest clients: creations and updates of every kind, with subresources.

use proptest::option::weighted;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A request.
#[derive(Debug, Clone)]
pub struct Sent {
    pub kind: Kind,
    pub subresource: &'static str,
    pub object: Value,
    /// The object before an update.
    pub old: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Pod,
    Claim,
    Service,
    DeviceClaim,
    ReplicationController,
    ReplicaSet,
    Deployment,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
    ConfigMap,
    ResourceQuota,
    Widget,
}

impl Kind {
    pub fn group_and_plural(self) -> (&'static str, &'static str) {
        match self {
            Self::Pod => ("", "pods"),
            Self::Claim => ("", "persistentvolumeclaims"),
            Self::Service => ("", "services"),
            Self::DeviceClaim => ("resource.k8s.io", "resourceclaims"),
            Self::ReplicationController => ("", "replicationcontrollers"),
            Self::ReplicaSet => ("apps", "replicasets"),
            Self::Deployment => ("apps", "deployments"),
            Self::StatefulSet => ("apps", "statefulsets"),
            Self::DaemonSet => ("apps", "daemonsets"),
            Self::Job => ("batch", "jobs"),
            Self::CronJob => ("batch", "cronjobs"),
            Self::ConfigMap => ("", "configmaps"),
            Self::ResourceQuota => ("", "resourcequotas"),
            Self::Widget => ("example.com", "widgets"),
        }
    }
}

impl Sent {
    pub fn review(&self) -> Value {
        let (group, resource) = self.kind.group_and_plural();
        json!({
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "name": "web", "namespace": "shop",
            "operation": if self.old.is_some() { "UPDATE" } else { "CREATE" }, "subResource": self.subresource,
            "resource": {"group": group, "version": "v1", "resource": resource},
            "userInfo": {"username": "author"}, "object": self.object, "oldObject": self.old,
        })
    }

    /// The same request with these fields instead of its own; null removes a field.
    pub fn with(mut self, fields: &Value) -> Self {
        merge(&mut self.object, fields);
        self
    }
}

fn merge(object: &mut Value, fields: &Value) {
    let Value::Object(fields) = fields else {
        *object = fields.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            object.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut object[name], value);
        }
    }
}

pub fn requests() -> impl Strategy<Value = Sent> {
    let pod = || (metadata(), pod_spec()).prop_map(|(metadata, spec)| json!({"metadata": metadata, "spec": spec}));
    let other_counted = prop::sample::select(vec![Kind::ConfigMap, Kind::ResourceQuota, Kind::Widget]);
    prop_oneof![
        4 => pod().prop_map(|pod| create(Kind::Pod, pod)),
        2 => (pod(), any::<bool>(), past()).prop_map(|(pod, is_bounded, past)| {
            let mut bounded = pod.clone();
            bounded["spec"]["activeDeadlineSeconds"] = json!(30);
            let (new, old) = if is_bounded { (bounded, pod) } else { (pod, bounded) };
            update(Kind::Pod, "", new, old, past)
        }),
        3 => (pod(), resources(), past()).prop_map(|(old, resources, past)| {
            let mut new = old.clone();
            new["spec"]["containers"][0]["resources"] = resources;
            update(Kind::Pod, "resize", new, old, past)
        }),
        2 => claim().prop_map(|claim| create(Kind::Claim, claim)),
        2 => (claim(), storage(), past()).prop_map(|(old, storage, past)| {
            let mut new = old.clone();
            new["spec"]["resources"]["requests"]["storage"] = json!(storage);
            update(Kind::Claim, "", new, old, past)
        }),
        1 => (claim(), past(), past()).prop_map(|(old, past, status)| {
            let mut new = old.clone();
            new["status"] = status;
            Sent { subresource: "status", ..update_with(Kind::Claim, new, old, past) }
        }),
        1 => service().prop_map(|service| create(Kind::Service, service)),
        3 => (service(), service()).prop_map(|(new, old)| update(Kind::Service, "", new, old, json!({}))),
        2 => device_claim().prop_map(|claim| create(Kind::DeviceClaim, claim)),
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
            update(Kind::Deployment, "scale", scale(new), scale(old), json!({"replicas": old}))
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
pub fn past() -> impl Strategy<Value = Value> {
    prop_oneof![Just(json!({})), prop::sample::select(statuses())]
}

/// Statuses of any kind, plausible or forged.
pub fn statuses() -> Vec<Value> {
    let small = json!({"cpu": "1m", "memory": "1"});
    let large = json!({"cpu": "64", "memory": "1Ti"});
    let of_container = |amounts: &Value| json!([{"name": "a", "allocatedResources": amounts, "resources": {"requests": amounts, "limits": amounts}}]);
    vec![
        json!({"phase": "Succeeded"}),
        json!({"phase": "Failed"}),
        json!({"phase": "Running", "qosClass": "BestEffort"}),
        json!({"qosClass": "Guaranteed"}),
        json!({
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
            "containerStatuses": of_container(&small),
        }),
        json!({"containerStatuses": of_container(&large)}),
        json!({"capacity": {"storage": "1"}, "allocatedResources": {"storage": "1Ti"}}),
        json!({"currentVolumeAttributesClassName": "fast"}),
        json!({"modifyVolumeStatus": {"targetVolumeAttributesClassName": "slow", "status": "Pending"}}),
        json!({"replicas": 9, "readyReplicas": 9, "currentNumberScheduled": 9, "desiredNumberScheduled": 9}),
        json!({"desiredNumberScheduled": 0}),
        json!({"active": 9, "succeeded": 9}),
        json!({"active": [{"name": "web-1"}]}),
        json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}),
        json!({"allocation": {"devices": {"results": []}}, "hard": {"pods": "0"}, "used": {"pods": "0"}}),
    ]
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

pub fn resources() -> impl Strategy<Value = Value> {
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
        Kind::ReplicationController,
        Kind::ReplicaSet,
        Kind::Deployment,
        Kind::StatefulSet,
        Kind::DaemonSet,
        Kind::Job,
        Kind::CronJob,
    ]);
    (kinds, metadata(), pod_spec(), 1..5_u32).prop_map(|(kind, metadata, pod, count)| {
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": pod});
        let job = json!({"parallelism": count, "completions": count, "template": template});
        let spec = match kind {
            Kind::Job => job,
            Kind::CronJob => json!({"schedule": "@daily", "jobTemplate": {"spec": job}}),
            Kind::DaemonSet => json!({"template": template}),
            _ => json!({"replicas": count, "template": template}),
        };
        (kind, json!({"metadata": metadata, "spec": spec}))
    })
}
