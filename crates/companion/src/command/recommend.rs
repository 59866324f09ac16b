//! `kubectl headroom recommend`: finds the objects that are asked about, and prints or writes the advice on them. The
//! advice is `crate::recommend`'s, its place in files `crate::edit`'s.

pub(super) mod write;

use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use headroom_core::image::ImageName;
use headroom_dryrun::cluster_reader::ClusterReader;
use headroom_dryrun::cluster_reader::folder::in_namespace;
use headroom_dryrun::judge::request;
use headroom_dryrun::kinds::{ApiKind, metadata};
use serde_json::Value;

use super::manifests::Manifests;
use super::rights;
use super::target::{Opened, Target, is_kind, named, one_by_one};
use crate::describe::{limits, not_there};
use crate::draw::Charset;
use crate::output::{self, Exit, Paint};
use crate::progress::Progress;
use crate::recommend::owner::{self, Owner};
use crate::recommend::table::{self, View};
use crate::recommend::{Advice, QuotaEffect, Subject, Workload, advise, autoscaler, effect, picture};
use crate::scan::owners::Key;
use crate::selector::Selector;
use crate::{change, gather, manifest};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Objects such as `deployment/web` or `pod/db-0`; everything that runs in the namespace unless given
    #[arg(value_name = "KIND/NAME", conflicts_with_all = ["files", "kustomizations"])]
    objects: Vec<String>,
    #[command(flatten)]
    manifests: Manifests,
    /// Only objects with these labels, such as `app=web,tier!=cache`
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with_all = ["objects", "image"])]
    selector: Option<Selector>,
    /// Advise on a container of this image that does not exist yet
    #[arg(long, value_name = "IMAGE", conflicts_with_all = ["objects", "files", "kustomizations"])]
    image: Vec<String>,
    /// Output format: `kustomize` is a patch for each object, `helm` values for a chart
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Path of a container's resources in the chart's values; {kind}, {name} and {container} are replaced
    #[arg(long, value_name = "PATH", default_value = change::VALUES_PATH)]
    values_path: String,
    /// Set the requests in the manifests; everything else is left unchanged
    #[arg(long, requires = "files", conflicts_with = "kustomizations")]
    write: bool,
    /// Draw the distributions into an SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
}

const EXAMPLES: &str = "Examples:
  # What the containers of a Deployment should ask for, and why
  kubectl headroom recommend deployment/web

  # Everything in a namespace, and what taking the advice does to its quotas
  kubectl headroom recommend -n shop

  # An image that does not run here yet
  kubectl headroom recommend --image postgres:16

  # Write the requests into manifests; comments, order and quotes stay
  kubectl headroom recommend -f app/ --write

  # A patch for kustomize, and values for a chart that has them at `resources`
  kubectl headroom recommend deployment/web -o kustomize > requests.yaml
  kubectl headroom recommend deployment/web -o helm --values-path resources > requests.yaml

Only requests are recommended: a limit that nobody wrote is never made up.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    Yaml,
    Kustomize,
    Helm,
}

/// An object to advise on.
struct Asked {
    object: Value,
    kind: ApiKind,
    /// Where it was read, for those from files.
    origin: Option<manifest::Origin>,
    is_running: bool,
    /// The name in place of the object's, for what is no object.
    request: Option<Value>,
    /// Its controller, if that is of an unknown kind.
    owner: Option<Owner>,
}

