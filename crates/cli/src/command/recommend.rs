//! `kubectl headroom recommend`: finds the workloads that are asked about and the source of their usage, and prints, writes
//! or applies what they should request. The recommendations are `crate::rightsize`'s.

mod apply;
mod quota_trends;
mod rule;
mod services;
mod store;
mod workloads;
mod write;

use headroom_core::cluster::label_selector::LabelSelector;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use clap::ValueEnum;
use headroom_core::cluster::usage::profile_layout::{API_VERSION, KIND, ProfileName};
use headroom_core::cluster::usage::{Resource, Root};
use headroom_core::image::ImageName;
use headroom_dryrun::evaluate::problems;
use headroom_dryrun::settings::ParsedSettings;
use headroom_kube::clock;
use headroom_objects::cluster_reader::{ClusterReader, ReadError};
use headroom_report::draw::Charset;
use headroom_report::progress::Progress;
use headroom_report::{Exit, Page, Paint, complain, junit, sarif};
use headroom_rightsize::engine::{Engine, Usage};
use headroom_rightsize::history::Histories;
use headroom_rightsize::inventory::{Entry, Inventory};
use headroom_rightsize::price::{Currency, Price, Prices};
use headroom_rightsize::report::{Order, Report, Source};
use headroom_rightsize::table::{self, View};
use headroom_rightsize::workload::Workload;
use headroom_rightsize::{csv, findings, html, markdown, patches, picture, quota_effect};
use headroom_sources::http::Url;
use serde_json::{Value, json};

pub use self::quota_trends::Trend;
use self::services::Services;
use self::store::Found;
use super::cluster_args::{Opened, Target, profiles_namespace};
use super::manifests::{Manifests, Problems};
use super::rbac_hint;
use super::source::Address;
use super::source_file::SourceFlag;
use crate::manifest;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Workloads such as `deployment/web`, `rollout canary` or `pod/db-0`; all running workloads of the namespace unless given
    #[arg(value_name = "KIND/NAME", conflicts_with_all = ["files", "kustomizations"])]
    objects: Vec<String>,
    #[command(flatten)]
    manifests: Manifests,
    /// Only workloads with these labels, such as `app=web,tier!=cache`
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "image")]
    selector: Option<LabelSelector<'static>>,
    /// Only workloads of these kinds, such as `Deployment,Rollout`
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<String>,
    /// Only containers whose name matches; `*` stands for any characters
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    container: Vec<String>,
    /// Recommend for a container of this image that does not exist yet
    #[arg(long, value_name = "IMAGE", conflicts_with_all = ["objects", "files", "kustomizations"])]
    image: Vec<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Print the rows of the table only
    #[arg(long)]
    no_headers: bool,
    /// Sort workloads by
    #[arg(long, value_enum, default_value_t = Order::Waste)]
    sort_by: Order,
    /// Exit with 1 if a request is missing, or off its recommendation by more than this
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_above: Option<u64>,
    /// Exit with 1 if a container is at risk: OOM-killed, throttled, above its request most of the time, or without one
    #[arg(long, value_enum)]
    fail_on: Option<FailOn>,
    /// Path of a container's resources in the chart's values; {kind}, {name} and {container} are replaced
    #[arg(long, value_name = "PATH", default_value = patches::VALUES_PATH)]
    values_path: String,
    /// Draw the distributions into an SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Write the recommendations into manifests: those of -f, or these files and folders. Nothing else in them changes
    #[arg(long, value_name = "PATH", num_args = 0.., conflicts_with = "kustomizations")]
    write: Option<Vec<PathBuf>>,
    #[command(flatten)]
    patch: apply::Patching,
    #[command(flatten)]
    rule: rule::Rule,
    #[command(flatten)]
    usage: UsageArgs,
    #[command(flatten)]
    target: Target,
}

