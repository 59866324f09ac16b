//! The status of a quota that no quota controller has seen yet: its bounds as in the spec, and the usage counted
//! from the objects around it, as the ledger counts them.

use headroom_admission::cluster::resource_quota::ResourceQuota;
use headroom_admission::timestamp::Timestamp;
use headroom_quota_protocol::cache::CachedObject;
use headroom_quota_protocol::devices::Link;
use headroom_quota_protocol::{Cache, Footprint, ObjectKey, Plan};
use serde_json::{Value, json};

use headroom_objects::cluster_reader::folder::amounts;
use headroom_objects::cluster_reader::{ClusterReader, ReadError};
use headroom_objects::kinds::{ApiKind, metadata, set};
use headroom_objects::{clock, document};
use headroom_workloads::kinds::served;

/// True if a quota has its usage in its status.
pub fn is_counted(quota: &Value) -> bool {
    let has = |field: &str| quota.pointer(field).is_some_and(Value::is_object);
    has("/status/hard") && has("/status/used")
}

/// Gives a quota the status that the quota controller would give it.
pub fn count(quota: &mut Value, cluster: &mut dyn ClusterReader) -> Result<(), ReadError> {
    let status = status_of(quota, cluster).map_err(|problem| {
        problem.context(&format!("the usage of ResourceQuota {} cannot be counted", metadata(quota, "name")))
    })?;
    set(quota, "status", status);
    Ok(())
}

fn status_of(quota: &Value, cluster: &mut dyn ClusterReader) -> Result<Value, ReadError> {
    let document = document(quota)?;
    let read = ResourceQuota::read(document.root()).map_err(|error| error.to_string())?;
    let plan = Plan::of_namespace(metadata(quota, "namespace"), std::slice::from_ref(&read));
    let used = cache(&plan, cluster)?.count(&plan).into_iter().next().unwrap_or_default();
    Ok(json!({"hard": amounts(&read.spec_hard), "used": amounts(&used)}))
}

/// The objects that the quotas of a plan charge. A kind that the cluster does not serve, or that is not known, has none.
pub fn cache(plan: &Plan, cluster: &mut dyn ClusterReader) -> Result<Cache, ReadError> {
    let now = Timestamp::from_unix_seconds(clock::now());
    let mut cache = Cache::default();
    for qualified in plan.watched_kinds() {
        cache.advance(&qualified, 1);
        let Some(kind) = ApiKind::counted(&qualified) else { continue };
        let everywhere = String::new();
        let namespaces: Vec<&String> =
            if kind.is_namespaced { plan.namespaces.keys().collect() } else { vec![&everywhere] };
        for namespace in namespaces {
            let within = kind.is_namespaced.then_some(namespace.as_str());
            for object in served(cluster.list((&kind.api_version(), &kind.kind, within)))?.unwrap_or_default() {
                let document = document(&object)?;
                let footprint = Footprint::of_stored(&qualified, document.root(), now);
                let link = Link::read(&qualified, document.root());
                let stored = CachedObject {
                    uid: metadata(&object, "uid").to_owned(),
                    version: 1,
                    footprint: footprint.map_err(|malformed| malformed.to_string())?.into(),
                    ends: None,
                    link: link.map_err(|malformed| malformed.to_string())?.map(Box::new),
                };
                cache.put(ObjectKey::new(&qualified, namespace, metadata(&object, "name")), stored);
            }
        }
    }
    Ok(cache)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_fixtures::conformance::{Check, cases};
    use headroom_objects::cluster_reader::folder::{Folder, in_namespace};
    use headroom_objects::kinds::amounts_at;

    /// The status that a quota gets among some objects.
    fn counted(mut quota: Value, objects: &[Value]) -> Value {
        let objects = objects.iter().map(|object| in_namespace(object.clone(), "test"));
        count(&mut quota, &mut Folder::with(objects).unwrap()).unwrap();
        quota["status"].take()
    }

    #[test]
    fn quotas_are_counted_as_the_quota_controller_counts_them() {
        for case in cases("quota") {
            let Check::Recalculate { resource_quotas, objects, quotas } = &case.check else { continue };
            for quota in resource_quotas {
                let expected = &quotas[metadata(quota, "name")];
                let status = counted(quota.clone(), objects);
                assert_eq!(amounts_at(&status, "/hard"), amounts_at(&expected.hard, ""), "{}", case.name);
                assert_eq!(amounts_at(&status, "/used"), amounts_at(&expected.used, ""), "{}", case.name);
            }
        }
    }

    #[test]
    fn devices_of_resource_claims_are_counted_beside_those_of_pods() {
        let claim = |name: &str, count: u64| {
            let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count});
            json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
                "spec": {"devices": {"requests": [{"name": "a", "exactly": exactly}]}}})
        };
        // The scheduler makes it for a pod, which is counted with the devices already.
        let mut claim_of_pod = claim("of-pod", 3);
        claim_of_pod["metadata"]["annotations"] = json!({"resource.kubernetes.io/extended-resource-claim": "true"});
        claim_of_pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1", "controller": true}]);
        let requests = json!({"requests": {"example.com/gpu": "3"}});
        let objects = [
            json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
                "spec": {"extendedResourceName": "example.com/gpu"}}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "uid": "1"},
                "spec": {"containers": [{"name": "a", "resources": requests}]}}),
            claim("own", 2),
            claim_of_pod,
        ];
        let hard = json!({"requests.example.com/gpu": "9", "gpu.deviceclass.resource.k8s.io/devices": "9",
            "requests.deviceclass.resource.kubernetes.io/gpu": "9"});
        let quota = json!({"metadata": {"name": "q", "namespace": "test"}, "spec": {"hard": hard}});
        let used = json!({"requests.example.com/gpu": "5", "gpu.deviceclass.resource.k8s.io/devices": "5",
            "requests.deviceclass.resource.kubernetes.io/gpu": "5"});
        assert_eq!(counted(quota, &objects), json!({"hard": hard, "used": used}));
    }
}
