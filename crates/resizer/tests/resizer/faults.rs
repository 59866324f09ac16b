//! Rounds of two leaders against the fake API server, which is slow, fails, loses answers, and has a slow kubelet.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may stop")]

use std::sync::Arc;

use headroom_api_server::api_client::ApiClient;
use headroom_api_server::api_path::ApiPath;
use headroom_api_server::derived_name::derived_name;
use headroom_fixtures::api_server::{ApiServer, Kubelet, Outcome, status};
use headroom_resizer::decision::{Amounts, ComputeResource, Mode, Readiness, Rules, Time, Used, Workload};
use headroom_resizer::{ContainerFacts, Round, RoundError, RoundOutcome, observed};
use headroom_workloads::WorkloadRef;
use serde_json::{Value, json};

const NOW: Time = 1_795_000_000;
const DAY: Time = 86_400;
const MI: u64 = 1 << 20;

fn pod(place: usize) -> Value {
    let resources = json!({"requests": {"cpu": "1", "memory": "900Mi"}, "limits": {"memory": "1Gi"}});
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "shop", "name": format!("web-{place}"), "generation": 1},
        "spec": {"nodeName": "a", "containers": [{"name": "app", "image": "nginx", "resources": resources}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn cluster(pods: usize, server: Arc<ApiServer>) -> Arc<ApiServer> {
    (0..pods).for_each(|place| {
        server.put(pod(place));
        server.kubelet(&path(place), Kubelet::Done);
    });
    server
}

fn refuse_resizes(server: &ApiServer, code: u16, message: &'static str) {
    server.on_request(move |request| match request.path.ends_with("/resize") {
        true => status(code, message).into(),
        false => Outcome::Serve,
    });
}

fn path(place: usize) -> String {
    format!("/api/v1/namespaces/shop/pods/web-{place}")
}

fn client(server: &Arc<ApiServer>) -> ApiClient {
    let server = Arc::clone(server);
    let service = tower::service_fn(move |request| Arc::clone(&server).answer(request));
    ApiClient::new(kube::Client::new(service, "default"))
}

/// A calm cluster with one pod.
fn alone() -> (Arc<ApiServer>, ApiClient) {
    let server = cluster(1, ApiServer::new());
    let api = client(&server);
    (server, api)
}

async fn round(api: &ApiClient, now: Time) -> Result<RoundOutcome, RoundError> {
    let amounts = |cpu, memory: u64| Amounts { cpu: Some(cpu), memory: Some(memory * MI) };
    let known = |_: &str| ContainerFacts {
        wanted: amounts(200, 300),
        is_evident: ComputeResource::ALL.to_vec(),
        days: 30,
        floor: amounts(0, 310),
        used: Some(Used { at: now, amounts: amounts(100, 250), ..Used::default() }),
        ..ContainerFacts::default()
    };
    let read = async || {
        let mut pods = Vec::new();
        let list = api.get(&ApiPath::of_version("v1").collection(Some("shop"), "pods")).await?;
        for pod in list["items"].as_array().into_iter().flatten() {
            pods.push(observed(pod, Mode::On, &known));
        }
        Ok(Workload { pods, is_rolling_out: false, objective_is_met: None })
    };
    let (workload, rules) = (WorkloadRef::new("shop", "Deployment", "web"), Rules::default());
    let (workload, rules) = (&workload, &rules);
    let round = Round { api, records: "headroom", workload, rules, now, free: 100, undoes: false };
    round.run(read, &mut |_, _| Ok(())).await
}

fn resources(server: &ApiServer, place: usize) -> Value {
    server.get(&path(place)).unwrap()["spec"]["containers"][0]["resources"].clone()
}

#[tokio::test(start_paused = true)]
async fn two_leaders_lower_each_pod_once_a_day_whatever_fails() {
    for seed in 0..5 {
        let server = cluster(3, ApiServer::troubled(seed));
        let apis = [client(&server), client(&server)];
        for quarter in 0..(6 * 96) {
            let now = NOW + quarter * 900;
            let (one, other) = tokio::join!(round(&apis[0], now), round(&apis[1], now + 1));
            for error in [one, other].into_iter().filter_map(Result::err) {
                assert!(matches!(error, RoundError::Api { .. }), "{seed}: {error}");
            }
            for place in 0..3 {
                server.kubelet(&path(place), Kubelet::Done);
            }
            let day = quarter / 96 + 1;
            for place in 0..3 {
                let generation = server.get(&path(place)).unwrap()["metadata"]["generation"].as_i64().unwrap();
                assert!(
                    generation <= day + 1,
                    "{seed}: web-{place} was resized {} times in {day} days",
                    generation - 1
                );
            }
        }
        for place in 0..3 {
            // Never below the peak, and the last 2m are not worth a change; the limit stays.
            let expected = json!({"requests": {"cpu": "202m", "memory": "310Mi"}, "limits": {"memory": "1Gi"}});
            assert_eq!(resources(&server, place), expected, "{seed}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_resize_that_the_kubelet_cannot_make_is_taken_back() {
    for verdict in [Kubelet::Deferred, Kubelet::Infeasible] {
        let (server, api) = alone();
        round(&api, NOW).await.unwrap();
        assert_eq!(resources(&server, 0)["requests"]["cpu"], "670m");
        server.kubelet(&path(0), verdict);
        round(&api, NOW + 10).await.unwrap();
        round(&api, NOW + 20).await.unwrap();
        assert_eq!(resources(&server, 0), pod(0)["spec"]["containers"][0]["resources"], "as it was written");
        server.kubelet(&path(0), Kubelet::Done);
        for later in 1..20 {
            round(&api, NOW + later * 3600).await.unwrap();
        }
        assert_eq!(resources(&server, 0)["requests"]["cpu"], "1", "it is left alone for a day");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_resize_is_not_tried_again_today() {
    let (server, api) = alone();
    refuse_resizes(&server, 422, "no");
    for later in 0..20 {
        round(&api, NOW + later * 3600).await.unwrap();
    }
    let sent = || server.take_requests().iter().filter(|request| request.path.ends_with("/resize")).count();
    assert_eq!(sent(), 1);
    round(&api, NOW + DAY + 1).await.unwrap();
    assert_eq!(sent(), 1);
}

/// A policy gives every resize the size of before: it is sent once.
#[tokio::test(start_paused = true)]
async fn a_resize_that_admission_undoes_is_not_sent_again() {
    let (server, api) = alone();
    let stored = Arc::clone(&server);
    server.on_request(move |request| match request.path.ends_with("/resize") {
        true => Outcome::Answer(200, stored.get(&path(0)).unwrap()),
        false => Outcome::Serve,
    });
    let RoundOutcome::Done { notes, .. } = round(&api, NOW).await.unwrap() else { panic!() };
    let told = "refuses the resize: admission changes it: app (cpu request 670m -> 1, memory request 603Mi -> 900Mi)";
    assert!(notes[1].event.to_string().ends_with(told), "{notes:?}");
    for later in 1..20 {
        round(&api, NOW + later * 30).await.unwrap();
    }
    assert_eq!(server.take_requests().iter().filter(|request| request.path.ends_with("/resize")).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_pods_resize_the_round_says_so() {
    let (server, api) = alone();
    refuse_resizes(&server, 404, "the server could not find the requested resource");
    assert_eq!(round(&api, NOW).await, Err(RoundError::NoResize));
    let (record, day) = (server.list("/api/v1/configmaps"), NOW + DAY);
    assert_eq!(round(&api, day).await, Err(RoundError::NoResize));
    assert_eq!(record.len(), 1);
}

#[test]
fn pods_that_nobody_may_resize_are_left_and_the_kubelet_is_heard() {
    let see = |change: Value| {
        let server = ApiServer::new();
        server.put(pod(0));
        server.kubelet(&path(0), Kubelet::Done);
        server.edit(&path(0), &change);
        observed(&server.get(&path(0)).unwrap(), Mode::On, &|_| ContainerFacts::default())
    };
    let left = |change: Value| see(change).left_alone;
    assert_eq!(left(json!({})), None);
    for (change, why) in [
        (json!({"metadata": {"deletionTimestamp": "2026-11-27T00:00:00Z"}}), "it terminates"),
        (json!({"status": {"phase": "Pending"}}), "it does not run"),
        (json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "a"}}}), "it is a static pod"),
        (json!({"spec": {"os": {"name": "windows"}}}), "it runs on Windows"),
        (json!({"spec": {"resources": {"requests": {"cpu": "1"}}}}), "it sets pod-level resources"),
    ] {
        assert_eq!(left(change).as_deref(), Some(why));
    }
    let kubelet = |change: Value| see(change).kubelet;
    assert_eq!(kubelet(json!({})), headroom_resizer::decision::Kubelet::Done);
    assert_eq!(kubelet(json!({"metadata": {"generation": 2}})), headroom_resizer::decision::Kubelet::InProgress);
    let readiness = |ready: Value, containers: &str| {
        let conditions = json!([ready, {"type": "ContainersReady", "status": containers}]);
        see(json!({"status": {"conditions": conditions}})).readiness
    };
    let ready = |status: &str, reason: &str| json!({"type": "Ready", "status": status, "reason": reason});
    assert_eq!(readiness(ready("True", ""), "True"), Readiness::Ready);
    assert_eq!(readiness(ready("False", "ContainersNotReady"), "False"), Readiness::NotReady);
    assert_eq!(readiness(ready("False", "ReadinessGatesNotReady"), "True"), Readiness::NotReady);
    // The node is not heard of. Containers that were not ready before that still are not.
    assert_eq!(readiness(ready("False", ""), "True"), Readiness::NotHeardOf);
    assert_eq!(readiness(json!({"type": "Ready", "status": "False"}), "True"), Readiness::NotHeardOf);
    assert_eq!(readiness(ready("False", ""), "False"), Readiness::NotReady);
    let killed = json!([{"name": "app", "restartCount": 2, "state": {"waiting": {}},
        "lastState": {"terminated": {"reason": "OOMKilled", "finishedAt": "2026-11-27T00:00:00Z"}}}]);
    let killed = see(json!({"status": {"containerStatuses": killed}}));
    assert_eq!((killed.containers[0].killed, killed.containers[0].restarts), (Some(1_795_737_600), 2));
    let limit = |state: &str| {
        let status = json!([{"name": "app", "state": {state: {}}, "resources": {"limits": {"memory": "1Gi"}}}]);
        see(json!({"status": {"containerStatuses": status}})).containers[0].runs_with
    };
    assert_eq!((limit("running"), limit("waiting")), (Some(1024 * MI), None));
    // Amounts that nobody counts stop this pod, wherever they are.
    for amount in ["many", "1e30", "-1e30", "1e400", "9".repeat(60).as_str()] {
        for (resource, place) in [("cpu", "requests"), ("memory", "requests"), ("memory", "limits")] {
            let odd = json!([{"name": "app", "resources": {place: {resource: amount}}}]);
            let left = left(json!({"spec": {"containers": odd}})).unwrap();
            assert!(left.starts_with(&format!("it cannot be read: container app: {resource} of `{amount}`")), "{left}");
        }
    }
}

/// The quota of a tenant refuses the size of before: his pod holds a place no longer than some tries.
#[tokio::test(start_paused = true)]
async fn a_change_that_cannot_be_taken_back_is_given_up_once() {
    let (server, api) = alone();
    round(&api, NOW).await.unwrap();
    server.kubelet(&path(0), Kubelet::Deferred);
    refuse_resizes(&server, 403, "exceeded quota: mine");
    let mut noted = Vec::new();
    for later in 1..20 {
        let RoundOutcome::Done { notes, under_way } = round(&api, NOW + later * 30).await.unwrap() else { panic!() };
        noted.extend(notes.into_iter().map(|note| note.event.to_string()));
        assert_eq!(under_way, usize::from(later < 6), "{later}");
    }
    let refuses = |text: &str| noted.iter().filter(|note| note.contains(text)).count();
    assert_eq!((refuses("refuses the resize: exceeded"), refuses("is not taken back, because")), (1, 1), "{noted:?}");
}

/// Names that a tenant chooses once gave his record the name of another's; and what has the name of a record may be anything.
#[tokio::test(start_paused = true)]
async fn nobody_takes_the_name_of_a_record() {
    let (server, api) = alone();
    round(&api, NOW).await.unwrap();
    let records = || server.list("/api/v1/configmaps");
    let name = records()[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let key = |text: &str| derived_name("headroom-resize", text);
    assert_eq!(name, key("shop/Deployment/web"));
    // These had the same 64 bits of FNV-1a.
    assert_ne!(name, key("mine/Rollout/1e650d52d7z]K71$znE\u{1e}>h{"));

    server.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "headroom", "name": name}, "data": {"a": "b"}}));
    server.edit(&path(0), &pod(0));
    round(&api, NOW + 2 * DAY).await.unwrap();
    assert_eq!(records().len(), 2);
}
