//! The leader's count: every charged kind is watched, and objects are reduced to keys, versions and shapes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headroom_admission::amount::{Quantity, ResourceList};
use headroom_admission::json::Node;
use headroom_admission::quota::charged_names::RESOURCE_CLAIMS;
use headroom_admission::timestamp::Timestamp;
use headroom_api_server::parts::{Parts, locked};
use headroom_quota_protocol::cache::{Cache, CachedObject};
use headroom_quota_protocol::devices::{DEVICE_CLASSES, Link};
use headroom_quota_protocol::state::ObjectKey;
use headroom_quota_protocol::{Count, Footprint, Plan, State, recount};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::ledger_cache::View;
use headroom_api_server::ApiPath;
use headroom_api_server::api_client::{ApiClient, ApiError, ListOptions, revision_in, text_at};
use headroom_api_server::watch::{OLD, WatchUpdate, follow};

/// The names of watches that only count objects begin with it.
pub const COUNTED: &str = "counted ";

/// Counts stored objects while this replica is the leader.
#[derive(Debug, Default)]
pub struct Counter {
    inner: Mutex<CounterState>,
    /// Notified when an object changed or an entry was released.
    pub news: Notify,
    parts: Parts,
}

#[derive(Debug, Default)]
struct CounterState {
    is_leading: bool,
    cache: Cache,
    kinds: BTreeMap<String, OfKind>,
    /// The number of changes seen in all terms. Shows which changes are later than a count.
    turn: u64,
    changes: Changes,
    /// The turn of the last change that may affect all namespaces.
    all_changed: u64,
    /// The turn at which the leader last asked for changes.
    asked: Option<u64>,
    /// For each ledger: the turn of its last count, and its revision then.
    settled: BTreeMap<String, (u64, u64)>,
    /// By ledger.
    counts: BTreeMap<String, PlanCount>,
    released: BTreeSet<String>,
    /// By ledger: revisions of a count that was not made in this cluster.
    elsewhere: BTreeMap<String, BTreeMap<String, u64>>,
}

/// The turn of the last change in each namespace.
#[derive(Debug, Default)]
struct Changes {
    last: BTreeMap<String, u64>,
    by_turn: BTreeMap<u64, String>,
}

impl Changes {
    fn note(&mut self, namespace: &str, turn: u64) {
        if let Some(before) = self.last.insert(namespace.to_owned(), turn) {
            self.by_turn.remove(&before);
        }
        self.by_turn.insert(turn, namespace.to_owned());
    }

    fn since(&self, turn: u64) -> impl Iterator<Item = &str> {
        self.by_turn.range(turn + 1..).map(|(_, namespace)| namespace.as_str())
    }
}

/// A count by a plan, and the turn up to which it has seen changes.
#[derive(Debug)]
struct PlanCount {
    plan: Arc<Plan>,
    count: Count,
    turn: u64,
}

#[derive(Debug)]
struct OfKind {
    /// The end of its watch, and the path of its objects, for live reads; none if it cannot be watched.
    watch: Option<(DropGuard, Collection)>,
    /// The reason why it is not counted.
    problem: Option<String>,
}

/// The time that a kind may take to be listed before plans are made without it.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_millis(200);

/// Where the API server has the objects of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collection {
    /// `/api/v1` or `/apis/apps/v1`
    pub version: ApiPath,
    pub plural: String,
}

impl Collection {
    pub fn all(&self) -> ApiPath {
        self.version.collection(None, &self.plural)
    }

    pub fn object(&self, key: &ObjectKey) -> ApiPath {
        self.version.collection(Some(&key.namespace), &self.plural).at(&key.name)
    }

