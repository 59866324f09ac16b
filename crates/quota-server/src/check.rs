//! Checks whether ledgers are correct: their plans against quotas and namespaces, their usage against live lists.

use std::collections::{BTreeMap, BTreeSet};

use headroom_admission::amount::Quantity;
use headroom_quota_protocol::tree::trees;
use headroom_quota_protocol::{Cache, Plan, placement};

use crate::ledger_cache::{LedgerCache, View};
use crate::object_counter::{Collection, stored};
use crate::objects::{NAMESPACES, RESOURCE_QUOTAS, TENANT_QUOTAS, ledgers, namespace_of, read_named};
use crate::tenants::{Kind, Tenants};
use headroom_api_server::ApiPath;
use headroom_api_server::api_client::{ApiClient, ApiError, ListOptions, value};
use headroom_api_server::watch::WatchUpdate;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct LedgerCheck {
    pub ledgers: usize,
    pub claims: usize,
    /// Bounds whose usage differs from the count: ledger, quota, name, used, counted.
    pub differences: Vec<[String; 5]>,
    pub problems: Vec<String>,
}

impl LedgerCheck {
    pub fn is_true(&self) -> bool {
        self.differences.is_empty() && self.problems.is_empty()
    }
}

/// Reads and counts everything. An error is a message about what could not be read.
pub async fn check(api: &ApiClient, namespace: &str, exempt: &[String]) -> Result<LedgerCheck, String> {
    let unlisted = |path: &ApiPath, failure| match failure {
        ApiError::NotFound(_) => {
            "no ledger in this cluster: the Helm chart installs it with `ledger.enabled`".to_owned()
        }
        failure => format!("cannot list {path}: {failure}"),
    };
    let list = async |path: &ApiPath| {
        let listed = api.list(path, ListOptions::WHOLE, value).await.map_err(|failure| unlisted(path, failure))?;
        Ok::<WatchUpdate, String>(WatchUpdate::Listed(listed.0, listed.1))
    };
    let cache = LedgerCache::new(api.clone(), namespace);
    let path = ledgers(namespace);
    let listed = api.list(&path, ListOptions::WHOLE, read_named).await.map_err(|failure| unlisted(&path, failure))?;
    cache.take(WatchUpdate::Listed(listed.0, listed.1));
    let tenants = Tenants::new(namespace, exempt);
    tenants.take(Kind::TenantQuota, list(&TENANT_QUOTAS).await?);
    tenants.take(Kind::Namespace, list(&NAMESPACES).await?);
    let mut report = LedgerCheck::default();
    for (ledger, problem) in cache.broken() {
        report.problems.push(format!("ledger {ledger} cannot be read: {problem}"));
    }
    let quotas = tenants.quotas();
    for (name, known) in tenants.known_quotas() {
        report.problems.extend(known.quota.err().map(|problem| format!("tenant quota {name}: {problem}")));
    }
    for quota in &quotas {
        let problems = quota.problems().into_iter().map(|problem| format!("tenant quota {}: {problem}", quota.name()));
        report.problems.extend(problems);
    }
    let (trees, parents) = trees(&quotas);
    report.problems.extend(parents.iter().map(|(name, problem)| format!("tenant quota {name}: {}", problem.message)));
    let views = cache.views();
    let namespaces = tenants.namespaces();
    let trees: Vec<Plan> = trees.iter().map(|tree| Plan::of_tree(tree, &namespaces)).collect();
    let of_trees: Vec<&View> = views.iter().filter(|view| namespace_of(&view.ledger).is_none()).collect();
    let present: BTreeMap<&str, &Plan> = of_trees.iter().map(|view| (view.ledger.as_str(), &*view.plan)).collect();
    let (trees, too_large) = placement::fitting(trees, &present);
    report.problems.extend(too_large.iter().map(|(name, problem)| format!("tenant quota {name}: {problem}")));
    for tree in &trees {
        let root = tree.names_of_roots().next().unwrap_or_default();
        if !of_trees.iter().any(|view| view.plan.names_of_roots().any(|charged| charged == root)) {
            report.problems.push(format!("tenant quota {root}: no ledger charges it"));
        }
    }
    for View { ledger, plan, .. } in of_trees {
        let charged: BTreeSet<&str> = plan.nodes.iter().map(|node| node.quota.as_str()).collect();
        let is_charged = |tree: &&Plan| tree.nodes.iter().any(|node| charged.contains(node.quota.as_str()));
        if !plan.is_same_as(&Plan::joined(trees.iter().filter(is_charged))) {
            report.problems.push(format!("ledger {ledger}: its plan does not match the quotas"));
        }
    }
    let plain: Vec<(&View, &str)> = views.iter().filter_map(|view| Some((view, namespace_of(&view.ledger)?))).collect();
    if !plain.is_empty() {
        tenants.take(Kind::ResourceQuota, list(&RESOURCE_QUOTAS).await?);
        let quotas = tenants.resource_quotas();
        for (view, namespace) in plain {
            let quotas = quotas.get(namespace).map(Vec::as_slice).unwrap_or_default();
            if !view.plan.is_same_as(&Plan::of_namespace(namespace, quotas)) {
                report.problems.push(format!("ledger {}: its plan does not match the quotas", view.ledger));
            }
        }
    }
    let kinds: BTreeSet<String> = views.iter().flat_map(|view| view.plan.watched_kinds()).collect();
    let mut cache = Cache::default();
    for kind in &kinds {
        match Collection::find(api, kind).await {
            Ok(collection) => {
                let listed = api.list(&collection.all(), ListOptions::WHOLE, |object| stored(kind, object)).await;
                let (revision, objects) = listed.map_err(|failure| format!("cannot list {kind}: {failure}"))?;
                cache.list(kind, revision, objects);
            }
            Err(unfound) if unfound.is_optional(kind) => cache.list(kind, 0, []),
            Err(unfound) => report.problems.push(unfound.problem),
        }
    }
    for view in &views {
        report.ledgers += 1;
        report.claims += view.state.claims.len();
        report.differences.extend(differences(view, &cache));
    }
    Ok(report)
}

fn differences(view: &View, cache: &Cache) -> Vec<[String; 5]> {
    let mut differences = Vec::new();
    for ((node, used), counted) in view.plan.nodes.iter().zip(&view.state.used).zip(&cache.count(&view.plan)) {
        let names: BTreeSet<&str> = used.names().chain(counted.names()).map(AsRef::as_ref).collect();
        for name in names {
            let (used, counted) = (used.get(name), counted.get(name));
            if used != counted {
                let text = |amount: Option<&Quantity>| amount.map_or("unknown".to_owned(), ToString::to_string);
                differences.push([view.ledger.clone(), node.quota.clone(), name.to_owned(), text(used), text(counted)]);
            }
        }
    }
    differences
}
