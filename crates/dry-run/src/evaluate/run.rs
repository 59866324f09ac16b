//! Evaluates objects one after the other, as `kubectl apply` would send them.
//!
//! An admitted object exists for the objects after it, and is charged to the quotas; so are the pods that a workload will
//! make. [`in_order`] has LimitRanges, ResourceQuotas and Namespaces before what they bound. An object
//! that is there already is evaluated as the update that applying it would make.

mod autoscaled;
mod claims;
mod classes;
mod pods;

use std::collections::HashMap;

use headroom_admission::amount::Quantity;
use headroom_admission::request::kinds::PodKind;
use serde_json::{Value, json};

use super::admission::Admission;
use super::byte_warnings::byte_warnings;
use super::object_decision::{ObjectCharge, ObjectDecision, ObjectWarning, RejectionReason, Topic, Verdict};
use super::{kubectl_apply, request, tenant_quotas, validation};
use crate::Overlay;
use crate::overlay::tenants::TENANT_QUOTA;
use headroom_objects::cluster_reader::folder::{Identity, amount_of, identity, in_namespace};
use headroom_objects::cluster_reader::{ClusterReader, CompressedObject};
use headroom_objects::kinds::{ApiKind, PRIORITY_CLASS, STORAGE_CLASS, lifecycle, metadata, number, set, text};
use headroom_workloads::kinds::{DEPLOYMENT, REPLICA_SET, pod_at};
use headroom_workloads::pod_makers::{self, MadePods, PodMaker, PodTemplate, Update};
use headroom_workloads::pod_of;
use headroom_workloads::running;
use pods::Change;
pub use pods::{Blocked, FITS_NOW};

pub struct Run {
    pub cluster: Overlay,
    pub admission: Admission,
    /// The namespace of objects that name none.
    namespace: String,
    /// The minor version of the API server; none if it is not known.
    release: Option<u16>,
    /// Kinds of custom resources that make pods, before those that are known.
    pub pod_makers: Vec<PodMaker>,
    /// True if there are TenantQuotas; none until they were listed.
    has_tenants: Option<bool>,
    /// The default class of each field, as far as it was asked for.
    default_classes: HashMap<&'static str, Result<Option<String>, String>>,
    /// The manifests that this run applied.
    applied: HashMap<Identity, CompressedObject>,
}

impl Run {
    pub fn new(mut cluster: Overlay, admission: Admission, namespace: &str) -> Self {
        let of_settings = admission.settings().and_then(|settings| settings.get("kubernetesVersion")?.as_str());
        let of_settings = of_settings.and_then(lifecycle::minor);
        let release = of_settings.or_else(|| cluster.release());
        Self {
            cluster,
            admission: admission.with_release(release),
            namespace: namespace.to_owned(),
            release,
            pod_makers: Vec::new(),
            has_tenants: None,
            default_classes: HashMap::new(),
            applied: HashMap::new(),
        }
    }

    /// Checks a request that is admitted otherwise against TenantQuotas.
    fn ask_tenants(&mut self, decision: &mut ObjectDecision) -> Result<(), String> {
        let has_tenants = match self.has_tenants {
            Some(known) => known,
            None => {
                // A failure to read them is reported once.
                let found = tenant_quotas::prepare(&mut self.cluster);
                self.has_tenants = Some(found == Ok(true));
                found?
            }
        };
        if !decision.is_admitted() || !has_tenants {
            return Ok(());
        }
        let outcome = tenant_quotas::evaluate(&decision.request, decision.outcome(), &mut self.cluster)?;
        let Some(outcome) = outcome else { return Ok(()) };
        decision.charges.extend(outcome.charges);
        if !outcome.refusals.is_empty() {
            let refusals = outcome.refusals.into_iter().map(|parts| RejectionReason::new(Topic::Quota, parts));
            decision.reasons.extend(refusals);
            return Ok(());
        }
        if decision.pod_charges.iter().any(|charge| charge.is_tenant) {
            // The policy has checked them already, as its settings ask.
            return Ok(());
        }
        // As its pods would be created, now and before.
        let pod = |run: &mut Self, workload: &Value| run.preview_pod_of(workload).map(|pod| pod.outcome().clone());
        let Some(new) = pod(self, decision.outcome()) else { return Ok(()) };
        let old = decision.request.get("oldObject").filter(|old| old.is_object()).cloned();
        let old = old.and_then(|old| pod(self, &old));
        let forecast = tenant_quotas::forecast(&decision.request, &new, old.as_ref(), &mut self.cluster)?;
        decision.pod_charges.extend(forecast.charges);
        let warning = |parts: &Vec<String>| ObjectWarning::blocking(Topic::Quota, parts.join("; "));
        decision.warnings.extend(forecast.refusals.iter().map(warning));
        Ok(())
    }

