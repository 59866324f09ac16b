//! The rule that amounts are made by, for the top of a report.

use std::fmt;

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::Resource;
use headroom_admission::estimate;
use headroom_admission::settings::{PercentileChoice, Settings};
use headroom_dry_run::settings::ParsedSettings;
use serde::Serialize;

use crate::advice::amounts::{resource_name, text};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RequestRule {
    #[serde(serialize_with = "resource_name")]
    pub resource: Resource,
    /// The largest of these counts.
    pub percentiles: Vec<String>,
    /// The margin on top: `10% + 25m`
    pub margin: String,
    #[serde(serialize_with = "text")]
    pub min: Quantity,
    /// All of it in a sentence.
    pub text: String,
}

/// `cpu request: the larger of p90 of recent and p80 of 7d, + 10% + 25m; …`
impl fmt::Display for RequestRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} request: {}", self.resource.name(), self.text)
    }
}

/// The rules in one sentence: `Requests cover p90 of recent cpu usage and p99.9 of recent memory usage, … plus a margin`; none
/// without rules.
pub fn sentence(rules: &[RequestRule]) -> Option<String> {
    let of = |rule: &RequestRule| Some(format!("{} {} usage", rule.percentiles.first()?, rule.resource.name()));
    let usage: Vec<String> = rules.iter().filter_map(of).collect();
    let has_more = rules.iter().any(|rule| rule.percentiles.len() > 1);
    let more = if has_more { ", or of longer windows if that is more," } else { "" };
    (!usage.is_empty()).then(|| format!("Requests cover {}{more} plus a margin", usage.join(" and ")))
}

/// The rules of the resources that are recommended by some settings, from UsageProfiles or where each pod is known. Settings
/// that cannot be read have none.
pub fn of(settings: &ParsedSettings, knows_pods: bool) -> Vec<RequestRule> {
    let Ok(Settings { estimates, .. }) = settings.read() else { return Vec::new() };
    let wanted = Resource::ALL.into_iter().filter(|resource| *estimates.resources.of(*resource));
    let rules = wanted.map(|resource| RequestRule {
        resource,
        percentiles: estimates.percentile.of(resource).iter().map(PercentileChoice::to_string).collect(),
        margin: estimates.margin.of(resource).to_string(),
        min: estimates.min.of(resource).clone(),
        text: estimate::rule_in_words(&estimates, resource, knows_pods),
    });
    rules.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_rule_says_what_counts_and_what_bounds_it() {
        let check = |knows_pods, estimates: Value, expected: &[&str]| {
            let settings = ParsedSettings::of(&json!({"estimates": estimates}));
            let rules: Vec<String> = of(&settings, knows_pods).iter().map(RequestRule::to_string).collect();
            assert_eq!(rules, expected, "{estimates}");
        };
        let of_cpu = json!({"resources": ["cpu"], "percentile": {"cpu": "p95"}, "margin": {"cpu": 0}});
        check(true, of_cpu, &["cpu request: p95 of each pod; at least 10m"]);
        let chosen =
            json!({"resources": ["cpu", "ephemeral-storage"], "percentile": {"cpu": 95}, "margin": {"cpu": 0}});
        let storage = "ephemeral-storage request: the larger of peak of 7d and p98 of 30d, + 10% + 64Mi; at least 32Mi";
        check(false, chosen, &["cpu request: p95; at least 10m", storage]);
        check(false, json!({"percentile": "p42"}), &[]);
    }
}
