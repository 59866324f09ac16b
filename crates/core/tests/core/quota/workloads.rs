//! The messages about the pods of workloads, before any pod is created.

use serde_json::{Value, json};

use crate::harness::answer;

/// A workload of pods that request 500m of cpu.
fn workload(kind: &str, spec: Value) -> Value {
    let mut spec = spec;
    let pod = json!({"spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": "500m"}}}]}});
    let template = if kind == "CronJob" { "/jobTemplate/spec" } else { "" };
    spec.pointer_mut(template).unwrap().as_object_mut().unwrap().insert("template".into(), pod);
    json!({"kind": kind, "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "1"}, "spec": spec})
}

fn asking_for(mut workload: Value, cpu: &str) -> Value {
    *workload.pointer_mut("/spec/template/spec/containers/0/resources/requests/cpu").unwrap() = json!(cpu);
    workload
}

fn with_status(mut workload: Value, status: Value) -> Value {
    workload.as_object_mut().unwrap().insert("status".into(), status);
    workload
}

fn request(object: &Value, old: Option<&Value>) -> Value {
    let (group, resource) = match object["kind"].as_str().unwrap() {
        "Job" => ("batch", "jobs"),
        "CronJob" => ("batch", "cronjobs"),
        "DaemonSet" => ("apps", "daemonsets"),
        "StatefulSet" => ("apps", "statefulsets"),
        "ReplicaSet" => ("apps", "replicasets"),
        _ => ("apps", "deployments"),
    };
    json!({
        "operation": if old.is_some() { "UPDATE" } else { "CREATE" }, "namespace": "shop", "name": "web",
        "resource": {"group": group, "resource": resource}, "object": object, "oldObject": old,
    })
}

/// The refusal or the warnings with a quota of 4 cpu, of which `used` are used.
fn messages(request: &Value, used: &str, settings: &Value) -> Vec<String> {
    let cpu = |amount: &str| json!({"requests.cpu": amount});
    let quota = json!({"metadata": {"name": "team"}, "status": {"hard": cpu("4"), "used": cpu(used)}});
    let mut template = workload("Deployment", json!({}));
    template["metadata"]["labels"] = json!({"tier": "free"});
    let lists = json!({"ResourceQuota": {"items": [quota]}, "Scaled": template});
    let answer = answer(&json!({"request": request, "settings": settings}), &lists, None);
    if answer.accepted { answer.warnings } else { vec![answer.message] }
}

#[track_caller]
fn check(request: &Value, used: &str, expected: &[&str]) {
    assert_eq!(messages(request, used, &json!({})), expected);
}

#[test]
fn the_most_that_the_pods_add_is_reported_whether_they_fit_or_not() {
    let quota =
        json!({"metadata": {"name": "team"}, "status": {"hard": {"requests.cpu": "4"}, "used": {"requests.cpu": "1"}}});
    let lists = json!({"ResourceQuota": {"items": [quota]}});
    let added = |object: &Value, old: Option<&Value>| {
        let answer = answer(&json!({"request": request(object, old), "settings": {}}), &lists, None);
        answer.pods_add.into_iter().map(|(_, _, amount)| amount).collect::<Vec<_>>()
    };
    let ten = workload("Deployment", json!({"replicas": 10}));
    let four = workload("Deployment", json!({"replicas": 4}));
    assert_eq!(added(&ten, None), ["5"]);
    assert_eq!(added(&ten, Some(&four)), ["3"]);
    // A new image comes with a surge of a quarter.
    let other = asking_for(workload("Deployment", json!({"replicas": 4})), "600m");
    assert_eq!(added(&other, Some(&with_status(four, json!({"replicas": 4})))), ["900m"]);
}

#[test]
fn replicas_that_do_not_fit_are_reported_when_the_workload_is_created() {
    for kind in ["Deployment", "StatefulSet", "ReplicaSet"] {
        let five = request(&workload(kind, json!({"replicas": 5})), None);
        check(&five, "1500m", &[]);
        check(
            &five,
            "2500m",
            &["its pods would be refused: quota team: 3 of 5 replicas fit: requests.cpu short by 1 (1500m available)"],
        );
    }
    check(&request(&workload("Deployment", json!({"replicas": 0})), None), "4", &[]);
}

#[test]
fn a_workload_without_pods_need_not_set_what_a_quota_requires() {
    let quota =
        json!({"metadata": {"name": "team"}, "status": {"hard": {"limits.cpu": "4"}, "used": {"limits.cpu": "0"}}});
    let lists = json!({"ResourceQuota": {"items": [quota]}});
    let warnings = |replicas: u32| {
        let request = request(&workload("Deployment", json!({"replicas": replicas})), None);
        answer(&json!({"request": request, "settings": {}}), &lists, None).warnings.len()
    };
    assert_eq!((warnings(0), warnings(1)), (0, 1));
}

#[test]
fn a_limit_also_sets_the_request_of_existing_pods() {
    let limited = |cpu: &str| {
        let spec = json!({"replicas": 4, "strategy": {"type": "Recreate"}});
        let mut workload = workload("Deployment", spec);
        let resources = workload.pointer_mut("/spec/template/spec/containers/0/resources").unwrap();
        *resources = json!({"limits": {"cpu": cpu}});
        workload
    };
    let old = with_status(limited("500m"), json!({"replicas": 4}));
    check(&request(&limited("600m"), Some(&old)), "2", &[]);
}

#[test]
fn the_surge_is_not_reported_if_the_replicas_do_not_fit() {
    let old = with_status(workload("Deployment", json!({"replicas": 4})), json!({"replicas": 4}));
    let renewed = request(&asking_for(workload("Deployment", json!({"replicas": 4})), "900m"), Some(&old));
    check(
        &renewed,
        "3500m",
        &["its pods would be refused: quota team: 2 of 4 replicas fit: requests.cpu short by 1600m (500m available)"],
    );
}

#[test]
fn an_update_is_charged_only_for_additional_pods() {
    let old = with_status(workload("Deployment", json!({"replicas": 3})), json!({"replicas": 3}));
    let six = workload("Deployment", json!({"replicas": 6}));
    check(&request(&six, Some(&old)), "2500m", &[]);
    check(
        &request(&six, Some(&old)),
        "3",
        &["its pods would be refused: quota team: 5 of 6 replicas fit: requests.cpu short by 500m (1 available)"],
    );
    // A request that creates no pods gets no warning, even if the namespace exceeds its quota.
    let mut labelled = old.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    check(&request(&labelled, Some(&old)), "9", &[]);
    check(&request(&workload("Deployment", json!({"replicas": 1})), Some(&old)), "9", &[]);
}

#[test]
fn a_rollout_needs_room_for_its_surge() {
    let rolling = |surge: Value, unavailable: Value| json!({"replicas": 4, "strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}});
    let old = with_status(workload("Deployment", rolling(json!("25%"), json!(0))), json!({"replicas": 4}));
    let renewed = |surge, unavailable| {
        request(&asking_for(workload("Deployment", rolling(surge, unavailable)), "400m"), Some(&old))
    };
    check(&renewed(json!("25%"), json!("24%")), "3500m", &[]);
    check(
        &renewed(json!("26%"), json!("24%")),
        "3500m",
        &[
            "its pods would be refused: quota team: no room to surge by 2 pods, so the rollout will stop: requests.cpu short by 300m (500m available); or set maxSurge 0, maxUnavailable 1",
        ],
    );
    check(&renewed(json!(0), json!(1)), "4", &[]);
}

#[test]
fn a_rollout_that_continues_without_its_surge_only_gets_a_warning() {
    let old = with_status(workload("Deployment", json!({"replicas": 4})), json!({"replicas": 4}));
    let renewed = request(&asking_for(workload("Deployment", json!({"replicas": 4})), "400m"), Some(&old));
    let expected = "quota team: no room to surge by 1 pod, so the rollout will be slower: requests.cpu short by 400m (0 \
                    available)";
    check(&renewed, "4", &[expected]);
    assert_eq!(messages(&renewed, "4", &json!({"quotas": {"workloadMode": "enforce"}})), [expected]);
}

#[test]
fn larger_new_pods_may_use_what_the_old_ones_free() {
    let old = with_status(workload("Deployment", json!({"replicas": 4})), json!({"replicas": 4}));
    let recreated =
        asking_for(workload("Deployment", json!({"replicas": 4, "strategy": {"type": "Recreate"}})), "900m");
    check(
        &request(&recreated, Some(&old)),
        "3",
        &["its pods would be refused: quota team: 3 of 4 replicas fit: requests.cpu short by 600m (1 available)"],
    );
}

#[test]
fn a_scale_is_checked_with_the_template_of_its_workload() {
    let scale = |replicas| json!({"kind": "Scale", "spec": {"replicas": replicas}, "status": {"replicas": 2}});
    let request = |from, to| {
        let mut request = request(&scale(to), Some(&scale(from)));
        request["subResource"] = json!("scale");
        request
    };
    check(&request(2, 4), "3", &[]);
    check(
        &request(2, 5),
        "3",
        &["its pods would be refused: quota team: 4 of 5 replicas fit: requests.cpu short by 500m (1 available)"],
    );
    check(&request(5, 2), "4", &[]);
    // A Scale has no labels of its own.
    let exempt = |tier: &str| json!({"exempt": {"labels": {"matchLabels": {"tier": tier}}}});
    assert_eq!(messages(&request(2, 5), "3", &exempt("free")), [""; 0]);
    assert_eq!(messages(&request(2, 5), "3", &exempt("paid")).len(), 1);
}

#[test]
fn a_job_needs_room_for_the_pods_that_run_at_the_same_time() {
    let job = |spec| request(&workload("Job", spec), None);
    check(&job(json!({"parallelism": 9, "completions": 2})), "3", &[]);
    check(
        &job(json!({"parallelism": 3, "completions": 9})),
        "3",
        &["its pods would be refused: quota team: 2 of 3 pods fit: requests.cpu short by 500m (1 available)"],
    );
    check(&job(json!({"parallelism": 9, "suspend": true})), "4", &[]);
    let (suspended, released) = (json!({"parallelism": 2, "suspend": true}), json!({"parallelism": 2}));
    check(
        &request(&workload("Job", released), Some(&workload("Job", suspended))),
        "3500m",
        &["its pods would be refused: quota team: 1 of 2 pods fit: requests.cpu short by 500m (500m available)"],
    );
}

#[test]
fn assumptions_are_stated() {
    let cron_job = |policy: &str| {
        let spec = json!({"concurrencyPolicy": policy, "jobTemplate": {"spec": {"parallelism": 2}}});
        request(&workload("CronJob", spec), None)
    };
    let messages =
        "its pods would be refused: quota team: 1 of 2 pods fit: requests.cpu short by 500m (500m available)";
    check(&cron_job("Forbid"), "3500m", &[messages]);
    check(
        &cron_job("Allow"),
        "3500m",
        &[&format!("{messages} (assuming one job at a time; concurrencyPolicy Allow lets jobs overlap)")],
    );
    check(
        &request(&workload("DaemonSet", json!({})), None),
        "4",
        &[
            "its pods would be refused: quota team: 0 of 1 pods fit: requests.cpu short by 500m (0 available) (assuming \
           one node; the number of nodes is not known yet)",
        ],
    );
    let old = with_status(
        workload("DaemonSet", json!({})),
        json!({"desiredNumberScheduled": 3, "currentNumberScheduled": 3}),
    );
    check(
        &request(&asking_for(workload("DaemonSet", json!({})), "1"), Some(&old)),
        "3",
        &["its pods would be refused: quota team: 2 of 3 pods fit: requests.cpu short by 500m (1 available)"],
    );
}

#[test]
fn owned_workloads_are_judged_with_their_owner() {
    let mut made = workload("ReplicaSet", json!({"replicas": 9}));
    made["metadata"]["ownerReferences"] = json!([{"kind": "Deployment", "controller": true}]);
    let mut request = request(&made, None);
    // Any client can set an owner.
    check(
        &request,
        "4",
        &["its pods would be refused: quota team: 0 of 9 replicas fit: requests.cpu short by 4500m (0 available)"],
    );
    for user in ["system:serviceaccount:kube-system:deployment-controller", "system:kube-controller-manager"] {
        request["userInfo"] = json!({"username": user});
        check(&request, "4", &[]);
    }
}

#[test]
fn workloads_are_refused_with_enforce() {
    let request = request(&workload("Deployment", json!({"replicas": 5})), None);
    assert_eq!(
        messages(&request, "2500m", &json!({"quotas": {"workloadMode": "enforce"}})),
        ["deployments.apps \"web\" is forbidden: its pods would be refused: exceeded quota: team, requested: \
          requests.cpu=2500m, used: requests.cpu=2500m, limited: requests.cpu=4; quota team: 3 of 5 replicas fit: \
          requests.cpu short by 1 (1500m available)"]
    );
    for off in [json!({"quotas": {"workloadMode": "off"}}), json!({"quotas": {"mode": "off"}})] {
        assert!(messages(&request, "2500m", &off).is_empty());
    }
}

#[test]
fn a_template_without_a_value_that_a_quota_requires_gets_a_warning() {
    let mut bare = workload("Deployment", json!({}));
    *bare.pointer_mut("/spec/template/spec/containers/0").unwrap() = json!({"name": "web"});
    check(
        &request(&bare, None),
        "0",
        &["its pods would be refused: quota team: set requests.cpu in web, or add defaults to a LimitRange"],
    );
}

#[test]
fn an_update_that_leaves_the_pods_as_they_are_is_not_held_to_limit_ranges() {
    let range =
        json!({"metadata": {"name": "small"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}});
    let lists = json!({"LimitRange": {"items": [range]}});
    let asking = |kind: &str, spec: Value, cpu: &str| {
        let mut workload = workload(kind, spec);
        let path = if kind == "CronJob" { "/spec/jobTemplate/spec/template" } else { "/spec/template" };
        let container = format!("{path}/spec/containers/0/resources");
        *workload.pointer_mut(&container).unwrap() = json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
        workload
    };
    for quotas in ["enforce", "warn", "off"] {
        for role in ["both", "validate"] {
            let settings =
                json!({"role": role, "limitRanges": {"workloadMode": "enforce"}, "quotas": {"workloadMode": quotas}});
            let is_refused = |object: &Value, old: Option<&Value>| {
                let answer = answer(&json!({"request": request(object, old), "settings": settings}), &lists, None);
                assert_eq!(answer.warnings, [""; 0], "{settings}");
                !answer.accepted
            };
            let old = asking("Deployment", json!({"replicas": 3}), "2");
            assert!(is_refused(&old, None));
            let mut labelled = old.clone();
            labelled["metadata"]["labels"] = json!({"a": "b"});
            assert!(!is_refused(&labelled, Some(&old)));
            for same in [json!({"replicas": 3, "paused": true}), json!({"replicas": 0}), json!({"replicas": 2})] {
                assert!(!is_refused(&asking("Deployment", same, "2"), Some(&old)), "{quotas} {role}");
            }
            // These create pods, or would once the template is used.
            assert!(is_refused(&asking("Deployment", json!({"replicas": 4}), "2"), Some(&old)));
            assert!(is_refused(&asking("Deployment", json!({"replicas": 3}), "3"), Some(&old)));
            assert!(is_refused(&asking("Deployment", json!({"replicas": 3, "paused": true}), "3"), Some(&old)));
            assert!(!is_refused(&asking("Deployment", json!({"replicas": 3}), "1"), Some(&old)));

            let suspended = asking("CronJob", json!({"suspend": true, "jobTemplate": {"spec": {}}}), "2");
            let running = asking("CronJob", json!({"jobTemplate": {"spec": {}}}), "2");
            assert!(!is_refused(&suspended, Some(&running)));
            assert!(is_refused(&running, Some(&suspended)));
            let daemons = asking("DaemonSet", json!({}), "2");
            assert!(!is_refused(&daemons, Some(&daemons)));
        }
    }
}

#[test]
fn a_partition_keeps_the_first_pods_of_a_stateful_set() {
    let set = |replicas: u32, partition: u32| {
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
        // The partition counts from the first ordinal.
        let ordinals = json!({"start": 5});
        workload("StatefulSet", json!({"replicas": replicas, "ordinals": ordinals, "updateStrategy": strategy}))
    };
    let renewed = |replicas: u32, partition: u32| {
        let old = with_status(set(3, partition), json!({"replicas": 3}));
        request(&asking_for(set(replicas, partition), "1"), Some(&old))
    };
    let fits = |replicas, partition, used: &str| messages(&renewed(replicas, partition), used, &json!({})).is_empty();
    // No pod is replaced.
    assert!(fits(3, 3, "4") && fits(3, 4, "4") && fits(2, 2, "4"));
    // One pod is.
    assert!(fits(3, 2, "3500m"));
    check(
        &renewed(3, 2),
        "3600m",
        &["its pods would be refused: quota team: 2 of 3 replicas fit: requests.cpu short by 100m (400m available)"],
    );
    // Of two more pods one, both or none is made from the old template.
    assert!(fits(5, 4, "2500m") && !fits(5, 4, "2501m"));
    assert!(fits(5, 5, "3") && !fits(5, 5, "3001m"));
    assert!(fits(5, 3, "2") && !fits(5, 3, "2001m"));
    assert!(fits(5, 0, "500m") && !fits(5, 0, "501m"));
}
