//! The API server's validation of the fields that Headroom evaluates, in its own words.
//!
//! Everything else that it validates (images, names, selectors, volumes, …) is not looked at.

mod pod_level;

use std::collections::BTreeSet;

use headroom_admission::amount::{Quantity, is_device};
use headroom_admission::cluster::limit_range::LimitRange;
use headroom_admission::cluster::limit_range::validate::{container_name_problem, may_overcommit};
use headroom_admission::cluster::resource_quota::validate::is_standard;
use headroom_admission::cluster::resource_quota::{ResourceQuota, validate};
use headroom_admission::cluster::tenant_quota::TenantQuota;
use headroom_admission::nearest::nearest;
use headroom_admission::request::kinds::PodKind;
use headroom_admission::request::pod_totals::is_pod_level;
use serde_json::{Map, Value};

use super::object_decision::{ObjectDecision, RejectionReason, Topic};
use headroom_objects::cluster_reader::folder::amount_of;
use headroom_objects::document;
use headroom_objects::kinds::{ApiKind, items, lifecycle, metadata, text};
use headroom_workloads::pod_makers::PodTemplate;

/// At most this many problems are named.
const MAX: usize = 64;

/// The problems of an object, for which the API server would not store it; the first one names the object. `written` is
/// the object before admission, `old` the one that is there; `release` is the minor version of the API server, the newest
/// unless known; `templates` are the pods of a custom resource.
pub fn problems(
    object: &Value,
    written: &Value,
    old: Option<&Value>,
    release: Option<u16>,
    templates: &[PodTemplate],
) -> Vec<String> {
    let kind = ApiKind::of(object);
    if let Some(unserved) = lifecycle::unserved(&kind, release) {
        return vec![unserved];
    }
    let mut problems = Problems { release, ..Problems::default() };
    problems.of_object(object, written, &kind);
    let annotations = object.pointer("/metadata/annotations");
    let is_recreated = annotations.is_some_and(|of| RECREATED.iter().any(|name| of.get(name).is_some()));
    if let Some(old) = old.filter(|old| old.is_object() && !is_recreated) {
        problems.of_update(object, old, &kind);
    }
    // The API server does not look into custom resources. Their pods, which their controllers create, are Pods.
    for pods in templates {
        problems.of_template(&pods.template, &format!("{}.spec", pods.path));
    }
    let mut texts = problems.texts();
    if let Some(first) = texts.first_mut() {
        // The pod of a template has none.
        let name = Some(metadata(object, "name")).filter(|name| !name.is_empty());
        let name = name.map(|name| format!(" \"{name}\"")).unwrap_or_default();
        *first = format!("{}{name} is invalid: {first}", kind.kind);
        if is_patch(object, &kind) {
            texts.push("this is a patch for kustomize: check its kustomization with -k".to_owned());
        }
    }
    texts
}

/// The problems of an object as admission leaves it.
pub fn problems_after(admission: &ObjectDecision, release: Option<u16>) -> Vec<String> {
    let outcome = admission.outcome();
    problems(outcome, admission.request.get("object").unwrap_or(outcome), None, release, &[])
}

impl ObjectDecision {
    /// Refuses an object that is admitted in a form that the API server, of this minor version, would not store.
    pub fn validate(&mut self, release: Option<u16>) {
        let problems = if self.reasons.is_empty() { problems_after(self, release) } else { Vec::new() };
        if !problems.is_empty() {
            self.reasons.push(RejectionReason::new(Topic::Invalid, problems));
            self.decide();
        }
    }
}

/// True for a workload that lacks what only its base has: a selector and a container with an image.
fn is_patch(object: &Value, kind: &ApiKind) -> bool {
    let Some((pod, _)) = pod_in(object, kind).filter(|_| kind.plural != "pods") else { return false };
    let has_image = |pod| items(pod, "/spec/containers").any(|container| container.get("image").is_some());
    !pod.is_some_and(has_image) && object.pointer("/spec/selector").is_none()
}

