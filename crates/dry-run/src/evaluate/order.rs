//! The order in which objects that are applied together count.

use serde_json::Value;

/// Calls `each` with all items, in three parts: objects that bound a namespace, say what kinds there are or have what pods are
/// made of, since no pod of a workload is created before them; the others; and autoscalers, whose targets are there by the
/// time they scale. The results are in the order of the items.
pub fn in_order<T, R>(items: Vec<T>, object: impl Fn(&T) -> Option<&Value>, mut each: impl FnMut(T) -> R) -> Vec<R> {
    // Without sorting, which would make the page's wasm larger.
    let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
    let mut parts = [Vec::new(), Vec::new(), Vec::new()];
    let [bounds, others, autoscalers] = &mut parts;
    for (item, result) in items.into_iter().zip(&mut results) {
        let kind = object(&item).and_then(|object| object.get("kind")).and_then(Value::as_str).unwrap_or_default();
        let part = match kind {
            "Namespace"
            | "LimitRange"
            | "ResourceQuota"
            | "TenantQuota"
            | "CustomResourceDefinition"
            | "ResourceClaimTemplate"
            | "SandboxTemplate" => &mut *bounds,
            "HorizontalPodAutoscaler" | "ScaledObject" => &mut *autoscalers,
            _ => &mut *others,
        };
        part.push((item, result));
    }
    for (item, result) in parts.into_iter().flatten() {
        *result = Some(each(item));
    }
    results.into_iter().flatten().collect()
}
