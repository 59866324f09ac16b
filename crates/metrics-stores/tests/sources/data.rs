//! Usage of a small cluster, generated from a seed, and the expected readings.
//!
//! True usage is by container and minute: constant CPU within the minute, and the memory at each scrape. The exporters'
//! series are derived from it, with the irregularities of a real cluster: HA pairs, resets, gaps, NaN, pause
//! containers, cgroup totals.

use std::collections::BTreeMap;
use std::fmt::Write as _;

pub use headroom_api_server::clock::now;
use headroom_fixtures::open_metrics::OpenMetrics;
use headroom_usage::sample::{Batch, OomKill, Resource, Sample, SampledContainer, Series, Window};

/// The exporters are scraped four times a minute.
pub const SCRAPE: i64 = 15;
/// The creation time of kube-system: 2026-01-02T03:04:05Z.
pub const CREATED: i64 = 1_767_323_045;

/// One container's true usage.
pub struct Container {
    pub namespace: &'static str,
    pub pod: String,
    pub name: &'static str,
    /// Images, each with its first minute.
    pub images: Vec<(usize, &'static str)>,
    /// Cores in each minute; `None` if there was no scrape.
    pub cpu: Vec<Option<f64>>,
    /// Bytes at each scrape; NaN if the exporter returned that.
    pub memory: Vec<Option<f64>>,
    /// Minutes in which the container was restarted after an out-of-memory kill.
    pub kills: Vec<usize>,
}

/// Usage from `from` on, in whole minutes.
pub struct Cluster {
    pub window: Window,
    pub containers: Vec<Container>,
}

/// Unix seconds and values.
pub type Points = Vec<(i64, f64)>;

impl Cluster {
    /// Ends at the current whole minute, so that a store has current data.
    pub fn until_now(minutes: usize) -> Self {
        let to = now().div_euclid(60) * 60;
        Self::new(Window { from: to - minutes as i64 * 60, to })
    }

    pub fn new(window: Window) -> Self {
        let minutes = (window.seconds() / 60) as usize;
        let mut containers = Vec::new();
        let mut random = fastrand::Rng::with_seed(7);
        for (namespace, pod, name, images) in [
            ("shop", "web-1", "nginx", vec![(0, "nginx:1.27")]),
            ("shop", "web-2", "nginx", vec![(0, "nginx:1.27")]),
            ("shop", "web-1", "proxy", vec![(0, "envoyproxy/envoy:v1.30")]),
            ("shop", "db-0", "postgres", vec![(0, "postgres:15"), (minutes / 2, "postgres:16")]),
            ("pay", "api-1", "api", vec![(0, "registry.example/pay/api@sha256:9b2c")]),
        ] {
            let (base, bytes) = (0.01 + random.f64(), 1e7 + 1e9 * random.f64());
            let cpu = (0..minutes).map(|_| Some(base * (0.2 + 3.0 * random.f64().powi(4)))).collect();
            let memory = (0..minutes * 4).map(|_| Some((bytes * (0.5 + random.f64().powi(3))).round())).collect();
            containers.push(Container { namespace, pod: pod.to_owned(), name, images, cpu, memory, kills: Vec::new() });
        }
        // web-2 was not scraped for a while; the exporter of api returned NaN; postgres was killed twice.
        for minute in minutes / 3..minutes / 3 + 12 {
            containers[1].cpu[minute] = None;
            containers[1].memory[minute * 4..minute * 4 + 4].fill(None);
        }
        for scrape in [9, 40, 41, 42, 43, 100] {
            containers[4].memory[scrape] = Some(f64::NAN);
        }
        containers[3].kills = vec![minutes / 4, minutes / 2 + 20];
        Self { window, containers }
    }

    /// The same with the pods of CronJobs, for six minutes each: of `report` one at a time, of `sync` two, and `move` got another
    /// image at noon.
    pub fn with_jobs(mut self) -> Self {
        let minutes = (self.window.seconds() / 60) as usize;
        for (job, twins, later_image) in [("report", 1, "job:1"), ("sync", 2, "job:1"), ("move", 1, "job:2")] {
            for start in (0..minutes - 6).step_by(40) {
                for twin in 0..twins {
                    let at = |minute: usize| (start..start + 6).contains(&minute);
                    let image = if start < minutes / 2 { "job:1" } else { later_image };
                    // Each pod uses a little more or less than others.
                    let size = 1.0 + ((start / 40 * twins + twin) * 37 % 100) as f64 / 1000.0;
                    let memory = (1e8 * size).round();
                    self.containers.push(Container {
                        namespace: "pay",
                        pod: format!("{job}-{}-x2x4{}", self.window.from / 60 + start as i64, ['b', 'c'][twin]),
                        name: "main",
                        images: vec![(0, image)],
                        cpu: (0..minutes).map(|minute| at(minute).then_some(0.1 * size)).collect(),
                        memory: (0..minutes * 4).map(|scrape| at(scrape / 4).then_some(memory)).collect(),
                        kills: Vec::new(),
                    });
                }
            }
        }
        self
    }