pub fn run(args: Args) -> anyhow::Result<Exit> {
    let mut opened = args.target.open()?;
    let mut advice = Advice::default();
    let mut asked = if args.manifests.is_given() {
        of_files(&args, &mut opened)?
    } else if !args.image.is_empty() {
        of_images(&args, &opened)?
    } else if !args.objects.is_empty() {
        of_names(&args, &mut opened)?
    } else {
        opened.prefetch(&[KINDS.as_slice(), &AROUND].concat(), &Progress::for_people());
        of_scope(&mut opened, &mut advice.notes)?
    };
    if let Some(selector) = &args.selector {
        asked.retain(|asked| selector.matches(&asked.object));
    }
    let progress = Progress::for_people();
    progress.begin(asked.len() as u64, "Recommending");
    for asked in &asked {
        progress.advance(1);
        add(asked, &mut opened, &mut advice)?;
    }
    progress.end();
    advice.quotas = effect::together(advice.quotas);
    if advice.workloads.iter().all(Workload::is_without_advice) && !advice.workloads.is_empty() {
        advice.notes.push(
            "no usage history for any image here: `kubectl headroom collect` gathers it, and `kubectl headroom doctor` \
             checks its source"
                .to_owned(),
        );
    }
    if let Some(file) = &args.plot {
        let Some(picture) = picture::svg(&advice) else {
            bail!("there is no history to draw into `{}`", file.display());
        };
        std::fs::write(file, picture).with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    print(&args, &advice)?;
    if args.write { write::all(&args.manifests.read()?, &opened.namespace, &changes(&advice)) } else { Ok(Exit::Fine) }
}

/// Advice on everything that runs. An object that cannot be advised on becomes a note.
pub fn on_all(opened: &mut Opened, progress: &Progress) -> anyhow::Result<Advice> {
    let mut advice = Advice::default();
    let asked = of_scope(opened, &mut advice.notes)?;
    progress.begin(asked.len() as u64, "Recommending");
    for asked in &asked {
        progress.advance(1);
        if let Err(problem) = add(asked, opened, &mut advice) {
            advice.notes.push(format!("{problem:#}"));
        }
    }
    progress.end();
    advice.quotas = effect::together(advice.quotas);
    Ok(advice)
}

/// Adds the advice on one object, and what it does to each quota.
fn add(asked: &Asked, opened: &mut Opened, advice: &mut Advice) -> anyhow::Result<()> {
    if let Some((mut workload, effects)) = on(asked, opened, &mut advice.notes)? {
        if let Some(owner) = &asked.owner {
            owner::attribute(&mut workload, owner, &asked.object);
        }
        workload.autoscalers = scaled(&workload, opened, &mut advice.notes);
        advice.quotas.extend(effects);
        owner::add(advice, workload);
    }
    Ok(())
}

fn print(args: &Args, advice: &Advice) -> anyhow::Result<()> {
    let text = match args.output {
        Format::Table if advice.workloads.is_empty() => "Nothing here runs containers.\n".to_owned(),
        Format::Table => table::text(advice, View { charset: Charset::of_stdout(), paint: Paint::for_stdout() }),
        Format::Json => output::json(advice)?,
        Format::Yaml => output::yaml(advice)?,
        Format::Kustomize | Format::Helm if !args.image.is_empty() => {
            bail!("an image alone has no object to patch: choose another --output, or name an object")
        }
        Format::Kustomize => change::kustomize(&changes(advice))?,
        Format::Helm => {
            let values = change::helm(&changes(advice), &args.values_path).map_err(|problem| anyhow!(problem))?;
            output::yaml(&values)?
        }
    };
    output::print(&text)
}

fn changes(advice: &Advice) -> Vec<change::Change> {
    advice.workloads.iter().filter_map(Workload::change).collect()
}

/// Advice on one object. What could not be read becomes notes.
fn on(
    asked: &Asked,
    opened: &mut Opened,
    notes: &mut Vec<String>,
) -> anyhow::Result<Option<(Workload, Vec<QuotaEffect>)>> {
    let request = match &asked.request {
        Some(request) => request.clone(),
        None => request::create(asked.object.clone(), &asked.kind, &opened.namespace),
    };
    let subject = Subject {
        api_version: asked.kind.api_version(),
        kind: if asked.request.is_some() { "Image".to_owned() } else { asked.kind.kind.clone() },
        file: asked.origin.as_ref().map(|origin| origin.file.display().to_string()),
        is_running: asked.is_running,
    };
    let mut missing = Vec::new();
    let answer = gather::with_context(&request, &opened.settings, &mut opened.cluster, |request, context, settings| {
        missing = gather::told(&context.missing);
        advise(&subject, request, context, settings)
    });
    for problem in missing {
        let problem = rights::advised(problem, false);
        if !notes.contains(&problem) {
            notes.push(problem);
        }
    }
    answer.map_err(|problem| match &asked.origin {
        Some(origin) => anyhow!("{origin}: {problem}"),
        None => anyhow!("{}: {problem}", asked.kind.told(metadata(&asked.object, "name"))),
    })
}

/// What the advice means for those who scale the workload.
fn scaled(workload: &Workload, opened: &mut Opened, notes: &mut Vec<String>) -> Vec<autoscaler::Scaled> {
    let key = Key::new(&workload.namespace, &workload.kind, &workload.name);
    match autoscaler::list(&mut opened.cluster, Some(&workload.namespace)) {
        Ok(autoscalers) => autoscaler::effects(&key, &autoscalers, &workload.requested(), workload.pods),
        Err(problem) => {
            let problem = rights::advised(format!("HorizontalPodAutoscalers are not looked at: {problem}"), false);
            if !notes.contains(&problem) {
                notes.push(problem);
            }
            Vec::new()
        }
    }
}

/// Kinds that make pods, and pods.
const KINDS: [(&str, &str); 8] = [
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "ReplicaSet"),
    ("v1", "ReplicationController"),
    ("batch/v1", "CronJob"),
    ("batch/v1", "Job"),
    ("v1", "Pod"),
];

/// What else is read for advice on them.
const AROUND: [(&str, &str); 3] =
    [("v1", "LimitRange"), ("v1", "ResourceQuota"), ("autoscaling/v2", "HorizontalPodAutoscaler")];

fn makes_pods(kind: &ApiKind) -> bool {
    KINDS.iter().any(|(api_version, name)| ApiKind::new(api_version, name).group == kind.group && *name == kind.kind)
}

