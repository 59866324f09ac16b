//! Requests that are charged in part, or not at all.

use serde_json::{Value, json};

use crate::door::{Answer, answer};

fn judge(request: &Value, quotas: &[Value], settings: &Value) -> Answer {
    let payload = json!({"request": request, "settings": settings});
    answer(&payload, &json!({"ResourceQuota": {"items": quotas}}), None)
}

fn quota(spec: Value, hard: Value, used: Value) -> Value {
    json!({"metadata": {"name": "team"}, "spec": spec, "status": {"hard": hard, "used": used}})
}

fn pod(cpu: &str) -> Value {
    let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    json!({"metadata": {"name": "p", "uid": "42", "resourceVersion": "1"}, "spec": {"containers": [container]}})
}

fn of_pods(operation: &str, object: &Value, old: Option<&Value>) -> Value {
    json!({
        "uid": "7", "operation": operation, "namespace": "shop", "resource": {"group": "", "resource": "pods"},
        "object": object, "oldObject": old,
    })
}

#[test]
fn the_audit_scanner_finds_a_pod_that_is_counted_already() {
    let full = quota(json!({}), json!({"requests.cpu": "1"}), json!({"requests.cpu": "1"}));
    let mut request = of_pods("CREATE", &pod("500m"), None);
    assert!(!judge(&request, std::slice::from_ref(&full), &json!({})).accepted);
    request["uid"] = json!("42");
    let audited = judge(&request, std::slice::from_ref(&full), &json!({}));
    assert!(audited.accepted, "{}", audited.message);
    assert!(audited.used.is_empty());
}

#[test]
fn the_audit_scanner_still_finds_what_a_pod_leaves_out() {
    let limits = quota(json!({}), json!({"limits.cpu": "1"}), json!({"limits.cpu": "1"}));
    let mut request = of_pods("CREATE", &pod("500m"), None);
    request["uid"] = json!("42");
    let audited = judge(&request, &[limits], &json!({}));
    assert!(audited.message.contains("failed quota: team: must specify limits.cpu for: c"), "{}", audited.message);
}

#[test]
fn a_pod_that_gets_a_deadline_is_charged_to_the_quota_that_it_comes_under() {
    let terminating =
        quota(json!({"scopes": ["Terminating"]}), json!({"requests.cpu": "1"}), json!({"requests.cpu": "600m"}));
    let before = pod("500m");
    let mut after = before.clone();
    after["spec"]["activeDeadlineSeconds"] = json!(30);
    let answer = judge(&of_pods("UPDATE", &after, Some(&before)), std::slice::from_ref(&terminating), &json!({}));
    assert!(answer.message.contains("exceeded quota: team, requested: requests.cpu=500m"), "{}", answer.message);
    let mut later = after.clone();
    later["spec"]["activeDeadlineSeconds"] = json!(20);
    assert!(judge(&of_pods("UPDATE", &later, Some(&after)), &[terminating], &json!({})).accepted);
}

#[test]
fn an_update_without_its_old_object_is_refused_as_kubernetes_refuses_it() {
    let quotas = [quota(json!({}), json!({"services": "5"}), json!({"services": "1"}))];
    let service = json!({"metadata": {"name": "s"}, "spec": {"type": "ClusterIP"}});
    let request = json!({
        "operation": "UPDATE", "namespace": "shop", "resource": {"group": "", "resource": "services"}, "object": service,
    });
    let message = judge(&request, &quotas, &json!({})).message;
    let upstream =
        "services \"s\" is forbidden: unable to get previous usage since prior version of object was not found";
    assert!(message.starts_with(upstream), "{message}");
}

#[test]
fn negative_amounts_are_refused_as_kubernetes_refuses_them() {
    let quotas = [quota(json!({}), json!({"pods": "5"}), json!({"pods": "1"}))];
    let message = judge(&of_pods("CREATE", &pod("-1"), None), &quotas, &json!({})).message;
    let upstream = "pods \"p\" is forbidden: quota usage is negative for resource(s): cpu,requests.cpu";
    assert!(message.starts_with(upstream), "{message}");
}

