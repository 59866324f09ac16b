//! The metrics API (`metrics.k8s.io`, which metrics-server serves), for clusters that keep no metrics.
//!
//! It tells only the present, so it is read once a step, and what is read is kept by the collector. It names no images:
//! those come from the pods, as do the OOM kills. [`join`] and [`kills`] are pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use headroom_usage::sample::{Batch, Container, OomKill, Resource, Sample, Series, Window};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::cluster_id::{self, ClusterId};
use super::http::Http;
use super::{Reach, Sink, Source, SourceError, listing};
use crate::diagnosis::Finding;
use headroom_kube::ApiPath;

/// How old a measurement may be: metrics-server measures every 15 s by default, and takes its time.
const OLDEST_SECONDS: i64 = 120;

const NO_METRICS: &str = "there is no metrics API: install metrics-server, or read from a metrics store";

/// Kills that were reported: pod (its uid), container and time.
type ReportedKills = BTreeSet<(String, String, i64)>;

/// The metrics API of a cluster.
pub struct MetricsApi {
    http: Http,
    step_seconds: u32,
    reported: Mutex<Reported>,
}

/// Samples that were already reported: the API repeats a sample until there is a new one.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Reported {
    /// Time of each pod's last measurement, by namespace.
    measurements: HashMap<String, HashMap<String, i64>>,
    /// By namespace.
    kills: HashMap<String, ReportedKills>,
}

/// One look: what it finds that was not reported before, and what has been reported afterwards.
struct Look<'a> {
    window: Window,
    step_seconds: u32,
    before: &'a Reported,
    after: Reported,
}

/// What a pod's containers use, as the metrics API reports it.
#[derive(Debug, Deserialize)]
pub struct PodMetrics {
    metadata: Metadata,
    /// The end of the interval that was measured.
    timestamp: Timestamp,
    #[serde(default)]
    containers: Vec<ContainerMetrics>,
}

#[derive(Debug, Deserialize)]
struct ContainerMetrics {
    name: String,
    #[serde(default)]
    usage: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
}

/// As much of a pod as matters here.
#[derive(Debug, Deserialize)]
pub struct Pod {
    metadata: Metadata,
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    #[serde(default)]
    containers: Vec<PodContainer>,
    #[serde(default)]
    init_containers: Vec<PodContainer>,
}

#[derive(Debug, Deserialize)]
struct PodContainer {
    name: String,
    #[serde(default)]
    image: String,
    #[serde(default)]
    resources: Resources,
}

