//! `kubectl headroom ui`: the page in a browser, with the live cluster behind it.
//!
//! It reads with the rights of the user who starts it, writes nothing, and listens on loopback only. A request must contain the
//! secret of the printed address: see `server`.

mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufWriter, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use headroom_api_server::kept_lists::KeptLists;
use headroom_api_server::parts::locked;
use headroom_api_server::{clock, signals};
use headroom_dry_run::simulate::unread;
use headroom_output::list_writer::{Form, ListWriter};
use headroom_output::{Exit, Page, complain, progress, terminal};
use headroom_recommend::output::{markdown, summary};
use headroom_recommend::report::price::Prices;
use headroom_recommend::write::{patches, trial};
use headroom_workloads::inventory::{Inventory, WorkloadEntry};
use headroom_workloads::owner::WorkloadRef;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::json;
use tempfile::NamedTempFile;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::cluster_args::{Opened, TargetArgs, profiles_namespace};
use super::export;
use super::memory::Memory;
use super::recommend::{self, NamedStore, UsageArgs};
use super::resize;
use super::resize::changes::Resizes;
use super::site::Site;
use super::snapshot;
use super::snapshot::{Advice, SnapshotFields};
use server::{Answer, Answered, PageQuestion, PageSecret, Server, TextForm};

const EXAMPLES: &str = "\
Examples:
  # One namespace
  kubectl headroom ui -n shop

  # The whole cluster, by the settings of the policy that is deployed
  kubectl headroom ui -A --settings cluster-admission-policy.yaml

  # Usage of two weeks from your Prometheus, and what it costs
  kubectl headroom ui -A --prometheus monitoring/prometheus:9090 --price 23EUR,3EUR

  # A snapshot, without a cluster
  kubectl headroom ui --cluster-dir cluster.json

  # One file to send or to publish, such as from a scheduled job
  kubectl headroom ui -A --export report.html

Keep the printed address secret: it gives access to everything that you may read, until you stop the command.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Port on 127.0.0.1, such as one that SSH forwards, without opening a browser here; a free port unless given
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Write the views into one HTML file, which needs neither network nor cluster, instead of serving them
    #[arg(long, value_name = "FILE", conflicts_with = "port")]
    export: Option<PathBuf>,
    /// Prices of a core and of a GiB of memory for a month, such as `23EUR,3EUR`, `$23,$3` or `23`
    #[arg(long, value_name = "CORE,GIB", help_heading = "Prices")]
    price: Option<Prices>,
    #[command(flatten)]
    store: NamedStore,
    #[command(flatten)]
    target: TargetArgs,
}

/// A metrics store is read again after this time; the cluster each minute.
const USAGE_AGE: Duration = Duration::from_secs(600);

/// Recommendations of UsageProfiles are made again after so many times what they took, so that a large cluster does not keep a core busy.
const REST: u32 = 100;

/// Tabs that ask within this time get the same answer.
const ANSWER_AGE: Duration = Duration::from_secs(10);

/// The last answer for a namespace; it is locked while the next one is made.
type LastAnswer = Arc<Mutex<Option<(Instant, Answered)>>>;

/// One reader of the cluster for all tabs: what it has read, and what it answered last.
struct Reader {
    kept: KeptLists,
    answers: Mutex<BTreeMap<Option<String>, LastAnswer>>,
}

impl Reader {
    /// Answers anew, or as for another tab a moment ago.
    fn answer(
        &self,
        namespace: Option<String>,
        make: impl FnOnce() -> anyhow::Result<Answered>,
    ) -> anyhow::Result<Answered> {
        let last = Arc::clone(locked(&self.answers).entry(namespace).or_default());
        // A panic leaves the last answer whole.
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, answer)) = last.as_ref().filter(|(at, _)| at.elapsed() < ANSWER_AGE) {
            return Ok(answer.clone());
        }
        let answer = make()?;
        *last = Some((Instant::now(), answer.clone()));
        Ok(answer)
    }
}

/// The changes that are tried in a reading, in whole namespaces: a trial takes milliseconds, and a large cluster has ten thousands.
const MOST_TRIED: usize = 500;

/// The namespaces whose rows come first.
const FIRST_NAMESPACES: usize = 10;

/// The source of usage, and the last recommendations by namespace.
struct Sizing {
    usage: UsageArgs,
    most_tried: usize,
    last: Mutex<BTreeMap<Option<String>, Last>>,
}

