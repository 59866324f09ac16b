//! Stored objects as reported by watches: uid, version and footprint by key, and the number of objects of each
//! footprint by namespace. So the cost of counting grows with the number of distinct footprints, not of objects.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use headroom_admission::amount::{Quantity, ResourceList, ResourceName};
use headroom_admission::quota::charged_names::{RESOURCE_CLAIMS, kinds_charged_under};

use crate::devices::{self, Classes, DEVICE_CLASSES, Link, PodRef};
use crate::footprint::Footprint;
use crate::plan::Plan;
use crate::state::{ClaimEntry, ObjectKey};

/// The maximum number of remembered uids of deleted objects: enough for all objects that are claimed at one time.
const MAX_DELETED: usize = 8192;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedObject {
    pub uid: String,
    pub version: u64,
    pub footprint: Arc<Footprint>,
    /// The Unix second from which it has another footprint: for a pod whose deletion is overdue.
    pub ends: Option<Box<(i64, Footprint)>>,
    /// Between a pod and its resource claim.
    pub link: Option<Box<Link>>,
}

#[derive(Debug, Clone, Default)]
pub struct Cache {
    kinds: HashMap<String, OfKind>,
    tallies: HashMap<String, Tally>,
    deletion_order: VecDeque<Arc<str>>,
    deleted: HashSet<Arc<str>>,
    /// The ends of objects that have one: few, and soon gone.
    ending: HashMap<ObjectKey, i64>,
    /// The extended resource of each listed DeviceClass.
    classes: Classes,
    /// The resource claims that say they were made for a pod, by namespace and pod: creation and name, in order.
    claims: HashMap<String, HashMap<PodRef, Vec<(String, String)>>>,
}

#[derive(Debug, Clone, Default)]
struct OfKind {
    revision: u64,
    /// By namespace and name.
    objects: HashMap<(String, String), CachedObject>,
}

/// The number of objects of a namespace by footprint; the keys are the footprints' texts.
type Tally = HashMap<String, (Arc<Footprint>, u64)>;

/// The charge of one namespace, by node.
type Charges = Vec<(usize, ResourceList<'static>)>;

/// The charge of all stored objects at each node of a plan. Every write of a ledger counts, and most follow a change in a
/// single namespace, so the charge of each is kept: a count must not take as long as a tenant has namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    used: Vec<ResourceList<'static>>,
    namespaces: HashMap<String, Charges>,
}

impl Count {
    /// The sum of the namespaces, by node.
    pub fn used(&self) -> &[ResourceList<'static>] {
        &self.used
    }

    /// Nothing is lost by adding and subtracting: amounts of objects are capped, so that their sum is exact.
    fn replace(&mut self, namespace: &str, charges: Charges) {
        for (node, charge) in self.namespaces.remove(namespace).into_iter().flatten() {
            self.change(node, &charge, Quantity::minus);
        }
        for (node, charge) in &charges {
            self.change(*node, charge, Quantity::plus);
        }
        if !charges.is_empty() {
            self.namespaces.insert(namespace.to_owned(), charges);
        }
    }

    fn change(&mut self, node: usize, charge: &ResourceList<'static>, by: fn(&Quantity, &Quantity) -> Quantity) {
        let Some(used) = self.used.get_mut(node) else { return };
        for (name, amount) in charge.iter() {
            if let Some(sum) = used.get_mut(name) {
                *sum = by(sum, amount);
            }
        }
    }
}

impl Cache {
    /// Replaces all objects of a kind by those listed at a revision.
    pub fn list(&mut self, kind: &str, revision: u64, objects: impl IntoIterator<Item = (ObjectKey, CachedObject)>) {
        let before = self.kinds.insert(kind.to_owned(), OfKind::default()).unwrap_or_default();
        for ((namespace, name), stored) in &before.objects {
            self.untally(&ObjectKey::new(kind, namespace, name), stored);
        }
        for (key, stored) in objects {
            self.put(key, stored);
        }
        self.advance(kind, revision);
        for ((namespace, name), stored) in &before.objects {
            if self.get(&ObjectKey::new(kind, namespace, name)).is_none_or(|now| now.uid != stored.uid) {
                self.remember_deleted(&stored.uid);
            }
        }
    }

    /// Drops a kind that cannot be listed.
    pub fn forget(&mut self, kind: &str) {
        self.list(kind, 0, []);
        self.kinds.remove(kind);
    }

    pub fn put(&mut self, key: ObjectKey, mut stored: CachedObject) {
        self.advance(&key.kind, stored.version);
        self.remove_object(&key, Some(&stored.uid));
        let line = stored.footprint.to_string();
        let tally = self.tallies.entry(key.namespace.clone()).or_default();
        let (footprint, count) = tally.entry(line).or_insert_with(|| (Arc::clone(&stored.footprint), 0));
        *count += 1;
        stored.footprint = Arc::clone(footprint);
        if let Some(ends) = &stored.ends {
            self.ending.insert(key.clone(), ends.0);
        }
        match stored.link.as_deref() {
            Some(Link::MadeFor { pod, created }) => {
                let claims = self.claims.entry(key.namespace.clone()).or_default().entry(pod.clone()).or_default();
                let claim = (created.clone(), key.name.clone());
                if let Err(place) = claims.binary_search(&claim) {
                    claims.insert(place, claim);
                }
            }
            Some(Link::Serves(resource)) => _ = self.classes.insert(key.name.clone(), resource.clone()),
            Some(Link::HasClaim(_)) | None => {}
        }
        let kind = self.kinds.entry(key.kind).or_default();
        kind.objects.insert((key.namespace, key.name), stored);
    }

