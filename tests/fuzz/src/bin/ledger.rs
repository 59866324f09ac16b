//! Requests, writes, deletions and counts in any order, by two replicas that see the cluster late: what is stored never
//! exceeds a quota, and a grant never takes usage and claims above it.

#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headroom_tenant_quota::cache::Stored;
use headroom_tenant_quota::plan::Lines;
use headroom_tenant_quota::state::Attempt;
use headroom_tenant_quota::{Cache, Footprint, Key, OpenLedger, Plan, ReservationRequest, State, Verdict, recount};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Unstructured::new(bytes);
    let mut world = World::new();
    while !bytes.is_empty() && world.step(&mut bytes).is_ok() {
        world.check();
    }
});

/// The pods and the cpus that the root allows, and the cpus of its child, which covers one of two namespaces.
const HARD: [(u64, u64); 2] = [(4, 5), (99, 3)];

struct World {
    plan: Plan,
    state: State,
    /// The number of the last write.
    revision: u64,
    stored: BTreeMap<Key, Pod>,
    /// What happened to each key, in order.
    events: Vec<(u64, Key, Option<Pod>)>,
    replicas: [Replica; 2],
    requests: Vec<Request>,
}

#[derive(Clone)]
struct Pod {
    uid: String,
    version: u64,
    cpu: u64,
}

/// What a replica has seen.
struct Replica {
    cache: Cache,
    seen: usize,
}

/// A request that was allowed.
struct Request {
    key: Key,
    pod: Pod,
    /// The version that it replaces.
    replaces: Option<u64>,
    token: String,
    is_over: bool,
}

fn footprint(cpu: u64) -> Arc<Footprint> {
    Arc::new(Footprint::read(&format!("pods=1 requests.cpu={cpu}")).expect("a footprint"))
}

impl World {
    fn new() -> Self {
        let nodes = ["root 1 - pods=4 requests.cpu=5", "child 1 0 requests.cpu=3"].map(str::to_owned).to_vec();
        let namespaces = ["inside 1", "beside 0"].map(str::to_owned).to_vec();
        let plan = Plan::read(1, &Lines { nodes, namespaces }).expect("a plan");
        let replica = || {
            let mut cache = Cache::default();
            cache.list("pods", 1, []);
            Replica { cache, seen: 0 }
        };
        let replicas = [replica(), replica()];
        let counted = recount(&plan, &State::default(), &replicas[0].cache, &BTreeSet::new());
        let state = counted.expect("a count").expect("a first count");
        Self { plan, state, revision: 1, stored: BTreeMap::new(), events: Vec::new(), replicas, requests: Vec::new() }
    }

    fn step(&mut self, bytes: &mut Unstructured<'_>) -> Result<()> {
        match bytes.int_in_range(0..=9)? {
            0..=2 => self.ask(bytes)?,
            3..=4 => self.end(bytes, true)?,
            5 => self.end(bytes, false)?,
            6 => {
                let key = key(bytes)?;
                if self.stored.remove(&key).is_some() {
                    self.write(key, None);
                }
            }
            7 => {
                // Something that nobody charges, such as a label.
                let key = key(bytes)?;
                if let Some(pod) = self.stored.get(&key).cloned() {
                    self.write(key, Some(pod));
                }
            }
            8 => {
                let replica = bytes.choose_index(2)?;
                let until = self.replicas[replica].seen + bytes.int_in_range(1..=4)?;
                self.see(replica, until.min(self.events.len()));
            }
            _ => self.recount(bytes.choose_index(2)?),
        }
        Ok(())
    }

