//! The two questions of Prometheus' API, and the one place that sends them.

use std::collections::BTreeMap;

use headroom_usage::sample::Window;

use super::PrometheusOptions;
use super::answer::{self, AnswerSeries, NUMBER};
use super::query::{self, PromQl};
use super::selector::Selector;
use crate::SourceError;
use crate::cloud_auth::Cloud;
use crate::http::{Authentication, Http};
use crate::json_splitter::{EachElement, Split, Splitter};

/// The bytes of the rows of an answer that are kept, unpacked. A row about a pod has some hundred.
const MAX_KEPT_BYTES: usize = 128 << 20;
/// Prometheus refuses to answer with more points than this in one series.
const MAX_POINTS: i64 = 11_000;

#[derive(Clone)]
pub struct Api {
    pub http: Http,
    pub accept_partial: bool,
    pub as_of: Option<i64>,
    /// Google's gateway, which knows every parameter of its APIs and refuses all others.
    pub is_google: bool,
}

pub type EachRow<'a> = dyn FnMut(AnswerSeries) + Send + 'a;

impl Api {
    pub fn new(http: Http, options: &PrometheusOptions) -> Self {
        let by_identity = matches!(&options.endpoint.authentication, Authentication::Cloud(who) if who.is_google());
        let is_google = by_identity || Cloud::of(options.endpoint.url.as_str()) == Some(Cloud::Google);
        Self { http, accept_partial: options.accept_partial, as_of: options.as_of, is_google }
    }

    /// Asks about each step of a window.
    pub async fn range(
        &self,
        question: &PromQl,
        window: Window,
        step_seconds: u32,
        each: &mut EachRow<'_>,
    ) -> Result<(), SourceError> {
        let step = i64::from(step_seconds);
        let points = window.seconds().div_euclid(step);
        if points > MAX_POINTS {
            return Err(SourceError::Overloaded(format!(
                "a window of {} s has {points} steps of {step} s, more than the {MAX_POINTS} that Prometheus answers",
                window.seconds()
            )));
        }
        // A range query answers for its end too, and a window's end belongs to the next one.
        let (start, end, step) = (window.from.to_string(), (window.to - step).to_string(), step.to_string());
        let moments = [("start", start.as_str()), ("end", end.as_str()), ("step", step.as_str())];
        let parameters = [("query", question.as_str())].into_iter().chain(moments).collect();
        let mut take = |element: &[u8]| answer::row(element).map(&mut *each);
        self.elements("/api/v1/query_range", parameters, Split::ArrayAt(2, "result"), &mut take).await
    }

