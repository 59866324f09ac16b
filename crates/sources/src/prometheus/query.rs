//! The questions, as PromQL text. Nothing is sent from here.
//!
//! A question joins nothing: what a container's image is comes as a question of its
//! own and is matched here, because a join inside PromQL fails as a whole when two series claim the same container,
//! and costs the store more.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use headroom_usage::sample::Resource;

use super::names::{self, Cpu, INIT_INFO, Names, Place, State};

/// Tells when a namespace was created.
pub const CREATED: &str = "kube_namespace_created";

/// Tells how often a container was started again.
pub const RESTARTS: &str = "kube_pod_container_status_restarts_total";

/// Builds questions for one store.
#[derive(Debug, Clone, Copy)]
pub struct Queries<'a> {
    pub names: &'a Names,
    /// Matchers that are put into every selector, such as `cluster="prod"`.
    pub matchers: &'a str,
    pub step_seconds: u32,
}

impl Queries<'_> {
    /// The usage of each container of these namespaces within each step; none if the store does not have the resource.
    pub fn usage(&self, namespaces: &[&str], resource: Resource, with_image: bool) -> Option<String> {
        let by = self.usage_labels(with_image);
        let selector = |metric: &String| self.usage_selector(metric, namespaces);
        match resource {
            Resource::Cpu => self.names.cpu.as_ref().map(|cpu| self.cpu(&selector(&cpu.metric), cpu, &by)),
            Resource::Memory => self.names.memory.as_ref().map(|metric| self.peak(&selector(metric), &by)),
            // Of all devices together.
            Resource::EphemeralStorage => self
                .names
                .storage
                .as_ref()
                .map(|metric| format!("sum by ({by}) ({})", self.peak(&selector(metric), &format!("{by}, device")))),
        }
    }

    /// CPU in cores, averaged over [`rate_seconds`]. `max by` leaves one series of an HA pair; `rate` sees counter
    /// resets, and gives nothing where the counter was not scraped.
    fn cpu(&self, selector: &str, cpu: &Cpu, by: &str) -> String {
        if cpu.is_rate {
            format!("max by ({by}) (last_over_time({selector}[{}ms]))", self.gauge_milliseconds())
        } else {
            let range = format!("{selector}[{}s]", rate_seconds(self.step_seconds, self.names.scrape_seconds));
            // VictoriaMetrics' `rate` is 0 in the first step of a gap, as if the container had been idle.
            let unless_gap =
                if self.names.metrics_ql { format!(" if count_over_time({range})") } else { String::new() };
            format!("max by ({by}) (rate({range}){unless_gap})")
        }
    }

    /// The peak of bytes within each step.
    fn peak(&self, selector: &str, by: &str) -> String {
        format!("max by ({by}) (max_over_time({selector}[{}ms]))", self.gauge_milliseconds())
    }

    /// Percentiles of the usage of each container over a span, made in the store: in millionths of a core, or bytes. The
    /// first is the answer for the moment `first`, each next one for the second after it.
    pub fn digest(
        &self,
        namespaces: &[&str],
        resource: Resource,
        permilles: &[u16],
        first: i64,
        seconds: i64,
    ) -> Option<String> {
        let usage = self.usage(namespaces, resource, false)?;
        let mut rank = String::new();
        let mut before = 0;
        for (moment, permille) in (first..).zip(permilles) {
            let separator = if rank.is_empty() { "" } else { " + " };
            let _ = write!(rank, "{separator}{} * (time() >= bool {moment})", permille.saturating_sub(before));
            before = *permille;
        }
        let scale = if resource == Resource::Cpu { "1e6 * " } else { "" };
        let step = self.step_seconds;
        Some(format!("ceil({scale}quantile_over_time(({rank}) / 1000, ({usage})[{seconds}s:{step}s]))"))
    }

    /// By how much a counter of cAdvisor's rose in a day.
    pub fn rise(&self, namespaces: &[&str], metric: &str) -> String {
        self.of_containers(&format!("increase({}[1d])", self.usage_selector(metric, namespaces)))
    }

    /// How many samples each container has in a day.
    pub fn lives(&self, namespaces: &[&str]) -> Option<String> {
        let metric = self.names.memory.as_ref().or(self.names.cpu.as_ref().map(|cpu| &cpu.metric))?;
        Some(self.of_containers(&format!("count_over_time({}[1d])", self.usage_selector(metric, namespaces))))
    }

    /// What containers with at most so many samples in a day used of the CPU on average while they ran, in cores.
    pub fn brief_lives(&self, namespaces: &[&str], most_samples: i64) -> Option<String> {
        let cpu = self.names.cpu.as_ref()?;
        let day = format!("{}[1d]", self.usage_selector(&cpu.metric, namespaces));
        let mean = if cpu.is_rate {
            format!("avg_over_time({day})")
        } else {
            let scrape = self.names.scrape_seconds;
            format!("(max_over_time({day}) - min_over_time({day})) / ((count_over_time({day}) - 1) * {scrape})")
        };
        Some(format!("max by ({}) ({mean} and count_over_time({day}) <= {most_samples})", self.usage_labels(false)))
    }

    /// One number for each container: the sum over its lives, which differ in what their cgroup is called, of one scraper.
    fn of_containers(&self, of_series: &str) -> String {
        format!("max by ({}) (sum without (id, name) ({of_series}))", self.usage_labels(false))
    }

    /// The image of each container and init container, while it is known.
    pub fn images(&self, namespace: &str, state: &State) -> String {
        let Place { pod, container, .. } = &state.place;
        let part = |metric: &str| {
            let selector = self.state_selector(state, metric, &[namespace], &[(&state.image, "!=", "")]);
            format!("max by ({pod}, {container}, {}) ({selector})", state.image)
        };
        format!("{} or {}", part(&state.info), part(INIT_INFO))
    }

    /// Containers while their last end was for want of memory; they have been started again since.
    pub fn killed_and_restarted(&self, namespace: &str, state: &State) -> String {
        let Place { pod, container, .. } = &state.place;
        let part = |metric: &str| {
            let selector = self.state_selector(state, metric, &[namespace], &[("reason", "=", "OOMKilled")]);
            format!("max by ({pod}, {container}) ({selector} == 1)")
        };
        format!(
            "{} or {}",
            part("kube_pod_container_status_last_terminated_reason"),
            part("kube_pod_init_container_status_last_terminated_reason")
        )
    }

    /// Containers that ended for want of memory in pods that failed for good: those are not started again, so no
    /// restart will tell of them.
    pub fn killed_for_good(&self, namespace: &str, state: &State) -> String {
        let Place { pod, container, .. } = &state.place;
        let reason = self.state_selector(
            state,
            "kube_pod_container_status_terminated_reason",
            &[namespace],
            &[("reason", "=", "OOMKilled")],
        );
        let failed = self.state_selector(state, "kube_pod_status_phase", &[namespace], &[("phase", "=", "Failed")]);
        format!("max by ({pod}, {container}) ({reason} == 1) and on ({pod}) max by ({pod}) ({failed} == 1)")
    }

    /// How often the containers of these pods were started again.
    pub fn restarts(&self, namespace: &str, state: &State, pods: &str) -> String {
        self.restarts_by(namespace, state, pods, |selector| selector)
    }

    /// How often they had been started again when that was told last, in so many seconds.
    pub fn restarts_before(&self, namespace: &str, state: &State, pods: &str, seconds: i64) -> String {
        self.restarts_by(namespace, state, pods, |selector| format!("last_over_time({selector}[{seconds}s])"))
    }

    fn restarts_by(&self, namespace: &str, state: &State, pods: &str, over: impl Fn(String) -> String) -> String {
        let Place { pod, container, .. } = &state.place;
        let part = |metric: &str| {
            let selector = over(self.state_selector(state, metric, &[namespace], &[(pod, "=~", pods)]));
            format!("max by ({pod}, {container}) ({selector})")
        };
        format!("{} or {}", part(RESTARTS), part("kube_pod_init_container_status_restarts_total"))
    }

    /// The memory limits of these pods' containers.
    pub fn memory_limits(&self, namespace: &str, state: &State, pods: &str) -> String {
        let Place { pod, container, .. } = &state.place;
        let part = |metric: &str| {
            let selector =
                self.state_selector(state, metric, &[namespace], &[("resource", "=", "memory"), (pod, "=~", pods)]);
            format!("max by ({pod}, {container}) ({selector})")
        };
        format!("{} or {}", part("kube_pod_container_resource_limits"), part("kube_pod_init_container_resource_limits"))
    }

    /// How many containers have a count of restarts, without which no kill can be told.
    pub fn count_of_restarts(&self, state: &State) -> String {
        count_of_containers(RESTARTS, &state.place, None, self.matchers)
    }

    /// All containers of all namespaces in a usage metric, for counting and for listing namespaces.
    pub fn everywhere(&self, metric: &str) -> String {
        let mut labels = vec![(self.names.usage.namespace.as_str(), "!=", "")];
        labels.extend(containers(&self.names.usage));
        selector(metric, &labels, &self.usage_matchers(metric))
    }

    fn usage_selector(&self, metric: &str, namespaces: &[&str]) -> String {
        let (operator, pattern) = among(namespaces);
        let mut labels = vec![(self.names.usage.namespace.as_str(), operator, pattern.as_str())];
        labels.extend(containers(&self.names.usage));
        selector(metric, &labels, &self.usage_matchers(metric))
    }

    /// The series of one of kube-state-metrics' metrics in these namespaces.
    pub fn state_selector(
        &self,
        state: &State,
        metric: &str,
        namespaces: &[&str],
        more: &[(&str, &str, &str)],
    ) -> String {
        let (operator, pattern) = among(namespaces);
        let mut labels = vec![(state.place.namespace.as_str(), operator, pattern.as_str())];
        labels.extend(more);
        selector(metric, &labels, &both(self.matchers, state.job.as_deref()))
    }

    /// The user's matchers, and the job whose series count; recording rules and clouds' own metrics have no jobs.
    pub fn usage_matchers(&self, metric: &str) -> String {
        both(self.matchers, self.names.usage_job.as_deref().filter(|_| metric.starts_with("container_")))
    }

    /// The labels that say which container a series is about.
    fn usage_labels(&self, with_image: bool) -> String {
        let Place { namespace, pod, container } = &self.names.usage;
        match &self.names.usage_image {
            Some(image) if with_image => format!("{namespace}, {pod}, {container}, {image}"),
            _ => format!("{namespace}, {pod}, {container}"),
        }
    }

    /// A step, or the distance of two scrapes if that is longer; a millisecond less, because Prometheus 2 counts both
    /// ends of a range as inside and would see the sample on the border twice.
    fn gauge_milliseconds(&self) -> u64 {
        u64::from(self.step_seconds.max(self.names.scrape_seconds)) * 1000 - 1
    }
}