/// What requests cost.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Prices")]
pub struct Costs {
    /// Price of a core for a month
    #[arg(long, value_name = "PRICE")]
    price_cpu: Option<Price>,
    /// Price of a GiB of memory for a month
    #[arg(long, value_name = "PRICE")]
    price_memory: Option<Price>,
    /// Currency of the prices, such as $ or EUR
    #[arg(long)]
    currency: Option<Currency>,
}

/// Where usage is read from, as whom, and what it costs.
#[derive(Debug, clap::Args)]
pub struct UsageArgs {
    #[command(flatten)]
    costs: Costs,
    /// The trends of quotas too.
    #[arg(skip)]
    wants_trends: bool,
    #[command(flatten)]
    store: Store,
    #[command(flatten)]
    source: SourceFlag,
}

/// Where usage is read from, and how much.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Source of usage")]
struct Store {
    /// Source of usage; UsageProfiles where the collector has published some, else the metrics store unless given
    #[arg(long, value_enum, value_name = "SOURCE")]
    from: Option<From>,
    /// URL of Prometheus, or of a store with the same API
    #[arg(long, value_name = "URL", conflicts_with_all = ["service", "metrics_api"])]
    prometheus: Option<Url>,
    /// The store's Service as NAMESPACE/SERVICE:PORT (https:SERVICE:PORT for TLS), reached through the API server
    #[arg(long, value_name = "SERVICE", conflicts_with = "metrics_api")]
    service: Option<String>,
    /// The same as --from metrics-api
    #[arg(long, conflicts_with = "from")]
    metrics_api: bool,
    /// Days of history to read from a metrics store, today included
    #[arg(long, default_value_t = 14, value_parser = clap::value_parser!(u16).range(1..=30))]
    days: u16,
    /// Query step: memory counts with its peak in each step, CPU with its average
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = super::seconds)]
    step: i64,
    /// Queries at a time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=32))]
    concurrency: u8,
}

/// A source of usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum From {
    /// The history that `headroom-controller collect` has published, by image and workload
    Profiles,
    /// A store with Prometheus' API, named by --service or --prometheus or chosen on a terminal
    Prometheus,
    /// One current sample per container, from metrics-server
    MetricsApi,
}

const EXAMPLES: &str = "Examples:
  # What the containers of a Deployment should request, and why
  kubectl headroom recommend deployment/web

  # The whole cluster as an HTML report, with the savings
  kubectl headroom recommend -A -o html --price-cpu 23 --price-memory 3 --currency EUR > report.html

  # From two weeks of usage in your Prometheus, in the cluster or elsewhere
  kubectl headroom recommend -A --service monitoring/prometheus:9090
  kubectl headroom recommend -A --source source.yaml

  # An image that does not run here yet
  kubectl headroom recommend --image postgres:16

  # Write the requests into manifests; comments, order and quotes stay
  kubectl headroom recommend -f app/ --write
  kubectl headroom recommend -n shop --write app/

  # A patch for kustomize, values for a chart that has them at `resources`, or the cluster itself
  kubectl headroom recommend deployment/web -o kustomize > requests.yaml
  kubectl headroom recommend deployment/web -o helm --values-path resources > requests.yaml
  kubectl headroom recommend -n shop deployment/web --patch

  # A gate: fail if a request of the shop is off by more than half
  kubectl headroom recommend -n shop -l app=shop --fail-above 50 -o junit > report.xml

Without --patch, nothing in the cluster changes. A new memory limit is recommended only where there is one, a CPU limit never.

Exit codes: 0 done, 1 a request is off by more than --fail-above, or something was not written or patched, 2 not everything \
could be read.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    /// The table with changes, distributions, limits, QoS classes, kills, throttling, restarts, autoscalers and images
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

/// The findings that make the command exit with 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailOn {
    Risk,
}

/// So many containers without a recommendation are named in a note.
const MAX_NAMED: usize = 5;

fn percent(text: &str) -> Result<u64, String> {
    text.strip_suffix('%').unwrap_or(text).parse().map_err(|_| "expected a number of percent such as `20`".to_owned())
}