    /// A review, as a replica answers it.
    fn ask(&mut self, bytes: &mut Unstructured<'_>) -> Result<()> {
        let (key, cpu) = (key(bytes)?, bytes.int_in_range(0..=3)?);
        self.revision += 1;
        let replaced = self.stored.get(&key);
        let uid = replaced.map_or_else(|| format!("uid-{}", self.revision), |pod| pod.uid.clone());
        let replaces = replaced.map(|pod| pod.version);
        let request = ReservationRequest {
            key: key.clone(),
            token: self.revision.to_string(),
            attempt: Attempt { uid: uid.clone(), version: replaces },
            footprint: footprint(cpu),
            counted: replaced.map(|pod| footprint(pod.cpu)),
            pod: None,
            may_exceed: false,
        };
        if request.grows(&self.plan) {
            let mut ledger = OpenLedger::new(&self.plan, self.state.clone()).with_max_entries(2);
            let before = ledger.usage_with_claims().to_vec();
            if ledger.reserve(&request) != Verdict::Granted {
                assert_eq!(ledger.state(), &self.state, "a refusal changes nothing");
                return Ok(());
            }
            for (node, (before, after)) in self.plan.nodes.iter().zip(before.iter().zip(ledger.usage_with_claims())) {
                for (name, hard) in node.hard.iter() {
                    let (before, after) = (before.get(name), after.get(name));
                    assert!(after <= Some(hard).max(before), "{name} of {}: {before:?} -> {after:?}", node.quota);
                }
            }
            self.state = ledger.into_state();
        }
        let pod = Pod { uid, version: 0, cpu };
        self.requests.push(Request { key, pod, replaces, token: request.token, is_over: false });
        Ok(())
    }

    /// A request is stored, if nothing else was meanwhile, or it fails; or nobody waits for it any more.
    fn end(&mut self, bytes: &mut Unstructured<'_>, is_stored: bool) -> Result<()> {
        let open: Vec<usize> = (0..self.requests.len()).filter(|at| !self.requests[*at].is_over).collect();
        if open.is_empty() {
            return Ok(());
        }
        let request = &mut self.requests[*bytes.choose(&open)?];
        request.is_over = true;
        let (key, pod, token) = (request.key.clone(), request.pod.clone(), request.token.clone());
        if is_stored && self.stored.get(&key).map(|stored| stored.version) == request.replaces {
            self.write(key, Some(pod));
        } else if bytes.arbitrary()? {
            self.state.cancel(&key, &token);
        }
        Ok(())
    }

    fn write(&mut self, key: Key, pod: Option<Pod>) {
        self.revision += 1;
        let pod = pod.map(|pod| Pod { version: self.revision, ..pod });
        if let Some(pod) = &pod {
            self.stored.insert(key.clone(), pod.clone());
        }
        self.events.push((self.revision, key, pod));
    }

    fn see(&mut self, replica: usize, until: usize) {
        let Replica { cache, seen } = &mut self.replicas[replica];
        for (revision, key, pod) in &self.events[*seen..until] {
            match pod {
                Some(Pod { uid, version, cpu }) => {
                    let stored = Stored {
                        uid: uid.clone(),
                        version: *version,
                        footprint: footprint(*cpu),
                        ends: None,
                        link: None,
                    };
                    cache.put(key.clone(), stored);
                }
                None => cache.remove(key, *revision),
            }
        }
        *seen = until;
    }

    /// A count, without the entries whose requests are over and show nothing more.
    fn recount(&mut self, replica: usize) {
        let Replica { cache, seen } = &self.replicas[replica];
        let is_settled = |key: &Key| {
            self.requests.iter().all(|request| request.key != *key || request.is_over)
                && self.events[*seen..].iter().all(|(_, changed, _)| changed != key)
        };
        let released = self.state.entries().filter(|(key, _)| is_settled(key));
        let released: BTreeSet<String> = released.map(|(_, entry)| entry.token.clone()).collect();
        if let Ok(Some(state)) = recount(&self.plan, &self.state, cache, &released) {
            assert_eq!(recount(&self.plan, &state, cache, &released), Ok(None), "a count is counted again");
            self.state = state;
        }
    }

    fn check(&self) {
        let pods = |is_covered: fn(&Key) -> bool| self.stored.iter().filter(move |(key, _)| is_covered(key));
        let nodes: [fn(&Key) -> bool; 2] = [|_| true, |key| key.namespace == "inside"];
        for ((most_pods, most_cpu), is_covered) in HARD.into_iter().zip(nodes) {
            let cpu: u64 = pods(is_covered).map(|(_, pod)| pod.cpu).sum();
            let count = pods(is_covered).count() as u64;
            assert!(cpu <= most_cpu && count <= most_pods, "{count} pods with {cpu} cpus of {most_pods}, {most_cpu}");
        }
        assert_eq!(State::read(&self.state.write()).as_ref(), Ok(&self.state), "a state that reads back otherwise");
    }
}

fn key(bytes: &mut Unstructured<'_>) -> Result<Key> {
    let (namespace, name) = (bytes.choose(&["inside", "beside"])?, bytes.choose(&["a", "b", "c"])?);
    Ok(Key::new("pods", namespace, name))
}