    /// Asks about one moment, now if none is given.
    pub async fn moment(&self, question: &PromQl, at: Option<i64>) -> Result<Vec<AnswerSeries>, SourceError> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        let time = at.or(self.as_of).map(|at| at.to_string());
        let moment = time.iter().map(|time| ("time", time.as_str()));
        let parameters = [("query", question.as_str())].into_iter().chain(moment).collect();
        let mut take = |element: &[u8]| {
            bytes += element.len();
            if bytes > MAX_KEPT_BYTES {
                let (name, most) = (self.http.name(), MAX_KEPT_BYTES >> 20);
                return Err(SourceError::Overloaded(format!("`{name}` answers with more than {most} MiB")));
            }
            rows.push(answer::row(element)?);
            Ok(())
        };
        self.elements("/api/v1/query", parameters, Split::ArrayAt(2, "result"), &mut take).await?;
        Ok(rows)
    }

    /// Asks somebody's own expression about now, and reads no more than the first rows of the answer.
    pub async fn first_rows(&self, expression: &str, most: usize, each: &mut EachRow<'_>) -> Result<(), SourceError> {
        let mut rows = 0;
        let parameters = vec![("query", expression)];
        let take = &mut |element: &[u8]| {
            each(answer::row(element)?);
            rows += 1;
            // An error ends the answer.
            if rows < most { Ok(()) } else { Err(SourceError::Permanent(format!("{rows} rows are enough"))) }
        };
        let read = self.elements("/api/v1/query", parameters, Split::ArrayAt(2, "result"), take).await;
        if rows == most { Ok(()) } else { read }
    }

    /// The single number that answers a question, if there is one.
    pub async fn number(&self, question: &PromQl, at: Option<i64>) -> Result<Option<f64>, SourceError> {
        Ok(self.moment(question, at).await?.first().and_then(AnswerSeries::value))
    }

    /// Several questions about one moment in one query: the rows of each. Where the store cannot take them together, each is
    /// asked by itself, and one that the store does not understand has no rows.
    pub async fn moments(&self, questions: &[PromQl], at: Option<i64>) -> Result<Vec<Vec<AnswerSeries>>, SourceError> {
        let together = self.moment(&query::numbered(questions), at).await;
        if let Ok(rows) = &together
            && !rows.is_empty()
            && rows.iter().all(|row| !row.label(NUMBER).is_empty())
        {
            let of = |number: usize| rows.iter().filter(move |row| row.label(NUMBER) == number.to_string());
            return Ok((0..questions.len()).map(|number| of(number).cloned().collect()).collect());
        }
        if let Err(error @ SourceError::Temporary(_)) = together {
            return Err(error);
        }
        let mut found = Vec::new();
        for question in questions {
            found.push(match self.moment(question, at).await {
                Err(error) if error.is_permanent() => None,
                asked => Some(asked?),
            });
        }
        if found.iter().all(Option::is_none) {
            together?;
        }
        Ok(found.into_iter().map(Option::unwrap_or_default).collect())
    }

    /// The store's clock, in whole unix seconds.
    pub async fn now(&self) -> Result<i64, SourceError> {
        let time = self.number(&query::now(), None).await?;
        time.map(|time| time.floor() as i64)
            .ok_or_else(|| SourceError::Permanent(format!("`{}` does not report its time", self.http.name())))
    }

    /// The labels of every series that any of these selectors matches within a window: read from the store's index, so
    /// without reading a sample.
    pub async fn series(
        &self,
        selectors: &[Selector],
        window: Window,
        each: &mut (dyn FnMut(BTreeMap<String, String>) + Send),
    ) -> Result<(), SourceError> {
        let (start, end) = (window.from.to_string(), window.to.to_string());
        let mut parameters: Vec<_> = selectors.iter().map(|selector| ("match[]", selector.as_str())).collect();
        parameters.extend([("start", start.as_str()), ("end", end.as_str())]);
        let mut take = |element: &[u8]| answer::labels(element).map(&mut *each);
        self.elements("/api/v1/series", parameters, Split::ArrayAt(1, "data"), &mut take).await
    }

    /// Sends a question and cuts the answer into its series.
    async fn elements(
        &self,
        path: &str,
        mut parameters: Vec<(&str, &str)>,
        split: Split,
        each: EachElement<'_>,
    ) -> Result<(), SourceError> {
        let timeout = format!("{}s", self.http.timeout.as_secs().max(1));
        let partial = if self.accept_partial { ["true", "0"] } else { ["false", "1"] };
        // The store stops with this client; and each product has parameters of its own for whole and for fresh responses.
        parameters.push(("timeout", &timeout));
        if !self.is_google {
            parameters.push(("partial_response", partial[0])); // Thanos
            parameters.push(("deny_partial_response", partial[1])); // VictoriaMetrics
            parameters.push(("nocache", "1")); // VictoriaMetrics
        }
        tracing::debug!(path, ?parameters, "asking");
        let mut answer = self.http.get_or_post(path, &parameters).await?;
        if !answer.status.is_success() {
            return Err(answer::refusal(&answer.redactor(), answer.status, &answer.text().await?));
        }
        let mut splitter = Splitter::new(split);
        while let Some(bytes) = answer.next().await? {
            splitter.feed(&bytes, each)?;
        }
        for warning in answer::close(&answer.redactor(), &splitter.finish()?, self.accept_partial)? {
            tracing::warn!(store = self.http.name(), "the store warns: {warning}");
        }
        Ok(())
    }
}