/// The problems of a LimitRange, a ResourceQuota or a TenantQuota; none for other kinds.
pub fn problems_of_bounds(object: &Value) -> Vec<String> {
    // OK because what serde_json wrote can be read.
    let Ok(document) = document(object) else { return Vec::new() };
    let mut problems = Problems::default();
    let read = match ApiKind::of(object).qualified().as_str() {
        "limitranges" => {
            for (index, item) in items(object, "/spec/limits").enumerate() {
                problems.of_fields(Some(item), &format!("spec.limits[{index}]"), &LIMIT_RANGE_ITEM);
            }
            LimitRange::read(document.root()).map(|mut range| {
                range.imply_defaults();
                range.problems("spec.limits")
            })
        }
        "resourcequotas" => {
            problems.of_fields(object.get("spec"), "spec", &["hard", "scopeSelector", "scopes"]);
            ResourceQuota::read(document.root()).map(|quota| validate::quota(&quota))
        }
        "tenantquotas.headroom.dev" => TenantQuota::read(document.root()).map(|quota| quota.problems()),
        _ => Ok(Vec::new()),
    };
    let mut texts = problems.texts();
    texts.extend(read.unwrap_or_else(|malformed| vec![malformed]).iter().map(ToString::to_string));
    texts
}

const METADATA: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Kinds without a pod template that have a `spec` and a `status`, and no other field.
const WITH_STATUS: [&str; 5] =
    ["horizontalpodautoscalers.autoscaling", "persistentvolumeclaims", "pods", "resourcequotas", "services"];

const LIMIT_RANGE_ITEM: [&str; 6] = ["default", "defaultRequest", "max", "maxLimitRequestRatio", "min", "type"];

/// The annotations of objects that a tool deletes before it applies them again.
const RECREATED: [&str; 3] = ["argocd.argoproj.io/hook", "helm.sh/hook", "kustomize.toolkit.fluxcd.io/force"];

const POD_UPDATES: &str = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,\
     `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
     `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
const JOB_UPDATES: &str = "spec.template: Invalid value: its resources: field is immutable";
const SMALLER_CLAIM: &str = "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity";
const UNBOUND_CLAIM: &str = "spec: Forbidden: spec is immutable after creation except resources.requests and \
     volumeAttributesClassName for bound claims";

#[derive(Default)]
struct Problems {
    found: Vec<String>,
    more: usize,
    /// The minor version of the API server, the newest unless known.
    release: Option<u16>,
}

/// Whose resources they are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Container,
    /// A pod as a whole.
    Pod,
}

impl Problems {
    fn add(&mut self, problem: String) {
        if self.found.len() < MAX { self.found.push(problem) } else { self.more += 1 }
    }

    fn invalid(&mut self, path: &str, value: &Value, problem: &str) {
        self.add(format!("{path}: Invalid value: {value}: {problem}"));
    }

    fn invalid_amount(&mut self, path: &str, amount: &Quantity, problem: &str) {
        self.add(format!("{path}: Invalid value: \"{amount}\": {problem}"));
    }

    fn texts(mut self) -> Vec<String> {
        if self.more > 0 {
            self.found.push(format!("and {} more", self.more));
        }
        self.found
    }

