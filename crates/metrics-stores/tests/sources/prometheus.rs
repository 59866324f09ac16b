//! Against a real Prometheus, and a real VictoriaMetrics, whose Prometheus API differs in details.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use headroom_admission::cluster::usage::workload;
use headroom_fixtures::http::{FakeServer, answer};
use headroom_fixtures::servers::{self, PrometheusServer, Server};
use headroom_metrics_stores::diagnosis::{SourceFinding, SourceVerdict};
use headroom_metrics_stores::http::{Endpoint, Http};
use headroom_metrics_stores::prometheus::reader::{ContainerRef, PodSelection, UsageGroup};
use headroom_metrics_stores::prometheus::{Matchers, Prometheus, PrometheusOptions, StoreReader, detect, diagnose};
use headroom_metrics_stores::{Source, SourceError};
use headroom_usage::DAY;
use headroom_usage::sample::{OomKill, Resource, Sample, SampledContainer, Series, Window};

use crate::data::{self, Cluster, Read};

pub fn options(url: String) -> PrometheusOptions {
    PrometheusOptions::new(Endpoint::new(url))
}

/// A store that was asked nothing yet.
pub fn new_source(options: PrometheusOptions) -> Prometheus {
    Prometheus::new(Http::new(&options.endpoint).unwrap(), options)
}

/// Reads a span like the pipeline: window by window, namespace by namespace.
pub async fn read(source: &impl Source, span: Window, window_seconds: i64) -> Read {
    let mut read = Read::default();
    let mut from = span.from;
    while from < span.to {
        let window = Window { from, to: (from + window_seconds).min(span.to) };
        for namespace in source.namespaces(window).await.unwrap() {
            source.read(&[&namespace], window, &mut |batch| read.take(batch)).await.unwrap();
        }
        from = window.to;
    }
    read
}

/// Sample times are ends of minutes, so the last one is in the minute after the span.
fn shifted(window: Window) -> Window {
    Window { from: window.from + 60, to: window.to + 60 }
}

fn start(history: impl Into<String>) -> Server {
    PrometheusServer { history: history.into(), ..PrometheusServer::default() }.start()
}

async fn findings(options: &PrometheusOptions) -> Vec<SourceFinding> {
    diagnose(Http::new(&options.endpoint).unwrap(), options, data::now()).await.unwrap()
}

fn of_subject<'f>(findings: &'f [SourceFinding], subject: &str) -> &'f SourceFinding {
    findings.iter().find(|finding| finding.subject == subject).unwrap()
}

fn check_refused<T>(result: Result<T, SourceError>, words: &str) {
    let error = result.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains(words), "{error}");
}

#[tokio::test]
async fn readings_match_usage_and_doctor_lists_what_it_found() {
    let cluster = Cluster::until_now(360);
    let server = start(cluster.open_metrics());
    let source = new_source(options(server.url()));
    let now = source.now().await.unwrap();
    assert!((now - cluster.window.to).abs() < 300, "{now}");
    assert_eq!(source.cluster().await.unwrap().created, Some(data::CREATED));
    assert_eq!(source.namespaces(shifted(cluster.window)).await.unwrap(), ["pay", "shop"]);

    // With any window size, nothing is lost and nothing is read twice.
    for window in [360 * 60, 17 * 60] {
        let found = read(&source, shifted(cluster.window), window).await;
        data::check(&found, &cluster.expected());
        check_kills(&cluster, &found.kills);
    }
    check_hours(server.url(), shifted(cluster.window)).await;

    let findings = findings(&options(server.url())).await;
    let reported: Vec<_> =
        findings.iter().map(|finding| (finding.verdict, finding.subject, finding.found.as_str())).collect();
    assert_eq!((reported[0].0, reported[0].1), (SourceVerdict::Good, "clock"));
    assert_eq!(
        reported[1..8],
        [
            (SourceVerdict::Good, "memory metric", "`container_memory_working_set_bytes`, 5 containers"),
            (SourceVerdict::Good, "cpu metric", "`container_cpu_usage_seconds_total`, 5 containers"),
            (SourceVerdict::Good, "usage labels", "`namespace`, `pod`, `container`"),
            (SourceVerdict::Good, "cluster", "one (kube-system created 2026-01-02T03:04:05Z)"),
            (
                SourceVerdict::Good,
                "image",
                "`image_spec` of `kube_pod_container_info`, 5 containers, labels `namespace`, `pod`, `container`"
            ),
            (SourceVerdict::Good, "sample interval", "15 s; cpu is averaged over 60 s"),
            (SourceVerdict::Good, "oom kills", "`kube_pod_container_status_restarts_total`, 5 containers"),
        ]
    );
    let matched = &findings[8];
    assert!(matched.verdict == SourceVerdict::Good && matched.found.starts_with("5 of 5 containers"), "{matched:?}");
    assert_eq!((findings[9].verdict, findings[9].found.as_str()), (SourceVerdict::Doubtful, "less than 1 d"));
}

