//! Evaluates the target of an autoscaler as if it were scaled to its maximum: a HorizontalPodAutoscaler, or a ScaledObject of KEDA.

use serde_json::{Value, json};

use super::Run;
use crate::evaluate::object_decision::RejectionReason;
use crate::evaluate::request;
use headroom_objects::cluster_reader::ClusterReader;
use headroom_objects::kinds::ApiKind;
use headroom_workloads::autoscaler::{HORIZONTAL, HorizontalAutoscaler};
use headroom_workloads::kinds::REPLICA_SET;
use headroom_workloads::{WorkloadRef, pod_makers, pod_of};

impl Run {
    /// Evaluates the target of an object if that is an autoscaler: the warnings at the largest number of replicas that the target
    /// does not cause at its present number. Of what is not checked the reason, if it is worth a warning.
    pub(super) fn evaluate_target(&mut self, object: &Value) -> Result<Vec<String>, Option<String>> {
        let Some(autoscaler) = HorizontalAutoscaler::of(object) else { return Err(None) };
        let Some(most) = autoscaler.most else { return Err(None) };
        let field = if ApiKind::of(object).kind == HORIZONTAL { "maxReplicas" } else { "maxReplicaCount" };
        let WorkloadRef { namespace, kind, name } = &autoscaler.target;
        let api_version = autoscaler.target_api_version.as_str();
        let kind = self.cluster.kind(api_version, kind);
        let target = self.cluster.get((api_version, &kind.kind, Some(namespace)), name).map_err(String::from);
        let target = target.and_then(|target| target.ok_or_else(|| format!("there is no {}", kind.object_name(name))));
        let mut target = target.map_err(|why| Some(format!("{field} is not checked against the quotas: {why}")))?;
        self.set_classes(&mut target);
        if target.pointer("/spec/replicas").and_then(Value::as_u64) >= Some(most) {
            return Ok(Vec::new());
        }
        let mut scaled = target.clone();
        if let Some(Value::Object(spec)) = scaled.get_mut("spec") {
            spec.insert("replicas".to_owned(), json!(most));
        }
        let pairs = if pod_of(&target).is_some() {
            vec![(target, scaled, kind.clone())]
        } else {
            let before = self.pods_of(&target).templates;
            let replica_sets = self.pods_of(&scaled).templates.into_iter().filter_map(|pods| {
                let was = before.iter().find(|was| was.path == pods.path)?;
                let [now, at_most] =
                    [was.replicas, pods.replicas].map(|count| pod_makers::replica_set(&target, &pods, count));
                Some((now, at_most, ApiKind::new(REPLICA_SET.api_version, REPLICA_SET.kind)))
            });
            replica_sets.collect()
        };
        if pairs.is_empty() {
            // For an unknown kind, where its pods come from is unknown too.
            return Err(None);
        }
        let mut warned = |request: Value| {
            let decision = self.admission.evaluate(request, &mut self.cluster);
            let reasons = decision.reasons.iter().map(RejectionReason::text);
            reasons.chain(decision.warnings.into_iter().map(|warning| warning.text)).collect::<Vec<String>>()
        };
        let mut warnings = Vec::new();
        for (now, at_most, of) in pairs {
            // As a new object, because an update that changes nothing is not evaluated.
            let before = warned(request::create(now.clone(), &of, namespace));
            let new = warned(request::update(at_most, now, &of, namespace)).into_iter();
            let new = new.filter(|warning| !before.contains(warning));
            warnings.extend(new.map(|warning| format!("at {field} {most}, {}: {warning}", kind.object_name(name))));
        }
        Ok(warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Overlay;
    use crate::evaluate::Admission;
    use headroom_objects::cluster_reader::Folder;

    fn check(autoscaler: Value, expected: &[&str]) {
        let template = json!({"spec": {"containers": [
            {"name": "a", "image": "nginx", "resources": {"requests": {"cpu": "500m"}}}]}});
        let objects = [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
            json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team", "namespace": "shop"},
                "spec": {"hard": {"requests.cpu": "2"}},
                "status": {"hard": {"requests.cpu": "2"}, "used": {"requests.cpu": "1"}}}),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
                "spec": {"replicas": 2, "template": template}}),
            json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "web", "namespace": "shop"},
                "spec": {"replicas": 2, "template": template}}),
        ];
        let mut run =
            Run::new(Overlay::new(Folder::with(objects).unwrap(), None), Admission::of_settings(&json!({})), "shop");
        assert_eq!(run.evaluate_target(&autoscaler).unwrap(), expected);
    }

    #[test]
    fn the_largest_number_of_replicas_is_checked_against_the_quotas() {
        let hpa = |most: u64, [api_version, kind]: [&str; 2]| {
            json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"scaleTargetRef": {"apiVersion": api_version, "kind": kind, "name": "web"}, "maxReplicas": most}})
        };
        let deployment = ["apps/v1", "Deployment"];
        check(hpa(2, deployment), &[]);
        check(hpa(4, deployment), &[]);
        let short = "only 4 of 6 replicas fit quota \"team\": requests.cpu short by 1 (1 available)";
        check(hpa(6, deployment), &[&format!("at maxReplicas 6, deployment.apps/web: {short}")]);
        let rollout = hpa(6, ["argoproj.io/v1alpha1", "Rollout"]);
        check(rollout, &[&format!("at maxReplicas 6, rollout.argoproj.io/web: {short}")]);
    }
}