fn both(matchers: &str, job: Option<&str>) -> String {
    let matchers = Some(matchers).filter(|matchers| !matchers.is_empty());
    matchers.into_iter().chain(job).collect::<Vec<_>>().join(",")
}

/// Matches these namespaces: several by a regular expression, in which their names have no character that means something.
fn among(namespaces: &[&str]) -> (&'static str, String) {
    (if namespaces.len() == 1 { "=" } else { "=~" }, namespaces.join("|"))
}

/// What tells a container's series from those of pods, cgroups and pause containers.
fn containers(place: &Place) -> [(&str, &str, &str); 3] {
    [(&place.pod, "!=", ""), (&place.container, "!=", ""), (&place.container, "!=", "POD")]
}

/// Over how many seconds CPU is averaged: the step, or what it takes for two scrapes to fall in. Longer would bear a
/// missing scrape, and hide the peaks; as it is, a missing scrape is a gap.
pub fn rate_seconds(step: u32, scrape: u32) -> u32 {
    step.max(scrape.saturating_mul(2))
}

/// A text as PromQL writes it, with nothing in it that could end it.
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// Series of one metric. Also used before the names are known.
pub fn selector(metric: &str, labels: &[(&str, &str, &str)], matchers: &str) -> String {
    let mut text = format!("{metric}{{");
    let mut separator = "";
    for (label, operator, value) in labels {
        let _ = write!(text, "{separator}{label}{operator}{}", quoted(value));
        separator = ",";
    }
    for matcher in names::own_matcher(metric).into_iter().chain((!matchers.is_empty()).then_some(matchers)) {
        text.push_str(separator);
        text.push_str(matcher);
        separator = ",";
    }
    text.push('}');
    text
}