    pub fn remove(&mut self, key: &ObjectKey, revision: u64) {
        self.remove_object(key, None);
        self.advance(&key.kind, revision);
    }

    /// Notes that nothing has changed up to a revision.
    pub fn advance(&mut self, kind: &str, revision: u64) {
        let kind = self.kinds.entry(kind.to_owned()).or_default();
        kind.revision = kind.revision.max(revision);
    }

    /// Switches objects to their later footprint where it is due. Returns whether there were any.
    pub fn tick(&mut self, now: i64) -> bool {
        let due = self.ending.iter().filter(|(_, at)| **at <= now).map(|(key, _)| key.clone());
        let due: Vec<ObjectKey> = due.collect();
        for key in &due {
            let Some(mut stored) = self.get(key).cloned() else { continue };
            if let Some(ends) = stored.ends.take() {
                stored.footprint = Arc::new(ends.1);
                self.put(key.clone(), stored);
            }
        }
        !due.is_empty()
    }

    pub fn get(&self, key: &ObjectKey) -> Option<&CachedObject> {
        // A lookup by borrowed strings would need its own key type.
        self.kinds.get(&key.kind)?.objects.get(&(key.namespace.clone(), key.name.clone()))
    }

    /// The revision up to which a kind was seen; none if it was not listed.
    pub fn revision(&self, kind: &str) -> Option<u64> {
        self.kinds.get(kind).map(|kind| kind.revision)
    }

    fn is_countable(&self, kind: &str) -> bool {
        self.kinds.contains_key(kind) && (kind != RESOURCE_CLAIMS || self.kinds.contains_key(DEVICE_CLASSES))
    }

    /// The amounts counted for a key: the charge of its object, and the share of the pod that all its entries name.
    pub fn counted_of(&self, key: &ObjectKey, entries: &[ClaimEntry]) -> Option<Arc<Footprint>> {
        let stored = self.get(key);
        let pod = entries.first().and_then(|entry| entry.pod.as_ref());
        let pod = pod.filter(|pod| entries.iter().all(|entry| entry.pod.as_ref() == Some(*pod)));
        if key.kind != RESOURCE_CLAIMS {
            return stored.map(|stored| Arc::clone(&stored.footprint));
        }
        let mut amounts = stored.map(|stored| self.amounts(&stored.footprint).into_owned()).unwrap_or_default();
        if let Some(Link::MadeFor { pod, .. }) = stored.and_then(|stored| stored.link.as_deref())
            && let Some(share) = self.share_of(key, &amounts, pod)
        {
            amounts = devices::without(&amounts, &share);
        }
        let claimed = entries.iter().flat_map(|entry| &entry.footprints).next();
        if let (Some(pod), Some(claimed)) = (pod, claimed)
            && let Some(share) = self.share_of(key, &claimed.amounts, pod)
        {
            amounts.add_all(&share);
        }
        (!amounts.is_empty()).then(|| Arc::new(Footprint { amounts, ..Footprint::default() }))
    }