#[derive(Debug, Default, Deserialize)]
struct Resources {
    #[serde(default)]
    limits: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodStatus {
    #[serde(default)]
    container_statuses: Vec<ContainerStatus>,
    #[serde(default)]
    init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus {
    name: String,
    #[serde(default)]
    state: State,
    #[serde(default)]
    last_state: State,
}

#[derive(Debug, Default, Deserialize)]
struct State {
    #[serde(default)]
    terminated: Option<Terminated>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Terminated {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    finished_at: Option<Timestamp>,
}

impl Pod {
    fn containers(&self) -> impl Iterator<Item = &PodContainer> {
        self.spec.containers.iter().chain(&self.spec.init_containers)
    }

    fn container(&self, name: &str) -> Option<&PodContainer> {
        self.containers().find(|container| container.name == name)
    }
}

/// The samples of one measurement. None for containers that no pod of the list has: their pod is gone.
pub fn join(namespace: &str, metrics: &PodMetrics, pod: &Pod, window: Window, step_seconds: u32) -> Vec<Series> {
    // A measurement was made a little before it is reported, and what is reported in a window counts there.
    let time = metrics.timestamp.as_second().clamp(window.from, window.to - 1);
    let mut all = Vec::new();
    for measured in &metrics.containers {
        let Some(container) = pod.container(&measured.name) else { continue };
        for (resource, name) in [(Resource::Cpu, "cpu"), (Resource::Memory, "memory")] {
            let Some(value) = measured.usage.get(name).and_then(|text| amount(text, resource)) else { continue };
            all.push(Series {
                container: Container {
                    namespace: namespace.to_owned(),
                    pod: pod.metadata.name.clone(),
                    name: measured.name.clone(),
                    image: container.image.clone(),
                },
                resource,
                samples: vec![Sample { time, value }],
                step_seconds,
            });
        }
    }
    all
}

/// Whole nanocores or bytes.
fn amount(text: &str, resource: Resource) -> Option<u64> {
    headroom_usage::sample::amount(resource, &text.parse().ok()?)
}

/// Containers of this pod that ended for want of memory: name, when, and how much they may have used. A pod's status
/// tells the last two ends.
pub fn kills(pod: &Pod, used: impl Fn(&str) -> Option<u64>) -> Vec<(&str, i64, u64)> {
    let statuses = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    let mut kills = Vec::new();
    for status in statuses {
        for end in [&status.last_state.terminated, &status.state.terminated].into_iter().flatten() {
            let (Some(at), "OOMKilled") = (end.finished_at, end.reason.as_str()) else { continue };
            let limit = pod.container(&status.name).and_then(|container| container.resources.limits.get("memory"));
            let memory = limit.and_then(|text| amount(text, Resource::Memory)).or_else(|| used(&status.name));
            kills.extend(memory.map(|memory| (status.name.as_str(), at.as_second(), memory)));
        }
    }
    kills
}

impl MetricsApi {
    pub fn new(http: Http, step_seconds: u32) -> Self {
        Self { http, step_seconds: step_seconds.max(1), reported: Mutex::default() }
    }

    fn reported(&self) -> std::sync::MutexGuard<'_, Reported> {
        // Nobody panics while holding it, and half of what was reported is still true.
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By namespace and name. None if they may not be listed.
    async fn metrics(&self, namespace: Option<&str>) -> Result<Option<Measured>, SourceError> {
        let mut metrics = Measured::new();
        let path = ApiPath::new("/apis/metrics.k8s.io/v1beta1").collection(namespace, "pods");
        let allowed = listing::list_if_allowed(&self.http, &path, &[], NO_METRICS, &mut |pod: PodMetrics| {
            metrics.entry(pod.metadata.namespace.clone()).or_default().insert(pod.metadata.name.clone(), pod);
        })
        .await?;
        Ok(allowed.then_some(metrics))
    }

    /// From the API server's cache, which costs its store nothing. False if they may not be listed.
    async fn pods(&self, namespace: Option<&str>, each: &mut (dyn FnMut(Pod) + Send)) -> Result<bool, SourceError> {
        let path = ApiPath::new("/api/v1").collection(namespace, "pods");
        listing::list_if_allowed(&self.http, &path, &[("resourceVersion", "0")], "", each).await
    }

    /// Looks at one namespace, or at all. None if that is not allowed.
    async fn look(
        &self,
        namespace: Option<&str>,
        window: Window,
        sink: Sink<'_>,
    ) -> Result<Option<Reported>, SourceError> {
        let Some(metrics) = self.metrics(namespace).await? else { return Ok(None) };
        let before = self.reported().clone();
        let mut look = Look { window, step_seconds: self.step_seconds, before: &before, after: Reported::default() };
        let allowed = self
            .pods(namespace, &mut |pod| {
                let measured = metrics.get(&pod.metadata.namespace).and_then(|pods| pods.get(&pod.metadata.name));
                look.take(&pod, measured, &mut *sink);
            })
            .await?;
        Ok(allowed.then_some(look.after))
    }
}

/// What the metrics API reports, by namespace and pod.
type Measured = HashMap<String, HashMap<String, PodMetrics>>;

impl Look<'_> {
    fn take(&mut self, pod: &Pod, metrics: Option<&PodMetrics>, sink: Sink<'_>) {
        let Metadata { name, namespace, uid } = &pod.metadata;
        let oldest = self.window.from - OLDEST_SECONDS;
        if let Some(metrics) = metrics {
            let at = metrics.timestamp.as_second();
            let reported = self.before.measurements.get(namespace).and_then(|pods| pods.get(name));
            if reported != Some(&at) && at >= oldest {
                sink(Batch::Usage(join(namespace, metrics, pod, self.window, self.step_seconds)));
            }
            self.after.measurements.entry(namespace.clone()).or_default().insert(name.clone(), at);
        }
        let used = |container: &str| {
            let measured = metrics?.containers.iter().find(|measured| measured.name == container)?;
            amount(measured.usage.get("memory")?, Resource::Memory)
        };
        let reported = self.before.kills.get(namespace);
        for (container, at, memory) in kills(pod, used) {
            let key = (uid.clone(), container.to_owned(), at);
            if at >= oldest && !reported.is_some_and(|reported| reported.contains(&key)) {
                let image = pod.container(container).map(|container| container.image.clone()).unwrap_or_default();
                let container =
                    Container { namespace: namespace.clone(), pod: name.clone(), name: container.to_owned(), image };
                let at = at.clamp(self.window.from, self.window.to - 1);
                sink(Batch::OomKills(vec![OomKill { container, at, memory }]));
            }
            self.after.kills.entry(namespace.clone()).or_default().insert(key);
        }
    }
}

#[derive(Deserialize)]
struct Namespace {
    metadata: Metadata,
}

#[async_trait]
impl Source for MetricsApi {
    async fn cluster(&self) -> Result<ClusterId, SourceError> {
        cluster_id::of_api_server(&self.http).await
    }

    fn is_api_server(&self) -> bool {
        true
    }

    async fn now(&self) -> Result<i64, SourceError> {
        self.http.get("/version", &[]).await?.date()
    }

    async fn namespaces(&self, _window: Window) -> Result<Vec<String>, SourceError> {
        let mut names = Vec::new();
        listing::list(
            &self.http,
            &ApiPath::new("/api/v1/namespaces"),
            &[("resourceVersion", "0")],
            "",
            &mut |namespace: Namespace| {
                names.push(namespace.metadata.name);
            },
        )
        .await?;
        Ok(names)
    }

    async fn read(&self, namespace: &str, window: Window, sink: Sink<'_>) -> Result<(), SourceError> {
        let Some(mut after) = self.look(Some(namespace), window, sink).await? else {
            return Err(SourceError::Permanent(format!(
                "not allowed to list pods and their metrics in namespace `{namespace}`: give this account the \
                 permissions of the Helm chart with collector.source.type=metrics-api"
            )));
        };
        let mut reported = self.reported();
        reported.measurements.insert(namespace.to_owned(), after.measurements.remove(namespace).unwrap_or_default());
        reported.kills.insert(namespace.to_owned(), after.kills.remove(namespace).unwrap_or_default());
        Ok(())
    }

    async fn read_all(&self, window: Window, sink: Sink<'_>) -> Result<bool, SourceError> {
        let Some(after) = self.look(None, window, sink).await? else { return Ok(false) };
        *self.reported() = after;
        Ok(true)
    }

    fn step_seconds(&self) -> u32 {
        self.step_seconds
    }

    fn reach(&self) -> Reach {
        Reach::Present
    }

    fn memory(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(&*self.reported()).ok()
    }

    fn remember(&self, memory: &[u8]) {
        *self.reported() = serde_json::from_slice(memory).unwrap_or_default();
    }
}

/// Everything `doctor` has to say about the metrics API.
pub async fn diagnose(http: Http, our_clock: i64) -> Result<Vec<Finding>, SourceError> {
    let source = MetricsApi::new(http, 60);
    let now = source.now().await?;
    let window = Window { from: now - 60, to: now + 60 };
    let mut findings = vec![crate::diagnosis::clock(our_clock, now)];
    let (mut matched, mut pods, mut ages) = (0_usize, 0_usize, Vec::new());
    let mut listed = match source.metrics(None).await {
        Err(error) if error.is_permanent() => {
            let advice = "install metrics-server, and allow `list` on `pods.metrics.k8s.io`";
            findings.push(Finding::bad("metrics API", error.to_string(), advice));
            return Ok(findings);
        }
        other => other?.map(|all| vec![(None, all)]).unwrap_or_default(),
    };
    if listed.is_empty() {
        findings.push(Finding::doubtful(
            "permissions",
            "not allowed to list the pods of all namespaces and their metrics at once",
            "give this account the permissions of the Helm chart with collector.source.type=metrics-api; without them each namespace costs two calls",
        ));
        for namespace in source.namespaces(window).await? {
            if let Some(metrics) = source.metrics(Some(&namespace)).await? {
                listed.push((Some(namespace), metrics));
            }
        }
    }
    for (namespace, metrics) in listed {
        source
            .pods(namespace.as_deref(), &mut |pod| {
                pods += 1;
                let Metadata { name, namespace, .. } = &pod.metadata;
                if let Some(metrics) = metrics.get(namespace).and_then(|pods| pods.get(name)) {
                    matched += usize::from(!join(namespace, metrics, &pod, window, 60).is_empty());
                    ages.push(now - metrics.timestamp.as_second());
                }
            })
            .await?;
    }
    let found = format!("{matched} of {pods} pods are measured");
    findings.push(if matched > 0 {
        Finding::good("metrics API", found)
    } else {
        Finding::bad("metrics API", found, "look at metrics-server's log: it may not reach the kubelets")
    });
    ages.sort_unstable();
    if let Some(&age) = ages.get(ages.len() / 2) {
        let found = format!("measured {age} s ago");
        findings.push(if age <= OLDEST_SECONDS {
            Finding::good("sample age", found)
        } else {
            Finding::doubtful(
                "sample age",
                found,
                format!("older than {OLDEST_SECONDS} s is not taken: lower metrics-server's --metric-resolution"),
            )
        });
    }
    findings.push(Finding::doubtful(
        "history",
        "none: only current usage is available",
        "keep `headroom-controller collect` running; the first estimates come after an hour",
    ));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = r#"{"metadata":{"name":"web-1","uid":"u1"},
        "spec":{"containers":[{"name":"nginx","image":"nginx:1.27","resources":{"limits":{"memory":"64Mi"}}}],
                "initContainers":[{"name":"proxy","image":"envoy:1","restartPolicy":"Always"}]},
        "status":{"containerStatuses":[{"name":"nginx","state":{"running":{}},
            "lastState":{"terminated":{"reason":"OOMKilled","exitCode":137,"finishedAt":"1970-01-01T00:10:30Z"}}}],
                  "initContainerStatuses":[{"name":"proxy","state":{"terminated":{"reason":"OOMKilled","finishedAt":"1970-01-01T00:11:00Z"}}}]}}"#;
    const METRICS: &str = r#"{"metadata":{"name":"web-1"},"timestamp":"1970-01-01T00:09:50Z","window":"15.2s",
        "containers":[{"name":"nginx","usage":{"cpu":"12345678n","memory":"1234Ki"}},
                      {"name":"proxy","usage":{"cpu":"3m","memory":"7M"}},
                      {"name":"gone","usage":{"cpu":"1"}}]}"#;

