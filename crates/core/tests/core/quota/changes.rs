//! Requests that are charged partly or not at all.

use serde_json::{Value, json};

use crate::harness::{Answer, answer};

fn evaluate(request: &Value, quotas: &[Value], settings: &Value) -> Answer {
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
    let refused = evaluate(&request, &[team], &json!({}));
    let text = format!("exceeded quota: team, requested: requests.cpu=>{MAX}, used: requests.cpu=0, limited: ");
    assert!(!refused.accepted && refused.message.contains(&text), "{}", refused.message);
    // Nothing is known of the growth of such a sum, so it is never taken for none.
    let old = json!({"metadata": {"name": "p", "resourceVersion": "1"}, "spec": pod["spec"]});
    let mut resize = of_pods("UPDATE", &old, Some(&old));
    resize["subResource"] = json!("resize");
    let full = quota(json!({}), json!({"requests.cpu": "1"}), json!({"requests.cpu": "0"}));
    assert!(!evaluate(&resize, &[full], &json!({})).accepted);
    let rules = json!([{"name": "pods", "limits": [{"type": "Pod", "max": {"cpu": MAX}}]}]);
    let refused = evaluate(&request, &[], &json!({"limitRanges": {"rules": rules}}));
    assert!(!refused.accepted && refused.message.contains("maximum cpu usage per Pod is"), "{}", refused.message);
    assert!(evaluate(&request, &[], &json!({})).accepted);
}

#[test]
fn an_amount_beyond_the_largest_is_refused_with_its_place() {
    let refused = evaluate(&of_pods("CREATE", &pod("1e30"), None), &[], &json!({}));
    let text = "object.spec.containers[0].resources.requests.cpu: `1e30` is not a quantity: it must be from -170141";
    assert!(!refused.accepted && refused.message.contains(text), "{}", refused.message);
}

#[test]
fn the_audit_scanner_does_not_charge_a_stored_pod_again() {
    let full = quota(json!({}), json!({"requests.cpu": "1"}), json!({"requests.cpu": "1"}));
    let mut request = of_pods("CREATE", &pod("500m"), None);
    assert!(!evaluate(&request, std::slice::from_ref(&full), &json!({})).accepted);
    request["uid"] = json!("42");
    let audited = evaluate(&request, std::slice::from_ref(&full), &json!({}));
    assert!(audited.accepted, "{}", audited.message);
    assert!(audited.used.is_empty());
}

#[test]
fn the_audit_scanner_still_reports_missing_values_of_a_pod() {
    let limits = quota(json!({}), json!({"limits.cpu": "1"}), json!({"limits.cpu": "1"}));
    let mut request = of_pods("CREATE", &pod("500m"), None);
    request["uid"] = json!("42");
    let audited = evaluate(&request, &[limits], &json!({}));
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
        evaluate(&request, std::slice::from_ref(&limits), &json!({})).message
    };
    assert!(message("Burstable").contains("must specify limits.cpu"));
    assert_eq!(message("BestEffort"), "");
}

#[test]
fn requests_are_admitted_if_quotas_are_off_or_they_are_exempt() {
    let full = [quota(json!({}), json!({"pods": "1"}), json!({"pods": "1"}))];
    let request = of_pods("CREATE", &pod("1"), None);
    assert!(!evaluate(&request, &full, &json!({})).accepted);
    assert!(!evaluate(&request, &full, &json!({"limitRanges": {"mode": "off"}})).accepted);
    assert!(evaluate(&request, &full, &json!({"quotas": {"mode": "off"}})).accepted);
    assert!(evaluate(&request, &full, &json!({"exempt": {"namespaces": ["shop"]}})).accepted);
    let warned = evaluate(&request, &full, &json!({"quotas": {"mode": "warn"}}));
    assert!(warned.accepted);
    assert_eq!(warned.warnings, ["would be rejected: quota team: pods short by 1 (0 available)"]);
}

#[test]
fn the_audit_scanner_is_not_refused_for_uncovered_resources() {
    let settings = json!({"quotas": {"limitedResources": [{"resource": "pods", "matchContains": ["requests.cpu"]}]}});
    let mut request = of_pods("CREATE", &pod("500m"), None);
    assert!(!evaluate(&request, &[], &settings).accepted);
    request["uid"] = json!("42");
    assert!(evaluate(&request, &[], &settings).accepted);
}

#[test]
fn a_refusal_for_an_uncovered_scope_does_not_begin_with_the_object_as_in_kubernetes() {
    let message = |limited: Value| {
        let settings = json!({"quotas": {"limitedResources": [limited]}});
        evaluate(&of_pods("CREATE", &pod("500m"), None), &[], &settings).message
    };
    let of_scope =
        message(json!({"resource": "pods", "matchScopes": [{"scopeName": "NotBestEffort", "operator": "Exists"}]}));
    assert!(
        of_scope.starts_with("insufficient quota to match these scopes: [{NotBestEffort Exists []}]"),
        "{of_scope}"
    );
    let of_name = message(json!({"resource": "pods", "matchContains": ["requests.cpu"]}));
    assert!(of_name.starts_with("pods \"p\" is forbidden: insufficient quota to consume: requests.cpu"), "{of_name}");
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
