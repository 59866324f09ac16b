//! Detects that a store has the usage of several clusters, whose equal names would be merged.
//!
//! kube-state-metrics has the creation time of the namespace kube-system, which no two clusters have in common. If
//! clusters share a store, a label of their series has the cluster's name.

use std::collections::{BTreeMap, BTreeSet};

use super::answer::AnswerSeries;
use super::selector::{Match, Matchers};
use crate::cluster_id::{self, ClusterId, LABELS};

/// Labels in which the series of one container differ within a cluster: its lives, its node, and scrapers that do the same.
const HARMLESS: [&str; 20] = [
    "container_id",
    "cpu",
    "endpoint",
    "host",
    "hostname",
    "id",
    "image",
    "image_id",
    "instance",
    "job",
    "k8s_node_name",
    "kubernetes_io_hostname",
    "kubernetes_node",
    "metrics_path",
    "name",
    "node",
    "pod_uid",
    "prometheus",
    "service",
    "uid",
];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clusters {
    /// The creation times of kube-system.
    created: BTreeSet<i64>,
    /// The values of each label that has several.
    labels: BTreeMap<String, BTreeSet<String>>,
    /// The same of labels whose meaning is not known, in which the series of one container differ.
    unknown: BTreeMap<String, BTreeSet<String>>,
}

impl Clusters {
    /// The clusters in the answers to `query::created` and `query::count_by` with [`LABELS`].
    pub fn among(created: &[AnswerSeries], by_label: &[AnswerSeries]) -> Self {
        let created = created.iter().filter_map(AnswerSeries::value).map(|created| created.round() as i64).collect();
        let values = |label: &str| by_label.iter().map(|row| row.label(label).to_owned()).collect::<BTreeSet<_>>();
        let labels = LABELS.map(|label| (label.to_owned(), values(label))).into_iter();
        Self { created, labels: labels.filter(|(_, values)| values.len() > 1).collect(), unknown: BTreeMap::new() }
    }

    pub fn id(&self) -> ClusterId {
        let created = self.created.first().copied().filter(|_| self.created.len() == 1);
        ClusterId { created, ..ClusterId::default() }
    }

    /// The message that asks for `matchers`, if there are several clusters.
    pub fn question(&self) -> Option<String> {
        let example = |label: &str, values: &BTreeSet<String>| {
            let example = values.iter().find(|value| !value.is_empty()).map_or("", String::as_str);
            Matchers::default().and(label, Match::Is(example)).to_string().replace('\'', "''")
        };
        if let Some((label, values)) = self.labels.first_key_value() {
            return Some(format!(
                "has the usage of several clusters (label `{label}`: {}): which one is this? Say so as \
                 `matchers: '{}'` in --source",
                cluster_id::listed(values),
                example(label, values)
            ));
        }
        if let Some((label, values)) = self.unknown.first_key_value() {
            let differences: Vec<String> = self
                .unknown
                .iter()
                .map(|(label, values)| format!("`{label}`: {}", cluster_id::listed(values)))
                .collect();
            return Some(format!(
                "has several series of one container, which may be of several clusters ({}): choose one as \
                 `matchers: '{}'` in --source, or the largest of them as `matchers: '{label}=~\".*\"'`",
                differences.join("; "),
                example(label, values)
            ));
        }
        (self.created.len() > 1).then(|| {
            format!(
                "has the usage of {} clusters (by when their kube-system was created): say which one as `matchers` in --source, by \
                 a label that tells them apart",
                self.created.len()
            )
        })
    }

