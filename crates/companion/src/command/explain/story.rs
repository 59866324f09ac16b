//! A decision as a story, for people and for programs.

use headroom_core::request::{Bound, Role};
use serde::Serialize;
use serde_json::Value;

use crate::judge::{Charge, ContainerValues, Edge, HeldAgainst, Judgement, Reason, Speaker, SpokenValue, Verdict};
use crate::output::{Paint, Table};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Story {
    object: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    verdict: &'static str,
    #[serde(skip)]
    outcome: Verdict,
    /// Whether the containers are those of the pods that the object makes.
    is_of_pods: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    estimates: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containers: Vec<Container>,
    /// Bounds of the pod in all, or of a claim.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    in_all: Vec<Check>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    quotas: Vec<Taken>,
}

#[derive(Debug, Serialize)]
struct Container {
    name: String,
    role: &'static str,
    image: String,
    values: Vec<Field>,
}

/// A value, or that there is none.
#[derive(Debug, Serialize)]
struct Field {
    /// `requests.cpu`
    field: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// `authored`, `estimated`, `defaulted`, `repaired`, …
    step: &'static str,
    reason: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    checks: Vec<Check>,
}

#[derive(Debug, Clone, Serialize)]
struct Check {
    resource: String,
    /// `min`, `max` or `ratio`.
    edge: &'static str,
    bound: String,
    range: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
    holds: bool,
}

#[derive(Debug, Serialize)]
struct Taken {
    quota: String,
    name: String,
    before: String,
    adds: String,
    after: String,
    hard: String,
    left: String,
}

/// Values that a reader misses if nobody sets them.
const EXPECTED: [&str; 2] = ["cpu", "memory"];

impl Story {
    /// The story of a judgement; of a workload with the judgement of a pod that it makes. `object` is as its author
    /// wrote it.
    pub fn of(judgement: &Judgement, pod: Option<&Judgement>, object: &Value) -> Self {
        let of_pod = pod.unwrap_or(judgement);
        let template = pod.map_or(object, |pod| pod.request.get("object").unwrap_or(object));
        let written = if pod.is_some() { crate::judge::request::pod_of(object) } else { None };
        let written = written.as_ref().unwrap_or(template);
        let containers = of_pod.pod.iter().flatten();
        Self {
            object: judgement.told(),
            namespace: judgement.namespace.clone(),
            verdict: judgement.verdict.told(),
            outcome: judgement.verdict,
            is_of_pods: pod.is_some(),
            reasons: judgement.reasons.iter().map(Reason::told).collect(),
            warnings: judgement.told_warnings(),
            // What is worth a warning is told there.
            estimates: judgement.estimates.iter().filter(|told| !judgement.warnings.contains(told)).cloned().collect(),
            containers: containers.map(|container| Container::of(container, &of_pod.held_against, written)).collect(),
            in_all: of_pod.held_against.iter().filter(|held| held.container.is_none()).map(Check::of).collect(),
            quotas: judgement.charges.iter().chain(&judgement.pod_charges).flat_map(Taken::all).collect(),
        }
    }
}

impl Container {
    fn of(container: &ContainerValues, held: &[HeldAgainst], written: &Value) -> Self {
        let mut values = Vec::new();
        for bound in [Bound::Request, Bound::Limit] {
            let of_bound: Vec<&SpokenValue> = container.values.iter().filter(|value| value.bound == bound).collect();
            let checks = |resource: &str| -> Vec<Check> {
                let is_about = |held: &&HeldAgainst| {
                    held.container.as_deref() == Some(container.name.as_str())
                        && held.resource == resource
                        && (held.edge == Edge::Min) == (bound == Bound::Request)
                };
                held.iter().filter(is_about).map(Check::of).collect()
            };
            for value in &of_bound {
                let is_copied = value.speaker == Speaker::Author && !is_written(written, container, value);
                values.push(Field {
                    field: format!("{}.{}", bound.field(), value.resource),
                    value: Some(value.quantity.clone()),
                    step: if is_copied { "copied" } else { step(value.speaker) },
                    reason: if is_copied { COPIED.to_owned() } else { value.reason.clone() },
                    checks: checks(&value.resource),
                });
            }
            for resource in EXPECTED.iter().filter(|name| !of_bound.iter().any(|value| value.resource == **name)) {
                values.push(Field {
                    field: format!("{}.{resource}", bound.field()),
                    value: None,
                    step: "unset",
                    reason: "nobody sets it".to_owned(),
                    checks: checks(resource),
                });
            }
        }
        // Requests before limits, each by name, whether set or not.
        values
            .sort_by(|a, b| (a.field.starts_with("limits"), &a.field).cmp(&(b.field.starts_with("limits"), &b.field)));
        let (name, image) = (container.name.clone(), container.image.clone());
        let role = match container.role {
            Role::Sidecar => "sidecar",
            role => role.noun(),
        };
        Self { name, role, image, values }
    }
}

/// What the API server does with an author's limit, in the core's words.
const COPIED: &str = "copied from the author's limit";

/// Whether the value stands in the object as its author wrote it, and not only in what the API server made of it.
fn is_written(object: &Value, container: &ContainerValues, value: &SpokenValue) -> bool {
    let list = if container.role == Role::Main { "/spec/containers" } else { "/spec/initContainers" };
    let containers = object.pointer(list).and_then(Value::as_array).into_iter().flatten();
    let mut same = containers.filter(|have| have.get("name").and_then(Value::as_str) == Some(&container.name));
    let resources = same.next().and_then(|container| container.get("resources"));
    resources.and_then(|resources| resources.get(value.bound.field())?.get(&value.resource)).is_some()
}

