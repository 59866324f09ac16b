//! The leader's work: plan, settle, release, report. The Lease only avoids double work; safety does not depend on it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use headroom_core::amount::{Quantity, ResourceList};
use headroom_kube::metric_registry::set;
use headroom_tenant_quota::ledger::OpenLedger;
use headroom_tenant_quota::state::Key;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::api::{Api, Failure, revision_of};
use super::{Replica, planner, status};
use crate::ledger_cache::View;
use crate::{resource_quota_enforcer, webhook_config};

/// How long a Lease stays taken after its holder was killed.
const LEASE: Duration = Duration::from_secs(15);
const RENEWAL: Duration = Duration::from_secs(4);
/// The pause between a change and settling, because more changes usually follow at once.
const GATHER: Duration = Duration::from_millis(20);
const SECOND: Duration = Duration::from_secs(1);
/// With this many claims, a ledger is settled without waiting for a second.
const MANY_CLAIMS: usize = 32;
/// Live reads per second, to find the outcome of claims.
const LIVE_READS: usize = 20;

/// Leads whenever the Lease is free, until the replica stops.
pub async fn lead(replica: Arc<Replica>) {
    let lease = Lease {
        api: replica.api.clone(),
        namespace: replica.options.namespace.clone(),
        holder: replica.identity.clone(),
        clock: replica.options.clock,
    };
    let mut seen: Option<(Value, Instant)> = None;
    loop {
        match lease.take(&mut seen).await {
            Ok(true) => {
                tracing::info!("leading");
                replica.counter.lead();
                replica.metrics.leads.set(1);
                let term = replica.stop.child_token();
                let work =
                    tokio::spawn(term.clone().run_until_cancelled_owned(work(Arc::clone(&replica), term.clone())));
                lease.keep(&replica.stop).await;
                term.cancel();
                _ = work.await;
                replica.counter.resign();
                replica.metrics.leads.set(0);
                replica.metrics.set_quotas(Vec::new());
                tracing::info!("no longer leading");
                if replica.stop.is_cancelled() {
                    lease.give_back().await;
                    return;
                }
            }
            Ok(false) => {}
            Err(failure) => tracing::warn!(%failure, "cannot read or write the Lease"),
        }
        tokio::select! {
            () = replica.stop.cancelled() => return,
            () = tokio::time::sleep(SECOND) => {}
        }
    }
}

struct Lease {
    api: Api,
    namespace: String,
    holder: String,
    clock: fn() -> i64,
}

impl Lease {
    fn path(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace)
    }

    fn object(&self, holder: &str, version: Option<&Value>) -> Value {
        let now = Timestamp::from_second((self.clock)()).unwrap_or_default();
        let now = now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "headroom-ledger", "namespace": self.namespace, "resourceVersion": version},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": LEASE.as_secs(), "renewTime": now},
        })
    }

    /// Takes the Lease if it is free, ours, or was not renewed for its duration by our own clock.
    async fn take(&self, seen: &mut Option<(Value, Instant)>) -> Result<bool, Failure> {
        let there = match self.api.get(&format!("{}/headroom-ledger", self.path())).await {
            Ok(there) => there,
            Err(Failure::NotFound) => {
                let created = self.api.create(&self.path(), &self.object(&self.holder, None)).await;
                return created.map(|_| true);
            }
            Err(failure) => return Err(failure),
        };
        let version = there.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
        let holder = there.pointer("/spec/holderIdentity").and_then(Value::as_str).unwrap_or_default();
        let is_free = holder.is_empty() || holder == self.holder;
        let is_abandoned = match seen {
            Some((known, since)) if *known == version => since.elapsed() > LEASE,
            _ => {
                *seen = Some((version.clone(), Instant::now()));
                false
            }
        };
        if !is_free && !is_abandoned {
            return Ok(false);
        }
        match self.replace(&self.holder, &version).await {
            Ok(_) => Ok(true),
            Err(Failure::Conflict) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    async fn replace(&self, holder: &str, version: &Value) -> Result<Value, Failure> {
        let object = self.object(holder, Some(version));
        self.api.replace(&format!("{}/headroom-ledger", self.path()), &object).await
    }

    /// Renews until that fails for too long, another replica leads, or the term ends.
    async fn keep(&self, stop: &CancellationToken) {
        let mut renewed = Instant::now();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(RENEWAL) => {}
            }
            match self.take(&mut None).await {
                Ok(true) => renewed = Instant::now(),
                Ok(false) => return,
                Err(failure) => {
                    tracing::warn!(%failure, "cannot renew the Lease");
                    if renewed.elapsed() > LEASE - RENEWAL {
                        return;
                    }
                }
            }
        }
    }

    /// Frees the Lease, so that another replica leads at once.
    async fn give_back(&self) {
        let there = self.api.get(&format!("{}/headroom-ledger", self.path())).await.unwrap_or_default();
        if there.pointer("/spec/holderIdentity").and_then(Value::as_str) == Some(&self.holder) {
            let version = there.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
            if let Err(failure) = self.replace("", &version).await {
                tracing::debug!(%failure, "cannot free the Lease");
            }
        }
    }
}

