//! The hostile rows: every place of a request or of its namespace that a user can fill, each filled with a great many
//! small parts and with one long part.
//!
//! A row fills several places at once where the decision reads all of them. Rows whose pod is admitted, changed and
//! refused are apart, because each takes another way through the policy.

use serde_json::{Value, json};

use super::super::history;
use super::row::{
    CLAIM, CONFIG_MAP, DEPLOYMENT, DEVICE_CLAIM, FITTING, GREEDY, POD, Row, SERVICE, STATEFUL_SET, container, defaults,
    fields, limit_range, list, scoped_quota, string,
};

/// The content of a place.
#[derive(Debug, Clone, Copy)]
pub enum Size {
    /// With this many parts.
    Many(usize),
    /// With one part of this many bytes.
    Long(usize),
}

use Size::{Long, Many};

/// A name, the sizes to try, and what makes the row of a size.
pub type Place = (&'static str, &'static [Size], fn(Size) -> Row);

/// Shapes of which parts multiply: the cost of a pair of them is bounded, and beyond so many pairs nothing is evaluated. The last
/// size of each makes a request of about 1 MB.
pub const PRODUCTS: &[Place] = &[
    ("containers times names of a LimitRange", &[Many(85), Many(200), Many(8_000)], |size| {
        pod(&size.list(|name| container(name, "{}"))).with_object(limit_range("names", json!([size.default_names()])))
    }),
    ("containers of a workload times names of a LimitRange", &[Many(85), Many(200), Many(8_000)], |size| {
        updated_deployment(size).with_object(limit_range("names", json!([size.default_names()])))
    }),
    ("containers times LimitRanges", &[Many(90), Many(120), Many(3_000)], |size| {
        let items = json!([{"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "1500m"}}]);
        with_ranges(pod(&size.list(|name| container(name, GREEDY))), size, &items)
    }),
    ("containers times a quarter of their bytes", &[Many(8_000)], |size| {
        let names = Many(9).default_names();
        pod(&size.list(|name| container(name, "{}"))).with_object(limit_range("names", json!([names])))
    }),
    ("containers times rules", &[Many(90), Many(120), Many(3_000)], |size| {
        pod(&images(size)).settings(by_image(size.names()))
    }),
    ("containers times quotas that want their values", &[Many(120), Many(3_000)], |size| {
        let hard = json!({"requests.cpu": "1", "limits.memory": "1"});
        with_quotas(pod(&size.list(|name| container(name, "{}"))), size, &hard)
    }),
    ("claims of a StatefulSet times LimitRanges", &[Many(120), Many(3_000)], |size| {
        with_ranges(stateful_set(size), size, &json!([{"type": "PersistentVolumeClaim", "max": {"storage": "1Mi"}}]))
    }),
];

/// Each place by name, with its sizes. Small parts are as many as make a request of 1 to 3 MB.
pub const PLACES: &[Place] = &[
    ("amounts of a container, in opposite orders", &[Many(20_000), Long(1_000_000)], |size| {
        let (one, other) = (size.amounts("1"), size.backwards("1"));
        pod(&alone(&format!(r#"{{"requests":{one},"limits":{other}}}"#))).with("object/spec/overhead", one)
    }),
    ("requests above their limits", &[Many(20_000), Long(1_000_000)], |size| {
        pod(&alone(&format!(r#"{{"requests":{},"limits":{}}}"#, size.amounts("2"), size.amounts("1"))))
    }),
    ("requests above limits that look like ours", &[Many(20_000)], |size| to_repair(size.count())),
    ("amounts at the pod level, before the containers'", &[Many(20_000)], |size| {
        let hugepages = size.fields(|name| format!(r#""hugepages-{name:0>60}":"1""#));
        let last = size.fields(|name| format!(r#""zz{name:0>60}":"1""#));
        pod(&alone(&format!(r#"{{"requests":{last},"limits":{hugepages}}}"#)))
            .with("object/spec/resources/requests", hugepages)
            .with("object/spec/resources/limits", last)
    }),
    ("containers with resources of their own", &[Many(2_000)], |size| {
        let own = |name: &str| fields(10, |which| format!(r#""example.com/{name}-{which}":"1""#));
        let devices = |name: &str| format!(r#""deviceclass.resource.kubernetes.io/{name}":"1""#);
        pod(&size.list(|name| {
            let (own, devices) = (own(name), devices(name));
            container(
                name,
                &format!(r#"{{"requests":{},{devices}}},"limits":{{{devices}}}}}"#, own.trim_end_matches('}')),
            )
        }))
    }),
    ("containers that keep the bounds, and annotations about them", &[Many(5_000), Long(1_000_000)], |size| {
        let noted = size.texts("; ", |name| {
            format!("cpu, memory request for container {name}; cpu, memory limit for container {name}")
        });
        let ours = size.fields(|name| format!(r#"\"{name}\":{{\"requests.cpu\":\"200m: default\"}}"#));
        pod(&size.list(|name| container(name, FITTING)))
            .with(&annotation("kubernetes.io/limit-ranger"), string(&format!("LimitRanger plugin set: {noted}")))
            .with(&annotation("headroom.dev/resources"), string(&ours))
    }),
    ("containers that get defaults", &[Many(5_000), Long(3_000_000)], |size| {
        pod(&size.list(|name| container(name, "{}"))).with_object(defaults())
    }),
    ("containers of one name that get defaults", &[Many(5_000)], |size| {
        pod(&size.list(|_| container("web", "{}"))).with_object(defaults())
    }),
    ("containers of every kind beyond every bound", &[Many(2_000), Long(1_000_000)], |size| {
        let greedy = size.list(|name| container(name, GREEDY));
        let sidecars = size.list(|name| container(name, &format!(r#"{GREEDY},"restartPolicy":"Always""#)));
        pod(&greedy)
            .with("object/spec/initContainers", sidecars)
            .with("object/spec/ephemeralContainers", greedy)
            .with("object/metadata/name", string(&size.text()))
    }),
    ("containers that are resized, in opposite orders", &[Many(5_000), Long(300_000)], resize),
    ("containers of a workload beyond every bound, updated", &[Many(5_000), Long(1_000_000)], updated_deployment),
    ("images, and a pattern over them", &[Many(5_000), Long(1_000_000)], |size| {
        pod(&images(size)).settings(by_image(vec!["images".to_owned()]))
    }),
    ("images without any history", &[Many(1_000), Long(1_000_000)], |size| pod(&images(size)).settings(json!({}))),
    ("images that have a history", &[Many(1_000)], |size| {
        let images = list(size.count(), |number| {
            with_image(&container(&format!("c{number}"), "{}"), &history::known_image(number))
        });
        let known = history::State::Warm { images: size.count(), namespaces: 5 };
        let row = pod(&images).settings(json!({}));
        history::profiles(known, size.count()).into_iter().fold(row, Row::with_object)
    }),
    ("digits of quantities", &[Many(1_000), Long(1_000_000)], |size| {
        let digits = if let Long(length) = size { "7".repeat(length) } else { "7".repeat(1_000) };
        let amounts = fields(size.count(), |number| format!(r#""example.com/r{number}":"{digits}""#));
        pod(&alone(&format!(r#"{{"limits":{amounts},"requests":{amounts}}}"#)))
    }),
    ("exponents of quantities", &[Many(20_000), Long(1_000_000)], |size| {
        let exponent = |number: usize| match size {
            Many(_) => format!("1e{}", number % 99),
            Long(length) => format!("1e{}", "9".repeat(length)),
        };
        let amounts = fields(size.count(), |number| format!(r#""example.com/r{number}":"{}""#, exponent(number)));
        pod(&alone(&format!(r#"{{"limits":{amounts},"requests":{amounts}}}"#)))
    }),
    ("labels, annotations and names, with selectors over them", &[Many(20_000), Long(500_000)], |size| {
        let selector = json!({"matchExpressions": [
            {"key": "k", "operator": "In", "values": ["x"]}, {"key": "z", "operator": "Exists"},
        ]});
        let pairs = size.fields(|name| format!(r#""{name}":"{name}""#));
        let of_class = json!({"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "NotIn", "values": ["high"]},
            {"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"},
        ]});
        let row = pod(&alone("{}"))
            .with("object/metadata/labels", pairs.clone())
            .with("object/metadata/annotations", pairs)
            .with("object/spec/serviceAccountName", string(&size.text()))
            .with("object/spec/priorityClassName", string(&size.text()))
            .with("userInfo/username", string(&format!("system:serviceaccount:default:{}", size.text())))
            .with("userInfo/groups", size.list(string));
        row.with_object(scoped_quota("of-a-class", json!({"pods": "5"}), of_class)).settings(json!({
            "estimates": {"mode": "never"},
            "exempt": {"labels": selector, "serviceAccounts": ["*/*a*b*c"]},
            "limitRanges": {"rules": [
                {"name": "labelled", "podLabels": selector, "limits": [{"type": "Container", "max": {"cpu": "1"}}]},
            ]},
        }))
    }),
    ("volumes, claims, owners and terms of a pod", &[Many(5_000), Long(300_000)], |size| {
        let affinity = "object/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution";
        let claims = size.list(|name| format!(r#"{{"name":"{name}"}}"#));
        let variables = size.list(|name| format!(r#"{{"name":"{name}","value":"x"}}"#));
        let named = container("web", &format!(r#"{{"claims":{claims}}},"env":{variables}"#));
        let across = json!({"matchExpressions": [{"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}]});
        pod(&format!("[{named}]"))
            .with(
                "object/spec/volumes",
                size.list(|name| format!(r#"{{"name":"v","persistentVolumeClaim":{{"claimName":"{name}"}}}}"#)),
            )
            .with(
                "object/spec/resourceClaims",
                size.list(|name| format!(r#"{{"name":"{name}","resourceClaimTemplateName":"{name}"}}"#)),
            )
            .with(
                "object/metadata/ownerReferences",
                size.list(|name| {
                    format!(r#"{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"{name}","controller":true}}"#)
                }),
            )
            .with(
                affinity,
                size.list(|name| {
                    format!(r#"{{"topologyKey":"{name}","labelSelector":{{"matchLabels":{{"app":"a"}}}}}}"#)
                }),
            )
            .with_object(scoped_quota("across-namespaces", json!({"pods": "5"}), across))
    }),
    ("ports of a service that swap their node ports", &[Many(10_000), Long(1_000_000)], |size| {
        let ports = |node_port: &dyn Fn(usize) -> usize| {
            let names = size.names();
            list(names.len(), |number| {
                format!(
                    r#"{{"name":"{}","port":{number},"nodePort":{}}}"#,
                    names.get(number).map_or("", String::as_str),
                    node_port(number)
                )
            })
        };
        let spec =
            |ports| format!(r#"{{"type":"LoadBalancer","allocateLoadBalancerNodePorts":false,"ports":{ports}}}"#);
        Row::update(&SERVICE, "")
            .with("object/spec", spec(ports(&|number| 39_999 - number)))
            .with("oldObject/spec", spec(ports(&|number| 30_000 + number)))
    }),
    ("resources of a claim, updated in the opposite order", &[Many(20_000), Long(1_000_000)], |size| {
        Row::update(&CLAIM, "")
            .with("object/spec/resources/requests", size.amounts("1"))
            .with("oldObject/spec/resources/requests", size.backwards("1"))
    }),
    ("claims of a StatefulSet", &[Many(5_000)], stateful_set),
    ("devices of a resource claim, each of its own class", &[Many(5_000), Long(1_000_000)], |size| {
        let device = |name: &str| format!(r#"{{"name":"{name}","exactly":{{"deviceClassName":"{name}","count":1}}}}"#);
        Row::create(&DEVICE_CLAIM).with("object/spec/devices/requests", size.list(device))
    }),
    ("a ConfigMap's data", &[Many(50_000), Long(3_000_000)], |size| {
        Row::create(&CONFIG_MAP).with("object/data", size.fields(|name| format!(r#""{name}":"v""#)))
    }),
    ("LimitRanges", &[Many(2_000)], |size| {
        let items = json!([{"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "1", "memory": "1Gi"}}]);
        with_ranges(pod(&alone(GREEDY)), size, &items)
    }),
    ("items and resources of a LimitRange", &[Many(5_000)], |size| {
        let bounds: Value = size.names().into_iter().map(|name| (format!("example.com/{name}"), json!("1"))).collect();
        let items: Vec<Value> =
            size.names().iter().map(|_| json!({"type": "Container", "max": {"cpu": "1"}})).collect();
        pod(&alone(GREEDY))
            .with_object(limit_range("items", json!(items)))
            .with_object(limit_range("resources", json!([{"type": "Container", "min": bounds, "max": bounds}])))
    }),
    ("quotas that are exceeded", &[Many(2_000)], |size| {
        let hard = json!({"pods": "1", "requests.cpu": "1500m", "limits.memory": "100Gi"});
        with_quotas(pod(&alone(GREEDY)), size, &hard)
    }),
    ("a repeated field", &[Many(10_000)], |size| {
        let repeated = |field: &str| size.texts(",", |_| field.to_owned());
        let requests = repeated(r#""cpu":"100m""#);
        let others = repeated(&format!(r#""containers":{}"#, alone("{}")));
        let last = format!(r#""containers":{}"#, alone(&format!(r#"{{"requests":{{{requests}}}}}"#)));
        Row::create(&POD)
            .with("object/metadata", format!("{{{}}}", repeated(r#""name":"web""#)))
            .with("object/spec", format!("{{{others},{last}}}"))
    }),
    ("nested lists", &[Many(10_000), Long(1_000_000)], |size| match size {
        Many(count) => pod(&alone("{}")).with("object/spec/nested", list(count, |_| nested(100))),
        Long(depth) => pod(&nested(depth)),
    }),
    ("wrong values in place of containers", &[Many(300_000)], |size| pod(&list(size.count(), |_| "{}".to_owned()))),
    ("blanks, numbers and unclosed strings", &[Long(1_000_000)], |size| {
        let length = size.text().len();
        pod(&alone("{}"))
            .with("object/spec/space", format!("{}1", " ".repeat(length)))
            .with("object/spec/priority", "7".repeat(length))
            .with("object/zzz", format!("\"{}", size.text()))
    }),
    ("escapes", &[Many(20_000), Long(100_000)], |size| {
        let escapes = r"\u0000".repeat(size.text().len());
        let amounts = size.fields(|name| format!(r#""\u0065xample.com/{name}":"\u0031""#));
        Row::create(&POD)
            .with("object/metadata/name", string(&escapes))
            .with("object/metadata/annotations", format!(r#"{{"{escapes}":"x"}}"#))
            .with("object/spec/containers", format!(r#"[{{"name":"{escapes}","resources":{{"requests":{amounts}}}}}]"#))
    }),
];

impl Size {
    pub fn name(self) -> String {
        match self {
            Many(count) => format!("{count} parts"),
            Long(length) => format!("{} KB", length / 1_000),
        }
    }

    fn count(self) -> usize {
        if let Many(count) = self { count } else { 1 }
    }

    /// A long text, or a short one.
    fn text(self) -> String {
        if let Long(length) = self { "x".repeat(length) } else { "x".to_owned() }
    }

    fn names(self) -> Vec<String> {
        (0..self.count()).map(|number| format!("{}{number}", self.text())).collect()
    }

    fn texts(self, separator: &str, item: impl Fn(&str) -> String) -> String {
        self.names().iter().map(|name| item(name)).collect::<Vec<_>>().join(separator)
    }

    fn list(self, item: impl Fn(&str) -> String) -> String {
        format!("[{}]", self.texts(",", item))
    }

    fn fields(self, field: impl Fn(&str) -> String) -> String {
        format!("{{{}}}", self.texts(",", field))
    }

    fn amounts(self, amount: &str) -> String {
        self.fields(|name| format!(r#""example.com/{name}":"{amount}""#))
    }

    /// A container's item with so many default requests and limits.
    fn default_names(self) -> Value {
        let amounts: Value = self.names().into_iter().map(|name| (format!("example.com/{name}"), json!("1"))).collect();
        json!({"type": "Container", "default": amounts, "defaultRequest": amounts})
    }

    /// The same in the opposite order.
    fn backwards(self, amount: &str) -> String {
        let names = self.names();
        let backwards = names.iter().rev().map(|name| format!(r#""example.com/{name}":"{amount}""#));
        format!("{{{}}}", backwards.collect::<Vec<_>>().join(","))
    }
}

fn pod(containers: &str) -> Row {
    Row::create(&POD).with("object/spec/containers", containers)
}

fn updated_deployment(size: Size) -> Row {
    Row::update(&DEPLOYMENT, "")
        .with("object/spec/template/spec/containers", size.list(|name| container(name, GREEDY)))
        .with("oldObject/spec/template/spec/containers", size.list(|name| container(name, "{}")))
}

fn with_ranges(row: Row, size: Size, items: &Value) -> Row {
    size.names().iter().fold(row, |row, name| row.with_object(limit_range(name, items.clone())))
}

fn with_quotas(row: Row, size: Size, hard: &Value) -> Row {
    size.names().iter().fold(row, |row, name| row.with_object(scoped_quota(name, hard.clone(), Value::Null)))
}

fn stateful_set(size: Size) -> Row {
    let claim = |name: &str| {
        format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{"resources":{{"requests":{{"storage":"1Gi"}}}}}}}}"#)
    };
    Row::create(&STATEFUL_SET)
        .with("object/spec/template/spec/containers", alone("{}"))
        .with("object/spec/volumeClaimTemplates", size.list(claim))
}

/// The list of one container with these resources.
fn alone(resources: &str) -> String {
    format!("[{}]", container("web", resources))
}

fn images(size: Size) -> String {
    size.list(|name| with_image(&container("web", "{}"), &format!("registry.example.com/{name}:1")))
}

fn with_image(container: &str, image: &str) -> String {
    container.replace("\"nginx\"", &string(image))
}

/// Settings with rules of these names.
fn by_image(names: Vec<String>) -> Value {
    let limits = json!([{"type": "Container", "max": {"cpu": "1"}}]);
    let rule = |name: String| json!({"name": name, "images": ["*a*b*c"], "limits": limits});
    let rules: Vec<Value> = names.into_iter().map(rule).collect();
    json!({"estimates": {"mode": "never"}, "limitRanges": {"rules": rules}})
}

/// A pod with requests above limits that its annotation says are ours, so that they are repaired. Its cpu and memory
/// keep the bounds, so that the repair is written.
fn to_repair(count: usize) -> Row {
    let list = |amount: u8| {
        let amounts = fields(count, |number| format!(r#""r{number:05}":"{amount}""#));
        amounts.replacen('{', r#"{"cpu":"100m","memory":"32Mi","#, 1)
    };
    let ours = fields(count, |number| format!(r#"\"limits.r{number:05}\":\"1\""#));
    pod(&alone(&format!(r#"{{"limits":{},"requests":{}}}"#, list(1), list(2))))
        .with(&annotation("headroom.dev/resources"), string(&format!(r#"{{\"web\":{ours}}}"#)))
}

/// A resize of containers that were in the opposite order, with the kubelet's statuses of them.
fn resize(size: Size) -> Row {
    let larger = r#"{"requests":{"cpu":"150m","memory":"64Mi"},"limits":{"cpu":"150m","memory":"64Mi"}}"#;
    let old: Vec<String> = size.names().iter().rev().map(|name| container(name, FITTING)).collect();
    let status = |name: &str| {
        format!(
            r#"{{"name":"{name}","allocatedResources":{{"cpu":"100m","memory":"32Mi"}},"resources":{{"requests":{{"cpu":"100m"}}}}}}"#
        )
    };
    let condition = |_: &str| r#"{"type":"PodResizePending","status":"True","reason":"Deferred"}"#.to_owned();
    let (statuses, conditions) = (size.list(status), size.list(condition));
    let status = format!(r#"{{"phase":"Running","containerStatuses":{statuses},"conditions":{conditions}}}"#);
    Row::update(&POD, "resize")
        .with("object/spec/containers", size.list(|name| container(name, larger)))
        .with("oldObject/spec/containers", format!("[{}]", old.join(",")))
        .with("object/status", status.clone())
        .with("oldObject/status", status)
}

/// The path of an annotation, whose key may contain a slash.
fn annotation(key: &str) -> String {
    format!("object/metadata/annotations/{}", key.replace('/', "~1"))
}

fn nested(depth: usize) -> String {
    format!("{}0{}", "[".repeat(depth), "]".repeat(depth))
}
