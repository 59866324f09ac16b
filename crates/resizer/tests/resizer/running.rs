//! The workloads of a namespace, with what keeps their pods from being resized.

#![expect(clippy::unwrap_used, reason = "tests may stop")]

use headroom_dry_run::Overlay;
use headroom_dry_run::evaluate::Admission;
use headroom_objects::cluster_reader::Folder;
use headroom_resizer::decision::{ComputeResource, Mode, ObservedPod};
use headroom_resizer::facts::bytes_of_rules;
use headroom_resizer::running::{Modes, Usage, read, usage};
use serde_json::{Value, json};

const MODES: Modes = Modes { least: Mode::Observe, unasked: Mode::Observe, most: Mode::On };

/// A Deployment with two pods of one template, changed by `change`, beside `others`, as it is observed.
fn observed(change: impl Fn(&mut [Value; 5]), others: &[Value]) -> Option<(Vec<ObservedPod>, bool)> {
    let owned = |name: &str, kind: &str, owner: &str| {
        let owner = json!({"apiVersion": "apps/v1", "kind": kind, "name": owner, "controller": true});
        json!({"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1", "ownerReferences": [owner]})
    };
    let spec = json!({"containers": [{"name": "app", "image": "nginx", "resources": {"requests": {"cpu": "1"}}}]});
    let pod = |name: &str| {
        let metadata = owned(name, "ReplicaSet", "web-1");
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}})
    };
    let mut objects = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"replicas": 2}, "status": {"replicas": 2, "updatedReplicas": 2}}),
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": owned("web-1", "Deployment", "web"),
            "spec": {"template": {"spec": spec}}}),
        pod("web-1-a"),
        pod("web-1-b"),
    ];
    change(&mut objects);
    let mut folder = Folder::default();
    objects.iter().chain(others).for_each(|object| folder.put(object.clone()).unwrap());
    let mut cluster = Overlay::new(folder, None);
    let found = read(&objects[0], MODES, &mut cluster).unwrap();
    let mut web = found.into_iter().find(|running| running.workload.path() == "shop/Deployment/web")?;
    let bytes = bytes_of_rules("shop", &mut cluster).unwrap();
    web.learn(bytes, &Admission::assumed(), &mut cluster);
    let observed = web.observed(&web.pods, web.object.as_ref(), &Usage::new(), None);
    Some((observed.pods, observed.is_rolling_out))
}

#[test]
fn the_least_that_is_asked_for_counts() {
    let modes = |asked: [Option<&str>; 3]| -> Vec<Mode> {
        let change = |objects: &mut [Value; 5]| {
            for (place, word, field) in [(0, asked[0], "labels"), (1, asked[1], "annotations"), (3, asked[2], "labels")]
            {
                word.iter().for_each(|word| objects[place]["metadata"][field]["headroom.dev/resize"] = json!(word));
            }
        };
        observed(change, &[]).map(|(pods, _)| pods.iter().map(|pod| pod.mode).collect()).unwrap_or_default()
    };
    let (off, observe, after_oom, on) = (Mode::Off, Mode::Observe, Mode::AfterOom, Mode::On);
    assert_eq!(modes([None, None, None]), [observe, observe]);
    assert_eq!(modes([Some("on"), None, None]), [on, on]);
    assert_eq!(modes([None, Some("on"), Some("afterOom")]), [after_oom, on]);
    assert_eq!(modes([Some("afterOom"), Some("on"), None]), [after_oom, after_oom]);
    assert_eq!(modes([None, Some("on"), Some("off")]), [off, on]);
    assert_eq!(modes([None, None, Some("on")]), [on, observe], "the default counts where nothing is asked");
    assert_eq!(modes([Some("yes"), None, None]), [observe, observe], "an unknown word only lets observe");
    assert_eq!(modes([Some("off"), Some("on"), None]), [off, off]);
}

