//! Chooses the scrape job whose usage of containers is read.
//!
//! If Prometheus honors the labels of its targets (`honorLabels`), an exporter of one namespace can claim the
//! containers of another, and the larger of two figures would win. So the series of one job count: the job that scrapes
//! cAdvisor at the kubelets, or kube-state-metrics, or else the job with most containers. It is chosen over all labels
//! that usage may have, because without `honorLabels`, the same exporter has labels that no kubelet has. A user who names
//! a job with `matchers` of the source file decides. An exporter that forges the labels of the job as well is kept out by
//! Prometheus alone, with `overrideHonorLabels`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::answer::AnswerSeries;
use super::selector::{Match, Matchers};

/// The path of cAdvisor's metrics at the kubelet. The Prometheus operator keeps it in the label `metrics_path`.
const CADVISOR: &str = "/metrics/cadvisor";
/// A part of the usual name of kube-state-metrics' job.
const STATE: &str = "kube-state-metrics";
/// The ledger's Service, by which the chart's ServiceMonitor names the job.
const LEDGER: &str = "headroom-ledger";
const JOB: &str = "job";
const PATH: &str = "metrics_path";
/// The labels that tell jobs apart.
pub const LABELS: [&str; 2] = [JOB, PATH];

/// The labels by which series are counted to choose a job; none if the user has named it.
pub fn labels(matchers: &Matchers) -> &'static [&'static str] {
    if matchers.mentions(JOB) { &[] } else { &LABELS }
}

/// A scrape job with series of containers.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub name: String,
    path: String,
    pub containers: f64,
}

/// The jobs that have series of a metric; the first is the one that counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Jobs(Vec<Job>);

impl Jobs {
    /// The jobs in the answers. Nobody is looked for if the user has named the job.
    pub fn among<'r>(metric: &str, rows: impl IntoIterator<Item = &'r AnswerSeries>, matchers: &Matchers) -> Self {
        if matchers.mentions(JOB) {
            return Self::default();
        }
        let mut jobs = BTreeMap::new();
        for row in rows {
            let most: &mut f64 = jobs.entry(LABELS.map(|label| row.label(label))).or_default();
            *most = most.max(row.value().unwrap_or_default());
        }
        let job =
            |([name, path], containers): ([&str; 2], f64)| Job { name: name.into(), path: path.into(), containers };
        Self::in_order(metric, jobs.into_iter().map(job).collect())
    }

    fn in_order(metric: &str, mut jobs: Vec<Job>) -> Self {
        jobs.sort_by(|one, other| {
            let is_usual = |job: &Job| {
                Reverse(match metric.split('_').next() {
                    Some("kube") => job.name.contains(STATE),
                    Some("headroom") => job.name.contains(LEDGER),
                    _ => job.path == CADVISOR,
                })
            };
            let by_size = other.containers.total_cmp(&one.containers);
            is_usual(one).cmp(&is_usual(other)).then(by_size).then_with(|| one.name.cmp(&other.name))
        });
        Self(jobs)
    }

    /// The matchers for every selector; empty if all series are of one job, or the user has named it.
    pub fn matchers(&self) -> Matchers {
        let all = Matchers::default();
        match self.0.split_first() {
            None => all,
            Some((first, [])) if first.name.is_empty() => all,
            Some((first, others)) => {
                let all = all.and(JOB, Match::Is(&first.name));
                let is_shared = others.iter().any(|other| other.name == first.name);
                if is_shared { all.and(PATH, Match::Is(&first.path)) } else { all }
            }
        }
    }

    /// True if the row is of the job that counts, or no job is chosen.
    pub fn counts(&self, row: &AnswerSeries) -> bool {
        self.0.first().is_none_or(|first| row.label(JOB) == first.name && row.label(PATH) == first.path)
    }

    /// The containers of the job that counts.
    pub fn containers(&self, rows: &[AnswerSeries]) -> f64 {
        rows.iter().filter(|row| self.counts(row)).filter_map(AnswerSeries::value).sum()
    }

    pub fn name(&self) -> &str {
        self.0.first().map_or("", |job| &job.name)
    }

    pub fn others(&self) -> impl Iterator<Item = &Job> {
        self.0.iter().skip(1).filter(|other| other.name != self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_of(metric: &str, jobs: &[(&str, &str, f64)], expected: &str) {
        let jobs =
            jobs.iter().map(|&(name, path, containers)| Job { name: name.into(), path: path.into(), containers });
        assert_eq!(Jobs::in_order(metric, jobs.collect()).matchers().to_string(), expected);
    }

    #[test]
    fn the_job_of_cadvisor_counts_and_else_the_largest() {
        let check =
            |jobs: &[(&str, &str, f64)], expected| check_of("container_memory_working_set_bytes", jobs, expected);
        check(&[], "");
        check(&[("", "", 5.0)], "");
        check(&[("kubelet", "", 5.0)], r#"job="kubelet""#);
        check(&[("evil/exporter", "", 2.0), ("cadvisor", "", 50.0)], r#"job="cadvisor""#);
        check(&[("evil/exporter", "/metrics", 900.0), ("kubelet", CADVISOR, 50.0)], r#"job="kubelet""#);
        check(&[("kubelet", "", 50.0), ("kube-state-metrics", "", 2.0)], r#"job="kubelet""#);
        let state = [("a", "", 50.0), ("prom-kube-state-metrics", "", 50.0)];
        check_of("kube_pod_container_info", &state, r#"job="prom-kube-state-metrics""#);
        let ledgers = [("evil/exporter", "", 9.0), ("headroom-ledger", "", 2.0)];
        check_of("headroom_tenantquota", &ledgers, r#"job="headroom-ledger""#);
        let both = [("kubelet", "/metrics/resource", 50.0), ("kubelet", CADVISOR, 50.0)];
        check(&both, r#"job="kubelet",metrics_path="/metrics/cadvisor""#);
        check(&[("a\"b", "", 2.0), ("", "", 1.0)], r#"job="a\"b""#);
        check(&[("exporter", "", 1.0), ("", "", 2.0)], r#"job="""#);
    }
}
