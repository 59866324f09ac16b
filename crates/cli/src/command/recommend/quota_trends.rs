//! How the usage of quotas grew lately, from kube-state-metrics.

use headroom_sources::SourceError;
use headroom_sources::prometheus::{Reader, Row};
use serde::Serialize;

/// How the usage of a ResourceQuota grew lately.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Trend {
    pub namespace: String,
    pub quota: String,
    pub resource: String,
    /// In thousandths; less than nothing where it shrinks.
    pub per_day: i64,
}

const SECONDS_A_DAY: f64 = 86_400.0;

/// Reads how the usage of ResourceQuotas grew within a week, by the slope of its regression line. A quota younger than a day
/// has no trend.
pub async fn read(reader: &Reader, namespaces: &[String]) -> Result<Vec<Trend>, SourceError> {
    let rows = reader.api.moment(&reader.queries().quota_growth(), None).await?;
    let named = |row: &Row, label: &str| {
        let exported = row.label(&format!("exported_{label}"));
        if exported.is_empty() { row.label(label).to_owned() } else { exported.to_owned() }
    };
    let trend = |row: Row| {
        let a_day = row.value()? * SECONDS_A_DAY * 1_000.0;
        let (quota, resource) = (row.label("resourcequota").to_owned(), row.label("resource").to_owned());
        Some(Trend { namespace: named(&row, "namespace"), quota, resource, per_day: a_day.round() as i64 })
    };
    let is_shown = |trend: &Trend| namespaces.contains(&trend.namespace);
    Ok(rows.into_iter().filter_map(trend).filter(is_shown).collect())
}