#[test]
fn a_claim_whose_volume_has_grown_is_never_refused() {
    let claim = |allocated: &str| {
        let status = json!({"allocatedResources": {"storage": allocated}});
        let spec = json!({"resources": {"requests": {"storage": "1Gi"}}});
        json!({"metadata": {"name": "c", "resourceVersion": "1"}, "spec": spec, "status": status})
    };
    let quotas = [quota(json!({}), json!({"requests.storage": "1Gi"}), json!({"requests.storage": "1Gi"}))];
    let request = json!({
        "operation": "UPDATE", "namespace": "shop", "subResource": "status",
        "resource": {"group": "", "resource": "persistentvolumeclaims"}, "object": claim("2Gi"), "oldObject": claim("1Gi"),
    });
    assert!(judge(&request, &quotas, &json!({})).accepted);
}

#[test]
fn what_is_off_or_exempt_is_let_through() {
    let full = [quota(json!({}), json!({"pods": "1"}), json!({"pods": "1"}))];
    let request = of_pods("CREATE", &pod("1"), None);
    assert!(!judge(&request, &full, &json!({})).accepted);
    assert!(!judge(&request, &full, &json!({"limitRanges": {"mode": "off"}})).accepted);
    assert!(judge(&request, &full, &json!({"quotas": {"mode": "off"}})).accepted);
    assert!(judge(&request, &full, &json!({"exempt": {"namespaces": ["shop"]}})).accepted);
    let warned = judge(&request, &full, &json!({"quotas": {"mode": "warn"}}));
    assert!(warned.accepted);
    assert_eq!(warned.warnings, ["would be refused: quota team: pods short by 1 (0 available)"]);
}

#[test]
fn the_audit_scanner_is_not_refused_what_no_quota_covers() {
    let settings = json!({"quotas": {"limitedResources": [{"resource": "pods", "matchContains": ["requests.cpu"]}]}});
    let mut request = of_pods("CREATE", &pod("500m"), None);
    assert!(!judge(&request, &[], &settings).accepted);
    request["uid"] = json!("42");
    assert!(judge(&request, &[], &settings).accepted);
}

