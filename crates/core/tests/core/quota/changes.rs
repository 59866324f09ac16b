//! Requests that are charged partly or not at all.

use serde_json::{Value, json};

use crate::harness::{Answer, answer};

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
fn sums_beyond_the_largest_amount_are_refused_by_every_bound() {
    const MAX: &str = "170141183460469231731687303715";
    let container = |name: &str| json!({"name": name, "resources": {"requests": {"cpu": "1e29"}}});
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [container("a"), container("b")]}});
    let request = of_pods("CREATE", &pod, None);
    let team = quota(json!({}), json!({"requests.cpu": MAX}), json!({"requests.cpu": "0"}));
    let refused = judge(&request, &[team], &json!({}));
    let text = format!("exceeded quota: team, requested: requests.cpu=>{MAX}, used: requests.cpu=0, limited: ");
    assert!(!refused.accepted && refused.message.contains(&text), "{}", refused.message);
    // Nothing is known of the growth of such a sum, so it is never taken for none.
    let old = json!({"metadata": {"name": "p", "resourceVersion": "1"}, "spec": pod["spec"]});
    let mut resize = of_pods("UPDATE", &old, Some(&old));
    resize["subResource"] = json!("resize");
    let full = quota(json!({}), json!({"requests.cpu": "1"}), json!({"requests.cpu": "0"}));
    assert!(!judge(&resize, &[full], &json!({})).accepted);
    let rules = json!([{"name": "pods", "limits": [{"type": "Pod", "max": {"cpu": MAX}}]}]);
    let refused = judge(&request, &[], &json!({"limitRanges": {"rules": rules}}));
    assert!(!refused.accepted && refused.message.contains("maximum cpu usage per Pod is"), "{}", refused.message);
    assert!(judge(&request, &[], &json!({})).accepted);
}

#[test]
fn an_amount_beyond_the_largest_is_refused_with_its_place() {
    let refused = judge(&of_pods("CREATE", &pod("1e30"), None), &[], &json!({}));
    let text = "object.spec.containers[0].resources.requests.cpu: `1e30` is not a quantity: it must be from -170141";
    assert!(!refused.accepted && refused.message.contains(text), "{}", refused.message);
}

#[test]
fn the_audit_scanner_does_not_charge_a_stored_pod_again() {
    let full = quota(json!({}), json!({"requests.cpu": "1"}), json!({"requests.cpu": "1"}));
    let mut request = of_pods("CREATE", &pod("500m"), None);
    assert!(!judge(&request, std::slice::from_ref(&full), &json!({})).accepted);
    request["uid"] = json!("42");
    let audited = judge(&request, std::slice::from_ref(&full), &json!({}));
    assert!(audited.accepted, "{}", audited.message);
    assert!(audited.used.is_empty());
}

#[test]
fn the_audit_scanner_still_reports_missing_values_of_a_pod() {
    let limits = quota(json!({}), json!({"limits.cpu": "1"}), json!({"limits.cpu": "1"}));
    let mut request = of_pods("CREATE", &pod("500m"), None);
    request["uid"] = json!("42");
    let audited = judge(&request, &[limits], &json!({}));
    assert!(audited.message.contains("failed quota: team: must specify limits.cpu for: c"), "{}", audited.message);
}

#[test]
fn the_audit_scanner_sees_a_pod_as_it_is_stored() {
    let spec = json!({"scopes": ["NotBestEffort"]});
    let limits = quota(spec, json!({"limits.cpu": "1"}), json!({"limits.cpu": "1"}));
    let message = |class: &str| {
        let mut pod = pod("500m");
        pod["status"] = json!({"qosClass": class});
        let mut request = of_pods("CREATE", &pod, None);
        request["uid"] = json!("42");
        judge(&request, std::slice::from_ref(&limits), &json!({})).message
    };
    assert!(message("Burstable").contains("must specify limits.cpu"));
    assert_eq!(message("BestEffort"), "");
}

