//! The TenantQuotas that each namespace is charged to, kept while nobody changes them: every object that is tried out needs
//! them, and a large cluster has hundreds.

use std::collections::HashMap;
use std::rc::Rc;

use headroom_admission::cluster::label_selector::Labels;
use headroom_admission::cluster::tenant_quota::TenantQuota;
use headroom_admission::json::Malformed;
use headroom_quota_protocol::Plan;
use headroom_quota_protocol::tree::{Tree, trees};
use serde_json::Value;

use headroom_objects::cluster_reader::ClusterReader;
use headroom_objects::document;
use headroom_objects::kinds::{labels_of, metadata};
use headroom_workloads::kinds::served;

pub const TENANT_QUOTA: (&str, &str) = ("headroom.dev/v1alpha1", "TenantQuota");

/// The parts of TenantQuotas and Namespaces that these plans are made of. A charge changes none of them.
pub(super) const PARTS: [&str; 3] = ["/spec", "/metadata/labels", "/status/exemptNamespaces"];

pub(super) struct TenantTrees {
    /// The quotas of each tree, with the places of their parents.
    trees: Vec<Vec<(TenantQuota<'static>, Option<usize>)>>,
    /// By namespace: of each tree, the quotas that it is charged to.
    plans: HashMap<String, Rc<[Plan]>>,
}

impl TenantTrees {
    pub(super) fn read(cluster: &mut dyn ClusterReader) -> Result<Self, String> {
        let objects = served(cluster.list((TENANT_QUOTA.0, TENANT_QUOTA.1, None)))?.unwrap_or_default();
        let quotas = read(&objects)?;
        let owned = |tree: Tree<'_>| tree.quotas.into_iter().map(|(quota, parent)| (quota.clone(), parent)).collect();
        Ok(Self { trees: trees(&quotas).0.into_iter().map(owned).collect(), plans: HashMap::new() })
    }

    /// The quotas over namespaces that one namespace is charged to, by tree.
    pub(super) fn plans(&mut self, namespace: &str, cluster: &mut dyn ClusterReader) -> Result<Rc<[Plan]>, String> {
        if let Some(known) = self.plans.get(namespace) {
            return Ok(known.clone());
        }
        let plans: Rc<[Plan]> = self.plans_of(namespace, &labels(namespace, cluster)?).into();
        self.plans.insert(namespace.to_owned(), plans.clone());
        Ok(plans)
    }

    fn plans_of(&self, namespace: &str, labels: &Labels) -> Vec<Plan> {
        let covers = |quota: &TenantQuota<'_>| !quota.exempts(namespace) && quota.covers(namespace, labels);
        let plan = |quotas: &Vec<(TenantQuota<'static>, Option<usize>)>| {
            let covering: Vec<usize> =
                (0..).zip(quotas).filter(|(_, (quota, _))| covers(quota)).map(|(at, _)| at).collect();
            let tree = || Tree { quotas: quotas.iter().map(|(quota, parent)| (quota, *parent)).collect() };
            (!covering.is_empty()).then(|| Plan::of_tree(&tree(), &[]).of_one(namespace, covering))
        };
        self.trees.iter().filter_map(plan).collect()
    }
}

/// The quotas with what their status says.
pub fn read(objects: &[Value]) -> Result<Vec<TenantQuota<'static>>, String> {
    let one = |object: &Value| {
        let document = document(object)?;
        let read = || {
            let mut quota = TenantQuota::read(document.root())?;
            quota.read_status(document.root())?;
            Ok(quota.into_owned())
        };
        read().map_err(|malformed: Malformed| format!("TenantQuota {}: {malformed}", metadata(object, "name")))
    };
    objects.iter().map(one).collect()
}

/// The labels of a namespace; a namespace without an object has only its name.
pub fn labels(namespace: &str, cluster: &mut dyn ClusterReader) -> Result<Labels, String> {
    let object = cluster.get(("v1", "Namespace", None), namespace)?.unwrap_or_default();
    Ok(with_name(labels_of(&object), namespace))
}

/// The labels of a namespace with that of its name, which the API server gives to each.
pub fn with_name(mut labels: Labels, namespace: &str) -> Labels {
    labels.entry("kubernetes.io/metadata.name".to_owned()).or_insert_with(|| namespace.to_owned());
    labels
}
