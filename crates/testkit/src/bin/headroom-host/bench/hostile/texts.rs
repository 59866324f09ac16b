//! Texts that are hard to read: repeated, nested, escaped, of the wrong shape, or not JSON at all.
//!
//! Not all of them reach a policy behind a policy server, which parses a request and serializes it again.

use super::row::{self, CONFIG_MAP, POD, Row, Rows, containers, defaults, list, string};

pub const ROWS: Rows = &[
    ("20,000 times the same resource", || pod(WEB, &repeated(20_000, r#""cpu":"100m""#))),
    ("20,000 times `requests`", || {
        let requests = repeated(20_000, r#""requests":{"cpu":"100m"}"#);
        with_containers(format!(r#"[{{"name":"web","resources":{requests}}}]"#))
    }),
    ("20,000 times `containers`", || {
        Row::create(&POD).with("object/spec", repeated(20_000, r#""containers":[{"name":"web"}]"#))
    }),
    ("20,000 times `spec`", || {
        Row::create(&POD).with("object", repeated(20_000, r#""spec":{"containers":[{"name":"web"}]}"#))
    }),
    ("20,000 times `name` in metadata", || pod(WEB, "{}").with("object/metadata", repeated(20_000, r#""name":"web""#))),
    ("lists nested 1,000,000 deep, where nobody looks", || {
        pod(WEB, "{}").with("object/spec/nested", nested("[", "]", 1_000_000))
    }),
    ("lists nested 100 deep, 10,000 times", || {
        pod(WEB, "{}").with("object/spec/nested", list(10_000, |_| nested("[", "]", 100)))
    }),
    ("objects nested 200,000 deep, in place of containers", || with_containers(nested(r#"{"a":"#, "}", 200_000))),
    ("lists that are never closed", || with_containers("[".repeat(1_000_000))),
    ("managed fields nested 100,000 deep", || {
        pod(WEB, "{}").with("object/metadata/managedFields", nested(r#"[{"a":"#, "}]", 100_000))
    }),
    ("2 MB of managed fields", || {
        let manager =
            r#"{"manager":"kubectl","fieldsV1":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{}}}}}}"#;
        pod(WEB, "{}").with("object/metadata/managedFields", list(20_000, |_| manager.to_owned()))
    }),
    ("500,000 zeros in a list, where nobody looks", || {
        pod(WEB, "{}").with("object/spec/zeros", list(500_000, |_| "0".to_owned()))
    }),
    ("500,000 zeros in place of containers", || with_containers(list(500_000, |_| "0".to_owned()))),
    ("300,000 empty objects, where nobody looks", || {
        pod(WEB, "{}").with("object/spec/empty", list(300_000, |_| "{}".to_owned()))
    }),
    ("300,000 empty objects in place of containers", || with_containers(list(300_000, |_| "{}".to_owned()))),
    ("300,000 nulls in place of containers", || with_containers(list(300_000, |_| "null".to_owned()))),
    ("a string of 3 MB", || pod(WEB, "{}").with("object/spec/text", string(&"x".repeat(3_000_000)))),
    ("a string of 3 MB that is never closed", || {
        pod(WEB, "{}").with("object/spec/text", format!("\"{}", "x".repeat(3_000_000)))
    }),
    ("a string of 500,000 escapes, where nobody looks", || {
        pod(WEB, "{}").with("object/spec/text", string(&r"\u0000".repeat(500_000)))
    }),
    ("a container's name of 500,000 escapes", || pod(&r"\u0000".repeat(500_000), GREEDY)),
    ("a container's name of 1,000,000 quotes", || pod(&r#"\""#.repeat(1_000_000), GREEDY)),
    ("an object's name of 500,000 escapes", || {
        pod(WEB, GREEDY).with("object/metadata/name", string(&r"\u0000".repeat(500_000)))
    }),
    ("a quantity of 500,000 escapes", || pod(WEB, &format!(r#"{{"cpu":"{}"}}"#, r"\u0031".repeat(500_000)))),
    ("20,000 resources whose names are escaped", || {
        let names: Vec<String> =
            (0..20_000).map(|number| format!(r#""\u0065xample.com/r{number}":"\u0031""#)).collect();
        pod(WEB, &format!("{{{}}}", names.join(",")))
    }),
    ("a pod of 200 containers, all of it escaped", || {
        let spec = format!(r#"{{"containers":{}}}"#, containers(200, row::GREEDY));
        let object = format!(r#"{{"metadata":{{"name":"web","labels":{{"app":"web"}}}},"spec":{spec}}}"#);
        Row::create(&POD).with("object", escaped(&object))
    }),
    ("a pod of 200 containers, all of it escaped, that gets defaults", || {
        let spec = format!(r#"{{"containers":{}}}"#, containers(200, "{}"));
        Row::create(&POD)
            .with("object", escaped(&format!(r#"{{"metadata":{{"name":"web"}},"spec":{spec}}}"#)))
            .with_object(defaults())
    }),
    ("annotations whose keys are 500,000 escapes", || {
        pod(WEB, "{}").with("object/metadata/annotations", format!(r#"{{"{}":"x"}}"#, r"\u0000".repeat(500_000)))
    }),
    ("a number of 1 MB of digits", || pod(WEB, "{}").with("object/spec/priority", "7".repeat(1_000_000))),
    ("an amount that is a number of 1 MB of digits", || pod(WEB, &format!(r#"{{"cpu":{}}}"#, "7".repeat(1_000_000)))),
    ("3 MB of spaces", || pod(WEB, "{}").with("object/spec/space", format!("{}1", " ".repeat(3_000_000)))),
    ("3 MB of a ConfigMap", || {
        Row::create(&CONFIG_MAP).with("object/data", format!(r#"{{"file":"{}"}}"#, "x".repeat(3_000_000)))
    }),
];

const WEB: &str = "web";
const GREEDY: &str = r#"{"cpu":"2"}"#;

/// A pod with one container with these requests.
fn pod(name: &str, requests: &str) -> Row {
    with_containers(format!(r#"[{{"name":"{name}","resources":{{"requests":{requests}}}}}]"#))
}

fn with_containers(containers: String) -> Row {
    Row::create(&POD).with("object/spec/containers", containers)
}

/// An object that repeats one field.
fn repeated(times: usize, field: &str) -> String {
    format!("{{{}{field}}}", format!("{field},").repeat(times - 1))
}

/// The same JSON with every character of its strings escaped. It must have no escapes yet.
fn escaped(json: &str) -> String {
    let mut is_string = false;
    let written = json.chars().map(|character| {
        if character == '"' {
            is_string = !is_string;
        } else if is_string {
            return format!("\\u{:04x}", u32::from(character));
        }
        character.to_string()
    });
    written.collect()
}

fn nested(open: &str, close: &str, deep: usize) -> String {
    format!("{}0{}", open.repeat(deep), close.repeat(deep))
}

#[test]
fn escaped_json_means_the_same() {
    let json = r#"{"name":["web",7]}"#;
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert!(escaped(json).starts_with(r#"{"\u006e\u0061"#));
    assert_eq!(read(&escaped(json)), read(json));
}
