//! The TenantQuotas that are charged for a namespace.

use crate::cluster::resource_quota::ResourceQuota;
use crate::cluster::tenant_quota::{TenantQuota, parent_of};
use crate::json::{Malformed, Node};
use crate::settings::selects_namespace;

/// The quotas that cover a namespace, each followed by its ancestors.
pub fn charged<'d>(
    quotas: &[TenantQuota<'d, Node<'d>>],
    name: &str,
    namespace: Option<Node<'d>>,
) -> Result<Vec<ResourceQuota<'d>>, Malformed> {
    let mut charged = Vec::new();
    let mut is_charged = vec![false; quotas.len()];
    for (place, quota) in quotas.iter().enumerate().filter(|(_, quota)| !quota.exempts(name)) {
        let is_selected = || quota.selector.map_or(Ok(false), |selector| selects_namespace(selector, namespace));
        if !quota.names_namespace(name) && !is_selected()? {
            continue;
        }
        let mut next = Some(place);
        while let Some(place) = next {
            // If this quota is charged already, so are its ancestors. This also ends a cycle.
            match (is_charged.get_mut(place), quotas.get(place)) {
                (Some(is_charged @ false), Some(quota)) => {
                    *is_charged = true;
                    charged.push(quota.quota.clone());
                }
                _ => break,
            }
            next = parent_of(quotas, place);
        }
    }
    Ok(charged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amount::ResourceList;
    use crate::json::Document;

    /// The names of the quotas that are charged for a namespace with these labels, each with its pods and its number of scopes.
    fn described(list: &str, name: &str, labels: Option<&str>) -> Vec<String> {
        let list = Document::read(list).unwrap();
        let namespace = labels.map(|labels| format!(r#"{{"metadata": {{"labels": {labels}}}}}"#));
        let namespace = namespace.as_ref().map(|namespace| Document::read(namespace).unwrap());
        let namespace = namespace.as_ref().map(Document::root);
        let quotas = charged(&TenantQuota::read_list(list.root()).unwrap(), name, namespace).unwrap();
        assert!(quotas.iter().all(|quota| quota.is_tenant));
        let described = |quota: &ResourceQuota<'_>| {
            let pods = |list: &ResourceList<'_>| list.get("pods").map_or("-".to_owned(), ToString::to_string);
            format!("{} {}/{} {}", quota.name, pods(&quota.used), pods(&quota.hard), quota.scopes.len())
        };
        quotas.iter().map(described).collect()
    }

    #[test]
    fn namespaces_that_the_ledger_never_charges_are_not_charged() {
        let list = r#"{"items": [
            {"metadata": {"name": "acme"}, "spec": {"namespaces": {"names": ["kube-system", "ledger", "shop"]}},
                "status": {"exemptNamespaces": ["kube-public", "ledger"]}},
            {"metadata": {"name": "by-parent"}, "spec": {"parent": "acme", "namespaces": {"names": ["ledger"]}}}
        ]}"#;
        assert_eq!(described(list, "shop", None), ["acme -/- 0"]);
        // Whatever a ledger has published.
        assert_eq!(described(list, "kube-system", None), [""; 0]);
        // Each quota exempts only for itself, as far as its ledger has published.
        assert_eq!(described(list, "ledger", None), ["by-parent -/- 0", "acme -/- 0"]);
    }

    #[test]
    fn quotas_that_cover_the_namespace_and_their_ancestors_are_charged() {
        let list = r#"{"items": [
            {"metadata": {"name": "acme"}, "spec": {"quota": {"hard": {"pods": "9"}}},
                "status": {"hard": {"pods": "9"}, "used": {"pods": "4"}, "reserved": {"pods": "1"}}},
            {"metadata": {"name": "by-name"}, "spec": {"parent": "acme", "namespaces": {"names": ["web", "shop"]},
                "quota": {"scopes": ["Terminating"]}}, "status": {"hard": {"pods": "3"}, "used": {"pods": "2"}}},
            {"metadata": {"name": "cycle"}, "spec": {"parent": "cycle", "namespaces": {"selector": {"matchLabels": {"c": "1"}}}}},
            {"metadata": {"name": "label"}, "spec": {"parent": "gone", "namespaces": {"selector": {
                "matchLabels": {"team": "a"}, "matchExpressions": [{"key": "old", "operator": "DoesNotExist"},
                {"key": "tier", "operator": "In", "values": ["x", "y"]}, {"key": "tier", "operator": "NotIn", "values": ["z"]},
                {"key": "team", "operator": "Exists"}]}}}},
            {"metadata": {"name": "not-old"}, "spec": {"namespaces": {"selector": {
                "matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]}}}},
            {"metadata": {"name": "other"}, "spec": {"namespaces": {"names": ["lab"]}}},
            {"metadata": {"name": "waits"}, "spec": {"parent": "acme", "namespaces": {"names": ["shop"]}}}
        ]}"#;
        let check = |labels, expected: &[&str]| assert_eq!(described(list, "shop", labels), expected);
        let not_old = "not-old -/- 0";
        check(Some("{}"), &["by-name 2/3 1", "acme 5/9 0", not_old, "waits -/- 0"]);
        let y = &["by-name 2/3 1", "acme 5/9 0", "label -/- 0", not_old, "waits -/- 0"];
        check(Some(r#"{"team": "a", "tier": "y"}"#), y);
        check(Some(r#"{"team": "a", "tier": "z"}"#), &["by-name 2/3 1", "acme 5/9 0", not_old, "waits -/- 0"]);
        check(Some(r#"{"team": "a", "tier": "y", "old": ""}"#), &["by-name 2/3 1", "acme 5/9 0", "waits -/- 0"]);
        check(Some(r#"{"c": "1"}"#), &["by-name 2/3 1", "acme 5/9 0", "cycle -/- 0", not_old, "waits -/- 0"]);
        // A namespace that could not be read is selected by its name only.
        check(None, &["by-name 2/3 1", "acme 5/9 0", "waits -/- 0"]);
    }
}
