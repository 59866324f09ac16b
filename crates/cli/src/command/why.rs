//! `kubectl headroom why`: what is wrong with a workload now, who else decides about it, and where each value of its pods comes from.
//!
//! [`headroom_dry_run::why`] finds what the cluster knows; what recorded usage adds is here. An object that exists is decided about as
//! if it were recreated, without its own usage; a workload whose pods are blocked now as it is.

use anyhow::bail;
use clap::ArgGroup;
use headroom_admission::timestamp::Timestamp;
use headroom_api_server::shell::ShellCommand;
use headroom_dry_run::evaluate::{ObjectDecision, Run, Verdict, in_order};
use headroom_dry_run::why::{self, Decider, Severity, WorkloadDiagnosis, WorkloadProblem};
use headroom_objects::clock;
use headroom_objects::kinds::{ApiKind, metadata};
use headroom_objects::manifest::{Manifest, Origin};
use headroom_output::progress::Progress;
use headroom_output::{Exit, Page, Paint};
use headroom_recommend::advice::risk::RiskKind;
use headroom_recommend::report::Recommendations;
use headroom_workloads::inventory::{Inventory, WorkloadEntry};
use headroom_workloads::{WorkloadRef, kinds};
use serde::Serialize;
use serde_json::{Value, json};

use super::cluster_args::{
    About, ObjectFormat, OfflineFlag, Opened, TargetArgs, add_admission, find, is_kind, named, one_by_one,
};
use super::decision;
use super::manifests::{self, Manifests};
use super::recommend::{self, NamedStore, Recommended, UsageArgs};
use super::source::Address;

const EXAMPLES: &str = "\
Examples:
  # Why the pods of a Deployment do not come up, restart or are slow, who else changes it, and where its requests come from
  kubectl headroom why deployment/web -n shop

  # Also throttling, kills and use above requests, from a metrics store
  kubectl headroom why deployment/web -n shop --prometheus monitoring/prometheus:9090

  # One value of it
  kubectl headroom why deployment/web -n shop --value requests.memory

  # A manifest before it is applied
  kubectl headroom why -f pod.yaml --cluster-dir cluster/

  # What a container of an image gets that sets nothing
  kubectl headroom why --image nginx:1.27 -n shop

Exit codes: 0 if nothing is wrong, 1 if something is, or would be rejected, invalid or have its pods blocked, 2 if that could not be \
read.";

const NOTHING: &str = "nothing is wrong in its status, pods and Events";
const NOT_LOOKED_AT: &str = "throttling, kills of child processes and use above requests";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("all_namespaces", |argument| argument.hide(true)))]
#[command(group = ArgGroup::new("given").args(["names", "files", "kustomizations", "image"]).required(true).multiple(true))]
pub struct Args {
    /// KIND/NAME such as `deployment/web`, or pod names; of the manifests, if there are some
    #[arg(value_name = "KIND/NAME | POD")]
    names: Vec<String>,
    #[command(flatten)]
    manifests: Manifests,
    /// The image of a container that sets nothing, as in a pod of its own
    #[arg(long, conflicts_with_all = ["names", "files", "kustomizations"])]
    image: Option<String>,
    /// Only this value, such as `requests.memory`
    #[arg(long, value_name = "FIELD")]
    value: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ObjectFormat::Text)]
    output: ObjectFormat,
    #[command(flatten)]
    store: NamedStore,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    offline: OfflineFlag,
}

#[derive(Debug, Serialize)]
struct Answer {
    #[serde(flatten)]
    why: WorkloadDiagnosis,
    /// The object exists, and has pods in which something may be wrong.
    #[serde(skip)]
    has_pods: bool,
    decision: ObjectDecision,
}

