//! Finds the quotas that are so close to their bounds that the age of their usage matters.

use std::borrow::Cow;

use super::{Added, QuotaCharge, QuotaFault, QuotaOutcome};
use crate::cluster::resource_quota::ResourceQuota;

/// A quota is close to its bound if this many more requests like this one would not fit.
const CLOSE: u64 = 10;

/// The quotas whose latest usage could change the outcome: those that refuse, then those that are close to refusing.
pub fn near_limit<'d>(outcome: &QuotaOutcome<'d>, quotas: &[ResourceQuota<'d>]) -> Vec<Cow<'d, str>> {
    let by_level =
        |fault: &QuotaFault<'_>| matches!(fault, QuotaFault::Exceeded { .. } | QuotaFault::UnknownStatus { .. });
    // The ledger publishes no newer usage of TenantQuotas than this.
    let refusing = outcome.breaches.iter().filter(|breach| by_level(&breach.fault) && !breach.is_tenant);
    let mut names: Vec<Cow<'d, str>> = refusing.filter_map(|breach| breach.quota.clone()).collect();
    for quota in quotas {
        let is_close = |charge: &QuotaCharge<'d>| {
            charge.added.iter().any(|Added { amount, used, hard, .. }| used.plus(&amount.times_count(CLOSE)) > *hard)
        };
        let is_charged =
            outcome.charges.iter().any(|charge| !charge.is_tenant && charge.quota == quota.name && is_close(charge));
        if is_charged && !names.contains(&quota.name) {
            names.push(quota.name.clone());
        }
    }
    names
}
