//! The names of metrics and labels.
//!
//! The names follow cAdvisor and kube-state-metrics; installations differ in a few well-known ways (old label names,
//! labels moved aside by a scrape without `honor_labels`, recording rules), and any name can be set by hand. Which of
//! the candidates a store really has is found by asking it: see `probe`.

use serde::{Deserialize, Serialize};

use super::selector::{Match, Matchers};

/// Metrics that a user names; the others are detected.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct MetricNames {
    pub cpu: Option<String>,
    /// The CPU metric is a recording rule whose values are cores already, not a counter of seconds.
    pub cpu_is_rate: bool,
    pub memory: Option<String>,
    pub storage: Option<String>,
    pub info: Option<String>,
}

/// Labels that a user names; the others are detected.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Labels {
    pub namespace: Option<String>,
    pub pod: Option<String>,
    pub container: Option<String>,
    pub image: Option<String>,
}

/// All names that a user gives.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    pub metrics: MetricNames,
    pub labels: Labels,
    /// The labels of kube-state-metrics.
    pub info_labels: Labels,
}

/// The labels that say which container a series is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerLabels {
    pub namespace: String,
    pub pod: String,
    pub container: String,
}

impl ContainerLabels {
    pub fn of(labels: [&str; 3]) -> Self {
        let [namespace, pod, container] = labels.map(str::to_owned);
        Self { namespace, pod, container }
    }

    /// The labels as a grouping names them.
    pub fn labels(&self) -> String {
        let Self { namespace, pod, container } = self;
        format!("{namespace}, {pod}, {container}")
    }
}

/// The names a store uses, as found and set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    pub cpu: Option<Cpu>,
    pub memory: Option<String>,
    /// The metric of ephemeral storage, if it is read.
    pub storage: Option<String>,
    pub usage: ContainerLabels,
    /// Matches the series of the job that may say what containers use.
    pub usage_job: Matchers,
    /// The label with the image on the usage series themselves.
    pub usage_image: Option<String>,
    /// The names of kube-state-metrics, if it is there.
    pub state: Option<State>,
    /// The last time that kube-state-metrics was seen, if it is away and may come back.
    pub state_away_since: Option<i64>,
    pub scrape_seconds: u32,
    /// The store is a VictoriaMetrics.
    pub metrics_ql: bool,
    /// Memory of some containers is swapped.
    pub swaps: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpu {
    pub metric: String,
    /// Cores, instead of a counter of seconds.
    pub is_rate: bool,
}

/// kube-state-metrics' series. The metric names besides `info` have no rivals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub info: String,
    pub place: ContainerLabels,
    pub image: String,
    /// Matches the series of kube-state-metrics' job.
    pub job: Matchers,
}

pub const CPU: &str = "container_cpu_usage_seconds_total";
pub const MEMORY: &str = "container_memory_working_set_bytes";
/// Memory that was swapped, which the working set is without.
pub const SWAP: &str = "container_memory_swap";
const STORAGE: &str = "container_fs_usage_bytes";
/// Google Cloud Monitoring's own metrics of GKE, which it answers as PromQL.
pub const GOOGLE_CPU: &str = "kubernetes_io:container_cpu_core_usage_time";
pub const GOOGLE_MEMORY: &str = "kubernetes_io:container_memory_used_bytes";
const GOOGLE_STORAGE: &str = "kubernetes_io:container_ephemeral_storage_used_bytes";
pub const GOOGLE_PLACE: [&str; 3] = ["namespace_name", "pod_name", "container_name"];
/// Google adds to each series what it knows of the container.
const GOOGLE_IMAGE: &str = "metadata_system_container_image";
/// The usual labels.
pub const PLACE: [&str; 3] = ["namespace", "pod", "container"];
/// Where these exist, the plain labels are those of the scraped pod (the exporter).
const EXPORTED_PLACE: [&str; 3] = ["exported_namespace", "exported_pod", "exported_container"];
pub const INFO: &str = "kube_pod_container_info";
pub const INIT_INFO: &str = "kube_pod_init_container_info";

/// The matchers for every selector of a metric that has several series for a container: of Google's memory, the part that
/// the kernel cannot take back counts, which is the working set.
pub fn own_matchers(metric: &str) -> Matchers {
    let all = Matchers::default();
    if metric == GOOGLE_MEMORY { all.and("memory_type", Match::Is("non-evictable")) } else { all }
}

/// True if series of a usage metric are of a scrape job. Recording rules and clouds' own metrics have none.
pub fn has_job(metric: &str) -> bool {
    metric.starts_with("container_")
}