    /// The expected readings: cores and bytes by container, image and resource, one value for each minute with the time
    /// of its end, of memory the peak.
    pub fn expected(&self) -> BTreeMap<Key, Points> {
        self.readings(60, |container, minute| {
            let scrapes = container.memory[minute * 4..minute * 4 + 4].iter().flatten();
            scrapes.copied().filter(|bytes| !bytes.is_nan()).reduce(f64::max)
        })
    }

    /// Readings with times so many seconds after each minute began.
    pub fn readings(&self, seconds: i64, memory: impl Fn(&Container, usize) -> Option<f64>) -> BTreeMap<Key, Points> {
        let mut readings = BTreeMap::<Key, Points>::new();
        for container in &self.containers {
            for minute in 0..container.cpu.len() {
                let time = self.window.from + minute as i64 * 60 + seconds;
                let used = [(Resource::Cpu, container.cpu[minute]), (Resource::Memory, memory(container, minute))];
                for (resource, value) in used {
                    let of = readings.entry(container.key(minute, resource)).or_default();
                    of.extend(value.map(|value| (time, value)));
                }
            }
        }
        readings
    }

    /// The series as (metric, labels, points at unix seconds), each twice, as an HA pair would.
    fn series(&self) -> Vec<(&'static str, String, Points)> {
        let mut all = Vec::new();
        let creation = (self.window.from / 60 + 1..=self.window.to / 60).map(|minute| (minute * 60, CREATED as f64));
        all.push(("kube_namespace_created", r#"namespace="kube-system""#.to_owned(), creation.collect()));
        for container in &self.containers {
            let Container { namespace, pod, name, .. } = container;
            let place = format!(r#"namespace="{namespace}",pod="{pod}",container="{name}""#);
            for replica in ["a", "b"] {
                let from = format!(r#"{place},prometheus_replica="{replica}""#);
                let cpu = container.cpu_counter(self.window.from);
                let memory = container.memory_gauge(self.window.from);
                all.push(("container_cpu_usage_seconds_total", from.clone(), cpu.clone()));
                all.push(("container_memory_working_set_bytes", from.clone(), memory.clone()));
                if replica == "a" {
                    // These must not be counted: the pod's total, and its pause container.
                    for other in [r#"container="""#, r#"container="POD",image="pause:3.9""#] {
                        let labels = format!(r#"namespace="{namespace}",pod="{pod}",{other},id="/{name}""#);
                        all.push(("container_cpu_usage_seconds_total", labels.clone(), cpu.clone()));
                        all.push(("container_memory_working_set_bytes", labels, memory.clone()));
                    }
                }
                for (image, points) in container.spans(self.window.from) {
                    let labels = format!(r#"{from},image_spec="{image}",image="docker.io/library/{image}""#);
                    all.push(("kube_pod_container_info", labels, points));
                }
                let restarts = container.restarts(self.window.from);
                if !container.kills.is_empty() {
                    let killed =
                        restarts.iter().filter(|(_, count)| *count > 0.0).map(|&(time, _)| (time, 1.0)).collect();
                    let reason = format!(r#"{from},reason="OOMKilled""#);
                    all.push(("kube_pod_container_status_last_terminated_reason", reason, killed));
                    let limits = restarts.iter().map(|&(time, _)| (time, 536_870_912.0)).collect();
                    let resource = format!(r#"{from},resource="memory",unit="byte""#);
                    all.push(("kube_pod_container_resource_limits", resource, limits));
                }
                all.push(("kube_pod_container_status_restarts_total", from, restarts));
            }
        }
        all
    }

    /// In the format of `promtool`.
    pub fn open_metrics(&self) -> String {
        let mut text = OpenMetrics::default();
        self.series().into_iter().for_each(|(metric, labels, points)| text.add(metric, &labels, points));
        text.to_string()
    }

    /// In the format of VictoriaMetrics: times in milliseconds.
    pub fn exposition(&self) -> String {
        let mut text = String::new();
        for (metric, labels, points) in self.series() {
            for (time, value) in points.into_iter().filter(|(_, value)| !value.is_nan()) {
                let _ = writeln!(text, "{metric}{{{labels}}} {value} {}", time * 1000);
            }
        }
        text
    }
}

impl Container {
    pub fn image(&self, minute: usize) -> &'static str {
        self.images.iter().rev().find(|(from, _)| *from <= minute).unwrap().1
    }

    pub fn key(&self, minute: usize, resource: Resource) -> Key {
        (SampledContainer::of([self.namespace, &self.pod, self.name, self.image(minute)]), resource)
    }

    /// The counter restarts with the container, and is absent without a scrape.
    fn cpu_counter(&self, from: i64) -> Points {
        let mut points = Vec::new();
        let mut seconds = 1000.0;
        for (minute, cores) in self.cpu.iter().enumerate() {
            let Some(cores) = cores else { continue };
            let start = from + minute as i64 * 60;
            if minute == 0 || self.cpu[minute - 1].is_none() {
                points.push((start, seconds));
            }
            if self.kills.contains(&minute) {
                seconds = 0.0;
            }
            for scrape in 1..=4 {
                seconds += cores * SCRAPE as f64;
                points.push((start + scrape * SCRAPE, seconds));
            }
        }
        points
    }

    fn memory_gauge(&self, from: i64) -> Points {
        let scrapes = self.memory.iter().enumerate();
        scrapes.filter_map(|(at, bytes)| Some((from + (at as i64 + 1) * SCRAPE, (*bytes)?))).collect()
    }

    /// One point for each minute.
    fn spans(&self, from: i64) -> Vec<(&'static str, Points)> {
        let mut spans: Vec<(&str, Vec<(i64, f64)>)> = Vec::new();
        let is_there = |minute: &usize| self.cpu[*minute].is_some() || !self.pod.contains("-x2x4");
        for minute in (0..self.cpu.len()).filter(is_there) {
            let point = (from + (minute as i64 + 1) * 60, 1.0);
            match spans.last_mut() {
                Some((image, points)) if *image == self.image(minute) => points.push(point),
                _ => spans.push((self.image(minute), vec![point])),
            }
        }
        spans
    }

    fn restarts(&self, from: i64) -> Points {
        let so_far = |minute: usize| self.kills.iter().filter(|kill| **kill <= minute).count() as f64;
        (0..self.cpu.len()).map(|minute| (from + (minute as i64 + 1) * 60, so_far(minute))).collect()
    }
}

pub type Key = (SampledContainer, Resource);

/// Everything that a source returned.
#[derive(Debug, Default)]
pub struct Read {
    pub series: BTreeMap<Key, Vec<Sample>>,
    pub kills: Vec<OomKill>,
}

impl Read {
    pub fn take(&mut self, batch: Batch) {
        match batch {
            Batch::Usage(usage) => {
                for Series { container, resource, samples, .. } in usage {
                    self.series.entry((container, resource)).or_default().extend(samples);
                }
            }
            Batch::OomKills(kills) => self.kills.extend(kills),
        }
    }

    pub fn samples(&self) -> usize {
        self.series.values().map(Vec::len).sum()
    }
}

/// Nearest rank, on sorted values.
pub fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let rank = (sorted.len() as f64 * percent / 100.0).ceil().max(1.0) as usize;
    sorted[rank - 1]
}

/// Asserts that readings match usage: the same minutes, and percentiles within 1 %.
pub fn check(read: &Read, expected: &BTreeMap<Key, Points>) {
    assert_eq!(read.series.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (key, samples) in &read.series {
        let truth = &expected[key];
        let times: Vec<_> = samples.iter().map(|sample| sample.time).collect();
        let true_times: Vec<_> = truth.iter().map(|(time, _)| *time).collect();
        assert_eq!(times, true_times, "{key:?}");
        let scale = if key.1 == Resource::Cpu { 1e9 } else { 1.0 };
        let mut values: Vec<_> = samples.iter().map(|sample| sample.value as f64 / scale).collect();
        let mut true_values: Vec<_> = truth.iter().map(|(_, value)| *value).collect();
        values.sort_by(f64::total_cmp);
        true_values.sort_by(f64::total_cmp);
        for percent in [50.0, 60.0, 70.0, 75.0, 80.0, 85.0, 90.0, 95.0, 98.0, 99.0, 99.9, 100.0] {
            let (found, exact) = (percentile(&values, percent), percentile(&true_values, percent));
            assert!(
                (found - exact).abs() <= exact * 0.01,
                "{key:?}: percentile {percent} is {found}, expected {exact}"
            );
        }
    }
}
