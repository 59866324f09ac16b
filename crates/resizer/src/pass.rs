//! A pass over the cluster: each namespace is read once, and a workload about which something is to be done gets a round, which
//! reads its pods again. So a quiet cluster costs a few lists for each namespace.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::decision::{Decision, Event, Note, ObservedPod, PodChange, Record, Rules, Time, Unfit, decide};
use headroom_dryrun::evaluate::Admission;
use headroom_dryrun::evaluate::admission::PolicySource;
use headroom_kube::api_client::{ApiClient, ApiError, ListOptions, value};
use headroom_kube::api_path::ApiPath;
use headroom_kube::cluster_reader::LiveCluster;
use headroom_kube::event::{EventType, Recorder};
use headroom_objects::cluster_reader::ClusterReader;
use headroom_objects::kinds::{ApiKind, metadata};
use headroom_workloads::WorkloadRef;
use headroom_workloads::kinds::PodKind;
use serde_json::Value;
use tokio::runtime::Handle;

use crate::metrics::{PassCounts, ResizerMetrics};
use crate::observed::{at, list};
use crate::recent::Recent;
use crate::room;
use crate::round::{MOST_READS, Round, RoundError, RoundOutcome, records};
use crate::running::{self, Modes, Running, Usage};
use crate::signals::{ALERT, Signals};

const V1: ApiPath = ApiPath::new("/api/v1");
/// An Event that says the same of a workload is written again after this time.
const REPEAT_AFTER: Duration = Duration::from_secs(6 * 3600);
/// A round asks about no further pod after so many whose change does not fit.
const MOST_UNFIT: usize = 5;
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
    pub recent: Recent,
    pub events: Recorder,
    /// When an Event with a reason was last written about a workload.
    pub reported_at: HashMap<(WorkloadRef, &'static str), Instant>,
    /// When everything was last read.
    pub read_at: Instant,
}

/// The workloads of a namespace, and their usage when they were read.
#[derive(Default)]
pub struct Found {
    pub workloads: Vec<Running>,
    pub usage: Usage,
    pub at: Time,
}

/// The changes under way.
#[derive(Debug, Default)]
struct UnderWay(BTreeMap<WorkloadRef, usize>);

impl UnderWay {
    /// The pods of a workload that may be under way, beside those of others.
    fn free(&self, workload: &WorkloadRef, rules: &Rules) -> usize {
        let is_near = |of: &WorkloadRef| of.namespace == workload.namespace;
        let of_namespace = self.0.iter().filter(|(of, _)| is_near(of)).map(|(_, count)| count).sum();
        let of_cluster: usize = self.0.values().sum();
        let free = |most: usize, of: usize| most.saturating_sub(of);
        free(rules.at_once.namespace, of_namespace).min(free(rules.at_once.cluster, of_cluster))
    }
}

impl Resizer {
    /// Returns true if the API server can resize pods.
    pub fn is_supported(&self) -> Result<bool, ApiError> {
        let served = self.runtime.block_on(self.api.get(&V1))?;
        Ok(list(at(&served, "/resources")).iter().any(|resource| at(resource, "/name") == "pods/resize"))
    }

