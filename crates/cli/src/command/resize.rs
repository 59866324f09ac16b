//! `kubectl headroom resize`: shows what `headroom-controller resize` did, and does the same once for a person who has said yes.

pub mod changes;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use clap::ArgGroup;
use headroom_admission::truncate::count_of;
use headroom_api_server::api_client::{ApiClient, ApiError, ListOptions, value};
use headroom_api_server::cluster_reader::LiveCluster;
use headroom_api_server::event::Recorder;
use headroom_api_server::kubeconfig::Chosen;
use headroom_api_server::shell::ShellCommand;
use headroom_api_server::{ApiPath, clock};
use headroom_dry_run::evaluate::Admission;
use headroom_dry_run::evaluate::admission::PolicySource;
use headroom_objects::cluster_reader::ClusterReader;
use headroom_objects::kinds::metadata;
use headroom_output::{Exit, Page, ask, complain};
use headroom_resizer::decision::{Event, Mode, Note, Rules};
use headroom_resizer::running::{Modes, RunningWorkload};
use headroom_resizer::{Resizer, RoundOutcome};
use headroom_workloads::WorkloadRef;
use serde_json::{Value, json};

use self::changes::{COMPONENT, Resizes};
use super::cluster_args::{connect, is_kind, named, one_by_one, profiles_namespace};
use super::describe::DescribeOutput;
use super::source::client;

const EXAMPLES: &str = "Examples:
  # What was changed, taken back and refused in the whole cluster
  kubectl headroom resize -A

  # What would be done in this namespace; nothing is changed
  kubectl headroom resize --all --dry-run

  # Bring the pods of a Deployment to the size that they would be admitted with today, and stay until all are done
  kubectl headroom resize deployment/web --watch

  # Take back the last change of each of its pods
  kubectl headroom resize deployment/web --undo";

/// The pause between rounds, and about how long a harmful change stays.
const PAUSE: Duration = Duration::from_secs(15);

/// With more Events, a tenth of them is read of each namespace.
const MOST_EVENTS: usize = 5_000;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("changed").args(["names", "all"]))]
pub struct Args {
    /// Workloads to change, such as `deployment/web`; without any, what was changed is shown
    #[arg(value_name = "KIND/NAME", conflicts_with_all = ["all_namespaces", "output"])]
    names: Vec<String>,
    /// Change all workloads of the namespace
    #[arg(long, conflicts_with_all = ["names", "all_namespaces", "output"])]
    all: bool,
    /// Namespace of the workloads
    #[arg(short, long)]
    namespace: Option<String>,
    /// Show what was changed in all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    #[command(flatten)]
    output: DescribeOutput,
    /// Show what would be done, and whether nodes and API server accept it
    #[arg(long, requires = "changed", conflicts_with_all = ["undo", "watch"])]
    dry_run: bool,
    /// Take back the last change of each pod, and leave its containers alone for a day
    #[arg(long, requires = "names")]
    undo: bool,
    /// Go on until all pods are done: the first pod is watched for ten minutes before others follow
    #[arg(long, requires = "changed")]
    watch: bool,
    /// Do not ask for confirmation
    #[arg(short, long, requires = "changed")]
    yes: bool,
    #[command(flatten)]
    cluster: Chosen,
}

pub fn run(args: Args) -> anyhow::Result<Exit> {
    if args.names.is_empty() && !args.all {
        return args.show();
    }
    let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
    let api = runtime.block_on(connect(&args.cluster)).map_err(anyhow::Error::msg)?;
    let (mut cluster, default_namespace) = LiveCluster::connect(&args.cluster).map_err(anyhow::Error::msg)?;
    let namespace = args.namespace.clone().unwrap_or(default_namespace);
    let mut resizer = Resizer {
        runtime: runtime.handle().clone(),
        records: home(&mut cluster),
        cluster,
        modes: Modes { least: Mode::On, unasked: Mode::On, most: Mode::On },
        rules: Rules::default(),
        signals: None,
        events: Recorder { api: api.clone(), component: "kubectl-headroom", instance: String::new() },
        memory: headroom_resizer::Memory::default(),
        api,
    };
    if !resizer.is_supported()? {
        bail!("{} has no pods/resize, which Kubernetes has since 1.33", args.cluster.described());
    }
    let place = format!("namespace {namespace} of {}", args.cluster.described());
    if args.undo { args.undo(&mut resizer, &namespace, &place) } else { args.resize(&mut resizer, &namespace, &place) }
}

type WorkloadNotes = Vec<(String, Vec<Note>)>;

impl Args {
    fn show(&self) -> anyhow::Result<Exit> {
        let (mut cluster, own) = LiveCluster::connect(&self.cluster).map_err(anyhow::Error::msg)?;
        let namespaces = (!self.all_namespaces).then(|| vec![self.namespace.clone().unwrap_or(own)]);
        let found = read_records(&self.cluster, namespaces, &home(&mut cluster))?;
        self.output.print(&found, || Ok(found.page()))
    }

