//! Arbitrary usage history, and a pod that needs estimates: the history is used or ignored, and the pod is admitted.

#![no_main]

use headroom_admission::json::Document;
use libfuzzer_sys::fuzz_target;

const REQUEST: &str = r#"{"uid":"1","namespace":"shop","name":"web","operation":"CREATE",
"kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},
"userInfo":{"username":"alice"},"object":{"metadata":{"name":"web","namespace":"shop"},"spec":{"containers":[
{"name":"web","image":"nginx:1.25"},{"name":"cache","image":"nginx:1.25","resources":{"limits":{"memory":"1Gi"}}}]}}}"#;
const SETTINGS: &str =
    r#"{"estimates":{"namespace":"headroom","mode":"always"}}"#;

fuzz_target!(|bytes: &[u8]| {
    let Ok(profile) = Document::read_bytes(bytes) else { return };
    let range = r#"{"items":[{"metadata":{"name":"a"},"spec":{"limits":[{"type":"Container","max":{"memory":"2Gi"},"min":{"cpu":"5m"}}]}}]}"#;
    let profile = profile.root().text();
    let cluster = format!(r#"{{"LimitRange":{range},"ResourceQuota":{{"items":[]}},"UsageProfile":{{"items":[{profile}]}}}}"#);
    let documents = [SETTINGS, &cluster].map(|text| Document::read(text).expect("made well formed"));
    let [settings, cluster] = documents.each_ref().map(Document::root);
    headroom_fuzz::check_request(REQUEST, settings, cluster);
});