    /// Takes the labels in which lasting series of one container differ. A label that the user's matchers name is answered.
    pub fn take_twins(&mut self, rows: &[AnswerSeries], matchers: &Matchers) {
        let labels: Vec<_> = rows.iter().map(AnswerSeries::labels_of_series).collect();
        let is_harmless =
            |label: &str| HARMLESS.contains(&label) || label.contains("replica") || LABELS.contains(&label);
        let names: BTreeSet<&String> = labels.iter().flat_map(BTreeMap::keys).collect();
        for name in names.into_iter().filter(|name| !is_harmless(name) && !matchers.mentions(name)) {
            let value = |labels: &BTreeMap<String, String>| labels.get(name).cloned().unwrap_or_default();
            let values: BTreeSet<String> = labels.iter().map(value).collect();
            if values.len() > 1 {
                self.unknown.insert(name.clone(), values);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer;
    use super::*;

    fn rows(series: &[(&str, i64)]) -> Vec<AnswerSeries> {
        let row = |(labels, value): &(&str, i64)| {
            let text = format!(r#"{{"metric":{{{labels}}},"value":[60,"{value}"]}}"#);
            answer::row(text.as_bytes()).unwrap()
        };
        series.iter().map(row).collect()
    }

    #[test]
    fn series_of_one_container_that_differ_in_an_unknown_label_are_asked_about() {
        let check = |series: &[&str], matchers: &str, expected: Option<&str>| {
            let series: Vec<_> = series.iter().map(|labels| (*labels, 1)).collect();
            let mut clusters = Clusters::default();
            clusters.take_twins(&rows(&series), &Matchers::from(matchers.to_owned()));
            assert_eq!(clusters.question().as_deref(), expected);
        };
        let question = "has several series of one container, which may be of several clusters (`environment`: `dev`, `prod`; \
                        `zone`: none, `b`): choose one as `matchers: 'environment=\"dev\"'` in --source, or the largest of them \
                        as `matchers: 'environment=~\".*\"'`";
        let of_dev = r#""pod":"a","environment":"dev","instance":"1","prometheus_replica":"a""#;
        let of_prod = r#""pod":"a","environment":"prod","instance":"2","prometheus_replica":"b","zone":"b""#;
        check(&[of_dev], "", None);
        check(&[of_dev, of_prod], "", Some(question));
        check(&[of_dev, r#""pod":"a","environment":"prod""#], r#"environment=~".*""#, None);
        check(&[r#""id":"/a","name":"a","node":"n1""#, r#""id":"/b","name":"b","node":"n2""#], "", None);
    }

    #[track_caller]
    fn check(created: &[(&str, i64)], usage: &[(&str, i64)], known: Option<i64>, expected: Option<&str>) {
        let clusters = Clusters::among(&rows(created), &rows(usage));
        assert_eq!((clusters.id().created, clusters.question().as_deref()), (known, expected));
    }

    #[test]
    fn several_clusters_are_asked_about() {
        let (pod_a, pod_b) = (r#""pod":"a""#, r#""pod":"b""#);
        check(&[], &[("", 3)], None, None);
        check(&[(pod_a, 100), (pod_b, 100)], &[(r#""cluster":"prod""#, 3)], Some(100), None);
        check(
            &[(pod_a, 100), (pod_b, 200)],
            &[("", 3)],
            None,
            Some(
                "has the usage of 2 clusters (by when their kube-system was created): say which one as `matchers` in --source, by \
                 a label that tells them apart",
            ),
        );
        check(
            &[],
            &[(r#""cluster_name":"prod""#, 3), (r#""cluster_name":"staging""#, 3), ("", 1)],
            None,
            Some(
                "has the usage of several clusters (label `cluster_name`: none, `prod`, `staging`): which one is this? Say \
                 so as `matchers: 'cluster_name=\"prod\"'` in --source",
            ),
        );
        // The YAML is valid, whatever a cluster is called.
        check(
            &[],
            &[(r#""cluster":"a'\"; $(b)""#, 3), (r#""cluster":"c""#, 3)],
            None,
            Some(
                "has the usage of several clusters (label `cluster`: `a'\"; $(b)`, `c`): which one is this? Say so as \
                 `matchers: 'cluster=\"a''\\\"; $(b)\"'` in --source",
            ),
        );
    }
}
