//! The validation of what a pod asks for as a whole, beside its containers.
//!
//! See <https://kubernetes.io/docs/tasks/configure-pod-container/assign-pod-level-resources/>.

use headroom_admission::amount::Requirement;
use headroom_admission::request::{Pod, api_server_defaults, pod_totals};
use headroom_admission::settings::ServerVersion;
use headroom_objects::document;
use serde_json::Value;

use super::{Amount, Owner, Problems};

impl Problems {
    /// The resources of a pod as a whole: once the API server has completed them, if this is a pod that was `written`.
    pub(super) fn of_pod_level(&mut self, pod: &Value, path: &str, written: Option<&Value>) {
        let Some(resources) = pod.pointer("/spec/resources").filter(|resources| resources.is_object()) else { return };
        let server = ServerVersion::of_minor(self.release);
        if !server.has_pod_level_resources() {
            return;
        }
        let path = format!("{path}.resources");
        self.of_fields(Some(resources), &path, &["claims", "limits", "requests"]);
        if pod.pointer("/spec/os/name").and_then(Value::as_str) == Some("windows") {
            self.add(format!("{path}: Forbidden: may not be set for a windows pod"));
            return;
        }
        if resources.get("claims").is_some_and(|claims| !claims.is_null()) {
            self.add(format!("{path}.claims: Forbidden: claims may not be set for Resources at pod-level"));
        }
        // Up to 1.36 the API server completes a pod before admission, and since 1.37 after it.
        let completed = written.and_then(|written| {
            let before = if server.completes_pod_level_limits() { pod } else { written };
            with_pod(before, |pod| {
                api_server_defaults::of_version(pod, server);
                Requirement::BOTH.map(|requirement| {
                    let amounts = pod.resources.of(requirement).iter();
                    let amounts = amounts.map(|(name, value)| (name.to_string(), value.quantity.to_string().into()));
                    (requirement.field().to_owned(), Value::Object(amounts.collect()))
                })
            })
        });
        let completed = completed.map(|lists| Value::Object(lists.into_iter().collect()));
        let resources = completed.as_ref().unwrap_or(resources);
        let amounts = self.of_resources(resources, &path, Owner::Pod);
        self.of_consistency(pod, &path, &amounts);
    }

    /// A pod as a whole beside its containers.
    fn of_consistency(&mut self, pod: &Value, path: &str, amounts: &[Amount<'_>]) {
        let of_pod = |list: &str, name: &str| {
            amounts.iter().find(|amount| amount.list == list && amount.name == name).map(|amount| &amount.quantity)
        };
        let found = with_pod(pod, |pod| {
            let mut found = Vec::new();
            for requirement in Requirement::BOTH {
                let list = requirement.field();
                for (name, sum) in pod_totals::of_containers(pod, requirement).iter() {
                    // Limits of huge pages are requests; the sum of other limits may exceed that of the pod.
                    let is_bounded = requirement == Requirement::Request || name.starts_with("hugepages-");
                    if let Some(amount) = of_pod(list, name).filter(|amount| is_bounded && sum > *amount) {
                        let problem = format!("must be greater than or equal to aggregate container {list} of {sum}");
                        found.push((format!("{path}.{list}[{name}]"), amount.clone(), problem));
                    }
                }
            }
            let containers = pod.containers.iter().filter(|container| !container.role.is_init());
            for (index, container) in containers.enumerate() {
                for (name, limit) in container.resources.limits.iter() {
                    if let Some(amount) = of_pod("limits", name).filter(|amount| limit.quantity > **amount) {
                        let problem = format!("must be less than or equal to pod limits of {amount}");
                        // In Kubernetes' words: its path is that of no field.
                        let path = format!("{path}.containers[{index}][{name}].limits");
                        found.push((path, limit.quantity.clone(), problem));
                    }
                }
            }
            found
        });
        for (path, amount, problem) in found.into_iter().flatten() {
            self.invalid_amount(&path, &amount, &problem);
        }
    }
}

/// Lets the core read a pod; none if it cannot, which is reported as such.
fn with_pod<T>(pod: &Value, find: impl FnOnce(&mut Pod<'_>) -> T) -> Option<T> {
    let document = document(pod).ok()?;
    Pod::read(document.root(), None).ok().map(|mut pod| find(&mut pod))
}

#[cfg(test)]
mod tests {
    use headroom_objects::manifest::documents;
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::super::problems;

    /// The resources of a pod and its containers, and what the API server says of them below `spec.resources`.
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Case {
        pod: Value,
        #[serde(default)]
        os: Value,
        containers: Vec<Value>,
        #[serde(default)]
        init: Vec<Value>,
        /// The containers as admission leaves them, where it changes them.
        admitted: Option<Vec<Value>>,
        /// The minor versions that say so.
        releases: Vec<u16>,
        says: Vec<String>,
    }

    #[test]
    fn the_api_server_says_the_same() {
        let cases: Vec<Case> =
            serde_json::from_value(documents::parse(include_str!("pod_level.yaml")).unwrap()).unwrap();
        for Case { pod, os, containers, init, admitted, releases, says } in cases {
            let container = |resources: &Value| json!({"name": "a", "image": "a", "resources": resources});
            let init: Vec<Value> = init.iter().map(container).collect();
            let spec = |containers: &[Value]| {
                let containers: Vec<Value> = containers.iter().map(container).collect();
                json!({"os": os, "resources": pod, "containers": containers, "initContainers": init})
            };
            let [written, admitted] = [&containers, admitted.as_ref().unwrap_or(&containers)]
                .map(|containers| json!({"apiVersion": "v1", "kind": "Pod", "spec": spec(containers)}));
            for release in releases {
                let found = problems(&admitted, &written, None, Some(release), &[]).join("; ");
                let found = found.trim_start_matches("Pod is invalid: ").replace("spec.resources", "");
                assert_eq!(found, says.join("; "), "{release}: {admitted}");
            }
        }
    }
}