#[tokio::test]
async fn readings_of_victoria_metrics_match_usage() {
    let cluster = Cluster::until_now(240);
    let server = servers::victoria_metrics(&cluster.exposition());
    let source = new_source(options(server.url()));
    let span = shifted(cluster.window);
    let found = read(&source, span, 4 * 3600).await;
    data::check(&found, &cluster.expected());
    assert_eq!(found.kills.len(), 2);
    data::check(&read(&source, span, 31 * 60).await, &cluster.expected());
    // It answers nothing about the last half minute.
    check_hours(server.url(), Window { to: span.to - 120, ..span }).await;
}

#[tokio::test]
async fn one_image_is_read_alone() {
    let from = data::now().div_euclid(DAY) * DAY - DAY;
    let cluster = Cluster::new(Window { from, to: from + DAY + 3600 });
    let server = start(cluster.open_metrics());
    let asked = PrometheusOptions { as_of: Some(from + DAY + 1800), ..options(server.url()) };
    let of_image = |image: &str| PrometheusOptions { image: Some(image.to_owned()), ..asked.clone() };
    let whole = new_source(asked.clone());
    for (image, namespaces) in [("nginx", ["shop"]), ("postgres", ["shop"]), ("api", ["pay"])] {
        let source = new_source(of_image(image));
        for window in [Window { from, to: from + DAY }, Window { from: from + 60, to: from + DAY / 2 }] {
            assert_eq!(source.namespaces(window).await.unwrap(), namespaces);
            let (mut found, mut all) = (Read::default(), Read::default());
            source.read(&namespaces, window, &mut |batch| found.take(batch)).await.unwrap();
            whole.read(&namespaces, window, &mut |batch| all.take(batch)).await.unwrap();
            all.series.retain(|(container, _), _| container.image.contains(image));
            all.kills.retain(|kill| kill.container.image.contains(image));
            assert!(!all.series.is_empty() && found.series.keys().eq(all.series.keys()), "{image}: {found:?}");
            assert_eq!(found.kills, all.kills);
            // A day of `nginx` is read by percentiles, but not that of its whole namespace.
            assert!(window.seconds() == DAY || amounts(found) == amounts(all), "{image}");
        }
    }
}

fn check_kills(cluster: &Cluster, kills: &[OomKill]) {
    let mut expected = Vec::new();
    for container in &cluster.containers {
        for minute in &container.kills {
            let at = cluster.window.from + (*minute as i64 + 1) * 60;
            expected.push((container.pod.as_str(), container.image(*minute), at, 536_870_912));
        }
    }
    let mut found: Vec<_> = kills
        .iter()
        .map(|kill| (kill.container.pod.as_str(), kill.container.image.as_str(), kill.at, kill.memory))
        .collect();
    found.sort_by_key(|kill| kill.2);
    assert_eq!(found, expected);
}

