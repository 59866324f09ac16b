//! Evaluates the target of a HorizontalPodAutoscaler as if it were scaled to `maxReplicas`.

use serde_json::{Value, json};

use super::evaluation::Reason;
use super::{Admission, request};
use headroom_objects::cluster_reader::ClusterReader;
use headroom_objects::kinds::{ApiKind, metadata};

pub fn is_autoscaler(kind: &ApiKind) -> bool {
    kind.group == "autoscaling" && kind.kind == "HorizontalPodAutoscaler"
}

/// The evaluation of an autoscaler's target.
#[derive(Debug, PartialEq, Eq)]
pub enum Autoscaled {
    /// The warnings at the largest number of replicas that the target does not cause at its present number.
    Checked(Vec<String>),
    /// With the reason, if it is worth a warning.
    NotChecked(Option<String>),
}

pub fn evaluate_target(autoscaler: &Value, admission: &Admission, cluster: &mut dyn ClusterReader) -> Autoscaled {
    let text = |path: &str| autoscaler.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind, name) =
        (text("/spec/scaleTargetRef/apiVersion"), text("/spec/scaleTargetRef/kind"), text("/spec/scaleTargetRef/name"));
    let Some(most) = autoscaler.pointer("/spec/maxReplicas").and_then(Value::as_u64) else {
        return Autoscaled::NotChecked(None);
    };
    let namespace = metadata(autoscaler, "namespace");
    let kind = cluster.kind(api_version, kind);
    let target = match cluster.get((api_version, &kind.kind, Some(namespace)), name) {
        Ok(Some(target)) => target,
        Ok(None) => {
            let problem =
                format!("maxReplicas is not checked against the quotas: there is no {}", kind.object_name(name));
            return Autoscaled::NotChecked(Some(problem));
        }
        Err(problem) => {
            return Autoscaled::NotChecked(Some(format!("maxReplicas is not checked against the quotas: {problem}")));
        }
    };
    // For an unknown kind, where its pods come from is unknown too.
    if request::pod_of(&target).is_none() {
        return Autoscaled::NotChecked(None);
    }
    if target.pointer("/spec/replicas").and_then(Value::as_u64) >= Some(most) {
        return Autoscaled::Checked(Vec::new());
    }
    let mut scaled = target.clone();
    if let Some(Value::Object(spec)) = scaled.get_mut("spec") {
        spec.insert("replicas".to_owned(), json!(most));
    }
    let mut warned = |request: Value| {
        let evaluation = admission.evaluate(request, cluster);
        let reasons = evaluation.reasons.iter().map(Reason::text);
        reasons.chain(evaluation.warnings.into_iter().map(|warning| warning.text)).collect::<Vec<String>>()
    };
    // As a new object, because an update that changes nothing is not evaluated.
    let before = warned(request::create(target.clone(), &kind, namespace));
    let at_most = warned(request::update(scaled, target, &kind, namespace));
    let new = at_most.into_iter().filter(|warning| !before.contains(warning));
    Autoscaled::Checked(
        new.map(|warning| format!("at maxReplicas {most}, {}: {warning}", kind.object_name(name))).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_objects::cluster_reader::{Folder, Overlay};

    fn check(most: u64, expected: &[&str]) {
        let mut folder = Folder::default();
        for object in [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
            json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team", "namespace": "shop"},
                "spec": {"hard": {"requests.cpu": "2"}},
                "status": {"hard": {"requests.cpu": "2"}, "used": {"requests.cpu": "1"}}}),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
                "spec": {"replicas": 2, "template": {"spec": {"containers": [
                    {"name": "a", "image": "nginx", "resources": {"requests": {"cpu": "500m"}}}]}}}}),
        ] {
            folder.put(object).unwrap();
        }
        let mut cluster = Overlay::new(folder, None);
        let autoscaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": most}});
        let expected = expected.iter().map(|warning| (*warning).to_owned()).collect();
        assert_eq!(
            evaluate_target(&autoscaler, &Admission::of_settings(&json!({})), &mut cluster),
            Autoscaled::Checked(expected)
        );
    }

    #[test]
    fn the_largest_number_of_replicas_is_checked_against_the_quotas() {
        check(2, &[]);
        check(4, &[]);
        check(
            6,
            &["at maxReplicas 6, deployment.apps/web: only 4 of 6 replicas fit quota \"team\": \
               requests.cpu short by 1 (1 available)"],
        );
    }
}