pub fn run(mut args: Args) -> anyhow::Result<Exit> {
    args.check_write()?;
    let store = &args.usage.store;
    let is_behind_service = matches!(args.usage.address()?, Some(Address::Service(_)));
    args.target.needs_cluster = is_behind_service || store.metrics_api || store.from == Some(From::MetricsApi);
    if args.is_of_files() {
        args.target.check_single()?;
    }
    let mut opened = args.target.open()?;
    args.rule.apply(&mut opened.settings)?;
    let progress = Progress::for_people();
    let mut inventory = workloads::read(&args, &mut opened, &progress)?;
    let from = args.source(&mut opened, &inventory)?;
    let found = match from {
        From::Profiles => None,
        From::Prometheus | From::MetricsApi => {
            workloads::check_readable(&args, &mut opened, &mut inventory)?;
            let pods = std::mem::take(&mut inventory.pods);
            let namespaces = inventory.namespaces();
            Some(store::read(&args.usage, &args.target, from, &mut opened, &namespaces, pods, &progress)?)
        }
    };
    let report = recommend(&args, &mut opened, inventory, found, &progress)?;
    let exit_at_best = if report.source.is_partial { Exit::Error } else { Exit::Ok };
    if let Some(file) = &args.plot {
        let Some(picture) = picture::svg(&report) else {
            bail!("there is no history to draw into `{}`", file.display());
        };
        headroom_report::write_file(file, &picture).with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    let has_failed = print(&args, &report)?;
    let exit = if has_failed { Exit::Refused } else { exit_at_best };
    if let Some(paths) = &args.write {
        let manifests = match paths.as_slice() {
            [] => args.manifests.read()?,
            paths => manifest::read(paths, args.manifests.recursive, &mut std::io::empty())?,
        };
        return Ok(write::all(&manifests, &opened.namespace, &report)?.max(exit));
    }
    if args.patch.patch {
        let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
        let patched = runtime.block_on(async {
            let client = store::client(&args.target).await?;
            apply::run(&args.patch, &report, client, &apply::kubectl(&args.target)).await
        });
        return Ok(patched?.max(exit));
    }
    Ok(exit)
}

/// What is advised on everything that runs.
pub struct Advised {
    pub report: Report,
    /// How the usage of quotas grows, as far as a metrics store knows.
    pub trends: Vec<Trend>,
    /// False if it was made of UsageProfiles, which are read at once.
    pub is_of_store: bool,
}

/// The recommendations for everything that runs: from UsageProfiles, or from the source in `usage`. A workload that cannot be
/// evaluated becomes a note.
pub fn on_all(
    opened: &mut Opened,
    mut inventory: Inventory,
    target: &Target,
    usage: Option<&UsageArgs>,
    progress: &Progress,
) -> anyhow::Result<Advised> {
    let mut found = None;
    if let Some(usage) = usage {
        let from = usage.source(opened, &inventory, target.wants_cluster())?;
        if from != From::Profiles {
            let pods = std::mem::take(&mut inventory.pods);
            found = Some(store::read(usage, target, from, opened, &inventory.namespaces(), pods, progress)?);
        }
    }
    let (mut source, histories, mut notes, trends) = match found {
        Some(Found { source, histories, notes, trends }) => (source, Some(histories), notes, trends),
        None => (profiles(opened), None, Vec::new(), Vec::new()),
    };
    let read = histories.as_ref().map_or(Usage::Profiles, Usage::Read);
    let mut run = Run { inventory, usage: read, containers: &[], notes: Vec::new() };
    let settings = ParsedSettings::of(&with_history(opened));
    let (workloads, effects) = run.evaluate(opened, &settings, progress)?;
    source.is_partial |= run.is_partial();
    notes.extend(run.all_notes(opened.scope.is_all()));
    let prices = usage.map(|usage| usage.costs.prices()).unwrap_or_default();
    let source = (source, headroom_rightsize::rule::of(&settings));
    let report = Report::new(source, workloads, quota_effect::together(effects), notes, prices, Order::Name);
    Ok(Advised { report, trends, is_of_store: histories.is_some() })
}

impl Costs {
    fn prices(&self) -> Prices {
        Prices { cpu: self.price_cpu, memory: self.price_memory, currency: self.currency.clone() }
    }
}

impl UsageArgs {
    /// The store that is named by a flag or in the file of `--source`.
    fn address(&self) -> anyhow::Result<Option<Address>> {
        Address::of(self.store.prometheus.as_ref(), self.store.service.as_deref(), self.source.file()?)
    }

    /// The source that is asked for.
    fn named(&self) -> anyhow::Result<Option<From>> {
        let store = &self.store;
        let names_store = self.address()?.is_some();
        match store.from {
            Some(from) if names_store && from != From::Prometheus => {
                bail!(
                    "--prometheus, --service and --source name a metrics store: leave them out, or choose --from prometheus"
                )
            }
            Some(from) => Ok(Some(from)),
            None if store.metrics_api => Ok(Some(From::MetricsApi)),
            None => Ok(names_store.then_some(From::Prometheus)),
        }
    }

    /// The source that is asked for, or else the history that was collected for these images, or else the metrics store.
    fn source(&self, opened: &mut Opened, inventory: &Inventory, is_of_cluster: bool) -> anyhow::Result<From> {
        Ok(match self.named()? {
            Some(from) => from,
            None if !is_of_cluster || has_profiles(opened, inventory) => From::Profiles,
            None => From::Prometheus,
        })
    }

    /// Settles for the whole run of a program where usage is read from, so that a person is asked once. Where no store is chosen,
    /// UsageProfiles are all there is.
    pub fn settle(&mut self, target: &Target) -> anyhow::Result<()> {
        self.wants_trends = true;
        if self.named()?.is_some() || !target.wants_cluster() {
            return Ok(());
        }
        let mut opened = target.open()?;
        // What cannot be listed is reported where it is shown.
        let inventory = Inventory::read(&mut opened.cluster, &opened.scope.parts(), |problem| problem.to_string());
        let Ok(inventory) = inventory else { return Ok(()) };
        self.store.from = Some(From::Profiles);
        if !has_profiles(&mut opened, &inventory) {
            match Services::find(&mut opened, &inventory.namespaces()).chosen(self.source.file()?) {
                Ok(Some(service)) => {
                    (self.store.service, self.store.from) = (Some(service.to_string()), Some(From::Prometheus));
                }
                Ok(None) => {}
                Err(problem) => complain!("note: {problem:#}"),
            }
        }
        Ok(())
    }
}

impl Args {
    fn is_of_files(&self) -> bool {
        self.manifests.is_given()
    }

    fn check_write(&self) -> anyhow::Result<()> {
        let Some(paths) = &self.write else { return Ok(()) };
        if paths.is_empty() && self.manifests.files.is_empty() {
            bail!("--write needs the manifests to write: pass them to it, or with --filename");
        }
        if !paths.is_empty() && self.is_of_files() {
            bail!("--write takes no paths beside --filename, whose manifests it writes");
        }
        if paths.iter().chain(&self.manifests.files).any(|path| path.as_os_str() == "-") {
            bail!("--write needs files, not standard input");
        }
        Ok(())
    }

    fn source(&self, opened: &mut Opened, inventory: &Inventory) -> anyhow::Result<From> {
        let is_of_cluster = self.image.is_empty() && self.target.wants_cluster();
        let from = self.usage.source(opened, inventory, is_of_cluster)?;
        if from != From::Profiles && !self.image.is_empty() {
            bail!("--image needs --from profiles: usage in a metrics store is read by workload");
        }
        Ok(from)
    }
}

/// True if the collector has published usage for any of these images, or if its UsageProfiles may not be read.
fn has_profiles(opened: &mut Opened, inventory: &Inventory) -> bool {
    let namespace = profiles_namespace(&opened.settings);
    let containers = inventory.entries.iter().flat_map(Entry::images);
    let mut roots: Vec<String> = containers
        .filter_map(|image| ImageName::parse(&image).ok().map(|image| Root::of(image.repository())))
        .map(|root| ProfileName::of_root(root).to_string())
        .collect();
    roots.sort();
    roots.dedup();
    for root in roots {
        match opened.cluster.get((API_VERSION, KIND, Some(&namespace)), &root) {
            Ok(Some(profile)) if profile.get("spec").is_some() => return true,
            Ok(_) => {}
            Err(error) if error.is_unknown_kind() => return false,
            // For a forbidden object the API server answers 403 even if it does not serve the kind; a list tells that.
            Err(_) => {
                let listed = opened.cluster.list((API_VERSION, KIND, Some(&namespace)));
                return !listed.is_err_and(|error| error.is_unknown_kind());
            }
        }
    }
    false
}

fn profiles(opened: &Opened) -> Source {
    let name = format!("UsageProfiles in namespace {}", profiles_namespace(&opened.settings));
    Source { name, ..Source::default() }
}

fn recommend(
    args: &Args,
    opened: &mut Opened,
    inventory: Inventory,
    found: Option<Found>,
    progress: &Progress,
) -> anyhow::Result<Report> {
    let mut settings = with_history(opened);
    let is_ephemeral_storage_read = args.usage.source.file()?.ephemeral_storage;
    let estimates = settings.get_mut("estimates").filter(|_| is_ephemeral_storage_read);
    if let Some(Value::Object(estimates)) = estimates {
        estimates.entry("resources").or_insert_with(|| json!(Resource::ALL.map(Resource::name)));
    }
    let (mut source, histories, mut notes) = match found {
        Some(Found { source, histories, notes, .. }) => (source, Some(histories), notes),
        None => (profiles(opened), None, Vec::new()),
    };
    let settings = ParsedSettings::of(&settings);
    let usage = histories.as_ref().map_or(Usage::Profiles, Usage::Read);
    let mut run = Run { inventory, usage, containers: &args.container, notes: Vec::new() };
    let (workloads, effects) = run.evaluate(opened, &settings, progress)?;
    source.is_partial |= run.is_partial();
    notes.extend(without_advice(&workloads, histories.as_ref()));
    notes.extend(run.all_notes(args.target.all_namespaces));
    let prices = args.usage.costs.prices();
    let source = (source, headroom_rightsize::rule::of(&settings));
    Ok(Report::new(source, workloads, quota_effect::together(effects), notes, prices, args.sort_by))
}

/// The policy's settings, naming where profiles are: recommendations take history even where the policy reads none.
fn with_history(opened: &Opened) -> Value {
    let mut settings = opened.settings.clone();
    let namespace = profiles_namespace(&settings);
    let estimates = settings.as_object_mut().map(|settings| settings.entry("estimates").or_insert_with(|| json!({})));
    if let Some(Value::Object(estimates)) = estimates {
        estimates.entry("namespace").or_insert_with(|| json!(namespace));
    }
    settings
}

/// One run over an inventory.
struct Run<'a> {
    inventory: Inventory,
    usage: Usage<'a>,
    containers: &'a [String],
    /// The problems of reading that left something out of account.
    notes: Vec<ReadError>,
}