pub fn run(mut args: Args) -> anyhow::Result<Exit> {
    args.target.offline = Some(args.offline.is_given);
    if args.target.all_namespaces {
        bail!("--all-namespaces is not supported here; use -n");
    }
    args.target.check_single()?;
    let manifests = match args.manifests() {
        Err(problem) if args.output != ObjectFormat::Text => {
            // Programs that read the output still get a valid document.
            headroom_output::print(&Page::json(&Value::Array(Vec::new()))?)?;
            return Err(problem);
        }
        manifests => manifests?,
    };
    let (mut answers, admission) = if args.manifests.is_given() || args.image.is_some() {
        let opened = args.target.open()?;
        let admission = opened.admission.describe();
        (of_manifests(&mut opened.into_run(), manifests, &args)?, admission)
    } else {
        let usage = UsageArgs::for_page(None, args.store.clone());
        args.target.needs_cluster = matches!(usage.address()?, Some(Address::Service(_)));
        let (found, mut run) = of_objects(&args.target, &args.names, &usage)?;
        let answer = |(why, object): (WorkloadDiagnosis, Value)| {
            let pod = run.preview_pod_of(&object);
            let decision = run.preview_as_new(&object).explained(pod, &object);
            Answer { why, has_pods: has_pods(&object), decision }
        };
        let answers: Vec<Answer> = found.into_iter().map(answer).collect();
        (answers, run.admission.describe())
    };
    if let Some(field) = &args.value {
        let mut is_there = false;
        answers.iter_mut().for_each(|answer| is_there |= keep_only(field, &mut answer.decision));
        if !is_there {
            bail!("there is no `{field}` here: a value is for example `requests.memory`");
        }
    }
    let exit = answers.iter().map(exit).max().unwrap_or(Exit::Ok);
    let about: Vec<_> = answers.iter().map(|output| About { admission: &admission, output }).collect();
    headroom_output::print(&match args.output {
        ObjectFormat::Text => {
            let mut page = page(&answers, Paint::for_stdout());
            page.gap();
            add_admission(&mut page, &admission);
            page
        }
        ObjectFormat::Json => Page::json(&about)?,
        ObjectFormat::Yaml => Page::yaml(&about)?,
    })?;
    Ok(exit)
}

impl Args {
    /// The manifests, or a pod of the image.
    fn manifests(&self) -> anyhow::Result<Vec<Manifest>> {
        let mut manifests = manifests::all(self.manifests.read_all())?;
        self.manifests.require_objects(&manifests, "explain")?;
        if let Some(image) = &self.image {
            let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "any"},
                "spec": {"containers": [{"name": "any", "image": image}]}});
            manifests.push(Manifest { object, origin: Origin { file: image.into(), line: 1, document: 0 } });
        }
        if let Some(name) = self
            .names
            .iter()
            .find(|name| self.manifests.is_given() && !manifests.iter().any(|of| is_named(name, &of.object)))
        {
            bail!("the manifests have no `{name}`");
        }
        Ok(manifests)
    }
}

/// True if an object is meant by `deployment/web`, or by a pod's bare name.
fn is_named(typed: &str, object: &Value) -> bool {
    let (kind, name) = (ApiKind::of(object), metadata(object, "name"));
    let is_known = || named(typed).is_ok_and(|(of, typed)| of.kind == kind.kind && typed == name);
    kind.object_name(name) == typed || is_known()
}

/// The decisions about manifests in their order, each after those before it.
fn of_manifests(run: &mut Run, manifests: Vec<Manifest>, args: &Args) -> anyhow::Result<Vec<Answer>> {
    let names = one_by_one(&args.names, is_kind);
    let evaluated = in_order(
        manifests,
        |manifest| Some(&manifest.object),
        |Manifest { object, .. }| (run.evaluate_with_pod(&object), object),
    );
    let is_wanted = |object: &Value| names.is_empty() || names.iter().any(|name| is_named(name, object));
    let answer = |((decision, pod), object): ((ObjectDecision, _), Value)| {
        let mut decision = decision.explained(pod, &object);
        if let Some(image) = &args.image {
            decision.object = format!("image {image}");
        }
        let (object, namespace) = (decision.object.clone(), decision.namespace.clone());
        Answer {
            why: WorkloadDiagnosis { object, namespace, ..WorkloadDiagnosis::default() },
            has_pods: false,
            decision,
        }
    };
    Ok(evaluated.into_iter().filter(|(_, object)| is_wanted(object)).map(answer).collect())
}

/// Keeps one value of a decision, and what is about it; returns false if there is none.
fn keep_only(field: &str, decision: &mut ObjectDecision) -> bool {
    let resource = field.split_once('.').map_or(field, |(_, resource)| resource);
    decision.containers.iter_mut().for_each(|container| container.values.retain(|value| value.field == field));
    decision.containers.retain(|container| !container.values.is_empty());
    decision.in_all.retain(|check| check.resource == resource);
    for charge in decision.charges.iter_mut().chain(&mut decision.pod_charges) {
        charge.added.retain(|amount| amount.name == field || amount.name == resource);
    }
    !decision.containers.is_empty() || !decision.in_all.is_empty()
}

