//! The claims that are made for the pods of an object: of generic ephemeral volumes, from ResourceClaimTemplates, and from the
//! claim templates of custom resources.
//!
//! Each is made with its pod, which does not run without it, and charged as the claims of a StatefulSet are.

use headroom_admission::amount::Quantity;
use headroom_admission::quota::forecast::most_that_hold;
use serde_json::{Value, json};

use super::Run;
use crate::evaluate::object_decision::{ChargedAmount, ObjectCharge, ObjectDecision, ObjectWarning, Topic, parsed};
use crate::evaluate::request;
use headroom_objects::cluster_reader::ClusterReader;
use headroom_objects::kinds::{ApiKind, items, metadata, text};
use headroom_workloads::pod_makers;

/// The claim made for each of so many pods.
struct Claims {
    /// `ephemeral volume scratch`
    name: String,
    count: u64,
    claim: Value,
}

/// The versions in which ResourceClaimTemplates are served.
const VERSIONS: [&str; 3] = ["resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1"];

impl Run {
    /// Evaluates the claims that an admitted object adds, beside the pods that are charged already.
    pub(super) fn evaluate_claims(&mut self, decision: &mut ObjectDecision) {
        let object = decision.outcome().clone();
        let old = decision.request.get("oldObject").filter(|old| old.is_object()).cloned();
        let before = old.map(|old| self.claims_of(&old, &mut Vec::new())).unwrap_or_default();
        let mut unread = Vec::new();
        let claims = self.claims_of(&object, &mut unread);
        decision.warnings.extend(unread.into_iter().map(ObjectWarning::from));
        let mut charged: Vec<(ObjectCharge, u64)> = Vec::new();
        let mark = self.cluster.mark();
        for Claims { name, count, mut claim } in claims {
            let there = before.iter().find(|claims| claims.name == name).map_or(0, |claims| claims.count);
            let added = count.saturating_sub(there);
            if added == 0 {
                continue;
            }
            decision.warnings.extend(self.set_classes(&mut claim).into_iter().map(ObjectWarning::from));
            let kind = ApiKind::of(&claim);
            let one = self.admission.evaluate(request::create(claim, &kind, &decision.namespace), &mut self.cluster);
            if let Some(reason) = one.reasons.first() {
                let text = format!("the claims of {name} would be rejected: {reason}");
                decision.warnings.push(ObjectWarning::blocking(reason.topic, text));
                continue;
            }
            let all = one.charges.iter().flat_map(|charge| &charge.added);
            let fits = all.map(|amount| fitting(amount, added)).min().unwrap_or(added);
            for charge in &one.charges {
                let short = charge.added.iter().find(|amount| fits < added && fitting(amount, added) == fits);
                if let Some(ChargedAmount { name: resource, .. }) = short {
                    let text = format!(
                        "only {fits} of {added} claims of {name} fit quota \"{}\", by {resource}; the other pods wait for theirs",
                        charge.quota
                    );
                    decision.warnings.push(ObjectWarning::blocking(Topic::Quota, text));
                }
            }
            for charge in one.charges.iter().filter(|_| fits > 0) {
                // OK because a quota that cannot be read now could not be read for the charge either.
                let _ = self.charge(&decision.namespace, &charge.times_count(fits), Quantity::plus);
                charged.push((charge.clone(), fits));
            }
        }
        self.cluster.roll_back(mark);
        decision.pod_charges.extend(charged.iter().map(|(charge, count)| charge.times_count(*count)));
        decision.claims = charged;
    }

    /// The claims for the pods of an object; `unread` gets the reasons why some are unknown.
    fn claims_of(&mut self, object: &Value, unread: &mut Vec<String>) -> Vec<Claims> {
        let namespace = metadata(object, "namespace");
        let pods = match pod_makers::of_built_in(object) {
            templates if templates.is_empty() => self.pods_of(object).templates,
            templates => templates,
        };
        let mut claims = Vec::new();
        for pods in pods {
            let mut add = |name: String, kind: [&str; 2], template: &Value| {
                claims.push(Claims { name, count: pods.replicas, claim: claim(kind, namespace, template) });
            };
            let of_volume = ["v1", "PersistentVolumeClaim"];
            for template in &pods.claims {
                add(format!("volume {}", metadata(template, "name")), of_volume, template);
            }
            for volume in items(&pods.template, "/spec/volumes") {
                let Some(template) = volume.pointer("/ephemeral/volumeClaimTemplate") else { continue };
                add(format!("ephemeral volume {}", text(volume, "/name")), of_volume, template);
            }
            let names =
                items(&pods.template, "/spec/resourceClaims").map(|claim| text(claim, "/resourceClaimTemplateName"));
            for name in names.filter(|name| !name.is_empty()) {
                let mut problem = format!("there is no ResourceClaimTemplate {name}");
                let found = VERSIONS.iter().find_map(|version| {
                    let found = self.cluster.get((*version, "ResourceClaimTemplate", Some(namespace)), name);
                    let failure = found.as_ref().err().filter(|error| !error.is_unknown_kind());
                    failure.into_iter().for_each(|error| problem = error.to_string());
                    Some((*version, found.ok()??))
                });
                match found.as_ref().and_then(|(version, found)| Some((*version, found.get("spec")?))) {
                    None => unread.push(format!("its resource claims are not counted: {problem}")),
                    Some((version, template)) => {
                        add(format!("ResourceClaimTemplate {name}"), [version, "ResourceClaim"], template);
                    }
                }
            }
        }
        claims
    }
}

pub(super) fn claim([api_version, kind]: [&str; 2], namespace: &str, template: &Value) -> Value {
    let mut metadata = template.get("metadata").cloned().unwrap_or_else(|| json!({}));
    if let Value::Object(fields) = &mut metadata {
        fields.extend([("generateName".to_owned(), json!("claim-")), ("namespace".to_owned(), json!(namespace))]);
    }
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": template.get("spec")})
}

/// The number of claims, at most `count`, that fit under a bound by which one fits.
fn fitting(amount: &ChargedAmount, count: u64) -> u64 {
    let (one, room) = (parsed(&amount.added), parsed(&amount.hard).minus(&parsed(&amount.before)));
    most_that_hold(count, |claims| one.times_count(claims) <= room)
}
