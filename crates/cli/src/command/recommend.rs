//! `kubectl headroom recommend`: finds workloads and the source of their usage, and prints, writes or applies what they
//! should request. The recommendations are made by `headroom_recommend`.

mod apply;
mod rule;

mod arguments;

mod source;
mod store;
mod workloads;

mod run;
mod write;

mod bounds;
mod image;

use anyhow::{anyhow, bail};
use headroom_output::draw::Charset;
use headroom_output::progress::Progress;
use headroom_output::{Exit, Page, Paint, complain};
use headroom_recommend::output::table::{self, View};
use headroom_recommend::output::{csv, findings, markdown, pull_request};
use headroom_recommend::report::{Order, Recommendations};
use headroom_recommend::write::patches::{self, RecommendedChange};
use headroom_workloads::inventory::Inventory;

pub use self::apply::as_command;
pub use self::arguments::{Args, NamedStore, UsageArgs};
use self::arguments::{From, RecommendFormat, What};
pub use self::bounds::for_page as bounds_for_page;
use self::run::Choices;
pub use self::run::{Recommended, recommend_inventory, recommend_what_is_known, recommend_workloads};
pub use self::store::hours;
use super::source::{Address, client};
use super::{export, run_program};

/// So many changes that are left out are named.
const MAX_LEFT_OUT: usize = 20;

/// Names the changes that are left out of what is written or patched.
fn warn_of_left_out(changes: &[String]) {
    changes.iter().take(MAX_LEFT_OUT).for_each(|text| complain!("warning: {text}"));
    if let Some(more) = changes.len().checked_sub(MAX_LEFT_OUT).filter(|more| *more > 0) {
        complain!("warning: left out: {more} more, as `kubectl headroom recommend -o json` tells");
    }
}

pub fn run(mut args: Args) -> anyhow::Result<Exit> {
    match args.of {
        Some(What::Bounds(args)) => return bounds::run(*args),
        Some(What::Image(args)) => return image::run(*args),
        None => {}
    }
    if let [word @ ("bounds" | "image")] = args.objects.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        bail!("write `recommend {word}` first and options after it; a pod of that name is `pod/{word}`");
    }
    args.check_write()?;
    args.target.needs_cluster = matches!(args.usage.address()?, Some(Address::Service(_)));
    if args.is_of_files() {
        args.target.check_single()?;
    }
    let mut opened = args.target.open_partly()?;
    args.rule.apply(&mut opened.settings)?;
    let progress = Progress::for_people();
    let declined = args.write.as_ref().map(|_| write::declined()).transpose()?;
    let choices = Choices {
        usage: Some(&args.usage),
        order: Order::Waste,
        lowers_limits: args.rule.lower_limits,
        names_skipped: true,
        reads_nodes: true,
        declined: declined.as_ref(),
    };
    let mut inventory = match workloads::read(&args, &mut opened, &progress) {
        Err(problem) if args.is_of_files() && matches!(args.output, RecommendFormat::Json | RecommendFormat::Csv) => {
            // Programs that read the output still get a valid document.
            print(&args, &run::recommend(&mut opened, Inventory::default(), None, &choices, &progress)?.report)?;
            return Err(problem);
        }
        read => read?,
    };
    let from = args.usage.source(&mut opened, &inventory, args.target.wants_cluster())?;
    let history = match from {
        From::Profiles => None,
        From::Store => {
            workloads::check_readable(&args, &mut opened, &mut inventory)?;
            let pods = std::mem::take(&mut inventory.pods);
            let namespaces = inventory.namespaces();
            Some(store::read(&args.usage, &args.target, &mut opened, &namespaces, pods, &progress)?)
        }
    };
    let report = run::recommend(&mut opened, inventory, history, &choices, &progress)?.tried(&mut opened);
    let exit_at_best = if report.source.is_partial { Exit::Error } else { Exit::Ok };
    let has_failed = print(&args, &report)?;
    let exit = if has_failed { Exit::Refused } else { Exit::Ok }.max(exit_at_best);
    if let Some(paths) = &args.write {
        return Ok(write::all(&args, paths, &opened.namespace, &report)?.max(exit));
    }
    if args.patch.patch {
        let patched = run_program(async {
            let client = client(&args.target.cluster).await?;
            apply::run(&args.patch, &report, client, &args.target).await
        });
        return Ok(patched?.max(exit));
    }
    Ok(exit)
}

/// Prints the report; true if something in it is an error, or had to be left out of what is written.
fn print(args: &Args, report: &Recommendations) -> anyhow::Result<bool> {
    let failures = findings::of(report, args.gate());
    let changes = report.changes();
    let left_out = match args.output {
        RecommendFormat::Kustomize => report.left_out_of_kustomize(),
        RecommendFormat::Helm => report.left_out_of_values(),
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
