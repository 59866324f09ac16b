//! The metrics API (`metrics.k8s.io`, which metrics-server serves), for clusters that keep no metrics.
//!
//! It has only current usage, so it is read once a step, and the collector keeps what is read. It has no images: those are in the
//! pods, as are the OOM kills. [`join`] and [`kills`] are pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use headroom_admission::json::Node;
use headroom_api_server::ApiPath;
use headroom_api_server::api_client::{ApiClient, ApiError, ListOptions, Missing};
use headroom_api_server::parts::locked;
use headroom_usage::batch::Impossible;
use headroom_usage::sample::{self, Batch, OomKill, Resource, Sample, SampledContainer, Series, Window};
use k8s_openapi::api::core::v1::{self as core, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::cluster_id::{ClusterId, KUBE_SYSTEM};
use super::{Reach, Sink, Source, SourceError};
use crate::diagnosis::{self, SourceFinding};

/// The distance of samples: the usage is read so often.
const STEP_SECONDS: u32 = 60;
/// The maximum age of a measurement in seconds: metrics-server measures every 15 s by default, and reports it later.
const MAX_AGE: i64 = 120;
/// Pods in a page of a list.
const PAGE_SIZE: u32 = 500;
const TIMEOUT: Duration = Duration::from_secs(60);

/// Kills that were reported: pod (its UID), container and time.
type ReportedKills = BTreeSet<(String, String, i64)>;

pub struct MetricsApi {
    api: ApiClient,
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

/// The usage of a pod's containers.
#[derive(Debug, Deserialize)]
pub struct PodMetrics {
    metadata: ObjectMeta,
    /// The end of the interval that was measured.
    timestamp: Time,
    #[serde(default)]
    containers: Vec<ContainerMetrics>,
}

#[derive(Debug, Deserialize)]
struct ContainerMetrics {
    name: String,
    #[serde(default)]
    usage: BTreeMap<String, Quantity>,
}

/// PodMetrics by namespace and pod.
type Measured = HashMap<(String, String), PodMetrics>;

fn names(metadata: &ObjectMeta) -> (String, String) {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

fn container<'p>(pod: &'p Pod, name: &str) -> Option<&'p core::Container> {
    let spec = pod.spec.as_ref()?;
    spec.containers.iter().chain(spec.init_containers.iter().flatten()).find(|container| container.name == name)
}

/// The samples of one measurement, without those of containers that the pod does not have.
pub fn join(metrics: &PodMetrics, pod: &Pod, window: Window) -> Vec<Series> {
    // A measurement was made a little before it is reported. It counts in the window of the report.
    let time = metrics.timestamp.0.as_second().clamp(window.from, window.to - 1);
    let (namespace, name) = names(&pod.metadata);
    let mut all = Vec::new();
    for measured in &metrics.containers {
        let Some(container) = container(pod, &measured.name) else { continue };
        for (resource, key) in [(Resource::Cpu, "cpu"), (Resource::Memory, "memory")] {
            let Some(value) = measured.usage.get(key).and_then(|quantity| amount(quantity, resource)) else { continue };
            let image = container.image.as_deref().unwrap_or_default();
            let container = SampledContainer::of([&namespace, &name, &measured.name, image]);
            let samples = vec![Sample { time, value, seconds: STEP_SECONDS.into() }];
            all.push(Series { container, resource, samples });
        }
    }
    all
}

/// Whole nanocores or bytes.
fn amount(quantity: &Quantity, resource: Resource) -> Option<u64> {
    sample::amount(resource, &quantity.0.parse().ok()?)
}

/// The OOM kills in a pod's status, which has the last two ends of each container: name, time, and the memory limit or usage.
pub fn kills(pod: &Pod, used: impl Fn(&str) -> Option<u64>) -> Vec<(&str, i64, u64)> {
    let Some(status) = &pod.status else { return Vec::new() };
    let statuses = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let mut kills = Vec::new();
    for status in statuses {
        let ends = [&status.last_state, &status.state].map(|state| state.as_ref()?.terminated.as_ref());
        for end in ends.into_iter().flatten() {
            let (Some(at), Some("OOMKilled")) = (&end.finished_at, end.reason.as_deref()) else { continue };
            let limits =
                container(pod, &status.name).and_then(|container| container.resources.as_ref()?.limits.as_ref());
            let limit = limits.and_then(|limits| amount(limits.get("memory")?, Resource::Memory));
            let memory = limit.or_else(|| used(&status.name));
            kills.extend(memory.map(|memory| (status.name.as_str(), at.0.as_second(), memory)));
        }
    }
    kills
}

impl MetricsApi {
    pub fn new(client: kube::Client) -> Self {
        Self { api: ApiClient::new(client).with_timeout(TIMEOUT), reported: Mutex::default() }
    }

    /// Lists the objects of a collection. False if that is forbidden.
    async fn list<T: DeserializeOwned>(&self, path: &ApiPath, mut each: impl FnMut(T)) -> Result<bool, SourceError> {
        let mut unreadable = None;
        let options = ListOptions { page_size: PAGE_SIZE, ..ListOptions::WHOLE };
        let listed = self.api.for_each(path, options, |object| match serde_json::from_str(object.text()) {
            Ok(object) => each(object),
            Err(error) => unreadable = Some(error),
        });
        match (listed.await, unreadable) {
            (Ok(_), None) => Ok(true),
            (Ok(_), Some(error)) => Err(SourceError::Permanent(format!("{path} has an unreadable object: {error}"))),
            (Err(ApiError::Forbidden { .. }), _) => Ok(false),
            (Err(error), _) => Err(error.into()),
        }
    }

    /// None if they may not be listed.
    async fn metrics(&self, namespace: Option<&str>) -> Result<Option<Measured>, SourceError> {
        let mut measured = Measured::new();
        let path = ApiPath::new("/apis/metrics.k8s.io/v1beta1").collection(namespace, "pods");
        let listed = self.list(&path, |pod: PodMetrics| _ = measured.insert(names(&pod.metadata), pod));
        Ok(listed.await?.then_some(measured))
    }

    /// False if they may not be listed.
    async fn pods(&self, namespace: Option<&str>, each: impl FnMut(Pod)) -> Result<bool, SourceError> {
        self.list(&ApiPath::new("/api/v1").collection(namespace, "pods"), each).await
    }

    /// Reads one namespace, or all. None if that is forbidden.
    async fn look(
        &self,
        namespace: Option<&str>,
        window: Window,
        sink: Sink<'_>,
    ) -> Result<Option<Reported>, SourceError> {
        let Some(metrics) = self.metrics(namespace).await? else { return Ok(None) };
        let before = locked(&self.reported).clone();
        let mut after = Reported::default();
        let allowed = self.pods(namespace, |pod| after.take(&before, &pod, &metrics, window, &mut *sink)).await?;
        Ok(allowed.then_some(after))
    }
}

impl From<ApiError> for SourceError {
    fn from(error: ApiError) -> Self {
        let text = format!("the API server: {error}");
        match error {
            ApiError::NotFound(Missing::Kind) => Self::Permanent(
                "there is no metrics API: install metrics-server, or read from a metrics store".to_owned(),
            ),
            ApiError::Forbidden { .. } | ApiError::Unauthenticated { .. } => Self::Forbidden(text),
            error if error.is_passing() => Self::Temporary(text),
            _ => Self::Permanent(text),
        }
    }
}

impl Reported {
    /// Hands over what was not reported before, and notes all.
    fn take(&mut self, before: &Self, pod: &Pod, metrics: &Measured, window: Window, sink: Sink<'_>) {
        let of_pod = names(&pod.metadata);
        let metrics = metrics.get(&of_pod);
        let (namespace, name) = of_pod;
        let oldest = window.from - MAX_AGE;
        if let Some(metrics) = metrics {
            let at = metrics.timestamp.0.as_second();
            let reported = before.measurements.get(&namespace).and_then(|pods| pods.get(&name));
            if reported != Some(&at) && at >= oldest {
                sink(Batch::Usage(join(metrics, pod, window)));
            }
            self.measurements.entry(namespace.clone()).or_default().insert(name.clone(), at);
        }
        let used = |container: &str| {
            let measured = metrics?.containers.iter().find(|measured| measured.name == container)?;
            amount(measured.usage.get("memory")?, Resource::Memory)
        };
        let reported = before.kills.get(&namespace);
        for (killed, at, memory) in kills(pod, used) {
            let key = (pod.metadata.uid.clone().unwrap_or_default(), killed.to_owned(), at);
            if at >= oldest && !reported.is_some_and(|reported| reported.contains(&key)) {
                let image = container(pod, killed).and_then(|container| container.image.clone()).unwrap_or_default();
                let (namespace, pod, killed) = (namespace.clone(), name.clone(), killed.to_owned());
                let container = SampledContainer { namespace, pod, name: killed, image };
                let at = at.clamp(window.from, window.to - 1);
                sink(Batch::OomKills(vec![OomKill { container, at, memory }]));
            }
            self.kills.entry(namespace.clone()).or_default().insert(key);
        }
    }
}

#[async_trait]
impl Source for MetricsApi {
    async fn cluster(&self) -> Result<ClusterId, SourceError> {
        let kube_system = self.api.find(&ApiPath::new("/api/v1/namespaces").at(KUBE_SYSTEM)).await?;
        Ok(ClusterId::of(&kube_system.unwrap_or_default()))
    }

    async fn now(&self) -> Result<i64, SourceError> {
        Ok(self.api.time().await?)
    }

    async fn namespaces(&self, _window: Window) -> Result<Vec<String>, SourceError> {
        let path = ApiPath::new("/api/v1/namespaces");
        let name = |namespace: Node<'_>| Some(namespace.at(&["metadata", "name"]).ok()??.str().ok()?.into_owned());
        Ok(self.api.list(&path, ListOptions::METADATA, name).await?.1)
    }

    async fn read(&self, namespaces: &[&str], window: Window, sink: Sink<'_>) -> Result<(), SourceError> {
        for &namespace in namespaces {
            let Some(mut after) = self.look(Some(namespace), window, &mut *sink).await? else {
                return Err(SourceError::Permanent(format!(
                    "not allowed to list pods and their metrics in namespace `{namespace}`: give this account the \
                     permissions of the Helm chart with collector.source.type=metrics-api"
                )));
            };
            let mut reported = locked(&self.reported);
            reported
                .measurements
                .insert(namespace.to_owned(), after.measurements.remove(namespace).unwrap_or_default());
            reported.kills.insert(namespace.to_owned(), after.kills.remove(namespace).unwrap_or_default());
        }
        Ok(())
    }

    async fn read_all(&self, window: Window, sink: Sink<'_>) -> Result<bool, SourceError> {
        let Some(after) = self.look(None, window, sink).await? else { return Ok(false) };
        *locked(&self.reported) = after;
        Ok(true)
    }

    fn step_seconds(&self) -> u32 {
        STEP_SECONDS
    }

    fn reach(&self) -> Reach {
        Reach::Present
    }

    fn memory(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(&*locked(&self.reported)).ok()
    }

    fn remember(&self, memory: &[u8]) {
        *locked(&self.reported) = serde_json::from_slice(memory).unwrap_or_default();
    }
}

/// The findings of `doctor` about the metrics API.
pub async fn diagnose(client: kube::Client, our_clock: i64) -> Result<Vec<SourceFinding>, SourceError> {
    let source = MetricsApi::new(client);
    let now = source.now().await?;
    let window = Window { from: now - 60, to: now + 60 };
    let mut findings = vec![diagnosis::clock(our_clock, now)];
    let (mut matched, mut pods, mut ages, mut impossible) = (0_usize, 0_usize, Vec::new(), Impossible::default());
    let mut listed = match source.metrics(None).await {
        Err(error) if error.is_permanent() => {
            let advice = "install metrics-server, and allow `list` on `pods.metrics.k8s.io`";
            findings.push(SourceFinding::bad("metrics API", error.to_string(), advice));
            return Ok(findings);
        }
        other => other?.map(|all| vec![(None, all)]).unwrap_or_default(),
    };
    if listed.is_empty() {
        findings.push(SourceFinding::doubtful(
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
        let count = |pod: Pod| {
            pods += 1;
            if let Some(metrics) = metrics.get(&names(&pod.metadata)) {
                let measured = join(metrics, &pod, window);
                measured.iter().for_each(|series| impossible.check_series(series));
                matched += usize::from(!measured.is_empty());
                ages.push(now - metrics.timestamp.0.as_second());
            }
        };
        source.pods(namespace.as_deref(), count).await?;
    }
    let found = format!("{matched} of {pods} pods are measured");
    findings.push(if matched > 0 {
        SourceFinding::good("metrics API", found)
    } else {
        SourceFinding::bad("metrics API", found, "look at metrics-server's log: it may not reach the kubelets")
    });
    if let Some(age) = diagnosis::median(ages) {
        let found = format!("measured {age} s ago");
        findings.push(if age <= MAX_AGE {
            SourceFinding::good("sample age", found)
        } else {
            let advice = format!("older than {MAX_AGE} s is not read: lower metrics-server's --metric-resolution");
            SourceFinding::doubtful("sample age", found, advice)
        });
    }
    findings.extend(diagnosis::impossible(&impossible));
    findings.push(SourceFinding::doubtful(
        "history",
        "none: only current usage is available",
        "keep `headroom-controller collect` running; the first estimates come after an hour",
    ));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = r#"{"metadata":{"name":"web-1","namespace":"shop","uid":"u1"},
        "spec":{"containers":[{"name":"nginx","image":"nginx:1.27","resources":{"limits":{"memory":"64Mi"}}}],
                "initContainers":[{"name":"proxy","image":"envoy:1","restartPolicy":"Always"}]},
        "status":{"containerStatuses":[{"name":"nginx","state":{"running":{}},
            "lastState":{"terminated":{"reason":"OOMKilled","exitCode":137,"finishedAt":"1970-01-01T00:10:30Z"}}}],
                  "initContainerStatuses":[{"name":"proxy","state":{"terminated":{"reason":"OOMKilled","exitCode":137,"finishedAt":"1970-01-01T00:11:00Z"}}}]}}"#;
    const METRICS: &str = r#"{"metadata":{"name":"web-1"},"timestamp":"1970-01-01T00:09:50Z","window":"15.2s",
        "containers":[{"name":"nginx","usage":{"cpu":"12345678n","memory":"1234Ki"}},
                      {"name":"proxy","usage":{"cpu":"3m","memory":"7M"}},
                      {"name":"gone","usage":{"cpu":"1"}}]}"#;

    #[test]
    fn amounts_that_nobody_counts_hide_no_others() {
        for odd in ["1e30", "-1e30", "1e400", "many", ""] {
            let metrics = METRICS.replace("12345678n", odd).replace("1234Ki", odd);
            let pod: Pod = serde_json::from_str(&POD.replace("64Mi", odd)).unwrap();
            let metrics: PodMetrics = serde_json::from_str(&metrics).unwrap();
            let series = join(&metrics, &pod, Window { from: 600, to: 660 });
            let images: Vec<&str> = series.iter().map(|series| series.container.image.as_str()).collect();
            assert_eq!(images, ["envoy:1", "envoy:1"], "{odd}");
            assert_eq!(kills(&pod, |name| (name == "proxy").then_some(1)), [("proxy", 660, 1)], "{odd}");
        }
    }
}
