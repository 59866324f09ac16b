//! Plans: the leader makes one whenever quotas or namespaces change, and writes it before it becomes active.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use headroom_quota_protocol::tree::trees;
use headroom_quota_protocol::{Plan, State, placement};
use tokio::time::Instant;

use crate::ledger_cache::View;
use crate::objects;
use crate::replica::Replica;
use headroom_api_server::api_client::{ApiError, revision_of};
use headroom_api_server::event::EventType;
use headroom_api_server::parts::locked;

/// Changes within this time are put into one plan.
const DEBOUNCE: Duration = Duration::from_millis(30);
/// The interval of checks without a change, for kinds that were not served.
const AGAIN: Duration = Duration::from_secs(10);
/// The pause after a plan failed, which doubles up to [`AGAIN`].
const RETRY: Duration = Duration::from_millis(100);
/// The time for which a replaced plan is kept, because replicas may still use it.
const KEPT: Duration = Duration::from_secs(600);
/// The time, beyond the lifetime of a request, for which a tree is still charged in the ledger that it leaves: a replica may learn late that it has
/// another.
const LATE: Duration = Duration::from_secs(10);

pub async fn plan(replica: Arc<Replica>) {
    let (mut tenants, mut ledgers) = (replica.tenants.changes.subscribe(), replica.ledgers.plan_changes.subscribe());
    let mut replaced: HashMap<(String, u64), Instant> = HashMap::new();
    let mut settled = Settled::default();
    let mut pause = RETRY;
    loop {
        tenants.mark_unchanged();
        ledgers.mark_unchanged();
        let mut deadline = Instant::now() + AGAIN;
        if replica.tenants.is_listed() && replica.ledgers.is_listed() {
            find_counted_elsewhere(&replica).await;
            let is_done = revise(&replica, &mut settled).await;
            remove_stale(&replica, &mut replaced).await;
            pause = if is_done { RETRY } else { AGAIN.min(2 * pause) };
            deadline = Instant::now() + if is_done { AGAIN } else { pause };
        }
        tokio::select! {
            _ = tenants.changed() => {}
            _ = ledgers.changed() => {}
            () = tokio::time::sleep_until(deadline) => {}
        }
        tokio::time::sleep(DEBOUNCE).await;
    }
}

/// Finds ledgers whose count is ahead of the cluster, such as those from the backup of another one: no replica has seen as much.
/// A list is never behind a count that was read before.
async fn find_counted_elsewhere(replica: &Replica) {
    let views = replica.ledgers.views();
    let counted = views.iter().flat_map(|view| &view.state.counted_at);
    let behind = counted.filter_map(|(kind, at)| Some((kind, replica.counter.behind(kind, *at)?)));
    for (kind, collection) in behind.collect::<BTreeMap<_, _>>() {
        let Ok(newest) = replica.api.revision(&collection.all()).await else { continue };
        for View { ledger, state, .. } in &views {
            if let Some(counted) = state.counted_at.get(kind).filter(|counted| **counted > newest) {
                tracing::warn!(ledger, kind, counted, newest, "the count is of another cluster, and made again");
                replica.counter.disregard(ledger, &state.counted_at);
            }
        }
    }
}

/// Since when ledgers have charged quotas, by ledger and quota: as this leader has seen.
#[derive(Default)]
struct Settled(HashMap<(String, String), Instant>);

impl Settled {
    fn see(&mut self, views: &[View]) {
        let now = Instant::now();
        let charged = views.iter().flat_map(|View { ledger, plan, .. }| {
            plan.nodes.iter().map(move |node| (ledger.clone(), node.quota.clone()))
        });
        let since = |quota: &(String, String)| self.0.get(quota).copied().unwrap_or(now);
        self.0 = charged.map(|quota| (quota.clone(), since(&quota))).collect();
    }

    /// Returns true if a ledger has charged all quotas of a tree for longer than this.
    fn has_charged(&self, ledger: &str, tree: &Plan, period: Duration) -> bool {
        tree.nodes.iter().all(|node| {
            let since = self.0.get(&(ledger.to_owned(), node.quota.clone()));
            since.is_some_and(|since| since.elapsed() > period)
        })
    }
}

