//! What the metrics and labels are called.
//!
//! The names follow cAdvisor and kube-state-metrics; installations differ in a few well-known ways (old label names,
//! labels moved aside by a scrape without `honor_labels`, recording rules), and any name can be set by hand. Which of
//! the candidates a store really has is found by asking it: see `probe`.

use super::selector::{Match, Matchers};

/// Names set by hand; `None` is probed.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    pub cpu_metric: Option<String>,
    pub memory_metric: Option<String>,
    pub storage_metric: Option<String>,
    /// The CPU metric is a recording rule whose values are cores already, not a counter of seconds.
    pub cpu_is_rate: bool,
    pub info_metric: Option<String>,
    pub namespace_label: Option<String>,
    pub pod_label: Option<String>,
    pub container_label: Option<String>,
    pub image_label: Option<String>,
    pub info_namespace_label: Option<String>,
    pub info_pod_label: Option<String>,
    pub info_container_label: Option<String>,
    pub info_image_label: Option<String>,
}

/// The labels that say which container a series is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub namespace: String,
    pub pod: String,
    pub container: String,
}

impl Place {
    fn of(namespace: &str, pod: &str, container: &str) -> Self {
        Self { namespace: namespace.to_owned(), pod: pod.to_owned(), container: container.to_owned() }
    }

    fn overridden(mut self, namespace: Option<&String>, pod: Option<&String>, container: Option<&String>) -> Self {
        namespace.inspect(|&label| self.namespace.clone_from(label));
        pod.inspect(|&label| self.pod.clone_from(label));
        container.inspect(|&label| self.container.clone_from(label));
        self
    }
}

/// The names a store uses, as found and set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    pub cpu: Option<Cpu>,
    pub memory: Option<String>,
    /// Of ephemeral storage, where that is wanted.
    pub storage: Option<String>,
    pub usage: Place,
    /// Matches the series of the job that may say what containers use.
    pub usage_job: Matchers,
    /// The label with the image on the usage series themselves.
    pub usage_image: Option<String>,
    /// What kube-state-metrics tells of containers, if it is there.
    pub state: Option<State>,
    /// When it was seen last, if it has gone and may come back.
    pub state_away_since: Option<i64>,
    /// How far apart the store's own samples are.
    pub scrape_seconds: u32,
    /// The store is a VictoriaMetrics.
    pub metrics_ql: bool,
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
    pub place: Place,
    pub image: String,
    /// Matches the series of kube-state-metrics' job.
    pub job: Matchers,
}

pub const CPU: &str = "container_cpu_usage_seconds_total";
pub const MEMORY: &str = "container_memory_working_set_bytes";
const STORAGE: &str = "container_fs_usage_bytes";
/// What Google's clusters tell of themselves, which Google Cloud Monitoring answers as PromQL too.
const GOOGLE_CPU: &str = "kubernetes_io:container_cpu_core_usage_time";
const GOOGLE_MEMORY: &str = "kubernetes_io:container_memory_used_bytes";
const GOOGLE_STORAGE: &str = "kubernetes_io:container_ephemeral_storage_used_bytes";
/// Google adds to each series what it knows of the container.
const GOOGLE_IMAGE: &str = "metadata_system_container_image";
pub const INFO: &str = "kube_pod_container_info";
pub const INIT_INFO: &str = "kube_pod_init_container_info";

/// The matchers for every selector of a metric that has several series for a container: of Google's memory, the part that
/// the kernel cannot take back counts, which is the working set.
pub fn own_matchers(metric: &str) -> Matchers {
    let all = Matchers::default();
    if metric == GOOGLE_MEMORY { all.and("memory_type", Match::Is("non-evictable")) } else { all }
}

/// Names of usage metrics that go together, and how they may be labelled.
#[derive(Debug, Clone)]
pub struct Usage {
    pub cpu: Cpu,
    pub memory: String,
    pub storage: String,
    pub places: Vec<Place>,
}