    /// Evaluates an object, and commits it if it is admitted.
    pub fn evaluate(&mut self, object: &Value) -> ObjectDecision {
        let mut decision = self.preview(object);
        self.apply(&mut decision, object);
        decision
    }

    /// The same, and a pod as the object would make it next; none if it makes no pods of its own.
    pub fn evaluate_with_pod(&mut self, object: &Value) -> (ObjectDecision, Option<ObjectDecision>) {
        let mut decision = self.preview(object);
        let workload = decision.request.get("object").unwrap_or(object);
        let pod = self.preview_pod_of(workload);
        self.apply(&mut decision, object);
        (decision, pod)
    }

    /// Commits a previewed object if it is admitted, as one that is applied from this manifest.
    fn apply(&mut self, decision: &mut ObjectDecision, manifest: &Value) {
        self.accept(decision);
        if decision.is_admitted() {
            self.applied.insert(identity(decision.outcome()), CompressedObject::from(manifest));
        }
    }

    /// Commits a previewed object if it is admitted.
    pub fn accept(&mut self, decision: &mut ObjectDecision) {
        if !decision.is_admitted() {
            return;
        }
        if let Err(problem) = self.commit(decision) {
            decision.verdict = Verdict::Error;
            decision.reasons.push(RejectionReason::missing_context(problem));
        }
    }

    /// Evaluates an object without committing it.
    pub fn preview(&mut self, object: &Value) -> ObjectDecision {
        self.preview_over(object, None)
    }

    /// Evaluates other requests and limits for a pod that runs, which only `pods/resize` can set. The same is charged for a pod that
    /// is deleted and created again.
    pub fn preview_resize(&mut self, pod: Value, resized: Value) -> ObjectDecision {
        let mut request = request::update(resized, pod, &ApiKind::new("v1", "Pod"), &self.namespace);
        set(&mut request, "subResource", json!("resize"));
        let mut decision = self.ask(request);
        decision.decide();
        decision
    }

    /// Evaluates a request, also against TenantQuotas.
    fn ask(&mut self, request: Value) -> ObjectDecision {
        let mut decision = self.admission.evaluate(request, &mut self.cluster);
        if let Err(problem) = self.ask_tenants(&mut decision) {
            decision.warnings.push(problem.into());
        }
        decision
    }

    /// Evaluates an object without committing it, over the one that is there, which is looked for unless it was read before.
    pub fn preview_over(&mut self, object: &Value, there: Option<Value>) -> ObjectDecision {
        let kind = self.cluster.kind(text(object, "/apiVersion"), text(object, "/kind"));
        let mut object =
            if kind.is_namespaced { in_namespace(object.clone(), &self.namespace) } else { object.clone() };
        if let Some(of) = PodKind::of(&kind.group, &kind.plural) {
            self.drop_unknown_fields(&mut object, &pod_at(of));
        }
        request::round_amounts(&mut object, &kind);
        let (there, note) = if there.is_some() { (there, None) } else { self.find(&kind, &object) };
        let (mut kept, mut notes) = (Vec::new(), Vec::from_iter(note));
        let request = match there {
            Some(there) => {
                let mut there = running::with_status(there, &mut self.cluster);
                self.set_classes(&mut there);
                let before = self.applied.get(&identity(&object)).map(CompressedObject::value);
                let mut applied = kubectl_apply::applied(&object, &there, before);
                notes.extend(self.set_classes(&mut applied));
                kept = containers_only_in(&applied, &object);
                if kind.qualified() == "services" {
                    request::drop_node_ports(&mut applied, &there);
                }
                request::update(applied, there, &kind, &self.namespace)
            }
            None => {
                notes.extend(self.set_classes(&mut object));
                request::create(object, &kind, &self.namespace)
            }
        };
        let mut decision = self.admission.evaluate(request, &mut self.cluster);
        decision.warnings.extend(notes.into_iter().map(ObjectWarning::from));
        let stays =
            |name: &str| format!("container {name} stays: it is in the existing object, and was not applied before");
        decision.warnings.extend(kept.iter().map(|name| stays(name).into()));
        if let Err(problem) = self.ask_tenants(&mut decision) {
            decision.warnings.push(problem.into());
        }
        let object = decision.outcome().clone();
        let mut is_checked = is_bounded(&kind) || !decision.charges.is_empty();
        let made = self.pods_of(&object);
        is_checked |= made.is_known || !made.templates.is_empty();
        let templates = self.evaluate_pods(made, &mut decision);
        self.evaluate_unfinished(&mut decision);
        self.evaluate_claims(&mut decision);
        let of_target = self.evaluate_target(&object);
        is_checked |= of_target.is_ok();
        let of_target = of_target.unwrap_or_else(|why| why.into_iter().collect());
        decision.warnings.extend(of_target.into_iter().map(ObjectWarning::from));
        let written = decision.request.get("object").unwrap_or(&object);
        let stored = decision.refused_as.as_ref().unwrap_or(&object);
        let problems =
            validation::problems(stored, written, decision.request.get("oldObject"), self.release, &templates);
        if problems.is_empty() {
            // Once LimitRanger has set the defaults of its pods, the API server may not store them.
            let pod = pod_of(&object).and_then(|_| self.preview_pod_of(&object));
            let of_pods = pod.map(|pod| validation::problems_after(&pod, self.release)).unwrap_or_default();
            let blocking = |problem| ObjectWarning::blocking(Topic::Invalid, format!("its pods: {problem}"));
            decision.warnings.extend(of_pods.iter().map(blocking));
            decision.warnings.extend(byte_warnings(written, &templates).into_iter().map(ObjectWarning::from));
        } else {
            // The problems include what the core could not read, in Kubernetes' words.
            decision.reasons.retain(|reason| reason.topic != Topic::Invalid);
            decision.reasons.insert(0, RejectionReason::new(Topic::Invalid, problems));
            // Values that a bound refuses as well are shown with their sources: one of these may be what makes them invalid.
            if decision.refused_as.is_none() {
                decision.forget_outcome();
            }
        }
        decision.decide();
        if !is_checked && decision.verdict == Verdict::Admitted {
            decision.verdict = Verdict::NotChecked;
        }
        decision
    }