    fn of_object(&mut self, object: &Value, written: &Value, kind: &ApiKind) {
        self.of_fields(written.get("metadata"), "metadata", &METADATA);
        let template = PodKind::of(&kind.group, &kind.plural).map_or(&[][..], |kind| kind.path);
        if !template.is_empty() || WITH_STATUS.contains(&kind.qualified().as_str()) {
            self.of_fields(Some(written), "", &["apiVersion", "kind", "metadata", "spec", "status"]);
        }
        if let Some((_, path)) = pod_in(written, kind).filter(|_| !template.is_empty()) {
            let of_template = template.iter().try_fold(written, |value, part| value.get(part));
            let path = path.trim_end_matches(".spec");
            self.of_fields(of_template, path, &["metadata", "spec"]);
            let of_template = of_template.and_then(|template| template.get("metadata"));
            self.of_fields(of_template, &format!("{path}.metadata"), &METADATA);
        }
        match pod_in(object, kind) {
            Some((Some(pod), path)) if kind.qualified() == "pods" => {
                self.of_containers(pod, &path);
                self.of_pod_level(pod, &path, Some(written));
            }
            Some((Some(template), path)) => self.of_template(template, &path),
            _ => {}
        }
        let spec = |field: &str| object.pointer(&format!("/spec/{field}"));
        match kind.qualified().as_str() {
            "deployments.apps" | "statefulsets.apps" | "replicasets.apps" | "replicationcontrollers" => {
                self.of_count(spec("replicas"), &format!("{}Spec", kind.kind), "spec.replicas", 0);
            }
            "jobs.batch" => self.of_job(object.get("spec"), "spec"),
            "cronjobs.batch" => self.of_job(object.pointer("/spec/jobTemplate/spec"), "spec.jobTemplate.spec"),
            "horizontalpodautoscalers.autoscaling" => self.of_autoscaler(object),
            "persistentvolumeclaims" => self.of_claim(spec("resources")),
            "services" => self.of_service(spec("type"), spec("ports")),
            _ => problems_of_bounds(object).into_iter().for_each(|problem| self.add(problem)),
        }
    }

    /// The changes that no update may make, in the fields that Headroom evaluates.
    fn of_update(&mut self, object: &Value, old: &Value, kind: &ApiKind) {
        let both = [object, old];
        let [new_pod, old_pod] = both.map(|of| Some(resources_in(pod_in(of, kind)?.0?)));
        let [storage, before] = both.map(|of| of.pointer("/spec/resources/requests/storage").and_then(amount_of));
        let [scopes, were] = both.map(|of| BTreeSet::from_iter(items(of, "/spec/scopes").map(Value::to_string)));
        match kind.qualified().as_str() {
            "pods" if new_pod != old_pod => self.add(POD_UPDATES.to_owned()),
            // Those of a suspended Job may change.
            "jobs.batch" if new_pod != old_pod && old.pointer("/spec/suspend") != Some(&Value::Bool(true)) => {
                self.add(JOB_UPDATES.to_owned());
            }
            "persistentvolumeclaims" if storage != before => {
                let capacity = old.pointer("/status/capacity/storage").and_then(amount_of).or_else(|| before.clone());
                if !matches!(text(old, "/status/phase"), "" | "Bound") {
                    self.add(UNBOUND_CLAIM.to_owned());
                } else if storage < before && storage <= capacity {
                    self.add(SMALLER_CLAIM.to_owned());
                }
            }
            "resourcequotas" if scopes != were => {
                let new = object.pointer("/spec/scopes").unwrap_or(&Value::Null);
                self.invalid("spec.scopes", new, "field is immutable");
            }
            _ => {}
        }
    }

    fn of_job(&mut self, spec: Option<&Value>, path: &str) {
        for field in ["parallelism", "completions"] {
            self.of_count(spec.and_then(|spec| spec.get(field)), "JobSpec", &format!("{path}.{field}"), 0);
        }
    }

    fn of_autoscaler(&mut self, object: &Value) {
        let [min, max] = ["min", "max"].map(|bound| object.pointer(&format!("/spec/{bound}Replicas")));
        let mut metrics = items(object, "/spec/metrics");
        let path = "spec.maxReplicas";
        let least = self.of_count(min, "HorizontalPodAutoscalerSpec", "spec.minReplicas", 0);
        // With other metrics, a feature gate decides.
        if least == Some(0) && !metrics.any(|metric| matches!(text(metric, "/type"), "Object" | "External")) {
            self.invalid("spec.minReplicas", &Value::from(0), "must be greater than or equal to 1");
        }
        let max = self.of_count(max, "HorizontalPodAutoscalerSpec", path, 1);
        if let (Some(min), Some(max)) = (min.and_then(Value::as_i64), max)
            && max < min
        {
            self.invalid(path, &Value::from(max), "must be greater than or equal to `minReplicas`");
        }
    }

