//! The peaks and the growth of what was charged to quotas in 30 days, or requested where there is no quota.

use headroom_core::amount::Quantity;
use headroom_report::people::Unit;
use headroom_rightsize::bounds::quota::Past;
use headroom_sources::SourceError;
use headroom_sources::prometheus::{AnswerSeries, StoreReader};

const SECONDS_A_DAY: f64 = 86_400.0;
/// Namespaces in one query.
const TOGETHER: usize = 50;

/// Reads them of these namespaces, and of all TenantQuotas.
pub async fn read(reader: &StoreReader, namespaces: &[String]) -> Result<Vec<Past>, SourceError> {
    let queries = reader.queries();
    let exported = |row: &AnswerSeries, label: &str| {
        let exported = row.label(&format!("exported_{label}"));
        if exported.is_empty() { row.label(label).to_owned() } else { exported.to_owned() }
    };
    let mut found = Vec::new();
    let [of_namespace, of_tenants] = queries.quota_peaks();
    for (question, is_peak) in [(of_namespace, true), (queries.quota_growth(), false)] {
        for row in reader.api.moment(&question, None).await? {
            let key =
                [exported(&row, "namespace"), row.label("resourcequota").to_owned(), row.label("resource").to_owned()];
            if namespaces.contains(&key[0]) {
                add(&mut found, key, &row, is_peak);
            }
        }
    }
    for (question, is_peak) in [(of_tenants, true), (queries.tenant_quota_growth(), false)] {
        for row in reader.api.moment(&question, None).await? {
            let key = [String::new(), row.label("quota").to_owned(), row.label("resource").to_owned()];
            add(&mut found, key, &row, is_peak);
        }
    }
    let Some(state) = &queries.names.state else { return Ok(found) };
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
    let is_it = |past: &&mut Past| past.namespace == namespace && past.quota == quota && past.name == name;
    let unit = Unit::of(&name, []);
    // A float saturates; less than nothing is nothing.
    let amount = |value: f64| match unit {
        Unit::Cores => Quantity::from_milli((value * 1_000.0).ceil().max(0.0) as i64),
        Unit::MiB | Unit::GiB => Quantity::from_bytes(value.ceil() as u64),
        Unit::One => Quantity::from_milli((value * 1_000.0).round().max(0.0) as i64),
    };
    let at = match found.iter_mut().position(|past| is_it(&past)) {
        Some(at) => at,
        None => {
            let (peak, per_day) = (Quantity::ZERO, Quantity::ZERO);
            found.push(Past { namespace, quota, name, peak, per_day });
            found.len() - 1
        }
    };
    if let Some(past) = found.get_mut(at) {
        if is_peak {
            past.peak = amount(value).max(past.peak.clone());
        } else {
            past.per_day = amount(value * SECONDS_A_DAY);
        }
    }
}
