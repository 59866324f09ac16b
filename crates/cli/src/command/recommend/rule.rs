//! The flags for what people of KRR and of the VerticalPodAutoscaler turn, as the settings that they stand for.

use anyhow::bail;
use headroom_core::amount::{Family, Quantity};
use headroom_core::cluster::usage::Window;
use headroom_core::settings::{Margin, PercentileChoice};
use headroom_core::timestamp::Timestamp;
use serde_json::{Map, Value, json};

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Rule")]
pub struct RuleArgs {
    /// Request this percentile of CPU usage over all days, such as `p95`; also over a window, such as `p95 of 7d`
    #[arg(long, value_name = "PERCENTILE")]
    cpu_percentile: Option<PercentileChoice>,
    /// Request this percentile of memory usage over all days, such as `p99` or `peak`
    #[arg(long, value_name = "PERCENTILE")]
    memory_percentile: Option<PercentileChoice>,
    /// Margin on top of CPU usage, such as `10%` or `10% + 25m`
    #[arg(long, value_name = "MARGIN")]
    cpu_margin: Option<Margin>,
    /// Margin on top of memory usage, such as `15%` or `10% + 64Mi`
    #[arg(long, value_name = "MARGIN")]
    memory_margin: Option<Margin>,
    /// Least CPU to recommend
    #[arg(long, value_name = "AMOUNT")]
    min_cpu: Option<Quantity>,
    /// Least memory to recommend
    #[arg(long, value_name = "AMOUNT")]
    min_memory: Option<Quantity>,
    /// Recommend lower memory limits too, from a week of usage whose peaks do not rise
    #[arg(long)]
    pub(super) lower_limits: bool,
    /// Recommend as of this time, such as 2026-11-21T00:00:00Z, from usage before it
    #[arg(long, value_name = "TIME", value_parser = super::super::time)]
    as_of: Option<Timestamp>,
}

/// As the settings have it: `p95 of 30d`, where 30 days are all that is read.
fn setting(choice: PercentileChoice) -> String {
    PercentileChoice { window: choice.window.or(Some(Window::MONTH)), ..choice }.to_string()
}

impl RuleArgs {
    /// Puts what was given into the settings, which may not say anything about the same.
    pub fn apply(&self, settings: &mut Value) -> anyhow::Result<()> {
        let text = |margin: &Margin| margin.to_string();
        let of_margin = |margin: &'_ Option<Margin>| margin.as_ref().map(|margin| margin.amount.clone());
        check_cpu("--cpu-margin", of_margin(&self.cpu_margin))?;
        check_cpu("--min-cpu", self.min_cpu.clone())?;
        check_memory("--memory-margin", of_margin(&self.memory_margin))?;
        check_memory("--min-memory", self.min_memory.clone())?;
        let flags = [
            ("--cpu-percentile", "percentile", "cpu", self.cpu_percentile.map(setting)),
            ("--memory-percentile", "percentile", "memory", self.memory_percentile.map(setting)),
            ("--cpu-margin", "margin", "cpu", self.cpu_margin.as_ref().map(text)),
            ("--memory-margin", "margin", "memory", self.memory_margin.as_ref().map(text)),
            ("--min-cpu", "min", "cpu", self.min_cpu.as_ref().map(Quantity::to_string)),
            ("--min-memory", "min", "memory", self.min_memory.as_ref().map(Quantity::to_string)),
        ];
        for (flag, setting, resource, value) in flags {
            let Some(value) = value else { continue };
            let of_resources = object(object(settings.as_object_mut(), "estimates"), setting);
            match of_resources.map(|of| of.entry(resource)) {
                Some(serde_json::map::Entry::Vacant(entry)) => drop(entry.insert(json!(value))),
                _ => bail!("{flag} and estimates.{setting} in the settings say the same: leave one of them out"),
            }
        }
        if let Some((as_of, estimates)) = self.as_of.zip(object(settings.as_object_mut(), "estimates")) {
            estimates.insert("replayTime".to_owned(), json!(as_of.to_string()));
        }
        Ok(())
    }
}