async fn work(replica: Arc<Replica>, term: CancellationToken) {
    let parts = [
        tokio::spawn(term.clone().run_until_cancelled_owned(planner::plan(Arc::clone(&replica)))),
        tokio::spawn(term.clone().run_until_cancelled_owned(settle(Arc::clone(&replica)))),
        tokio::spawn(term.clone().run_until_cancelled_owned(release(Arc::clone(&replica)))),
        tokio::spawn(term.clone().run_until_cancelled_owned(status::report(Arc::clone(&replica)))),
        tokio::spawn(term.clone().run_until_cancelled_owned(resource_quota_enforcer::keep(Arc::clone(&replica)))),
        tokio::spawn(term.run_until_cancelled_owned(webhook_config::configure(replica))),
    ];
    for part in parts {
        _ = part.await;
    }
}

/// Settles ledgers that are due: at once if urgent, otherwise once a second.
async fn settle(replica: Arc<Replica>) {
    let mut changes = replica.board.changes();
    let mut tried: HashMap<String, Instant> = HashMap::new();
    loop {
        tokio::select! {
            () = replica.counter.news.notified() => {}
            _ = changes.changed() => {}
            () = tokio::time::sleep(SECOND) => {}
        }
        tokio::time::sleep(GATHER).await;
        changes.mark_unchanged();
        let views = replica.board.views();
        let due = replica.counter.due(&views, (replica.options.clock)());
        let now = Instant::now();
        tried.retain(|_, at| now.duration_since(*at) < SECOND);
        for view in views.iter().filter(|view| due.contains(&view.ledger)) {
            if !tried.contains_key(&view.ledger) || is_urgent(view) {
                tried.insert(view.ledger.clone(), now);
                replica.writers.settle(&view.ledger);
            }
        }
    }
}

/// Whether requests may be refused because claims are not settled, or many claims are open.
fn is_urgent(view: &View) -> bool {
    if view.state.claims.len() >= MANY_CLAIMS {
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
    loop {
        tokio::time::sleep(SECOND).await;
        let views = replica.board.views();
        let entries: HashMap<String, Key> = views
            .iter()
            .flat_map(|view| view.state.entries().map(|(key, entry)| (entry.token.clone(), key.clone())))
            .collect();
        let now = Instant::now();
        // Age is measured by this replica's own clock, from when it first saw the entry.
        first_seen.retain(|token, _| entries.contains_key(token));
        entries.keys().for_each(|token| _ = first_seen.entry(token.clone()).or_insert(now));
        replica.counter.retain_released(|token| entries.contains_key(token));
        set(&replica.metrics.claims, entries.len() as u64);
        let oldest = first_seen.values().map(|seen| now.duration_since(*seen)).max().unwrap_or_default();
        set(&replica.metrics.claim_age_seconds, oldest.as_secs());
        set(&replica.metrics.objects, replica.counter.objects() as u64);

        let is_over = |token: &String| {
            first_seen.get(token).is_some_and(|seen| now.duration_since(*seen) > replica.options.request_lifetime)
        };
        for (token, key) in entries.into_iter().filter(|(token, _)| is_over(token)).take(LIVE_READS) {
            if is_as_counted(&replica, &key).await {
                tracing::info!(%key, "releasing the claim of a request that failed");
                replica.metrics.released.inc();
                replica.counter.release(token);
            }
        }
    }
}

/// Whether a live read of a key matches the count.
async fn is_as_counted(replica: &Replica, key: &Key) -> bool {
    let Some((collection, _)) = replica.counter.look(key) else { return false };
    let live = match replica.api.get(&collection.object(key)).await {
        Ok(object) => {
            let uid = headroom_dryrun::kinds::metadata(&object, "uid").to_owned();
            let Some(version) = revision_of(&object) else { return false };
            Some((uid, version))
        }
        Err(Failure::NotFound) => None,
        Err(failure) => {
            tracing::debug!(%key, %failure, "cannot read an object");
            return false;
        }
    };
    // Compare with the count as it is now: it may have seen more meanwhile, never less.
    replica.counter.look(key).is_some_and(|(_, counted)| counted == live)
}

/// Usage, and what claims hold beyond it, by node.
pub fn used_and_reserved(view: &View) -> Vec<(ResourceList<'static>, ResourceList<'static>)> {
    let open = OpenLedger::new(&view.plan, view.state.as_ref().clone());
    let pairs = open.usage_with_claims().iter().zip(&view.state.used);
    pairs
        .map(|(held, used)| {
            let reserved = held
                .paired_with(used)
                .map(|(name, held, used)| (name.clone(), used.map_or(Quantity::ZERO, |used| held.minus(used))));
            (used.clone(), reserved.filter(|(_, amount)| amount.is_positive()).collect())
        })
        .collect()
}
