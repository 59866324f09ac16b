//! Plans: made by the leader whenever quotas or namespaces change, and written before they are in force.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use headroom_ledger::settle;
use headroom_ledger::tree::{Tree, trees};
use headroom_ledger::{Cache, Plan, State};
use tokio::time::Instant;

use super::Replica;
use super::api::{Failure, revision_of};
use super::count::Counted;
use super::event::{self, Kind};
use super::objects;
use super::tenants::by_namespace;

/// Changes that come together make one plan.
const GATHER: Duration = Duration::from_millis(30);
/// Looked through again, though nothing seems to have changed: kinds that were not served, plans that failed.
const AGAIN: Duration = Duration::from_secs(10);
/// Somebody may still judge by an old plan for so long.
const KEPT: Duration = Duration::from_secs(600);
/// A plan may be as large as this, a fifth of what the API server stores.
const MOST_BYTES: usize = 256 * 1024;

pub async fn plan(replica: Arc<Replica>) {
    let (mut tenants, mut board) = (replica.tenants.changes(), replica.board.changes());
    let mut ledgers: Vec<(String, u64)> = Vec::new();
    let mut replaced: Vec<(Instant, String, u64)> = Vec::new();
    loop {
        tenants.mark_unchanged();
        board.mark_unchanged();
        if replica.tenants.is_listed() && replica.board.is_listed() {
            revise(&replica).await;
            remove_stale(&replica, &mut replaced).await;
            ledgers = in_force(&replica);
        }
        let deadline = Instant::now() + AGAIN;
        loop {
            tokio::select! {
                _ = tenants.changed() => break,
                // Claims come and go all the time; a ledger that is gone or broken is another matter.
                _ = board.changed() => if in_force(&replica) != ledgers || !replica.board.broken().is_empty() { break },
                () = tokio::time::sleep_until(deadline) => break,
            }
        }
        tokio::time::sleep(GATHER).await;
    }
}

fn in_force(replica: &Replica) -> Vec<(String, u64)> {
    replica.board.views().into_iter().map(|view| (view.ledger, view.plan.number)).collect()
}

/// Brings every ledger to the plan that it should have.
async fn revise(replica: &Arc<Replica>) {
    let (quotas, _) = replica.tenants.quotas();
    let namespaces = replica.tenants.namespaces();
    let (trees, _) = trees(&quotas);
    let mut plans: Vec<(String, Plan)> =
        trees.iter().map(|tree: &Tree<'_>| (tree.name().to_owned(), Plan::of_tree(tree, &namespaces))).collect();
    if replica.plain.is_ours() {
        let quotas = by_namespace(&replica.tenants.resource_quotas());
        plans.extend(quotas.iter().map(|(namespace, quotas)| {
            (objects::ledger_of_namespace(namespace), Plan::of_namespace(namespace, quotas))
        }));
    }
    let kinds: BTreeSet<String> = plans.iter().flat_map(|(_, plan)| plan.kinds()).collect();
    replica.counter.follow(&replica.api, &kinds).await;
    let broken = replica.board.broken();
    for (ledger, mut plan) in plans.iter().cloned() {
        let view = replica.board.view(&ledger);
        if view.as_ref().is_some_and(|view| view.plan.is_same_as(&plan)) && !broken.contains_key(&ledger) {
            continue;
        }
        plan.number = replica.board.last_plan(&ledger) + 1;
        let number = plan.number;
        if let Err(failure) = put_in_force(replica, &ledger, plan, view.is_some(), broken.contains_key(&ledger)).await {
            tracing::warn!(ledger, number, %failure, "a plan is not in force yet");
        } else {
            tracing::info!(ledger, number, "a plan is in force");
        }
    }
    for view in replica.board.views() {
        if !plans.iter().any(|(ledger, _)| *ledger == view.ledger) {
            tracing::info!(ledger = view.ledger, "a ledger is deleted: it has no quota any more");
            let path = format!("{}/{}", objects::ledgers(&replica.options.namespace), view.ledger);
            if let Err(failure) = replica.api.delete(&path).await {
                tracing::warn!(ledger = view.ledger, %failure, "cannot delete a ledger");
            }
        }
    }
}

async fn put_in_force(
    replica: &Arc<Replica>,
    ledger: &str,
    plan: Plan,
    is_there: bool,
    is_broken: bool,
) -> Result<(), Failure> {
    let namespace = &replica.options.namespace;
    let path = objects::ledgers(namespace);
    let object = objects::write_plan(namespace, ledger, &plan);
    let size = object.to_string().len();
    if size > MOST_BYTES {
        return Err(Failure::Other(format!("it has {size} bytes, more than {MOST_BYTES}: split the tree of quotas")));
    }
    replica.api.create(&path, &object).await?;
    let plan = Arc::new(plan);
    replica.board.add_plan(ledger, Arc::clone(&plan));
    if is_there && !is_broken {
        return match replica.writers.replan(ledger, plan).await {
            true => Ok(()),
            false => Err(Failure::Other("the ledger could not be written".to_owned())),
        };
    }
    let begin = State { plan: plan.number, ..State::default() };
    let Some(Counted { state, .. }) = replica.counter.settle(ledger, &plan, &begin) else {
        return Err(Failure::Other("not everything is counted yet".to_owned()));
    };
    let path_of_one = format!("{path}/{ledger}");
    let written = if is_broken {
        // What was edited is lost: its claims are no protection any more, and everything is counted anew.
        let revision = revision_of(&replica.api.get(&path_of_one).await?);
        let written =
            replica.api.replace(&path_of_one, &objects::write_state(namespace, ledger, &state, revision)).await?;
        if let Some(quota) = replica.tenants.objects().get(ledger) {
            let told = "the ledger was edited: it was counted anew, and what unfinished requests held is lost";
            let about = (objects::API_VERSION, "TenantQuota", quota);
            event::tell(replica, about, Kind::Warning, "LedgerRebuilt", told).await;
        }
        written
    } else {
        replica.api.create(&path, &objects::write_state(namespace, ledger, &state, None)).await?
    };
    if let Some(revision) = revision_of(&written) {
        replica.board.add_state(ledger, revision, state);
    }
    Ok(())
}

/// Deletes plans that were replaced a while ago.
async fn remove_stale(replica: &Replica, replaced: &mut Vec<(Instant, String, u64)>) {
    let stale = replica.board.stale_plans();
    for (ledger, number) in &stale {
        if !replaced.iter().any(|(_, of, known)| of == ledger && known == number) {
            replaced.push((Instant::now(), ledger.clone(), *number));
        }
    }
    replaced.retain(|(_, ledger, number)| stale.iter().any(|(of, known)| of == ledger && known == number));
    for (_, ledger, number) in replaced.iter().filter(|(since, ..)| since.elapsed() > KEPT) {
        let name = objects::plan_name(ledger, *number);
        let path = format!("{}/{name}", objects::ledgers(&replica.options.namespace));
        if let Err(failure) = replica.api.delete(&path).await {
            tracing::debug!(name, %failure, "cannot delete a plan");
        }
    }
}

/// What a ledger would hold if it were counted from scratch.
pub fn recount(plan: &Plan, cache: &Cache) -> Option<State> {
    let begin = State { plan: plan.number, ..State::default() };
    settle(plan, &begin, cache, &BTreeSet::new()).ok().flatten()
}
