//! The TenantQuotas that each namespace is charged to, kept while nobody changes them: every object that is tried out needs
//! them, and a large cluster has hundreds.

use std::collections::HashMap;
use std::rc::Rc;

use headroom_core::cluster::label_selector::Labels;
use headroom_core::cluster::tenant_quota::TenantQuota;
use headroom_core::json::Malformed;
use headroom_tenant_quota::Plan;
use headroom_tenant_quota::tree::{Tree, trees};
use serde_json::Value;

use super::{ClusterReader, Overlay};
use crate::document::document;
use crate::kinds::{labels_of, metadata};

pub const TENANT_QUOTA: (&str, &str) = ("headroom.dev/v1alpha1", "TenantQuota");

/// What these plans are made of, as far as a charge does not change it.
pub(super) const PARTS: [&str; 3] = ["/spec", "/metadata/labels", "/status/exemptNamespaces"];

pub(super) struct Tenants {
    /// The quotas of each tree, with the places of their parents.
    trees: Vec<Vec<(TenantQuota<'static>, Option<usize>)>>,
    /// By namespace: of each tree, the quotas that it is charged to.
    plans: HashMap<String, Rc<[Plan]>>,
}

impl Overlay {
    /// The quotas over namespaces that one namespace is charged to, by tree.
    pub fn tenant_plans(&mut self, namespace: &str) -> Result<Rc<[Plan]>, String> {
        let mut tenants = match self.tenants.take() {
            Some(tenants) => tenants,
            None => Tenants::of(match self.list((TENANT_QUOTA.0, TENANT_QUOTA.1, None)) {
                Err(error) if error.is_unknown_kind() => Vec::new(),
                objects => objects?,
            })?,
        };
        let plans = match tenants.plans.get(namespace) {
            Some(known) => known.clone(),
            None => {
                let plans: Rc<[Plan]> = tenants.plans_of(namespace, &labels(namespace, self)?).into();
                tenants.plans.insert(namespace.to_owned(), plans.clone());
                plans
            }
        };
        self.tenants = Some(tenants);
        Ok(plans)
    }
}

impl Tenants {
    fn of(objects: Vec<Value>) -> Result<Self, String> {
        let quotas = read(&objects)?;
        let owned = |tree: Tree<'_>| tree.quotas.into_iter().map(|(quota, parent)| (quota.clone(), parent)).collect();
        Ok(Self { trees: trees(&quotas).0.into_iter().map(owned).collect(), plans: HashMap::new() })
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
pub fn labels(namespace: &str, cluster: &mut Overlay) -> Result<Labels, String> {
    let object = cluster.get(("v1", "Namespace", None), namespace)?.unwrap_or_default();
    let mut labels = labels_of(&object);
    labels.entry("kubernetes.io/metadata.name".to_owned()).or_insert_with(|| namespace.to_owned());
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::super::Folder;
    use super::*;
    use serde_json::json;

    fn tenant_quota(name: &str, parent: Option<&str>, pods: &str) -> Value {
        let selector = json!({"matchLabels": {"team": name}});
        json!({"apiVersion": TENANT_QUOTA.0, "kind": TENANT_QUOTA.1, "metadata": {"name": name},
            "spec": {"parent": parent, "namespaces": {"selector": selector}, "quota": {"hard": {"pods": pods}}}})
    }

    fn namespace(team: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": team}}})
    }

    fn cluster() -> Overlay {
        let mut bottom = Folder::default();
        let all = [
            tenant_quota("acme", None, "9"),
            tenant_quota("lab", Some("acme"), "3"),
            tenant_quota("web", Some("acme"), "5"),
        ];
        all.into_iter().chain([namespace("web")]).for_each(|object| bottom.put(object).unwrap());
        Overlay::new(Folder::default(), Some(Box::new(bottom)))
    }

    /// The bounds of pods that `shop` is charged to, by quota; and those of the quotas above them.
    fn bounds(cluster: &mut Overlay) -> Vec<String> {
        let plans = cluster.tenant_plans("shop").unwrap();
        let nodes = plans.iter().flat_map(|plan| plan.nodes_of("shop").into_iter().map(|node| &plan.nodes[node]));
        nodes.map(|node| format!("{} {}", node.quota, node.hard.get("pods").unwrap())).collect()
    }

    #[test]
    fn a_namespace_is_charged_to_its_quotas_and_those_above_only() {
        let mut cluster = cluster();
        assert_eq!(bounds(&mut cluster), ["web 5", "acme 9"]);
        assert_eq!(cluster.tenant_plans("shop").unwrap()[0].nodes.len(), 2);
        assert_eq!(cluster.tenant_plans("other").unwrap().len(), 0);
    }

    #[test]
    fn what_is_used_changes_no_plan_and_all_else_does() {
        let mut cluster = cluster();
        let mark = cluster.mark();
        bounds(&mut cluster);
        let mut used = tenant_quota("web", Some("acme"), "5");
        used["status"] = json!({"used": {"pods": "4"}});
        cluster.put(used.clone()).unwrap();
        assert!(cluster.tenants.is_some());
        used["spec"]["quota"]["hard"]["pods"] = json!("7");
        cluster.put(used.clone()).unwrap();
        assert_eq!(bounds(&mut cluster), ["web 7", "acme 9"]);
        used["status"]["exemptNamespaces"] = json!(["shop"]);
        cluster.put(used).unwrap();
        assert_eq!(bounds(&mut cluster), Vec::<String>::new());
        cluster.put(namespace("lab")).unwrap();
        assert_eq!(bounds(&mut cluster), ["lab 3", "acme 9"]);
        cluster.roll_back(mark);
        assert_eq!(bounds(&mut cluster), ["web 5", "acme 9"]);
        cluster.mark();
        cluster.put(namespace("lab")).unwrap();
        bounds(&mut cluster);
        cluster.take_back(&namespace("lab"));
        assert_eq!(bounds(&mut cluster), ["web 5", "acme 9"]);
        cluster.replace_all(TENANT_QUOTA.0, TENANT_QUOTA.1);
        assert_eq!(bounds(&mut cluster), Vec::<String>::new());
    }
}