/// The last recommendations for a part of the cluster.
struct Last {
    made_at: Instant,
    /// The time for which they stand.
    age: Duration,
    advice: Advice,
    /// The time at which the changes in a namespace were tried last.
    tried: BTreeMap<String, Instant>,
}

pub fn run(args: Args) -> anyhow::Result<Exit> {
    if args.target.wants_cluster() {
        complain!("reading {}", args.target.cluster.described());
    }
    let mut usage = UsageArgs::for_page(args.price, args.store);
    let kept = KeptLists::new(unread::of_made);
    // The first reading goes on from what this one kept.
    usage.settle(&TargetArgs { kept: Some(kept.clone()), ..args.target.clone() })?;
    // Wrong arguments are reported before a browser is opened.
    args.target.check()?;
    let site = Site::find()?;
    let most_tried = if args.export.is_some() { usize::MAX } else { MOST_TRIED };
    let sizing = Sizing { usage, most_tried, last: Mutex::default() };
    let (target, reader) = (args.target, Reader { kept, answers: Mutex::default() });
    if let Some(file) = &args.export {
        let page = export::page(&site, &take(&target, ClusterPart::Views(&sizing), None)?)?;
        headroom_output::write_file(file, &page).with_context(|| format!("cannot write `{}`", file.display()))?;
        return Ok(Exit::Ok);
    }
    let answer = move |question| {
        let usage = &sizing.usage;
        let read = |part, namespace| {
            let target = TargetArgs { kept: Some(reader.kept.clone()), ..target.clone() };
            take(&target, part, namespace).map(Answered::gzip)
        };
        let answered = || match question {
            PageQuestion::Snapshot(namespace) => {
                reader.answer(namespace.clone(), || read(ClusterPart::Views(&sizing), namespace))
            }
            PageQuestion::Rows(None) if target.all_namespaces => {
                take(&first_of(&target)?, ClusterPart::Rows, None).map(Answered::gzip)
            }
            // Without a store, they would be no sooner there than the rest.
            PageQuestion::Rows(_) if !usage.names_store().unwrap_or_default() => Answered::json(&()),
            PageQuestion::Rows(namespace) => read(ClusterPart::Rows, namespace),
            PageQuestion::Tried(namespace, workload) => sizing.tried(&of(&target, namespace), &workload),
            PageQuestion::Objects(namespace) => read(ClusterPart::Objects, namespace),
            // With each object as YAML to commit.
            PageQuestion::Bounds(namespace) => {
                Answered::json(&recommend::bounds_for_page(&of(&target, namespace), usage)?)
            }
            PageQuestion::Hours(workload, container) => {
                let opened = in_namespaces(&target, slice::from_ref(&workload)).open()?;
                Answered::json(&recommend::hours(usage, &target, &opened, &workload, &container)?)
            }
            PageQuestion::Why(workload) => {
                let target = in_namespaces(&target, slice::from_ref(&workload));
                Answered::json(&super::why::answers(&target, &[workload.to_string()], usage)?.pop())
            }
            PageQuestion::Progress => Answered::json(&progress::shared()),
            PageQuestion::Changes(form, workloads) => changes(&target, usage, form, &workloads),
        };
        answered().map_err(|error| format!("{error:#}"))
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let ended = runtime.block_on(serve(site, args.port, Box::new(answer)));
    // Do not wait for a read of the cluster that is in progress.
    runtime.shutdown_background();
    ended.map(|()| Exit::Ok)
}

/// Serves the page on a port of 127.0.0.1 until the program is stopped.
async fn serve(site: Site, port: Option<u16>, answer: Answer) -> anyhow::Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap_or(0)));
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let address = listener.local_addr()?;
    let key = PageSecret::new(random()?);
    let url = format!("http://{address}/{}/", key.text());
    headroom_output::print(&Page::ours(format!("Open {url} in a browser; Ctrl-C ends it.\n")))?;
    // Deleted when the program ends.
    let redirect = if port.is_none() && terminal::sees_output() { Some(redirect_to(&url)?) } else { None };
    if let Some(file) = &redirect {
        // OK if it fails, because the address is printed.
        let _ = open::that_detached(file.path());
    }
    let stop = CancellationToken::new();
    signals::cancel(stop.clone())?;
    let server = Arc::new(Server::new(site, key, address, answer));
    tokio::select! {
        () = server::serve(listener, server) => Ok(()),
        () = stop.cancelled() => Ok(()),
    }
}

