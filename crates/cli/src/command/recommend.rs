//! `kubectl headroom recommend`: finds workloads and the source of their usage, and prints, writes or applies what they
//! should request. The recommendations are made by `headroom_recommend`.

mod kustomization;

mod apply;
mod past;
mod rule;

mod arguments;

mod services;
mod source;
mod store;
mod workloads;

mod print;
mod run;
mod write;

mod bounds;
mod image;

use anyhow::bail;
use headroom_output::progress::Progress;
use headroom_output::{Exit, complain};
use headroom_recommend::report::Order;
use headroom_workloads::inventory::Inventory;

pub use self::apply::as_command;
pub use self::arguments::{Args, NamedStore, UsageArgs};
use self::arguments::{From, RecommendFormat, What};
pub use self::bounds::for_page as bounds_for_page;
use self::run::Choices;
pub use self::run::{Recommended, recommend_inventory, recommend_what_is_known, recommend_workloads};
pub use self::store::hours;
use super::run_program;
use super::source::{Address, client};

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
            print::print(&args, &run::recommend(&mut opened, Inventory::default(), None, &choices, &progress)?.report)?;
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
    let has_failed = print::print(&args, &report)?;
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