fn of_files(args: &Args, opened: &mut Opened) -> anyhow::Result<Vec<Asked>> {
    args.target.check_single()?;
    if args.write && args.manifests.files.iter().any(|path| path.as_os_str() == "-") {
        bail!("standard input cannot be written back: give --write the files themselves");
    }
    let mut asked = Vec::new();
    for manifest in args.manifests.read()? {
        let kind = ApiKind::of(&manifest.object);
        let object = in_namespace(manifest.object.clone(), &opened.namespace);
        // The manifests' own autoscalers count, whatever the cluster has.
        if kind.kind == "HorizontalPodAutoscaler" {
            opened.cluster.put(object).map_err(|malformed| anyhow!("{}: {malformed}", manifest.origin))?;
            continue;
        }
        if !makes_pods(&kind) {
            continue;
        }
        let (namespace, name) = (metadata(&object, "namespace"), metadata(&object, "name"));
        // Where that cannot be known, the quotas are told the worst.
        let there = opened.cluster.get(&kind.api_version(), &kind.kind, Some(namespace), name);
        let is_running = matches!(there, Ok(Some(_)));
        asked.push(Asked {
            object: manifest.object,
            kind,
            origin: Some(manifest.origin),
            is_running,
            request: None,
            owner: None,
        });
    }
    Ok(asked)
}

fn of_images(args: &Args, opened: &Opened) -> anyhow::Result<Vec<Asked>> {
    let mut asked = Vec::new();
    for image in &args.image {
        let read = ImageName::parse(image).map_err(|error| anyhow!("--image: {error}"))?;
        let name = read.repository().rsplit('/').next().unwrap_or_default();
        let mut request = limits::empty_pod(&opened.namespace, name, image);
        if let Value::Object(fields) = &mut request {
            fields.insert("name".to_owned(), Value::from(image.as_str()));
        }
        let kind = ApiKind::new("v1", "Pod");
        asked.push(Asked {
            object: Value::Null,
            kind,
            origin: None,
            is_running: false,
            request: Some(request),
            owner: None,
        });
    }
    Ok(asked)
}

fn of_names(args: &Args, opened: &mut Opened) -> anyhow::Result<Vec<Asked>> {
    if args.target.all_namespaces {
        bail!("-A looks at everything: leave out the names, or choose a namespace with -n");
    }
    args.target.check_single()?;
    let mut asked = Vec::new();
    for text in &one_by_one(&args.objects, is_kind) {
        let (kind, name) = named(text)?;
        if !makes_pods(&kind) {
            bail!("`{text}` has no containers: expected for example `deployment/web` or `pod/db-0`");
        }
        let namespace = opened.namespace.clone();
        let (api_version, namespace) = (kind.api_version(), namespace.as_str());
        let found = opened.cluster.get(&api_version, &kind.kind, Some(namespace), &name);
        let Some(object) = found.map_err(|problem| anyhow!(rights::advised(problem, false)))? else {
            // The names help after a typing error; an error of listing them would only distract.
            let all = opened.cluster.list(&api_version, &kind.kind, Some(namespace)).unwrap_or_default();
            bail!(not_there(&kind.kind, &name, namespace, all.iter().map(|object| metadata(object, "name"))));
        };
        asked.push(Asked { object, kind, origin: None, is_running: true, request: None, owner: None });
    }
    Ok(asked)
}

/// Everything in the namespaces that nothing known here controls.
fn of_scope(opened: &mut Opened, notes: &mut Vec<String>) -> anyhow::Result<Vec<Asked>> {
    let mut asked = Vec::new();
    let mut problems = Vec::new();
    for (api_version, kind) in KINDS {
        match opened.scope.list(&mut opened.cluster, api_version, kind) {
            Ok(objects) => {
                for object in objects.into_iter().filter(|object| !has_ended(object)) {
                    let Some(owner) = unknown_owner(&object) else { continue };
                    if owner.is_none() || owner::is_scaled(&object) {
                        let kind = ApiKind::new(api_version, kind);
                        asked.push(Asked { object, kind, origin: None, is_running: true, request: None, owner });
                    }
                }
            }
            Err(problem) => problems.push(rights::advised(problem, opened.scope.is_all())),
        }
    }
    if problems.len() == KINDS.len() {
        bail!(problems.swap_remove(0));
    }
    notes.extend(problems);
    let place = |asked: &Asked| {
        let kind = KINDS.iter().position(|(_, kind)| *kind == asked.kind.kind);
        (metadata(&asked.object, "namespace").to_owned(), kind, metadata(&asked.object, "name").to_owned())
    };
    asked.sort_by_key(place);
    Ok(asked)
}

/// The owner, if its kind is not listed here. `None` for an object whose owner is listed itself.
fn unknown_owner(object: &Value) -> Option<Option<Owner>> {
    match Owner::of(object) {
        Some(owner) if makes_pods(&ApiKind::new(&owner.api_version, &owner.kind)) => None,
        // A static pod is owned by its node, which has no template.
        Some(owner) if owner.kind == "Node" => Some(None),
        owner => Some(owner),
    }
}

/// A pod or a job that will never ask for anything again.
fn has_ended(object: &Value) -> bool {
    let phase = object.pointer("/status/phase").and_then(Value::as_str);
    matches!(phase, Some("Succeeded" | "Failed")) || object.pointer("/status/completionTime").is_some()
}
