//! Reads responses. Nothing is sent from here, and floats end here.

use std::collections::BTreeMap;

use headroom_usage::sample::{Resource, Sample, SampledContainer};
use http::StatusCode;
use serde::Deserialize;
use serde::de::Deserializer;

use super::names::ContainerLabels;
use crate::http::{self as edge, Redactor, StoreText};
use crate::{SourceError, json_splitter};

/// The label with the number of the query that a row answers.
pub const NUMBER: &str = "headroom_question";

/// One series of an answer: a range's (matrix) or a moment's (vector).
#[derive(Debug, Default, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct AnswerSeries {
    metric: BTreeMap<String, String>,
    #[serde(deserialize_with = "finite")]
    values: Vec<(i64, f64)>,
    value: Option<Pair>,
}

#[derive(Debug, Clone, PartialEq)]
struct Pair(i64, f64);

impl AnswerSeries {
    /// The value of a label; a label that is missing and one that is empty mean the same to Prometheus.
    pub fn label(&self, name: &str) -> &str {
        self.metric.get(name).map_or("", String::as_str)
    }

    /// The labels that select the series itself, without those of a question or of the answer's name.
    pub fn labels_of_series(&self) -> BTreeMap<String, String> {
        let mut labels = self.metric.clone();
        labels.retain(|label, _| label != NUMBER && label != "__name__");
        labels
    }

    pub fn points(&self) -> &[(i64, f64)] {
        &self.values
    }

    /// The value of a moment, if it is a number.
    pub fn value(&self) -> Option<f64> {
        self.value.as_ref().map(|pair| pair.1).filter(|value| value.is_finite())
    }

