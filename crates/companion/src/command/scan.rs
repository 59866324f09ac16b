//! `kubectl headroom scan`: finds what runs and a store that knows what it used, and prints what it should ask for. Nothing
//! is written to the cluster. The work is `crate::scan`'s.

mod patch;
mod store;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use clap::ValueEnum;
use headroom_core::cluster::usage::Resource;
use headroom_kube::clock;
use serde_json::{Value, json};

use self::store::Found;
use super::recommend::write;
use super::rights;
use super::source::{Access, Names};
use super::target::{Opened, Target, named, one_by_one};
use crate::change::{self, Change};
use crate::output::{self, Exit, Paint, junit, sarif};
use crate::progress::Progress;
use crate::recommend::effect;
use crate::scan::advice::{self, Scan};
use crate::scan::owners::{Key, Places};
use crate::scan::price::{Price, Prices};
use crate::scan::report::{Order, Report, Row};
use crate::scan::table::{self, View};
use crate::scan::world::{self, World};
use crate::scan::{page, texts};
use crate::selector::Selector;
use crate::source::http::Url;
use crate::{gather, manifest};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Workloads such as `deployment/web` or `rollout canary`; everything that runs in the namespace unless given
    #[arg(value_name = "KIND/NAME")]
    objects: Vec<String>,
    /// Only workloads with these labels, such as `app=web,tier!=cache`
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<Selector>,
    /// Only workloads of these kinds, such as `Deployment,Rollout`
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<String>,
    /// Only containers with such a name; `*` stands for anything
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    container: Vec<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Print the rows of the table only
    #[arg(long)]
    no_headers: bool,
    /// Sort workloads by
    #[arg(long, value_enum, default_value_t = Order::Waste)]
    sort_by: Order,
    /// Price of a core for a month
    #[arg(long, value_name = "PRICE")]
    price_cpu: Option<Price>,
    /// Price of a GiB of memory for a month
    #[arg(long, value_name = "PRICE")]
    price_memory: Option<Price>,
    /// Exit with 1 if a request is missing, or off its recommendation by more than this
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_above: Option<u64>,
    /// Path of a container's resources in the chart's values; {kind}, {name} and {container} are replaced
    #[arg(long, value_name = "PATH", default_value = change::VALUES_PATH)]
    values_path: String,
    /// Set the recommended requests and memory limits in manifests: files or folders, which stay as they are otherwise
    #[arg(long, value_name = "PATH", num_args = 1..)]
    write: Vec<PathBuf>,
    /// Read folders within folders too
    #[arg(short = 'R', long, requires = "write")]
    recursive: bool,
    #[command(flatten)]
    patch: patch::Patching,
    #[command(flatten)]
    store: Store,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    target: Target,
}

/// Where usage is read from, and how much.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Metrics store (found in the cluster unless given)")]
struct Store {
    /// URL of Prometheus, or of anything that speaks its API
    #[arg(long, value_name = "URL", conflicts_with_all = ["service", "metrics_api"])]
    prometheus: Option<Url>,
    /// The store's Service as NAMESPACE/SERVICE:PORT (https:SERVICE:PORT for TLS), reached through the API server
    #[arg(long, value_name = "SERVICE", conflicts_with = "metrics_api")]
    service: Option<String>,
    /// Use current usage from the metrics API instead of a metrics store
    #[arg(long)]
    metrics_api: bool,
    /// Days of history to read, today included
    #[arg(long, default_value_t = 14, value_parser = clap::value_parser!(u16).range(1..=30))]
    days: u16,
    /// Query step: memory counts with its peak in each step, CPU with its average
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = super::seconds)]
    step: i64,
    /// Matchers for every query, such as 'cluster="prod"', where several clusters share a store
    #[arg(long, default_value = "")]
    matchers: String,
    /// Accept partial responses
    #[arg(long)]
    accept_partial: bool,
    /// Queries at a time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=32))]
    parallel: u8,
}

const EXAMPLES: &str = "Examples:
  # What the containers of a namespace should request, by two weeks of the Prometheus in the cluster
  kubectl headroom scan -n shop

  # The whole cluster as a page to send around, with what it would save
  kubectl headroom scan -A -o html --price-cpu 23 --price-memory 3 > scan.html

  # A store that is not found by itself
  kubectl headroom scan -A --service monitoring/my-prometheus:9090
  kubectl headroom scan -A --prometheus https://prometheus.example --token-file token

  # Take the advice: in manifests, as patches, or in the cluster
  kubectl headroom scan -n shop --write app/
  kubectl headroom scan -n shop -o kustomize > requests.yaml
  kubectl headroom scan -n shop deployment/web --patch

  # A gate: fail if a request of the shop is off by more than half
  kubectl headroom scan -n shop -l app=shop --fail-above 50 -o junit > scan.xml

