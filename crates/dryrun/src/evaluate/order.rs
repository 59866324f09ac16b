//! The order in which objects that are applied together count.

use serde_json::Value;

/// Calls `each` with all items, those first whose object bounds a namespace: Helm, Kustomize and Argo CD apply these before
/// others, and however they are applied, the pods of a workload are created after it. The results are in the order of the items.
pub fn bounds_first<T, R>(
    items: Vec<T>,
    object: impl Fn(&T) -> Option<&Value>,
    mut each: impl FnMut(T) -> R,
) -> Vec<R> {
    // Without sorting, which would make the page's wasm larger.
    let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
    let (bounds, others): (Vec<_>, Vec<_>) =
        items.into_iter().zip(&mut results).partition(|(item, _)| object(item).is_some_and(is_bound));
    for (item, result) in bounds.into_iter().chain(others) {
        *result = Some(each(item));
    }
    results.into_iter().flatten().collect()
}

fn is_bound(object: &Value) -> bool {
    let kind = object.get("kind").and_then(Value::as_str);
    matches!(kind, Some("Namespace" | "LimitRange" | "ResourceQuota" | "TenantQuota"))
}
