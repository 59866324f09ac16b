//! The flags for what people of KRR and of the VerticalPodAutoscaler turn, as the settings that they stand for.

use anyhow::bail;
use headroom_core::amount::Quantity;
use headroom_core::cluster::usage::Percentile;
use serde_json::{Map, Value, json};

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Rule")]
pub struct Rule {
    /// Request this percentile of CPU usage over all days, such as `p95`; also over a window, such as `p95 of 7d`
    #[arg(long, value_name = "PERCENTILE", value_parser = percentile)]
    cpu_percentile: Option<String>,
    /// Request this percentile of memory usage over all days, such as `p99` or `peak`
    #[arg(long, value_name = "PERCENTILE", value_parser = percentile)]
    memory_percentile: Option<String>,
    /// Margin on top of CPU usage, such as `10%` or `10% + 25m`
    #[arg(long, value_name = "MARGIN", value_parser = margin)]
    cpu_margin: Option<String>,
    /// Margin on top of memory usage, such as `15%` or `10% + 64Mi`
    #[arg(long, value_name = "MARGIN", value_parser = margin)]
    memory_margin: Option<String>,
    /// Least CPU to recommend
    #[arg(long, value_name = "AMOUNT", value_parser = amount)]
    min_cpu: Option<String>,
    /// Least memory to recommend
    #[arg(long, value_name = "AMOUNT", value_parser = amount)]
    min_memory: Option<String>,
}

/// As the settings have it: `p95 of 30d`, where 30 days are all that is read.
fn percentile(text: &str) -> Result<String, String> {
    let (percentile, window) = text.split_once(" of ").unwrap_or((text, "30d"));
    match (percentile.parse::<Percentile>(), window) {
        (Ok(percentile), "7d" | "30d" | "recent") => Ok(format!("{percentile} of {window}")),
        (Ok(_), _) => Err("expected the window `7d`, `30d` or `recent`".to_owned()),
        (Err(error), _) => Err(error.to_string()),
    }
}

fn margin(text: &str) -> Result<String, String> {
    let is_percent =
        |text: &str| text.strip_suffix('%').is_some_and(|digits| digits.parse::<u16>().is_ok_and(|it| it <= 1000));
    let is_good = match text.split_once('+') {
        Some((percent, rest)) => is_percent(percent.trim()) && amount(rest.trim()).is_ok(),
        None => is_percent(text) || text.parse::<u16>().is_ok_and(|percent| percent <= 1000) || amount(text).is_ok(),
    };
    if is_good {
        Ok(text.to_owned())
    } else {
        Err("expected percent, an amount, or both, such as `10% + 64Mi`".to_owned())
    }
}

fn amount(text: &str) -> Result<String, String> {
    match text.parse::<Quantity>() {
        Ok(amount) if !amount.is_negative() => Ok(text.to_owned()),
        _ => Err("expected an amount such as `10m` or `100Mi`".to_owned()),
    }
}

impl Rule {
    /// Puts what was given into the settings, which may not say anything about the same.
    pub fn apply(&self, settings: &mut Value) -> anyhow::Result<()> {
        let flags = [
            ("--cpu-percentile", "percentile", "cpu", &self.cpu_percentile),
            ("--memory-percentile", "percentile", "memory", &self.memory_percentile),
            ("--cpu-margin", "margin", "cpu", &self.cpu_margin),
            ("--memory-margin", "margin", "memory", &self.memory_margin),
            ("--min-cpu", "min", "cpu", &self.min_cpu),
            ("--min-memory", "min", "memory", &self.min_memory),
        ];
        for (flag, setting, resource, value) in flags {
            let Some(value) = value else { continue };
            let of_resources = object(object(settings.as_object_mut(), "estimates"), setting);
            match of_resources.map(|of| of.entry(resource)) {
                Some(serde_json::map::Entry::Vacant(entry)) => drop(entry.insert(json!(value))),
                _ => bail!("{flag} and estimates.{setting} in the settings say the same: leave one of them out"),
            }
        }
        Ok(())
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
        let rule = Rule {
            cpu_percentile: Some("p95 of 30d".to_owned()),
            memory_margin: Some("15%".to_owned()),
            min_cpu: Some("10m".to_owned()),
            ..Rule::default()
        };
        let mut settings = json!({"estimates": {"margin": {"cpu": "0%"}}});
        rule.apply(&mut settings).unwrap();
        let expected = json!({"estimates": {"margin": {"cpu": "0%", "memory": "15%"}, "percentile": {"cpu": "p95 of 30d"},
            "min": {"cpu": "10m"}}});
        assert_eq!(settings, expected);
        // Twice is once too often, and so is a percentile for all resources.
        let found = rule.apply(&mut settings).unwrap_err().to_string();
        assert_eq!(
            found,
            "--cpu-percentile and estimates.percentile in the settings say the same: leave one of them out"
        );
        assert!(rule.apply(&mut json!({"estimates": {"percentile": "p90 of 7d"}})).is_err());
        Rule::default().apply(&mut json!({"estimates": {"percentile": "p90 of 7d"}})).unwrap();
    }

    #[test]
    fn values_are_checked_as_they_are_read() {
        let check = |found: Result<String, String>, expected: Option<&str>| assert_eq!(found.ok().as_deref(), expected);
        check(percentile("p95"), Some("p95 of 30d"));
        check(percentile("95"), Some("p95 of 30d"));
        check(percentile("peak of 7d"), Some("peak of 7d"));
        check(percentile("p42"), None);
        check(percentile("p95 of 3d"), None);
        check(margin("15%"), Some("15%"));
        check(margin("10% + 64Mi"), Some("10% + 64Mi"));
        check(margin("25m"), Some("25m"));
        check(margin("much"), None);
        check(margin("-5%"), None);
        check(amount("100Mi"), Some("100Mi"));
        check(amount("-1"), None);
    }
}
