#![expect(clippy::unwrap_used, reason = "scratch")]
use headroom_testkit::fuel::{Evaluation, Meter};
use std::sync::Arc;
#[test]
fn scratch() {
    let wasm = std::fs::read(std::env::var("WASM").unwrap_or("policy.wasm".into())).unwrap();
    let meter = Meter::of_fuel(&wasm).unwrap();
    let run = |name: &str, op: &str, payload: String| {
        let m = meter
            .measure(&Arc::new(Evaluation {
                operation: op.into(),
                payload: payload.clone().into_bytes(),
                exchanges: vec![],
            }))
            .unwrap();
        println!("{name:30} {:6} bytes {:8} fuel", payload.len(), m.fuel);
    };
    run("protocol", "protocol_version", String::new());
    run("empty", "validate", "".into());
    run("bad", "validate", "{}".into());
    let req = |extra: String| {
        format!(
            "{{\"request\":{{\"uid\":\"x\",\"operation\":\"DELETE\",\"resource\":{{\"group\":\"\",\"resource\":\"pods\"}},\"namespace\":\"a\",\"object\":{extra}}}}}"
        )
    };
    run("delete", "validate", req("{}".into()));
    for n in [0, 1, 2, 3, 10, 20, 50, 100, 200, 400] {
        run(&format!("nums {n}"), "validate", req(format!("[{}]", vec!["12345"; n].join(","))));
    }
    for n in [10, 20, 50, 100, 200, 400] {
        run(&format!("spaces {n}"), "validate", req(format!("[{}]", " ".repeat(n))));
    }
    run("delete+1000 string", "validate", req(format!("{{\"a\":\"{}\"}}", "x".repeat(1000))));
    run("delete+100x10 strings", "validate", req(format!("[{}]", vec!["\"abcdefgh\""; 100].join(","))));
    run("delete+100 fields", "validate", req(format!("{{{}}}", vec!["\"abcdef\":\"abcdefgh\""; 100].join(","))));
    run("delete+100 objs", "validate", req(format!("[{}]", vec!["{}"; 100].join(","))));
    run("delete+100 nums", "validate", req(format!("[{}]", vec!["12345"; 100].join(","))));
    for n in ["pod-create-plain", "pod-delete"] {
        let t = std::fs::read_to_string(format!("test_data/requests/{n}.json")).unwrap();
        let v: serde_json::Value = serde_json::from_str(&t).unwrap();
        let p = serde_json::json!({"settings":{"limitRanges":{"mode":"off"}},"request":v["request"]}).to_string();
        run(n, "validate", p);
    }
}
