//! A pass over the cluster: each namespace is read once, and a workload about which something is to be done gets a round, which
//! reads its pods again. So a quiet cluster costs a few lists for each namespace.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::decision::{Decision, Event, Note, PodChange, Record, Rules, Time, Unfit, decide};
use headroom_admission::json::Node;
use headroom_api_server::api_client::{ApiClient, ApiError, ListOptions, value};
use headroom_api_server::api_path::ApiPath;
use headroom_api_server::cluster_reader::LiveCluster;
use headroom_api_server::event::{EventType, Recorder};
use headroom_api_server::parts::locked;
use headroom_dry_run::evaluate::Admission;
use headroom_dry_run::evaluate::admission::PolicySource;
use headroom_objects::cluster_reader::ClusterReader;
use headroom_objects::kinds::{ApiKind, items, metadata, text};
use headroom_workloads::WorkloadRef;
use headroom_workloads::kinds::PodKind;
use serde_json::Value;
use tokio::runtime::Handle;

use crate::facts;
use crate::metrics::{PassCounts, ResizerMetrics};
use crate::observed::ALERT;
use crate::recent::Recent;
use crate::room::Rooms;
use crate::round::{MOST_READS, Round, RoundError, RoundOutcome, V1, records};
use crate::running::{self, Modes, RunningWorkload, Usage};
use crate::signals::Signals;
use crate::slim;
use crate::unfit::UnfitChanges;

/// An Event that says the same of a workload is written again after this time.
const REPEAT_AFTER: Duration = Duration::from_secs(6 * 3600);
/// A round asks about no further pod after so many whose change does not fit.
const MOST_UNFIT: usize = 5;
/// The time of a namespace in a pass, beside reading it. A workload that was begun is finished, the others have the next turn.
const TURN: Duration = Duration::from_secs(2);
/// Pods without a selector that are read one by one.
const MOST_BY_NAME: usize = 20;
/// The workloads of a namespace about which Events are remembered. About others none is written.
const MOST_REPORTED: usize = 1_000;
/// Usage profiles, which change once an hour, are read again after this time.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(600);

/// Looks at workloads and resizes their pods. All methods wait for the API server.
pub struct Resizer {
    pub runtime: Handle,
    pub api: ApiClient,
    pub cluster: LiveCluster,
    /// The namespace of the records.
    pub records: String,
    pub modes: Modes,
    pub rules: Rules,
    pub signals: Option<Signals>,
    pub events: Recorder,
    pub memory: Memory,
}

/// The program's memory from one pass to the next. All of it is of use, and none of it needed.
#[derive(Default)]
pub struct Memory {
    recent: Recent,
    namespaces: BTreeMap<String, OfNamespace>,
    unfit: Mutex<UnfitChanges>,
    rooms: Rooms,
    /// The namespace that was served last.
    last: String,
    /// When everything was last read.
    read_at: Option<Instant>,
}

#[derive(Default)]
struct OfNamespace {
    /// The workload with which its next turn begins.
    next: Option<WorkloadRef>,
    /// It is left until then, because it took long.
    rests_until: Option<Instant>,
    /// When an Event with a reason was last written about a workload.
    reported_at: HashMap<(WorkloadRef, &'static str), Instant>,
}

/// The workloads of a namespace, and their usage when they were read.
#[derive(Default)]
pub struct Found {
    pub workloads: Vec<RunningWorkload>,
    pub usage: Usage,
    pub at: Time,
    bytes_of_rules: usize,
}

/// The changes under way, of workloads that have some: each workload of a cluster goes through all of them.
#[derive(Debug, Default)]
struct UnderWay(BTreeMap<WorkloadRef, usize>);

impl UnderWay {
    fn add(&mut self, workload: &WorkloadRef, count: usize) {
        self.0.extend((count > 0).then(|| (workload.clone(), count)));
    }

    /// The pods of a workload that may be under way, beside those of others. Where other namespaces have all places of the cluster,
    /// a namespace still has its share of them.
    fn free(&self, workload: &WorkloadRef, rules: &Rules) -> usize {
        let mut namespaces: BTreeMap<&str, usize> = BTreeMap::from([(workload.namespace.as_str(), 0)]);
        for (of, count) in &self.0 {
            *namespaces.entry(&of.namespace).or_default() += count;
        }
        let (of_cluster, all): (usize, usize) = (namespaces.values().sum(), rules.at_once.cluster);
        let of_namespace = namespaces.get(workload.namespace.as_str()).copied().unwrap_or(0);
        let share = (all / namespaces.len()).max(1);
        let of_share = share.saturating_sub(of_namespace).max(all.saturating_sub(of_cluster));
        rules.at_once.namespace.saturating_sub(of_namespace).min(of_share)
    }
}

impl Resizer {
    /// Returns true if the API server can resize pods.
    pub fn is_supported(&self) -> Result<bool, ApiError> {
        let served = self.runtime.block_on(self.api.get(&V1))?;
        Ok(items(&served, "/resources").any(|resource| text(resource, "/name") == "pods/resize"))
    }

