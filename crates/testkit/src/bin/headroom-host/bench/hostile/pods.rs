//! New pods: many or large parts, each valid by itself.

use serde_json::json;

use super::super::history;
use super::row::{
    FITTING, GREEDY, POD, Row, Rows, container, containers, defaults, fields, list, scoped_quota, string,
};

const CONTAINERS: &str = "object/spec/containers";
const ANNOTATIONS: &str = "object/metadata/annotations";
const MEGABYTE: usize = 1_000_000;

pub const ROWS: Rows = &[
    ("20,000 requests in a container", || pod(&one(&format!(r#"{{"requests":{}}}"#, amounts(20_000))))),
    ("20,000 limits in a container", || pod(&one(&format!(r#"{{"limits":{}}}"#, amounts(20_000))))),
    ("20,000 requests and 20,000 limits", || {
        let amounts = amounts(20_000);
        pod(&one(&format!(r#"{{"limits":{amounts},"requests":{amounts}}}"#)))
    }),
    ("20,000 requests and limits in opposite orders", || {
        let backwards = fields(20_000, |number| amount(19_999 - number));
        pod(&one(&format!(r#"{{"limits":{},"requests":{backwards}}}"#, amounts(20_000))))
    }),
    ("20,000 requests above their limits", || {
        let twice = fields(20_000, |number| format!(r#""example.com/r{number}":"2""#));
        pod(&one(&format!(r#"{{"limits":{},"requests":{twice}}}"#, amounts(20_000))))
    }),
    ("20,000 requests above limits that look like ours", to_repair),
    ("20,000 amounts at the pod level", || pod(&one("{}")).with("object/spec/resources/requests", amounts(20_000))),
    ("20,000 amounts at the pod level, before the containers'", || {
        pod(&one(&format!(r#"{{"requests":{}}}"#, last_amounts(20_000))))
            .with("object/spec/resources/requests", hugepages(20_000))
    }),
    ("20,000 limits before those at the pod level", || {
        pod(&one(&format!(r#"{{"limits":{}}}"#, hugepages(20_000))))
            .with("object/spec/resources/limits", last_amounts(20_000))
    }),
    ("20,000 amounts of overhead", || pod(&one("{}")).with("object/spec/overhead", amounts(20_000))),
    ("20,000 amounts of overhead before 20,000 requests", || {
        pod(&one(&format!(r#"{{"requests":{}}}"#, last_amounts(20_000)))).with("object/spec/overhead", amounts(20_000))
    }),
    ("5,000 containers that keep the bounds", || pod(&containers(5_000, FITTING))),
    ("5,000 containers that set nothing", || pod(&containers(5_000, "{}"))),
    ("5,000 containers beyond every bound", || pod(&containers(5_000, GREEDY))),
    ("5,000 containers that get defaults", || pod(&containers(5_000, "{}")).with_object(defaults())),
    ("5,000 containers of one name, that set nothing", || pod(&list(5_000, |_| container("web", "{}")))),
    ("5,000 containers of one name, that get defaults", || {
        pod(&list(5_000, |_| container("web", "{}"))).with_object(defaults())
    }),
    ("2,000 containers, each with 10 resources of its own", || {
        let own = |number: usize| fields(10, |which| amount(number * 10 + which));
        let resources = |number| format!(r#"{{"requests":{}}}"#, own(number));
        pod(&list(2_000, |number| container(&format!("c{number}"), &resources(number))))
    }),
    ("5,000 init containers beyond every bound", || {
        pod(&one("{}")).with("object/spec/initContainers", containers(5_000, GREEDY))
    }),
    ("5,000 sidecars beyond every bound", || {
        let sidecars = containers(5_000, &format!(r#"{GREEDY},"restartPolicy":"Always""#));
        pod(&one("{}")).with("object/spec/initContainers", sidecars)
    }),
    ("5,000 ephemeral containers", || {
        pod(&one("{}")).with("object/spec/ephemeralContainers", containers(5_000, GREEDY))
    }),
    ("a container's name of 4 MB", || pod(&long_name(FITTING))),
    ("a container's name of 4 MB, beyond every bound", || pod(&long_name(GREEDY))),
    ("a container's name of 4 MB, that gets defaults", || pod(&long_name("{}")).with_object(defaults())),
    ("a resource's name of 4 MB", || {
        pod(&one(&format!(r#"{{"requests":{{"example.com/{}":"1"}}}}"#, "r".repeat(4 * MEGABYTE))))
    }),
    ("a resource's name of 4 MB, beyond its limit", || {
        let name = "r".repeat(2 * MEGABYTE);
        let list = |amount| format!(r#"{{"example.com/{name}":"{amount}"}}"#);
        pod(&one(&format!(r#"{{"requests":{},"limits":{}}}"#, list(2), list(1))))
    }),
    ("a namespace's name of 4 MB", || {
        let name = string(&"n".repeat(4 * MEGABYTE));
        pod(&one(GREEDY)).with("namespace", name.clone()).with("object/metadata/namespace", name)
    }),
    ("a pod's name of 4 MB, beyond every bound", || {
        let name = string(&"n".repeat(4 * MEGABYTE));
        pod(&one(GREEDY)).with("name", name.clone()).with("object/metadata/name", name)
    }),
    ("a service account's name of 4 MB", || {
        pod(&one("{}"))
            .with("object/spec/serviceAccountName", string(&"a".repeat(4 * MEGABYTE)))
            .settings(json!({"estimates": {"mode": "never"}, "exempt": {"serviceAccounts": ["*/*a*b*c"]}}))
    }),
    ("a priority class's name of 4 MB", || {
        let selector = json!({"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "NotIn", "values": ["high"]},
        ]});
        pod(&one("{}"))
            .with("object/spec/priorityClassName", string(&"p".repeat(4 * MEGABYTE)))
            .with_object(scoped_quota("of-a-class", json!({"pods": "0"}), selector))
    }),
    ("50,000 variables in a container", || {
        let variables = list(50_000, |number| format!(r#"{{"name":"V{number}","value":"x"}}"#));
        pod(&one("{}").replace("\"image\"", &format!(r#""env":{variables},"image""#)))
    }),
    ("20,000 volumes", || {
        let volume = |number| format!(r#"{{"name":"v{number}","persistentVolumeClaim":{{"claimName":"c{number}"}}}}"#);
        pod(&one("{}")).with("object/spec/volumes", list(20_000, volume))
    }),
    ("10,000 resource claims", || {
        let claim = |number| format!(r#"{{"name":"c{number}","resourceClaimName":"claim-{number}"}}"#);
        pod(&one("{}")).with("object/spec/resourceClaims", list(10_000, claim))
    }),
    ("10,000 resource claims that a container names", || {
        let claim = |number| format!(r#"{{"name":"c{number}","resourceClaimTemplateName":"claim-{number}"}}"#);
        let named = list(10_000, |number| format!(r#"{{"name":"c{number}"}}"#));
        pod(&one(&format!(r#"{{"claims":{named}}}"#))).with("object/spec/resourceClaims", list(10_000, claim))
    }),
    ("5,000 containers that ask for devices of 5,000 classes", || {
        let resources = |number| {
            let amount = format!(r#"{{"deviceclass.resource.kubernetes.io/class-{number}":"1"}}"#);
            format!(r#"{{"requests":{amount},"limits":{amount}}}"#)
        };
        pod(&list(5_000, |number| container(&format!("c{number}"), &resources(number))))
    }),
    ("a quantity of 1 MB of digits", || quantity(&"7".repeat(MEGABYTE))),
    ("a quantity of 1 MB of digits after the point", || quantity(&format!("0.{}", "7".repeat(MEGABYTE)))),
    ("a quantity of 1 MB of zeros before its only digit", || quantity(&format!("{}1", "0".repeat(MEGABYTE)))),
    ("a quantity with an exponent of 1 MB", || quantity(&format!("1e{}", "9".repeat(MEGABYTE)))),
    ("20,000 quantities with large exponents", || exponents("1e", 99)),
    ("20,000 quantities with small exponents", || exponents("1e-", 99)),
    ("1,000 quantities of 1,000 digits", || {
        let digits = "7".repeat(1_000);
        let amounts = fields(1_000, |number| format!(r#""example.com/r{number}":"{digits}""#));
        pod(&one(&format!(r#"{{"limits":{amounts},"requests":{amounts}}}"#)))
    }),
    ("5,000 containers with quantities of 300 digits", || {
        let digits = "7".repeat(300);
        pod(&containers(5_000, &format!(r#"{{"requests":{{"cpu":"{digits}"}}}}"#)))
    }),
    ("100,000 annotations", || pod(&one("{}")).with(ANNOTATIONS, pairs(100_000))),
    ("100,000 labels", || pod(&one("{}")).with("object/metadata/labels", pairs(100_000))),
    ("a label's key of 4 MB", || pod(&one("{}")).with("object/metadata/labels", long_pair(MEGABYTE * 4, 1))),
    ("a label's value of 4 MB", || pod(&one("{}")).with("object/metadata/labels", long_pair(1, MEGABYTE * 4))),
    ("an annotation's key of 4 MB", || pod(&one("{}")).with(ANNOTATIONS, long_pair(MEGABYTE * 4, 1))),
    ("an annotation's value of 4 MB", || pod(&one("{}")).with(ANNOTATIONS, long_pair(1, MEGABYTE * 4))),
    ("20,000 labels, and selectors over them", || {
        let expression = |number: usize| json!({"key": format!("k{number}"), "operator": "In", "values": ["x"]});
        let selector = json!({"matchExpressions": [expression(19_999), {"key": "z", "operator": "Exists"}]});
        pod(&one("{}")).with("object/metadata/labels", pairs(20_000)).settings(json!({
            "estimates": {"mode": "never"}, "exempt": {"labels": selector},
            "limitRanges": {"rules": [
                {"name": "labelled", "podLabels": selector, "limits": [{"type": "Container", "max": {"cpu": "1"}}]},
            ]},
        }))
    }),
    ("LimitRanger's annotation, naming 5,000 containers", || {
        let notes = |number: usize| {
            format!("cpu, memory request for container c{number}; cpu, memory limit for container c{number}")
        };
        let notes: Vec<String> = (0..5_000).map(notes).collect();
        let notes = string(&format!("LimitRanger plugin set: {}", notes.join("; ")));
        pod(&containers(5_000, FITTING)).with(&annotation("kubernetes.io/limit-ranger"), notes)
    }),
    ("LimitRanger's annotation of 1 MB, of one name", || {
        let notes = "cpu request for container web; ".repeat(32_000);
        let notes = string(&format!("LimitRanger plugin set: {notes}"));
        pod(&one("{}")).with(&annotation("kubernetes.io/limit-ranger"), notes)
    }),
    ("LimitRanger's annotation of 1 MB, and a rule by a long image", || {
        let names = "cpu, ".repeat(MEGABYTE / 5);
        let notes = string(&format!("LimitRanger plugin set: {names}memory request for container web"));
        by_image(&one(r#"{"requests":{"cpu":"123m","memory":"1Mi"}}"#))
            .with(&annotation("kubernetes.io/limit-ranger"), notes)
    }),
    ("our annotation of 250 KB, naming 5,000 containers", || {
        let notes = fields(5_000, |number| format!(r#"\"c{number}\":{{\"requests.cpu\":\"200m: default\"}}"#));
        pod(&containers(5_000, FITTING)).with(&our_annotation(), string(&notes))
    }),
    ("our annotation of 250 KB, naming one container", || {
        let notes = fields(5_000, |_| r#"\"web\":{\"requests.cpu\":\"200m: default\"}"#.to_owned());
        pod(&one("{}")).with(&our_annotation(), string(&notes))
    }),
    ("our annotation of 250 KB, nested", || pod(&one("{}")).with(&our_annotation(), string(&"[".repeat(250_000)))),
    ("20,000 ownerReferences", || {
        let owner = |number: usize| {
            format!(
                r#"{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-{number}","uid":"u{number}","controller":true}}"#
            )
        };
        pod(&one("{}")).with("object/metadata/ownerReferences", list(20_000, owner))
    }),
    ("20,000 affinity terms", || {
        let term = |number: usize| {
            format!(r#"{{"topologyKey":"zone","labelSelector":{{"matchLabels":{{"app":"a{number}"}}}}}}"#)
        };
        let affinity = "object/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution";
        pod(&one("{}")).with(affinity, list(20_000, term)).with_object(across_namespaces())
    }),
    ("5,000 topology keys", || {
        let constraint = |number: usize| {
            format!(r#"{{"maxSkew":1,"topologyKey":"zone-{number}","whenUnsatisfiable":"ScheduleAnyway"}}"#)
        };
        pod(&one("{}")).with("object/spec/topologySpreadConstraints", list(5_000, constraint))
    }),
    ("1,000 images that have a history", || {
        let known = history::State::Warm { images: 1_000, namespaces: 5 };
        let row = pod(&images(1_000)).settings(json!({}));
        history::profiles(known, 1_000).into_iter().fold(row, Row::with_object)
    }),
    ("1,000 images without any history", || pod(&images(1_000)).settings(json!({}))),
    ("an image of 1 MB, and a pattern over it", || {
        let pattern = json!({
            "name": "images", "images": ["*a*b*c"], "limits": [{"type": "Container", "max": {"cpu": "1"}}],
        });
        let image = string(&format!("registry.example.com/{}", "ab".repeat(MEGABYTE / 2)));
        pod(&one("{}").replace("\"nginx\"", &image))
            .settings(json!({"estimates": {"mode": "never"}, "limitRanges": {"rules": [pattern]}}))
    }),
    ("an image of 1 MB, without any history", || {
        let image = string(&format!("registry.example.com/{}:1", "ab/".repeat(MEGABYTE / 3)));
        pod(&one("{}").replace("\"nginx\"", &image)).settings(json!({}))
    }),
    ("5,000 containers of one image, without any history", || pod(&containers(5_000, "{}")).settings(json!({}))),
];

fn pod(containers: &str) -> Row {
    Row::create(&POD).with(CONTAINERS, containers)
}

/// One container with these resources.
fn one(resources: &str) -> String {
    format!("[{}]", container("web", resources))
}

/// A pod with requests above limits that its annotation says are ours, so that they are repaired. Its cpu and memory
/// keep the bounds, so that the repair is written.
fn to_repair() -> Row {
    let list = |amount: u8| {
        let amounts = fields(20_000, |number| format!(r#""r{number:05}":"{amount}""#));
        amounts.replacen('{', r#"{"cpu":"100m","memory":"32Mi","#, 1)
    };
    let ours = fields(20_000, |number| format!(r#"\"limits.r{number:05}\":\"1\""#));
    pod(&one(&format!(r#"{{"limits":{},"requests":{}}}"#, list(1), list(2))))
        .with(&our_annotation(), string(&format!(r#"{{\"web\":{ours}}}"#)))
}

/// These containers with an image of 1,000 bytes, and a rule with a pattern for images.
fn by_image(containers: &str) -> Row {
    let rule = json!({
        "name": "images", "images": ["*a*b*c"], "limits": [{"type": "Container", "max": {"cpu": "1"}}],
    });
    let image = string(&format!("registry.example.com/{}", "ab".repeat(490)));
    pod(&containers.replace("\"nginx\"", &image))
        .settings(json!({"estimates": {"mode": "never"}, "limitRanges": {"rules": [rule]}}))
}

fn long_name(resources: &str) -> String {
    format!("[{}]", container(&"x".repeat(4 * MEGABYTE), resources))
}

fn images(count: usize) -> String {
    list(count, |number| {
        let image = history::known_image(number);
        container(&format!("c{number}"), "{}").replace("\"nginx\"", &string(&image))
    })
}

fn amount(number: usize) -> String {
    format!(r#""example.com/r{number}":"1""#)
}

pub fn amounts(count: usize) -> String {
    fields(count, amount)
}

/// Amounts that a pod may have for all its containers together; their names precede those of [`last_amounts`].
fn hugepages(count: usize) -> String {
    fields(count, |number| format!(r#""hugepages-{number:060}":"1""#))
}

fn last_amounts(count: usize) -> String {
    fields(count, |number| format!(r#""zz{number:060}":"1""#))
}

fn pairs(count: usize) -> String {
    fields(count, |number| format!(r#""k{number}":"v{number}""#))
}

/// One field with a key and a value of these lengths.
fn long_pair(key: usize, value: usize) -> String {
    format!(r#"{{"{}":"{}"}}"#, "k".repeat(key), "v".repeat(value))
}

fn quantity(text: &str) -> Row {
    pod(&one(&format!(r#"{{"requests":{{"cpu":"{text}"}},"limits":{{"cpu":"{text}"}}}}"#)))
}

fn exponents(before: &str, most: usize) -> Row {
    let amounts = fields(20_000, |number| format!(r#""example.com/r{number}":"{before}{}""#, number % most));
    pod(&one(&format!(r#"{{"limits":{amounts},"requests":{amounts}}}"#)))
}

/// The path of an annotation, whose key may contain a slash.
fn annotation(key: &str) -> String {
    format!("{ANNOTATIONS}/{}", key.replace('/', "~1"))
}

fn our_annotation() -> String {
    annotation("headroom.dev/resources")
}

/// A quota for pods with cross-namespace affinity.
fn across_namespaces() -> serde_json::Value {
    let selector = json!({"matchExpressions": [{"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}]});
    scoped_quota("across-namespaces", json!({"pods": "5"}), selector)
}