/// Gives every ledger the plan that it should have. False if one does not have it yet.
async fn revise(replica: &Arc<Replica>, settled: &mut Settled) -> bool {
    let mut is_done = true;
    let quotas = replica.tenants.quotas();
    let namespaces = replica.tenants.namespaces();
    let views = replica.ledgers.views();
    settled.see(&views);
    let trees: Vec<Plan> = trees(&quotas).0.iter().map(|tree| Plan::of_tree(tree, &namespaces)).collect();
    let of_trees = views.iter().filter(|view| objects::namespace_of(&view.ledger).is_none());
    let present: BTreeMap<&str, &Plan> = of_trees.map(|view| (view.ledger.as_str(), view.plan.as_ref())).collect();
    let (trees, too_large) = placement::fitting(trees, &present);
    *locked(&replica.too_large) = too_large;
    let period = replica.options.request_lifetime + LATE;
    let mut plans = placement::plans(&trees, &present, &|ledger, tree| settled.has_charged(ledger, tree, period));
    plans.extend(replica.plans_of_resource_quotas());
    let kinds: BTreeSet<String> = plans.values().flat_map(Plan::watched_kinds).collect();
    replica.counter.follow(&replica.api, &kinds).await;
    let broken = replica.ledgers.broken();
    let unneeded: Vec<View> = views.into_iter().filter(|view| !plans.contains_key(&view.ledger)).collect();
    for (ledger, mut plan) in plans {
        let view = replica.ledgers.view(&ledger);
        if view.as_ref().is_some_and(|view| view.plan.is_same_as(&plan)) && !broken.contains_key(&ledger) {
            continue;
        }
        plan.number = replica.ledgers.last_plan(&ledger) + 1;
        let number = plan.number;
        if let Err(failure) = activate(replica, &ledger, plan, view.is_some(), broken.contains_key(&ledger)).await {
            tracing::warn!(ledger, number, %failure, "a plan is not active yet");
            is_done = false;
        } else {
            tracing::info!(ledger, number, "a plan is active");
        }
    }
    for View { ledger, .. } in unneeded {
        tracing::info!(ledger, "deleting a ledger that has no quotas");
        let path = objects::ledgers(&replica.options.namespace).at(&ledger);
        if let Err(failure) = replica.api.delete(&path).await {
            tracing::warn!(ledger, %failure, "cannot delete a ledger");
            is_done = false;
        }
    }
    is_done
}

async fn activate(
    replica: &Arc<Replica>,
    ledger: &str,
    plan: Plan,
    is_there: bool,
    is_broken: bool,
) -> Result<(), ApiError> {
    let namespace = &replica.options.namespace;
    let path = objects::ledgers(namespace);
    let object = objects::write_plan(namespace, ledger, &plan);
    let (begin, plan) = (State { plan: plan.number, ..State::default() }, Arc::new(plan));
    let is_replaced = is_there && !is_broken;
    let uncounted = || ApiError::Other("not everything is counted yet".to_owned());
    // Each attempt would leave a plan behind.
    if !is_replaced && replica.counter.settle(ledger, &plan, &begin).is_none() {
        return Err(uncounted());
    }
    replica.api.create(&path, &object).await?;
    replica.ledgers.add_plan(ledger, Arc::clone(&plan));
    if is_replaced {
        return match replica.writers.replan(ledger, plan).await {
            true => Ok(()),
            false => Err(ApiError::Other("the ledger could not be written".to_owned())),
        };
    }
    let (state, _) = replica.counter.settle(ledger, &plan, &begin).ok_or_else(uncounted)?;
    let over = if is_broken { revision_of(&replica.api.get(&path.at(ledger)).await?) } else { None };
    replica.ledgers.write(ledger, state, over).await?;
    if is_broken {
        // The edited content is lost: its claims no longer reserve room, and everything is recounted.
        for quota in plan.names_of_roots().filter_map(|root| replica.tenants.known_quota(root)) {
            let message =
                "the ledger was edited: usage was recounted, and reservations of unfinished requests are lost";
            let about = (objects::API_VERSION, "TenantQuota", quota.object.as_ref());
            replica.events.record(about, EventType::Warning, "LedgerRebuilt", message).await;
        }
    }
    Ok(())
}

async fn remove_stale(replica: &Replica, replaced: &mut HashMap<(String, u64), Instant>) {
    let stale = replica.ledgers.stale_plans();
    replaced.retain(|plan, _| stale.contains(plan));
    for plan in stale {
        replaced.entry(plan).or_insert_with(Instant::now);
    }
    for ((ledger, number), _) in replaced.iter().filter(|(_, since)| since.elapsed() > KEPT) {
        let name = objects::plan_name(ledger, *number);
        let path = objects::ledgers(&replica.options.namespace).at(&name);
        if let Err(failure) = replica.api.delete(&path).await {
            tracing::debug!(name, %failure, "cannot delete a plan");
        }
    }
}