#[test]
fn rollouts_and_autoscalers_are_seen() {
    let is_rolling_out = |change: &dyn Fn(&mut [Value; 5])| observed(change, &[]).unwrap().1;
    assert!(!is_rolling_out(&|_| {}));
    assert!(is_rolling_out(&|objects| objects[1]["status"]["updatedReplicas"] = json!(1)));
    assert!(is_rolling_out(&|objects| objects[1]["spec"]["replicas"] = json!(3)));
    assert!(is_rolling_out(&|objects| objects[1]["metadata"]["generation"] = json!(2)));
    assert!(is_rolling_out(&|objects| objects[4]["metadata"]["labels"]["controller-revision-hash"] = json!("b")));

    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let vertical = |mode: &str| {
        json!({"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "vpa", "namespace": "shop"},
            "spec": {"targetRef": target, "updatePolicy": {"updateMode": mode}}})
    };
    let left = |other: Value| observed(|_| {}, &[other]).unwrap().0[0].left_alone.clone();
    assert_eq!(left(vertical("InPlaceOrRecreate")).as_deref(), Some("VerticalPodAutoscaler vpa acts on it"));
    assert_eq!(left(vertical("Off")), None);
    let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}});
    let site = json!({"apiVersion": "example.com/v1", "kind": "Site", "name": "web", "controller": true});
    for target in [&target, &site] {
        let horizontal = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "hpa", "namespace": "shop"},
            "spec": {"scaleTargetRef": target, "metrics": [metric]}});
        let pods =
            observed(|objects| objects[1]["metadata"]["ownerReferences"] = json!([site]), &[horizontal]).unwrap().0;
        assert_eq!(pods[0].containers[0].is_left, [ComputeResource::Cpu], "{target}");
    }
}

#[test]
fn authors_values_raise_no_running_pod() {
    let wanted = |cpu: &str| {
        let change =
            |objects: &mut [Value; 5]| objects[3]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(cpu);
        observed(change, &[]).unwrap().0[0].containers[0].wanted.cpu
    };
    assert_eq!(wanted("500m"), Some(500), "the template's 1 core may stand for a history that cannot be read");
    assert_eq!(wanted("2"), Some(1000));
}

#[test]
fn usage_from_the_future_counts_as_none() {
    const NOON: i64 = 1_795_780_800;
    let at = |time: &str| {
        let measured = json!({"metadata": {"name": "web"}, "timestamp": time, "containers": [{"name": "app", "usage": {"cpu": "1"}}]});
        usage(&[measured], NOON).into_values().next().map(|used| NOON - used.at)
    };
    assert_eq!(at("2026-11-27T11:59:30Z"), Some(30));
    assert_eq!(at("2026-11-27T12:00:00Z"), Some(0));
    assert_eq!(at("2026-11-27T12:10:00Z"), None);
    assert_eq!(at("at noon"), None);
}

#[test]
fn limits_are_in_the_proportion_of_the_template_where_the_pod_allows_it() {
    let scales = |word: &str| {
        let change = |objects: &mut [Value; 5]| {
            objects[2]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = json!("1500m");
            objects[3]["metadata"]["annotations"] = json!({"headroom.dev/limits": word});
        };
        observed(change, &[])
            .unwrap()
            .0
            .iter()
            .map(|pod| pod.containers[0].scales.map(|author| (author.requests.cpu, author.limits.cpu)))
            .collect::<Vec<_>>()
    };
    assert_eq!(scales("scale"), [Some((Some(1000), Some(1500))), None]);
    assert_eq!(scales("keep"), [None, None]);
}

/// Objects that a tenant makes too large, or that nobody can read, stop only themselves.
#[test]
fn templates_are_evaluated_up_to_a_bound() {
    let wanted = |change: &dyn Fn(&mut [Value; 5]), others: &[Value]| {
        observed(change, others).unwrap().0[0].containers[0].wanted.cpu
    };
    let range = |name: String| {
        json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "shop"},
            "spec": {"limits": [{"type": "Container", "max": {name: "1e30"}}]}})
    };
    let sidecars = |objects: &mut [Value; 5], count: usize, size: usize| {
        let spec = &mut objects[2]["spec"]["template"]["spec"]["containers"];
        let env = json!([{"name": "A", "value": "x".repeat(size)}]);
        spec.as_array_mut()
            .unwrap()
            .extend((0..count).map(|of| json!({"name": format!("c{of}"), "image": "a", "env": env})));
    };
    assert_eq!(wanted(&|_| {}, &[]), Some(1000));
    assert_eq!(wanted(&|_| {}, &[range("memory".to_owned())]), None, "a bound that nobody counts lets nothing in");
    assert_eq!(wanted(&|objects| sidecars(objects, 1, 300 << 10), &[]), None, "a large template");
    assert_eq!(
        wanted(&|objects| sidecars(objects, 100, 1), &[range(format!("example.com/{}", "a".repeat(30_000)))]),
        None
    );

    let odd = |objects: &mut [Value; 5]| {
        objects[4]["spec"]["containers"][0]["resources"] = json!({"limits": {"memory": "1e30"}});
    };
    let pods = observed(odd, &[]).unwrap().0;
    assert_eq!((pods[0].left_alone.as_deref(), pods[0].containers.len()), (None, 1));
    assert!(pods[1].left_alone.as_ref().unwrap().starts_with("it cannot be read"));
}