/// The peaks of hours and the ends that a store makes, against the samples that it gives.
async fn check_hours(url: String, span: Window) {
    let http = Http::new(&Endpoint::new(url.clone())).unwrap();
    let reader = StoreReader::connect(http, PrometheusOptions { step_seconds: 60, ..options(url) }).await.unwrap();
    let namespaces = ["shop"];
    // A store is asked about a day at a time, and the test may run soon after midnight.
    let span = span.days().into_iter().max_by_key(|day| day.seconds()).unwrap();
    for resource in [Resource::Cpu, Resource::Memory] {
        let mut samples: BTreeMap<ContainerRef, Vec<Sample>> = BTreeMap::new();
        let mut last = BTreeMap::new();
        let mut take = |series: Series| {
            let of = ContainerRef::from(&series.container);
            last.extend(series.samples.last().map(|newest| (of.clone(), newest.time)));
            samples.insert(of, series.samples);
        };
        reader.usage(&namespaces, resource, span, None, &mut take).await.unwrap();
        let (lives, mut by_percentiles) = (reader.lives(&namespaces, span).await.unwrap(), BTreeMap::new());
        let mut keep = |series: Series| {
            let seconds = series.samples.iter().map(|sample| sample.seconds).sum::<u64>();
            let peak = series.samples.iter().map(|sample| sample.value).max();
            by_percentiles.insert(ContainerRef::from(&series.container), (seconds, peak.unwrap()));
        };
        reader.usage(&namespaces, resource, span, Some(&lives), &mut keep).await.unwrap();
        assert!(!samples.is_empty() && samples.keys().eq(by_percentiles.keys()), "{samples:?} {by_percentiles:?}");
        let seen = reader.hours_seen(&namespaces, span).await.unwrap();
        for (of, samples) in samples {
            let hours: BTreeSet<i64> = samples.iter().map(|sample| sample.time / 3_600).collect();
            let known = seen.iter().filter(|(container, ..)| *container == of).map(|(.., hours)| hours.count_ones());
            assert!(known.sum::<u32>().abs_diff(hours.len() as u32) <= 2, "{of:?}: {hours:?} {seen:?}");
            let (seconds, peak) = by_percentiles[&of];
            assert!(seconds.abs_diff(60 * samples.len() as u64) <= 300, "{of:?}: {seconds} s of {}", samples.len());
            let highest_from =
                |from| samples.iter().filter(|of| of.time >= from).map(|sample| sample.value).max().unwrap();
            assert!(peak.abs_diff(highest_from(span.from)) <= 1_000, "{of:?}: {peak}");
            let hours = reader.hourly((&of.namespace, &of.pod, &of.container), resource, span).await.unwrap();
            let of_pod = hours.iter().filter(|(pod, _)| *pod == of.pod).flat_map(|(_, samples)| samples);
            let peak = of_pod.map(|sample| sample.value).max().unwrap();
            // A sample at midnight is of the hour before.
            assert!(highest_from(span.from + 1) <= peak + 1_000, "{of:?}: {hours:?}");
            assert!(hours.iter().all(|(_, of)| of.iter().all(|hour| hour.time % 3_600 == 0)), "{of:?}: {hours:?}");
        }
        last.retain(|_, newest| *newest < span.to - 600);
        let ended = reader.ended(&namespaces, span.to).await.unwrap();
        assert!(last.keys().eq(ended.keys()), "{last:?} {ended:?}");
        assert!(last.iter().all(|(of, newest)| (0..1_800).contains(&(ended[of] - newest))), "{last:?} {ended:?}");
    }
}

/// The usage of a day by namespace, workload, container and resource: amounts, rising, with their seconds.
fn amounts(read: Read) -> BTreeMap<String, Vec<(u64, u64)>> {
    let mut found = BTreeMap::<_, Vec<(u64, u64)>>::new();
    for ((container, resource), samples) in read.series {
        let SampledContainer { namespace, pod, name, .. } = container;
        let key = format!("{namespace}/{}/{name} {resource:?}", workload::of_pod(&pod));
        found.entry(key).or_default().extend(samples.iter().map(|sample| (sample.value, sample.seconds)));
    }
    found.values_mut().for_each(|amounts| amounts.sort_unstable());
    found
}

#[tokio::test]
async fn a_past_day_is_read_by_percentiles() {
    check_day(|cluster| start(cluster.open_metrics())).await;
}

#[tokio::test]
async fn a_past_day_of_victoria_metrics_is_read_by_percentiles() {
    check_day(|cluster| servers::victoria_metrics(&cluster.exposition())).await;
}