    /// Takes out of a pod template what the API server drops because its release does not know it.
    fn drop_unknown_fields(&self, object: &mut Value, template: &str) {
        let init_containers = object.pointer_mut(&format!("{template}/spec/initContainers"));
        let init_containers = init_containers.and_then(Value::as_array_mut).filter(|_| {
            // Sidecars came with 1.28.
            self.release.is_some_and(|release| release < 28)
        });
        for container in init_containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            container.remove("restartPolicy");
        }
    }

    /// The pods that a custom resource makes.
    fn pods_of(&mut self, object: &Value) -> MadePods {
        let (kind, namespace) = (ApiKind::of(object), metadata(object, "namespace"));
        let cluster = &mut self.cluster;
        let mut find =
            |other: &str, name: &str| cluster.get((&kind.api_version(), other, Some(namespace)), name).ok()?;
        let mut made = pod_makers::of(object, &self.pod_makers, &mut find);
        for PodTemplate { template, .. } in &mut made.templates {
            self.drop_unknown_fields(template, "");
            let unread = self.set_classes_of_pod(template, "/spec", namespace);
            made.doubt = made.doubt.take().or_else(|| unread.into_iter().next());
        }
        made
    }

    /// Evaluates the pods that a custom resource makes, each template in the room that those before it leave. A ReplicaSet stands in
    /// place of its operator.
    fn evaluate_pods(&mut self, made: MadePods, decision: &mut ObjectDecision) -> Vec<PodTemplate> {
        let object = decision.outcome().clone();
        let old = decision.request.get("oldObject").filter(|old| old.is_object()).cloned();
        let before = old.as_ref().map(|old| self.pods_of(old).templates).unwrap_or_default();
        let kind = ApiKind::new(REPLICA_SET.api_version, REPLICA_SET.kind);
        let evaluate_pods = |run: &mut Self, request: Value| {
            let of_pods = run.admission.evaluate(request, &mut run.cluster);
            let refusals =
                of_pods.reasons.iter().map(|reason| ObjectWarning::blocking(reason.topic, reason.to_string()));
            (refusals.chain(of_pods.warnings).collect::<Vec<ObjectWarning>>(), of_pods.pod_charges)
        };
        let (mut charged, mut warned) = (Vec::new(), Vec::new());
        // Its status counts the pods of all templates.
        let present =
            old.as_ref().and_then(|old| number(old, "/status/replicas")).filter(|_| made.templates.len() == 1);
        let mark = self.cluster.mark();
        for pods in &made.templates {
            let replica_set = pod_makers::replica_set(&object, pods, pods.replicas);
            let was = old.as_ref().zip(before.iter().find(|old| old.path == pods.path));
            let replaced = was.filter(|(_, was)| was.template != pods.template);
            let rolling = |was: (&Value, &PodTemplate), bounds: &Value| {
                let [new, old] = [(&object, pods), was].map(|(of, pods)| pod_makers::deployment(of, pods, bounds));
                request::update(new, old, &ApiKind::new(DEPLOYMENT.api_version, DEPLOYMENT.kind), &self.namespace)
            };
            let mut request = match (was, replaced, &pods.update) {
                (_, Some(replaced), Update::Rolls(bounds)) => rolling(replaced, bounds),
                (None, ..) | (_, Some(_), Update::Beside) => request::create(replica_set, &kind, &self.namespace),
                (Some((old, was)), ..) => {
                    let count = present.map_or(was.replicas, |present| present.min(was.replicas));
                    let was = pod_makers::replica_set(old, was, count);
                    request::update(replica_set, was, &kind, &self.namespace)
                }
            };
            let all_beside = replaced
                .filter(|_| pods.update == Update::Beside)
                .map(|replaced| rolling(replaced, &json!({"maxSurge": "100%", "maxUnavailable": 0})));
            let (mut warnings, charges) = evaluate_pods(self, request.clone());
            if let Some(replacing) = all_beside {
                match warnings.iter_mut().find(|warning| warning.blocks_pods.is_some()) {
                    Some(warning) => warning.text.insert_str(0, "all new pods run before an old one goes: "),
                    None => request = replacing,
                }
            }
            if made.templates.len() > 1 {
                warnings.iter_mut().for_each(|warning| warning.text = format!("{}: {}", pods.path, warning.text));
            }
            // OK because a quota that cannot be read now could not be read for the charge either.
            let _ = self.settle_pods(&decision.namespace, &request);
            decision.rollouts.push(request);
            warned.extend(warnings);
            charged.extend(charges);
        }
        for (pods, most) in made.templates.iter().filter_map(|pods| Some((pods, pods.most?))) {
            let [now, at_most] = [pods.replicas, most].map(|count| pod_makers::replica_set(&object, pods, count));
            let (warnings, _) = evaluate_pods(self, request::update(at_most, now, &kind, &self.namespace));
            let new = warnings.into_iter().filter(|warning| warned.iter().all(|other| other.text != warning.text));
            let at_most =
                new.map(|warning| format!("at the maximum of {most} pods of {}: {}", pods.path, warning.text));
            decision.warnings.extend(at_most.map(ObjectWarning::from).collect::<Vec<_>>());
        }
        self.cluster.roll_back(mark);
        if made.are_grouped && warned.iter().any(|warning| warning.blocks_pods.is_some()) {
            warned.push("its pods only work together: those that fit wait for the others".to_owned().into());
        }
        decision.warnings.extend(warned.into_iter().chain(made.doubt.map(ObjectWarning::from)));
        decision.pod_charges.extend(charged);
        made.templates
    }

    /// A pod as a workload would make it, evaluated; none if the object makes no pods of its own.
    pub fn preview_pod_of(&mut self, workload: &Value) -> Option<ObjectDecision> {
        let mut of_custom_resource = || {
            let pods = self.pods_of(workload).templates.into_iter().next()?;
            pod_of(&pod_makers::replica_set(workload, &pods, pods.replicas))
        };
        let mut pod = pod_of(workload).or_else(&mut of_custom_resource)?;
        let kind = ApiKind::of(&pod);
        self.set_classes(&mut pod);
        Some(self.admission.evaluate(request::create(pod, &kind, &self.namespace), &mut self.cluster))
    }

    /// The object of that name, if it is there already; and what to say if that cannot be known.
    fn find(&mut self, kind: &ApiKind, object: &Value) -> (Option<Value>, Option<String>) {
        let name = metadata(object, "name");
        if name.is_empty() {
            return (None, None);
        }
        let namespace = kind.is_namespaced.then(|| metadata(object, "namespace"));
        match self.cluster.get((&kind.api_version(), &kind.kind, namespace), name) {
            Ok(there) => (there, None),
            // A kind that the cluster does not know has no objects yet.
            Err(error) if error.is_unknown_kind() => (None, None),
            Err(problem) => (None, Some(format!("evaluated as a new object, because {problem}"))),
        }
    }

    fn commit(&mut self, decision: &ObjectDecision) -> Result<(), String> {
        for charge in &decision.charges {
            self.charge(&decision.namespace, charge, Quantity::plus)?;
        }
        let mut object = decision.outcome().clone();
        let mut pods = if decision.rollouts.is_empty() { 1 } else { 0 };
        for request in &decision.rollouts {
            let exist = self.settle_pods(&decision.namespace, request)?;
            pods += exist;
            if pod_of(&object).is_some() {
                // What is applied to it later finds so many.
                set(&mut object, "status", json!({"replicas": exist, "updatedReplicas": exist}));
            }
        }
        for (charge, count) in &decision.claims {
            // Of pods that are not created there are no claims.
            self.charge(&decision.namespace, &charge.times_count(pods.min(*count)), Quantity::plus)?;
        }
        if decision.kind.qualified() == "resourcequotas" {
            let used = decision.request.pointer("/oldObject/status/used");
            let status = used.map(|used| json!({"hard": object.pointer("/spec/hard"), "used": used}));
            set(&mut object, "status", status.unwrap_or_else(|| json!({})));
        }
        if ApiKind::of(&object).kind == TENANT_QUOTA.1 {
            self.has_tenants = None;
        }
        if [PRIORITY_CLASS.1, STORAGE_CLASS.1].contains(&decision.kind.kind.as_str()) {
            self.default_classes.clear();
        }
        self.cluster.put(object).map_err(|malformed| malformed.to_string())
    }

    /// Raises the usage of a quota, or lowers it.
    fn charge(&mut self, namespace: &str, charge: &ObjectCharge, change: Change) -> Result<(), String> {
        let ((api_version, kind), namespace) = match charge.is_tenant {
            true => (TENANT_QUOTA, None),
            false => (("v1", "ResourceQuota"), Some(namespace)),
        };
        let quota = self.cluster.get((api_version, kind, namespace), &charge.quota)?;
        let Some(mut quota) = quota else { return Ok(()) };
        let used = quota.pointer_mut("/status/used").and_then(Value::as_object_mut);
        for (name, level) in used.into_iter().flatten() {
            let Some(amount) = charge.added.iter().find(|amount| amount.name == *name) else { continue };
            // OK because both are amounts that the core has read or written.
            if let (Some(before), Ok(added)) = (amount_of(level), amount.added.parse::<Quantity>()) {
                *level = json!(change(&before, &added).max(Quantity::ZERO).to_string());
            }
        }
        self.cluster.put(quota).map_err(|malformed| malformed.to_string())
    }
}

