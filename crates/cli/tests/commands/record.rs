//! `record`: the policy replays a recording with the same outcome, and recordings have no confidential data.

use std::fs;
use std::path::Path;

use headroom_fixtures::host_call::answering;
use headroom_fixtures::session::Replay;
use serde_json::{Value, json};

use crate::support::*;

/// The policy's answer to a recording, which is replayed completely.
fn replay(folder: &Path, name: &str) -> Value {
    let read = |ending: &str| fs::read_to_string(folder.join(format!("{name}.{ending}")));
    let request: Value = serde_json::from_str(&read("request.json").unwrap()).unwrap();
    let settings: Value = read("settings.json").map_or_else(|_| json!({}), |text| serde_json::from_str(&text).unwrap());
    let mut session = Replay::from_yaml(&read("session.yml").unwrap()).unwrap();
    let payload = json!({"request": request, "settings": settings}).to_string();
    let answer = headroom_policy::validate(payload.as_bytes(), &mut answering(&mut session)).unwrap();
    assert_eq!(session.leftovers(), 0);
    serde_json::from_slice(&answer).unwrap()
}

#[test]
fn a_recording_is_replayed_by_the_policy() {
    let to = tempfile::tempdir().unwrap();
    let recording = to.path().to_str().unwrap();
    let arguments =
        ["record", "-f", "docs/examples/shop/app", "--cluster-dir", "docs/examples/shop/cluster", "--to", recording];
    let said = headroom(&root(), &arguments);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    snapshot("record.text", &said.out.replace(recording, "report"));
    let session = fs::read_to_string(to.path().join("pod-cache.session.yml")).unwrap();
    snapshot("record.session.yml", &session.replace(env!("CARGO_PKG_VERSION"), "VERSION"));
    let cache = replay(to.path(), "pod-cache");
    assert!(cache["message"].as_str().unwrap().contains("maximum memory usage per Container is 1Gi, but limit is 2Gi"));
    let migrate = replay(to.path(), "pod-migrate");
    assert_eq!(migrate["mutated_object"]["spec"]["containers"][0]["resources"]["limits"]["cpu"], "750m");
    let web = replay(to.path(), "deployment-web");
    assert!(web["warnings"][0].as_str().unwrap().contains("4 of 6 replicas fit"));
}

#[test]
fn settings_and_unreadable_objects_are_recorded_too() {
    let settings = "exempt: {namespaceLabels: {matchLabels: {tier: it's}}}\n";
    let to = folder(&[("settings.yaml", settings), ("app.yaml", &pod("a", "{limits: {memory: 2Gi}}"))]);
    let said = headroom(
        to.path(),
        &["record", "-f", "app.yaml", "--offline", "--settings", "settings.yaml", "--to", "my report"],
    );
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("--settings-path 'my report/pod-a.settings.json'"), "{}", said.out);
    let answer = replay(&to.path().join("my report"), "pod-a");
    // The namespace is unknown here, and the policy does not guess.
    assert_eq!(answer["accepted"], false);
    assert!(answer["message"].as_str().unwrap().contains("Namespace"), "{answer}");
}

#[test]
fn nothing_confidential_is_recorded_or_printed() {
    const SECRET: &str = "hunter2";
    let with_variable = pod("a", "{}").replace("image: app", "image: app, env: [{name: PASSWORD, value: hunter2}]");
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop, annotations: {kubectl.kubernetes.io/last-applied-configuration: hunter2}}\n\
                  stringData: {password: hunter2}\n";
    // The policy reads a part of both.
    let namespace =
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, annotations: {vault.example/token: hunter2}}\n";
    let pod_of_claim = with_variable.replace("name: a,", "name: old, uid: u,");
    let claim = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c, namespace: shop, annotations: \
                 {resource.kubernetes.io/extended-resource-claim: \"true\"}, ownerReferences: [{apiVersion: v1, kind: Pod, \
                 name: old, uid: u, controller: true}]}\nspec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}], \
                 config: [{opaque: {driver: d, parameters: {key: hunter2}}}]}}\n";
    let folder = folder(&[
        ("app.yaml", &(with_variable.clone() + "---\n" + secret + "---\n" + claim)),
        ("cluster/namespace.yaml", namespace),
        ("cluster/pod.yaml", &pod_of_claim),
        ("cluster/q.yaml", &quota("team", "{secrets: 5, pods: 5, gpu.deviceclass.resource.k8s.io/devices: 5}")),
    ]);
    for command in [
        &["record", "-f", "app.yaml", "--cluster-dir", "cluster", "--to", "report"][..],
        &["check", "-f", "app.yaml", "--cluster-dir", "cluster", "-o", "json"],
        &["why", "-f", "app.yaml", "--cluster-dir", "cluster", "-o", "json"],
    ] {
        let said = headroom(folder.path(), command);
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(!said.out.contains(SECRET) && !said.err.contains(SECRET), "{command:?}");
    }
    let written: Vec<_> =
        fs::read_dir(folder.path().join("report")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(written.len(), 9);
    for file in written {
        assert!(!fs::read_to_string(&file).unwrap().contains(SECRET), "{}", file.display());
    }
    for recording in ["pod-a", "secret-s", "resourceclaim-c"] {
        assert_eq!(replay(&folder.path().join("report"), recording)["accepted"], true, "{recording}");
    }
}
