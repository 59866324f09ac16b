//! Reads responses. Nothing is sent from here, and floats end here.
//!
//! InfluxDB answers in documents, one a portion, and reports most errors inside a document with status 200.

use std::collections::BTreeMap;

use headroom_usage::sample::Sample;
use http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::NAME_IT;
use crate::SourceError;
use crate::http::{self as edge, Redactor, StoreText};

/// One portion of an answer; `Row` is a tuple of the columns.
#[derive(Debug, Deserialize)]
#[serde(bound = "Row: DeserializeOwned")]
struct Document<Row> {
    #[serde(default = "Vec::new")]
    results: Vec<Statement<Row>>,
    #[serde(default)]
    error: Option<StoreText>,
}

#[derive(Debug, Deserialize)]
#[serde(bound = "Row: DeserializeOwned")]
struct Statement<Row> {
    #[serde(default = "Vec::new")]
    series: Vec<InfluxSeries<Row>>,
    #[serde(default)]
    error: Option<StoreText>,
    /// More portions follow.
    #[serde(default)]
    partial: bool,
}

/// Rows with the same tags. A long series comes in several parts.
#[derive(Debug, Default, Deserialize)]
#[serde(bound = "Row: DeserializeOwned")]
pub struct InfluxSeries<Row> {
    #[serde(default)]
    tags: BTreeMap<String, String>,
    #[serde(default = "Vec::new")]
    pub values: Vec<Row>,
}

/// A time in unix seconds and a value; no value is a gap.
pub type Point = (i64, Option<f64>);

impl<Row> InfluxSeries<Row> {
    pub fn tag(&self, name: &str) -> &str {
        self.tags.get(name).map_or("", String::as_str)
    }
}

impl InfluxSeries<Point> {
    /// Whole nanocores or bytes over so many seconds, of values that are to be multiplied by `scale`.
    pub fn samples(&self, scale: f64, seconds: u32) -> Vec<Sample> {
        let measured = self.values.iter().filter_map(|&(time, value)| Some((time, value?)));
        measured
            .filter(|(_, value)| value.is_finite() && *value >= 0.0)
            .map(|(time, value)| Sample { time, value: (value * scale).round() as u64, seconds: seconds.into() })
            .collect()
    }
}

/// Reads one document: its series, and whether more follow.
pub fn portion<Row: DeserializeOwned>(
    redactor: &Redactor,
    bytes: &[u8],
) -> Result<(Vec<InfluxSeries<Row>>, bool), SourceError> {
    let document: Document<Row> = serde_json::from_slice(bytes).map_err(|error| {
        let error = redactor.shown(&error.to_string().into());
        SourceError::Permanent(format!("the answer of `{}` is not InfluxDB's: {error}", redactor.store))
    })?;
    if let Some(error) = document.error {
        return Err(failure(redactor, &error));
    }
    let (mut series, mut more) = (Vec::new(), false);
    for statement in document.results {
        if let Some(error) = statement.error {
            return Err(failure(redactor, &error));
        }
        series.extend(statement.series);
        more |= statement.partial;
    }
    Ok((series, more))
}

/// The error of a response that is not successful.
pub fn refusal(redactor: &Redactor, status: StatusCode, body: &StoreText) -> SourceError {
    let Ok(Document { error: Some(error), .. }) = body.json::<Document<serde::de::IgnoredAny>>() else {
        return edge::refusal(redactor, status, body);
    };
    match failure(redactor, &error) {
        found if status == StatusCode::BAD_REQUEST && !found.is_permanent() => found,
        _ => edge::refusal(redactor, status, &error),
    }
}

fn failure(redactor: &Redactor, error: &StoreText) -> SourceError {
    let text = format!("`{}` answers: `{}`", redactor.store, redactor.shown(error));
    if error.contains("max-concurrent-queries") {
        SourceError::Temporary(text)
    } else if error.contains("limit exce") || error.contains("timeout") {
        // "max-select-point limit exceeed", "max-select-series limit exceeded", "query-timeout limit exceeded"
        SourceError::Overloaded(text)
    } else if error.contains("database not found") {
        SourceError::Permanent(format!("{text}: {NAME_IT}"))
    } else if error.contains("engine: cache maximum memory size") || error.contains("shutting down") {
        SourceError::Temporary(text)
    } else {
        SourceError::Permanent(text)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn redactor() -> Redactor {
        Redactor::new("i", &HeaderMap::new(), &[])
    }

    // Recorded from InfluxDB 1.6.7, shortened.
    const USAGE: &str = r#"{"results":[{"statement_id":0,"series":[{"name":"cpu/usage_rate","tags":{"container_base_image":"nginx:1.27","container_name":"nginx","pod_name":"web-1"},"columns":["time","mean"],"values":[[600,12],[660,13.5],[720,null]],"partial":true}],"partial":true}]}"#;

    #[test]
    fn usage_is_read_in_whole_numbers() {
        let (series, more) = portion::<Point>(&redactor(), USAGE.as_bytes()).unwrap();
        assert!(more);
        let series = &series[0];
        assert_eq!((series.tag("pod_name"), series.tag("nodename")), ("web-1", ""));
        let sample = |time, value| Sample { time, value, seconds: 60 };
        assert_eq!(series.samples(1e6, 60), [sample(600, 12_000_000), sample(660, 13_500_000)]);
    }

    #[test]
    fn errors_stand_inside_good_answers() {
        let check = |error: &str, expected: SourceError| {
            let text = format!(r#"{{"results":[{{"statement_id":0,"error":"{error}"}}]}}"#);
            assert_eq!(portion::<Point>(&redactor(), text.as_bytes()).err(), Some(expected));
        };
        let says = |error: &str| format!("`i` answers: `{error}`");
        check(
            "database not found: k8s",
            SourceError::Permanent(format!("{}: {NAME_IT}", says("database not found: k8s"))),
        );
        let point = "max-select-point limit exceeed: (11/10)";
        check(point, SourceError::Overloaded(says(point)));
        let steps = "max-select-buckets limit exceeded: (120/30)";
        check(steps, SourceError::Overloaded(says(steps)));
        let concurrent = "max-concurrent-queries limit exceeded(3, 2)";
        check(concurrent, SourceError::Temporary(says(concurrent)));
    }

    #[test]
    fn a_bad_status_says_what_was_wrong() {
        let body = r#"{"error":"authorization failed"}"#;
        assert_eq!(
            refusal(&redactor(), StatusCode::UNAUTHORIZED, &body.into()),
            SourceError::Forbidden(
                "`i` answers 401: `authorization failed`: check the token, user or tenant, and what they may read"
                    .into()
            )
        );
    }
}