/// How many containers a metric tells of under these labels; asked before the names are known.
pub fn count_of_containers(metric: &str, place: &Place, image: Option<&str>, matchers: &str) -> String {
    let mut labels = vec![(place.namespace.as_str(), "!=", "")];
    labels.extend(containers(place));
    labels.extend(image.map(|image| (image, "!=", "")));
    let Place { namespace, pod, container } = place;
    format!("count(max by ({namespace}, {pod}, {container}) ({}))", selector(metric, &labels, matchers))
}

/// The same by further labels.
pub fn count_of_containers_by(labels: &[&str], metric: &str, place: &Place, matchers: &str) -> String {
    let (by, Place { namespace, pod, container }) = (labels.join(", "), place);
    let selector = selector(metric, &containers(place), matchers);
    format!("count by ({by}) (group by ({by}, {namespace}, {pod}, {container}) ({selector}))")
}

/// How many containers have series of several jobs.
pub fn count_of_contested(metric: &str, place: &Place, matchers: &str) -> String {
    let Place { namespace, pod, container } = place;
    let selector = selector(metric, &containers(place), matchers);
    let of_jobs = format!("group by (job, {namespace}, {pod}, {container}) ({selector})");
    format!("count(count by ({namespace}, {pod}, {container}) ({of_jobs}) > 1)")
}

