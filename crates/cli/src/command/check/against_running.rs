//! `kubectl headroom check --against-running`: what LimitRanges, quotas, policies and settings among the manifests would do to
//! everything that runs, see [`headroom_dry_run::simulate`].

mod render;

use std::collections::BTreeSet;

use anyhow::{anyhow, bail};
use headroom_dry_run::evaluate::{self, Admission, Run, in_order};
use headroom_dry_run::overlay::tenants::TENANT_QUOTA;
use headroom_dry_run::simulate::{EffectKind, Effects, Simulation, Subjects, listed, put, report};
use headroom_objects::cluster_reader::folder::in_namespace;
use headroom_objects::kinds::{labels_of, metadata, text};
use headroom_objects::manifest::{Malformed, Manifest};
use headroom_output::progress::Progress;
use headroom_output::{Exit, Page, Paint};
use serde::Serialize;
use serde_json::Value;

use super::render::CheckedObject;
use super::{Args, CheckFormat};
use crate::command::cluster_args::{About, Opened, Scope, add_admission, read_settings, warn_if_elsewhere};
use crate::command::manifests::{self, ManifestError};

#[derive(Default)]
struct Proposed {
    /// LimitRanges, quotas and Namespaces.
    bounds: Vec<Value>,
    policies: Vec<Value>,
    settings: Option<Value>,
    /// Everything else, which is only checked.
    others: Vec<Manifest>,
}

/// The output for programs.
#[derive(Serialize)]
struct EffectsOutput<'e> {
    #[serde(flatten)]
    effects: report::Report,
    /// The results of the manifests that bound nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    manifests: Option<super::render::CheckReport<'e>>,
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    if !matches!(args.output, CheckFormat::Table | CheckFormat::Json | CheckFormat::Yaml) {
        bail!("--against-running has the outputs table, json and yaml");
    }
    let proposed = Proposed::read(args)?;
    let mut opened = args.target.open()?;
    let namespaces = namespaces(args, &opened, &proposed.bounds);
    if namespaces.is_none() || !args.target.namespaces.is_empty() {
        opened.prefetch(&listed(), &Progress::for_people());
    }
    let Opened { mut cluster, namespace, scope, admission: today, .. } = opened;
    let is_wanted = |object: &Value| args.selector.as_ref().is_none_or(|selector| selector.matches(&labels_of(object)));
    let subjects = Subjects::find(&mut cluster, namespaces.as_deref(), &is_wanted, &today);
    let simulation = Simulation::begin(subjects, &today, &mut cluster);
    let everywhere = simulation.namespaces();
    for object in proposed.bounds {
        for object in placed(object, &namespace, &scope, &everywhere) {
            put(object, &mut cluster).map_err(|problem| anyhow!(problem))?;
        }
    }
    let decides = !proposed.policies.is_empty();
    for policy in proposed.policies {
        cluster.put(policy).map_err(|malformed| anyhow!("{malformed}"))?;
    }
    let then = match &proposed.settings {
        Some(settings) => Some(Admission::of_settings(settings)),
        None => decides.then(|| args.target.admission_of(&mut cluster, &scope)),
    };
    let described = today.describe();
    let then = then.unwrap_or(today);
    let effects = simulation.end(&then, &mut cluster);
    if effects.subjects.is_empty() {
        warn_if_elsewhere(&scope, &mut cluster);
    }
    let mut run = Run::new(cluster, then, &namespace);
    let entries = in_order(
        proposed.others,
        |manifest| Some(&manifest.object),
        |Manifest { origin, object }| {
            let decision = run.evaluate(&object);
            let why = super::why(args, &decision);
            CheckedObject { decision, origin, why }
        },
    );
    let output = || {
        let manifests = (!entries.is_empty()).then(|| super::render::report(&entries));
        About { admission: &described, output: EffectsOutput { effects: report::report(&effects), manifests } }
    };
    headroom_output::print(&match args.output {
        CheckFormat::Json => Page::json(&output())?,
        CheckFormat::Yaml => Page::yaml(&output())?,
        _ => {
            let mut page = Page::new();
            if !entries.is_empty() {
                page.append(super::render::page(&entries, Paint::for_stdout()));
                page.gap();
            }
            page.append(render::page(&effects, Paint::for_stdout()));
            page.gap();
            add_admission(&mut page, &described);
            page
        }
    })?;
    let has_errors = entries.iter().any(|entry| entry.decision.verdict == evaluate::Verdict::Error);
    Ok(if has_errors { Exit::Error } else { exit(&effects) })
}

