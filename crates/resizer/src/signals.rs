//! Knowledge of a metrics store about running pods: throttling and pressure, and the alerts of their teams.

use headroom_sources::SourceError;
use headroom_sources::prometheus::{AnswerSeries, Prometheus};

use crate::running::Usage;

/// The annotation of a workload with a PromQL expression that has a result while the workload suffers, as an alert's has.
pub const ALERT: &str = "headroom.dev/resize-alert";
/// The longest expression that is asked.
const LONGEST: usize = 1_000;

pub struct Signals(pub Prometheus);

impl Signals {
    /// Adds the time that containers wait for CPU or are throttled. Without an answer it is not known.
    pub async fn add_stalled(&self, namespace: &str, usage: &mut Usage) {
        let of = |metric: &str| format!("rate(container_{metric}{{namespace={namespace:?},container!=\"\"}}[5m])");
        let question = format!(
            "100 * max by (pod, container) ({} or {} / {})",
            of("pressure_cpu_waiting_seconds_total"),
            of("cpu_cfs_throttled_periods_total"),
            of("cpu_cfs_periods_total")
        );
        for row in self.ask(&question).await.unwrap_or_default() {
            let place = (row.label("pod").to_owned(), row.label("container").to_owned());
            if let (Some(used), Some(percent)) = (usage.get_mut(&place), row.value()) {
                used.stalled_percent = Some(percent.clamp(0.0, 100.0).round() as u32);
            }
        }
    }

    /// Returns true if an alert's expression has no result; none if nobody knows.
    pub async fn is_quiet(&self, alert: &str) -> Option<bool> {
        if alert.len() > LONGEST {
            tracing::warn!(bytes = alert.len(), "the annotation {ALERT} is longer than {LONGEST} bytes, and ignored");
            return None;
        }
        self.ask(alert).await.ok().map(|rows| rows.is_empty())
    }

    async fn ask(&self, question: &str) -> Result<Vec<AnswerSeries>, SourceError> {
        let answer = self.0.ask(question).await;
        answer.inspect_err(|error| tracing::warn!(question, %error, "the metrics store does not answer"))
    }
}