/// Checks a day of a store that has this cluster's usage. Each container has two series, or with the matcher a single one.
async fn check_day(store: impl FnOnce(&Cluster) -> Server) {
    let from = data::now().div_euclid(DAY) * DAY - DAY;
    let cluster = Cluster::new(Window { from: from - 3600, to: from + DAY + 3600 }).with_jobs();
    let server = store(&cluster);
    for matchers in ["", r#"prometheus_replica="a""#] {
        check_day_with(server.url(), matchers, Window { from, to: from + DAY }).await;
    }
}

async fn check_day_with(url: String, matchers: &str, day: Window) {
    let matchers = Matchers::from(matchers.to_owned());
    let options = PrometheusOptions { as_of: Some(day.to + 1800), matchers, ..options(url) };
    let source = new_source(options.clone());
    let mut by_day = Read::default();
    source.read(&["pay", "shop"], day, &mut |batch| by_day.take(batch)).await.unwrap();
    let by_sample = read(&source, day, DAY / 2).await;
    assert_eq!(by_day.kills, by_sample.kills);
    assert!(by_day.series.keys().eq(by_sample.series.keys()), "{:?}", by_day.series.keys());
    let (by_day, by_sample) = (amounts(by_day), amounts(by_sample));
    assert_eq!(by_day.len(), 14, "{:?}", by_day.keys());
    let reader = StoreReader::connect(Http::new(&options.endpoint).unwrap(), options).await.unwrap();
    let (group, mut in_one) = (UsageGroup { pods: PodSelection::JobInOne, has_single_series: false }, BTreeSet::new());
    reader.digests(&["pay"], Resource::Memory, day, group, &mut |of, _| _ = in_one.insert(of.pod)).await.unwrap();
    assert_eq!(in_one.into_iter().collect::<Vec<_>>(), ["move", "report"]);
    for (of, expected) in by_sample {
        let found = &by_day[&of];
        // A container of `shop` has two images that day, so that its samples are read.
        // VictoriaMetrics rounds by the window.
        let is_same = found.iter().zip(&expected).all(|(found, expected)| found.0.abs_diff(expected.0) <= 1);
        assert!(!of.starts_with("shop") || is_same, "{of}");
        let [seconds, expected_seconds] =
            [found, &expected].map(|of| of.iter().map(|(_, seconds)| seconds).sum::<u64>());
        assert!(seconds.abs_diff(expected_seconds) < 300, "{of}: {seconds} of {expected_seconds}");
        for permille in [500, 750, 900, 950, 990, 1000] {
            let at = |of: &[(u64, u64)], all: u64| {
                let mut rest = (all * permille).div_ceil(1000);
                let found = of.iter().find(|(_, seconds)| {
                    let is_there = *seconds >= rest;
                    rest = rest.saturating_sub(*seconds);
                    is_there
                });
                found.unwrap().0 as f64
            };
            let (found, expected) = (at(found, seconds), at(&expected, expected_seconds));
            assert!((found / expected - 1.0).abs() < 1.0 / 64.0, "{of} p{permille}: {found} instead of {expected}");
        }
    }
}