    /// A whole number that has a lower bound.
    fn of_count(&mut self, value: Option<&Value>, owner: &str, path: &str, least: i64) -> Option<i64> {
        let value = value.filter(|value| !value.is_null())?;
        let Some(count) = value.as_i64().filter(|count| i32::try_from(*count).is_ok()) else {
            let found = match value {
                Value::Number(number) => format!("number {number}"),
                Value::String(_) => "string".to_owned(),
                Value::Bool(_) => "bool".to_owned(),
                Value::Array(_) => "array".to_owned(),
                _ => "object".to_owned(),
            };
            self.add(format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type int32"));
            return None;
        };
        if count < least {
            let bound = if least == 0 { "greater than or equal to 0" } else { "greater than 0" };
            self.invalid(path, value, &format!("must be {bound}"));
        }
        Some(count)
    }

    fn of_claim(&mut self, resources: Option<&Value>) {
        let path = "spec.resources";
        self.of_fields(resources, path, &["limits", "requests"]);
        let amounts = resources.map(|resources| self.amounts(resources, path)).unwrap_or_default();
        match resources.and_then(|resources| resources.pointer("/requests/storage")) {
            None => self.add(format!("{path}[storage]: Required value")),
            Some(value) => {
                let storage = amounts.iter().find(|amount| amount.list == "requests" && amount.name == "storage");
                if storage.is_some_and(|storage| storage.quantity <= Quantity::ZERO) {
                    self.invalid(&format!("{path}[storage]"), value, "must be greater than zero");
                }
            }
        }
    }

    fn of_service(&mut self, kind: Option<&Value>, ports: Option<&Value>) {
        const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
        let name = kind.and_then(Value::as_str).unwrap_or("ClusterIP");
        if !TYPES.contains(&name) {
            let supported = TYPES.map(|name| format!("\"{name}\"")).join(", ");
            self.add(format!("spec.type: Unsupported value: \"{name}\": supported values: {supported}"));
        }
        for (index, port) in ports.and_then(Value::as_array).into_iter().flatten().enumerate() {
            let path = format!("spec.ports[{index}].nodePort");
            let port = port.get("nodePort").filter(|port| port.as_i64() != Some(0));
            let Some(node_port) = self.of_count(port, "ServicePort", &path, i64::MIN) else { continue };
            if matches!(name, "ClusterIP" | "ExternalName") {
                self.add(format!("{path}: Forbidden: may not be used when `type` is '{name}'"));
            } else if !(1..=65_535).contains(&node_port) {
                self.invalid(&path, &Value::from(node_port), "must be between 1 and 65535, inclusive");
            }
        }
    }

    /// A pod template, in which the API server completes nothing.
    fn of_template(&mut self, template: &Value, path: &str) {
        self.of_containers(template, path);
        self.of_pod_level(template, path, None);
    }

    /// The containers of a pod or of a pod template; `path` is that of its spec.
    fn of_containers(&mut self, pod: &Value, path: &str) {
        let Some(spec) = pod.get("spec") else { return };
        if spec.get("containers").is_none_or(|containers| containers.as_array().is_some_and(Vec::is_empty)) {
            self.add(format!("{path}.containers: Required value"));
        }
        for list in ["containers", "initContainers"] {
            for (index, container) in items(spec, &format!("/{list}")).enumerate() {
                let Some(resources) = container.get("resources") else { continue };
                let path = format!("{path}.{list}[{index}].resources");
                self.of_fields(Some(resources), &path, &["claims", "limits", "requests"]);
                self.of_resources(resources, &path, Owner::Container);
            }
        }
    }

    /// The requests and limits of a container, or of a pod as a whole.
    fn of_resources<'v>(&mut self, resources: &'v Value, path: &str, owner: Owner) -> Vec<Amount<'v>> {
        let amounts = self.amounts(resources, path);
        let knows_pid = owner == Owner::Pod && self.release.is_none_or(|release| release >= 37);
        for Amount { list, name, quantity } in &amounts {
            let at = format!("{path}.{list}[{name}]");
            if !(knows_pid && *name == "pid" && *list == "limits") {
                self.of_resource_name(name, &at, owner);
            }
            if *quantity < Quantity::ZERO {
                self.invalid_amount(&at, quantity, "must be greater than or equal to 0");
            }
            if is_device(name) && *quantity != quantity.rounded_up_to_units() {
                self.invalid_amount(&at, quantity, "must be an integer");
            }
            let limit = amounts.iter().find(|amount| amount.list == "limits" && amount.name == *name);
            let (limits, requests) = (format!("{path}.limits"), format!("{path}.requests"));
            match limit {
                _ if *list == "limits" => {}
                Some(Amount { quantity: limit, .. }) if !may_overcommit(name) && limit != quantity => {
                    self.invalid_amount(&requests, quantity, &format!("must be equal to {name} limit of {limit}"));
                }
                Some(Amount { quantity: limit, .. }) if quantity > limit => {
                    let problem = format!("must be less than or equal to {name} limit of {limit}");
                    self.invalid_amount(&requests, quantity, &problem);
                }
                None if !may_overcommit(name) => {
                    self.add(format!("{limits}: Required value: Limit must be set for non overcommitable resources"));
                }
                _ => {}
            }
            if let Some(size) = name.strip_prefix("hugepages-")
                && !is_divisible(quantity, size)
            {
                self.invalid_amount(&at, quantity, &format!("{quantity} is not positive integer multiple of {name}"));
            }
        }
        let has = |is_it: fn(&str) -> bool| amounts.iter().any(|amount| is_it(amount.name));
        if has(|name| name.starts_with("hugepages-")) && !has(|name| matches!(name, "cpu" | "memory")) {
            self.add(format!("{path}: Forbidden: HugePages require cpu or memory"));
        }
        amounts
    }

    fn of_fields(&mut self, resources: Option<&Value>, path: &str, known: &[&str]) {
        for field in resources.and_then(Value::as_object).into_iter().flat_map(Map::keys) {
            if !known.contains(&field.as_str()) {
                let meant = nearest(field, known.iter().copied());
                let advice = meant.map(|known| format!("; did you mean {known}?")).unwrap_or_default();
                let place = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
                self.add(format!("strict decoding error: unknown field \"{place}\"{advice}"));
            }
        }
    }

    fn of_resource_name(&mut self, name: &str, path: &str, owner: Owner) {
        if !name.contains('/') && !is_standard(name) && name != "storage" {
            let known = ["cpu", "memory", "ephemeral-storage"];
            let advice = nearest(name, known).map(|known| format!("; did you mean {known}?")).unwrap_or_default();
            let problem = format!("must be a standard resource type or fully qualified{advice}");
            self.invalid(path, &Value::from(name), &problem);
        } else if owner == Owner::Container {
            let problem = container_name_problem(name);
            problem.into_iter().for_each(|problem| self.invalid(path, &Value::from(name), problem));
        } else if !is_pod_level(name) {
            let supported = "supported values: \"cpu\", \"hugepages-\", \"memory\"";
            self.add(format!("{path}: Unsupported value: \"{name}\": {supported}"));
        }
    }

    /// The requests and limits that are quantities.
    fn amounts<'v>(&mut self, resources: &'v Value, path: &str) -> Vec<Amount<'v>> {
        let mut amounts = Vec::new();
        for list in ["limits", "requests"] {
            for (name, value) in resources.get(list).and_then(Value::as_object).into_iter().flatten() {
                match quantity(value) {
                    Ok(quantity) => amounts.push(Amount { list, name, quantity }),
                    // Beyond what Headroom reads, which the core says.
                    Err(None) => {}
                    Err(Some(problem)) => {
                        let parsed = value.as_str().map(str::parse::<Quantity>).and_then(Result::err);
                        let meant = parsed.map(|error| error.meant()).unwrap_or_default();
                        let advice = match meant.join(" or ") {
                            meant if !meant.is_empty() => format!("did you mean {meant}?"),
                            _ if name == "cpu" => "write for example 500m or 2".to_owned(),
                            _ => "write for example 512Mi or 2Gi".to_owned(),
                        };
                        self.invalid(&format!("{path}.{list}[{name}]"), value, &format!("{problem}; {advice}"));
                    }
                }
            }
        }
        amounts
    }
}