/// A file that redirects the browser to the address. Other users of this machine can see the arguments of the command that opens
/// the browser, so these contain no secret: they name this file, which only its owner can read.
fn redirect_to(url: &str) -> anyhow::Result<NamedTempFile> {
    let mut file =
        tempfile::Builder::new().prefix("headroom-").suffix(".html").tempfile().context("cannot write a file")?;
    write!(file, "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url={url}\">")
        .context("cannot write a file")?;
    Ok(file)
}

/// Takes what the views show, with recommendations; or without them the objects that "What if" evaluates.
fn take(target: &TargetArgs, part: ClusterPart<'_>, namespace: Option<String>) -> anyhow::Result<Vec<u8>> {
    let hint = match namespace {
        None => "; name a namespace that you may read, above or as ?namespace=NAME in the address",
        Some(_) => "",
    };
    let target = of(target, namespace);
    let advise = |opened: &mut Opened, inventory| {
        Ok(match part {
            ClusterPart::Objects => Advice::default(),
            ClusterPart::Rows => snapshot::advice(opened, inventory, &target, None)?.0,
            ClusterPart::Views(sizing) => {
                let mut advice = sizing.advice(opened, inventory, &target)?;
                advice.resizes = Sizing::resizes(opened, &target);
                advice
            }
        })
    };
    // Compressed at once: a large cluster has hundreds of megabytes. Each call of the encoder clears its buffer.
    let compressed = BufWriter::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let written =
        if matches!(part, ClusterPart::Objects) { SnapshotFields::ForWhatIf } else { SnapshotFields::ForViews };
    let mut snapshot = snapshot::take(&target, ListWriter::new(compressed, Form::CompactJson), written, advise)?;
    if let Some(first) = snapshot.missed.first_mut() {
        first.push_str(hint);
    }
    if let Some(advice) = &snapshot.elsewhere {
        bail!("{advice}");
    }
    match snapshot.missed.first() {
        Some(problem) if snapshot.objects() == 0 => bail!("{problem}"),
        _ => Ok(snapshot.finish()?.into_inner()?.finish()?),
    }
}

#[derive(Clone, Copy)]
enum ClusterPart<'s> {
    Views(&'s Sizing),
    /// The views without usage of a metrics store.
    Rows,
    /// The objects that "What if" evaluates.
    Objects,
}

/// The first namespaces of a cluster: all of a large one takes its time.
fn first_of(target: &TargetArgs) -> anyhow::Result<TargetArgs> {
    let namespaces: Vec<String> =
        target.open_partly()?.cluster.namespaces().into_iter().take(FIRST_NAMESPACES).collect();
    Ok(TargetArgs { all_namespaces: namespaces.is_empty(), namespaces, ..target.clone() })
}

/// The same cluster, of which one namespace is read; without one, those that the program was started for.
fn of(target: &TargetArgs, namespace: Option<String>) -> TargetArgs {
    match namespace {
        Some(namespace) => TargetArgs { namespaces: vec![namespace], all_namespaces: false, ..target.clone() },
        None => target.clone(),
    }
}

/// The recommendations for some workloads, made anew as a text; as a string of JSON.
fn changes(
    target: &TargetArgs,
    usage: &UsageArgs,
    form: TextForm,
    workloads: &[WorkloadRef],
) -> anyhow::Result<Answered> {
    let target = in_namespaces(target, workloads);
    let report = recommend::recommend_workloads(&target, usage, workloads)?;
    let text = match form {
        TextForm::Markdown => markdown::text(&report),
        TextForm::Kustomize => {
            let file = patches::kustomize(&report.changes())?;
            let comments = [report.left_out_of_kustomize(), report.beside_changes()].concat();
            patches::commented(&comments, file).to_string()
        }
        TextForm::Patch => recommend::as_command(&target, &report)?,
    };
    Answered::json(&text)
}

/// The same cluster, of which the namespaces of these workloads are read.
fn in_namespaces(target: &TargetArgs, workloads: &[WorkloadRef]) -> TargetArgs {
    let namespaces = workloads.iter().map(|workload| workload.namespace.clone()).collect::<BTreeSet<_>>();
    TargetArgs { namespaces: namespaces.into_iter().collect(), all_namespaces: false, ..target.clone() }
}