#[test]
fn a_pod_that_gets_a_deadline_is_charged_to_the_quota_that_it_then_matches() {
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
fn requests_are_admitted_if_quotas_are_off_or_they_are_exempt() {
    let full = [quota(json!({}), json!({"pods": "1"}), json!({"pods": "1"}))];
    let request = of_pods("CREATE", &pod("1"), None);
    assert!(!judge(&request, &full, &json!({})).accepted);
    assert!(!judge(&request, &full, &json!({"limitRanges": {"mode": "off"}})).accepted);
    assert!(judge(&request, &full, &json!({"quotas": {"mode": "off"}})).accepted);
    assert!(judge(&request, &full, &json!({"exempt": {"namespaces": ["shop"]}})).accepted);
    let warned = judge(&request, &full, &json!({"quotas": {"mode": "warn"}}));
    assert!(warned.accepted);
    assert_eq!(warned.warnings, ["would be rejected: quota team: pods short by 1 (0 available)"]);
}

#[test]
fn the_audit_scanner_is_not_refused_for_uncovered_resources() {
    let settings = json!({"quotas": {"limitedResources": [{"resource": "pods", "matchContains": ["requests.cpu"]}]}});
    let mut request = of_pods("CREATE", &pod("500m"), None);
    assert!(!judge(&request, &[], &settings).accepted);
    request["uid"] = json!("42");
    assert!(judge(&request, &[], &settings).accepted);
}

#[test]
fn the_charge_for_devices_depends_on_the_existing_classes() {
    let claim = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [
        {"name": "one", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}]}}});
    let request = json!({
        "operation": "CREATE", "namespace": "shop", "object": claim,
        "resource": {"group": "resource.k8s.io", "resource": "resourceclaims"},
    });
    let check = |name: &str, is_bound: bool| {
        let classes = json!([{"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}]);
        // The quota has no usage yet, so it refuses everything charged under the name.
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

/// An update with a limited resource and without any quota.
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
fn usage_of_a_limited_resource_may_stay_but_not_grow() {
    let limited = json!({"resource": "persistentvolumeclaims", "matchContains": ["requests.storage"]});
    let claim = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
    let check = |from: &str, to: &str, is_accepted: bool| {
        let answer = updated(&claim(to), &claim(from), "persistentvolumeclaims", &limited);
        assert_eq!(answer.accepted, is_accepted, "{from} {to}: {}", answer.message);
    };
    check("1Gi", "1Gi", true);
    check("2Gi", "1Gi", true);
    check("1Gi", "2Gi", false);
    let answer = updated(&claim("1Gi"), &json!({"spec": {}}), "persistentvolumeclaims", &limited);
    assert!(!answer.accepted);
    let limited = json!({"resource": "services", "matchContains": ["services"]});
    let service = |kind: &str| json!({"spec": {"type": kind, "ports": [{"port": 80}]}});
    assert!(updated(&service("ClusterIP"), &service("ClusterIP"), "services", &limited).accepted);
    assert!(!updated(&service("LoadBalancer"), &service("ClusterIP"), "services", &limited).accepted);
}

#[test]
fn only_the_limited_kind_needs_a_quota() {
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

/// Whether a full quota applies to the object.
fn is_covered(resource: &str, object: &Value, operation: &str, spec: Value) -> bool {
    let name = if resource == "pods" { "pods" } else { "count/persistentvolumeclaims" };
    let full = quota(spec, json!({name: "1"}), json!({name: "1"}));
    let request = json!({
        "uid": "7", "operation": operation, "namespace": "shop", "resource": {"group": "", "resource": resource}, "object": object,
    });
    !judge(&request, &[full], &json!({})).accepted
}

#[test]
fn not_in_excludes_the_listed_values() {
    let mut high = pod("500m");
    high["spec"]["priorityClassName"] = json!("high");
    let but = |class: &str| json!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "NotIn", "values": [class]}]}});
    assert!(!is_covered("pods", &high, "CREATE", but("high")));
    assert!(is_covered("pods", &high, "CREATE", but("low")));
}

#[test]
fn a_claim_matches_only_the_scope_of_its_attributes_class() {
    let claim = |class: &str| {
        let spec = json!({"volumeAttributesClassName": class, "resources": {"requests": {"storage": "1Gi"}}});
        json!({"metadata": {"name": "c"}, "spec": spec})
    };
    let of = |scope: &str, operator: &str| json!({"scopeSelector": {"matchExpressions": [{"scopeName": scope, "operator": operator}]}});
    let is_covered = |class: &str, spec| is_covered("persistentvolumeclaims", &claim(class), "CREATE", spec);
    assert!(is_covered("gold", of("VolumeAttributesClass", "Exists")));
    assert!(!is_covered("gold", of("PriorityClass", "Exists")));
    // An empty name is none.
    assert!(!is_covered("", of("VolumeAttributesClass", "Exists")));
    assert!(is_covered("", of("VolumeAttributesClass", "DoesNotExist")));
}

#[test]
fn a_stored_pod_keeps_its_qos_class() {
    let full = quota(json!({"scopes": ["BestEffort", "Terminating"]}), json!({"pods": "1"}), json!({"pods": "1"}));
    let accepted = |class: &str| {
        let mut old = pod("500m");
        old["status"] = json!({"qosClass": class});
        let mut new = old.clone();
        new["spec"]["activeDeadlineSeconds"] = json!(30);
        // The deadline makes it match the quota, if its class matches.
        judge(&of_pods("UPDATE", &new, Some(&old)), std::slice::from_ref(&full), &json!({})).accepted
    };
    assert!(!accepted("BestEffort"));
    assert!(accepted("Burstable"));
    assert!(accepted(""));
}

/// Creates a resource claim for `count` devices of a class with the extended resource `example.com/gpu`, for a pod that
/// was charged `of_pod` of them.
fn added_by_a_claim(count: i64, of_pod: &str) -> Answer {
    let name = "requests.example.com/gpu";
    let claim = json!({
        "metadata": {
            "name": "c", "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "42", "controller": true}],
        },
        "spec": {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "gpu", "count": count}}]}},
    });
    let mut pod = pod("500m");
    pod["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = json!(of_pod);
    pod["status"] = json!({"phase": "Pending", "extendedResourceClaimStatus": {"resourceClaimName": "c"}});
    let request = json!({
        "operation": "CREATE", "namespace": "shop", "name": "c", "object": claim,
        "resource": {"group": "resource.k8s.io", "resource": "resourceclaims"},
    });
    let lists = json!({
        "ResourceQuota": {"items": [quota(json!({}), json!({name: "5"}), json!({name: "1"}))]},
        "DeviceClass": {"items": [{"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}]},
        "Pod": {"items": [pod]},
    });
    answer(&json!({"request": request, "settings": {}}), &lists, None)
}

#[test]
fn a_claim_of_a_pod_is_charged_what_the_pod_was_not_charged() {
    let used = |count, of_pod| {
        let answer = added_by_a_claim(count, of_pod);
        answer.used.get("team").map_or("".to_owned(), |used| used["requests.example.com/gpu"].to_string())
    };
    assert_eq!(used(3, "1"), "\"3\"");
    assert_eq!(used(3, "3"), "");
    assert_eq!(used(3, "4"), "");
    assert!(added_by_a_claim(6, "2").accepted, "4 more fit exactly");
    assert!(!added_by_a_claim(6, "1").accepted);
    let negative = added_by_a_claim(-1, "0").message;
    assert!(
        negative.contains("quota usage is negative for resource(s): gpu.deviceclass.resource.k8s.io/devices"),
        "{negative}"
    );
}