impl Overrides {
    /// What usage may be called, likeliest first. Google Cloud Monitoring knows it even where nothing is scraped.
    pub fn usages(&self, of_google: bool) -> Vec<Usage> {
        let storage = |usual: &str| self.storage_metric.clone().unwrap_or_else(|| usual.to_owned());
        let mut usages = vec![Usage {
            cpu: self.cpu(),
            memory: self.memory(),
            storage: storage(STORAGE),
            places: self.usage_places(),
        }];
        if of_google && self.cpu_metric.is_none() && self.memory_metric.is_none() {
            let cpu = Cpu { metric: GOOGLE_CPU.to_owned(), is_rate: false };
            let place = Place::of("namespace_name", "pod_name", "container_name");
            let labels = [self.namespace_label.as_ref(), self.pod_label.as_ref(), self.container_label.as_ref()];
            let (memory, storage) = (GOOGLE_MEMORY.to_owned(), storage(GOOGLE_STORAGE));
            usages.push(Usage { cpu, memory, storage, places: self.places(&[place], labels) });
        }
        usages
    }

    pub fn cpu(&self) -> Cpu {
        Cpu { metric: self.cpu_metric.clone().unwrap_or_else(|| CPU.to_owned()), is_rate: self.cpu_is_rate }
    }

    pub fn memory(&self) -> String {
        self.memory_metric.clone().unwrap_or_else(|| MEMORY.to_owned())
    }

    /// How the usage series may be labelled, likeliest first.
    pub fn usage_places(&self) -> Vec<Place> {
        // `exported_` comes first: where it exists, the plain labels are those of the scraped pod (the exporter).
        self.places(
            &[
                Place::of("exported_namespace", "exported_pod", "exported_container"),
                Place::of("namespace", "pod", "container"),
                Place::of("namespace", "pod_name", "container_name"),
                Place::of("kubernetes_namespace", "kubernetes_pod_name", "container_name"),
            ],
            [self.namespace_label.as_ref(), self.pod_label.as_ref(), self.container_label.as_ref()],
        )
    }

    /// How kube-state-metrics' series may be labelled.
    pub fn state_places(&self) -> Vec<Place> {
        self.places(
            &[
                Place::of("exported_namespace", "exported_pod", "exported_container"),
                Place::of("namespace", "pod", "container"),
            ],
            [self.info_namespace_label.as_ref(), self.info_pod_label.as_ref(), self.info_container_label.as_ref()],
        )
    }

    fn places(&self, usual: &[Place], [namespace, pod, container]: [Option<&String>; 3]) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::new();
        for place in usual {
            let place = place.clone().overridden(namespace, pod, container);
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places
    }

    pub fn usage_images(&self) -> Vec<String> {
        self.image_label.clone().map_or_else(|| vec!["image".to_owned(), GOOGLE_IMAGE.to_owned()], |label| vec![label])
    }

    pub fn info(&self) -> String {
        self.info_metric.clone().unwrap_or_else(|| INFO.to_owned())
    }

    /// `image_spec` is what the pod's spec says, which is what an admission request will hold; `image` is what the
    /// runtime made of it, and all that old versions tell.
    pub fn state_images(&self) -> Vec<String> {
        self.info_image_label
            .clone()
            .map_or_else(|| vec!["image_spec".to_owned(), "image".to_owned()], |label| vec![label])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_set_by_hand_leaves_fewer_candidates() {
        let overrides = Overrides {
            namespace_label: Some("ns".into()),
            pod_label: Some("p".into()),
            container_label: Some("c".into()),
            ..Overrides::default()
        };
        assert_eq!(overrides.usage_places(), [Place::of("ns", "p", "c")]);
        let overrides = Overrides { container_label: Some("c".into()), ..Overrides::default() };
        assert_eq!(overrides.usage_places().len(), 4);
        let overrides =
            Overrides { namespace_label: Some("ns".into()), container_label: Some("c".into()), ..Overrides::default() };
        assert_eq!(
            overrides.usage_places(),
            [
                Place::of("ns", "exported_pod", "c"),
                Place::of("ns", "pod", "c"),
                Place::of("ns", "pod_name", "c"),
                Place::of("ns", "kubernetes_pod_name", "c"),
            ]
        );
    }
}
