//! The text of a breach: first Kubernetes' own text, to the letter, then advice.

use std::borrow::Cow;
use std::fmt;

use crate::amount::{Family, Quantity, ResourceName};
use crate::cluster::label_selector::Requirement;
use crate::truncate::{Names, count_of};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach<'d> {
    /// The quota that refuses; none if no quota does.
    pub quota: Option<Cow<'d, str>>,
    /// True if that quota is a TenantQuota.
    pub is_tenant: bool,
    pub fault: QuotaFault<'d>,
}

/// `MustSpecify`: names of the quota, each with the containers that must specify it. `Uncovered`: limited resources that no
/// quota covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuotaFault<'d> {
    MustSpecify { missing: Vec<(ResourceName<'d>, Names)> },
    UnknownStatus { names: Vec<String> },
    NegativeUsage { names: Names },
    NoOldObject,
    Uncovered { names: Names },
    UncoveredScopes { scopes: Vec<Requirement<'d>> },
    Exceeded { excesses: Vec<Excess<'d>>, forecast: Option<Forecast> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excess<'d> {
    pub name: ResourceName<'d>,
    pub requested: Quantity,
    pub used: Quantity,
    pub hard: Quantity,
    /// The sources of amounts that no author wrote.
    pub origins: Names,
}

/// The forecast for a workload whose pods exceed a quota; `wanted` and the last three are those of its `Rollout`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forecast {
    pub wanted: u64,
    pub rollout: RolloutForecast,
    pub noun: &'static str,
    pub assumption: Option<&'static str>,
    pub is_uncertain: bool,
}

/// The forecast for a rollout that does not find room for all its pods at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloutForecast {
    /// Only so many of them fit.
    Fits(u64),
    /// All would fit, but old pods that may not be removed yet leave no room for new ones. `surge`: the new pods that are
    /// created first, if none of them fits. `helps`: without a surge, the rollout would complete.
    Stops { created: u64, of: u64, surge: u64, helps: bool },
    /// It completes, but some new pods wait for old ones to be removed.
    Slower { surge: u64 },
}

impl<'d> Breach<'d> {
    pub fn of_no_quota(fault: QuotaFault<'d>) -> Self {
        Self { quota: None, is_tenant: false, fault }
    }

    /// True if the pods are all created in the end, or may be.
    pub fn only_warns(&self) -> bool {
        self.only_slows() || self.forecast().is_some_and(|forecast| forecast.is_uncertain)
    }

    /// True if no pod is refused for good.
    pub fn only_slows(&self) -> bool {
        self.forecast().is_some_and(|forecast| matches!(forecast.rollout, RolloutForecast::Slower { .. }))
    }

    /// True if its text says itself what becomes of the pods.
    pub fn names_pods(&self) -> bool {
        self.forecast().is_some_and(|forecast| {
            matches!(forecast.rollout, RolloutForecast::Fits(_) | RolloutForecast::Slower { .. })
        })
    }

    fn forecast(&self) -> Option<&Forecast> {
        match &self.fault {
            QuotaFault::Exceeded { forecast, .. } => forecast.as_ref(),
            _ => None,
        }
    }

    /// True if Kubernetes puts the object's name in front of such a refusal.
    pub fn names_object(&self) -> bool {
        !matches!(self.fault, QuotaFault::UncoveredScopes { .. })
    }
}

/// Kubernetes' own text.
impl fmt::Display for Breach<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quota = self.quota.as_deref().unwrap_or_default();
        match &self.fault {
            QuotaFault::MustSpecify { missing } => {
                let parts: Vec<String> = missing
                    .iter()
                    .map(|(name, containers)| format!("{name} for: {}", containers.joined(",")))
                    .collect();
                write!(f, "failed quota: {quota}: must specify {}", parts.join("; "))
            }
            QuotaFault::UnknownStatus { names } => {
                write!(f, "status unknown for quota: {quota}, resources: {}", names.join(","))
            }
            QuotaFault::NegativeUsage { names } => {
                write!(f, "quota usage is negative for resource(s): {}", names.joined(","))
            }
            QuotaFault::NoOldObject => {
                f.write_str("unable to get previous usage since prior version of object was not found")
            }
            QuotaFault::Uncovered { names } => write!(f, "insufficient quota to consume: {}", names.joined(",")),
            QuotaFault::UncoveredScopes { scopes } => {
                let scopes: Vec<String> = scopes.iter().map(ToString::to_string).collect();
                write!(f, "insufficient quota to match these scopes: [{}]", scopes.join(" "))
            }
            QuotaFault::Exceeded { excesses, .. } => {
                write!(f, "exceeded quota: {quota}")?;
                let mut list = |title, amount: fn(&Excess<'_>) -> String| {
                    let amounts: Vec<String> =
                        excesses.iter().map(|excess| format!("{}={}", excess.name, amount(excess))).collect();
                    write!(f, ", {title}: {}", amounts.join(","))
                };
                list("requested", |excess| excess.requested.to_string())?;
                list("used", |excess| excess.used.to_string())?;
                list("limited", |excess| excess.hard.to_string())
            }
        }
    }
}