    #[test]
    fn measurements_get_the_image_of_the_pods_spec() {
        let (metrics, pod) = (serde_json::from_str(METRICS).unwrap(), serde_json::from_str(POD).unwrap());
        let series = join("shop", &metrics, &pod, Window { from: 600, to: 660 }, 60);
        let reported: Vec<_> =
            series.iter().map(|series| (series.container.image.as_str(), series.resource, series.samples[0])).collect();
        let sample = |value| Sample { time: 600, value };
        assert_eq!(
            reported,
            [
                ("nginx:1.27", Resource::Cpu, sample(12_345_678)),
                ("nginx:1.27", Resource::Memory, sample(1_263_616)),
                ("envoy:1", Resource::Cpu, sample(3_000_000)),
                ("envoy:1", Resource::Memory, sample(7_000_000)),
            ]
        );
    }

    #[test]
    fn a_kill_tells_the_limit_or_else_what_was_used() {
        let pod: Pod = serde_json::from_str(POD).unwrap();
        let used = |container: &str| (container == "proxy").then_some(7_000_000);
        assert_eq!(kills(&pod, used), [("nginx", 630, 64 << 20), ("proxy", 660, 7_000_000)]);
        assert_eq!(kills(&pod, |_| None), [("nginx", 630, 64 << 20)]);
    }
}
