//! Evaluates the objects in the panels in their order, as `kubectl apply` would send them.

use std::cell::LazyCell;
use std::collections::HashMap;
use std::path::Path;

use headroom_admission::amount::Quantity;
use headroom_dry_run::Overlay;
use headroom_dry_run::evaluate::{self, Admission, ObjectDecision, Operation, Run, Verdict, in_order};
use headroom_dry_run::quota_levels::{QuotaLevel, QuotaLevels, share, text};
use headroom_dry_run::settings;
use headroom_objects::cluster_reader::folder::in_namespace;
use headroom_objects::cluster_reader::{ClusterReader, Folder};
use headroom_objects::manifest::{self, Malformed, Manifest, yaml_spans};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::diff::{self, Part};
use crate::memo::Memo;
use crate::place;

/// The panels as they are written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Play {
    /// YAML or JSON by the name of its panel.
    pub panels: HashMap<Panel, String>,
    /// Where objects go that name no namespace.
    pub namespace: String,
    /// The first object that is wanted in detail,
    pub from: usize,
    /// so many.
    pub count: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Panel {
    /// The objects to evaluate.
    Objects,
    LimitRanges,
    Quotas,
    /// `UsageProfile`s.
    Usage,
    Namespaces,
    /// Objects that exist already, so that objects of these names are updates.
    Existing,
    Settings,
}

/// The panels that surround the objects.
const AROUND: [Panel; 5] = [Panel::Namespaces, Panel::LimitRanges, Panel::Quotas, Panel::Usage, Panel::Existing];

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Every object that was read, in order.
    pub rows: Vec<Row>,
    /// The stories of those that were asked for.
    pub details: Vec<Detail>,
    pub quotas: Vec<QuotaChange>,
    /// The parts of the panels that cannot be used.
    pub problems: Vec<Problem>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// `deployment.apps/web`
    pub object: String,
    pub namespace: String,
    pub verdict: Verdict,
    pub is_update: bool,
    /// Where it stands in its panel, from 1.
    pub line: usize,
    pub warnings: usize,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Detail {
    /// The row that it is about.
    pub row: usize,
    /// The whole refusal as the policy words it; empty if there is none.
    pub message: String,
    pub story: ObjectDecision,
    /// The object after admission.
    pub diff: Vec<Part>,
    /// A pod that the workload creates, after admission.
    pub pod_diff: Option<Vec<Part>>,
    pub note: Option<String>,
}

/// The usage of a quota under one name: after all admitted objects, pods of workloads included.
#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct QuotaChange {
    #[serde(flatten)]
    pub level: QuotaLevel,
    /// The amount that is used before the objects are applied.
    #[serde(serialize_with = "text")]
    #[cfg_attr(not(target_arch = "wasm32"), schemars(with = "String"))]
    pub before: Quantity,
    /// Both in thousandths of `hard`; none where that is nothing.
    pub share: Option<(u64, u64)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    pub panel: Panel,
    /// From 1.
    pub line: usize,
    pub text: String,
}

/// The cluster and settings of a decision, and what of them cannot be used.
pub struct Scene {
    pub manifests: Vec<Manifest>,
    pub run: Run,
    pub settings: Value,
    pub problems: Vec<Problem>,
}

impl Play {
    pub fn evaluate(&self, memo: &mut Memo) -> Outcome {
        let Scene { manifests, mut run, problems, .. } = self.scene(memo);
        let levels_before = levels(&mut run.cluster);
        let mut outcome = Outcome { rows: Vec::new(), details: Vec::new(), quotas: Vec::new(), problems };
        let rows = manifests.into_iter().enumerate().collect();
        let evaluated = in_order(
            rows,
            |(_, manifest)| Some(&manifest.object),
            |(row, Manifest { origin, object })| {
                let is_wanted = row >= self.from && row - self.from < self.count;
                let (decision, pod) =
                    if is_wanted { run.evaluate_with_pod(&object) } else { (run.evaluate(&object), None) };
                let shown = Row::of(&decision, origin.line);
                (shown, is_wanted.then(|| Detail::of(row, decision, pod, &object, self.namespace())))
            },
        );
        for (row, detail) in evaluated {
            outcome.rows.push(row);
            outcome.details.extend(detail);
        }
        outcome.quotas = quotas(&levels_before, &levels(&mut run.cluster));
        outcome
    }

    pub fn namespace(&self) -> &str {
        if self.namespace.is_empty() { "default" } else { &self.namespace }
    }

    /// Reads the panels. What can be read of them counts, even if something else cannot.
    pub fn scene(&self, memo: &mut Memo) -> Scene {
        memo.begin();
        let mut problems = Vec::new();
        let mut around = Folder::default();
        for panel in AROUND {
            for Manifest { object, .. } in self.read_sound(panel, memo, &mut problems) {
                // OK because a LimitRange that cannot be read is one of the problems already.
                let _ = around.put(in_namespace(object, self.namespace()));
            }
        }
        let settings = self.settings(&mut problems);
        let run = Run::new(Overlay::new(around, None), Admission::of_settings(&settings), self.namespace());
        Scene { manifests: self.read(Panel::Objects, memo, &mut problems), run, settings, problems }
    }

