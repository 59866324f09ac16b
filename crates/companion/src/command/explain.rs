//! `kubectl headroom explain`: the whole decision about an object, value by value: who spoke it, what it was held
//! against, and what it takes of the quotas.
//!
//! An object that is there already is explained as if it were made again, in the place that it leaves.

mod story;

use std::path::PathBuf;

use anyhow::{anyhow, bail};
use clap::ValueEnum;
use serde_json::Value;

use super::target::{Target, named};
use crate::judge::{Judgement, Run, Verdict};
use crate::manifest;
use crate::output::{self, Exit, Paint};
use crate::surroundings::Surroundings;
use story::Story;

const EXAMPLES: &str = "\
Examples:
  # A pod that is there
  kubectl headroom explain db-0 -n shop

  # What the pods of a Deployment get
  kubectl headroom explain deployment/web -n shop

  # A manifest that nobody has applied yet
  kubectl headroom explain -f pod.yaml --context-dir cluster/

Exit codes: 0 it is admitted, 1 it is refused, 2 it could not be judged.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("all_namespaces", |argument| argument.hide(true)))]
pub struct Args {
    /// Pods by name, or such as `deployment/web`
    #[arg(value_name = "POD | KIND/NAME", required_unless_present = "files", conflicts_with = "files")]
    names: Vec<String>,
    /// Files, folders, or `-` for standard input, instead of what is there
    #[arg(short = 'f', long = "filename", value_name = "PATH", value_delimiter = ',')]
    files: Vec<PathBuf>,
    /// Read folders within folders too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// How to tell it
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Yaml,
}

pub fn run(args: Args) -> anyhow::Result<Exit> {
    if args.target.all_namespaces {
        bail!("-A says nothing here: an object is of one namespace; give -n");
    }
    let manifests = manifest::read(&args.files, args.recursive, &mut std::io::stdin().lock())?;
    if !args.files.is_empty() && manifests.is_empty() {
        bail!("nothing to explain: the files hold no objects");
    }
    let opened = args.target.open()?;
    let namespace = opened.namespace.clone();
    let mut run = opened.into_run();
    let mut stories = Vec::new();
    let mut exit = Exit::Fine;
    let mut tell = |judgement: &Judgement, pod: Option<&Judgement>, object: &Value| {
        exit = exit.max(match judgement.verdict {
            Verdict::Admitted | Verdict::Changed => Exit::Fine,
            Verdict::Refused => Exit::Refused,
            Verdict::NotJudged => Exit::NotJudged,
        });
        stories.push(Story::of(judgement, pod, object));
    };
    for manifest in &manifests {
        // The pod first: what is judged leaves itself behind.
        let pod = run.look_at_pod_of(&manifest.object);
        tell(&run.judge(&manifest.object), pod.as_ref(), &manifest.object);
    }
    for name in &args.names {
        let object = find(&mut run, name, &namespace)?;
        let pod = run.look_at_pod_of(&object);
        tell(&run.look_at_as_new(&object), pod.as_ref(), &object);
    }
    output::print(&match args.output {
        Format::Text => story::text(&stories, Paint::for_stdout()),
        Format::Json => output::json(&stories)?,
        Format::Yaml => output::yaml(&stories)?,
    })?;
    Ok(exit)
}

fn find(run: &mut Run, name: &str, namespace: &str) -> anyhow::Result<Value> {
    let (kind, name) = named(name)?;
    let found = run.around.get(&kind.api_version(), &kind.kind, Some(namespace), &name);
    found.map_err(|problem| anyhow!(problem))?.ok_or_else(|| {
        anyhow!("{} is not in namespace {namespace}: look with -n elsewhere, or give a file with -f", kind.told(&name))
    })
}
