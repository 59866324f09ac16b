//! `kubectl headroom why`: what is wrong with a workload now, who else decides about it, and the command for each.
//!
//! [`headroom_dryrun::why`] finds what the cluster knows; what recorded usage adds is here.

use anyhow::bail;
use headroom_core::timestamp::Timestamp;
use headroom_dryrun::why::{self, Decider, Finding, Severity, Suffixes, Why};
use headroom_kube::shell::{quoted, quoted_path};
use headroom_objects::clock;
use headroom_objects::kinds::{ApiKind, metadata};
use headroom_report::progress::Progress;
use headroom_report::{Exit, Page, Paint};
use headroom_rightsize::inventory::{Entry, Inventory};
use headroom_rightsize::risk::Kind;
use headroom_workloads::kinds;
use serde_json::Value;

use super::cluster_args::{Format, Opened, Target, find, is_kind, one_by_one};
use super::recommend;

const EXAMPLES: &str = "\
Examples:
  # Why the pods of a Deployment do not come up, restart or are slow, and who else changes it
  kubectl headroom why deployment/web -n shop

  # The same from files of the cluster
  kubectl headroom why deployment/web -n shop --cluster-dir cluster/

Exit codes: 0 if nothing is wrong, 1 if something is, 2 if that could not be read.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("all_namespaces", |argument| argument.hide(true)))]
pub struct Args {
    /// KIND/NAME such as `deployment/web`, or pod names
    #[arg(value_name = "KIND/NAME | POD", required = true)]
    names: Vec<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    target: Target,
}

pub fn run(args: Args) -> anyhow::Result<Exit> {
    args.target.check_single()?;
    let answers = answers(&args.target, &args.names)?;
    let exit = answers.iter().map(|why| match () {
        () if why.findings.iter().any(|finding| finding.severity != Severity::Note) => Exit::Refused,
        () if why.unread.is_empty() => Exit::Ok,
        () => Exit::Error,
    });
    let exit = exit.max().unwrap_or(Exit::Ok);
    headroom_report::print(&match args.output {
        Format::Text => page(&answers, Paint::for_stdout()),
        Format::Json => Page::json(&answers)?,
        Format::Yaml => Page::yaml(&answers)?,
    })?;
    Ok(exit)
}

/// Explains what is wrong with some objects, in the order in which they are named.
pub fn answers(target: &Target, names: &[String]) -> anyhow::Result<Vec<Why>> {
    let mut opened = target.open()?;
    let (suffixes, namespace) = (suffixes(target), opened.namespace.clone());
    let mut objects = Vec::new();
    for name in &one_by_one(names, is_kind) {
        let object = find(&mut opened.cluster, name, &namespace)?;
        let kind = ApiKind::of(&object);
        if kinds::of_api(&kind).is_none() && kind.kind != "Rollout" {
            bail!("`{name}` has no pods: expected for example `deployment/web` or `pod/db-0`");
        }
        let of_usage = of_usage(&mut opened, &object, target)?;
        objects.push((object, of_usage));
    }
    let (mut run, now) = (opened.into_run(), Timestamp::from_unix_seconds(clock::now()));
    let answer = |(object, of_usage): (Value, Vec<Finding>)| {
        let mut why = why::of(&mut run, &object, &suffixes, now);
        let this = format!("{}/{}", ApiKind::of(&object).kind.to_lowercase(), metadata(&object, "name"));
        let [this, namespace] = [&this, &why.namespace].map(|word| quoted(word));
        let command = format!("kubectl headroom recommend {this} -n {namespace}{}", suffixes.headroom);
        why.findings.extend(of_usage.into_iter().map(|finding| Finding { command: command.clone(), ..finding }));
        why.findings.sort_by_key(|finding| finding.severity);
        why
    };
    Ok(objects.into_iter().map(answer).collect())
}

/// The ends by which commands ask the same cluster, or the same files.
fn suffixes(target: &Target) -> Suffixes {
    // Beside files, a context would mean the live cluster.
    let cluster = if target.wants_cluster() { target.cluster.arguments() } else { Vec::new() };
    let words = cluster.into_iter().map(|(name, value)| format!(" {name} {}", quoted(&value)));
    let kubectl: String = words.collect();
    let folders = target.cluster_dir.iter().map(|path| format!(" --cluster-dir {}", quoted_path(path)));
    let settings = target.settings.iter().map(|path| format!(" --settings {}", quoted_path(path)));
    let headroom = kubectl.clone() + &folders.chain(settings).collect::<String>();
    Suffixes { kubectl, headroom }
}

/// The findings of UsageProfiles about a workload: throttling, kills, and usage above its requests.
fn of_usage(opened: &mut Opened, object: &Value, target: &Target) -> anyhow::Result<Vec<Finding>> {
    if kinds::of_api(&ApiKind::of(object)).is_none() {
        return Ok(Vec::new());
    }
    let mut inventory = Inventory { entries: vec![Entry::of_cluster(object)], ..Inventory::default() };
    inventory.renumber();
    let report = recommend::on_all(opened, inventory, target, None, &Progress::for_people())?.report;
    let found = report.risks.into_iter().map(|risk| Finding {
        severity: if risk.risk == Kind::NoRequest { Severity::Note } else { Severity::Warning },
        problem: format!("container {}: {}", risk.container, risk.text),
        details: vec![risk.fix],
        since: None,
        command: String::new(),
    });
    Ok(found.collect())
}

fn page(answers: &[Why], paint: Paint) -> Page {
    let mut page = Page::new();
    for Why { object, namespace, state, findings, deciders, unread } in answers {
        page.gap();
        let nothing =
            if findings.iter().all(|finding| finding.severity == Severity::Note) { "nothing is wrong" } else { "" };
        let states: Vec<&str> = [state.as_str(), nothing].into_iter().filter(|text| !text.is_empty()).collect();
        let states = if states.is_empty() { String::new() } else { format!(": {}", states.join("; ")) };
        writeln!(page, "{} in namespace {namespace}{states}", paint.bold(object));
        for Finding { severity, problem, details, since, command } in findings {
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
    }
    page
}
