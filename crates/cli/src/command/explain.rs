//! `kubectl headroom explain`: the decision about an object field by field: source, bounds, and quota usage.
//!
//! An existing object is explained as if it were recreated, without its own usage; a workload whose pods are blocked now is
//! explained as it is.

mod text;

use headroom_dryrun::evaluate::{Evaluation, Verdict, in_order};
use headroom_objects::manifest::Manifest;
use headroom_report::{Exit, Page, Paint};
use serde_json::Value;

use headroom_dryrun::explanation::Explanation;

use super::cluster_args::{About, Format, Objects, Target, add_admission, find, is_kind, one_by_one};

const EXAMPLES: &str = "\
Examples:
  # A running pod
  kubectl headroom explain db-0 -n shop

  # What the pods of a Deployment get
  kubectl headroom explain deployment/web -n shop

  # A manifest before it is applied
  kubectl headroom explain -f pod.yaml --cluster-dir cluster/

Exit codes: 0 if it is admitted, 1 if it is rejected, invalid or has its pods blocked, 2 on error.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("all_namespaces", |argument| argument.hide(true)))]
pub struct Args {
    #[command(flatten)]
    objects: Objects,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    target: Target,
}

pub fn run(args: Args) -> anyhow::Result<Exit> {
    let manifests = match args.objects.manifests(&args.target, "explain") {
        Err(problem) if args.output != Format::Text => {
            // Programs that read the output still get a valid document.
            headroom_report::print(&Page::json(&Value::Array(Vec::new()))?)?;
            return Err(problem);
        }
        manifests => manifests?,
    };
    let opened = args.target.open()?;
    let (namespace, admission) = (opened.namespace.clone(), opened.admission.describe());
    let mut run = opened.into_run();
    let mut explanations = Vec::new();
    let mut exit = Exit::Ok;
    let mut add = |evaluation: &Evaluation, pod: Option<&Evaluation>, object: &Value| {
        exit = exit.max(match evaluation.verdict {
            Verdict::NotChecked | Verdict::Admitted | Verdict::Changed => Exit::Ok,
            Verdict::PodsBlocked | Verdict::Rejected | Verdict::Invalid => Exit::Refused,
            Verdict::Error => Exit::Error,
        });
        explanations.push(Explanation::of(evaluation, pod, object));
    };
    let evaluated = in_order(
        manifests,
        |manifest| Some(&manifest.object),
        |Manifest { object, .. }| (run.evaluate_with_pod(&object), object),
    );
    for ((evaluation, pod), object) in &evaluated {
        add(evaluation, pod.as_ref(), object);
    }
    for name in &one_by_one(&args.objects.names, is_kind) {
        let object = find(&mut run.cluster, name, &namespace)?;
        let pod = run.preview_pod_of(&object);
        add(&run.preview_as_new(&object), pod.as_ref(), &object);
    }
    let about = |output| About { admission: &admission, output };
    let explanations: Vec<_> = explanations.iter().map(about).collect();
    headroom_report::print(&match args.output {
        Format::Text => {
            let mut page = text::page(explanations.iter().map(|about| about.output), Paint::for_stdout());
            page.gap();
            add_admission(&mut page, &admission);
            page
        }
        Format::Json => Page::json(&explanations)?,
        Format::Yaml => Page::yaml(&explanations)?,
    })?;
    Ok(exit)
}