#[test]
fn what_is_charged_for_devices_depends_on_the_classes_that_there_are() {
    let claim = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [
        {"name": "one", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}]}}});
    let request = json!({
        "operation": "CREATE", "namespace": "shop", "object": claim,
        "resource": {"group": "resource.k8s.io", "resource": "resourceclaims"},
    });
    let check = |name: &str, is_bound: bool| {
        let classes = json!([{"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}]);
        // Nobody has counted it yet, which refuses whatever is charged under it.
        let quotas = json!([quota(json!({}), json!({name: "5"}), json!({}))]);
        let lists = json!({"ResourceQuota": {"items": quotas}, "DeviceClass": {"items": classes}});
        let answer = answer(&json!({"request": request, "settings": {}}), &lists, None);
        assert_eq!(answer.accepted, !is_bound, "{name}: {}", answer.message);
    };
    check("requests.example.com/gpu", true);
    check("requests.example.com/other", false);
    check("requests.deviceclass.resource.kubernetes.io/gpu", true);
    check("requests.deviceclass.resource.kubernetes.io/other", false);
}

/// An update where these resources may be consumed only under a quota, and there is none.
fn updated(object: &Value, old: &Value, resource: &str, limited: &Value) -> Answer {
    let stored = |object: &Value| {
        let mut object = object.clone();
        object["metadata"] = json!({"name": "a", "resourceVersion": "1"});
        object
    };
    let request = json!({
        "operation": "UPDATE", "namespace": "shop", "resource": {"group": "", "resource": resource},
        "object": stored(object), "oldObject": stored(old),
    });
    judge(&request, &[], &json!({"quotas": {"limitedResources": [limited]}}))
}

#[test]
fn what_may_be_consumed_only_under_a_quota_may_stay_but_not_grow() {
    let limited = json!({"resource": "persistentvolumeclaims", "matchContains": ["requests.storage"]});
    let claim = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
    let check = |from: &str, to: &str, is_accepted: bool| {
        let answer = updated(&claim(to), &claim(from), "persistentvolumeclaims", &limited);
        assert_eq!(answer.accepted, is_accepted, "{from} {to}: {}", answer.message);
    };
    check("1Gi", "1Gi", true);
    check("2Gi", "1Gi", true);
    check("1Gi", "2Gi", false);
    let limited = json!({"resource": "services", "matchContains": ["services"]});
    let service = |kind: &str| json!({"spec": {"type": kind, "ports": [{"port": 80}]}});
    assert!(updated(&service("ClusterIP"), &service("ClusterIP"), "services", &limited).accepted);
    assert!(!updated(&service("LoadBalancer"), &service("ClusterIP"), "services", &limited).accepted);
}

#[test]
fn only_the_kind_that_is_limited_needs_a_quota() {
    let request = of_pods("CREATE", &pod("500m"), None);
    let check = |group: &str, resource: &str, is_accepted: bool| {
        let limited = json!({"apiGroup": group, "resource": resource, "matchContains": ["cpu"]});
        let answer = judge(&request, &[], &json!({"quotas": {"limitedResources": [limited]}}));
        assert_eq!(answer.accepted, is_accepted, "{group} {resource}: {}", answer.message);
    };
    check("", "pods", false);
    check("apps", "pods", true);
    check("", "services", true);
}

#[test]
fn a_kind_with_two_names_needs_a_quota_for_both() {
    let limited = json!({"resource": "configmaps", "matchContains": ["configmaps"]});
    let request = json!({
        "operation": "CREATE", "namespace": "shop", "resource": {"group": "", "resource": "configmaps"},
        "object": {"metadata": {"name": "a"}},
    });
    let answer = judge(&request, &[], &json!({"quotas": {"limitedResources": [limited]}}));
    assert!(
        answer.message.contains("insufficient quota to consume: configmaps,count/configmaps"),
        "{}",
        answer.message
    );
}

/// Whether a quota that is full holds an object of this kind.
fn is_held(resource: &str, object: &Value, operation: &str, spec: Value) -> bool {
    let name = if resource == "pods" { "pods" } else { "count/persistentvolumeclaims" };
    let full = quota(spec, json!({name: "1"}), json!({name: "1"}));
    let request = json!({
        "uid": "7", "operation": operation, "namespace": "shop", "resource": {"group": "", "resource": resource}, "object": object,
    });
    !judge(&request, &[full], &json!({})).accepted
}

#[test]
fn a_selector_leaves_out_what_it_lists() {
    let mut high = pod("500m");
    high["spec"]["priorityClassName"] = json!("high");
    let but = |class: &str| json!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "NotIn", "values": [class]}]}});
    assert!(!is_held("pods", &high, "CREATE", but("high")));
    assert!(is_held("pods", &high, "CREATE", but("low")));
}

#[test]
fn a_claim_has_no_scope_but_that_of_its_attributes() {
    let claim = |class: &str| {
        let spec = json!({"volumeAttributesClassName": class, "resources": {"requests": {"storage": "1Gi"}}});
        json!({"metadata": {"name": "c"}, "spec": spec})
    };
    let of = |scope: &str, operator: &str| json!({"scopeSelector": {"matchExpressions": [{"scopeName": scope, "operator": operator}]}});
    let is_held = |class: &str, spec| is_held("persistentvolumeclaims", &claim(class), "CREATE", spec);
    assert!(is_held("gold", of("VolumeAttributesClass", "Exists")));
    assert!(!is_held("gold", of("PriorityClass", "Exists")));
    // An empty name is none.
    assert!(!is_held("", of("VolumeAttributesClass", "Exists")));
    assert!(is_held("", of("VolumeAttributesClass", "DoesNotExist")));
}

#[test]
fn a_stored_pod_keeps_the_class_that_it_was_given() {
    let full = quota(json!({"scopes": ["BestEffort", "Terminating"]}), json!({"pods": "1"}), json!({"pods": "1"}));
    let accepted = |class: &str| {
        let mut old = pod("500m");
        old["status"] = json!({"qosClass": class});
        let mut new = old.clone();
        new["spec"]["activeDeadlineSeconds"] = json!(30);
        // It comes under the quota by its deadline, where its class is right.
        judge(&of_pods("UPDATE", &new, Some(&old)), std::slice::from_ref(&full), &json!({})).accepted
    };
    assert!(!accepted("BestEffort"));
    assert!(accepted("Burstable"));
    assert!(accepted(""));
}
