//! The questions, as PromQL text. Nothing is sent from here.
//!
//! Names from clusters come here as lists of texts or as [`Match`], so that none gets into a question without being quoted:
//! a list cannot be formatted, and a `Match` is quoted.
//!
//! A question joins nothing: what a container's image is comes as a question of its
//! own and is matched here, because a join inside PromQL fails as a whole when two series claim the same container,
//! and costs the store more.

use std::collections::BTreeMap;

use headroom_usage::DAY;
use headroom_usage::sample::Resource;

use super::answer::NUMBER;
use super::jobs;
use super::names::{self, ContainerLabels, Cpu, INIT_INFO, Names, State};
use super::selector::{Match, Matchers, PRESENT, Selector};
use crate::cluster_id::KUBE_SYSTEM;

pub const RESTARTS: &str = "kube_pod_container_status_restarts_total";
const ALL_RESTARTS: [&str; 2] = [RESTARTS, "kube_pod_init_container_status_restarts_total"];
/// Tell why a container ended: a container and an init container that run again, and one that has ended for good.
pub const ENDS: [&str; 3] = [
    "kube_pod_container_status_last_terminated_reason",
    "kube_pod_init_container_status_last_terminated_reason",
    "kube_pod_container_status_terminated_reason",
];

/// The ledger's usage of TenantQuotas.
pub const TENANT_QUOTA: &str = "headroom_tenantquota";
const USED: [(&str, Match<'static>); 1] = [("type", Match::Is("used"))];

/// The label with the name of a pod's CronJob.
const JOB: &str = "headroom_job";
/// The names of the pods of CronJobs: with the minute for which they were started, and letters that Kubernetes generates.
const JOB_PATTERN: &str = "(.+)-[0-9]{8,}-[24-9b-df-hj-np-tv-xz]{5}";
/// Added to the memory of each pod of a CronJob, so that a sum shows how many pods ran. No container uses as much, and a float
/// has room for three with every byte.
pub const MEMORY_OF_ONE: u64 = 1 << 51;

/// The usage that percentiles are made of.
#[derive(Debug, Clone, Copy)]
pub struct UsageGroup {
    pub pods: PodSelection,
    /// Each container is known to have one series. That is asked about as it is, which costs the store much less than to group
    /// the series step by step.
    pub has_single_series: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodSelection {
    All,
    NotOfJobs,
    OfJobs,
    /// Each container of a CronJob, all its pods together, of which one ran at a time.
    JobInOne,
}

impl PodSelection {
    fn matchers(self, pod: &str) -> Matchers {
        let all = Matchers::default();
        match self {
            Self::All => all,
            Self::NotOfJobs => all.and(pod, Match::Unlike(JOB_PATTERN)),
            Self::OfJobs | Self::JobInOne => all.and(pod, Match::Like(JOB_PATTERN)),
        }
    }
}

/// PromQL that is built here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromQl(String);

impl PromQl {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Several queries in one. The rows of each have its number.
pub fn numbered(questions: &[PromQl]) -> PromQl {
    let numbered = questions.iter().enumerate();
    let parts = numbered
        .map(|(number, question)| format!("label_replace({}, \"{NUMBER}\", \"{number}\", \"\", \"\")", question.0));
    PromQl(parts.collect::<Vec<_>>().join(" or "))
}

#[derive(Debug, Clone, Copy)]
pub struct Queries<'a> {
    pub names: &'a Names,
    pub matchers: &'a Matchers,
    /// Images are only those whose name contains this.
    pub image: Option<&'a str>,
    pub pods: &'a Matchers,
    pub step_seconds: u32,
    /// CPU is averaged between two scrapes also where one lies on the border of a range.
    pub leaves_border: bool,
}

impl<'a> Queries<'a> {
    /// The usage of each container of these namespaces within each step; none if the store does not have the resource.
    pub fn usage(&self, namespaces: &[&str], resource: Resource, with_image: bool) -> Option<PromQl> {
        let (Names { memory, storage, .. }, by) = (self.names, self.usage_labels(with_image));
        let peak = |metric: &str| self.peak(&self.usage_selector(metric, namespaces));
        let usage = match (resource, self.of_series(namespaces, resource)) {
            (_, Some(of_series)) => format!("max by ({by}) ({of_series})"),
            (Resource::Cpu, None) => return None,
            // Swapped memory is added as further series of one sum: a join fails where two series have one container.
            (Resource::Memory, None) => {
                let [memory, swap] =
                    [memory.as_deref()?, names::SWAP].map(|of| format!("max by ({by}) ({})", peak(of)));
                format!("sum by ({by}) ({memory} or label_replace({swap}, \"swap\", \"1\", \"\", \"\"))")
            }
            // The sum of all devices.
            (Resource::EphemeralStorage, None) => {
                format!("sum by ({by}) (max by ({by}, device) ({}))", peak(storage.as_deref()?))
            }
        };
        Some(PromQl(usage))
    }

    /// The CPU or memory usage of each series; none if the store lacks it, or has swapped memory to add. `max by` leaves one series of an HA pair.
    fn of_series(&self, namespaces: &[&str], resource: Resource) -> Option<String> {
        let Names { cpu, memory, swaps, .. } = self.names;
        match resource {
            Resource::Cpu => cpu.as_ref().map(|cpu| self.cpu(&self.usage_selector(&cpu.metric, namespaces), cpu)),
            Resource::Memory if !swaps => Some(self.peak(&self.usage_selector(memory.as_ref()?, namespaces))),
            Resource::Memory | Resource::EphemeralStorage => None,
        }
    }

    /// CPU in cores, averaged over [`rate_seconds`]. `rate` sees counter resets, and gives nothing where the counter was not
    /// scraped.
    fn cpu(&self, selector: &Selector, cpu: &Cpu) -> String {
        if cpu.is_rate {
            format!("last_over_time({selector}[{}ms])", self.gauge_milliseconds())
        } else {
            let seconds = rate_seconds(self.step_seconds, self.names.scrape_seconds);
            let range = match self.leaves_border {
                true => format!("{selector}[{}ms]", u64::from(seconds) * 1000 - 1),
                false => format!("{selector}[{seconds}s]"),
            };
            // VictoriaMetrics' `rate` is 0 in the first step of a gap, as if the container had been idle.
            let unless_gap =
                if self.names.metrics_ql { format!(" if count_over_time({range})") } else { String::new() };
            format!("rate({range}){unless_gap}")
        }
    }

    fn peak(&self, selector: &Selector) -> String {
        format!("max_over_time({selector}[{}ms])", self.gauge_milliseconds())
    }

    /// Percentiles of usage over a span, made in the store: in millionths of a core, or bytes. The first is the answer for the
    /// moment `first`, each next one for the second after it.
    pub fn digest(
        &self,
        namespaces: &[&str],
        resource: Resource,
        permilles: &[u16],
        first: i64,
        (seconds, step): (i64, u32),
        group: UsageGroup,
    ) -> Option<PromQl> {
        let pod = &self.names.usage.pod;
        let queries = Queries { pods: &self.pods.clone().and_all(&group.pods.matchers(pod)), ..*self };
        let usage = queries.usage(namespaces, resource, false)?.0;
        let of_series = queries.of_series(namespaces, resource).filter(|_| group.has_single_series);
        let before = std::iter::once(0).chain(permilles.iter().copied());
        let widths = permilles.iter().zip(before).map(|(permille, before)| permille.saturating_sub(before));
        let steps = (first..).zip(widths).map(|(moment, width)| format!("{width} * (time() >= bool {moment})"));
        let rank = steps.collect::<Vec<_>>().join(" + ");
        let percentiles = |usage: &str| format!("quantile_over_time(({rank}) / 1000, ({usage})[{seconds}s:{step}s])");
        let by = self.place(group).labels();
        let digest = match of_series {
            of_series if group.pods == PodSelection::JobInOne => {
                let usage = of_series.unwrap_or(usage);
                let with_job = format!(r#"label_replace({usage}, "{JOB}", "$1", "{pod}", "{JOB_PATTERN}")"#);
                percentiles(&match resource {
                    Resource::Memory => format!("sum by ({by}) ({with_job} + {MEMORY_OF_ONE})"),
                    Resource::Cpu | Resource::EphemeralStorage => format!("max by ({by}) ({with_job})"),
                })
            }
            Some(of_series) => format!("max by ({by}) ({})", percentiles(&of_series)),
            None => percentiles(&usage),
        };
        let scale = if resource == Resource::Cpu { "1e6 * " } else { "" };
        Some(PromQl(format!("ceil({scale}({digest}))")))
    }

    /// The labels that the percentiles of these have.
    pub fn place(&self, group: UsageGroup) -> ContainerLabels {
        let place = self.names.usage.clone();
        match group.pods {
            PodSelection::JobInOne => ContainerLabels { pod: JOB.to_owned(), ..place },
            PodSelection::All | PodSelection::NotOfJobs | PodSelection::OfJobs => place,
        }
    }

    /// The peak of usage in the hour before each moment.
    pub fn hourly(&self, namespaces: &[&str], resource: Resource) -> Option<PromQl> {
        let usage = self.usage(namespaces, resource, false)?.0;
        Some(PromQl(format!("max_over_time(({usage})[1h:{}s])", self.step_seconds)))
    }

    /// CPU usage in the hours in which it was more than twice the mean of a span that ends at a moment.
    pub fn busy_hours(&self, namespaces: &[&str], seconds: i64, to: i64) -> Option<PromQl> {
        let cpu = self.names.cpu.as_ref()?;
        let hour = format!("{}[1h]", self.usage_selector(&cpu.metric, namespaces));
        let rate = if cpu.is_rate { "avg_over_time" } else { "rate" };
        let usage = format!("max by ({}) ({rate}({hour}))", self.usage_labels(false));
        Some(PromQl(format!("{usage} > 2 * avg_over_time(({usage})[{seconds}s:1h] @ {to})")))
    }

    /// The hours of the day before each moment in which each container was seen: a bit for the end of each, that of midnight the lowest.
    pub fn hours_seen(&self, namespaces: &[&str]) -> Option<PromQl> {
        let metric = self.names.memory.as_ref().or(self.names.cpu.as_ref().map(|cpu| &cpu.metric))?;
        let (series, by) = (self.usage_selector(metric, namespaces), self.usage_labels(false));
        let hour = format!("group by ({by}) (count_over_time({series}[1h])) * 2 ^ (time() / 3600 % 24)");
        // Stores differ on the beginning of a range: a second less, and no hour counts twice.
        Some(PromQl(format!("sum_over_time(({hour})[{}s:1h])", DAY - 1)))
    }

    /// The containers that were seen in so many seconds, and are not at a moment.
    pub fn ended(&self, namespaces: &[&str], seconds: i64, to: i64) -> Option<PromQl> {
        let metric = self.names.memory.as_ref().or(self.names.cpu.as_ref().map(|cpu| &cpu.metric))?;
        let (series, by) = (self.usage_selector(metric, namespaces), self.usage_labels(false));
        Some(PromQl(format!(
            "group by ({by}) (count_over_time({series}[{seconds}s])) unless group by ({by}) ({series} @ {to})"
        )))
    }

    /// The daily increase of a counter of cAdvisor.
    pub fn rise(&self, namespaces: &[&str], metric: &str) -> PromQl {
        self.of_containers(&format!("increase({}[1d])", self.usage_selector(metric, namespaces)))
    }

    /// The daily number of processes of each container that the kernel killed for memory.
    pub fn kernel_kills(&self, namespaces: &[&str]) -> PromQl {
        PromQl(format!("{} > 0", self.rise(namespaces, "container_oom_events_total").0))
    }

    /// The containers with several series in so many seconds: scraped twice, or started again.
    pub fn several_series(&self, namespaces: &[&str], seconds: i64) -> Option<PromQl> {
        let metric = self.names.cpu.as_ref().map(|cpu| &cpu.metric).or(self.names.memory.as_ref())?;
        let series = format!("count_over_time({}[{seconds}s])", self.usage_selector(metric, namespaces));
        Some(PromQl(format!("count by ({}) ({series}) > 1", self.usage_labels(false))))
    }

    /// The number of samples of each container in so many seconds.
    pub fn lives(&self, namespaces: &[&str], seconds: i64) -> Option<PromQl> {
        let metric = self.names.memory.as_ref().or(self.names.cpu.as_ref().map(|cpu| &cpu.metric))?;
        Some(self.of_containers(&format!("count_over_time({}[{seconds}s])", self.usage_selector(metric, namespaces))))
    }

    /// The mean CPU usage, in cores, of containers with at most so many samples in so many seconds.
    pub fn brief_lives(&self, namespaces: &[&str], most_samples: i64, seconds: i64) -> Option<PromQl> {
        let cpu = self.names.cpu.as_ref()?;
        let day = format!("{}[{seconds}s]", self.usage_selector(&cpu.metric, namespaces));
        let mean = if cpu.is_rate {
            format!("avg_over_time({day})")
        } else {
            let scrape = self.names.scrape_seconds;
            format!("(max_over_time({day}) - min_over_time({day})) / ((count_over_time({day}) - 1) * {scrape})")
        };
        let by = self.usage_labels(false);
        Some(PromQl(format!("max by ({by}) ({mean} and count_over_time({day}) <= {most_samples})")))
    }

    /// One number for each container: the sum over its lives, which differ in what their cgroup is called, of one scraper.
    fn of_containers(&self, of_series: &str) -> PromQl {
        PromQl(format!("max by ({}) (sum without (id, name) ({of_series}))", self.usage_labels(false)))
    }

    /// The image of each container and init container while it is known, or those that were known within so many seconds.
    pub fn images(&self, namespaces: &[&str], state: &State, within: Option<i64>) -> PromQl {
        let labels = [(state.image.as_str(), self.image.map_or(PRESENT, Match::Contains))];
        let part = |metric: &str| {
            let known = last(&self.state_selector(state, metric, namespaces, &labels), within);
            format!("max by ({}, {}) ({known})", state.place.labels(), state.image)
        };
        PromQl(format!("{} or {}", part(&state.info), part(INIT_INFO)))
    }

    /// Restarted containers while their last termination was an OOM kill.
    pub fn killed_and_restarted(&self, namespaces: &[&str], state: &State) -> PromQl {
        let [container, init_container, _] = ENDS;
        let labels = [("reason", Match::Is("OOMKilled"))];
        self.by_container(namespaces, state, [container, init_container], &labels, |selector| {
            format!("{selector} == 1")
        })
    }

    /// Containers that were OOM-killed in failed pods: those are not restarted, so no
    /// restart shows the kill.
    pub fn killed_for_good(&self, namespaces: &[&str], state: &State) -> PromQl {
        let ContainerLabels { namespace, pod, .. } = &state.place;
        let [.., ended] = ENDS;
        let reason = self.state_selector(state, ended, namespaces, &[("reason", Match::Is("OOMKilled"))]);
        let failed = self.state_selector(state, "kube_pod_status_phase", namespaces, &[("phase", Match::Is("Failed"))]);
        let (by, of_pod) = (state.place.labels(), format!("({namespace}, {pod})"));
        PromQl(format!("max by ({by}) ({reason} == 1) and on {of_pod} max by {of_pod} ({failed} == 1)"))
    }

    /// The restarts now, or the last known within so many seconds.
    pub fn restarts(&self, namespaces: &[&str], state: &State, pods: Match<'_>, within: Option<i64>) -> PromQl {
        let labels = [(state.place.pod.as_str(), pods)];
        self.by_container(namespaces, state, ALL_RESTARTS, &labels, |selector| last(&selector, within))
    }

    pub fn memory_limits(&self, namespaces: &[&str], state: &State, pods: Match<'_>) -> PromQl {
        let metrics = ["kube_pod_container_resource_limits", "kube_pod_init_container_resource_limits"];
        let labels = [("resource", Match::Is("memory")), (state.place.pod.as_str(), pods)];
        self.by_container(namespaces, state, metrics, &labels, |selector| selector.to_string())
    }

    /// One number for each container and init container, of two metrics of kube-state-metrics.
    fn by_container(
        &self,
        namespaces: &[&str],
        state: &State,
        metrics: [&str; 2],
        labels: &[(&str, Match<'_>)],
        number: impl Fn(Selector) -> String,
    ) -> PromQl {
        let by = state.place.labels();
        let parts = metrics.map(|metric| {
            let number = number(self.state_selector(state, metric, namespaces, labels));
            format!("max by ({by}) ({number})")
        });
        PromQl(parts.join(" or "))
    }

    /// The namespaces with containers in a usage metric, or with an image, within some seconds; and the label that names them.
    pub fn namespaces(&self, seconds: u32) -> Option<(PromQl, &'a str)> {
        let (namespace, series) = match (self.image, &self.names.state) {
            (Some(image), Some(state)) => {
                let namespace = state.place.namespace.as_str();
                let labels = [(namespace, PRESENT), (state.image.as_str(), Match::Contains(image))];
                let matchers = self.matchers.clone().and_all(&state.job);
                (namespace, vec![selector(&state.info, &labels, &matchers), selector(INIT_INFO, &labels, &matchers)])
            }
            _ => {
                let metric = self.names.memory.as_ref().or(self.names.cpu.as_ref().map(|cpu| &cpu.metric))?;
                let namespace = self.names.usage.namespace.as_str();
                let mut labels = vec![(namespace, PRESENT)];
                labels.extend(containers(&self.names.usage));
                (namespace, vec![selector(metric, &labels, &self.usage_matchers(metric))])
            }
        };
        let seen: Vec<String> = series.iter().map(|series| format!("last_over_time({series}[{seconds}s])")).collect();
        Some((PromQl(format!("group by ({namespace}) ({})", seen.join(" or "))), namespace))
    }

    /// The growth of the usage of ResourceQuotas per second, by its regression line over a week. A quota younger than
    /// a day has no answer.
    pub fn quota_growth(&self) -> PromQl {
        let used = self.used_of_quotas();
        PromQl(format!("deriv({used}[7d]) and {used} offset 1d"))
    }

    /// The same of TenantQuotas. Only the leading replica of the ledger has their usage, so that of the leaders of the week is
    /// put together first.
    pub fn tenant_quota_growth(&self, ledger: &Matchers) -> PromQl {
        let used = self.used_of_tenants(ledger);
        let by = "max by (quota, resource)";
        PromQl(format!("deriv(({by} ({used}))[7d:1h]) and {by} ({used} offset 1d)"))
    }

    /// The most that was used of ResourceQuotas within 30 days, and of TenantQuotas.
    pub fn quota_peaks(&self, ledger: &Matchers) -> [PromQl; 2] {
        let (of_namespace, of_tenants) = (self.used_of_quotas(), self.used_of_tenants(ledger));
        let of_tenants = format!("max_over_time((max by (quota, resource) ({of_tenants}))[30d:1h])");
        [PromQl(format!("max_over_time({of_namespace}[30d])")), PromQl(of_tenants)]
    }

    fn used_of_tenants(&self, ledger: &Matchers) -> Selector {
        selector(TENANT_QUOTA, &USED, &self.matchers.clone().and_all(ledger))
    }

    fn used_of_quotas(&self) -> Selector {
        let job = self.names.state.as_ref().map(|state| state.job.clone()).unwrap_or_default();
        selector("kube_resourcequota", &USED, &self.matchers.clone().and_all(&job))
    }

    /// The requests of the pods of each of these namespaces that had not ended, and the number of those, without a resource: the
    /// most within 30 days, and the growth per second over a week. A namespace younger than a day has no growth.
    pub fn requested(&self, namespaces: &[&str], state: &State) -> [PromQl; 4] {
        let ContainerLabels { namespace, pod, container } = &state.place;
        let phases = [("phase", Match::OneOf(&["Pending", "Running"]))];
        let pods = self.state_selector(state, "kube_pod_status_phase", namespaces, &phases);
        let pods = format!("max by ({namespace}, {pod}) ({pods} == 1)");
        let resources = [("resource", Match::OneOf(&["cpu", "memory"]))];
        let requests = self.state_selector(state, "kube_pod_container_resource_requests", namespaces, &resources);
        let requests = format!("max by ({namespace}, {pod}, {container}, resource) ({requests})");
        let requests = format!("sum by ({namespace}, resource) ({requests} and on ({namespace}, {pod}) {pods})");
        let pods = format!("sum by ({namespace}) ({pods})");
        let peak = |of: &str| PromQl(format!("max_over_time(({of})[30d:1h])"));
        let growth = |of: &str| PromQl(format!("deriv(({of})[7d:1h]) and count_over_time(({of})[2d:1h]) > 24"));
        [peak(&requests), peak(&pods), growth(&requests), growth(&pods)]
    }

    fn usage_selector(&self, metric: &str, namespaces: &[&str]) -> Selector {
        let mut labels = vec![(self.names.usage.namespace.as_str(), Match::OneOf(namespaces))];
        labels.extend(containers(&self.names.usage));
        selector(metric, &labels, &self.usage_matchers(metric).and_all(self.pods))
    }

    pub fn state_selector(
        &self,
        state: &State,
        metric: &str,
        namespaces: &[&str],
        more: &[(&str, Match<'_>)],
    ) -> Selector {
        let mut labels = vec![(state.place.namespace.as_str(), Match::OneOf(namespaces))];
        labels.extend(more);
        selector(metric, &labels, &self.matchers.clone().and_all(&state.job))
    }

    /// The user's matchers, and the job whose series count.
    pub fn usage_matchers(&self, metric: &str) -> Matchers {
        let all = self.matchers.clone();
        if names::has_job(metric) { all.and_all(&self.names.usage_job) } else { all }
    }

    fn usage_labels(&self, with_image: bool) -> String {
        let labels = self.names.usage.labels();
        match &self.names.usage_image {
            Some(image) if with_image => format!("{labels}, {image}"),
            _ => labels,
        }
    }

    /// A step, or the distance of two scrapes if that is longer; a millisecond less, because Prometheus 2 counts both
    /// ends of a range as inside and would see the sample on the border twice.
    fn gauge_milliseconds(&self) -> u64 {
        u64::from(self.step_seconds.max(self.names.scrape_seconds)) * 1000 - 1
    }
}

fn last(series: &Selector, within: Option<i64>) -> String {
    within.map_or_else(|| series.to_string(), |seconds| format!("last_over_time({series}[{seconds}s])"))
}

/// Selects the series of containers, without those of pods, cgroups and pause containers.
fn containers(place: &ContainerLabels) -> [(&str, Match<'static>); 3] {
    [(&place.pod, PRESENT), (&place.container, PRESENT), (&place.container, Match::IsNot("POD"))]
}

/// Over how many seconds CPU is averaged: the step, or what it takes for two scrapes to fall in. Longer would bear a
/// missing scrape, and hide the peaks; as it is, a missing scrape is a gap.
pub fn rate_seconds(step: u32, scrape: u32) -> u32 {
    step.max(scrape.saturating_mul(2))
}

/// Series of one metric. Also used before the names are known.
fn selector(metric: &str, labels: &[(&str, Match<'_>)], matchers: &Matchers) -> Selector {
    Selector::of(metric, labels, &names::own_matchers(metric).and_all(matchers))
}

/// The number of containers that a metric has under these labels; asked before the names are known.
pub fn count_of_containers(metric: &str, place: &ContainerLabels, image: Option<&str>, matchers: &Matchers) -> PromQl {
    count_of_containers_by(&[], metric, place, image, matchers)
}

/// The same by other labels.
pub fn count_of_containers_by(
    by: &[&str],
    metric: &str,
    place: &ContainerLabels,
    image: Option<&str>,
    matchers: &Matchers,
) -> PromQl {
    let mut labels = vec![(place.namespace.as_str(), PRESENT)];
    labels.extend(containers(place));
    labels.extend(image.map(|image| (image, PRESENT)));
    let (series, place) = (selector(metric, &labels, matchers), place.labels());
    PromQl(match by.join(", ") {
        by if by.is_empty() => format!("count(group by ({place}) ({series}))"),
        by => format!("count by ({by}) (group by ({by}, {place}) ({series}))"),
    })
}

pub fn count_of_swapped(place: &ContainerLabels, matchers: &Matchers) -> PromQl {
    let series = selector(names::SWAP, &containers(place), matchers);
    PromQl(format!("count(max by ({}) ({series}) > 0)", place.labels()))
}

/// The series of TenantQuotas within a day, by job.
pub fn tenant_quotas_by_job(matchers: &Matchers) -> PromQl {
    let used = selector(TENANT_QUOTA, &USED, matchers);
    PromQl(format!("count by ({}) (last_over_time({used}[1d]))", jobs::LABELS.join(", ")))
}

/// The number of series of pods, which name no container.
pub fn count_of_pods(metric: &str, matchers: &Matchers) -> PromQl {
    let of_pods = [("pod", PRESENT), ("container", Match::Is(""))];
    PromQl(format!("count({})", selector(metric, &of_pods, matchers)))
}

/// The number of containers with series of several jobs.
pub fn count_of_contested(metric: &str, place: &ContainerLabels, matchers: &Matchers) -> PromQl {
    let (by, series) = (place.labels(), selector(metric, &containers(place), matchers));
    PromQl(format!("count(count by ({by}) (group by (job, {by}) ({series})) > 1)"))
}

/// The number of containers' series of a metric, by some labels.
pub fn count_by(labels: &[&str], metric: &str, place: &ContainerLabels, matchers: &Matchers) -> PromQl {
    PromQl(format!("count by ({}) ({})", labels.join(", "), selector(metric, &containers(place), matchers)))
}

/// For each job, one container that has several series now and had each a quarter of an hour ago: they are not of a container
/// that was restarted, nor of a pod that moved.
pub fn lasting_twins(job: &[&str], metric: &str, place: &ContainerLabels, matchers: &Matchers) -> PromQl {
    let (job, ContainerLabels { namespace, pod, container }) = (job.join(", "), place);
    let lasting = lasting(&selector(metric, &containers(place), matchers));
    let of_each = format!("count by ({job}, {namespace}, {pod}, {container}) ({lasting})");
    PromQl(format!("topk by ({job}) (1, {of_each} > 1)"))
}

/// The series with these labels that a metric has now and had a quarter of an hour ago.
pub fn lasting_series(metric: &str, labels: &[(&str, Match<'_>)], matchers: &Matchers) -> PromQl {
    PromQl(lasting(&selector(metric, labels, matchers)))
}

fn lasting(series: &Selector) -> String {
    format!("{series} and {series} offset 15m")
}

pub fn now() -> PromQl {
    PromQl("vector(time())".to_owned())
}

/// Answered with a number by VictoriaMetrics alone, to which a sample that is no number is none.
pub fn is_metrics_ql() -> PromQl {
    PromQl("absent(vector(NaN))".to_owned())
}

/// The creation time of the namespace kube-system.
pub fn created(state: &State, matchers: &Matchers) -> PromQl {
    let labels = [(state.place.namespace.as_str(), Match::Is(KUBE_SYSTEM))];
    PromQl(selector("kube_namespace_created", &labels, &matchers.clone().and_all(&state.job)).to_string())
}

/// The series of a container that was there longest in the last ten minutes.
pub fn steadiest(metric: &str, place: &ContainerLabels, matchers: &Matchers) -> PromQl {
    PromQl(format!("topk(1, count_over_time({}[10m]))", selector(metric, &containers(place), matchers)))
}

/// The samples of one series in the last ten minutes, as they are stored.
pub fn stored_samples(metric: &str, labels: &BTreeMap<String, String>) -> PromQl {
    let labels: Vec<_> = labels.iter().map(|(label, value)| (label.as_str(), Match::Is(value))).collect();
    PromQl(format!("{}[10m]", selector(metric, &labels, &Matchers::default())))
}

#[cfg(test)]
mod tests {
    use super::super::names::{Overrides, PLACE};
    use super::*;

    fn names(scrape_seconds: u32) -> Names {
        let (overrides, place) = (Overrides::default(), ContainerLabels::of(PLACE));
        Names {
            cpu: Some(overrides.cpu()),
            memory: Some(overrides.memory()),
            storage: None,
            state: overrides.states().into_iter().find(|state| state.place == place),
            usage: place,
            usage_job: Matchers::default(),
            usage_image: Some("image".into()),
            state_away_since: None,
            scrape_seconds,
            metrics_ql: false,
            swaps: false,
        }
    }

    fn check(names: &Names, matchers: &str, ask: impl Fn(&Queries) -> PromQl, expected: &str) {
        let (matchers, pods) = (&Matchers::from(matchers.to_owned()), &Matchers::default());
        let queries = Queries { names, matchers, image: None, pods, step_seconds: 60, leaves_border: false };
        assert_eq!(ask(&queries).as_str(), expected);
    }

    /// Checks the query for the usage of these namespaces. `$` stands for the selector of containers.
    fn check_usage(
        names: &Names,
        matchers: &str,
        namespaces: &[&str],
        resource: Resource,
        image: bool,
        expected: &str,
    ) {
        let expected = expected.replace('$', r#"pod!="",container!="",container!="POD""#);
        check(names, matchers, |queries| queries.usage(namespaces, resource, image).unwrap(), &expected);
    }

    #[test]
    fn usage_is_one_series_for_each_container() {
        use Resource::{Cpu, EphemeralStorage, Memory};
        let cpu =
            r#"max by (namespace, pod, container) (rate(container_cpu_usage_seconds_total{namespace="shop",$}[60s]))"#;
        check_usage(&names(15), "", &["shop"], Cpu, false, cpu);
        let cpu = r#"max by (namespace, pod, container, image) (rate(container_cpu_usage_seconds_total{namespace="shop",$,cluster="a"}[120s]))"#;
        check_usage(&names(60), r#"cluster="a""#, &["shop"], Cpu, true, cpu);
        let memory = r#"max by (namespace, pod, container) (max_over_time(container_memory_working_set_bytes{namespace="shop",$}[59999ms]))"#;
        check_usage(&names(30), "", &["shop"], Memory, false, memory);
        let many = r#"max by (namespace, pod, container) (max_over_time(container_memory_working_set_bytes{namespace=~"shop|pay-2",$,cluster="a"}[59999ms]))"#;
        check_usage(&names(30), r#"cluster="a""#, &["shop", "pay-2"], Memory, false, many);
        // What is swapped counts beside.
        let swapped = r#"sum by (namespace, pod, container) (max by (namespace, pod, container) (max_over_time(container_memory_working_set_bytes{namespace="shop",$}[59999ms])) or label_replace(max by (namespace, pod, container) (max_over_time(container_memory_swap{namespace="shop",$}[59999ms])), "swap", "1", "", ""))"#;
        check_usage(&Names { swaps: true, ..names(30) }, "", &["shop"], Memory, false, swapped);
        // Storage is that of all devices.
        let storage = r#"sum by (namespace, pod, container) (max by (namespace, pod, container, device) (max_over_time(container_fs_usage_bytes{namespace="shop",$}[59999ms])))"#;
        let with_storage = Names { storage: Some("container_fs_usage_bytes".into()), ..names(15) };
        check_usage(&with_storage, "", &["shop"], EphemeralStorage, false, storage);
        // VictoriaMetrics' rate is 0 in gaps.
        let gaps = r#"max by (namespace, pod, container) (rate(container_cpu_usage_seconds_total{namespace="shop",$}[60s]) if count_over_time(container_cpu_usage_seconds_total{namespace="shop",$}[60s]))"#;
        check_usage(&Names { metrics_ql: true, ..names(15) }, "", &["shop"], Cpu, false, gaps);
        // A recording rule is not derived again.
        let rule = super::Cpu { metric: "ns_pod_container:cpu:sum_irate".into(), is_rate: true };
        let expected = r#"max by (namespace, pod, container) (last_over_time(ns_pod_container:cpu:sum_irate{namespace="shop",$}[119999ms]))"#;
        check_usage(&Names { cpu: Some(rule), ..names(120) }, "", &["shop"], Cpu, false, expected);
    }

    #[test]
    fn images_are_asked_for_init_containers_too() {
        check(
            &names(30),
            "",
            |queries| queries.images(&["shop"], queries.names.state.as_ref().unwrap(), None),
            r#"max by (namespace, pod, container, image_spec) (kube_pod_container_info{namespace="shop",image_spec!=""}) or max by (namespace, pod, container, image_spec) (kube_pod_init_container_info{namespace="shop",image_spec!=""})"#,
        );
    }
}
