//! The messages about the pods of workloads, before any pod is created: the claims of `workloads.yaml`.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Quota;
use crate::claims::{claims, is_like};
use crate::harness::answer;

claims! {
    Case, "workloads.yaml",
    the_most_that_the_pods_add_is_reported_whether_they_fit_or_not
    replicas_that_do_not_fit_are_reported_when_the_workload_is_created
    a_workload_without_pods_need_not_set_what_a_quota_requires
    a_limit_also_sets_the_request_of_existing_pods
    the_surge_is_not_reported_if_the_replicas_do_not_fit
    an_update_is_charged_only_for_additional_pods
    a_rollout_needs_room_for_its_surge
    a_rollout_that_continues_without_its_surge_only_gets_a_warning
    larger_new_pods_may_use_what_the_old_ones_free
    a_scale_is_checked_with_the_template_of_its_workload
    a_job_needs_room_for_the_pods_that_run_at_the_same_time
    assumptions_are_stated
    owned_workloads_are_evaluated_with_their_owner
    workloads_are_refused_with_enforce
    a_template_without_a_value_that_a_quota_requires_gets_a_warning
    an_update_that_leaves_the_pods_as_they_are_is_not_held_to_limit_ranges
    a_partition_keeps_the_first_pods_of_a_stateful_set
    a_rollout_ends_if_each_new_pod_makes_room_for_the_next
    a_rollout_stops_where_old_pods_leave_no_room
    several_pods_that_are_replaced_at_once_make_room_together
    pods_of_an_earlier_surge_leave_less_room_for_the_next
    a_quota_counts_the_pods_of_the_template_that_it_covers
    what_helps_is_said_only_if_it_helps
    a_paused_deployment_makes_its_pods_when_it_is_resumed
    an_update_that_may_undo_a_stuck_rollout_is_never_refused
    no_pods_are_created_by_a_controller_that_has_ended
    a_daemon_set_replaces_its_pods_in_place_unless_it_may_surge
    a_scale_counts_the_estimates_of_its_pods
    defaults_of_limit_ranges_are_counted_even_if_these_are_not_checked
    limited_resources_are_limited_for_the_pods_of_workloads
    old_pods_that_no_quota_covers_are_not_waited_for
    old_pods_that_a_quota_refuses_are_not_waited_for
    missing_old_pods_are_waited_for_as_far_as_every_bound_has_room
    the_claims_of_a_stateful_set_are_part_of_its_forecast
    a_tenant_quota_bounds_claims_without_any_resource_quota
    limit_ranges_bound_the_claims_of_a_stateful_set
}

/// A workload that is created, updated or scaled, and what is expected of the decision. In an expected text, `...`
/// stands for any text.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    /// The case holds for each of these kinds.
    #[serde(default = "deployment")]
    kinds: Vec<String>,
    /// The fields of the spec, beside those that [`workload`] reads itself.
    #[serde(default)]
    new: Map<String, Value>,
    old: Option<Map<String, Value>>,
    /// The status of the old object. Without it, all its replicas are of the last template.
    #[serde(default, deserialize_with = "some")]
    status: Option<Value>,
    /// The replicas before and after a request for the subresource `scale`, and the workload that is scaled.
    scale: Option<[u32; 2]>,
    #[serde(default)]
    scaled: Map<String, Value>,
    user: Option<String>,
    /// The cpu of quota `team` that is used.
    #[serde(default = "none")]
    used: String,
    /// Other quotas than this one.
    quotas: Option<Vec<Quota>>,
    #[serde(default)]
    tenant_quotas: Vec<Value>,
    /// The limits of LimitRange `small`.
    #[serde(default)]
    limits: Vec<Value>,
    /// The case holds for each of these settings.
    #[serde(default = "defaults")]
    settings: Vec<Value>,

    /// All warnings in their order.
    #[serde(default)]
    warnings: Vec<String>,
    /// The message of a refusal. Without it, the request is admitted.
    refused: Option<String>,
    /// The most that the pods add to the quotas.
    adds: Option<Vec<String>>,
}

fn deployment() -> Vec<String> {
    vec!["Deployment".to_owned()]
}

fn none() -> String {
    "0".to_owned()
}

fn defaults() -> Vec<Value> {
    vec![json!({})]
}

/// A null that is written is not a field that is left out.
fn some<'de, D: serde::Deserializer<'de>>(field: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(field).map(Some)
}

