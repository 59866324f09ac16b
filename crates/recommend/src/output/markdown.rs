//! A report as Markdown: a table for a pull request or a wiki.

use headroom_admission::cluster::usage::Resource;
use headroom_output::markdown_cell;

use crate::advice::amounts::{CPU_AND_MEMORY, short};
use crate::advice::quota_effect::QuotaEffect;
use crate::advice::workload::ResourceAdvice;
use crate::report::Recommendations;
use crate::report::rule::RequestRule;

pub fn text(report: &Recommendations) -> String {
    let mut text = String::new();
    if !report.headline().is_empty() {
        text.push_str(&format!("**{}**\n\n", report.headline()));
    }
    list(&mut text, "Blocked:", report.blocked());
    list(&mut text, "Fix first:", report.risks.iter().map(ToString::to_string).collect());
    let source = std::iter::once(report.about()).chain(report.rules.iter().map(RequestRule::to_string));
    source.for_each(|line| text.push_str(&format!("- {}\n", markdown_cell(&line))));
    text.push_str(
        "\n| Namespace | Workload | Container | Pods | CPU request | CPU p95 | Memory request | Memory peak | Saved | Severity | \
         Flags |\n\
         |---|---|---|---:|---|---:|---|---:|---|---|---|\n",
    );
    let dash = || "-".to_owned();
    for (of, container) in report.containers() {
        let request = |resource| {
            let Some(advice) = container.resource(resource) else { return dash() };
            let current = advice.request.as_ref().map_or_else(dash, |request| short(resource, &request.value));
            match advice.to_write() {
                Some(recommended) => format!("{current} → **{}**", short(resource, recommended)),
                None => current,
            }
        };
        let used = |resource| {
            let used = container.resource(resource).and_then(ResourceAdvice::mostly_used);
            used.map_or_else(dash, |amount| short(resource, amount))
        };
        let saved = CPU_AND_MEMORY
            .map(|resource| of.saved_by(container, resource).map_or_else(dash, |saved| short(resource, &saved)));
        // Amounts have markup of ours and nothing of others.
        let cells = [
            markdown_cell(&of.key.namespace),
            markdown_cell(&of.with_deciders()),
            markdown_cell(&container.name),
            of.pods.to_string(),
            request(Resource::Cpu),
            used(Resource::Cpu),
            request(Resource::Memory),
            used(Resource::Memory),
            saved.join(", "),
            container.severity.to_string(),
            markdown_cell(&container.flag_text()),
        ];
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    let total = &report.total;
    // Without any recommendation nothing is known of savings.
    if total.without_advice < total.containers {
        let saved = [(Resource::Cpu, &total.cpu.saved), (Resource::Memory, &total.memory.saved)];
        let [cpu, memory] = saved.map(|(resource, saved)| short(resource, saved));
        text.push_str(&format!("\n**Saved in total:** {cpu} CPU, {memory} memory\n"));
    }
    text.push_str(&report.money().map(|money| format!("\n{}\n", markdown_cell(&money))).unwrap_or_default());
    text.push('\n');
    list(
        &mut text,
        "Quotas after applying all recommendations:",
        report.quotas.iter().map(QuotaEffect::to_string).collect(),
    );
    list(&mut text, "Autoscalers:", report.scaled());
    list(&mut text, "Flags:", report.flags_explained());
    list(&mut text, "Notes:", report.all_notes());
    text.truncate(text.trim_end().len());
    text + "\n"
}

/// Adds a list, unless it is empty.
pub(super) fn list(text: &mut String, heading: &str, lines: Vec<String>) {
    if !lines.is_empty() {
        text.push_str(&format!("**{heading}**\n\n"));
        lines.iter().for_each(|line| text.push_str(&format!("- {}\n", markdown_cell(line))));
        text.push('\n');
    }
}