Nothing is installed, and without --patch nothing in the cluster is changed. A memory limit is only recommended where \
there is one, and a CPU limit never.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    /// The table with limits, QoS classes, kills, throttling, restarts, autoscalers and images
    Wide,
    Json,
    Yaml,
    Csv,
    Markdown,
    /// One page that needs no network
    Html,
    Sarif,
    Junit,
    /// A patch for each workload
    Kustomize,
    /// Values for a chart
    Helm,
}

/// So many containers without advice are named in a note.
const MOST_NAMED: usize = 5;

fn percent(text: &str) -> Result<u64, String> {
    text.strip_suffix('%').unwrap_or(text).parse().map_err(|_| "expected a number of percent such as `20`".to_owned())
}

pub fn run(args: Args) -> anyhow::Result<Exit> {
    let mut opened = args.target.open()?;
    let progress = Progress::for_people();
    let (world, places) = look_around(&args, &mut opened)?;
    if world.workloads.is_empty() {
        bail!("no workloads found in {}: choose another namespace with -n, or all with -A", opened.scope);
    }
    let namespaces: BTreeSet<&str> = world.workloads.iter().map(|workload| workload.key.namespace.as_str()).collect();
    let namespaces: Vec<String> = namespaces.into_iter().map(str::to_owned).collect();
    let found = store::read(&args, &mut opened, &namespaces, places, &progress)?;
    let exit_at_best = if found.source.is_partial { Exit::NotJudged } else { Exit::Fine };
    let report = advise(&args, &mut opened, &world, found, &progress)?;
    let is_above = print(&args, &report)?;
    let exit = if is_above { Exit::Refused } else { exit_at_best };
    if !args.write.is_empty() {
        return Ok(write_manifests(&args, &opened, &report)?.max(exit));
    }
    if args.patch.patch {
        let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
        let patched = runtime.block_on(async {
            let client = store::client(&args.target).await?;
            patch::run(&args.patch, &report, client, &patch::kubectl(&args.target)).await
        });
        return Ok(patched?.max(exit));
    }
    Ok(exit)
}

/// Sets the advice in manifests.
fn write_manifests(args: &Args, opened: &Opened, report: &Report) -> anyhow::Result<Exit> {
    if args.write.iter().any(|path| path.as_os_str() == "-") {
        bail!("standard input cannot be written back: give --write the files themselves");
    }
    let manifests = manifest::read(&args.write, args.recursive, &mut std::io::empty())?;
    let changes: Vec<Change> = report.workloads.iter().filter_map(Row::change).collect();
    write::all(&manifests, &opened.namespace, &changes)
}

/// The workloads that are asked about, and which pods are theirs.
fn look_around(args: &Args, opened: &mut Opened) -> anyhow::Result<(World, Places)> {
    let advised = |problem: String| rights::advised(problem, args.target.all_namespaces);
    let (mut world, mut places) =
        world::read(&mut opened.cluster, &opened.scope.parts(), advised).map_err(|problem| anyhow!(problem))?;
    if !args.objects.is_empty() {
        if args.target.all_namespaces {
            bail!("-A looks at everything: leave out the names, or choose a namespace with -n");
        }
        args.target.check_single()?;
        let mut wanted = Vec::new();
        // A kind may be one that is not known here.
        for text in &one_by_one(&args.objects, |_| true) {
            wanted.push(wanted_key(text, &opened.namespace, &world)?);
        }
        world.workloads.retain(|workload| wanted.contains(&workload.key));
    }
    world.workloads.retain(|workload| {
        let is_of_kind = |kind: &String| kind.eq_ignore_ascii_case(&workload.key.kind);
        (args.kind.is_empty() || args.kind.iter().any(is_of_kind))
            && args.selector.as_ref().is_none_or(|selector| selector.matches(&workload.object))
    });
    let numbered = world.workloads.iter().enumerate();
    places.numbers = numbered.map(|(number, workload)| (workload.key.clone(), number)).collect();
    Ok((world, places))
}

/// A workload by what was typed, of whatever kind it is.
fn wanted_key(text: &str, namespace: &str, world: &World) -> anyhow::Result<Key> {
    let told = |key: &Key| key.told() == text.to_lowercase();
    if let Some(workload) = world.workloads.iter().find(|workload| told(&workload.key)) {
        return Ok(workload.key.clone());
    }
    let (kind, name) = named(text)?;
    let key = Key::new(namespace, &kind.kind, &name);
    if world.workloads.iter().any(|workload| workload.key == key) {
        return Ok(key);
    }
    bail!("no workload {} in namespace {namespace}; for a pod, name its controller", key.told())
}

