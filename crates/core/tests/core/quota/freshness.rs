//! With live usage, only the quotas close to their bounds are read again.

use serde_json::{Value, json};

use crate::harness::answer;

fn quota(name: &str, hard: u32, used: u32) -> Value {
    json!({"metadata": {"name": name}, "status": {"hard": {"pods": hard.to_string()}, "used": {"pods": used.to_string()}}})
}

/// Evaluates a pod: true if it is admitted, and the quotas that were read again.
fn evaluate(freshness: &str, listed: &[Value], fresh: &[Value]) -> (bool, Vec<String>) {
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}});
    let request = json!({"operation": "CREATE", "namespace": "shop", "resource": {"group": "", "resource": "pods"}, "object": pod});
    let payload = json!({"request": request, "settings": {"quotas": {"freshness": freshness}}});
    let answer = answer(&payload, &json!({"ResourceQuota": {"items": listed}, "Fresh": {"items": fresh}}), None);
    (answer.accepted, answer.read_again)
}

#[test]
fn quotas_of_a_watched_list_are_not_read_again() {
    assert_eq!(evaluate("watch", &[quota("a", 5, 5)], &[quota("a", 5, 1)]), (false, vec![]));
}

#[test]
fn a_quota_that_refuses_is_read_again() {
    assert_eq!(evaluate("live", &[quota("a", 5, 5)], &[quota("a", 5, 1)]), (true, vec!["a".to_owned()]));
}

#[test]
fn a_quota_close_to_its_bound_is_read_again() {
    assert_eq!(evaluate("live", &[quota("a", 20, 15)], &[quota("a", 20, 20)]), (false, vec!["a".to_owned()]));
}

#[test]
fn a_quota_with_ample_room_is_not_read_again() {
    assert_eq!(evaluate("live", &[quota("a", 20, 1)], &[quota("a", 20, 20)]), (true, vec![]));
    // Room for ten more like this one.
    assert_eq!(evaluate("live", &[quota("a", 20, 9)], &[quota("a", 20, 20)]), (true, vec![]));
}

#[test]
fn at_most_eight_quotas_are_read_again_and_refusing_ones_come_first() {
    let close = (0..20).map(|index| quota(&format!("close-{index:02}"), 9, 1));
    let listed: Vec<Value> = close.chain([quota("full", 1, 1)]).collect();
    let (accepted, names) = evaluate("live", &listed, &listed);
    assert!(!accepted);
    assert_eq!(names.len(), 8);
    assert!(names.contains(&"full".to_owned()) && names.is_sorted());
}
