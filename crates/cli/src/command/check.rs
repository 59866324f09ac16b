//! `kubectl headroom check`: what would be admitted, changed or refused if these manifests were applied in their order.
//!
//! The judging is `judge::Run`'s; here the manifests are read and the judgements told, in the form that was asked for.

mod render;

use anyhow::bail;
use clap::{ArgGroup, ValueEnum};
use headroom_dryrun::judge::{Judgement, Verdict};
use headroom_dryrun::kinds::metadata;
use headroom_dryrun::manifest::{Manifest, Origin};
use headroom_report::{Exit, Paint, junit, sarif};

use super::cluster_args::Target;
use super::manifests::Manifests;
use crate::selector::Selector;

const EXAMPLES: &str = "\
Examples:
  # Against the cluster of the kubeconfig, as `kubectl apply -f` would send it
  kubectl headroom check -f app.yaml

  # A kustomization, and what Helm prints
  kubectl headroom check -k overlays/prod
  helm template shop charts/shop | kubectl headroom check -n shop -f -

  # In CI, without a cluster: LimitRanges and quotas from files
  kubectl headroom check -R -f deploy/ --cluster-dir cluster/ -o github

  # With the settings of the policy that will judge
  kubectl headroom check -f app.yaml --settings cluster-admission-policy.yaml

Objects are judged in order, each against the quota left by those before it. LimitRanges, ResourceQuotas and \
Namespaces among them count for what comes after. An object that is there already is judged as an update.

Exit codes: 0 all is admitted, 1 something is refused, 2 something could not be judged.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("all_namespaces", |argument| argument.hide(true)))]
#[command(group = ArgGroup::new("given").args(["files", "kustomizations"]).required(true).multiple(true))]
pub struct Args {
    #[command(flatten)]
    manifests: Manifests,
    /// Only objects with these labels, such as `app=web,tier!=cache`: as `kubectl apply -l` would send them
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<Selector>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// What makes the exit code 1
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = FailOn::Refused)]
    fail_on: FailOn,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// Objects that are refused
    Refused,
    /// Also objects that the policy warns about, such as a Deployment whose pods would be refused
    Warning,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    Yaml,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Annotations of GitHub's workflows
    Github,
    /// A JUnit report
    Junit,
}

/// An object's place and what was decided about it.
struct Judged {
    origin: Origin,
    judgement: Judgement,
}

pub fn run(args: Args) -> anyhow::Result<Exit> {
    if args.target.all_namespaces {
        bail!("--all-namespaces is not supported here: manifests name their namespaces; use -n for those that do not");
    }
    args.target.check_single()?;
    let mut manifests = args.manifests.read()?;
    if manifests.is_empty() {
        bail!("nothing to check: the files hold no objects");
    }
    if let Some(selector) = &args.selector {
        manifests.retain(|manifest| selector.matches(&manifest.object));
        if manifests.is_empty() {
            bail!("nothing to check: no object in the files has these labels");
        }
    }
    if let Some(namespace) = args.target.namespaces.first() {
        manifests.iter().try_for_each(|manifest| is_of(manifest, namespace))?;
    }
    let mut run = args.target.open()?.into_run();
    let judged: Vec<Judged> = manifests
        .into_iter()
        .map(|Manifest { origin, object }| Judged { origin, judgement: run.judge(&object) })
        .collect();
    headroom_report::print(&text(&judged, args.output)?)?;
    Ok(judged.iter().map(|judged| exit(&judged.judgement, args.fail_on)).max().unwrap_or(Exit::Fine))
}

fn text(judged: &[Judged], format: Format) -> anyhow::Result<String> {
    Ok(match format {
        Format::Table => render::table(judged, Paint::for_stdout()),
        Format::Json => headroom_report::json(&render::report(judged))?,
        Format::Yaml => headroom_report::yaml(&render::report(judged))?,
        Format::Sarif => headroom_report::json(&sarif::log(&render::RULES, &render::findings(judged)))?,
        Format::Github => headroom_report::github::annotations(&render::findings(judged)),
        Format::Junit => junit::report("kubectl headroom check", &render::cases(judged)),
    })
}

fn exit(judgement: &Judgement, fail_on: FailOn) -> Exit {
    match judgement.verdict {
        Verdict::NotJudged => Exit::NotJudged,
        Verdict::Refused => Exit::Refused,
        _ if fail_on == FailOn::Warning && !judgement.warnings.is_empty() => Exit::Refused,
        Verdict::Admitted | Verdict::Changed => Exit::Fine,
    }
}

/// As kubectl has it, -n is no way to move an object to another namespace.
fn is_of(manifest: &Manifest, namespace: &str) -> anyhow::Result<()> {
    let own = metadata(&manifest.object, "namespace");
    if own.is_empty() || own == namespace {
        return Ok(());
    }
    let name = metadata(&manifest.object, "name");
    bail!(
        "{}: `{name}` is in namespace `{own}`, but -n says `{namespace}`: leave -n out, or change the manifest",
        manifest.origin
    )
}