/// How many series of containers a metric has, by some labels.
pub fn count_by(labels: &[&str], metric: &str, place: &Place, matchers: &str) -> String {
    format!("count by ({}) ({})", labels.join(", "), selector(metric, &containers(place), matchers))
}

/// The store's clock.
pub const NOW: &str = "vector(time())";

/// Answered with a number by VictoriaMetrics alone, to which a sample that is no number is none.
pub const METRICS_QL: &str = "absent(vector(NaN))";

/// The series of a container that was there longest in the last ten minutes.
pub fn steadiest(metric: &str, place: &Place, matchers: &str) -> String {
    format!("topk(1, count_over_time({}[10m]))", selector(metric, &containers(place), matchers))
}

/// The samples of one series in the last ten minutes, as they are stored.
pub fn stored_samples(metric: &str, labels: &BTreeMap<String, String>) -> String {
    let labels: Vec<_> = labels.iter().map(|(label, value)| (label.as_str(), "=", value.as_str())).collect();
    format!("{}[10m]", selector(metric, &labels, ""))
}

#[cfg(test)]
mod tests {
    use super::super::names::Overrides;
    use super::*;

    fn names(scrape_seconds: u32) -> Names {
        let overrides = Overrides::default();
        let plain = || Place { namespace: "namespace".into(), pod: "pod".into(), container: "container".into() };
        Names {
            cpu: Some(overrides.cpu()),
            memory: Some(overrides.memory()),
            storage: None,
            usage: plain(),
            usage_job: None,
            usage_image: Some("image".into()),
            state: Some(State { info: overrides.info(), place: plain(), image: "image_spec".into(), job: None }),
            state_away_since: None,
            scrape_seconds,
            metrics_ql: false,
        }
    }

    fn check(names: &Names, matchers: &str, ask: impl Fn(&Queries) -> String, expected: &str) {
        assert_eq!(ask(&Queries { names, matchers, step_seconds: 60 }), expected);
    }

    #[test]
    fn usage_is_asked_for_one_namespace_and_once_a_container() {
        check(
            &names(15),
            "",
            |queries| queries.usage(&["shop"], Resource::Cpu, false).unwrap(),
            r#"max by (namespace, pod, container) (rate(container_cpu_usage_seconds_total{namespace="shop",pod!="",container!="",container!="POD"}[60s]))"#,
        );
        check(
            &names(60),
            r#"cluster="a""#,
            |queries| queries.usage(&["shop"], Resource::Cpu, true).unwrap(),
            r#"max by (namespace, pod, container, image) (rate(container_cpu_usage_seconds_total{namespace="shop",pod!="",container!="",container!="POD",cluster="a"}[120s]))"#,
        );
        check(
            &names(30),
            "",
            |queries| queries.usage(&["shop"], Resource::Memory, false).unwrap(),
            r#"max by (namespace, pod, container) (max_over_time(container_memory_working_set_bytes{namespace="shop",pod!="",container!="",container!="POD"}[59999ms]))"#,
        );
    }

    #[test]
    fn storage_is_that_of_all_devices() {
        check(
            &Names { storage: Some("container_fs_usage_bytes".into()), ..names(15) },
            "",
            |queries| queries.usage(&["shop"], Resource::EphemeralStorage, false).unwrap(),
            r#"sum by (namespace, pod, container) (max by (namespace, pod, container, device) (max_over_time(container_fs_usage_bytes{namespace="shop",pod!="",container!="",container!="POD"}[59999ms])))"#,
        );
    }