    /// The points as samples of so many seconds: whole nanocores or bytes. Less than nothing is no usage.
    pub fn samples(&self, resource: Resource, seconds: u32) -> impl Iterator<Item = Sample> {
        let seconds = seconds.into();
        let scale = match resource {
            Resource::Cpu => 1e9,
            Resource::Memory | Resource::EphemeralStorage => 1.0,
        };
        self.points().iter().filter(|(_, value)| *value >= 0.0).map(move |&(time, value)| {
            let value = (value * scale).round() as u64;
            Sample { time, value, seconds }
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerRef {
    pub namespace: String,
    pub pod: String,
    pub container: String,
}

impl ContainerRef {
    pub fn of(row: &AnswerSeries, place: &ContainerLabels) -> Self {
        let text = |label: &str| row.label(label).to_owned();
        Self { namespace: text(&place.namespace), pod: text(&place.pod), container: text(&place.container) }
    }

    pub fn with_image(&self, image: &str) -> SampledContainer {
        SampledContainer::of([&self.namespace, &self.pod, &self.container, image])
    }
}

impl From<&SampledContainer> for ContainerRef {
    fn from(of: &SampledContainer) -> Self {
        Self { namespace: of.namespace.clone(), pod: of.pod.clone(), container: of.name.clone() }
    }
}

pub fn row(bytes: &[u8]) -> Result<AnswerSeries, SourceError> {
    serde_json::from_slice(bytes)
        .map_err(|error| SourceError::Permanent(format!("the answer has a series that cannot be read: {error}")))
}

pub fn labels(bytes: &[u8]) -> Result<BTreeMap<String, String>, SourceError> {
    serde_json::from_slice(bytes)
        .map_err(|error| SourceError::Permanent(format!("the answer has labels that cannot be read: {error}")))
}

/// Finite values with their time in unix seconds. NaN and infinities are no samples: they are what is left when a
/// quotient had nothing to divide, or a stale marker that an exporter wrote itself.
fn finite<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(i64, f64)>, D::Error> {
    let pairs = Vec::<Pair>::deserialize(deserializer)?.into_iter();
    Ok(pairs.filter(|Pair(_, value)| value.is_finite()).map(|Pair(time, value)| (time, value)).collect())
}

impl<'de> Deserialize<'de> for Pair {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (time, text) = <(f64, &str)>::deserialize(deserializer)?;
        let value = text.parse().map_err(|_| serde::de::Error::custom(format_args!("`{text}` is not a number")))?;
        let time = time.round() as i64;
        Ok(Self(time, value))
    }
}

/// The response without its series.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    status: String,
    #[serde(default)]
    error_type: String,
    /// The API server says as a message why it reaches no store.
    #[serde(default, alias = "message")]
    error: StoreText,
    #[serde(default)]
    warnings: Vec<StoreText>,
    /// VictoriaMetrics: a storage node did not answer.
    #[serde(default)]
    is_partial: bool,
}

/// Checks that a response is complete. Returns its warnings.
pub fn close(redactor: &Redactor, envelope: &[u8], accept_partial: bool) -> Result<Vec<String>, SourceError> {
    let envelope: Envelope = serde_json::from_slice(envelope).map_err(|error| {
        if error.is_eof() {
            json_splitter::truncated()
        } else {
            let error = redactor.shown(&error.to_string().into());
            SourceError::Permanent(format!("the answer is not that of a Prometheus API: {error}"))
        }
    })?;
    if envelope.status != "success" {
        return Err(SourceError::Temporary(format!("the query failed: `{}`", redactor.shown(&envelope.error))));
    }
    if envelope.is_partial && !accept_partial {
        return Err(SourceError::Temporary(
            "the answer is partial because a part of the store did not answer: wait for it, or accept partial answers"
                .to_owned(),
        ));
    }
    Ok(envelope.warnings.iter().map(|warning| redactor.shown(warning)).collect())
}

/// The error of a response that is not successful.
pub fn refusal(redactor: &Redactor, status: StatusCode, body: &StoreText) -> SourceError {
    let Ok(envelope) = body.json::<Envelope>() else {
        return edge::refusal(redactor, status, body);
    };
    let said = &envelope.error;
    let text = || format!("`{}` answers {}: `{}`", redactor.store, status.as_u16(), redactor.shown(said));
    // Prometheus says `timeout` with 503, VictoriaMetrics and Mimir say with 400 or 422 which limit was passed.
    let asked_too_much = matches!(envelope.error_type.as_str(), "timeout" | "canceled")
        || TOO_MUCH.iter().any(|words| said.contains(words));
    match status.as_u16() {
        503 | 400 if asked_too_much => SourceError::Overloaded(text()),
        _ => edge::refusal(redactor, status, said),
    }
}

/// The words with which stores refuse queries that ask for too much.
const TOO_MUCH: [&str; 5] = [
    "exceeded maximum resolution", // Prometheus: more than 11,000 points
    "too many samples",            // Prometheus
    "exceed",                      // Mimir, Cortex: "the query exceeded the maximum number of chunks"
    "limit",                       // Thanos: "exceeded series limit", Cortex: "the query hit the max number of … limit"
    "timed out",
];

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn redactor() -> Redactor {
        Redactor::new("p", &HeaderMap::new(), &[])
    }

    #[test]
    fn numbers_that_are_none_are_no_samples() {
        let row = row(
            br#"{"metric":{"pod":"a"},"values":[[60,"0.5"],[120,"NaN"],[180,"+Inf"],[240.001,"1e-3"],[300,"-1"]]}"#,
        )
        .unwrap();
        let samples: Vec<_> = row.samples(Resource::Cpu, 60).map(|sample| (sample.time, sample.value)).collect();
        assert_eq!(samples, [(60, 500_000_000), (240, 1_000_000)]);
        assert_eq!((row.label("pod"), row.label("image")), ("a", ""));
    }

    #[test]
    fn native_histograms_are_passed_over_and_an_unreadable_series_is_an_error() {
        let histogram = row(br#"{"metric":{},"histograms":[[60,{"count":"1","sum":"2"}]]}"#).unwrap();
        assert_eq!(histogram.points(), []);
        let error = row(br#"{"metric":{},"values":[[60,"many"]]}"#).unwrap_err();
        assert!(matches!(&error, SourceError::Permanent(text) if text.contains("`many` is not a number")), "{error}");
    }

    fn check_close(envelope: &str, expected: Result<&[&str], SourceError>) {
        let closed = close(&redactor(), envelope.as_bytes(), false);
        assert_eq!(closed, expected.map(|warnings| warnings.iter().map(|&warning| warning.to_owned()).collect()));
    }

    #[test]
    fn the_envelope_tells_whether_the_answer_was_whole() {
        check_close(r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#, Ok(&[]));
        check_close(
            r#"{"status":"success","data":{"result":[]},"warnings":["store a is gone"]}"#,
            Ok(&["store a is gone"]),
        );
        check_close(r#"{"status":"success","data":{"result":["#, Err(json_splitter::truncated()));
        check_close(
            r#"{"status":"success","isPartial":true,"data":{"result":[]}}"#,
            Err(SourceError::Temporary(
                "the answer is partial because a part of the store did not answer: wait for it, or accept partial answers"
                    .into(),
            )),
        );
        assert!(matches!(close(&redactor(), b"<html>", false), Err(SourceError::Permanent(_))));
    }

    #[test]
    fn a_refusal_says_whether_less_would_do() {
        let check = |status: u16, error_type: &str, said: &str, kind: fn(String) -> SourceError| {
            let body = serde_json::json!({"status": "error", "errorType": error_type, "error": said}).to_string();
            let found = refusal(&redactor(), StatusCode::from_u16(status).unwrap(), &body.into());
            assert_eq!(found, kind(format!("`p` answers {status}: `{said}`")));
        };
        let resolution =
            "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution";
        check(400, "bad_data", resolution, SourceError::Overloaded);
        check(503, "timeout", "query timed out in expression evaluation", SourceError::Overloaded);
        let samples = "query processing would load too many samples into memory in query execution";
        check(422, "execution", samples, SourceError::Overloaded);
        // VictoriaMetrics.
        check(422, "422", "cannot select more than -search.maxSamplesPerQuery=5 samples", SourceError::Overloaded);
        check(503, "unavailable", "no leader", SourceError::Temporary);
        check(400, "bad_data", r#"invalid parameter "query": parse error"#, SourceError::Permanent);
    }

    #[test]
    fn the_api_server_says_why_it_reaches_no_store() {
        let body = r#"{"kind":"Status","status":"Failure","message":"services \"p\" not found","code":404}"#;
        let text = "`p` answers 404: `services \"p\" not found`: check the URL, and the path in front of the API";
        let found = refusal(&redactor(), StatusCode::NOT_FOUND, &body.into());
        assert_eq!(found, SourceError::Permanent(text.to_owned()));
    }
}