impl Run<'_> {
    fn evaluate(
        &mut self,
        opened: &mut Opened,
        settings: &ParsedSettings,
        progress: &Progress,
    ) -> anyhow::Result<(Vec<Workload>, Vec<quota_effect::QuotaEffect>)> {
        let now = settings.now().ok_or_else(|| anyhow!("this machine's clock is not set"))?;
        let Inventory { entries, autoscalers, .. } = &self.inventory;
        let Opened { cluster, settings: admission, .. } = opened;
        let admission = ParsedSettings::of(admission);
        let admission = (*settings != admission).then_some(&admission);
        let engine = Engine { usage: self.usage, autoscalers, settings, admission, now, containers: self.containers };
        let (mut workloads, mut effects, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
        progress.begin(entries.len() as u64, "Recommending");
        for (number, entry) in entries.iter().enumerate() {
            match (engine.recommend(number, entry, cluster, &mut self.notes), &entry.origin) {
                (Ok(None), _) => {}
                (Ok(Some((workload, of_workload))), _) => {
                    workloads.push(workload);
                    effects.extend(of_workload);
                }
                (Err(problem), Some(origin)) => {
                    // Kubernetes' own words, if its validation knows the problem too.
                    let problems = problems(&entry.object.value(), None, &[]);
                    let problem = if problems.is_empty() { problem } else { problems.join("; ") };
                    unreadable.push(format!("{origin}: {problem}"));
                }
                (Err(problem), None) => {
                    let problem = format!("no recommendation for {} {}: {problem}", entry.key.namespace, entry.key);
                    self.notes.push(ReadError::Failed(problem));
                }
            }
            progress.advance(1);
        }
        progress.end();
        if !unreadable.is_empty() {
            return Err(Problems(unreadable).into());
        }
        Ok((workloads, effects))
    }

    /// True if something that the recommendations depend on could not be read.
    fn is_partial(&self) -> bool {
        self.inventory.is_partial || !self.notes.is_empty()
    }

    fn all_notes(self, all_namespaces: bool) -> impl Iterator<Item = String> {
        let notes = self.notes.into_iter().map(move |error| rbac_hint::advised(error, all_namespaces));
        self.inventory.notes.into_iter().chain(notes)
    }
}