    #[test]
    fn victoria_metrics_is_not_asked_about_gaps() {
        check(
            &Names { metrics_ql: true, ..names(15) },
            "",
            |queries| queries.usage(&["shop"], Resource::Cpu, false).unwrap(),
            r#"max by (namespace, pod, container) (rate(container_cpu_usage_seconds_total{namespace="shop",pod!="",container!="",container!="POD"}[60s]) if count_over_time(container_cpu_usage_seconds_total{namespace="shop",pod!="",container!="",container!="POD"}[60s]))"#,
        );
    }

    #[test]
    fn percentiles_are_made_in_the_store_one_a_second() {
        check(
            &names(60),
            "",
            |queries| queries.digest(&["shop"], Resource::Memory, &[0, 500, 1000], 86_101, 86_400).unwrap(),
            r#"ceil(quantile_over_time((0 * (time() >= bool 86101) + 500 * (time() >= bool 86102) + 500 * (time() >= bool 86103)) / 1000, (max by (namespace, pod, container) (max_over_time(container_memory_working_set_bytes{namespace="shop",pod!="",container!="",container!="POD"}[59999ms])))[86400s:60s]))"#,
        );
    }

    #[test]
    fn brief_lives_are_averaged_over_their_own_length() {
        let selector =
            r#"container_cpu_usage_seconds_total{namespace="shop",pod!="",container!="",container!="POD"}[1d]"#;
        check(
            &names(30),
            "",
            |queries| queries.brief_lives(&["shop"], 20).unwrap(),
            &format!(
                "max by (namespace, pod, container) ((max_over_time({selector}) - min_over_time({selector})) / \
                 ((count_over_time({selector}) - 1) * 30) and count_over_time({selector}) <= 20)"
            ),
        );
    }

    #[test]
    fn many_namespaces_are_asked_about_at_once() {
        let all = ["shop", "pay-2"];
        let names = names(30);
        check(
            &names,
            r#"cluster="a""#,
            |queries| queries.usage(&all, Resource::Memory, false).unwrap(),
            r#"max by (namespace, pod, container) (max_over_time(container_memory_working_set_bytes{namespace=~"shop|pay-2",pod!="",container!="",container!="POD",cluster="a"}[59999ms]))"#,
        );
        check(
            &names,
            "",
            |queries| queries.rise(&all, "m"),
            r#"max by (namespace, pod, container) (sum without (id, name) (increase(m{namespace=~"shop|pay-2",pod!="",container!="",container!="POD"}[1d])))"#,
        );
        let state = names.state.clone().unwrap();
        check(
            &names,
            "",
            |queries| queries.state_selector(&state, "kube_pod_owner", &all, &[("owner_kind", "!=", "")]),
            r#"kube_pod_owner{namespace=~"shop|pay-2",owner_kind!=""}"#,
        );
    }

    #[test]
    fn a_recording_rule_is_not_derived_again() {
        let rule = Cpu { metric: "ns_pod_container:cpu:sum_irate".into(), is_rate: true };
        check(
            &Names { cpu: Some(rule), ..names(120) },
            "",
            |queries| queries.usage(&["shop"], Resource::Cpu, false).unwrap(),
            r#"max by (namespace, pod, container) (last_over_time(ns_pod_container:cpu:sum_irate{namespace="shop",pod!="",container!="",container!="POD"}[119999ms]))"#,
        );
    }

    #[test]
    fn images_are_asked_for_init_containers_too() {
        let names = names(30);
        let state = names.state.clone().unwrap();
        check(
            &names,
            "",
            |queries| queries.images("shop", &state),
            r#"max by (pod, container, image_spec) (kube_pod_container_info{namespace="shop",image_spec!=""}) or max by (pod, container, image_spec) (kube_pod_init_container_info{namespace="shop",image_spec!=""})"#,
        );
    }

    #[test]
    fn label_values_are_quoted() {
        assert_eq!(selector("m", &[("a", "=", "x\"\\\n")], ""), r#"m{a="x\"\\\n"}"#);
        assert_eq!(selector("m", &[], r#"c="d""#), r#"m{c="d"}"#);
        assert_eq!(
            selector("kubernetes_io:container_memory_used_bytes", &[("a", "!=", "")], r#"c="d""#),
            r#"kubernetes_io:container_memory_used_bytes{a!="",memory_type="non-evictable",c="d"}"#
        );
    }
}
