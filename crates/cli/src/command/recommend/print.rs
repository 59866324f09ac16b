//! Prints a report in the format that is asked for.

use anyhow::{anyhow, bail};
use headroom_kube::clock;
use headroom_report::draw::Charset;
use headroom_report::{Page, Paint, complain, junit, sarif};
use headroom_rightsize::report::Report;
use headroom_rightsize::table::{self, View};
use headroom_rightsize::{csv, findings, html, markdown, patches};

use super::arguments::{Args, Format};

/// Prints the report; true if something in it is an error.
pub fn print(args: &Args, report: &Report) -> anyhow::Result<bool> {
    let findings = findings::of(report, args.gate());
    let page = match args.output {
        Format::Table | Format::Wide => {
            let view = View {
                is_wide: args.output == Format::Wide,
                is_bare: args.no_headers,
                charset: Charset::of_stdout(),
                paint: Paint::for_stdout(),
            };
            table::page(report, view)
        }
        Format::Json => Page::json(report)?,
        Format::Yaml => Page::yaml(report)?,
        Format::Csv => Page::document(&csv::text(report, !args.no_headers)),
        Format::Markdown => Page::document(&markdown::text(report)),
        Format::Html => Page::document(&html::text(report, &made_at())),
        Format::Sarif => Page::json(&sarif::log(&findings::RULES, &findings))?,
        Format::Junit => Page::document(&junit::report("headroom recommend", &findings::cases(report, &findings))),
        Format::Kustomize | Format::Helm if !args.image.is_empty() => {
            bail!("an image alone has no object to patch: choose another --output, or name an object")
        }
        Format::Kustomize => patches::kustomize(&report.changes())?,
        Format::Helm => {
            let values = patches::helm(&report.changes(), &args.values_path);
            Page::yaml(&values.map_err(|problem| anyhow!(problem))?)?
        }
    };
    headroom_report::print(&page)?;
    if matches!(args.output, Format::Csv | Format::Kustomize | Format::Helm) {
        // These formats have no place for notes, so they go to standard error.
        let partial = if report.source.is_partial { report.notes.as_slice() } else { &[] };
        let headline = Some(report.headline()).filter(|line| !line.is_empty());
        headline.iter().chain(partial).for_each(|line| complain!("warning: {line}"));
    }
    let errors: Vec<_> = findings.iter().filter(|finding| finding.level == headroom_report::Level::Error).collect();
    if let Some(first) = errors.first() {
        let more = if errors.len() > 1 { format!(", and {} more", errors.len() - 1) } else { String::new() };
        complain!("error: {}: {}{more}", first.subject, first.text);
    }
    Ok(!errors.is_empty())
}

/// `25 November 2026, 14:30 UTC`
fn made_at() -> String {
    let now = jiff::Timestamp::from_second(clock::now());
    now.map(|moment| moment.strftime("%-d %B %Y, %H:%M UTC").to_string()).unwrap_or_default()
}