fn step(speaker: Speaker) -> &'static str {
    match speaker {
        Speaker::Author => "authored",
        Speaker::AuthorsLimit => "copied",
        Speaker::LimitRanger | Speaker::Default => "defaulted",
        Speaker::Earlier => "set before",
        Speaker::Estimate => "estimated",
        Speaker::Repaired => "repaired",
    }
}

impl Check {
    fn of(held: &HeldAgainst) -> Self {
        Self {
            resource: held.resource.clone(),
            edge: held.edge.told(),
            bound: held.bound.clone(),
            range: held.range.clone(),
            request: held.request.clone(),
            limit: held.limit.clone(),
            holds: held.holds,
        }
    }

    /// `max 1 holds (LimitRange limits)`
    fn told(&self, paint: Paint) -> (String, String) {
        let Self { edge, bound, range, holds, .. } = self;
        let verb = if *holds { "holds" } else { "is broken" };
        let painted = if *holds { paint.good(verb) } else { paint.bad(verb) };
        (format!("{edge} {bound} {verb} ({range})"), format!("{edge} {bound} {painted} ({range})"))
    }
}

impl Taken {
    fn all(charge: &Charge) -> Vec<Self> {
        let taken = charge.added.iter().map(|amount| Self {
            quota: charge.quota.clone(),
            name: amount.name.clone(),
            before: amount.before.clone(),
            adds: amount.added.clone(),
            after: amount.used.clone(),
            hard: amount.hard.clone(),
            left: amount.left.clone(),
        });
        taken.collect()
    }
}

/// The stories, one after the other.
pub fn text(stories: &[Story], paint: Paint) -> String {
    stories.iter().map(|story| story.text(paint)).collect::<Vec<_>>().join("\n")
}

impl Story {
    fn text(&self, paint: Paint) -> String {
        let mut text = self.headline(paint) + "\n";
        for reason in &self.reasons {
            for part in reason.split("; ") {
                text.push_str(&format!("  {part}\n"));
            }
        }
        for warning in &self.warnings {
            text.push_str(&format!("  {} {warning}\n", paint.doubtful("warning:")));
        }
        for estimate in &self.estimates {
            text.push_str(&format!("  estimate: {estimate}\n"));
        }
        if self.is_of_pods && !self.containers.is_empty() {
            text.push_str("\nEach of its pods:\n");
        }
        for container in &self.containers {
            text.push_str(&container.text(paint));
        }
        if !self.in_all.is_empty() {
            let noun = if self.containers.is_empty() { "the claim" } else { "the pod in all" };
            text.push_str(&format!("\n{}\n", paint.strong(noun)));
            for check in &self.in_all {
                let amounts = [("request", &check.request), ("limit", &check.limit)];
                let amounts = amounts.iter().filter_map(|(noun, amount)| Some(format!("{noun} {}", amount.as_ref()?)));
                let amounts: Vec<String> = amounts.collect();
                let amounts = if amounts.is_empty() { "nothing asked for".to_owned() } else { amounts.join(", ") };
                text.push_str(&format!("  {}: {amounts}; {}\n", check.resource, check.told(paint).1));
            }
        }
        if !self.quotas.is_empty() {
            let noun = if self.is_of_pods { "with all its pods" } else { "with it" };
            let mut table = Table::new(&["QUOTA", "NAME", "USED", "ADDS", "THEN", "HARD", "LEFT"]);
            for taken in &self.quotas {
                let Taken { quota, name, before, adds, after, hard, left } = taken;
                let painted = if left.starts_with('-') { paint.bad(left) } else { left.clone() };
                let cells = [quota, name, before, adds, after, hard].map(|cell| (cell.clone(), cell.clone()));
                table.painted_row(cells.into_iter().chain([(left.clone(), painted)]));
            }
            text.push_str(&format!("\n{}\n", paint.strong(&format!("quotas, {noun}"))));
            table.lines().iter().for_each(|line| text.push_str(&format!("  {line}\n")));
        }
        text
    }

    /// `pod/migrate in namespace shop: changed, 3 values are filled in`
    fn headline(&self, paint: Paint) -> String {
        let place = if self.namespace.is_empty() { String::new() } else { format!(" in namespace {}", self.namespace) };
        let verdict = match self.outcome {
            Verdict::Admitted => paint.good(self.verdict),
            Verdict::Changed => paint.fresh(self.verdict),
            Verdict::Refused | Verdict::NotJudged => paint.bad(self.verdict),
        };
        format!("{}{place}: {verdict}", paint.strong(&self.object))
    }
}

impl Container {
    fn text(&self, paint: Paint) -> String {
        let mut table = Table::new(&["FIELD", "VALUE", "STEP", "HELD AGAINST", "WHERE FROM"]);
        for Field { field, value, step, reason, checks } in &self.values {
            let value = value.as_deref().unwrap_or("-");
            let checks: Vec<(String, String)> = checks.iter().map(|check| check.told(paint)).collect();
            let join = |texts: Vec<&str>| texts.join(", ");
            table.painted_row([
                (field.clone(), field.clone()),
                (value.to_owned(), paint.strong(value)),
                ((*step).to_owned(), paint.faint(step)),
                (
                    join(checks.iter().map(|(bare, _)| bare.as_str()).collect()),
                    join(checks.iter().map(|(_, painted)| painted.as_str()).collect()),
                ),
                // At the end, because what an estimate was made of can be long.
                (reason.clone(), reason.clone()),
            ]);
        }
        let head = format!("{} {}", self.role, self.name);
        let mut text = format!("\n{}, image {}\n", paint.strong(&head), self.image);
        table.lines().iter().for_each(|line| text.push_str(&format!("  {line}\n")));
        text
    }
}
