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

/// With a status, where all replicas are of the last template.
fn with_status(mut workload: Value, mut status: Value) -> Value {
    status["updatedReplicas"] = status["replicas"].clone();
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
        check(&five, "2500m", &["only 3 of 5 replicas fit quota \"team\": requests.cpu short by 1 (1500m available)"]);
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
        &["only 2 of 4 replicas fit quota \"team\": requests.cpu short by 1600m (500m available)"],
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
        &["only 5 of 6 replicas fit quota \"team\": requests.cpu short by 500m (1 available)"],
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
    // One pod is enough to go on.
    check(
        &renewed(json!("26%"), json!("24%")),
        "3500m",
        &[
            "quota team: no room to surge by 2 pods, so the rollout will be slower: requests.cpu short by 300m (500m available)",
        ],
    );
    check(
        &renewed(json!("26%"), json!("24%")),
        "3700m",
        &[
            "its pods would be rejected: quota team: no room to surge by 2 pods, so the rollout will stop: requests.cpu short by 500m (300m available); or set maxSurge 0, maxUnavailable 1",
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
        &["only 3 of 4 replicas fit quota \"team\": requests.cpu short by 600m (1 available)"],
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
    check(&request(2, 5), "3", &["only 4 of 5 replicas fit quota \"team\": requests.cpu short by 500m (1 available)"]);
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
        &["only 2 of 3 pods fit quota \"team\": requests.cpu short by 500m (1 available)"],
    );
    check(&job(json!({"parallelism": 9, "suspend": true})), "4", &[]);
    let kept = workload("Job", json!({"parallelism": 2}));
    check(&request(&kept, Some(&kept)), "4", &[]);
    let (suspended, released) = (json!({"parallelism": 2, "suspend": true}), json!({"parallelism": 2}));
    check(
        &request(&workload("Job", released), Some(&workload("Job", suspended))),
        "3500m",
        &["only 1 of 2 pods fit quota \"team\": requests.cpu short by 500m (500m available)"],
    );
}

#[test]
fn assumptions_are_stated() {
    let cron_job = |policy: &str| {
        let spec = json!({"concurrencyPolicy": policy, "jobTemplate": {"spec": {"parallelism": 2}}});
        request(&workload("CronJob", spec), None)
    };
    let messages = "only 1 of 2 pods fit quota \"team\": requests.cpu short by 500m (500m available)";
    check(&cron_job("Forbid"), "3500m", &[messages]);
    check(
        &cron_job("Allow"),
        "3500m",
        &[&format!("{messages} (assuming one job at a time; concurrencyPolicy Allow lets jobs overlap)")],
    );
    check(
        &request(&workload("DaemonSet", json!({})), None),
        "4",
        &["only 0 of 1 pods fit quota \"team\": requests.cpu short by 500m (0 available) (assuming \
           one node; the number of nodes is not known yet)"],
    );
    let old = with_status(
        workload("DaemonSet", json!({})),
        json!({"desiredNumberScheduled": 3, "currentNumberScheduled": 3}),
    );
    check(
        &request(&asking_for(workload("DaemonSet", json!({})), "1"), Some(&old)),
        "3",
        &["only 2 of 3 pods fit quota \"team\": requests.cpu short by 500m (1 available)"],
    );
}

#[test]
fn owned_workloads_are_evaluated_with_their_owner() {
    let mut made = workload("ReplicaSet", json!({"replicas": 9}));
    made["metadata"]["ownerReferences"] = json!([{"kind": "Deployment", "controller": true}]);
    let mut request = request(&made, None);
    // Any client can set an owner.
    check(&request, "4", &["only 0 of 9 replicas fit quota \"team\": requests.cpu short by 4500m (0 available)"]);
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
        ["deployments.apps \"web\" is forbidden: its pods would be rejected: exceeded quota: team, requested: \
          requests.cpu=2500m, used: requests.cpu=2500m, limited: requests.cpu=4; only 3 of 5 replicas fit quota \"team\": \
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
        &["its pods would be rejected: quota team: set requests.cpu in web, or add defaults to a LimitRange"],
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
        &["only 2 of 3 replicas fit quota \"team\": requests.cpu short by 100m (400m available)"],
    );
    // Of two more pods one, both or none is made from the old template.
    assert!(fits(5, 4, "2500m") && !fits(5, 4, "2501m"));
    assert!(fits(5, 5, "3") && !fits(5, 5, "3001m"));
    assert!(fits(5, 3, "2") && !fits(5, 3, "2001m"));
    assert!(fits(5, 0, "500m") && !fits(5, 0, "501m"));
}

/// A Deployment in which all replicas are of the last template, and what an update of it would be told.
fn told(before: (Value, &str), after: (Value, &str), used: &str) -> String {
    let status = json!({"replicas": before.0["replicas"]});
    let old = with_status(asking_for(workload("Deployment", before.0), before.1), status);
    let messages =
        messages(&request(&asking_for(workload("Deployment", after.0), after.1), Some(&old)), used, &json!({}));
    messages.join("\n").replace("its pods would be rejected: ", "").replace("quota team: ", "")
}

fn rolling(replicas: u32, surge: &str, unavailable: &str) -> Value {
    let number = |text: &str| text.parse::<u32>().map_or_else(|_| json!(text), |number| json!(number));
    let bounds = json!({"maxSurge": number(surge), "maxUnavailable": number(unavailable)});
    json!({"replicas": replicas, "strategy": {"rollingUpdate": bounds}})
}

#[test]
fn a_rollout_ends_if_each_new_pod_makes_room_for_the_next() {
    let all_at_once = rolling(4, "100%", "0");
    assert_eq!(told((all_at_once.clone(), "500m"), (all_at_once, "500m"), "3500m"), "", "its template is kept");
    let renewed = |spec: &Value, used| told((spec.clone(), "501m"), (spec.clone(), "500m"), used);
    assert_eq!(
        renewed(&rolling(4, "100%", "0"), "3500m"),
        "no room to surge by 4 pods, so the rollout will be slower: requests.cpu short by 1500m (500m available)"
    );
    // There are never more new pods than replicas.
    assert_eq!(renewed(&rolling(1, "2", "0"), "3500m"), "");
    // The old ReplicaSet is scaled down first, which makes room.
    let (four, two) = (json!({"replicas": 4}), json!({"replicas": 2}));
    assert_eq!(told((four, "500m"), (two, "600m"), "4"), "");
}

#[test]
fn a_rollout_stops_where_old_pods_leave_no_room() {
    // The quota was lowered to 4, and smaller pods come in the place of old ones.
    assert_eq!(
        told((rolling(5, "0", "1"), "1"), (rolling(5, "0", "1"), "500m"), "5"),
        "the rollout will stop after 0 of 5 new pods: requests.cpu short by 500m (0 available)"
    );
    let recreated = json!({"replicas": 5, "strategy": {"type": "Recreate"}});
    assert_eq!(told((recreated.clone(), "1"), (recreated, "500m"), "5"), "");
    // The old ReplicaSet is scaled to 4 first and fills the quota with old pods.
    let (one, four) = (json!({"replicas": 1}), json!({"replicas": 4}));
    assert_eq!(
        told((one, "1"), (four, "250m"), "2"),
        "no room to surge by 1 pod, so the rollout will stop: requests.cpu short by 250m (0 available)"
    );
    let set = |cpu| asking_for(workload("StatefulSet", json!({"replicas": 5})), cpu);
    check(
        &request(&set("500m"), Some(&with_status(set("1"), json!({"replicas": 5})))),
        "5",
        &[
            "its pods would be rejected: quota team: the rollout will stop after 0 of 5 new pods: requests.cpu short by 500m (0 available)",
        ],
    );
}

#[test]
fn several_pods_that_are_replaced_at_once_make_room_together() {
    let stops =
        |pods| format!("the rollout will stop after 0 of {pods} new pods: requests.cpu short by 500m (0 available)");
    // The quota was lowered to 4: one pod that goes leaves no room for its successor, two do for both of theirs.
    let deployment =
        |unavailable| told((rolling(5, "0", unavailable), "1"), (rolling(5, "0", unavailable), "500m"), "5");
    assert_eq!((deployment("1"), deployment("2")), (stops(5), String::new()));
    for (kind, status) in [
        ("DaemonSet", json!({"desiredNumberScheduled": 4, "currentNumberScheduled": 4})),
        ("StatefulSet", json!({"replicas": 4})),
    ] {
        let renewed = |unavailable: Value| {
            let spec = json!({"replicas": 4, "updateStrategy": {"rollingUpdate": {"maxUnavailable": unavailable}}});
            let (old, new) = (asking_for(workload(kind, spec.clone()), "1"), workload(kind, spec));
            messages(&request(&new, Some(&with_status(old, status.clone()))), "5", &json!({})).join("\n")
        };
        assert!(renewed(json!(1)).ends_with(&stops(4)), "{kind}: {}", renewed(json!(1)));
        assert_eq!((renewed(json!(2)), renewed(json!("50%"))), (String::new(), String::new()), "{kind}");
    }
    // More than two thirds are more than half: the next batch is smaller.
    let set = |cpu| {
        asking_for(
            workload("StatefulSet", json!({"replicas": 4, "updateStrategy": {"rollingUpdate": {"maxUnavailable": 3}}})),
            cpu,
        )
    };
    let larger = request(&set("1100m"), Some(&with_status(set("1"), json!({"replicas": 4}))));
    check(&larger, "4", &["only 3 of 4 replicas fit quota \"team\": requests.cpu short by 400m (0 available)"]);
}

#[test]
fn pods_of_an_earlier_surge_leave_less_room_for_the_next() {
    // 5 of 4 replicas: one more of the two may come before an old one goes.
    let old = with_status(workload("Deployment", rolling(4, "2", "0")), json!({"replicas": 5}));
    let renewed =
        |unavailable| request(&asking_for(workload("Deployment", rolling(4, "2", unavailable)), "400m"), Some(&old));
    let slower = "quota team: no room to surge by 1 pod, so the rollout will be slower: requests.cpu short by 400m (0 available)";
    check(&renewed("0"), "4", &[slower]);
    check(&renewed("0"), "3600m", &[]);
}

#[test]
fn a_quota_counts_the_pods_of_the_template_that_it_covers() {
    let fitting = |scope: &str, used: u32, is_larger: bool, replicas: (u32, u32)| {
        let quota = json!({"metadata": {"name": "team"}, "spec": {"scopes": [scope], "hard": {"pods": "4"}},
            "status": {"hard": {"pods": "4"}, "used": {"pods": used.to_string()}}});
        let unset = |replicas| {
            let mut unset = workload("Deployment", json!({"replicas": replicas}));
            *unset.pointer_mut("/spec/template/spec/containers/0/resources").unwrap() = json!({});
            unset
        };
        let set = |replicas| workload("Deployment", json!({"replicas": replicas}));
        let (old, new) =
            if is_larger { (unset(replicas.0), set(replicas.1)) } else { (set(replicas.0), unset(replicas.1)) };
        let request = request(&new, Some(&with_status(old, json!({"replicas": replicas.0}))));
        let settings = json!({"estimates": {"mode": "never"}});
        let answer = answer(
            &json!({"request": request, "settings": settings}),
            &json!({"ResourceQuota": {"items": [quota]}}),
            None,
        );
        answer.warnings.join("\n")
    };
    // Only the new pods are counted, and the old ones that go make no room.
    assert_eq!(fitting("NotBestEffort", 0, true, (4, 4)), "");
    assert_eq!(
        fitting("NotBestEffort", 2, true, (4, 4)),
        "only 2 of 4 replicas fit quota \"team\": pods short by 2 (2 available)"
    );
    assert_eq!(
        fitting("BestEffort", 1, false, (4, 4)),
        "only 3 of 4 replicas fit quota \"team\": pods short by 1 (3 available)"
    );
    // Only the old ones are counted: none comes.
    assert_eq!(fitting("BestEffort", 4, true, (4, 4)), "");
    assert_eq!(fitting("NotBestEffort", 4, false, (4, 4)), "");
    assert_eq!(fitting("NotBestEffort", 9, false, (4, 2)), "");
}

#[test]
fn what_helps_is_said_only_if_it_helps() {
    let renewed = |cpu: &str| told((rolling(3, "1", "0"), "1"), (rolling(3, "1", "0"), cpu), "4");
    assert_eq!(
        renewed("500m"),
        "no room to surge by 1 pod, so the rollout will stop: requests.cpu short by 500m (0 available); or set maxSurge 0, maxUnavailable 1"
    );
    let over_full = told((rolling(3, "1", "0"), "1"), (rolling(3, "1", "0"), "500m"), "5");
    assert_eq!(
        over_full,
        "no room to surge by 1 pod, so the rollout will stop: requests.cpu short by 500m (0 available)"
    );
}

#[test]
fn a_paused_deployment_makes_its_pods_when_it_is_resumed() {
    let paused = |replicas: u32| json!({"replicas": replicas, "paused": true});
    check(&request(&workload("Deployment", paused(9)), None), "4", &[]);
    // Nothing has been created yet.
    let old = with_status(workload("Deployment", paused(9)), json!({}));
    let nine = workload("Deployment", json!({"replicas": 9}));
    check(
        &request(&nine, Some(&old)),
        "0",
        &["only 8 of 9 replicas fit quota \"team\": requests.cpu short by 500m (4 available)"],
    );
    check(&request(&workload("Deployment", paused(99)), Some(&old)), "4", &[]);
    // The template was set while it was paused: none of its pods is of it.
    let mut old = workload("Deployment", paused(4));
    old["status"] = json!({"replicas": 4});
    let resumed = workload("Deployment", rolling(4, "1", "0"));
    check(
        &request(&resumed, Some(&old)),
        "4",
        &["its pods would be rejected: quota team: no room to surge by 1 pod, so the rollout will stop: requests.cpu \
           short by 500m (0 available); or set maxSurge 0, maxUnavailable 1 (assuming that its present pods request the same)"],
    );
    // Half of its pods are of the new template already, and only the others make room.
    let mut old = workload("Deployment", json!({"replicas": 4, "paused": true, "strategy": {"type": "Recreate"}}));
    old["status"] = json!({"replicas": 4, "updatedReplicas": 2});
    let resumed = workload("Deployment", json!({"replicas": 4, "strategy": {"type": "Recreate"}}));
    check(&request(&resumed, Some(&old)), "4", &[]);
    check(
        &request(&resumed, Some(&old)),
        "5",
        &[
            "only 2 of 4 replicas fit quota \"team\": requests.cpu short by 1 (0 available) (assuming that its present pods \
           request the same)",
        ],
    );
    // It is scaled with the template of its pods.
    let old = with_status(workload("Deployment", paused(2)), json!({"replicas": 2}));
    let scaled = asking_for(workload("Deployment", paused(4)), "9");
    check(&request(&scaled, Some(&old)), "3", &[]);
    check(
        &request(&scaled, Some(&old)),
        "3500m",
        &["only 3 of 4 replicas fit quota \"team\": requests.cpu short by 500m (500m available)"],
    );
}

#[test]
fn an_update_that_may_undo_a_stuck_rollout_is_never_refused() {
    // Four pods of an earlier template, none of the last.
    let mut old = asking_for(workload("Deployment", rolling(4, "1", "0")), "2");
    old["status"] = json!({"replicas": 4});
    let undone = request(&workload("Deployment", rolling(4, "1", "0")), Some(&old));
    let expected = "its pods would be rejected: quota team: no room to surge by 1 pod, so the rollout will stop: requests.cpu short by \
                    500m (0 available); or set maxSurge 0, maxUnavailable 1 (unless it returns to the template of its present pods)";
    assert_eq!(messages(&undone, "4", &json!({"quotas": {"workloadMode": "enforce"}})), [expected]);
}

#[test]
fn no_pods_are_created_by_a_controller_that_has_ended() {
    let job = |spec: Value, status: Value| with_status(workload("Job", spec), status);
    let update = |spec: Value, status: Value| {
        let mut old = spec.clone();
        old["parallelism"] = json!(1);
        messages(&request(&workload("Job", spec), Some(&job(old, status))), "4", &json!({})).len()
    };
    let queue = json!({"parallelism": 5});
    assert_eq!(update(queue.clone(), json!({"active": 1})), 1);
    // After the first success, a work queue keeps what runs.
    assert_eq!(update(queue.clone(), json!({"active": 1, "succeeded": 1})), 0);
    for kind in ["Complete", "Failed"] {
        assert_eq!(update(queue.clone(), json!({"conditions": [{"type": kind, "status": "True"}]})), 0);
        assert_eq!(update(queue.clone(), json!({"conditions": [{"type": kind, "status": "False"}]})), 1);
    }
    let indexed = json!({"parallelism": 5, "completions": 6, "completionMode": "Indexed"});
    assert_eq!(update(indexed.clone(), json!({"active": 1, "succeeded": 4})), 1);
    assert_eq!(update(indexed, json!({"active": 1, "succeeded": 5})), 0);
    assert_eq!(update(json!({"parallelism": 5, "managedBy": "example.com/queue"}), json!({})), 0);

    let mut leaving = with_status(workload("Deployment", json!({"replicas": 1})), json!({"replicas": 1}));
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    check(&request(&workload("Deployment", json!({"replicas": 9})), Some(&leaving)), "4", &[]);
}

#[test]
fn a_daemon_set_replaces_its_pods_in_place_unless_it_may_surge() {
    let daemons = |strategy: Value, cpu: &str| {
        asking_for(workload("DaemonSet", json!({"updateStrategy": {"rollingUpdate": strategy}})), cpu)
    };
    let status = json!({"desiredNumberScheduled": 8, "currentNumberScheduled": 8});
    let renewed = |strategy: Value, cpu: &str| {
        let old = with_status(daemons(strategy.clone(), "500m"), status.clone());
        request(&daemons(strategy, cpu), Some(&old))
    };
    check(&renewed(json!({"maxUnavailable": "10%"}), "400m"), "4", &[]);
    check(
        &renewed(json!({"maxSurge": "10%", "maxUnavailable": 0}), "400m"),
        "4",
        &[
            "its pods would be rejected: quota team: no room to surge by 1 pod, so the rollout will stop: requests.cpu short by 400m (0 available)",
        ],
    );
}

#[test]
fn a_scale_counts_the_estimates_of_its_pods() {
    let bare = json!({"spec": {"containers": [{"name": "a", "image": "nginx:1.27"}]}});
    let template = json!({"metadata": {"name": "web"}, "spec": {"template": bare}});
    let quota =
        json!({"metadata": {"name": "q"}, "status": {"hard": {"requests.cpu": "1"}, "used": {"requests.cpu": "100m"}}});
    let lists = json!({"ResourceQuota": {"items": [quota]}, "Scaled": template});
    let warnings = |wanted: u32, settings: Value| {
        let scale = |replicas| json!({"kind": "Scale", "spec": {"replicas": replicas}, "status": {"replicas": 1}});
        let mut request = request(&scale(wanted), Some(&scale(1)));
        request["subResource"] = json!("scale");
        answer(&json!({"request": request, "settings": settings}), &lists, None).warnings
    };
    assert_eq!(warnings(2, json!({})), [""; 0]);
    assert_eq!(
        warnings(12, json!({})),
        ["only 10 of 12 replicas fit quota \"q\": requests.cpu short by 200m (900m available)"]
    );
    let expected = ["its pods would be rejected: quota q: set requests.cpu in a, or add defaults to a LimitRange"];
    assert_eq!(warnings(2, json!({"estimates": {"mode": "never"}})), expected);
}

#[test]
fn defaults_of_limit_ranges_are_counted_even_if_these_are_not_checked() {
    let mut bare = workload("Deployment", json!({"replicas": 9}));
    *bare.pointer_mut("/spec/template/spec/containers/0").unwrap() = json!({"name": "web"});
    let range = json!({"metadata": {"name": "small"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "1m"}, "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "500m"}}]}});
    let quota =
        json!({"metadata": {"name": "team"}, "status": {"hard": {"requests.cpu": "4"}, "used": {"requests.cpu": "0"}}});
    let lists = json!({"ResourceQuota": {"items": [quota]}, "LimitRange": {"items": [range]}});
    let settings = json!({"estimates": {"mode": "never"}, "limitRanges": {"mode": "off"}});
    let answer = answer(&json!({"request": request(&bare, None), "settings": settings}), &lists, None);
    assert_eq!(answer.warnings, ["only 8 of 9 replicas fit quota \"team\": requests.cpu short by 500m (4 available)"]);
}

#[test]
fn limited_resources_are_limited_for_the_pods_of_workloads() {
    let settings = json!({"quotas": {"limitedResources": [{"resource": "pods", "matchContains": ["requests.cpu"]}]}});
    let lists = json!({"ResourceQuota": {"items": []}});
    let warnings = |replicas: u32| {
        let request = request(&workload("Deployment", json!({"replicas": replicas})), None);
        answer(&json!({"request": request, "settings": settings}), &lists, None).warnings
    };
    assert_eq!(warnings(1), ["its pods would be rejected: no ResourceQuota in this namespace covers requests.cpu"]);
    assert_eq!(warnings(0), [""; 0]);
    // A paused Deployment creates pods of the template that it had, which requests nothing.
    let paused = |replicas: u32| json!({"replicas": replicas, "paused": true});
    let mut old = with_status(workload("Deployment", paused(1)), json!({"replicas": 1}));
    *old.pointer_mut("/spec/template/spec/containers/0/resources").unwrap() = json!({});
    let scaled = request(&workload("Deployment", paused(2)), Some(&old));
    assert_eq!(answer(&json!({"request": scaled, "settings": settings}), &lists, None).warnings, [""; 0]);
    // So does a partition, here of pods that no quota covers, although the new template requests nothing.
    let partitioned =
        |replicas: u32| json!({"replicas": replicas, "updateStrategy": {"rollingUpdate": {"partition": 9}}});
    let old = with_status(workload("StatefulSet", partitioned(1)), json!({"replicas": 1}));
    let mut scaled = workload("StatefulSet", partitioned(2));
    *scaled.pointer_mut("/spec/template/spec/containers/0/resources").unwrap() = json!({});
    assert_eq!(
        answer(&json!({"request": request(&scaled, Some(&old)), "settings": settings}), &lists, None).warnings,
        ["its pods would be rejected: no ResourceQuota in this namespace covers requests.cpu"]
    );
}

#[test]
fn old_pods_that_no_quota_covers_are_not_waited_for() {
    let requesting = |resources: Value| {
        let mut workload = workload("Deployment", rolling(4, "1", "1"));
        *workload.pointer_mut("/spec/template/spec/containers/0/resources").unwrap() = json!({"requests": resources});
        workload
    };
    // Two of four old pods are missing, and would fill the quota if they could be created.
    let old = with_status(requesting(json!({"cpu": "500m", "memory": "1Gi"})), json!({"replicas": 2}));
    let renewed = request(&requesting(json!({"cpu": "500m"})), Some(&old));
    let quota = json!({"metadata": {"name": "team"}, "status": {
        "hard": {"requests.cpu": "2"}, "used": {"requests.cpu": "1"}}});
    let lists = json!({"ResourceQuota": {"items": [quota]}});
    let warnings = |limited: &str| {
        let settings = json!({"quotas": {"limitedResources": [{"resource": "pods", "matchContains": [limited]}]}});
        answer(&json!({"request": renewed, "settings": settings}), &lists, None).warnings
    };
    let slower = "quota team: no room to surge by 2 pods, so the rollout will be slower: requests.cpu short by 500m (1 available)";
    assert_eq!(warnings("requests.memory"), [slower]);
    // If they can be created, they fill the quota first.
    let filled = "quota team: no room to surge by 1 pod, so the rollout will be slower: requests.cpu short by 500m (0 available)";
    assert_eq!(warnings("limits.memory"), [filled]);
}

#[test]
fn old_pods_that_a_quota_refuses_are_not_waited_for() {
    let limited = |limits: Value, replicas: u32| {
        let mut workload = workload("Deployment", rolling(replicas, "1", "1"));
        let resources = workload.pointer_mut("/spec/template/spec/containers/0/resources").unwrap();
        *resources = json!({"requests": {"cpu": "500m"}, "limits": limits});
        workload
    };
    // Two of four old pods are missing, because the quota requires a limit since they were created.
    let old = with_status(limited(json!({}), 4), json!({"replicas": 2}));
    let quota = json!({"metadata": {"name": "team"}, "status": {
        "hard": {"requests.cpu": "2", "limits.cpu": "9"}, "used": {"requests.cpu": "1", "limits.cpu": "0"}}});
    let lists = json!({"ResourceQuota": {"items": [quota]}});
    let renewed = request(&limited(json!({"cpu": "1"}), 4), Some(&old));
    assert_eq!(
        answer(&json!({"request": renewed, "settings": {}}), &lists, None).warnings,
        [
            "quota team: no room to surge by 2 pods, so the rollout will be slower: requests.cpu short by 500m (1 available)"
        ]
    );
}

/// A StatefulSet whose pods each have a claim of 10Gi and one of 1Gi.
fn with_claims(replicas: u64) -> Value {
    let claim = |name: &str, storage: &str| json!({"metadata": {"name": name}, "spec": {"resources": {"requests": {"storage": storage}}}});
    let templates = [claim("data", "10Gi"), claim("log", "1Gi")];
    workload("StatefulSet", json!({"replicas": replicas, "volumeClaimTemplates": templates}))
}

fn warnings_of_claims(request: &Value, lists: &Value) -> Vec<String> {
    let answer = answer(&json!({"request": request, "settings": {"quotas": {"workloadMode": "enforce"}}}), lists, None);
    assert!(answer.accepted, "claims may be there already, so nothing is refused for them: {}", answer.message);
    answer.warnings
}

#[test]
fn the_claims_of_a_stateful_set_are_part_of_its_forecast() {
    let quota = |used: &str| {
        let levels = |storage: &str| json!({"requests.storage": storage, "persistentvolumeclaims": "10", "gold.storageclass.storage.k8s.io/requests.storage": "0"});
        json!({"ResourceQuota": {"items": [{"metadata": {"name": "team"}, "status":
            {"hard": levels("30Gi"), "used": {"requests.storage": used, "persistentvolumeclaims": "0", "gold.storageclass.storage.k8s.io/requests.storage": "0"}}}]}})
    };
    let check = |request: &Value, used: &str, expected: &[&str]| {
        assert_eq!(warnings_of_claims(request, &quota(used)), expected);
    };
    let two_fit = "only 2 of 3 replicas fit quota \"team\": requests.storage short by 3Gi (30Gi available) \
        (assuming that their claims do not exist yet)";
    check(&request(&with_claims(3), None), "0", &[two_fit]);
    check(&request(&with_claims(2), None), "0", &[]);
    // Existing pods keep their claims; only added pods need new ones.
    let of = |replicas| with_status(with_claims(replicas), json!({"replicas": replicas}));
    let one_fits = "only 2 of 3 replicas fit quota \"team\": requests.storage short by 3Gi (8Gi available) \
        (assuming that their claims do not exist yet)";
    check(&request(&with_claims(3), Some(&of(2))), "22Gi", &[one_fits]);
    check(&request(&with_claims(2), Some(&of(3))), "33Gi", &[]);
    let renewed = |replicas| asking_for(with_claims(replicas), "600m");
    check(&request(&renewed(3), Some(&of(3))), "33Gi", &[]);
    // A scale has no templates itself.
    let scale = |replicas: u64| json!({"kind": "Scale", "metadata": {"name": "web", "resourceVersion": "1"}, "spec": {"replicas": replicas}, "status": {"replicas": 2}});
    let mut request = request(&scale(3), Some(&scale(2)));
    (request["resource"], request["subResource"]) =
        (json!({"group": "apps", "resource": "statefulsets"}), json!("scale"));
    let mut lists = quota("22Gi");
    lists["Scaled"] = of(2);
    assert_eq!(warnings_of_claims(&request, &lists), [one_fits]);
}

#[test]
fn a_tenant_quota_bounds_claims_without_any_resource_quota() {
    let acme = json!({"metadata": {"name": "acme"}, "spec": {"namespaces": {"names": ["shop"]}},
        "status": {"hard": {"requests.storage": "20Gi"}, "used": {"requests.storage": "0"}}});
    let lists = json!({"ResourceQuota": {"items": []}, "TenantQuota": {"items": [acme]}});
    let payload = json!({"request": request(&with_claims(2), None), "settings": {"quotas": {"tenantQuotas": true}}});
    let one_fits = "only 1 of 2 replicas fit tenant quota \"acme\": requests.storage short by 2Gi (20Gi available) \
        (assuming that their claims do not exist yet)";
    assert_eq!(answer(&payload, &lists, None).warnings, [one_fits]);
}

#[test]
fn limit_ranges_bound_the_claims_of_a_stateful_set() {
    let range = json!({"metadata": {"name": "disks"}, "spec": {"limits": [{"type": "PersistentVolumeClaim", "min": {"storage": "2Gi"}, "max": {"storage": "5Gi"}}]}});
    let lists = json!({"LimitRange": {"items": [range]}});
    let warnings = warnings_of_claims(&request(&with_claims(1), None), &lists);
    assert_eq!(
        warnings,
        [
            "its claims would be rejected: maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 10Gi; \
                claim template data: lower the storage request from 10Gi to at most 5Gi (LimitRange disks)",
            "its claims would be rejected: minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi; \
                claim template log: raise the storage request from 1Gi to at least 2Gi (LimitRange disks)",
        ]
    );
    // Claims that are there are not made again.
    let old = with_status(with_claims(1), json!({"replicas": 1}));
    assert!(warnings_of_claims(&request(&asking_for(with_claims(1), "600m"), Some(&old)), &lists).is_empty());
}
