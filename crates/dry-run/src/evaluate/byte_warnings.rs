//! Warnings about amounts of bytes that are likely mistakes: the API server's own of fractions, such as
//! `512m` of memory, and ours of limits that are written without a unit.

use headroom_admission::amount::Quantity;
use serde_json::Value;

use super::validation::pod_in;
use headroom_objects::kinds::{ApiKind, items};
use headroom_workloads::pod_makers::PodTemplate;

const BYTES: [&str; 3] = ["memory", "ephemeral-storage", "storage"];

/// No container starts with less memory.
const LEAST_LIMIT: i64 = 1 << 20;

/// The warnings about the resources of a pod, a pod template or a claim; `templates` are the pods of a custom resource.
pub fn byte_warnings(object: &Value, templates: &[PodTemplate]) -> Vec<String> {
    let kind = ApiKind::of(object);
    if kind.qualified() == "persistentvolumeclaims" {
        let resources = object.pointer("/spec/resources");
        return resources.map(|resources| of_resources(resources, "spec.resources")).unwrap_or_default();
    }
    let own = pod_in(object, &kind).and_then(|(pod, path)| Some((pod?.get("spec")?, path)));
    let of_templates =
        templates.iter().filter_map(|pods| Some((pods.template.get("spec")?, format!("{}.spec", pods.path))));
    let specs = own.into_iter().chain(of_templates);
    let resources = specs.flat_map(|(spec, path)| resources_in(spec, &path));
    resources.flat_map(|(resources, path)| of_resources(resources, &path)).collect()
}

/// The resources of a pod and of its containers, each with its path.
fn resources_in<'s>(spec: &'s Value, path: &str) -> Vec<(&'s Value, String)> {
    let of_pod = spec.get("resources").map(|resources| (resources, format!("{path}.resources")));
    let containers = ["initContainers", "containers"].into_iter().flat_map(|list| {
        items(spec, &format!("/{list}")).enumerate().filter_map(move |(index, container)| {
            Some((container.get("resources")?, format!("{path}.{list}[{index}].resources")))
        })
    });
    of_pod.into_iter().chain(containers).collect()
}

fn of_resources(resources: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for list in ["limits", "requests"] {
        for (name, value) in resources.get(list).and_then(Value::as_object).into_iter().flatten() {
            if name == "pid" {
                warnings.push(format!(
                    "{path}.{list}[pid] is alpha in Kubernetes 1.37: where its feature gate is off, it is dropped"
                ));
            }
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let Some(quantity) = text.parse::<Quantity>().ok().filter(|_| BYTES.contains(&name.as_str())) else {
                continue;
            };
            let number = text.strip_suffix('m').unwrap_or(&text);
            let meant = if is_count(number) { format!("; did you mean {number}Mi?") } else { String::new() };
            let path = format!("{path}.{list}[{name}]");
            if quantity.rounded_up_to_units() != quantity {
                warnings
                    .push(format!("{path}: fractional byte value \"{text}\" is invalid, must be an integer{meant}"));
            } else if is_count(&text)
                && list == "limits"
                && name == "memory"
                && (1..LEAST_LIMIT).contains(&quantity.value())
            {
                warnings.push(format!("{path}: {text} bytes are too few for any container{meant}"));
            }
        }
    }
    warnings
}

fn is_count(text: &str) -> bool {
    text.parse::<u64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fractions_and_limits_without_a_unit_are_doubtful() {
        fn check(resources: &Value, expected: &[&str]) {
            let pod = json!({"containers": [{"name": "a", "resources": resources}]});
            let deployment =
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": pod}}});
            let path = "spec.template.spec.containers[0].resources";
            let expected: Vec<String> = expected.iter().map(|text| format!("{path}.{text}")).collect();
            assert_eq!(byte_warnings(&deployment, &[]), expected, "{resources}");
        }
        check(
            &json!({"limits": {"ephemeral-storage": "0.1"}}),
            &["limits[ephemeral-storage]: fractional byte value \"0.1\" is invalid, must be an integer"],
        );
        check(&json!({"limits": {"memory": "1e6", "ephemeral-storage": 0}, "requests": {"memory": 64}}), &[]);
        check(&json!({"limits": {"memory": "1048576"}, "requests": {"memory": "0"}}), &[]);
        check(&json!({"limits": {"memory": "1.5Gi", "cpu": "0.5"}, "requests": {"memory": "100M"}}), &[]);
        check(&json!({"limits": {"memory": "0", "example.com/memory": "1"}, "requests": {"memory": "1GB"}}), &[]);
    }

    #[test]
    fn claims_are_read_too() {
        let spec = json!({"resources": {"requests": {"storage": "1m"}}});
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec});
        let told = "fractional byte value \"1m\" is invalid, must be an integer; did you mean 1Mi?";
        assert_eq!(byte_warnings(&claim, &[]), [format!("spec.resources.requests[storage]: {told}")]);
    }
}
