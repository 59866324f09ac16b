//! Namespaces with a great many LimitRanges and quotas, which only users with the right to write these can create. The
//! requests are ordinary.

use serde_json::{Value, json};

use super::row::{CLAIM, FITTING, GREEDY, POD, Row, Rows, containers, defaults, limit_range, scoped_quota};

pub const ROWS: Rows = &[
    ("2,000 LimitRanges that are kept", || with(FITTING, 2_000, range)),
    ("2,000 LimitRanges that are broken", || with(GREEDY, 2_000, range)),
    ("2,000 LimitRanges with defaults", || with("{}", 2_000, |_| defaults())),
    ("a LimitRange of 5,000 items", || {
        let items: Vec<Value> = (0..5_000).map(|_| json!({"type": "Container", "max": {"cpu": "1"}})).collect();
        pod(GREEDY).with_object(limit_range("items", json!(items)))
    }),
    ("a LimitRange of 5,000 resources", || {
        let bounds: serde_json::Map<_, _> =
            (0..5_000).map(|number| (format!("example.com/r{number}"), json!("1"))).collect();
        pod(GREEDY).with_object(limit_range("resources", json!([{"type": "Container", "min": bounds, "max": bounds}])))
    }),
    ("2,000 quotas that have room", || with(FITTING, 2_000, |number| quota(number, "100"))),
    ("2,000 quotas that are exceeded", || with(GREEDY, 2_000, |number| quota(number, "1"))),
    ("2,000 quotas that a claim does not concern", || {
        let claim = Row::create(&CLAIM).with("object/spec/resources/requests", r#"{"storage":"1Gi"}"#);
        (0..2_000).fold(claim, |row, number| row.with_object(quota(number, "100")))
    }),
    ("a quota of 5,000 resources", || {
        let hard: serde_json::Map<_, _> =
            (0..5_000).map(|number| (format!("requests.example.com/r{number}"), json!("5"))).collect();
        pod(GREEDY).with_object(scoped_quota("resources", json!(hard), Value::Null))
    }),
];

fn pod(resources: &str) -> Row {
    Row::create(&POD).with("object/spec/containers", containers(1, resources))
}

fn with(resources: &str, count: usize, object: fn(usize) -> Value) -> Row {
    (0..count).fold(pod(resources), |row, number| {
        let mut object = object(number);
        if let Some(name) = object.pointer_mut("/metadata/name") {
            *name = json!(format!("object-{number}"));
        }
        row.with_object(object)
    })
}

fn range(_: usize) -> Value {
    limit_range("range", json!([{"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "1", "memory": "1Gi"}}]))
}

fn quota(number: usize, pods: &str) -> Value {
    let hard = json!({"pods": pods, "requests.cpu": "1500m", "limits.memory": "100Gi"});
    scoped_quota(&format!("quota-{number}"), hard, Value::Null)
}