    fn resize(&self, resizer: &mut Resizer, namespace: &str, place: &str) -> anyhow::Result<Exit> {
        let (found, workloads) = self.read(resizer, namespace)?;
        let (records, home) = (resizer.records(), &resizer.records);
        let context = || format!("cannot list the records in namespace {home}, which every change needs");
        let records = if self.dry_run { records.unwrap_or_default() } else { records.with_context(context)? };
        let (mut noted, mut is_left) = (WorkloadNotes::new(), false);
        for running in &workloads {
            let record = records.get(&running.workload).cloned().unwrap_or_default();
            let mut notes = resizer.preview(running, &record, &found)?.notes;
            for note in &mut notes {
                if let Event::Begun { why, containers } = note.event.clone() {
                    note.event = Event::Would { why, containers };
                }
            }
            is_left |= record.left_alone.iter().any(|left| found.at < left.until);
            noted.push((running.workload.to_string(), notes));
        }
        print(&noted)?;
        if noted.iter().all(|(_, notes)| notes.is_empty()) {
            headroom_output::print(&reasons_for_none(is_left, found.usage.is_empty()))?;
        }
        let pods = noted.iter().flat_map(|(_, notes)| notes).filter(|note| matches!(note.event, Event::Would { .. }));
        let pods = pods.count() as u64;
        let question = || format!("Resize {} in {place} now?", count_of(pods, "pod"));
        if pods == 0 || self.dry_run || !self.confirmed(&question())? {
            return Ok(Exit::Ok);
        }
        let mut unsettled = BTreeSet::new();
        loop {
            let mut is_busy = false;
            let (found, workloads) = self.read(resizer, namespace)?;
            let mut noted = WorkloadNotes::new();
            for running in &workloads {
                let outcome = resizer.round(running, &found.usage, usize::MAX, false)?;
                let RoundOutcome::Done { mut notes, under_way } = outcome else { continue };
                is_busy |= under_way > 0;
                notes.retain(|note| match &note.event {
                    // Changes that wait were already listed before the first round.
                    Event::Waits(_) | Event::DoesNotFit(_) => false,
                    Event::Unsettled(why) => unsettled.insert((note.pod.clone(), *why)),
                    _ => true,
                });
                noted.push((running.workload.to_string(), notes));
            }
            print(&noted)?;
            if !self.watch || !is_busy {
                break;
            }
            std::thread::sleep(PAUSE);
            resizer.cluster.forget(|_| true);
        }
        let names: Vec<String> = workloads.iter().map(|of| of.workload.to_string()).collect();
        let undo = ShellCommand::of("kubectl headroom").words(["resize"]).words(&names);
        let undo = undo.words(["--undo", "--namespace", namespace]).ending(&self.cluster.as_words());
        complain!("to take the last changes back, run `{undo}`");
        if !self.watch {
            complain!("watch the pods and go on with --watch, unless `headroom-controller resize` does");
        }
        Ok(Exit::Ok)
    }

    fn undo(&self, resizer: &mut Resizer, namespace: &str, place: &str) -> anyhow::Result<Exit> {
        let (found, workloads) = self.read(resizer, namespace)?;
        let names: Vec<String> = workloads.iter().map(|of| of.workload.to_string()).collect();
        if !self.confirmed(&format!("Take back the last resize of each pod of {} in {place}?", names.join(", ")))? {
            return Ok(Exit::Ok);
        }
        let mut noted = WorkloadNotes::new();
        for running in &workloads {
            match resizer.round(running, &found.usage, 0, true)? {
                RoundOutcome::Done { mut notes, .. } => {
                    notes.retain(|note| !matches!(note.event, Event::Waits(_) | Event::Would { .. }));
                    noted.push((running.workload.to_string(), notes));
                }
                RoundOutcome::Overtaken => {
                    bail!("{} is being changed by another process: try again", running.workload)
                }
            }
        }
        print(&noted)?;
        let pods_with = |is_it: fn(&Note) -> bool| {
            let of = |(_, notes): &(String, Vec<Note>)| notes.iter().filter(|note| is_it(note)).count() as u64;
            noted.iter().map(of).sum::<u64>()
        };
        let unsent = pods_with(|note| matches!(note.event, Event::Refused(_) | Event::Later));
        let taken = pods_with(|note| matches!(note.event, Event::TakingBack { .. })).saturating_sub(unsent);
        let kept = unsent + pods_with(|note| matches!(note.event, Event::NotTakenBack(_)));
        let names = names.join(", ");
        let none = if kept > 0 { "" } else { ": no resize of the last week is known" };
        match taken {
            0 => complain!("nothing was taken back of {names} in {place}{none}"),
            _ => complain!("took back the last resize of {} of {names} in {place}", count_of(taken, "pod")),
        }
        Ok(if unsent > 0 { Exit::Refused } else { Exit::Ok })
    }