impl Sizing {
    fn last(&self) -> MutexGuard<'_, BTreeMap<Option<String>, Last>> {
        // A panic leaves each of them whole, or takes it out.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Recommends, with the changes that are tried by now.
    fn advice(&self, opened: &mut Opened, inventory: Inventory, target: &TargetArgs) -> anyhow::Result<Advice> {
        let scope = scope(target);
        let before = self.last().remove(&scope);
        let (mut last, entries) = match before {
            Some(last) if last.made_at.elapsed() < last.age => (last, inventory.entries),
            before => {
                // No more is kept meanwhile: the report of a large cluster is most of the memory.
                let found = before.as_ref().and_then(|of| Some(trial::found(&of.advice.advice.as_ref()?.0)));
                let tried = before.map(|before| before.tried).unwrap_or_default();
                let begun = Instant::now();
                let (mut advice, entries, is_of_store) =
                    snapshot::advice(opened, inventory, target, Some(&self.usage))?;
                let age = if is_of_store { USAGE_AGE } else { USAGE_AGE.min(begun.elapsed() * REST) };
                let memory =
                    if target.wants_cluster() { Memory::of_cluster(&target.cluster.described()) } else { None };
                if let (Some(memory), Some(summary)) = (memory, &advice.advice) {
                    advice.changes = memory.changes(summary, clock::now());
                }
                if let (Some(summary), Some(found)) = (&mut advice.advice, found) {
                    trial::take_over(&mut Arc::make_mut(summary).0, found);
                }
                (Last { made_at: Instant::now(), age, advice, tried }, entries)
            }
        };
        let next = last.advice.advice.as_ref().map(|summary| trial::next(&summary.0, &last.tried, self.most_tried));
        last.try_in(opened, &entries, next.unwrap_or_default());
        let advice = last.advice.clone();
        self.last().insert(scope, last);
        Ok(advice)
    }

    /// Tries the changes in the namespace of a workload that somebody looks at, and answers with its rows.
    fn tried(&self, target: &TargetArgs, workload: &WorkloadRef) -> anyhow::Result<Answered> {
        let mut opened = in_namespaces(target, slice::from_ref(workload)).open()?;
        let read = Inventory::read(&mut opened.cluster, &opened.scope.parts(), |problem| problem.to_string());
        let entries = read.map_err(anyhow::Error::msg)?.entries;
        let mut all = self.last();
        let last = all.get_mut(&scope(target)).ok_or_else(|| anyhow!("the cluster is being read"))?;
        last.try_in(&mut opened, &entries, BTreeSet::from([workload.namespace.clone()]));
        let rows = last.advice.advice.as_ref().map(|summary| summary::rows(summary, &workload.namespace));
        Answered::json(&json!({"kind": "List", "items": [{"kind": "Snapshot", "spec": {"advice": rows}}]}))
    }

    /// Reads what the controller did and would do; none where it does not run, or this user may not see it.
    fn resizes(opened: &Opened, target: &TargetArgs) -> Option<Resizes> {
        let namespaces = opened.scope.parts().into_iter().map(|of| of.map(str::to_owned)).collect();
        let found = target
            .wants_cluster()
            .then(|| resize::read_records(&target.cluster, namespaces, &profiles_namespace(&opened.settings)))?;
        found.ok().filter(|found| !found.is_empty())
    }
}

impl Last {
    fn try_in(&mut self, opened: &mut Opened, entries: &[WorkloadEntry], namespaces: BTreeSet<String>) {
        self.advice.try_in(opened, entries, |namespace| namespaces.contains(namespace));
        self.tried.extend(namespaces.into_iter().map(|namespace| (namespace, Instant::now())));
    }
}

/// The namespaces of a target; none for all.
fn scope(target: &TargetArgs) -> Option<String> {
    (!target.all_namespaces).then(|| target.namespaces.join(","))
}

fn random() -> anyhow::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| anyhow!("cannot read random numbers from the operating system"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn only_its_owner_reads_the_page_that_the_browser_is_started_with() {
        use std::os::unix::fs::PermissionsExt as _;
        let url = "http://127.0.0.1:4000/5ec2e7/";
        let file = redirect_to(url).unwrap();
        assert_eq!(file.as_file().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(std::fs::read_to_string(file.path()).unwrap().contains(url));
        assert!(!file.path().to_string_lossy().contains("5ec2e7"));
    }
}