    /// The amounts of an object, with the extended resources of its devices.
    fn amounts<'f>(&self, footprint: &'f Footprint) -> Cow<'f, ResourceList<'static>> {
        devices::with_extended_resources(&footprint.amounts, &self.classes)
    }

    /// The part of a claim's amounts that a pod is counted with; none if the share is not this claim's.
    fn share_of(
        &self,
        claim: &ObjectKey,
        amounts: &ResourceList<'static>,
        pod: &PodRef,
    ) -> Option<ResourceList<'static>> {
        let stored =
            self.get(&ObjectKey::new("pods", &claim.namespace, &pod.name)).filter(|stored| stored.uid == pod.uid)?;
        let is_its = match stored.link.as_deref() {
            Some(Link::HasClaim(name)) => *name == claim.name,
            _ => {
                let claims = self.claims.get(&claim.namespace).and_then(|pods| pods.get(pod));
                claims.and_then(|claims| claims.first()).is_none_or(|(_, first)| *first == claim.name)
            }
        };
        is_its.then(|| devices::share(amounts, &stored.footprint.amounts))
    }

    pub fn was_deleted(&self, uid: &str) -> bool {
        self.deleted.contains(uid)
    }

    pub fn objects(&self) -> usize {
        self.kinds.values().map(|kind| kind.objects.len()).sum()
    }

    /// The charge of all stored objects at each node of a plan. Names whose kind was not listed are omitted.
    pub fn count(&self, plan: &Plan) -> Vec<ResourceList<'static>> {
        self.count_by_namespace(plan).used
    }

    /// Like [`Self::count`], to be corrected by [`Self::count_again`].
    pub fn count_by_namespace(&self, plan: &Plan) -> Count {
        let zeros = plan.nodes.iter().map(|node| {
            let is_counted = |name: &str| {
                let mut kinds = kinds_charged_under(name).peekable();
                kinds.peek().is_some() && kinds.all(|kind| self.is_countable(kind))
            };
            ResourceList::in_order(
                node.hard.names().filter(|name| is_counted(name)).map(|name| (name.clone(), Quantity::ZERO)),
            )
        });
        let mut count = Count { used: zeros.collect(), namespaces: HashMap::new() };
        plan.namespaces.keys().for_each(|namespace| self.count_again(plan, namespace, &mut count));
        count
    }

    /// Corrects the count of the same plan by what has changed in one namespace since.
    pub fn count_again(&self, plan: &Plan, namespace: &str, count: &mut Count) {
        let nodes = plan.nodes_of(namespace);
        let mut charges: Charges = nodes.iter().map(|node| (*node, ResourceList::default())).collect();
        self.add_namespace(plan, namespace, &nodes, &mut |node, name, amount| {
            charges.iter_mut().filter(|(at, _)| *at == node).for_each(|(_, charge)| charge.add(name, amount));
        });
        charges.retain(|(_, charge)| !charge.is_empty());
        count.replace(namespace, charges);
    }

    pub fn count_namespace(&self, plan: &Plan, namespace: &str, node: usize) -> ResourceList<'static> {
        let mut used = ResourceList::default();
        self.add_namespace(plan, namespace, &[node], &mut |_, name, amount| used.add(name, amount));
        used
    }

    fn add_namespace(
        &self,
        plan: &Plan,
        namespace: &str,
        nodes: &[usize],
        add: &mut dyn FnMut(usize, &ResourceName<'static>, &Quantity),
    ) {
        for (footprint, count) in self.tallies.get(namespace).into_iter().flat_map(HashMap::values) {
            let amounts = self.amounts(footprint);
            for at in nodes {
                let Some(node) = plan.nodes.get(*at).filter(|node| footprint.matches(&node.requirements)) else {
                    continue;
                };
                for (name, _, amount) in node.hard.paired_with(&amounts) {
                    if let Some(amount) = amount {
                        add(*at, name, &amount.times_count(*count));
                    }
                }
            }
        }
        for (pod, claims) in self.claims.get(namespace).into_iter().flatten() {
            for (_, name) in claims {
                let key = ObjectKey::new(RESOURCE_CLAIMS, namespace, name);
                let Some(stored) = self.get(&key) else { continue };
                let Some(share) = self.share_of(&key, &self.amounts(&stored.footprint), pod) else { continue };
                for at in nodes {
                    // Claims match no scope.
                    let Some(node) = plan.nodes.get(*at).filter(|node| node.requirements.is_empty()) else { continue };
                    for (name, _, share) in node.hard.paired_with(&share) {
                        share.into_iter().for_each(|share| add(*at, name, &Quantity::ZERO.minus(share)));
                    }
                }
            }
        }
    }

    /// Removes an object. If `successor` has the same uid, the object only changes, so it is not remembered as deleted.
    fn remove_object(&mut self, key: &ObjectKey, successor: Option<&str>) {
        let Some(kind) = self.kinds.get_mut(&key.kind) else { return };
        let Some(stored) = kind.objects.remove(&(key.namespace.clone(), key.name.clone())) else { return };
        self.untally(key, &stored);
        if successor != Some(stored.uid.as_str()) {
            self.remember_deleted(&stored.uid);
        }
    }

    fn untally(&mut self, key: &ObjectKey, stored: &CachedObject) {
        self.ending.remove(key);
        match stored.link.as_deref() {
            Some(Link::MadeFor { pod, created }) => {
                if let Some(pods) = self.claims.get_mut(&key.namespace)
                    && let Some(claims) = pods.get_mut(pod)
                {
                    if let Ok(place) = claims.binary_search(&(created.clone(), key.name.clone())) {
                        claims.remove(place);
                    }
                    if claims.is_empty() {
                        pods.remove(pod);
                    }
                }
            }
            Some(Link::Serves(_)) => _ = self.classes.remove(&key.name),
            Some(Link::HasClaim(_)) | None => {}
        }
        let Some(tally) = self.tallies.get_mut(&key.namespace) else { return };
        let line = stored.footprint.to_string();
        if let Some((_, count)) = tally.get_mut(&line) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                tally.remove(&line);
            }
        }
        if tally.is_empty() {
            self.tallies.remove(&key.namespace);
        }
    }

    fn remember_deleted(&mut self, uid: &str) {
        let uid: Arc<str> = uid.into();
        if self.deleted.insert(Arc::clone(&uid)) {
            self.deletion_order.push_back(uid);
        }
        if self.deletion_order.len() > MAX_DELETED
            && let Some(forgotten) = self.deletion_order.pop_front()
        {
            self.deleted.remove(&forgotten);
        }
    }
}