    fn read(
        &self,
        resizer: &mut Resizer,
        namespace: &str,
    ) -> anyhow::Result<(headroom_resizer::Found, Vec<RunningWorkload>)> {
        let admission = Admission::read(&mut resizer.cluster, PolicySource::Cluster, &[Some(namespace)]);
        let object = resizer.cluster.get(("v1", "Namespace", None), namespace).ok().flatten();
        let object = object.unwrap_or_else(|| json!({"metadata": {"name": namespace}}));
        let mut found = resizer.read(&object, &admission).map_err(|error| anyhow!(error))?;
        let mut workloads = std::mem::take(&mut found.workloads);
        workloads.retain(|running| self.undo || !running.is_off());
        if self.names.is_empty() {
            return Ok((found, workloads));
        }
        let mut chosen = Vec::new();
        for name in one_by_one(&self.names, is_kind) {
            let (kind, name) = named(&name)?;
            let is_it =
                |running: &RunningWorkload| (&running.workload.kind, &running.workload.name) == (&kind.kind, &name);
            let Some(place) = workloads.iter().position(is_it) else {
                bail!(
                    "{}/{name} has no running pods in namespace {namespace}, or asks to be left (headroom.dev/resize: off)",
                    kind.kind.to_lowercase()
                );
            };
            chosen.push(workloads.swap_remove(place));
        }
        Ok((found, chosen))
    }

    fn confirmed(&self, question: &str) -> anyhow::Result<bool> {
        if self.yes {
            return Ok(true);
        }
        let Some(answer) = ask(&format!("{question} [y/N]"))? else {
            complain!("nothing was changed: pass --yes to answer `{question}`");
            return Ok(false);
        };
        Ok(matches!(answer.as_str(), "y" | "Y" | "yes"))
    }
}

/// The namespace in which `headroom-controller resize` keeps its records: the chart puts it where the policy reads history.
fn home(cluster: &mut dyn ClusterReader) -> String {
    let admission = Admission::read(cluster, PolicySource::Cluster, &[]);
    profiles_namespace(admission.settings().unwrap_or(&Value::Null))
}

/// Reads what is known about resizes in these namespaces; None is all of them.
pub fn read_records(cluster: &Chosen, namespaces: Option<Vec<String>>, home: &str) -> anyhow::Result<Resizes> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let api = ApiClient::new(client(cluster).await?);
        let unread = |error: ApiError| anyhow!("cannot list the records in namespace {home}: {error}");
        let records = headroom_resizer::records(&api, home).await.map_err(unread)?;
        let is_chosen = |of: &WorkloadRef| namespaces.as_ref().is_none_or(|all| all.contains(&of.namespace));
        let records = records.into_iter().filter(|(workload, _)| is_chosen(workload)).collect();
        let mut events = Vec::new();
        let namespaces = namespaces.map(|all| all.into_iter().map(Some).collect());
        // Without Events, only the records are known.
        for namespace in namespaces.unwrap_or_else(|| vec![None]) {
            let (found, is_whole) = events_in(&api, namespace.as_deref(), MOST_EVENTS).await;
            events.extend(found);
            // Everybody may write Events in a namespace of his own, so then each has its bound.
            if namespace.is_none() && !is_whole {
                events.clear();
                let path = ApiPath::of_version("v1").collection(None, "namespaces");
                let (_, all) = api.list(&path, ListOptions::METADATA, value).await.unwrap_or_default();
                for namespace in &all {
                    events.extend(events_in(&api, Some(metadata(namespace, "name")), MOST_EVENTS / 10).await.0);
                }
            }
        }
        Ok(Resizes::new(&records, &events, clock::now()))
    })
}

/// The Events of the controller in a namespace or in all, and whether these are all of them.
async fn events_in(api: &ApiClient, namespace: Option<&str>, most: usize) -> (Vec<Value>, bool) {
    let selector = format!("reportingComponent={COMPONENT}");
    let options = ListOptions { field_selector: &selector, most, ..ListOptions::WHOLE };
    let (path, mut found) = (ApiPath::of_version("v1").collection(namespace, "events"), Vec::new());
    let listed = api.for_each(&path, options, |event| found.extend(value(event))).await;
    (found, listed.is_ok_and(|listed| listed.next.is_empty()))
}

fn print(noted: &WorkloadNotes) -> anyhow::Result<()> {
    let mut page = Page::new();
    for (workload, notes) in noted {
        notes.iter().for_each(|Note { pod, event }| writeln!(page, "{workload}: pod {pod}: {event}"));
    }
    headroom_output::print(&page)
}

fn reasons_for_none(is_left: bool, is_unmeasured: bool) -> Page {
    let mut page = Page::new();
    if is_left {
        let left = "after a change that was taken back or refused, containers are left alone";
        writeln!(page, "no pod is resized: {left}: see `kubectl headroom resize`");
    }
    if is_unmeasured {
        let none = "the metrics API has no recent usage of these pods (is metrics-server installed?)";
        writeln!(page, "no size can be judged: {none}");
    } else if !is_left {
        let why = "or something keeps it from being changed: see `kubectl headroom why`";
        writeln!(page, "no pod needs another size, {why}");
    }
    page
}