    /// Looks at all namespaces but the exempt ones. Ends early when `goes_on` is false.
    pub fn pass(
        &mut self,
        exempt: &[String],
        metrics: &ResizerMetrics,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), String> {
        let is_old = self.read_at.elapsed() > READ_AGAIN_AFTER;
        self.read_at = if is_old { Instant::now() } else { self.read_at };
        self.cluster.forget(|namespace| is_old || namespace.is_none());
        let admission = Admission::read(&mut self.cluster, PolicySource::Cluster, &[None]);
        let namespaces = self.cluster.list(("v1", "Namespace", None))?;
        let records = self.records().map_err(|error| format!("cannot list the records: {error}"))?;
        let mut under_way = UnderWay(records.iter().map(|(key, record)| (key.clone(), record.under_way())).collect());
        let (mut seen, mut unseen) = (PassCounts::default(), records.keys().cloned().collect::<BTreeSet<_>>());
        for namespace in namespaces {
            let name = metadata(&namespace, "name");
            let is_exempt = exempt.iter().any(|exempt| exempt == name);
            let found = if is_exempt { Ok(Found::default()) } else { self.read(&namespace, &admission) };
            // An exempt one may have the profiles.
            self.cluster.forget(|of| of == Some(name) && !is_exempt);
            let mut found = match found {
                Ok(found) => found,
                Err(error) => {
                    // If the API server is away, that is said once.
                    self.now().map_err(|error| error.to_string())?;
                    tracing::warn!(namespace = name, error, "the pods of a namespace are left as they are");
                    metrics.ended("failed");
                    unseen.retain(|of| of.namespace != name);
                    continue;
                }
            };
            let workloads = std::mem::take(&mut found.workloads);
            let measured: BTreeSet<&str> = found.usage.keys().map(|(pod, _)| pod.as_str()).collect();
            for running in workloads {
                if !goes_on() {
                    return Ok(());
                }
                unseen.remove(&running.workload);
                let record = records.get(&running.workload).cloned().unwrap_or_default();
                let notes = self.look(&running, &record, &found, &mut under_way, metrics);
                let is_measured = |pod: &&Value| measured.contains(metadata(pod, "name"));
                seen.pods += running.pods.len() as u64;
                seen.measured += running.pods.iter().filter(is_measured).count() as u64;
                seen.add(&notes);
                self.tell(&running, &notes);
            }
        }
        self.reported_at.retain(|_, at| at.elapsed() < REPEAT_AFTER);
        // Records of workloads that are gone end.
        let nothing = Found { at: self.now().map_err(|error| error.to_string())?, ..Found::default() };
        self.recent.forget_old(nothing.at);
        for workload in unseen {
            if !goes_on() {
                break;
            }
            let record = records.get(&workload).cloned().unwrap_or_default();
            let gone = Running::gone(workload, self.modes);
            self.look(&gone, &record, &nothing, &mut under_way, metrics);
        }
        if seen.pods > 0 && seen.measured == 0 {
            tracing::warn!(seen.pods, "no pod has recent usage, so nothing is lowered: is there a metrics API?");
        }
        seen.under_way = under_way.0.values().sum::<usize>() as u64;
        metrics.seen(&seen);
        metrics.last_pass.set(headroom_kube::clock::now());
        Ok(())
    }

    /// Reads the workloads of a namespace, and the usage of their pods.
    pub fn read(&mut self, namespace: &Value, admission: &Admission) -> Result<Found, String> {
        let workloads = running::read(namespace, self.modes, admission, &mut self.cluster)?;
        if workloads.is_empty() {
            return Ok(Found::default());
        }
        let name = metadata(namespace, "name");
        let path = ApiPath::new("/apis/metrics.k8s.io/v1beta1").collection(Some(name), "pods");
        let at = self.now().map_err(|error| error.to_string())?;
        // Without the metrics API nothing is lowered.
        let measured = self.runtime.block_on(self.api.list(&path, ListOptions::WHOLE, value));
        let measured = measured.inspect_err(|error| tracing::debug!(namespace = name, %error, "no recent usage"));
        let mut usage = running::usage(&measured.map(|(_, pods)| pods).unwrap_or_default(), at);
        self.recent.add(name, &mut usage);
        Ok(Found { workloads, usage, at })
    }