    /// Looks at all namespaces but the exempt ones, each of which has its turn, and returns true if all were done. Ends early when
    /// `goes_on` is false.
    pub fn pass(
        &mut self,
        exempt: &[String],
        metrics: &ResizerMetrics,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<bool, String> {
        let is_old = self.memory.read_at.is_none_or(|at| at.elapsed() > READ_AGAIN_AFTER);
        self.memory.read_at = self.memory.read_at.filter(|_| !is_old).or_else(|| Some(Instant::now()));
        self.cluster.forget(|namespace| is_old || namespace.is_none());
        let admission = Admission::read(&mut self.cluster, PolicySource::Cluster, &[None]);
        let mut namespaces = self.cluster.list(("v1", "Namespace", None))?;
        let names: BTreeSet<&str> = namespaces.iter().map(|of| metadata(of, "name")).collect();
        self.memory.namespaces.retain(|name, _| names.contains(name.as_str()));
        let is_served = |of: &Value| metadata(of, "name") <= self.memory.last.as_str();
        let served = namespaces.iter().take_while(|of| is_served(of)).count();
        namespaces.rotate_left(served);
        // In the end those of workloads that are gone.
        let mut records = self.records().map_err(|error| format!("cannot list the records: {error}"))?;
        let mut under_way = UnderWay::default();
        records.iter().for_each(|(key, record)| under_way.add(key, record.under_way()));
        let (mut seen, mut is_done) = (PassCounts::default(), true);
        for namespace in namespaces {
            let name = metadata(&namespace, "name");
            if !goes_on() {
                return Ok(false);
            }
            self.memory.last = name.to_owned();
            let of_namespace = self.memory.namespaces.entry(name.to_owned()).or_default();
            if of_namespace.rests_until.is_some_and(|until| Instant::now() < until) {
                is_done = false;
                records.retain(|of, _| of.namespace != name);
                continue;
            }
            let begun = Instant::now();
            let is_exempt = exempt.iter().any(|exempt| exempt == name);
            let found = if is_exempt { Ok(Found::default()) } else { self.list(&namespace) };
            let mut found = match found {
                Ok(found) => found,
                Err(error) => {
                    // If the API server is away, that is said once.
                    self.now().map_err(|error| error.to_string())?;
                    tracing::warn!(namespace = name, error, "the pods of a namespace are left as they are");
                    metrics.ended("failed");
                    records.retain(|of, _| of.namespace != name);
                    self.end_turn(name, begun, is_exempt);
                    continue;
                }
            };
            // Those with a change under way come first, then those that the last turn of the namespace did not come to.
            let last = self.memory.namespaces.get(name).and_then(|of| of.next.as_ref());
            let mut workloads = std::mem::take(&mut found.workloads);
            workloads.sort_by_key(|running| {
                let is_under_way = records.get(&running.workload).is_some_and(|record| !record.changes.is_empty());
                (!is_under_way, last.is_some_and(|last| running.workload < *last))
            });
            let measured: BTreeSet<&str> = found.usage.keys().map(|(pod, _)| pod.as_str()).collect();
            let (turn, mut next) = (Instant::now(), None);
            for mut running in workloads {
                if !goes_on() {
                    return Ok(false);
                }
                let record = records.remove(&running.workload).unwrap_or_default();
                let is_measured = |pod: &&Value| measured.contains(metadata(pod, "name"));
                seen.pods += running.pods.len() as u64;
                seen.measured += running.pods.iter().filter(is_measured).count() as u64;
                if turn.elapsed() > TURN {
                    next.get_or_insert(running.workload);
                    continue;
                }
                running.learn(found.bytes_of_rules, &admission, &mut self.cluster);
                let notes = self.look(&running, &record, &found, &mut under_way, metrics);
                seen.add(&notes);
                self.write_events(&running, &notes);
            }
            is_done &= next.is_none();
            self.memory.namespaces.entry(name.to_owned()).or_default().next = next;
            self.end_turn(name, begun, is_exempt);
        }
        let nothing = Found { at: self.now().map_err(|error| error.to_string())?, ..Found::default() };
        self.memory.recent.forget_old(nothing.at);
        locked(&self.memory.unfit).forget_old();
        for (workload, record) in records {
            if !goes_on() {
                return Ok(false);
            }
            let gone = RunningWorkload::without_pods(workload, self.modes);
            self.look(&gone, &record, &nothing, &mut under_way, metrics);
        }
        if seen.pods > 0 && seen.measured == 0 {
            tracing::warn!(seen.pods, "no pod has recent usage, so nothing is lowered: is there a metrics API?");
        }
        seen.under_way = under_way.0.values().sum::<usize>() as u64;
        metrics.seen(&seen);
        metrics.last_pass.set(headroom_api_server::clock::now());
        Ok(is_done)
    }

    /// Drops what was read in a namespace. One that took longer than its turn rests for as long, so that others have their share.
    fn end_turn(&mut self, name: &str, begun: Instant, is_exempt: bool) {
        // An exempt one may have the profiles.
        self.cluster.forget(|of| of == Some(name) && !is_exempt);
        let of_namespace = self.memory.namespaces.entry(name.to_owned()).or_default();
        of_namespace.reported_at.retain(|_, at| at.elapsed() < REPEAT_AFTER);
        let took = begun.elapsed();
        of_namespace.rests_until = (took > 2 * TURN).then(|| Instant::now() + took);
    }

    /// Reads the workloads of a namespace, the usage of their pods, and the sizes at admission.
    pub fn read(&mut self, namespace: &Value, admission: &Admission) -> Result<Found, String> {
        let mut found = self.list(namespace)?;
        for running in &mut found.workloads {
            running.learn(found.bytes_of_rules, admission, &mut self.cluster);
        }
        Ok(found)
    }

    fn list(&mut self, namespace: &Value) -> Result<Found, String> {
        let workloads = running::read(namespace, self.modes, &mut self.cluster)?;
        if workloads.is_empty() {
            return Ok(Found::default());
        }
        let name = metadata(namespace, "name");
        let bytes_of_rules = facts::bytes_of_rules(name, &mut self.cluster)?;
        let path = ApiPath::new("/apis/metrics.k8s.io/v1beta1").collection(Some(name), "pods");
        let at = self.now().map_err(|error| error.to_string())?;
        // Without the metrics API nothing is lowered.
        let measured = self.runtime.block_on(self.api.list(&path, ListOptions::WHOLE, value));
        let measured = measured.inspect_err(|error| tracing::debug!(namespace = name, %error, "no recent usage"));
        let mut usage = running::usage(&measured.map(|(_, pods)| pods).unwrap_or_default(), at);
        let pods = workloads.iter().flat_map(|running| &running.pods);
        let uids = pods.map(|pod| (metadata(pod, "name"), metadata(pod, "uid"))).collect();
        self.memory.recent.add(name, &uids, &mut usage);
        Ok(Found { workloads, usage, at, bytes_of_rules })
    }

    fn look(
        &mut self,
        running: &RunningWorkload,
        record: &Record,
        found: &Found,
        under_way: &mut UnderWay,
        metrics: &ResizerMetrics,
    ) -> Vec<Note> {
        let workload = &running.workload;
        under_way.0.remove(workload);
        let free = under_way.free(workload, &self.rules);
        let (count, ended, notes) = match self.round_if_needed(running, record, found, free) {
            Ok((RoundOutcome::Done { under_way, notes }, has_run)) => {
                notes.iter().for_each(|note| metrics.noted(&note.event));
                (under_way, has_run.then_some("done"), notes)
            }
            Ok((RoundOutcome::Overtaken, _)) => (0, Some("overtaken"), Vec::new()),
            Err(error) => {
                if self.now().is_ok() {
                    tracing::warn!(workload = workload.path(), %error, "a round failed; the pods are left to the next one");
                }
                (record.under_way(), Some("failed"), Vec::new())
            }
        };
        under_way.add(workload, count);
        ended.into_iter().for_each(|ended| metrics.ended(ended));
        notes
    }

    /// Decides about what was read. If that changes anything, or a change is under way, runs a round with fresh pods, and
    /// returns true.
    fn round_if_needed(
        &self,
        running: &RunningWorkload,
        record: &Record,
        found: &Found,
        free: usize,
    ) -> Result<(RoundOutcome, bool), RoundError> {
        let pods = running.observed(&running.pods, running.object.as_ref(), &found.usage, None);
        let namespace = &running.workload.namespace;
        let decision = decide(&pods, record, found.at, &self.rules, free, &mut |change, _| {
            locked(&self.memory.unfit).known(namespace, change).map_or(Ok(()), |why| Err(Unfit::Refused(why)))
        });
        // What is under way is watched with fresh pods and all signals.
        if decision.resizes.is_empty() && decision.record == *record && record.changes.is_empty() {
            return Ok((RoundOutcome::Done { notes: decision.notes, under_way: 0 }, false));
        }
        Ok((self.round(running, &found.usage, free, false)?, true))
    }

    /// Runs a round with fresh pods, to go on or to take back.
    pub fn round(
        &self,
        running: &RunningWorkload,
        usage: &Usage,
        free: usize,
        undoes: bool,
    ) -> Result<RoundOutcome, RoundError> {
        let (fresh, unfit) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
        let round = Round {
            api: &self.api,
            records: &self.records,
            workload: &running.workload,
            rules: &self.rules,
            now: self.now()?,
            free,
            undoes,
        };
        let read = async || {
            let pods = self.fresh(running).await?;
            let object = self.fresh_object(running).await?;
            let mut usage = usage.clone();
            let (namespace, alert) = (&running.workload.namespace, running.annotation(ALERT));
            let signalled = self.signals.as_ref().map(|signals| signals.look(namespace, alert, &mut usage));
            let (is_met, is_waiting) = signalled.unwrap_or_default();
            let mut observed = running.observed(&pods, object.as_ref(), &usage, is_met);
            // Nothing is lowered before it is known how it was.
            observed.is_rolling_out |= is_waiting;
            *locked(&fresh) = pods;
            unfit.store(0, Relaxed);
            Ok(observed)
        };
        let namespace = &running.workload.namespace;
        self.runtime.block_on(round.run(read, &mut |change, others| {
            if let Some(why) = locked(&self.memory.unfit).known(namespace, change) {
                return Err(Unfit::Refused(why));
            }
            if unfit.load(Relaxed) >= MOST_UNFIT {
                return Err(Unfit::Refused("nor do those of other pods".to_owned()));
            }
            let pods = locked(&fresh);
            let fits = self.fits(&pods, change, others);
            if let Err(Unfit::Refused(why)) = &fits {
                unfit.fetch_add(1, Relaxed);
                locked(&self.memory.unfit).add(namespace, change, why);
            }
            fits
        }))
    }

    /// Decides as a round would, with everything asked that is asked before a change, and changes nothing.
    pub fn preview(&self, running: &RunningWorkload, record: &Record, found: &Found) -> Result<Decision, RoundError> {
        let (mut pods, mut reads) = (running.pods.clone(), 1);
        loop {
            let observed = running.observed(&pods, running.object.as_ref(), &found.usage, None);
            let fits: crate::decision::Fits<'_> = &mut |change, others| self.fits(&pods, change, others);
            let decision = decide(&observed, record, found.at, &self.rules, usize::MAX, fits);
            if reads == MOST_READS || !decision.notes.iter().any(Note::is_later) {
                return Ok(decision);
            }
            pods = self.runtime.block_on(self.fresh(running)).map_err(RoundError::of("read the pods"))?;
            reads += 1;
        }
    }

    fn fits(&self, pods: &[Value], change: &PodChange, others: &[PodChange]) -> Result<(), Unfit> {
        let fits = self.memory.rooms.fits(&self.api, pods, change, others);
        // Called within a round, which runs in the runtime itself.
        tokio::task::block_in_place(|| self.runtime.block_on(fits))
    }

    fn now(&self) -> Result<Time, RoundError> {
        self.runtime.block_on(self.api.time()).map_err(RoundError::of("read the time"))
    }

    /// Reads the pods again. Where no selector finds them, a few are read by name, not with all others of the namespace.
    async fn fresh(&self, running: &RunningWorkload) -> Result<Vec<Value>, ApiError> {
        let selector = running.selector();
        let path = V1.collection(Some(&running.workload.namespace), "pods");
        let mut pods = Vec::new();
        if selector.is_empty() && running.pods.len() <= MOST_BY_NAME {
            for pod in &running.pods {
                pods.extend(self.api.find(&path.at(metadata(pod, "name"))).await?.map(slim::pod));
            }
        } else {
            let options = ListOptions { label_selector: &selector, ..ListOptions::WHOLE };
            let read = |pod: Node<'_>| value(pod).map(slim::pod).filter(|pod| running.has(pod));
            (_, pods) = self.api.list(&path, options, read).await?;
        }
        pods.retain(|pod| running.has(pod));
        Ok(pods)
    }

    async fn fresh_object(&self, running: &RunningWorkload) -> Result<Option<Value>, ApiError> {
        let WorkloadRef { namespace, kind, name } = &running.workload;
        let Some(kind) = PodKind::named(kind).filter(|_| running.object.is_some()) else { return Ok(None) };
        let path = ApiPath::of_version(kind.api_version).collection(Some(namespace), kind.resource).at(name);
        self.api.get(&path).await.map(Some)
    }

    pub fn records(&self) -> Result<BTreeMap<WorkloadRef, Record>, ApiError> {
        self.runtime.block_on(records(&self.api, &self.records))
    }

    /// Writes Events: about pods what was done to them, and about a workload what would be done or waits.
    fn write_events(&mut self, running: &RunningWorkload, notes: &[Note]) {
        let mut of_workload: BTreeMap<&'static str, (EventType, String, usize)> = BTreeMap::new();
        for Note { pod, event } in notes {
            let (kind, reason) = match event {
                Event::Begun { .. } => (EventType::Normal, "Resizing"),
                Event::Settled => (EventType::Normal, "Resized"),
                Event::TakingBack { .. } => (EventType::Warning, "ResizeTakenBack"),
                Event::Dropped(_) => (EventType::Normal, "ResizeDropped"),
                Event::Later | Event::NotTakenBack(_) => continue,
                Event::Refused(_) => (EventType::Warning, "ResizeRefused"),
                Event::GivenUp(_) => (EventType::Warning, "ResizeNotTakenBack"),
                Event::Would { .. } => (EventType::Normal, "WouldResize"),
                Event::Waits(_) => (EventType::Normal, "ResizeWaits"),
                Event::Unsettled(_) => (EventType::Normal, "ResizeUnsettled"),
                Event::DoesNotFit(_) => (EventType::Warning, "ResizeDoesNotFit"),
            };
            if matches!(event, Event::Would { .. } | Event::Waits(_) | Event::Unsettled(_) | Event::DoesNotFit(_)) {
                of_workload.entry(reason).or_insert_with(|| (kind, format!("pod {pod}: {event}"), 0)).2 += 1;
                continue;
            }
            tracing::info!(workload = running.workload.path(), pod, reason, "{event}");
            if let Some(object) = running.pods.iter().find(|object| metadata(object, "name") == pod) {
                self.runtime.block_on(self.events.record(("v1", "Pod", object), kind, reason, &event.to_string()));
            }
        }
        for (reason, (kind, text, pods)) in of_workload {
            let reported_at =
                &mut self.memory.namespaces.entry(running.workload.namespace.clone()).or_default().reported_at;
            let key = (running.workload.clone(), reason);
            let is_new = match reported_at.get(&key) {
                Some(at) => at.elapsed() >= REPEAT_AFTER,
                None => reported_at.len() < MOST_REPORTED,
            };
            if !is_new {
                continue;
            }
            reported_at.insert(key, Instant::now());
            let others = if pods > 1 { format!(" (and {} other pods)", pods - 1) } else { String::new() };
            if let Some(object) = running.object.as_ref().or(running.pods.first()) {
                let of = ApiKind::of(object);
                let (api_version, message) = (of.api_version(), format!("{text}{others}"));
                tracing::info!(workload = running.workload.path(), reason, "{message}");
                self.runtime.block_on(self.events.record((&api_version, &of.kind, object), kind, reason, &message));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_its_share_of_places_whatever_others_hold() {
        let workload = |namespace: &str| WorkloadRef::new(namespace, "Deployment", "web");
        let free = |held: &[(&str, usize)], namespace: &str| {
            let under_way = UnderWay(held.iter().map(|(of, count)| (workload(of), *count)).collect());
            under_way.free(&WorkloadRef::new(namespace, "Deployment", "other"), &Rules::default())
        };
        assert_eq!(free(&[], "shop"), 20);
        assert_eq!(free(&[("a", 20), ("b", 20)], "shop"), 16);
        assert_eq!(free(&[("a", 20), ("b", 20), ("c", 10)], "shop"), 12, "others hold all places");
        assert_eq!(free(&[("a", 20), ("b", 20), ("c", 10), ("shop", 12)], "shop"), 0);
        assert_eq!(free(&[("a", 20), ("b", 20), ("c", 10)], "a"), 0);
        assert_eq!(free(&[("shop", 20)], "shop"), 0);
    }
}
