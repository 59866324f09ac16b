//! The peaks and the growth of what was charged to quotas in 30 days, or requested where there is no quota: of ResourceQuotas from
//! kube-state-metrics, of TenantQuotas from the ledger.

use headroom_admission::amount::Quantity;
use headroom_metrics_stores::SourceError;
use headroom_metrics_stores::prometheus::{AnswerSeries, StoreReader};
use headroom_output::people::Unit;
use headroom_recommend::bounds::quota::Past;

const SECONDS_A_DAY: f64 = 86_400.0;
/// Namespaces in one query.
const TOGETHER: usize = 50;

/// The part of it that is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PastOfQuotas {
    #[default]
    None,
    /// The growth of the usage of quotas within a week.
    Growth,
    All,
}

/// Reads it of the quotas in these namespaces, and of all TenantQuotas.
pub async fn read(reader: &StoreReader, namespaces: &[String], wanted: PastOfQuotas) -> Result<Vec<Past>, SourceError> {
    let (queries, mut found) = (reader.queries(), Vec::new());
    let [of_namespace, of_tenants] = queries.quota_peaks();
    for (question, name, is_peak) in [
        (of_namespace, "resourcequota", true),
        (queries.quota_growth(), "resourcequota", false),
        (of_tenants, "quota", true),
        (queries.tenant_quota_growth(), "quota", false),
    ] {
        let is_wanted = wanted == PastOfQuotas::All || wanted == PastOfQuotas::Growth && !is_peak;
        for row in if is_wanted { reader.api.moment(&question, None).await? } else { Vec::new() } {
            let labels = ["exported_namespace", "namespace"].map(|label| row.label(label));
            let namespace = labels.into_iter().find(|label| !label.is_empty() && name != "quota").unwrap_or_default();
            if name == "quota" || namespaces.iter().any(|of| of == namespace) {
                let key = [namespace, row.label(name), row.label("resource")].map(str::to_owned);
                add(&mut found, key, &row, is_peak);
            }
        }
    }
    let Some(state) = queries.names.state.as_ref().filter(|_| wanted == PastOfQuotas::All) else { return Ok(found) };
    let named: Vec<&str> = namespaces.iter().map(String::as_str).collect();
    for part in named.chunks(TOGETHER) {
        for (place, question) in queries.requested(part, state).into_iter().enumerate() {
            for row in reader.api.moment(&question, None).await? {
                let name = match row.label("resource") {
                    "" => "pods".to_owned(),
                    resource => format!("requests.{resource}"),
                };
                add(&mut found, [row.label(&state.place.namespace).to_owned(), String::new(), name], &row, place < 2);
            }
        }
    }
    Ok(found)
}

fn add(found: &mut Vec<Past>, [namespace, quota, name]: [String; 3], row: &AnswerSeries, is_peak: bool) {
    let Some(value) = row.value() else { return };
    let is_it = |past: &Past| past.namespace == namespace && past.quota == quota && past.name == name;
    let unit = Unit::of(&name, []);
    // A float saturates.
    let amount = |value: f64| match unit {
        Unit::Cores => Quantity::from_milli((value * 1_000.0).ceil() as i64),
        Unit::MiB | Unit::GiB if value > 0.0 => Quantity::from_bytes(value.ceil() as u64),
        Unit::MiB | Unit::GiB | Unit::One => Quantity::from_milli((value * 1_000.0).round() as i64),
    };
    let at = found.iter().position(is_it).unwrap_or_else(|| {
        found.push(Past { namespace, quota, name, peak: Quantity::ZERO, per_day: Quantity::ZERO });
        found.len() - 1
    });
    if let Some(past) = found.get_mut(at) {
        if is_peak {
            past.peak = amount(value).max(past.peak.clone());
        } else {
            past.per_day = amount(value * SECONDS_A_DAY);
        }
    }
}