fn exit(Answer { why, decision, .. }: &Answer) -> Exit {
    let of_decision = match decision.verdict {
        Verdict::NotChecked | Verdict::Admitted | Verdict::Changed => Exit::Ok,
        Verdict::PodsBlocked | Verdict::Rejected | Verdict::Invalid => Exit::Refused,
        Verdict::Error => Exit::Error,
    };
    let of_now = match () {
        () if why.findings.iter().any(|finding| finding.severity != Severity::Note) => Exit::Refused,
        () if why.unread.is_empty() => Exit::Ok,
        () => Exit::Error,
    };
    of_decision.max(of_now)
}

/// Explains what is wrong with some objects now, in the order in which they are named.
pub fn answers(target: &TargetArgs, names: &[String], usage: &UsageArgs) -> anyhow::Result<Vec<WorkloadDiagnosis>> {
    Ok(of_objects(target, names, usage)?.0.into_iter().map(|(why, _)| why).collect())
}

fn of_objects(
    target: &TargetArgs,
    names: &[String],
    usage: &UsageArgs,
) -> anyhow::Result<(Vec<(WorkloadDiagnosis, Value)>, Run)> {
    let mut opened = target.open_partly()?;
    let (suffixes, namespace) = (target.suffixes(), opened.namespace.clone());
    let mut objects = Vec::new();
    for name in &one_by_one(names, is_kind) {
        let (kind, name) = named(name)?;
        let object = find(&mut opened.cluster, &kind, &name, &namespace)?;
        let of_usage = of_usage(&mut opened, &object, target, usage)?;
        objects.push((object, of_usage));
    }
    let unread = std::mem::take(&mut opened.unread);
    let (mut run, now) = (opened.into_run(), Timestamp::from_unix_seconds(clock::now()));
    let mut answer = |(object, of_usage): (Value, Vec<WorkloadProblem>)| {
        let (kind, name) = (ApiKind::of(&object), metadata(&object, "name"));
        if !has_pods(&object) {
            let (object_name, namespace) = (kind.object_name(name), metadata(&object, "namespace").to_owned());
            return (WorkloadDiagnosis { object: object_name, namespace, ..WorkloadDiagnosis::default() }, object);
        }
        let mut why = why::of(&mut run, &object, &suffixes, now);
        let this = format!("{}/{name}", kind.kind.to_lowercase());
        let command = ShellCommand::of("kubectl headroom").words(["recommend", &this, "-n", &why.namespace]);
        let command = command.ending(&suffixes.headroom);
        let with_command = |finding: WorkloadProblem| match finding.command.is_empty() {
            true => WorkloadProblem { command: command.clone(), ..finding },
            false => WorkloadProblem { command: finding.command.ending(&suffixes.headroom), ..finding },
        };
        why.findings.extend(of_usage.into_iter().map(with_command));
        why.unread.extend(unread.clone());
        why.findings.sort_by_key(|finding| finding.severity);
        (why, object)
    };
    let answers = objects.into_iter().map(&mut answer).collect();
    Ok((answers, run))
}

/// The findings about the usage of a workload, from the store that is named or from UsageProfiles: throttling, kills, and usage above
/// its requests; and what of that nobody has measured.
fn of_usage(
    opened: &mut Opened,
    object: &Value,
    target: &TargetArgs,
    usage: &UsageArgs,
) -> anyhow::Result<Vec<WorkloadProblem>> {
    if kinds::of_api(&ApiKind::of(object)).is_none() {
        return Ok(Vec::new());
    }
    let this = WorkloadRef::of(object);
    let around = Inventory::read(&mut opened.cluster, &[Some(&this.namespace)], |problem| problem.to_string());
    // OK because who may not list what is around it gets the answer for its template alone.
    let mut inventory = around.unwrap_or_default();
    inventory.entries.retain(|entry| entry.key == this);
    if inventory.entries.is_empty() {
        inventory.entries.push(WorkloadEntry::of_cluster(object));
    }
    inventory.renumber();
    let named = usage.names_store()?.then(|| usage.recent());
    let Recommended { report, is_of_store, refusal, .. } =
        recommend::recommend_inventory(opened, inventory, target, named.as_ref(), &Progress::for_people())?;
    let unmeasured = unmeasured(&report, is_of_store, refusal, &this);
    let found = report.risks.into_iter().map(|risk| WorkloadProblem {
        severity: if risk.risk == RiskKind::NoRequest { Severity::Note } else { Severity::Warning },
        problem: format!("container {}: {}", risk.container, risk.text),
        details: vec![risk.fix],
        since: None,
        command: ShellCommand::default(),
    });
    Ok(found.chain(unmeasured).collect())
}