/// Nobody is left out without being named.
fn without_advice(workloads: &[Workload], histories: Option<&Histories>) -> Option<String> {
    let containers = || workloads.iter().flat_map(|of| of.containers.iter().map(move |container| (of, container)));
    let without = || containers().filter(|(_, container)| container.is_without_advice());
    let count = without().count();
    if histories.is_none() && count == containers().count() && count > 0 {
        return Some(
            "no usage data for any container here: `headroom-controller collect` gathers it, and `kubectl headroom doctor` \
             checks its source; --from prometheus reads a metrics store instead"
                .to_owned(),
        );
    }
    let named: Vec<String> = without()
        .take(MAX_NAMED)
        .map(|(of, container)| format!("{} {} {}", of.key.namespace, of.key, container.name))
        .collect();
    let more = count.saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more (all of them in -o csv)") } else { String::new() };
    (count > 0).then(|| format!("no recommendation for: {}{more}", named.join(", ")))
}

/// Prints the report; true if something in it is an error.
fn print(args: &Args, report: &Report) -> anyhow::Result<bool> {
    let gate = findings::Gate { off_by_percent: args.fail_above, risk: args.fail_on == Some(FailOn::Risk) };
    let findings = findings::of(report, gate);
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn parse(text: &str) -> Result<Args, clap::Error> {
        Cli::try_parse_from(["recommend"].into_iter().chain(text.split_whitespace())).map(|cli| cli.args)
    }

    #[test]
    fn contradictory_arguments_are_rejected() {
        for wrong in [
            "--prometheus http://a --service a/b:1",
            "--metrics-api --service a/b:1",
            "--metrics-api --from profiles",
            "--from influxdb",
            "--days 0",
            "--days 31",
            "--fail-above x",
            "--price-cpu 1Gi",
            "-l a=(",
            "-n a -A",
            "deployment/web -f a.yaml",
            "-k a --write",
            "--image a -l app=a",
            "--cpu-percentile p42",
            "--memory-margin much",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let args = parse("--fail-above 20% --kind deployment,Rollout deployment/web").unwrap();
        assert_eq!((args.fail_above, args.kind.len(), args.objects.len()), (Some(20), 2, 1));
    }

    #[test]
    fn what_is_written_is_named_once() {
        let check = |text: &str, is_good: bool| {
            assert_eq!(parse(text).unwrap().check_write().is_ok(), is_good, "{text}");
        };
        check("--write -f app", true);
        check("-f app --write", true);
        check("--write app other", true);
        check("--write", false);
        check("-f app --write other", false);
        check("-f - --write", false);
        check("--write -", false);
    }
}