/// No node has so many cores.
const TOO_MANY_CORES: i64 = 10_000;
/// No container starts with less memory.
const LEAST_MEMORY: i64 = 1 << 20;

fn check_cpu(flag: &str, amount: Option<Quantity>) -> anyhow::Result<()> {
    match amount {
        Some(amount) if amount.family() == Family::BinarySi && !amount.is_zero() || amount.value() > TOO_MANY_CORES => {
            bail!("{flag} {amount} is an amount of bytes: CPU is in cores, such as `100m` or `0.5`")
        }
        Some(amount) if amount.is_negative() => bail!("{flag} {amount} is negative"),
        _ => Ok(()),
    }
}

fn check_memory(flag: &str, amount: Option<Quantity>) -> anyhow::Result<()> {
    match amount.filter(|amount| !amount.is_zero()) {
        Some(amount) if amount.is_negative() => bail!("{flag} {amount} is negative"),
        Some(amount) if amount.value() < LEAST_MEMORY => {
            let number = amount.to_string().trim_end_matches('m').to_owned();
            bail!("{flag} {amount} is less than a MiB, and memory is in bytes; did you mean {number}Mi?")
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

    #[test]
    fn flags_become_settings() {
        let rule = RuleArgs {
            cpu_percentile: Some("95".parse().unwrap()),
            memory_percentile: Some("peak of 7d".parse().unwrap()),
            memory_margin: Some("15%".parse().unwrap()),
            min_cpu: Some("10m".parse().unwrap()),
            as_of: Some("2026-11-21T00:00:00Z".parse().unwrap()),
            ..RuleArgs::default()
        };
        let mut settings = json!({"estimates": {"margin": {"cpu": "0%"}}});
        rule.apply(&mut settings).unwrap();
        let expected = json!({"estimates": {"margin": {"cpu": "0%", "memory": "15%"},
            "percentile": {"cpu": "p95 of 30d", "memory": "peak of 7d"}, "min": {"cpu": "10m"},
            "replayTime": "2026-11-21T00:00:00Z"}});
        assert_eq!(settings, expected);
        // Twice is once too often, and so is a percentile for all resources.
        let found = rule.apply(&mut settings).unwrap_err().to_string();
        assert_eq!(
            found,
            "--cpu-percentile and estimates.percentile in the settings say the same: leave one of them out"
        );
        assert!(rule.apply(&mut json!({"estimates": {"percentile": "p90 of 7d"}})).is_err());
        let check = |rule: RuleArgs, expected: &str| {
            assert_eq!(rule.apply(&mut json!({})).unwrap_err().to_string(), expected);
        };
        let cores = |text: &str| RuleArgs { min_cpu: Some(text.parse().unwrap()), ..RuleArgs::default() };
        let memory = |text: &str| RuleArgs { min_memory: Some(text.parse().unwrap()), ..RuleArgs::default() };
        check(cores("10Mi"), "--min-cpu 10Mi is an amount of bytes: CPU is in cores, such as `100m` or `0.5`");
        check(cores("100M"), "--min-cpu 100M is an amount of bytes: CPU is in cores, such as `100m` or `0.5`");
        check(memory("100"), "--min-memory 100 is less than a MiB, and memory is in bytes; did you mean 100Mi?");
        check(memory("100m"), "--min-memory 100m is less than a MiB, and memory is in bytes; did you mean 100Mi?");
        check(
            RuleArgs { memory_margin: Some("10% + 64".parse().unwrap()), ..RuleArgs::default() },
            "--memory-margin 64 is less than a MiB, and memory is in bytes; did you mean 64Mi?",
        );
        RuleArgs::default().apply(&mut json!({"estimates": {"percentile": "p90 of 7d"}})).unwrap();
    }
}