/// A note on what was not looked at, because nobody has measured it.
fn unmeasured(
    report: &Recommendations,
    is_of_store: bool,
    refusal: Option<String>,
    this: &WorkloadRef,
) -> Option<WorkloadProblem> {
    let unmeasured = report.containers().filter(|(_, of)| of.evidence.is_none() && !of.runs_at_start);
    let names: Vec<&str> = unmeasured.map(|(_, of)| of.name.as_str()).collect();
    let of =
        if names.len() == report.containers().count() { String::new() } else { format!(" of {}", names.join(", ")) };
    let problem = match (names.is_empty(), is_of_store) {
        (true, true) => return None,
        (true, false) => "throttling was not looked at: UsageProfiles do not tell of it".to_owned(),
        (false, true) => format!("{NOT_LOOKED_AT}{of} are not known: {} has no usage of it", report.source.name),
        (false, false) if refusal.is_some() => {
            format!("{NOT_LOOKED_AT}{of} were not looked at: UsageProfiles may not be read")
        }
        (false, false) => format!("{NOT_LOOKED_AT}{of} were not looked at: there are no UsageProfiles of its images"),
    };
    let words = ["why", &this.to_string(), "-n", &this.namespace, "--prometheus", "NAMESPACE/SERVICE:PORT"];
    let command = if is_of_store { ShellCommand::default() } else { ShellCommand::of("kubectl headroom").words(words) };
    let details = refusal.into_iter().collect();
    Some(WorkloadProblem { severity: Severity::Note, problem, details, since: None, command })
}

fn has_pods(object: &Value) -> bool {
    let kind = ApiKind::of(object);
    kinds::of_api(&kind).is_some() || kind.kind == "Rollout"
}

fn page(answers: &[Answer], paint: Paint) -> Page {
    let mut page = Page::new();
    for Answer {
        why: WorkloadDiagnosis { object, namespace, state, findings, deciders, unread },
        has_pods,
        decision,
    } in answers
    {
        page.gap();
        let place = if namespace.is_empty() { String::new() } else { format!(" in namespace {namespace}") };
        let verdict = decision::verdict(decision, paint);
        if !has_pods {
            writeln!(page, "{}{place}: {verdict}", paint.bold(object));
            decision::add_reasons(&mut page, decision, paint);
            decision::add(&mut page, decision, paint);
            continue;
        }
        let nothing = if findings.iter().all(|finding| finding.severity == Severity::Note) { NOTHING } else { "" };
        let states: Vec<&str> = [state.as_str(), nothing].into_iter().filter(|text| !text.is_empty()).collect();
        let states = if states.is_empty() { String::new() } else { format!(": {}", states.join("; ")) };
        writeln!(page, "{}{place}{states}", paint.bold(object));
        for WorkloadProblem { severity, problem, details, since, command } in findings {
            let severity = match severity {
                Severity::Critical => paint.red("critical"),
                Severity::Warning => paint.yellow("warning"),
                Severity::Note => paint.dim("note"),
            };
            let since = since.as_ref().map(|since| format!(", since {since}")).unwrap_or_default();
            writeln!(page, "\n{severity}: {problem}{since}");
            details.iter().for_each(|detail| writeln!(page, "  {detail}"));
            page.lines(&format!("  $ {command}"));
        }
        if !deciders.is_empty() {
            writeln!(page, "\nWho else changes it:");
        }
        for Decider { who, decides, command } in deciders {
            writeln!(page, "  {who}: {decides}");
            page.lines(&command.iter().map(|command| format!("    $ {command}")).collect::<String>());
        }
        for problem in unread {
            writeln!(page, "\n{} {problem}", paint.red("not read:"));
        }
        writeln!(page, "\nIf it were created now: {verdict}");
        // Said above if they are blocked now, or were admitted under other bounds.
        let is_said = findings.iter().any(|of| of.severity != Severity::Note && !of.details.is_empty());
        if decision.verdict != Verdict::PodsBlocked || !is_said {
            decision::add_reasons(&mut page, decision, paint);
        }
        decision::add(&mut page, decision, paint);
    }
    page
}
