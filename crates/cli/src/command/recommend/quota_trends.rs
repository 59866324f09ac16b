//! The growth of the usage of quotas: of ResourceQuotas from kube-state-metrics, of TenantQuotas from the ledger.

use headroom_sources::SourceError;
use headroom_sources::prometheus::{AnswerSeries, StoreReader};
use serde::Serialize;

/// The recent growth of a quota's usage.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Trend {
    /// Empty for a TenantQuota.
    pub namespace: String,
    pub quota: String,
    pub resource: String,
    /// In thousandths; less than nothing where it shrinks.
    pub per_day: i64,
}

const SECONDS_A_DAY: f64 = 86_400.0;

/// Reads how the usage of the ResourceQuotas in these namespaces and of all TenantQuotas grew within a week, by the slope of its
/// regression line. A quota younger than a day has no trend.
pub async fn read(reader: &StoreReader, namespaces: &[String]) -> Result<Vec<Trend>, SourceError> {
    let queries = reader.queries();
    let exported = |row: &AnswerSeries, label: &str| {
        let exported = row.label(&format!("exported_{label}"));
        if exported.is_empty() { row.label(label).to_owned() } else { exported.to_owned() }
    };
    let of_namespace = reader.api.moment(&queries.quota_growth(), None).await?;
    let of_namespace = of_namespace
        .into_iter()
        .filter_map(|row| trend(&row, exported(&row, "namespace"), "resourcequota"))
        .filter(|trend| namespaces.contains(&trend.namespace));
    let of_tenants = reader.api.moment(&queries.tenant_quota_growth(), None).await?;
    let of_tenants = of_tenants.into_iter().filter_map(|row| trend(&row, String::new(), "quota"));
    Ok(of_namespace.chain(of_tenants).collect())
}

fn trend(row: &AnswerSeries, namespace: String, quota: &str) -> Option<Trend> {
    let a_day = row.value()? * SECONDS_A_DAY * 1_000.0;
    let (quota, resource) = (row.label(quota).to_owned(), row.label("resource").to_owned());
    Some(Trend { namespace, quota, resource, per_day: a_day.round() as i64 })
}