/// A workload with these fields of its spec. Of its pods' container `web`, `cpu` is the request, `cpuAndLimit` request
/// and limit, `resources` all that it sets, and `container` replaces it.
fn workload(kind: &str, fields: &Map<String, Value>) -> Value {
    let mut spec = fields.clone();
    let mut metadata = json!({"name": "web", "namespace": "shop", "resourceVersion": "1"});
    for field in ["labels", "ownerReferences", "deletionTimestamp"] {
        if let Some(value) = spec.remove(field) {
            metadata[field] = value;
        }
    }
    if let Some(partition) = spec.remove("partition") {
        spec.insert("ordinals".to_owned(), json!({"start": 5}));
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
        spec.insert("updateStrategy".to_owned(), strategy);
    }
    let cpu = spec.remove("cpu").unwrap_or_else(|| json!("500m"));
    let mut resources = json!({"requests": {"cpu": cpu}});
    if let Some(cpu) = spec.remove("cpuAndLimit") {
        resources = json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
    }
    let resources = spec.remove("resources").unwrap_or(resources);
    let container = spec.remove("container").unwrap_or_else(|| json!({"name": "web", "resources": resources}));
    let mut spec = Value::Object(spec);
    let of_job = if kind == "CronJob" { "/jobTemplate/spec" } else { "" };
    spec.pointer_mut(of_job).unwrap()["template"] = json!({"spec": {"containers": [container]}});
    json!({"kind": kind, "metadata": metadata, "spec": spec})
}

impl Case {
    fn check(&self) {
        for (kind, settings) in self.kinds.iter().flat_map(|kind| self.settings.iter().map(move |of| (kind, of))) {
            let payload = json!({"request": self.request(kind), "settings": settings});
            let answer = answer(&payload, &self.lists(kind), None);
            let found = format!("{kind} {settings} {:?} {:?} for {self:#?}", answer.message, answer.warnings);
            assert_eq!(answer.admitted, self.refused.is_none(), "{found}");
            assert!(self.refused.as_ref().is_none_or(|refused| is_like(&answer.message, refused)), "{found}");
            assert_eq!(answer.warnings.len(), self.warnings.len(), "{found}");
            assert!(answer.warnings.iter().zip(&self.warnings).all(|(text, like)| is_like(text, like)), "{found}");
            let adds: Vec<String> = answer.pods_add.into_iter().map(|(_, _, amount)| amount).collect();
            assert!(self.adds.as_ref().is_none_or(|expected| adds == *expected), "{adds:?} {found}");
        }
    }

    fn request(&self, kind: &str) -> Value {
        let group = if kind.ends_with("Job") { "batch" } else { "apps" };
        let resource = format!("{}s", kind.to_lowercase());
        let scale = |replicas: u32, of: u32| json!({"kind": "Scale", "spec": {"replicas": replicas}, "status": {"replicas": of}});
        let (object, old) = match self.scale {
            Some([before, after]) => (scale(after, before), Some(scale(before, before))),
            None => (workload(kind, &self.new), self.old.as_ref().map(|old| self.before(kind, old))),
        };
        let mut request = json!({
            "operation": if old.is_some() { "UPDATE" } else { "CREATE" }, "namespace": "shop", "name": "web",
            "resource": {"group": group, "resource": resource}, "object": object, "oldObject": old,
        });
        if self.scale.is_some() {
            request["subResource"] = json!("scale");
        }
        if let Some(user) = &self.user {
            request["userInfo"] = json!({"username": user});
        }
        request
    }

    /// The old object with its status.
    fn before(&self, kind: &str, old: &Map<String, Value>) -> Value {
        let replicas = old.get("replicas");
        let mut object = workload(kind, old);
        object["status"] =
            self.status.clone().unwrap_or_else(|| json!({"replicas": replicas, "updatedReplicas": replicas}));
        object
    }

    fn lists(&self, kind: &str) -> Value {
        let team = Quota {
            name: "team".to_owned(),
            scopes: Vec::new(),
            hard: json!({"requests.cpu": "4"}),
            used: json!({"requests.cpu": self.used}),
        };
        let quotas: Vec<Value> = self.quotas.as_ref().unwrap_or(&vec![team]).iter().map(Quota::object).collect();
        let scaled = self.scale.map(|_| {
            let mut scaled = self.before(kind, &self.scaled);
            scaled["metadata"]["labels"] = json!({"tier": "free"});
            scaled
        });
        let range = json!({"metadata": {"name": "small"}, "spec": {"limits": self.limits}});
        json!({
            "ResourceQuota": {"items": quotas}, "LimitRange": {"items": [range]}, "Scaled": scaled,
            "TenantQuota": {"items": self.tenant_quotas},
        })
    }
}