/// The pod or pod template in an object, and the path of its spec; none if the kind has no pods.
pub(super) fn pod_in<'o>(object: &'o Value, kind: &ApiKind) -> Option<(Option<&'o Value>, String)> {
    let PodKind { path, .. } = PodKind::of(&kind.group, &kind.plural)?;
    let pod = path.iter().try_fold(object, |value, part| value.get(part));
    let path: Vec<&str> = path.iter().copied().chain(["spec"]).collect();
    Some((pod.filter(|pod| pod.get("spec").is_some()), path.join(".")))
}

/// The requests and limits of a pod and of its containers, which are equal where they are written alike.
fn resources_in(pod: &Value) -> Vec<Option<&Value>> {
    let containers = items(pod, "/spec/containers").chain(items(pod, "/spec/initContainers"));
    let resources = containers.chain(pod.get("spec")).map(|owner| owner.get("resources"));
    let lists = resources.flat_map(|resources| ["requests", "limits"].map(|list| resources?.get(list)));
    lists.map(|list| list.filter(|list| list.as_object().is_some_and(|list| !list.is_empty()))).collect()
}

struct Amount<'v> {
    list: &'static str,
    name: &'v str,
    quantity: Quantity,
}

/// True for a whole number of pages of this size.
fn is_divisible(quantity: &Quantity, size: &str) -> bool {
    let page = size.parse::<Quantity>().unwrap_or(Quantity::ZERO);
    let is_page = page.is_positive() && page.rounded_up_to_units() == page;
    is_page && quantity.rounded_up_to_multiple_of(&page) == *quantity
}