    fn look(
        &mut self,
        running: &Running,
        record: &Record,
        found: &Found,
        under_way: &mut UnderWay,
        metrics: &ResizerMetrics,
    ) -> Vec<Note> {
        let workload = &running.workload;
        under_way.0.remove(workload);
        let free = under_way.free(workload, &self.rules);
        let (ended, notes) = match self.round_if_needed(running, record, found, free) {
            Ok((None, notes)) => {
                under_way.0.insert(workload.clone(), record.under_way());
                return notes;
            }
            Ok((Some(RoundOutcome::Done { under_way: count, .. }), notes)) => {
                under_way.0.insert(workload.clone(), count);
                notes.iter().for_each(|note| metrics.noted(&note.event));
                ("done", notes)
            }
            Ok((Some(RoundOutcome::Overtaken), notes)) => ("overtaken", notes),
            Err(error) => {
                if self.now().is_ok() {
                    tracing::warn!(workload = workload.path(), %error, "a round failed; the pods are left to the next one");
                }
                under_way.0.insert(workload.clone(), record.under_way());
                ("failed", Vec::new())
            }
        };
        metrics.ended(ended);
        notes
    }

    /// Decides about what was read. If that changes anything, or a change is under way, runs a round with fresh pods.
    fn round_if_needed(
        &self,
        running: &Running,
        record: &Record,
        found: &Found,
        free: usize,
    ) -> Result<(Option<RoundOutcome>, Vec<Note>), RoundError> {
        let pods = running.observed(&running.pods, running.object.as_ref(), &found.usage, None);
        let pods = pods.map_err(|error| RoundError::Pod { error })?;
        let decision = decide(&pods, record, found.at, &self.rules, free, &mut |_, _, _| Ok(()));
        // What is under way is watched with fresh pods and all signals.
        if decision.resizes.is_empty() && decision.record == *record && record.changes.is_empty() {
            return Ok((None, decision.notes));
        }
        let outcome = self.round(running, &found.usage, free, false)?;
        let notes = if let RoundOutcome::Done { notes, .. } = &outcome { notes.clone() } else { Vec::new() };
        Ok((Some(outcome), notes))
    }