impl Breach<'_> {
    /// Says what is wrong, in short, and how to fix it: `quota team: requests.cpu short by 500m (1500m available)`.
    pub fn advice(&self) -> String {
        let advice = match &self.fault {
            QuotaFault::MustSpecify { missing } => {
                let parts: Vec<String> =
                    missing.iter().map(|(name, containers)| format!("{name} in {}", containers.joined(", "))).collect();
                format!("set {}, or add defaults to a LimitRange", parts.join("; "))
            }
            QuotaFault::UnknownStatus { .. } => {
                "its usage has not been counted yet: try again in a moment, and check that the quota controller runs"
                    .to_owned()
            }
            QuotaFault::NegativeUsage { .. } => "ask for amounts of at least 0".to_owned(),
            QuotaFault::NoOldObject => "send the request through the API server, which adds the old object".to_owned(),
            QuotaFault::Uncovered { names } => {
                format!("no ResourceQuota in this namespace covers {}", names.joined(", "))
            }
            QuotaFault::UncoveredScopes { .. } => "no ResourceQuota in this namespace covers these scopes".to_owned(),
            QuotaFault::Exceeded { excesses, .. } => {
                let excesses: Vec<String> = excesses.iter().map(Excess::text).collect();
                excesses.join(", ")
            }
        };
        let noun = if self.is_tenant { "tenant quota" } else { "quota" };
        match (&self.quota, self.forecast()) {
            (Some(quota), Some(forecast)) => forecast.text(noun, quota, &advice),
            (Some(quota), None) => format!("{noun} {quota}: {advice}"),
            (None, _) => advice,
        }
    }
}

impl Excess<'_> {
    /// `requests.cpu short by 500m (1500m available)`
    fn text(&self) -> String {
        let mut text = self.shortage("");
        if !self.origins.is_empty() {
            text.push_str(&format!(" [{}]", self.origins.joined("; ")));
        }
        text
    }

    /// The same, with something to add about what is available.
    pub fn shortage(&self, more: &str) -> String {
        // If more than the bound is used already, that is missing too.
        let missing = self.requested.plus(&self.used).minus(&self.hard);
        let [missing, available] = [(&missing, true), (&super::free(&self.hard, &self.used), false)]
            .map(|(amount, is_rounded_up)| readable(&self.name, amount, is_rounded_up));
        format!("{} short by {missing} ({available} available{more})", self.name)
    }
}

/// An amount for people: bytes that have no short exact text are rounded to MiB. `600M`, `about 1987Mi`
fn readable(name: &str, amount: &Quantity, is_rounded_up: bool) -> String {
    const MEBI: i128 = 1 << 20;
    let exact = amount.to_string();
    let is_short = |text: &String| text.len() <= 7;
    let is_bytes = name.ends_with("memory") || name.ends_with("storage");
    if is_short(&exact) || !is_bytes || amount.is_out_of_range() {
        return exact;
    }
    let decimal = amount.to_family(Family::DecimalSi).to_string();
    if is_short(&decimal) {
        return decimal;
    }
    let units = amount.units();
    let (whole, rest) = (units >> MEBI.trailing_zeros(), units & (MEBI - 1));
    let about = if rest == 0 { "" } else { "about " };
    format!("{about}{}Mi", whole + i128::from(is_rounded_up && rest > 0))
}

impl Forecast {
    /// `only 4 of 6 replicas fit quota "team": requests.cpu short by 350m (650m available)`
    fn text(&self, kind: &str, quota: &str, excesses: &str) -> String {
        let Self { wanted, rollout, noun, assumption, .. } = self;
        let surge_of = |surge: u64| match surge {
            0 => String::new(),
            _ => format!("no room to surge by {}, so ", count_of(surge, "pod")),
        };
        let mut text = match rollout {
            RolloutForecast::Fits(fitting) => {
                format!("only {fitting} of {wanted} {noun} fit {kind} \"{quota}\": {excesses}")
            }
            RolloutForecast::Slower { surge } => {
                format!("{kind} {quota}: {}the rollout will be slower: {excesses}", surge_of(*surge))
            }
            RolloutForecast::Stops { created, of, surge, .. } => {
                let place = if *surge > 0 {
                    String::new()
                } else {
                    format!(" after {created} of {}", count_of(*of, "new pod"))
                };
                format!("{kind} {quota}: {}the rollout will stop{place}: {excesses}", surge_of(*surge))
            }
        };
        if let RolloutForecast::Stops { helps: true, .. } = rollout {
            text.push_str("; or set maxSurge 0, maxUnavailable 1");
        }
        if let Some(assumption) = assumption {
            text.push_str(&format!(" ({assumption})"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_short_and_advice_that_is_followed_helps() {
        let check = |name: &'static str, requested: &str, used: &str, hard: &str, expected: &str| {
            let [requested, used, hard] = [requested, used, hard].map(|text| text.parse().unwrap());
            let excess = Excess { name: name.into(), requested, used, hard, origins: Names::default() };
            assert_eq!(excess.text(), format!("{name} short by {expected}"));
        };
        check("limits.memory", "2684354560", "2210612736", "4Gi", "600M (about 1987Mi available)");
        check("requests.storage", "4Gi", "2210612737", "4Gi", "about 2109Mi (about 1987Mi available)");
        check("memory", "3Gi", "1Gi", "3Gi", "1Gi (2Gi available)");
        check("memory", "200M", "0", "104857600", "about 91Mi (100Mi available)");
        check("memory", "1Gi", "3Gi", "2Gi", "2Gi (0 available)");
        check("count/pods", "12345678", "0", "12345670", "8 (12345670 available)");
    }
}
