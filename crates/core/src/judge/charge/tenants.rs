//! TenantQuotas: bounds over several namespaces, which `kubectl headroom ledger` enforces. Here they are only read, as the
//! ledger publishes them, for what is told of pods that are to come.

use crate::amount::ResourceList;
use crate::cluster::Context;
use crate::cluster::resource_quota::ResourceQuota;
use crate::json::{Malformed, Node};
use crate::settings::selector;

/// The TenantQuotas that a namespace is charged to, each followed by those above it, as quotas of which all is used that is
/// counted or reserved. A suspended one has no bounds in its status.
pub fn of_namespace<'d>(context: &Context<'d>, namespace: &str) -> Result<Vec<ResourceQuota<'d>>, Malformed> {
    let Some(list) = context.tenant_quotas else { return Ok(Vec::new()) };
    let labels = context.namespace_labels()?;
    let mut quotas: Vec<ResourceQuota<'d>> = Vec::new();
    for item in list.list("items")? {
        let mut next = if covers(item, namespace, labels)? { Some(item) } else { None };
        while let Some(item) = next.take() {
            let Some(spec) = item.get("spec")? else { break };
            let mut quota = ResourceQuota::read_with_spec(item, spec.get("quota")?)?;
            if quotas.iter().any(|known| known.name == quota.name) {
                // With all above it; or a cycle ends here.
                break;
            }
            quota.is_tenant = true;
            if let Some(status) = item.get("status")? {
                quota.used.add_all(&ResourceList::in_field(status, "reserved")?);
            }
            quotas.push(quota);
            let Some(parent) = spec.string("parent")? else { break };
            for above in list.list("items")? {
                if let Some(name) = above.at(&["metadata", "name"])?
                    && name.str()? == parent
                {
                    next = Some(above);
                }
            }
        }
    }
    Ok(quotas)
}

fn covers(quota: Node<'_>, namespace: &str, labels: Option<Node<'_>>) -> Result<bool, Malformed> {
    let Some(namespaces) = quota.at(&["spec", "namespaces"])? else { return Ok(false) };
    for name in namespaces.list("names")? {
        if name.str()? == namespace {
            return Ok(true);
        }
    }
    namespaces.get("selector")?.map_or(Ok(false), |selector| selector::selects(selector, labels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Document;

    #[track_caller]
    fn check(labels: &str, expected: &[&str]) {
        let list = Document::read(
            r#"{"items": [
                {"metadata": {"name": "acme"}, "spec": {"quota": {"hard": {"pods": "9"}}},
                    "status": {"hard": {"pods": "9"}, "used": {"pods": "4"}, "reserved": {"pods": "1"}}},
                {"metadata": {"name": "by-name"}, "spec": {"parent": "acme", "namespaces": {"names": ["web", "shop"]},
                    "quota": {"scopes": ["Terminating"]}}, "status": {"hard": {"pods": "3"}, "used": {"pods": "2"}}},
                {"metadata": {"name": "cycle"}, "spec": {"parent": "cycle", "namespaces": {"selector": {"matchLabels": {"c": "1"}}}}},
                {"metadata": {"name": "label"}, "spec": {"parent": "gone", "namespaces": {"selector": {
                    "matchLabels": {"team": "a"}, "matchExpressions": [{"key": "old", "operator": "DoesNotExist"},
                    {"key": "tier", "operator": "In", "values": ["x", "y"]}, {"key": "tier", "operator": "NotIn", "values": ["z"]},
                    {"key": "team", "operator": "Exists"}]}}}},
                {"metadata": {"name": "other"}, "spec": {"namespaces": {"names": ["lab"]}}},
                {"metadata": {"name": "waits"}, "spec": {"parent": "acme", "namespaces": {"names": ["shop"]}}}
            ]}"#,
        );
        let list = list.unwrap();
        let namespace = format!(r#"{{"metadata": {{"labels": {labels}}}}}"#);
        let namespace = Document::read(&namespace).unwrap();
        let context =
            Context { tenant_quotas: Some(list.root()), namespace: Some(namespace.root()), ..Context::default() };
        let quotas = of_namespace(&context, "shop").unwrap();
        let told = |quota: &ResourceQuota<'_>| {
            let pods =
                |list: &crate::amount::ResourceList<'_>| list.get("pods").map_or("-".to_owned(), ToString::to_string);
            format!("{} {}/{} {}", quota.name, pods(&quota.used), pods(&quota.hard), quota.scopes.len())
        };
        assert_eq!(quotas.iter().map(told).collect::<Vec<_>>(), expected);
        assert!(quotas.iter().all(|quota| quota.is_tenant));
    }

    #[test]
    fn a_namespace_is_charged_to_what_covers_it_and_to_all_above() {
        check("{}", &["by-name 2/3 1", "acme 5/9 0", "waits -/- 0"]);
        check(r#"{"team": "a", "tier": "y"}"#, &["by-name 2/3 1", "acme 5/9 0", "label -/- 0", "waits -/- 0"]);
        check(r#"{"team": "a", "tier": "z"}"#, &["by-name 2/3 1", "acme 5/9 0", "waits -/- 0"]);
        check(r#"{"team": "a", "tier": "y", "old": ""}"#, &["by-name 2/3 1", "acme 5/9 0", "waits -/- 0"]);
        check(r#"{"c": "1"}"#, &["by-name 2/3 1", "acme 5/9 0", "cycle -/- 0", "waits -/- 0"]);
    }
}