/// A quantity, or Kubernetes' own complaint; an error without one is a quantity that is too large for Headroom alone.
fn quantity(value: &Value) -> Result<Quantity, Option<&'static str>> {
    const WRONG_FORMAT: &str =
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err(Some(WRONG_FORMAT)),
    };
    if let Ok(quantity) = text.parse() {
        return Ok(quantity);
    }
    const SUFFIXES: [&str; 15] = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi"];
    let rest =
        text.strip_prefix(['+', '-']).unwrap_or(&text).trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let exponent = rest.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let is_number = text.len() > rest.len() && text.contains(|c: char| c.is_ascii_digit());
    Err(match () {
        () if !is_number || exponent.contains(|c: char| !c.is_ascii_digit()) => Some(WRONG_FORMAT),
        () if SUFFIXES.contains(&rest) || rest.starts_with(['e', 'E']) => None,
        () => Some("unable to parse quantity's suffix"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The problems of an object, each beginning with the same.
    fn check(object: Value, begin: &str, expected: &[&str]) {
        let mut found = Problems::default();
        found.of_object(&object, &object, &ApiKind::of(&object));
        let expected: Vec<String> = expected.iter().map(|rest| format!("{begin}{rest}")).collect();
        assert_eq!(found.texts(), expected, "{object}");
    }

    fn object(api_version: &str, kind: &str, spec: Value) -> Value {
        json!({"apiVersion": api_version, "kind": kind, "spec": spec})
    }

    fn pod(resources: Value) -> Value {
        object("v1", "Pod", json!({"containers": [{"name": "a", "image": "a", "resources": resources}]}))
    }

    #[test]
    fn resources_of_containers_are_validated_as_by_the_api_server() {
        let at = "spec.containers[0].resources";
        check(pod(json!({"requests": {"cpu": "1"}, "limits": {"cpu": 1, "example.com/gpu": 2}})), at, &[]);
        check(pod(json!({"requests": {"memory": "1e40"}, "claims": [{"name": "a"}]})), at, &[]);
        let mut odd = pod(json!({}));
        odd["metadata"]["?namespace"] = json!("other");
        odd["?kind"] = json!("ConfigMap");
        let unknown = ["\"metadata.?namespace\"; did you mean namespace?", "\"?kind\"; did you mean kind?"];
        check(odd, "strict decoding error: unknown field ", &unknown);
        let format = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        let empty = format!(".limits[memory]: Invalid value: \"\": {format}; write for example 512Mi or 2Gi");
        let negative = ".limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0";
        check(pod(json!({"limits": {"cpu": -1, "memory": ""}})), at, &[&empty, negative]);
        check(
            pod(json!({"requests": {"example.com/gpu": 1}, "limits": {"example.com/gpu": 2}})),
            at,
            &[".requests: Invalid value: \"1\": must be equal to example.com/gpu limit of 2"],
        );
        check(
            pod(json!({"requests": {"hugepages-2Mi": "2Mi"}})),
            at,
            &[
                ".limits: Required value: Limit must be set for non overcommitable resources",
                ": Forbidden: HugePages require cpu or memory",
            ],
        );
        check(
            pod(json!({"limits": {"cpu": 1, "example.com/gpu": "500m", "hugepages-2Mi": "3Mi", "pods": 1}})),
            &format!("{at}.limits"),
            &[
                "[example.com/gpu]: Invalid value: \"500m\": must be an integer",
                "[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
                "[pods]: Invalid value: \"pods\": must be a standard resource for containers",
            ],
        );
    }

    #[test]
    fn updates_are_validated_as_by_the_api_server() {
        let check = |old: &Value, new: Value, expected: &str| {
            let mut found = Problems::default();
            found.of_update(&new, old, &ApiKind::of(old));
            assert_eq!(found.texts(), Vec::from_iter(Some(expected).filter(|text| !text.is_empty())), "{new}");
        };
        let of_cpu = |cpu: &str| pod(json!({"requests": {"cpu": cpu}}));
        let running = pod(json!({"requests": {"cpu": "1"}, "limits": {}}));
        check(&running, of_cpu("1"), "");
        check(&running, of_cpu("2"), POD_UPDATES);
        let job = |cpu: &str, suspend: bool| {
            object("batch/v1", "Job", json!({"suspend": suspend, "template": {"spec": of_cpu(cpu)["spec"]}}))
        };
        check(&job("1", false), job("1", true), "");
        check(&job("1", true), job("2", true), "");
        check(&job("1", false), job("2", false), JOB_UPDATES);
        let claim = |storage: &str, status: Value| {
            let spec = json!({"resources": {"requests": {"storage": storage}}});
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec, "status": status})
        };
        let bound = json!({"phase": "Bound", "capacity": {"storage": "4Gi"}});
        for (status, storage, expected) in [
            (&bound, "9Gi", ""),
            (&bound, "5Gi", ""),
            (&bound, "4Gi", SMALLER_CLAIM),
            (&json!({}), "5Gi", SMALLER_CLAIM),
            (&json!({"phase": "Pending"}), "9Gi", UNBOUND_CLAIM),
        ] {
            check(&claim("8Gi", status.clone()), claim(storage, json!({})), expected);
        }
        let quota = |scopes: Value| object("v1", "ResourceQuota", json!({"hard": {}, "scopes": scopes}));
        let both = quota(json!(["BestEffort", "NotTerminating"]));
        check(&both, quota(json!(["NotTerminating", "BestEffort"])), "");
        check(&both, quota(Value::Null), "spec.scopes: Invalid value: null: field is immutable");
    }

    #[test]
    fn a_template_is_validated_as_it_is_written() {
        let template = |resources: Value| {
            let container = json!({"name": "a", "image": "a", "resources": {"requests": {"memory": "200Mi"}}});
            let template = json!({"spec": {"resources": resources, "containers": [container]}});
            object("apps/v1", "Deployment", json!({"template": template}))
        };
        check(template(json!({"limits": {"memory": "100Mi"}})), "", &[]);
        check(
            template(json!({"requests": {"memory": "100Mi"}})),
            "spec.template.spec.resources.requests[memory]: Invalid value: ",
            &["\"100Mi\": must be greater than or equal to aggregate container requests of 200Mi"],
        );
    }

    #[test]
    fn numbers_of_pods_are_validated_as_by_the_api_server() {
        let deployment = |replicas: Value| {
            let template = json!({"spec": {"containers": [{"name": "a", "image": "a"}]}});
            object("apps/v1", "Deployment", json!({"replicas": replicas, "template": template}))
        };
        check(deployment(json!(3)), "", &[]);
        check(deployment(Value::Null), "", &[]);
        let negative = "Invalid value: -1: must be greater than or equal to 0";
        check(deployment(json!(-1)), "spec.replicas: ", &[negative]);
        let text = "string into Go struct field DeploymentSpec.spec.replicas of type int32";
        check(deployment(json!("3")), "json: cannot unmarshal ", &[text]);
        let job = object("batch/v1", "Job", json!({"parallelism": -1, "template": {"spec": {}}}));
        let parallelism = format!("parallelism: {negative}");
        check(job, "spec.", &["template.spec.containers: Required value", &parallelism]);
        let autoscaler =
            object("autoscaling/v2", "HorizontalPodAutoscaler", json!({"minReplicas": 5, "maxReplicas": 2}));
        let less = "Invalid value: 2: must be greater than or equal to `minReplicas`";
        check(autoscaler, "spec.maxReplicas: ", &[less]);
        let none = |metric: &str| {
            let spec = json!({"minReplicas": 0, "maxReplicas": 2, "metrics": [{"type": metric}]});
            object("autoscaling/v2", "HorizontalPodAutoscaler", spec)
        };
        check(none("Resource"), "spec.minReplicas: ", &["Invalid value: 0: must be greater than or equal to 1"]);
        check(none("External"), "", &[]);
    }

    #[test]
    fn storage_and_node_ports_are_validated_as_by_the_api_server() {
        let claim = |resources: Value| object("v1", "PersistentVolumeClaim", json!({"resources": resources}));
        let at = "spec.resources[storage]: ";
        check(claim(json!({"requests": {"storage": "1Gi"}})), at, &[]);
        check(claim(json!({})), at, &["Required value"]);
        let none = "Invalid value: \"0\": must be greater than zero";
        check(claim(json!({"requests": {"storage": "0"}})), at, &[none]);
        let service = |kind: &str, port: i64| {
            object("v1", "Service", json!({"type": kind, "ports": [{"port": 80, "nodePort": port}]}))
        };
        let at = "spec.ports[0].nodePort: ";
        check(service("NodePort", 30_080), at, &[]);
        check(service("ClusterIP", 30_080), at, &["Forbidden: may not be used when `type` is 'ClusterIP'"]);
        check(service("NodePort", 70_000), at, &["Invalid value: 70000: must be between 1 and 65535, inclusive"]);
        let types = "\"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"";
        let unknown = format!("\"NodePorts\": supported values: {types}");
        check(service("NodePorts", 0), "spec.type: Unsupported value: ", &[&unknown]);
    }
}
