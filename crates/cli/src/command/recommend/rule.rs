//! The form of a rule on the command line, for people of KRR and of the VerticalPodAutoscaler: the settings that it stands for.

use std::str::FromStr;

use anyhow::bail;
use headroom_admission::amount::Family;
use headroom_admission::cluster::usage::Window;
use headroom_admission::settings::{Margin, PercentileChoice};
use serde_json::{Map, Value, json};

/// `p95+10%`, `peak`, `p90 of 7d + 10% + 25m`: a percentile of usage, and a margin if the settings' is not meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    percentile: PercentileChoice,
    margin: Option<Margin>,
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (percentile, margin) = match text.split_once('+') {
            Some((percentile, margin)) => (percentile, Some(margin.trim().parse::<Margin>()?)),
            None => (text, None),
        };
        Ok(Self { percentile: percentile.parse()?, margin })
    }
}

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Rule")]
pub struct RuleArgs {
    /// Request this percentile of CPU usage over all days and this margin, such as `p95+10%` or `p90 of 7d + 10% + 25m`
    #[arg(long, value_name = "RULE")]
    cpu: Option<Rule>,
    /// Request this percentile of memory usage over all days and this margin, such as `peak+15%`
    #[arg(long, value_name = "RULE")]
    memory: Option<Rule>,
    /// Recommend lower memory limits too, from a week of usage whose peaks do not rise
    #[arg(long)]
    pub(super) lower_limits: bool,
}

impl RuleArgs {
    /// Puts what was given into the settings, which may not say anything about the same.
    pub fn apply(&self, settings: &mut Value) -> anyhow::Result<()> {
        let margin = |rule: &Option<Rule>| rule.as_ref().and_then(|rule| rule.margin.clone());
        check_cpu(margin(&self.cpu))?;
        check_memory(margin(&self.memory))?;
        for (resource, rule) in [("cpu", &self.cpu), ("memory", &self.memory)] {
            let Some(Rule { percentile, margin }) = rule else { continue };
            // 30 days are all that is read.
            let percentile = PercentileChoice { window: percentile.window.or(Some(Window::Month)), ..*percentile };
            let margin = margin.as_ref().map(Margin::to_string);
            for (name, value) in [("percentile", Some(percentile.to_string())), ("margin", margin)] {
                let Some(value) = value else { continue };
                let of_resources = object(object(settings.as_object_mut(), "estimates"), name);
                match of_resources.map(|of| of.entry(resource)) {
                    Some(serde_json::map::Entry::Vacant(entry)) => drop(entry.insert(json!(value))),
                    _ => bail!("--{resource} and estimates.{name} in the settings say the same: leave one of them out"),
                }
            }
        }
        Ok(())
    }
}

/// No node has so many cores.
const TOO_MANY_CORES: i64 = 10_000;
/// No container starts with less memory.
const LEAST_MEMORY: i64 = 1 << 20;

fn check_cpu(margin: Option<Margin>) -> anyhow::Result<()> {
    match margin.map(|margin| margin.amount) {
        Some(amount) if amount.family() == Family::BinarySi && !amount.is_zero() || amount.value() > TOO_MANY_CORES => {
            bail!("--cpu adds {amount}, an amount of bytes: CPU is in cores, such as `100m` or `0.5`")
        }
        _ => Ok(()),
    }
}

fn check_memory(margin: Option<Margin>) -> anyhow::Result<()> {
    match margin.map(|margin| margin.amount).filter(|amount| !amount.is_zero()) {
        Some(amount) if amount.value() < LEAST_MEMORY => {
            let number = amount.to_string().trim_end_matches('m').to_owned();
            bail!("--memory adds {amount}, less than a MiB, and memory is in bytes; did you mean {number}Mi?")
        }
        _ => Ok(()),
    }
}

/// The object under a key, made if it is missing; none if something else is there.
fn object<'v>(of: Option<&'v mut Map<String, Value>>, key: &str) -> Option<&'v mut Map<String, Value>> {
    of?.entry(key).or_insert_with(|| json!({})).as_object_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(cpu: Option<&str>, memory: Option<&str>) -> RuleArgs {
        let rule = |text: Option<&str>| text.map(|text| text.parse().unwrap());
        RuleArgs { cpu: rule(cpu), memory: rule(memory), ..RuleArgs::default() }
    }

    #[test]
    fn rules_become_settings() {
        let given = rules(Some("95"), Some("peak of 7d + 15%"));
        let mut settings = json!({"estimates": {"margin": {"cpu": "0%"}}});
        given.apply(&mut settings).unwrap();
        let expected = json!({"estimates": {"margin": {"cpu": "0%", "memory": "15%"},
            "percentile": {"cpu": "p95 of 30d", "memory": "peak of 7d"}}});
        assert_eq!(settings, expected);
        // Twice is once too often, and so is a percentile for all resources.
        let found = given.apply(&mut settings).unwrap_err().to_string();
        assert_eq!(found, "--cpu and estimates.percentile in the settings say the same: leave one of them out");
        assert!(given.apply(&mut json!({"estimates": {"percentile": "p90 of 7d"}})).is_err());
        rules(None, None).apply(&mut json!({"estimates": {"percentile": "p90 of 7d"}})).unwrap();
    }

    #[test]
    fn amounts_of_the_other_resource_are_refused() {
        let check = |rule: RuleArgs, expected: &str| {
            assert_eq!(rule.apply(&mut json!({})).unwrap_err().to_string(), expected);
        };
        let bytes = "--cpu adds 100M, an amount of bytes: CPU is in cores, such as `100m` or `0.5`";
        check(rules(Some("p95+0%+100M"), None), bytes);
        let small = "--memory adds 100m, less than a MiB, and memory is in bytes; did you mean 100Mi?";
        check(rules(None, Some("p99+0%+100m")), small);
    }
}