    pub fn text(&self, panel: Panel) -> &str {
        self.panels.get(&panel).map(String::as_str).unwrap_or_default()
    }

    /// The objects of a panel, with what the API server would find wrong with its LimitRanges and quotas.
    pub fn read_sound(&self, panel: Panel, memo: &mut Memo, problems: &mut Vec<Problem>) -> Vec<Manifest> {
        let manifests = self.read(panel, memo, problems);
        let documents = LazyCell::new(|| yaml_spans::documents(self.text(panel)).unwrap_or_default());
        for Manifest { origin, object } in &manifests {
            for text in evaluate::problems_of_bounds(object) {
                problems.push(Problem { panel, line: place::of_field(&documents, origin.line, &text), text });
            }
        }
        manifests
    }

    fn read(&self, panel: Panel, memo: &mut Memo, problems: &mut Vec<Problem>) -> Vec<Manifest> {
        let mut note =
            |Malformed { origin, problem, .. }| problems.push(Problem { panel, line: origin.line, text: problem });
        let mut parse = |text: &str| memo.parse(text, manifest::documents::parse);
        let read = manifest::read_each_with(Path::new("page"), self.text(panel), &mut parse).into_iter();
        read.filter_map(|manifest| manifest.map_err(&mut note).ok()).collect()
    }

    /// The settings, wrong ones too, because the policy has something to say of them; those that cannot be read are none.
    pub fn settings(&self, problems: &mut Vec<Problem>) -> Value {
        let (panel, text) = (Panel::Settings, self.text(Panel::Settings));
        let mut note = |line, text| problems.push(Problem { panel, line, text });
        if let Some((line, problem)) = manifest::documents::read(text).into_iter().find_map(Result::err) {
            note(line, problem);
            return json!({});
        }
        match settings::in_text(Path::new("settings"), text) {
            Ok(settings) => {
                if let Err(wrong) = settings::check(&settings) {
                    wrong.problems.iter().for_each(|problem| note(place::of_setting(text, problem), problem.clone()));
                }
                settings
            }
            Err(problem) => {
                note(1, problem);
                json!({})
            }
        }
    }
}

impl Row {
    fn of(decision: &ObjectDecision, line: usize) -> Self {
        Self {
            object: decision.object.clone(),
            namespace: decision.namespace.clone(),
            verdict: decision.verdict,
            is_update: decision.operation == Operation::Update,
            line,
            warnings: decision.warnings.len(),
        }
    }
}

impl Detail {
    fn of(row: usize, decision: ObjectDecision, pod: Option<ObjectDecision>, object: &Value, namespace: &str) -> Self {
        let sent = decision.request.get("object").unwrap_or(object);
        let is_update = decision.operation == Operation::Update;
        let written = if is_update { sent.clone() } else { in_namespace(object.clone(), namespace) };
        let pod_diff = pod.as_ref().filter(|pod| pod.verdict == Verdict::Changed).map(|pod| {
            let made = headroom_workloads::pod_of(object).unwrap_or_default();
            diff::between(&made, pod.outcome())
        });
        Self {
            row,
            message: decision.message(),
            diff: diff::between(&written, decision.outcome()),
            pod_diff,
            note: note(&decision),
            story: decision.explained(pod, object),
        }
    }
}

/// A note on an object that is admitted because nothing bounds its kind.
fn note(decision: &ObjectDecision) -> Option<String> {
    let kind = &decision.kind;
    let qualified = kind.qualified();
    match qualified.as_str() {
        _ if headroom_workloads::pod_of(decision.outcome()).is_some() => None,
        "pods" | "services" | "persistentvolumeclaims" | "resourceclaims.resource.k8s.io" => None,
        "limitranges" | "resourcequotas" | "namespaces" => {
            Some(format!("This {} counts for all objects here.", kind.kind))
        }
        qualified => Some(format!(
            "No LimitRange applies to the kind {}; only a quota for count/{qualified} counts it.",
            kind.kind
        )),
    }
}

/// Bound and usage under each name of each quota.
pub fn levels(around: &mut Overlay) -> QuotaLevels {
    // OK because a quota that cannot be counted is reported by every decision that needs it.
    QuotaLevels::of(&around.list(("v1", "ResourceQuota", None)).unwrap_or_default())
}

pub fn quotas(before: &QuotaLevels, after: &QuotaLevels) -> Vec<QuotaChange> {
    let bounded = after.iter().filter_map(|level| Some((level, level.hard.as_ref()?)));
    let changes = bounded.map(|(level, hard)| {
        // A quota among the objects is new: what it counts then was there before.
        let before = before.get(&level.key).map_or(&level.used, |level| &level.used).clone();
        let share = share(&before, hard, 1_000).zip(share(&level.used, hard, 1_000));
        QuotaChange { level: level.clone(), before, share }
    });
    changes.collect()
}
