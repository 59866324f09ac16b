//! `kubectl headroom record`: a decision as files that can be replayed without the cluster: the request, what the
//! policy read for it as a session file of kwctl, and the settings.
//!
//! A recording is made to be shown to others, so what no decision depends on and what may be confidential stays out of
//! it: see `headroom_dryrun::recording`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use headroom_dryrun::evaluate::{Admission, Evaluation, Run, in_order};
use headroom_dryrun::recording::redact::Redaction;
use headroom_dryrun::recording::{file_name, session};
use headroom_kube::shell::quoted_path;
use headroom_report::{Exit, Page, write_file};
use serde_json::{Value, json};

use super::cluster_args::{Objects, Target, find, is_kind, one_by_one};

const EXAMPLES: &str = "\
Examples:
  # A running pod, for a bug report
  kubectl headroom record db-0 -n shop --settings cluster-admission-policy.yaml

  # A manifest, evaluated against the cluster
  kubectl headroom record -f app.yaml --to report/

The recording leaves out the values of environment variables, annotations, Secrets and ConfigMaps. Review it before you share it.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("all_namespaces", |argument| argument.hide(true)))]
pub struct Args {
    #[command(flatten)]
    objects: Objects,
    /// Folder to write to
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    to: PathBuf,
    #[command(flatten)]
    target: Target,
}

pub fn run(args: Args) -> anyhow::Result<Exit> {
    let manifests = args.objects.manifests(&args.target, "record")?;
    let opened = args.target.open()?;
    let (namespace, settings) = (opened.namespace.clone(), opened.settings);
    // A recording holds the policy's own decision, whether or not the cluster has the policy.
    let mut run = Run::new(opened.cluster, Admission::of_settings(&settings), &namespace);
    fs::create_dir_all(&args.to).with_context(|| format!("cannot make the folder `{}`", args.to.display()))?;
    let mut redaction = Redaction::default();
    let mut page = Page::new();
    let mut evaluations = in_order(
        manifests,
        |manifest| Some(&manifest.object),
        |manifest| run.evaluate_redacted(&manifest.object, |object| redaction.redact(object)),
    );
    for name in &one_by_one(&args.objects.names, is_kind) {
        let mut object = find(&mut run.cluster, name, &namespace)?;
        redaction.redact(&mut object);
        evaluations.push(run.preview_as_new(&object));
    }
    for mut evaluation in evaluations {
        evaluation.exchanges.iter_mut().for_each(|exchange| redaction.redact_answer(exchange));
        write(&mut page, &args.to, &evaluation, &settings)?;
    }
    headroom_report::print(&page)?;
    Ok(Exit::Ok)
}

/// Writes the recording of an evaluation, and says what was written and how to replay it.
fn write(page: &mut Page, folder: &Path, evaluation: &Evaluation, settings: &Value) -> anyhow::Result<()> {
    let name = file_name(evaluation);
    // Returns the path as a word of the command.
    let write = |ending: &str, text: &str| -> anyhow::Result<String> {
        let path = folder.join(format!("{name}.{ending}"));
        write_file(&path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
        Ok(quoted_path(&path))
    };
    let request = write("request.json", &headroom_report::json(&evaluation.request)?)?;
    let session = write("session.yml", &session::text(&evaluation.exchanges))?;
    let mut command = format!(
        "kwctl run --allow-context-aware -r {request} \\\n    --replay-host-capabilities-interactions {session}"
    );
    let mut files = vec![request, session];
    let mut add = |argument: &str| command.push_str(&format!(" \\\n    {argument}"));
    if *settings != json!({}) {
        let settings = write("settings.json", &headroom_report::json(settings)?)?;
        add(&format!("--settings-path {settings}"));
        files.push(settings);
    }
    add("annotated-policy.wasm");
    let read = evaluation.exchanges.len();
    writeln!(
        page,
        "{}: {}; recorded with {read} cluster {}",
        evaluation.object_name(),
        evaluation.verdict.name(),
        if read == 1 { "read" } else { "reads" }
    );
    for reason in &evaluation.reasons {
        reason.lines().iter().for_each(|line| writeln!(page, "  {line}"));
    }
    writeln!(page, "wrote {}", files.join(", "));
    writeln!(page, "replay it:");
    page.lines(&format!("  {command}"));
    Ok(())
}