    /// Runs a round with fresh pods, to go on or to take back.
    pub fn round(
        &self,
        running: &Running,
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
            let mut is_met = None;
            if let Some(signals) = &self.signals {
                signals.add_stalled(&running.workload.namespace, &mut usage).await;
                if let Some(alert) = running.annotation(ALERT) {
                    is_met = signals.is_quiet(alert).await;
                }
            }
            let observed = running.observed(&pods, object.as_ref(), &usage, is_met).map_err(ApiError::Other)?;
            *fresh.lock().unwrap_or_else(PoisonError::into_inner) = pods;
            unfit.store(0, Relaxed);
            Ok(observed)
        };
        self.runtime.block_on(round.run(read, &mut |pod, change, others| {
            if unfit.load(Relaxed) >= MOST_UNFIT {
                return Err(Unfit::Refused("nor do those of other pods".to_owned()));
            }
            let pods = fresh.lock().unwrap_or_else(PoisonError::into_inner);
            self.fits(&pods, pod, change, others).inspect_err(|_| _ = unfit.fetch_add(1, Relaxed))
        }))
    }

    /// Decides as a round would, with everything asked that is asked before a change, and changes nothing.
    pub fn preview(&self, running: &Running, record: &Record, found: &Found) -> Result<Decision, RoundError> {
        let (mut pods, mut reads) = (running.pods.clone(), 1);
        loop {
            let observed = running.observed(&pods, running.object.as_ref(), &found.usage, None);
            let observed = observed.map_err(|error| RoundError::Pod { error })?;
            let fits: crate::decision::Fits<'_> = &mut |pod, change, others| self.fits(&pods, pod, change, others);
            let decision = decide(&observed, record, found.at, &self.rules, usize::MAX, fits);
            if reads == MOST_READS || !decision.notes.iter().any(Note::is_later) {
                return Ok(decision);
            }
            pods = self.runtime.block_on(self.fresh(running)).map_err(RoundError::of("read the pods"))?;
            reads += 1;
        }
    }

    fn fits(&self, pods: &[Value], pod: &ObservedPod, change: &PodChange, others: &[PodChange]) -> Result<(), Unfit> {
        let object = pods.iter().find(|object| metadata(object, "uid") == pod.uid).ok_or(Unfit::Changed)?;
        let fits = room::fits(&self.api, object, change, others);
        // Called within a round, which runs in the runtime itself.
        tokio::task::block_in_place(|| self.runtime.block_on(fits))
    }

    fn now(&self) -> Result<Time, RoundError> {
        self.runtime.block_on(self.api.time()).map_err(RoundError::of("read the time"))
    }

    async fn fresh(&self, running: &Running) -> Result<Vec<Value>, ApiError> {
        let selector = running.selector();
        let options = ListOptions { label_selector: &selector, ..ListOptions::WHOLE };
        let path = V1.collection(Some(&running.workload.namespace), "pods");
        let (_, mut pods) = self.api.list(&path, options, value).await?;
        pods.retain(|pod| running.has(pod));
        Ok(pods)
    }

    async fn fresh_object(&self, running: &Running) -> Result<Option<Value>, ApiError> {
        let WorkloadRef { namespace, kind, name } = &running.workload;
        let Some(kind) = PodKind::named(kind).filter(|_| running.object.is_some()) else { return Ok(None) };
        let path = ApiPath::of_version(kind.api_version).collection(Some(namespace), kind.resource).at(name);
        self.api.get(&path).await.map(Some)
    }

    pub fn records(&self) -> Result<BTreeMap<WorkloadRef, Record>, ApiError> {
        self.runtime.block_on(records(&self.api, &self.records))
    }

    /// Writes Events: about pods what was done to them, and about a workload what would be done or waits.
    fn tell(&mut self, running: &Running, notes: &[Note]) {
        let mut of_workload: BTreeMap<&'static str, (EventType, String, usize)> = BTreeMap::new();
        for Note { pod, event } in notes {
            let (kind, reason) = match event {
                Event::Begun { .. } => (EventType::Normal, "Resizing"),
                Event::Settled => (EventType::Normal, "Resized"),
                Event::TakingBack { .. } => (EventType::Warning, "ResizeTakenBack"),
                Event::Dropped(_) => (EventType::Normal, "ResizeDropped"),
                Event::Later | Event::NotTakenBack(_) => continue,
                Event::Refused(_) => (EventType::Warning, "ResizeRefused"),
                Event::Would { .. } => (EventType::Normal, "WouldResize"),
                Event::Waits(_) => (EventType::Normal, "ResizeWaits"),
                Event::DoesNotFit { .. } => (EventType::Warning, "ResizeDoesNotFit"),
            };
            if matches!(event, Event::Would { .. } | Event::Waits(_) | Event::DoesNotFit { .. }) {
                of_workload.entry(reason).or_insert_with(|| (kind, format!("pod {pod}: {event}"), 0)).2 += 1;
                continue;
            }
            tracing::info!(workload = running.workload.path(), pod, reason, "{event}");
            if let Some(object) = running.pods.iter().find(|object| metadata(object, "name") == pod) {
                self.runtime.block_on(self.events.record(("v1", "Pod", object), kind, reason, &event.to_string()));
            }
        }
        for (reason, (kind, text, pods)) in of_workload {
            let last = self.reported_at.entry((running.workload.clone(), reason));
            let is_new = match last {
                std::collections::hash_map::Entry::Occupied(of) if of.get().elapsed() < REPEAT_AFTER => false,
                last => {
                    last.insert_entry(Instant::now());
                    true
                }
            };
            let others = if pods > 1 { format!(" (and {} other pods)", pods - 1) } else { String::new() };
            let object = running.object.as_ref().or(running.pods.first()).filter(|_| is_new);
            if let Some(object) = object {
                let kind_of = ApiKind::of(object);
                let about = (kind_of.api_version(), kind_of.kind.clone());
                let message = format!("{text}{others}");
                tracing::info!(workload = running.workload.path(), reason, "{message}");
                self.runtime.block_on(self.events.record((&about.0, &about.1, object), kind, reason, &message));
            }
        }
    }
}
