//! The reason why a change is not handed out, and what would be admitted in its place.

use std::fmt;

use headroom_admission::amount::Quantity;
use headroom_admission::truncate::count_of;
use headroom_dry_run::evaluate::Verdict;
use serde::Serialize;

use crate::advice::amounts::text;

/// A change that `check` would not pass: the API server rejects it, or it stops its own rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Blocked {
    /// `pods blocked`, `rejected` or `invalid`
    pub verdict: Verdict,
    /// In the words of `check`.
    pub reasons: Vec<String>,
    /// The first workloads of the namespace that got more in the same run before, such as `deployment/web`, and how many did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    #[serde(skip)]
    pub after_count: usize,
    /// The largest requests below the recommended ones that pass.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fits: Vec<Fit>,
    /// The bounds of quotas with which the whole change passes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub raise: Vec<BlockingBound>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fit {
    pub container: String,
    pub resource: &'static str,
    #[serde(serialize_with = "text")]
    pub amount: Quantity,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockingBound {
    pub quota: String,
    /// True for a TenantQuota.
    pub is_tenant: bool,
    /// `requests.cpu`
    pub resource: String,
    #[serde(serialize_with = "text")]
    pub hard: Quantity,
}

/// `pods blocked: only 1 of 2 replicas fit quota "compute": …; app cpu 480m fits; or raise requests.cpu of quota compute to 2300m`
impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.verdict, self.reasons.join("; "))?;
        match self.after.as_slice() {
            [] => {}
            [one] => write!(f, " (after {one} in this run)")?,
            [first, ..] => {
                let others = self.after_count.saturating_sub(1) as u64;
                write!(f, " (after {first} and {} in this run)", count_of(others, "other"))?;
            }
        }
        let fits =
            self.fits.iter().map(|Fit { container, resource, amount }| format!("{container} {resource} {amount}"));
        let fits = fits.collect::<Vec<_>>().join(", ");
        let raise = self.raise.iter().map(|BlockingBound { quota, is_tenant, resource, hard }| {
            format!("{resource} of {}quota {quota} to {hard}", if *is_tenant { "tenant " } else { "" })
        });
        let raise = raise.collect::<Vec<_>>().join(", ");
        match (fits.as_str(), raise.as_str()) {
            ("", "") => Ok(()),
            (fits, "") => write!(f, "; {fits} fits"),
            ("", raise) => write!(f, "; raise {raise}"),
            (fits, raise) => write!(f, "; {fits} fits; or raise {raise}"),
        }
    }
}