/// The names of the containers of an object's pods that another object's pods do not have.
fn containers_only_in(object: &Value, other: &Value) -> Vec<String> {
    let names = |object: &Value| -> Vec<String> {
        let pod = pod_of(object).unwrap_or_default();
        let lists = ["/spec/initContainers", "/spec/containers"];
        let containers = lists.iter().filter_map(|list| pod.pointer(list)?.as_array()).flatten();
        containers.filter_map(|container| Some(container.get("name")?.as_str()?.to_owned())).collect()
    };
    let others = names(other);
    names(object).into_iter().filter(|name| !others.contains(name)).collect()
}

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
            | "PriorityClass"
            | "RuntimeClass"
            | "StorageClass"
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

/// True for the kinds that Headroom evaluates in any case; others only count for quotas that name them.
fn is_bounded(kind: &ApiKind) -> bool {
    const KINDS: [&str; 6] = [
        "limitranges",
        "persistentvolumeclaims",
        "resourceclaims.resource.k8s.io",
        "resourcequotas",
        "services",
        "tenantquotas.headroom.dev",
    ];
    PodKind::of(&kind.group, &kind.plural).is_some() || KINDS.contains(&kind.qualified().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_objects::cluster_reader::Folder;

    #[test]
    fn a_pod_that_its_defaults_make_invalid_is_not_called_forbidden() {
        let range = |max: &str| {
            json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits", "namespace": "shop"},
                "spec": {"limits": [{"type": "Container", "default": {"memory": "1Gi"}, "max": {"memory": max}}]}})
        };
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [
            {"name": "a", "image": "nginx", "resources": {"requests": {"memory": "2Gi"}}}]}});
        let settings = json!({"limitRanges": {"raiseDefaultLimits": false}});
        // The first is a bound that the pod breaks too.
        for max in ["1Gi", "4Gi"] {
            let folder = Folder::with([range(max)]).unwrap();
            let mut run = Run::new(Overlay::new(folder, None), Admission::of_settings(&settings), "shop");
            let decision = run.evaluate(&pod);
            assert_eq!(decision.verdict, Verdict::Invalid, "{}", decision.message());
            assert!(decision.message().contains("must be less than or equal to memory limit of 1Gi"));
        }
    }
}