fn advise(
    args: &Args,
    opened: &mut Opened,
    world: &World,
    found: Found,
    progress: &Progress,
) -> anyhow::Result<Report> {
    let Found { histories, source, notes: mut found_notes } = found;
    let now = gather::now(&opened.settings).ok_or_else(|| anyhow!("this machine's clock is not set"))?;
    let mut settings = opened.settings.clone();
    let estimates = settings.as_object_mut().map(|settings| settings.entry("estimates").or_insert_with(|| json!({})));
    if let Some(Value::Object(estimates)) = estimates.filter(|_| args.names.ephemeral_storage) {
        estimates.entry("resources").or_insert_with(|| json!(Resource::ALL.map(Resource::name)));
    }
    let (autoscalers, wanted) = (&world.autoscalers, &args.container);
    let scan = Scan { histories: &histories, autoscalers, settings: &settings, now, wanted };
    let (mut rows, mut effects, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    progress.begin(world.workloads.len() as u64, "Recommending");
    for (number, workload) in world.workloads.iter().enumerate() {
        match advice::on(number, workload, &scan, &mut opened.cluster, &mut notes) {
            Ok(Some((row, of_row))) => {
                rows.push(row);
                effects.extend(of_row);
            }
            Ok(None) => {}
            Err(problem) => {
                notes.push(format!("no advice on {} {}: {problem}", workload.key.namespace, workload.key.told()));
            }
        }
        progress.advance(1);
    }
    progress.end();
    found_notes.extend(world.notes.iter().cloned());
    found_notes.extend(without_advice(&rows));
    found_notes.extend(notes.into_iter().map(|problem| rights::advised(problem, args.target.all_namespaces)));
    let prices = Prices { cpu: args.price_cpu, memory: args.price_memory };
    Ok(Report::new(source, rows, effect::together(effects), found_notes, prices, args.sort_by))
}

/// Nobody is left out without being named.
fn without_advice(rows: &[Row]) -> Option<String> {
    let containers = rows.iter().flat_map(|row| row.containers.iter().map(move |container| (row, container)));
    let without: Vec<String> = containers
        .filter(|(_, container)| container.is_without_advice())
        .map(|(row, container)| format!("{} {} {}", row.namespace, row.told(), container.name))
        .collect();
    let named = without.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = without.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more (all of them in -o csv)") } else { String::new() };
    (!without.is_empty()).then(|| format!("no advice, because nothing is known of what they use: {named}{more}"))
}

/// Prints the report; whether something in it is above the bound.
fn print(args: &Args, report: &Report) -> anyhow::Result<bool> {
    let findings = texts::findings(report, args.fail_above);
    let text = match args.output {
        Format::Table | Format::Wide => {
            let is_wide = args.output == Format::Wide;
            table::text(report, View { is_wide, is_bare: args.no_headers, paint: Paint::for_stdout() })
        }
        Format::Json => output::json(report)?,
        Format::Yaml => output::yaml(report)?,
        Format::Csv => texts::csv(report, !args.no_headers),
        Format::Markdown => texts::markdown(report),
        Format::Html => page::html(report, &made_at()),
        Format::Sarif => output::json(&sarif::log(&texts::RULES, &findings))?,
        Format::Junit => junit::report("headroom scan", &texts::cases(report, &findings)),
        Format::Kustomize => change::kustomize(&report.changes())?,
        Format::Helm => {
            let values = change::helm(&report.changes(), &args.values_path).map_err(|problem| anyhow!(problem))?;
            output::yaml(&values)?
        }
    };
    output::print(&text)?;
    let above: Vec<_> = findings.iter().filter(|finding| finding.level == output::Level::Error).collect();
    if let (Some(first), Some(bound)) = (above.first(), args.fail_above) {
        let more = if above.len() > 1 { format!(", and {} more", above.len() - 1) } else { String::new() };
        eprintln!("error: off by more than {bound}%: {}: {}{more}", first.subject, first.text);
    }
    Ok(!above.is_empty())
}

fn made_at() -> String {
    jiff::Timestamp::from_second(clock::now()).map(|moment| moment.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let parse = |text: &str| Cli::try_parse_from(["scan"].into_iter().chain(text.split_whitespace()));
        for wrong in [
            "--prometheus http://a --service a/b:1",
            "--metrics-api --service a/b:1",
            "--days 0",
            "--days 31",
            "--fail-above x",
            "--price-cpu 1Gi",
            "-l a=(",
            "-n a -A",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let args = parse("--fail-above 20% --kind deployment,Rollout deployment/web").map(|cli| cli.args).ok().unwrap();
        assert_eq!((args.fail_above, args.kind.len(), args.objects.len()), (Some(20), 2, 1));
    }
}