/// Names of usage metrics that go together, and their labels.
#[derive(Debug, Clone)]
pub struct UsageNames {
    pub cpu: Cpu,
    pub memory: String,
    pub storage: String,
    pub place: ContainerLabels,
}

impl Overrides {
    /// The possible names of usage, the likeliest first. Google Cloud Monitoring has its own even if nothing is scraped.
    pub fn usages(&self, of_google: bool) -> Vec<UsageNames> {
        let mut usages = Vec::new();
        let mut add = |cpu: Cpu, memory: String, storage: &str, places: Vec<ContainerLabels>| {
            let storage = self.metrics.storage.clone().unwrap_or_else(|| storage.to_owned());
            let names =
                |place| UsageNames { cpu: cpu.clone(), memory: memory.clone(), storage: storage.clone(), place };
            usages.extend(places.into_iter().map(names));
        };
        add(self.cpu(), self.memory(), STORAGE, self.usage_places());
        if of_google && self.metrics.cpu.is_none() && self.metrics.memory.is_none() {
            let cpu = Cpu { metric: GOOGLE_CPU.to_owned(), is_rate: false };
            add(cpu, GOOGLE_MEMORY.to_owned(), GOOGLE_STORAGE, places(&[GOOGLE_PLACE], &self.labels));
        }
        usages
    }

    pub fn cpu(&self) -> Cpu {
        Cpu { metric: self.metrics.cpu.clone().unwrap_or_else(|| CPU.to_owned()), is_rate: self.metrics.cpu_is_rate }
    }

    pub fn memory(&self) -> String {
        self.metrics.memory.clone().unwrap_or_else(|| MEMORY.to_owned())
    }

    /// The possible labels of usage series, the likeliest first.
    pub fn usage_places(&self) -> Vec<ContainerLabels> {
        let old = ["namespace", "pod_name", "container_name"];
        let relabelled = ["kubernetes_namespace", "kubernetes_pod_name", "container_name"];
        places(&[EXPORTED_PLACE, PLACE, old, relabelled], &self.labels)
    }

    pub fn usage_images(&self) -> Vec<String> {
        images(["image", GOOGLE_IMAGE], &self.labels)
    }

    pub fn info(&self) -> String {
        self.metrics.info.clone().unwrap_or_else(|| INFO.to_owned())
    }

    /// The possible names of kube-state-metrics, the likeliest first. `image_spec` is what the pod's spec says, which is what an
    /// admission request will hold; `image` is what the runtime made of it, and the only label of old versions.
    pub fn states(&self) -> Vec<State> {
        let mut states = Vec::new();
        for place in places(&[EXPORTED_PLACE, PLACE], &self.info_labels) {
            let images = images(["image_spec", "image"], &self.info_labels).into_iter();
            let state = |image| State { info: self.info(), place: place.clone(), image, job: Matchers::default() };
            states.extend(images.map(state));
        }
        states
    }
}

/// The usual labels of images, or the one that a user names.
fn images(usual: [&str; 2], labels: &Labels) -> Vec<String> {
    labels.image.clone().map_or_else(|| usual.map(str::to_owned).into(), |label| vec![label])
}

/// The usual labels, but for those that a user names.
fn places(usual: &[[&str; 3]], labels: &Labels) -> Vec<ContainerLabels> {
    let mut places = Vec::new();
    for [namespace, pod, container] in usual {
        let place = ContainerLabels::of([
            labels.namespace.as_deref().unwrap_or(namespace),
            labels.pod.as_deref().unwrap_or(pod),
            labels.container.as_deref().unwrap_or(container),
        ]);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_set_by_hand_leaves_fewer_candidates() {
        let places = |namespace: Option<&str>, pod: Option<&str>, container: Option<&str>| {
            let [namespace, pod, container] = [namespace, pod, container].map(|label| label.map(str::to_owned));
            let labels = Labels { namespace, pod, container, image: None };
            Overrides { labels, ..Overrides::default() }.usage_places()
        };
        assert_eq!(places(Some("ns"), Some("p"), Some("c")), [ContainerLabels::of(["ns", "p", "c"])]);
        assert_eq!(places(None, None, Some("c")).len(), 4);
        let pods = ["exported_pod", "pod", "pod_name", "kubernetes_pod_name"];
        assert_eq!(places(Some("ns"), None, Some("c")), pods.map(|pod| ContainerLabels::of(["ns", pod, "c"])));
    }
}
