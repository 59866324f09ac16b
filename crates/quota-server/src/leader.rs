//! The leader's work: plan, settle, release, report. The Lease only avoids double work; safety does not depend on it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headroom_api_server::api_client::{ApiError, revision_of};
use headroom_api_server::lease::{Holder, Lease, Observation, Timing, Turn};
use headroom_api_server::metric_registry::set;
use headroom_api_server::outage;
use headroom_api_server::parts::{BRIEF, locked};
use headroom_quota_protocol::ledger::OpenLedger;
use headroom_quota_protocol::spare::USABLE;
use headroom_quota_protocol::state::ObjectKey;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::ledger_cache::View;
use crate::replica::Replica;
use crate::{planner, resource_quota_enforcer, status, webhook_config};

/// The Lease of a killed leader expires after `duration`.
const LEASE: Timing =
    Timing { duration: Duration::from_secs(15), renewal: Duration::from_secs(4), observation: Duration::from_secs(1) };
/// The pause between a change and settling, because more changes usually follow at once.
const DEBOUNCE: Duration = Duration::from_millis(20);
const SECOND: Duration = Duration::from_secs(1);
/// With this many claims, a ledger is settled without waiting for a second.
const MANY_CLAIMS: usize = 32;
const UNKNOWN: &str = "cannot read or write the Lease";
/// Live reads per second, to find the outcome of claims.
const LIVE_READS: usize = 20;

/// Leads whenever the Lease is free, until the replica stops.
pub async fn lead(replica: Arc<Replica>) {
    let name = replica.identity.clone();
    let lease = Lease {
        api: replica.api.clone(),
        namespace: replica.options.namespace.clone(),
        name: "headroom-ledger",
        holder: Holder { suffix: name.clone(), name, is_dead_after: None },
        timing: LEASE,
        clock: replica.options.clock,
        renewed: Mutex::default(),
    };
    let mut observation = Observation::default();
    loop {
        match lease.try_take(&mut observation).await {
            Ok(Turn::Ours) => {
                outage::answered(UNKNOWN);
                tracing::info!("leading");
                replica.counter.lead();
                replica.metrics.leads.set(1);
                let term = replica.stop.child_token();
                let work = work(&replica, &term);
                tokio::select! {
                    () = lease.renew_until(&replica.stop) => {}
                    () = lease.expired() => {}
                }
                term.cancel();
                for part in work {
                    _ = part.await;
                }
                replica.counter.resign();
                *locked(&replica.are_resource_quotas_ours) = None;
                *locked(&replica.unconfigured) = None;
                replica.metrics.resign();
                tracing::info!("no longer leading");
                if replica.stop.is_cancelled() {
                    lease.release().await;
                    return;
                }
            }
            Ok(Turn::Theirs { .. }) => outage::answered(UNKNOWN),
            Err(failure) => outage::failed(UNKNOWN, &failure),
        }
        tokio::select! {
            () = replica.stop.cancelled() => return,
            () = tokio::time::sleep(SECOND) => {}
        }
    }
}

fn work(replica: &Arc<Replica>, term: &CancellationToken) -> Vec<JoinHandle<()>> {
    let own = || Arc::clone(replica);
    let mut work = vec![
        part(replica, term, "planner", planner::plan(own())),
        part(replica, term, "settling", settle(own())),
        part(replica, term, "releasing", release(own())),
        part(replica, term, "status of quotas", status::report(own())),
        part(replica, term, "webhook configuration", webhook_config::configure(own())),
    ];
    if replica.options.resource_quotas {
        work.push(part(replica, term, "ResourceQuotas", resource_quota_enforcer::keep(own())));
    }
    work
}

fn part(
    replica: &Replica,
    term: &CancellationToken,
    name: &'static str,
    work: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    let within = term.clone().run_until_cancelled_owned(work);
    replica.parts.run(name, BRIEF, term, async { _ = within.await })
}

/// Settles ledgers that are due: at once if urgent, otherwise once a second. Between seconds only those are looked at that
/// something happened to: there may be as many ledgers as namespaces.
async fn settle(replica: Arc<Replica>) {
    let mut changes = replica.ledgers.changes.subscribe();
    let mut tried: HashMap<String, Instant> = HashMap::new();
    let mut next_of_all = Instant::now();
    loop {
        tokio::select! {
            () = replica.counter.news.notified() => {}
            _ = changes.changed() => {}
            () = tokio::time::sleep(SECOND) => {}
        }
        tokio::time::sleep(DEBOUNCE).await;
        changes.mark_unchanged();
        let now = Instant::now();
        let changed = replica.counter.take_changed(replica.now().await);
        let mut ledgers = replica.ledgers.take_touched(changed.as_ref().unwrap_or(&BTreeSet::new()));
        ledgers.extend(tried.extract_if(|_, at| now.duration_since(*at) >= SECOND).map(|(ledger, _)| ledger));
        let views: Vec<View> = if changed.is_none() || now >= next_of_all {
            next_of_all = now + SECOND;
            replica.ledgers.views()
        } else {
            ledgers.iter().filter_map(|ledger| replica.ledgers.view(ledger)).collect()
        };
        for view in views.iter().filter(|view| replica.counter.is_due(view)) {
            if !tried.contains_key(&view.ledger) || is_urgent(view) {
                tried.insert(view.ledger.clone(), now);
                replica.writers.settle(&view.ledger);
            }
        }
    }
}