impl Proposed {
    fn read(args: &Args) -> anyhow::Result<Self> {
        let mut proposed = Self::default();
        let (mut manifests, mut problems) = (Vec::new(), Vec::new());
        for read in args.manifests.read_all() {
            match read {
                Ok(manifest) => manifests.push(manifest),
                Err(ManifestError::Malformed(Malformed { origin, is_other_yaml: true, .. })) => {
                    if proposed.settings.replace(read_settings(&origin.file)?).is_some() {
                        bail!(
                            "`{}` has settings, as another file has: only one can be proposed",
                            origin.file.display()
                        );
                    }
                }
                Err(problem) => problems.push(problem.to_string()),
            }
        }
        if proposed.settings.is_none() && problems.is_empty() {
            args.manifests.require_objects(&manifests, "check")?;
        }
        let invalid = manifests.iter().filter_map(invalid);
        manifests::all(problems.into_iter().chain(invalid).map(Err::<(), _>))?;
        for manifest in manifests {
            match text(&manifest.object, "/kind") {
                "LimitRange" | "ResourceQuota" | "Namespace" => proposed.bounds.push(manifest.object),
                kind if kind == TENANT_QUOTA.1 => proposed.bounds.push(manifest.object),
                "ClusterAdmissionPolicy"
                | "ClusterAdmissionPolicyGroup"
                | "AdmissionPolicy"
                | "AdmissionPolicyGroup" => {
                    proposed.policies.push(manifest.object);
                }
                _ => proposed.others.push(manifest),
            }
        }
        Ok(proposed)
    }
}

/// The problem of bounds that the API server would not take.
fn invalid(Manifest { origin, object }: &Manifest) -> Option<String> {
    let kind = text(object, "/kind");
    let problems = match kind {
        "LimitRange" | "ResourceQuota" | "Namespace" => evaluate::problems_of_bounds(object),
        _ => Vec::new(),
    };
    (!problems.is_empty()).then(|| format!("{origin}: the {kind} is invalid: {}", problems.join(", ")))
}

/// The namespaces to look at: all, the one asked for, or those that the changes are about.
fn namespaces(args: &Args, opened: &Opened, changes: &[Value]) -> Option<Vec<String>> {
    let asked = match &opened.scope {
        Scope::All => return None,
        Scope::In(namespaces) => namespaces,
    };
    let named = changes.iter().map(|change| match text(change, "/kind") {
        "Namespace" => metadata(change, "name"),
        _ => metadata(change, "namespace"),
    });
    let default = opened.namespace.as_str();
    let named: BTreeSet<&str> = named.map(|name| if name.is_empty() { default } else { name }).collect();
    if !args.target.namespaces.is_empty() || named.is_empty() {
        return Some(asked.clone());
    }
    Some(named.into_iter().map(str::to_owned).collect())
}

/// A change in its namespace; one that names none is tried in every namespace that is looked at.
fn placed(object: Value, default: &str, scope: &Scope, everywhere: &[String]) -> Vec<Value> {
    let namespaces = match scope {
        _ if !metadata(&object, "namespace").is_empty() => return vec![object],
        Scope::All => everywhere,
        Scope::In(namespaces) if namespaces.len() > 1 => namespaces,
        Scope::In(_) => return vec![in_namespace(object, default)],
    };
    namespaces.iter().map(|namespace| in_namespace(object.clone(), namespace)).collect()
}

fn exit(effects: &Effects) -> Exit {
    if !effects.missed.is_empty() || effects.count(EffectKind::NotEvaluated) > 0 {
        Exit::Error
    } else if effects.count(EffectKind::NewlyRejected) > 0 || effects.quotas.iter().any(|quota| quota.is_newly_exceeded)
    {
        Exit::Refused
    } else {
        Exit::Ok
    }
}