#[tokio::test]
async fn old_label_names_and_a_missing_kube_state_metrics_are_detected() {
    let cluster = Cluster::until_now(90);
    let mut text = cluster.open_metrics();
    for container in &cluster.containers {
        // Only the usage series have the image.
        let old = format!(r#"pod="{}",container="{}","#, container.pod, container.name);
        let new = format!(
            r#"pod_name="{}",container_name="{}",image="{}","#,
            container.pod, container.name, container.images[0].1
        );
        text = text.replace(&old, &new);
    }
    let kept = text.split("# TYPE kube").next().unwrap().to_owned() + "# EOF\n";
    let server = start(kept);
    let source = new_source(options(server.url()));
    let mut expected = BTreeMap::new();
    for (mut key, mut values) in cluster.expected() {
        if key.0.image == "postgres:16" {
            key.0.image = "postgres:15".to_owned(); // the label never changed
        }
        expected.entry(key).or_insert_with(Vec::new).append(&mut values);
    }
    data::check(&read(&source, shifted(cluster.window), 90 * 60).await, &expected);

    let findings = findings(&options(server.url())).await;
    let image = of_subject(&findings, "image");
    assert_eq!(image.verdict, SourceVerdict::Doubtful);
    assert_eq!(image.found, "only the label `image` of the usage series, 5 containers");
}

/// The text with jobs: the kubelets' and kube-state-metrics', and an exporter that claims the containers of all namespaces,
/// under the plain labels, which Prometheus keeps if it honors them. If not, also a cluster, and more samples than the kubelets.
fn with_hostile_exporter(text: &str, is_honored: bool) -> String {
    let mut all = String::new();
    for line in text.lines() {
        let job = match line.split_once('{') {
            Some((metric, _)) if metric.starts_with("container_") => {
                r#"{job="kubelet",metrics_path="/metrics/cadvisor","#
            }
            Some(_) => r#"{job="kube-state-metrics","#,
            None => "{",
        };
        let _ = writeln!(all, "{}", line.replacen('{', job, 1));
    }
    let forged = |metric: &str| -> String {
        let is_of_it = |line: &&str| line.starts_with(metric) && !line.contains(r#"prometheus_replica="b""#);
        let forge = |line: &str| {
            let (series, rest) = line.split_once("} ").unwrap();
            let value = if metric.contains("info") { "1" } else { "64424509440" };
            let mut series =
                series.replacen('{', r#"{job="evil/exporter","#, 1).replace("image_spec=\"", "image_spec=\"evil/");
            let time: i64 = rest.split(' ').next_back().unwrap().parse().unwrap();
            if is_honored || metric.contains("created") {
                return format!("{series}}} {value} {time}\n");
            }
            for label in ["namespace", "pod", "container"] {
                series = series.replace(&format!(",{label}="), &format!(",exported_{label}="));
            }
            let own = r#"cluster="x",namespace="evil",pod="exporter-1",container="exporter""#;
            [10, 5, 0].map(|before| format!("{series},{own}}} {value} {}\n", time - before)).concat()
        };
        text.lines().filter(is_of_it).map(forge).collect()
    };
    let metrics = ["container_memory_working_set_bytes", "kube_pod_container_info", "kube_namespace_created"];
    for metric in metrics.into_iter().take(if is_honored { 2 } else { 3 }) {
        let header = format!("# TYPE {metric} gauge\n");
        assert!(all.contains(&header));
        all = all.replace(&header, &(header.clone() + &forged(metric)));
    }
    all
}

#[tokio::test]
async fn an_exporter_cannot_claim_containers_that_the_kubelets_know() {
    let cluster = Cluster::until_now(60);
    for is_honored in [true, false] {
        let server = start(with_hostile_exporter(&cluster.open_metrics(), is_honored));
        let mut options = options(server.url());
        let found = read(&new_source(options.clone()), shifted(cluster.window), 3600).await;
        data::check(&found, &cluster.expected());

        let found = findings(&options).await;
        assert_eq!(of_subject(&found, "sample interval").found, "15 s; cpu is averaged over 60 s");
        let found: Vec<_> = found.iter().filter(|finding| finding.subject == "scrape jobs").collect();
        assert_eq!(found.len(), 2, "{found:?}");
        let expected =
            "`container_memory_working_set_bytes` is read from job `kubelet`, and not from `evil/exporter`; ";
        assert!(found[0].verdict == SourceVerdict::Doubtful && found[0].found.starts_with(expected), "{found:?}");
        if !is_honored {
            continue;
        }

        // A user who names the jobs decides.
        options.matchers = Matchers::from(r#"job=~"kubelet|kube-state-metrics|evil/exporter""#.to_owned());
        let forged = read(&new_source(options), shifted(cluster.window), 3600).await;
        let peak = forged.series.values().flatten().map(|sample| sample.value).max();
        assert_eq!(peak, Some(64_424_509_440));
    }
}

fn lines(text: &str, is_kept: impl Fn(&str) -> bool) -> String {
    text.lines().filter(|line| is_kept(line)).map(|line| format!("{line}\n")).collect()
}

/// The text without the series of kube-state-metrics between two minutes.
fn without_state(cluster: &Cluster, text: &str, minutes: std::ops::Range<i64>) -> String {
    let away = cluster.window.from + minutes.start * 60..cluster.window.from + minutes.end * 60;
    let time = |line: &str| line.rsplit(' ').next().and_then(|time| time.parse().ok());
    let is_gone = |line: &str| line.starts_with("kube_") && time(line).is_some_and(|time| away.contains(&time));
    lines(text, |line| !is_gone(line))
}

/// The text with a wrong image label on the usage series.
fn with_wrong_label(text: &str) -> String {
    let label = |line: &str| match line.starts_with("container_") && !line.contains("image=") {
        true => line.replacen('{', r#"{image="sha/wrong:1","#, 1) + "\n",
        false => format!("{line}\n"),
    };
    text.lines().map(label).collect()
}

#[tokio::test]
async fn kube_state_metrics_may_be_down_when_a_run_starts() {
    let cluster = Cluster::until_now(120);
    let text = with_wrong_label(&cluster.open_metrics());
    let history = without_state(&cluster, &text, 95..125);
    let server = start(history);
    let source = new_source(options(server.url()));
    for window in [120 * 60, 17 * 60] {
        let found = read(&source, shifted(cluster.window), window).await;
        data::check(&found, &cluster.expected());
        check_kills(&cluster, &found.kills);
    }
    let findings = findings(&options(server.url())).await;
    let image = of_subject(&findings, "image");
    assert_eq!(
        (image.verdict, image.found.as_str()),
        (SourceVerdict::Doubtful, "`kube_pod_container_info` was seen last 1 h ago")
    );
}

#[tokio::test]
async fn pods_started_while_kube_state_metrics_was_down_wait_for_it() {
    let cluster = Cluster::until_now(120);
    let text = with_wrong_label(&cluster.open_metrics());
    // Only the last minutes have a pod that started after kube-state-metrics went down.
    let away = without_state(&cluster, &text, 95..125);
    let young = |text: &str| {
        let begun = cluster.window.from + 100 * 60;
        let is_old = |line: &str| {
            line.contains(r#"pod="api-1""#) && line.rsplit(' ').next().unwrap().parse::<i64>().unwrap() < begun
        };
        lines(text, |line| !is_old(line))
    };
    let server = start(young(&away));
    let source = new_source(options(server.url()));
    let refused = source.read(&["pay"], shifted(cluster.window), &mut |_| {}).await;
    check_refused(refused, "such as `api` of `pay/api-1`: their usage waits until it is back");
    source.read(&["shop"], shifted(cluster.window), &mut |_| {}).await.unwrap();

    // kube-state-metrics is up again for the last minutes.
    let back = without_state(&cluster, &text, 95..115);
    let server = start(young(&back));
    let source = new_source(options(server.url()));
    let mut found = Read::default();
    source.read(&["pay"], shifted(cluster.window), &mut |batch| found.take(batch)).await.unwrap();
    let images: Vec<_> = found.series.keys().map(|(container, _)| container.image.as_str()).collect();
    assert_eq!(images, ["registry.example/pay/api@sha256:9b2c"; 2]);
}

#[tokio::test]
async fn a_store_shared_by_clusters_requires_a_choice() {
    let cluster = Cluster::until_now(30);
    let text = cluster.open_metrics().replace(r#"prometheus_replica="a""#, r#"cluster="prod""#);
    let server = start(text.replace(r#"prometheus_replica="b""#, r#"cluster="staging""#));
    let mut options = options(server.url());
    let question = "which one is this? Say so as `matchers: 'cluster=\"prod\"'` in --source";
    check_refused(new_source(options.clone()).cluster().await, question);
    options.matchers = Matchers::from(r#"cluster="prod""#.to_owned());
    let chosen = read(&new_source(options), shifted(cluster.window), 1800).await;
    data::check(&chosen, &cluster.expected());
}

/// The text with the usage series of cAdvisor called otherwise.
fn renamed(text: &str, names: &[(&str, &str)]) -> String {
    let rename = |line: &str| match line.contains("container_cpu") || line.contains("container_memory") {
        true => names.iter().fold(line.to_owned(), |line, (from, to)| line.replace(from, to)) + "\n",
        false => format!("{line}\n"),
    };
    text.lines().map(rename).collect()
}

/// The labels of a container, called otherwise.
fn labelled(namespace: &'static str, pod: &'static str, container: &'static str) -> [(&'static str, &'static str); 3] {
    [("{namespace=", namespace), (",pod=", pod), (",container=", container)]
}

#[tokio::test]
async fn well_known_names_that_are_not_looked_for_are_written_into_the_file() {
    let cluster = Cluster::until_now(60);
    let text = cluster.open_metrics();
    let docker = labelled(
        "{container_label_io_kubernetes_pod_namespace=",
        ",container_label_io_kubernetes_pod_name=",
        ",container_label_io_kubernetes_container_name=",
    );
    let otel = labelled("{k8s_namespace_name=", ",k8s_pod_name=", ",k8s_container_name=");
    let otel = [&otel[..], &[("cpu_usage_seconds", "cpu_time_seconds")]].concat();
    let google = labelled("{memory_type=\"non-evictable\",namespace_name=", ",pod_name=", ",container_name=");
    let cpu = "kubernetes_io:container_cpu_core_usage_time";
    let google_names = [
        ("seconds counter", "seconds_total gauge"),
        ("container_cpu_usage_seconds_total", cpu),
        ("container_memory_working_set_bytes", "kubernetes_io:container_memory_used_bytes"),
    ];
    let google = [&google_names[..], &google[..]].concat();
    let rule = "node_namespace_pod_container:container_cpu_usage_seconds_total:sum_irate";
    let mut rules = format!("# TYPE {rule} gauge\n");
    for ((of, _), values) in cluster.expected().iter().filter(|((_, of), _)| *of == Resource::Cpu) {
        let place = format!(r#"namespace="{}",pod="{}",container="{}""#, of.namespace, of.pod, of.name);
        for (time, cores) in values {
            let _ = writeln!(rules, "{rule}{{{place}}} {cores} {time}");
        }
    }
    let memory = ("container_memory", "node_namespace_pod_container:container_memory");
    let rules = rules + &renamed(&text[text.find("# TYPE container_memory").unwrap()..], &[memory]);
    for (history, found) in [
        (renamed(&text, &docker), "the labels of Docker"),
        (renamed(&text, &otel), "OpenTelemetry's kubeletstats"),
        (renamed(&text, &google), "the system metrics of GKE"),
        (rules, "the recording rules of kubernetes-mixin"),
    ] {
        let server = start(history);
        let mut options = options(server.url());
        check_refused(new_source(options.clone()).cluster().await, found);
        let findings = findings(&options).await;
        let advice = of_subject(&findings, "cpu metric").advice.as_deref().unwrap();
        assert!(advice.contains(found) && advice.contains("-o source > source.yaml"), "{advice}");
        options.names = detect(Http::new(&options.endpoint).unwrap(), &options).await.unwrap();
        data::check(&read(&new_source(options), shifted(cluster.window), 3600).await, &cluster.expected());
    }
}

#[tokio::test]
async fn what_keeps_usage_from_being_read_is_named() {
    let cluster = Cluster::until_now(60);
    let text = cluster.open_metrics();
    let ended = Window { from: cluster.window.to - 7 * 3_600, to: cluster.window.to - 3 * 3_600 };
    let is_of_pod = |line: &str| !line.starts_with("container_") || line.contains(r#"container="""#);
    let of_environments = text.replace(r#"prometheus_replica="a""#, r#"environment="dev""#);
    for (history, matchers, subject, verdict, words) in [
        (String::new(), "", "memory metric", SourceVerdict::Bad, "scrape the kubelets' /metrics/cadvisor"),
        (lines(&text, is_of_pod), "", "memory metric", SourceVerdict::Bad, "scrape the kubelets' /metrics/resource"),
        (
            renamed(&text, &[("working_set", "usage")]),
            "",
            "memory metric",
            SourceVerdict::Doubtful,
            "counts the page cache too",
        ),
        (lines(&text, |line| !line.contains("kube_")), "", "image", SourceVerdict::Bad, "`recommend` needs no images"),
        (
            text.clone(),
            r#"cluster="nope""#,
            "memory metric",
            SourceVerdict::Bad,
            r#"no usage matches `cluster="nope"`"#,
        ),
        (Cluster::new(ended).open_metrics(), "", "cpu metric", SourceVerdict::Bad, "the newest usage is 2 h 5"),
        (of_environments, "", "cluster", SourceVerdict::Bad, "of several clusters (`environment`: none, `dev`)"),
    ] {
        let server = start(history);
        let options = PrometheusOptions { matchers: Matchers::from(matchers.to_owned()), ..options(server.url()) };
        let findings = findings(&options).await;
        let finding = of_subject(&findings, subject);
        let text = format!("{} -> {}", finding.found, finding.advice.as_deref().unwrap_or_default());
        assert!(finding.verdict == verdict && text.contains(words), "{finding:?}");
    }
}

#[tokio::test]
async fn a_live_scrape_is_read_while_it_grows() {
    let exporter = exporter();
    let targets = format!("[{{targets: ['127.0.0.1:{}']}}]", exporter.port);
    let scrape_configs = Some(format!("[{{job_name: cadvisor, honor_labels: true, static_configs: {targets}}}]"));
    let server = PrometheusServer { scrape_configs, ..PrometheusServer::default() }.start();
    let options = PrometheusOptions { step_seconds: 5, ephemeral_storage: true, ..options(server.url()) };
    let give_up = Instant::now() + Duration::from_secs(60);
    // Prometheus takes some seconds to start scraping, and two scrapes make a rate.
    let read = loop {
        assert!(Instant::now() < give_up, "Prometheus has scraped nothing");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let source = new_source(options.clone());
        let Ok(now) = source.now().await else { continue };
        let to = now.div_euclid(5) * 5;
        let read = read(&source, Window { from: to - 60, to }, 60).await;
        if read.samples() >= 9 {
            break read;
        }
    };
    assert_eq!(read.series.len(), 3, "{read:?}");
    for ((container, resource), samples) in &read.series {
        assert_eq!((container.namespace.as_str(), container.image.as_str()), ("shop", "nginx:1.27"));
        assert!(samples.len() >= 2 && samples.windows(2).all(|pair| pair[1].time - pair[0].time == 5), "{samples:?}");
        let last = samples.last().unwrap().value;
        match resource {
            // A quarter of a core, as precisely as a scrape each second can measure.
            Resource::Cpu => assert!((225_000_000..275_000_000).contains(&last), "{last}"),
            Resource::Memory => assert_eq!(last, 64 << 20),
            Resource::EphemeralStorage => assert_eq!(last, 5 << 20),
        }
    }
}

/// An exporter with one container that uses a quarter of a core.
fn exporter() -> FakeServer {
    let started = Instant::now();
    FakeServer::start(move |_| {
        let place = r#"namespace="shop",pod="web-1",container="nginx""#;
        let cores = started.elapsed().as_secs_f64() / 4.0;
        let text = format!(
            "# TYPE container_cpu_usage_seconds_total counter\ncontainer_cpu_usage_seconds_total{{{place}}} {cores}\n\
             # TYPE container_memory_working_set_bytes gauge\ncontainer_memory_working_set_bytes{{{place}}} {}\n\
             # TYPE container_fs_usage_bytes gauge\ncontainer_fs_usage_bytes{{{place},device=\"a\"}} {}\n\
             container_fs_usage_bytes{{{place},device=\"b\"}} {}\n\
             # TYPE kube_pod_container_info gauge\nkube_pod_container_info{{{place},image_spec=\"nginx:1.27\"}} 1\n",
            64 << 20,
            2 << 20,
            3 << 20
        );
        answer(200, &text)
    })
}

#[tokio::test]
async fn tls_with_a_private_authority() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let made = std::process::Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(path("key.pem"))
        .arg("-out")
        .arg(path("cert.pem"))
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let (certificate, key) = (path("cert.pem"), path("key.pem"));
    let web = format!("tls_server_config:\n  cert_file: {}\n  key_file: {}\n", certificate.display(), key.display());
    std::fs::write(path("web.yml"), web).unwrap();
    let cluster = Cluster::until_now(30);
    let server = PrometheusServer {
        history: cluster.open_metrics(),
        web_config: Some(path("web.yml")),
        ..PrometheusServer::default()
    }
    .start();
    let mut endpoint = Endpoint::new(format!("https://localhost:{}", server.port));
    endpoint.ca_file = Some(certificate);
    let found = read(&new_source(PrometheusOptions::new(endpoint.clone())), shifted(cluster.window), 3600).await;
    data::check(&found, &cluster.expected());
    endpoint.ca_file = None;
    check_refused(new_source(PrometheusOptions::new(endpoint)).cluster().await, "certificate");
}