    /// Finds the version in which a kind such as `pods` or `deployments.apps` is served.
    pub async fn find(api: &ApiClient, kind: &str) -> Result<Self, Unfound> {
        let unfound = |failure: ApiError| Unfound {
            is_lasting: failure.is_lasting(),
            is_served: !matches!(failure, ApiError::NotFound(_)),
            problem: format!("{kind}: {failure}"),
        };
        let never =
            |problem: &str| Unfound { is_lasting: true, is_served: true, problem: format!("{kind}: {problem}") };
        let (plural, group) = kind.split_once('.').unwrap_or((kind, ""));
        let version = if group.is_empty() {
            ApiPath::of_version("v1")
        } else {
            let group = api.get(&ApiPath::new("/apis").at(group)).await.map_err(unfound)?;
            let preferred = group.pointer("/preferredVersion/groupVersion").and_then(Value::as_str);
            ApiPath::of_version(preferred.ok_or_else(|| never("no version is served"))?)
        };
        let served = api.get(&version).await.map_err(unfound)?;
        let resources = served.get("resources").and_then(Value::as_array);
        let is_it = |resource: &&Value| resource.get("name").is_some_and(|name| name == plural);
        match resources.and_then(|resources| resources.iter().find(is_it)) {
            Some(resource) if resource.get("namespaced") == Some(&Value::Bool(true)) || kind == DEVICE_CLASSES => {
                Ok(Self { version, plural: plural.to_owned() })
            }
            Some(_) => Err(never("not namespaced")),
            None => Err(Unfound { is_served: false, ..never("no such kind is served") }),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfound {
    /// True if a retry would fail too.
    is_lasting: bool,
    /// False if the API server does not know the kind, so that there are no objects.
    is_served: bool,
    pub problem: String,
}

impl Unfound {
    /// Returns true if there are no objects, and quotas on devices hold all the same: before Kubernetes 1.34 devices are
    /// charged for pods alone.
    pub fn is_optional(&self, kind: &str) -> bool {
        !self.is_served && matches!(kind, RESOURCE_CLAIMS | DEVICE_CLASSES)
    }
}

impl Counter {
    pub fn new(parts: Parts) -> Self {
        Self { parts, ..Self::default() }
    }

    pub fn lead(&self) {
        locked(&self.inner).is_leading = true;
    }

    /// Forgets everything: the next leader counts from scratch.
    pub fn resign(&self) {
        let mut inner = locked(&self.inner);
        // A write in progress may still be reported, and must not look newer than what the next term sees.
        *inner = CounterState { turn: inner.turn, ..CounterState::default() };
    }

    /// Watches exactly these kinds, and waits until each was listed or cannot be.
    pub async fn follow(self: &Arc<Self>, api: &ApiClient, kinds: &BTreeSet<String>) {
        let missing: Vec<String> = {
            let mut inner = locked(&self.inner);
            let gone: Vec<String> = inner.kinds.keys().filter(|kind| !kinds.contains(*kind)).cloned().collect();
            for kind in gone {
                inner.kinds.remove(&kind);
                inner.cache.forget(&kind);
                inner.change_all();
            }
            let is_watched = |kind: &String| inner.kinds.get(kind).is_some_and(|of_kind| of_kind.watch.is_some());
            kinds.iter().filter(|kind| !is_watched(kind)).cloned().collect()
        };
        let deadline = Instant::now() + LIST_TIMEOUT;
        for kind in missing {
            // Waited for once: quotas on other kinds need plans too, and may be of other tenants.
            let was_waited_for = locked(&self.inner).kinds.contains_key(&kind);
            while let Err(Unfound { is_lasting, problem, .. }) = self.begin(api, &kind).await {
                if is_lasting || was_waited_for || Instant::now() >= deadline {
                    tracing::warn!(problem, "cannot count a kind");
                    locked(&self.inner).kinds.insert(kind, OfKind { watch: None, problem: Some(problem) });
                    break;
                }
                tokio::time::sleep(RETRY).await;
            }
        }
        let has_all = || {
            let inner = locked(&self.inner);
            kinds.iter().all(|kind| inner.is_known(kind))
        };
        while Instant::now() < deadline && !has_all() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn begin(self: &Arc<Self>, api: &ApiClient, kind: &str) -> Result<(), Unfound> {
        let collection = match Collection::find(api, kind).await {
            Ok(collection) => collection,
            Err(unfound) if unfound.is_optional(kind) => {
                let mut inner = locked(&self.inner);
                if inner.is_leading && inner.cache.revision(kind).is_none() {
                    inner.cache.list(kind, 0, []);
                    inner.change_all();
                }
                return Ok(());
            }
            Err(unfound) => return Err(unfound),
        };
        let stop = CancellationToken::new();
        let path = collection.all();
        {
            let mut inner = locked(&self.inner);
            if !inner.is_leading {
                return Ok(());
            }
            inner.cache.forget(kind);
            inner.change_all();
            let watch = Some((stop.clone().drop_guard(), collection));
            inner.kinds.insert(kind.to_owned(), OfKind { watch, problem: None });
        }
        let (counter, of, ended) = (Arc::clone(self), kind.to_owned(), stop.clone());
        let read_of = kind.to_owned();
        let read = move |object: Node<'_>| stored(&read_of, object);
        let watch = follow(api.clone(), path, ListOptions::WHOLE, stop.clone(), read, move |seen| {
            // Events after the end of the term are ignored.
            if !ended.is_cancelled() {
                counter.take(&of, seen);
            }
        });
        self.parts.run(format!("watch of {COUNTED}{kind}"), OLD, &stop, watch);
        Ok(())
    }

    fn take(&self, kind: &str, seen: WatchUpdate<(ObjectKey, CachedObject)>) {
        let mut inner = locked(&self.inner);
        if !inner.is_leading {
            return;
        }
        match seen {
            WatchUpdate::Listed(revision, objects) => {
                inner.cache.list(kind, revision, objects);
                inner.change_all();
                if let Some(of_kind) = inner.kinds.get_mut(kind) {
                    of_kind.problem = None;
                }
            }
            WatchUpdate::Stored((key, stored)) => {
                inner.change(&key);
                inner.cache.put(key, stored);
            }
            WatchUpdate::Deleted((key, stored)) => {
                inner.change(&key);
                inner.cache.remove(&key, stored.version);
            }
            WatchUpdate::UpTo(revision) => inner.cache.advance(kind, revision),
            WatchUpdate::Lost(problem) => {
                inner.cache.forget(kind);
                inner.change_all();
                if let Some(of_kind) = inner.kinds.get_mut(kind) {
                    of_kind.problem = Some(problem);
                }
            }
        }
        drop(inner);
        self.news.notify_one();
    }

    /// The state recounted now, with the turn to call [`Self::has_settled`] with once it is written; none if this replica does not
    /// count, or has seen too little.
    pub fn settle(&self, ledger: &str, plan: &Arc<Plan>, state: &State) -> Option<(State, u64)> {
        let mut inner = locked(&self.inner);
        if !inner.is_leading || !plan.watched_kinds().iter().all(|kind| inner.is_known(kind)) {
            return None;
        }
        let mut state = state.clone();
        if inner.elsewhere.get(ledger) == Some(&state.counted_at) {
            // Not forgotten: whoever has seen less must not count it.
            for (kind, at) in &mut state.counted_at {
                *at = inner.cache.revision(kind).unwrap_or_default();
            }
        }
        let made = inner.count(ledger, plan);
        let settled = recount(plan, &state, &inner.cache, &made.count, &inner.released);
        inner.counts.insert(ledger.to_owned(), made);
        match settled {
            Ok(settled) => Some((settled.unwrap_or(state), inner.turn)),
            Err(behind) => {
                tracing::debug!(ledger, %behind, "not settled");
                None
            }
        }
    }

    /// Notes that a ledger's count was stored at this revision.
    pub fn has_settled(&self, ledger: &str, turn: u64, revision: u64) {
        locked(&self.inner).settled.insert(ledger.to_owned(), (turn, revision));
    }

    /// The namespaces with changes since the last call; none if all may have changed.
    pub fn take_changed(&self, now: i64) -> Option<BTreeSet<String>> {
        let mut inner = locked(&self.inner);
        if inner.cache.tick(now) {
            inner.change_all();
        }
        let now = inner.turn;
        let since = inner.asked.replace(now).filter(|since| *since >= inner.all_changed)?;
        Some(inner.changes.since(since).map(str::to_owned).collect())
    }

    /// Returns true if a ledger is to be counted. It stays due until its last count was written.
    pub fn is_due(&self, view: &View) -> bool {
        let inner = locked(&self.inner);
        // A ledger with claims is always due. Another revision was written by another replica, or by hand.
        let Some((turn, _)) = inner.settled.get(&view.ledger).filter(|(_, revision)| *revision == view.revision) else {
            return true;
        };
        !view.state.claims.is_empty() || inner.all_changed > *turn || inner.changed(&view.plan, *turn).next().is_some()
    }

    /// Forgets released entries that are no longer in a ledger, and the counts of ledgers that are gone.
    pub fn retain(&self, has_entry: impl Fn(&String) -> bool, has_ledger: impl Fn(&str) -> bool) {
        let mut inner = locked(&self.inner);
        inner.released.retain(has_entry);
        inner.settled.retain(|ledger, _| has_ledger(ledger));
        inner.counts.retain(|ledger, _| has_ledger(ledger));
        inner.elsewhere.retain(|ledger, _| has_ledger(ledger));
    }

    /// The uid and version of an object in the watch's cache; none if its kind is not counted.
    pub fn look(&self, key: &ObjectKey) -> Option<(Collection, Option<(String, u64)>)> {
        let inner = locked(&self.inner);
        inner.cache.revision(&key.kind)?;
        let (_, collection) = inner.kinds.get(&key.kind)?.watch.as_ref()?;
        Some((collection.clone(), inner.cache.get(key).map(|stored| (stored.uid.clone(), stored.version))))
    }

    pub fn has_seen(&self, kind: &str, revision: u64) -> bool {
        locked(&self.inner).cache.revision(kind).is_some_and(|seen| seen >= revision)
    }

    /// The objects of a kind that was listed, but not up to a revision.
    pub fn behind(&self, kind: &str, revision: u64) -> Option<Collection> {
        let inner = locked(&self.inner);
        inner.cache.revision(kind).filter(|seen| *seen < revision)?;
        Some(inner.kinds.get(kind)?.watch.as_ref()?.1.clone())
    }

    /// Counts a ledger without regard to these revisions, as long as it has them: this cluster has not reached them.
    pub fn disregard(&self, ledger: &str, counted_at: &BTreeMap<String, u64>) {
        locked(&self.inner).elsewhere.insert(ledger.to_owned(), counted_at.clone());
    }

    pub fn release(&self, token: String) {
        locked(&self.inner).released.insert(token);
        self.news.notify_one();
    }

    /// Kinds that cannot be counted, with the reason.
    pub fn lost(&self, kinds: &BTreeSet<String>) -> BTreeMap<String, String> {
        let inner = locked(&self.inner);
        let lost = |kind: &String| Some((kind.clone(), inner.kinds.get(kind)?.problem.clone()?));
        kinds.iter().filter_map(lost).collect()
    }

    /// The charge of each namespace at a node.
    pub fn namespaces(&self, plan: &Plan, node: usize) -> Vec<(String, ResourceList<'static>)> {
        let inner = locked(&self.inner);
        let direct = plan.namespaces.iter().filter(|(_, nodes)| nodes.contains(&node));
        direct.map(|(name, _)| (name.clone(), inner.cache.count_namespace(plan, name, node))).collect()
    }

    pub fn objects(&self) -> usize {
        locked(&self.inner).cache.objects()
    }
}

impl CounterState {
    fn change(&mut self, key: &ObjectKey) {
        // A device class may change the count of every namespace.
        if key.namespace.is_empty() {
            return self.change_all();
        }
        self.turn += 1;
        self.changes.note(&key.namespace, self.turn);
    }

    fn change_all(&mut self) {
        self.turn += 1;
        self.all_changed = self.turn;
        self.changes = Changes::default();
    }

    /// The count of a ledger up to now: the last one, corrected in the namespaces with changes since.
    fn count(&mut self, ledger: &str, plan: &Arc<Plan>) -> PlanCount {
        let all_changed = self.all_changed;
        let is_current = |made: &PlanCount| Arc::ptr_eq(&made.plan, plan) && made.turn >= all_changed;
        let count = match self.counts.remove(ledger).filter(is_current) {
            Some(PlanCount { mut count, turn, .. }) => {
                self.changed(plan, turn).for_each(|namespace| self.cache.count_again(plan, namespace, &mut count));
                count
            }
            None => self.cache.count_by_namespace(plan),
        };
        PlanCount { plan: Arc::clone(plan), count, turn: self.turn }
    }

    /// The namespaces of a plan with changes since a turn. Looks at those of the plan or at the changes, whichever are fewer:
    /// a quota may cover thousands of namespaces, and there may be thousands of quotas.
    fn changed<'s>(&'s self, plan: &'s Plan, since: u64) -> Box<dyn Iterator<Item = &'s str> + 's> {
        let are_few = self.turn.saturating_sub(since) < plan.namespaces.len() as u64;
        if are_few {
            return Box::new(self.changes.since(since).filter(|namespace| plan.namespaces.contains_key(*namespace)));
        }
        let has_changed = move |namespace: &&str| self.changes.last.get(*namespace).is_some_and(|at| *at > since);
        Box::new(plan.namespaces.keys().map(String::as_str).filter(has_changed))
    }

    /// Returns true if a kind was listed, or is known not to be listable.
    fn is_known(&self, kind: &str) -> bool {
        self.cache.revision(kind).is_some() || self.kinds.get(kind).is_some_and(|kind| kind.problem.is_some())
    }
}

/// The cached part of an object. One that cannot be read is logged, and counts as one object of its kind.
pub fn stored(kind: &str, object: Node<'_>) -> Option<(ObjectKey, CachedObject)> {
    let metadata = |field| text_at(object, &["metadata", field]).unwrap_or_default();
    let key = ObjectKey::new(kind, &metadata("namespace"), &metadata("name"));
    let footprint = Footprint::of_stored(kind, object, None).unwrap_or_else(|malformed| {
        tracing::error!(%key, %malformed, "an object cannot be read");
        let amounts = ResourceList::sum([(format!("count/{kind}").into(), Quantity::from_units(1))]);
        Footprint { amounts, ..Footprint::default() }
    });
    let ends = ends_at(object).and_then(|at| {
        let later = Timestamp::from_unix_seconds(at.saturating_add(1))?;
        let ended = Footprint::of_stored(kind, object, Some(later)).ok()?;
        // Five seconds later, because clocks differ.
        (ended != footprint).then(|| Box::new((at.saturating_add(5), ended)))
    });
    // Without the relation, a claim is counted in full.
    let link = Link::read(kind, object).ok().flatten().map(Box::new);
    let (uid, version) = (metadata("uid").into_owned(), revision_in(object)?);
    Some((key, CachedObject { uid, version, footprint: Arc::new(footprint), ends, link }))
}

/// The Unix second after which a terminating pod is overdue.
fn ends_at(object: Node<'_>) -> Option<i64> {
    let deletion: Timestamp = text_at(object, &["metadata", "deletionTimestamp"])?.parse().ok()?;
    let grace = object.at(&["metadata", "deletionGracePeriodSeconds"]).ok()??.integer().ok()?;
    Some(deletion.unix_seconds().saturating_add(grace))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Pods up to revision 10, and a ledger of the namespace `shop` and two more that was counted at revision 20.
    fn counter() -> (Counter, View) {
        let counter = Counter::default();
        counter.lead();
        counter.take("pods", WatchUpdate::Listed(10, Vec::new()));
        let plan = Plan::read(1, &["team 1 - pods=5"], &["shop 0", "web 0", "pay 0"]).unwrap();
        let state = State { counted_at: BTreeMap::from([("pods".to_owned(), 20)]), ..State::default() };
        (counter, View { ledger: "team".to_owned(), revision: 1, plan: Arc::new(plan), state: Arc::new(state) })
    }

    #[test]
    fn an_object_with_amounts_that_nobody_counts_is_one_beside_others() {
        let of = |memory: &str, field: &str| {
            let containers = json!([{"name": "app", "resources": {field: {"memory": memory}}}]);
            let pod = json!({"metadata": {"namespace": "shop", "name": "web", "resourceVersion": "1"}, "spec": {"containers": containers}});
            let document = headroom_objects::document(&pod).unwrap();
            stored("pods", document.root()).map(|(key, stored)| (key.name, stored.footprint.amounts.names().count()))
        };
        assert!(of("1Gi", "requests").is_some_and(|(_, names)| names > 1));
        for (odd, field) in [("1e30", "limits"), ("1e30", "requests"), ("-1e30", "limits"), ("many", "requests")] {
            assert_eq!(of(odd, field), Some(("web".to_owned(), 1)), "{odd}");
        }
    }

    fn pod(namespace: &str, name: &str, version: u64, cpu: u64) -> (ObjectKey, CachedObject) {
        let footprint = Arc::new(Footprint::read(&format!("pods=1 requests.cpu={cpu}")).unwrap());
        let stored = CachedObject { uid: name.to_owned(), version, footprint, ends: None, link: None };
        (ObjectKey::new("pods", namespace, name), stored)
    }

    fn store(counter: &Counter, namespace: &str, version: u64) {
        counter.take("pods", WatchUpdate::Stored(pod(namespace, &format!("pod-{version}"), version, 1)));
    }

    fn settle(counter: &Counter, view: &View) -> Option<(State, u64)> {
        counter.settle("team", &view.plan, &view.state)
    }

    #[test]
    fn a_ledger_stays_due_until_enough_was_seen_and_its_count_written() {
        let (counter, view) = counter();
        assert!(settle(&counter, &view).is_none() && counter.is_due(&view));
        counter.take("pods", WatchUpdate::UpTo(30));
        assert!(counter.is_due(&view));
        let (_, turn) = settle(&counter, &view).unwrap();
        // The count may not have been written.
        assert!(counter.is_due(&view));
        counter.has_settled("team", turn, 1);
        assert!(!counter.is_due(&view));
    }

    #[test]
    fn the_leader_looks_only_at_namespaces_with_changes() {
        let (counter, _) = counter();
        assert_eq!(counter.take_changed(0), None, "everything is new");
        store(&counter, "shop", 31);
        store(&counter, "elsewhere", 32);
        let changed = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(counter.take_changed(0), changed(&["elsewhere", "shop"]));
        assert_eq!(counter.take_changed(0), changed(&[]));
        store(&counter, "shop", 33);
        counter.take("pods", WatchUpdate::Lost("gone".to_owned()));
        assert_eq!(counter.take_changed(0), None);
    }

    #[test]
    fn changes_during_the_write_of_a_count_are_counted_again() {
        let (counter, view) = counter();
        store(&counter, "shop", 31);
        let (_, turn) = settle(&counter, &view).unwrap();
        store(&counter, "shop", 32);
        counter.has_settled("team", turn, 1);
        assert!(counter.is_due(&view));
        counter.has_settled("team", settle(&counter, &view).unwrap().1, 1);
        store(&counter, "elsewhere", 33);
        assert!(!counter.is_due(&view));
        // Another replica wrote it.
        assert!(counter.is_due(&View { revision: 2, ..view }));
    }

    #[test]
    fn a_count_that_is_corrected_is_the_same_as_a_new_one() {
        let (counter, view) = counter();
        let check = |expected: &str| {
            let counted = settle(&counter, &view).unwrap().0.used;
            assert_eq!(counted[0].get("pods").unwrap().to_string(), expected);
            assert_eq!(counted, locked(&counter.inner).cache.count(&view.plan));
        };
        for (seen, expected) in [
            (WatchUpdate::Stored(pod("shop", "a", 31, 1)), "1"),
            (WatchUpdate::Stored(pod("shop", "b", 32, 1)), "2"),
            (WatchUpdate::Stored(pod("elsewhere", "c", 33, 1)), "2"),
            (WatchUpdate::Stored(pod("shop", "a", 34, 2)), "2"),
            (WatchUpdate::Deleted(pod("shop", "a", 35, 2)), "1"),
            (WatchUpdate::Deleted(pod("shop", "b", 36, 1)), "0"),
            (WatchUpdate::Listed(40, vec![pod("shop", "d", 38, 1), pod("shop", "e", 39, 1)]), "2"),
            (WatchUpdate::Stored(pod("shop", "f", 41, 1)), "3"),
        ] {
            counter.take("pods", seen);
            check(expected);
        }
        // More changes than the plan has namespaces.
        for (version, namespace) in (42..).zip(["web", "pay", "elsewhere", "web", "shop"]) {
            store(&counter, namespace, version);
        }
        check("7");
    }

    #[test]
    fn a_write_of_an_earlier_term_settles_nothing_in_the_next() {
        let (counter, view) = counter();
        store(&counter, "shop", 31);
        let (_, turn) = settle(&counter, &view).unwrap();
        counter.resign();
        counter.lead();
        counter.has_settled("team", turn, 1);
        counter.take("pods", WatchUpdate::Listed(40, Vec::new()));
        assert!(counter.is_due(&view));
    }
}
