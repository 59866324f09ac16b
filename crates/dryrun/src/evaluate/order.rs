//! The order in which objects that are applied together count.

use serde_json::Value;

/// Calls `each` with all items, those first whose object bounds a namespace: Helm, Kustomize and Argo CD apply these before
/// others, and however they are applied, the pods of a workload are created after it. The results are in the order of the items.
pub fn bounds_first<T, R>(
    items: Vec<T>,
    object: impl Fn(&T) -> Option<&Value>,
    mut each: impl FnMut(T) -> R,
) -> Vec<R> {
    let mut items: Vec<(usize, T)> = items.into_iter().enumerate().collect();
    items.sort_by_key(|(_, item)| !object(item).is_some_and(is_bound));
    let mut results: Vec<(usize, R)> = items.into_iter().map(|(place, item)| (place, each(item))).collect();
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

fn is_bound(object: &Value) -> bool {
    let kind = object.get("kind").and_then(Value::as_str);
    matches!(kind, Some("Namespace" | "LimitRange" | "ResourceQuota" | "TenantQuota"))
}