/// Returns true if requests may be refused because claims are not settled, or many claims are open.
fn is_urgent(view: &View) -> bool {
    if view.state.claims.keys().filter(|key| !key.is_spare()).count() >= MANY_CLAIMS {
        return true;
    }
    let open = OpenLedger::new(&view.plan, view.state.as_ref().clone());
    view.plan.nodes.iter().zip(open.usage_with_claims()).any(|(node, held)| {
        node.hard.paired_with(held).any(|(_, hard, held)| held.is_some_and(|held| held.scaled(10, 9) >= *hard))
    })
}

/// Releases claims of requests that are over, if everything they stored is counted.
async fn release(replica: Arc<Replica>) {
    let mut first_seen: HashMap<String, Instant> = HashMap::new();
    // By token of a spare.
    let mut until: HashMap<String, Option<u64>> = HashMap::new();
    loop {
        tokio::time::sleep(SECOND).await;
        let views = replica.ledgers.views();
        let ledgers: HashSet<&str> = views.iter().map(|view| view.ledger.as_str()).collect();
        let entries: HashMap<String, ObjectKey> = views
            .iter()
            .flat_map(|view| view.state.entries().map(|(key, entry)| (entry.token.clone(), key.clone())))
            .collect();
        let now = Instant::now();
        // Age is measured by this replica's own clock, from when it first saw the entry.
        first_seen.retain(|token, _| entries.contains_key(token));
        entries.keys().for_each(|token| _ = first_seen.entry(token.clone()).or_insert(now));
        replica.counter.retain(|token| entries.contains_key(token), |ledger| ledgers.contains(ledger));
        set(&replica.metrics.claims, entries.len() as u64);
        let oldest = first_seen.values().map(|seen| now.duration_since(*seen)).max().unwrap_or_default();
        set(&replica.metrics.claim_age_seconds, oldest.as_secs());
        set(&replica.metrics.objects, replica.counter.objects() as u64);

        let is_over = |token: &String, key: &ObjectKey| {
            // A spare may have been taken when it was so old already.
            let lifetime = replica.options.request_lifetime + if key.is_spare() { USABLE } else { Duration::ZERO };
            first_seen.get(token).is_some_and(|seen| now.duration_since(*seen) > lifetime)
        };
        until.retain(|token, _| entries.contains_key(token));
        for (token, key) in entries.into_iter().filter(|(token, key)| is_over(token, key)).take(LIVE_READS) {
            let is_counted = match key.is_spare() {
                true => is_counted_until(&replica, &key, until.entry(token.clone()).or_default()).await,
                false => is_as_counted(&replica, &key).await,
            };
            if is_counted {
                tracing::info!(%key, "releasing the claim of a request that failed");
                replica.metrics.released.inc();
                replica.counter.release(token);
            }
        }
    }
}

/// Returns true if a live read of a key matches the count.
async fn is_as_counted(replica: &Replica, key: &ObjectKey) -> bool {
    let Some((collection, _)) = replica.counter.look(key) else { return false };
    let live = match replica.api.get(&collection.object(key)).await {
        Ok(object) => {
            let uid = headroom_objects::kinds::metadata(&object, "uid").to_owned();
            let Some(version) = revision_of(&object) else { return false };
            Some((uid, version))
        }
        Err(ApiError::NotFound(_)) => None,
        Err(failure) => {
            tracing::debug!(%key, %failure, "cannot read an object");
            return false;
        }
    };
    // Compare with the count as it is now: it may have seen more meanwhile, never less.
    replica.counter.look(key).is_some_and(|(_, counted)| counted == live)
}

/// Returns true if everything is counted that was stored until a spare was over. Nobody knows the keys of the creates that took
/// it, so the first call notes the revision of its kind, and the count must have come so far.
async fn is_counted_until(replica: &Replica, spare: &ObjectKey, until: &mut Option<u64>) -> bool {
    let Some((collection, _)) = replica.counter.look(spare) else { return false };
    if until.is_none() {
        match replica.api.revision(&collection.all()).await {
            Ok(revision) => *until = Some(revision),
            Err(failure) => tracing::debug!(%spare, %failure, "cannot read a revision"),
        }
    }
    until.is_some_and(|until| replica.counter.has_seen(&spare.kind, until))
}
