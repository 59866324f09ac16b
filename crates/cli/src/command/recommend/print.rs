//! Prints a report in the format that is asked for.

use anyhow::anyhow;
use headroom_output::draw::Charset;
use headroom_output::{Page, Paint, complain};
use headroom_recommend::output::table::{self, View};
use headroom_recommend::output::{csv, findings, markdown, pull_request};
use headroom_recommend::report::Recommendations;
use headroom_recommend::write::patches;
use headroom_recommend::write::patches::RecommendedChange;

use super::arguments::{Args, RecommendFormat};
use super::warn_of_left_out;
use crate::command::export;

/// Prints the report; true if something in it is an error, or had to be left out of what is written.
pub fn print(args: &Args, report: &Recommendations) -> anyhow::Result<bool> {
    let failures = findings::of(report, args.gate());
    let changes = report.changes();
    let left_out = match args.output {
        RecommendFormat::Kustomize => report.left_out_of_kustomize(),
        _ => report.left_out(),
    };
    let comments = [left_out.as_slice(), &report.beside_changes(), &report.flagged()].concat();
    let page = match args.output {
        RecommendFormat::Table | RecommendFormat::Wide => {
            let view = View {
                is_wide: args.output == RecommendFormat::Wide,
                charset: Charset::of_stdout(),
                paint: Paint::for_stdout(),
            };
            table::page(report, view)
        }
        RecommendFormat::Json => Page::json(report)?,
        RecommendFormat::Csv => Page::document(&csv::text(report)),
        RecommendFormat::Markdown => Page::document(&markdown::text(report)),
        RecommendFormat::PullRequest => Page::document(&pull_request::text(report)),
        RecommendFormat::Html => Page::ours(export::of_report(report)?),
        RecommendFormat::Kustomize => patches::commented(&comments, patches::kustomize(&changes)?),
        RecommendFormat::Helm => {
            let values = patches::helm(&changes, &args.values_path);
            patches::commented(&comments, Page::yaml(&values.map_err(|problem| anyhow!(problem))?)?)
        }
    };
    headroom_output::print(&page)?;
    let is_written = matches!(args.output, RecommendFormat::Kustomize | RecommendFormat::Helm);
    if is_written {
        warn_of_left_out(&left_out);
    }
    if matches!(args.output, RecommendFormat::Csv | RecommendFormat::Kustomize | RecommendFormat::Helm) {
        // These formats have no place for notes, so they go to standard error.
        let partial = if report.source.is_partial { report.notes.as_slice() } else { &[] };
        let headline = Some(report.headline()).filter(|line| !line.is_empty());
        headline.iter().chain(partial).for_each(|line| complain!("warning: {line}"));
    }
    if let Some(first) = failures.first() {
        let more = if failures.len() > 1 { format!(", and {} more", failures.len() - 1) } else { String::new() };
        complain!("error: {first}{more}");
    }
    let is_merged = |change: &RecommendedChange<'_>| change.patches().iter().any(|patch| !patch.is_json());
    let writes = match args.output {
        RecommendFormat::Kustomize => changes.iter().any(is_merged),
        _ => !changes.is_empty(),
    };
    let is_incomplete = is_written && (report.leaves_out_blocked() || !writes && !left_out.is_empty());
    Ok(!failures.is_empty() || is_incomplete)
}
