//! The combined effect of all LimitRanges of a namespace and all rules of the settings.
//!
//! The defaults are those of a decision on a container without requests and limits; nothing is computed here.

use std::collections::{BTreeMap, BTreeSet};

use headroom_admission::amount::{Quantity, ResourceName};
use headroom_admission::cluster::limit_range::{CLAIM, CONTAINER, Item, POD};
use headroom_admission::json::Malformed;
use headroom_admission::limit_rules::{self, Range};
use headroom_admission::request::{Container, Requirement, Value};
use headroom_admission::verdict::{Cause, ReviewWarning, Violation};
use headroom_admission::{Context, Decision, Request, Settings};
use headroom_dry_run::quota_levels::text;
use headroom_output::{Page, Table};

use serde::Serialize;
use serde_json::json;

use super::{kubectl, section};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceLimits {
    pub namespace: String,
    #[serde(skip)]
    pub as_kubectl: Vec<String>,
    pub limit_ranges: Vec<String>,
    /// The values of a container that sets none.
    pub defaults: Vec<Default>,
    /// The reason why such a container is rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The tightest bound of each kind.
    pub bounds: Vec<EffectiveBound>,
    /// Bounds that nothing can meet together, and rules that are about other containers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A resource of the container that has nothing set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Default {
    pub resource: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Given>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Given>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Given {
    pub value: String,
    /// Such as `default of LimitRange limits`.
    pub from: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EffectiveBound {
    #[serde(rename = "type")]
    pub kind: String,
    pub resource: String,
    /// `min`, `max` or `maxLimitRequestRatio`.
    pub bound: &'static str,
    #[serde(serialize_with = "text")]
    pub value: Quantity,
    pub from: String,
}

/// A pod with one container that sets nothing, as an admission request.
pub fn empty_pod(namespace: &str) -> serde_json::Value {
    json!({
        "uid": "", "operation": "CREATE", "namespace": namespace, "name": "any",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "object": {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "any", "namespace": namespace},
            "spec": {"containers": [{"name": "any", "image": ""}]},
        },
    })
}

/// The effective limits for a request about an empty pod.
pub fn limits<'d>(
    request: &'d Request<'d>,
    decision: &Decision<'d>,
    context: &Context<'d>,
    settings: &'d Settings<'d>,
) -> Result<NamespaceLimits, Malformed> {
    let pod = request.pod()?;
    let ranges = limit_rules::applicable(request, pod.as_ref(), context, settings)?;
    let of_cluster = context.limit_ranges.as_deref().unwrap_or_default();
    let container = pod.as_ref().and_then(|pod| pod.containers.first());
    let filled = decision.pod.as_ref().and_then(|pod| pod.containers.first());
    let bounds = effective_bounds(&ranges, container);
    let mut notes = contradictions(&bounds);
    notes.extend(about_others(&ranges, container, settings));
    let is_estimate = |warning: &&ReviewWarning<'_>| matches!(warning.cause, Cause::Estimate(_));
    Ok(NamespaceLimits {
        namespace: request.namespace.to_string(),
        as_kubectl: of_cluster.iter().map(|range| kubectl::limit_range(range, &request.namespace)).collect(),
        limit_ranges: of_cluster.iter().map(|range| range.name.to_string()).collect(),
        defaults: filled.map(defaults).unwrap_or_default(),
        refused: refused(decision),
        // The table shows the estimates already.
        warnings: decision
            .warnings
            .iter()
            .filter(|warning| !is_estimate(warning))
            .map(|warning| warning.text.clone())
            .collect(),
        bounds: bounds.into_values().collect(),
        notes,
    })
}

/// Without what could not be read, which a note says: no policy need be there that refuses for it.
fn refused(decision: &Decision<'_>) -> Option<String> {
    let is_known = |violation: &&Violation<'_>| !matches!(violation, Violation::MissingContext(_));
    let known = decision.violations.iter().filter(is_known).map(ToString::to_string).collect::<Vec<_>>();
    (!known.is_empty()).then(|| known.join("; "))
}

fn defaults(container: &Container<'_>) -> Vec<Default> {
    let names = Requirement::BOTH.into_iter().flat_map(|requirement| container.resources.of(requirement).names());
    let names: BTreeSet<&ResourceName<'_>> = names.collect();
    let given = |value: &Value<'_>| Given { value: value.quantity.to_string(), from: value.origin.to_string() };
    let of = |requirement, name: &str| container.resources.of(requirement).get(name).map(given);
    let default = |name: &ResourceName<'_>| Default {
        resource: name.to_string(),
        request: of(Requirement::Request, name),
        limit: of(Requirement::Limit, name),
    };
    names.into_iter().map(default).collect()
}

/// The tightest bound by the place of its kind among those of objects, its resource, and the place of its own kind: minimum,
/// maximum and ratio.
type Bounds = BTreeMap<(usize, String, usize), EffectiveBound>;

/// The first of equals is kept.
fn effective_bounds(ranges: &[Range<'_>], container: Option<&Container<'_>>) -> Bounds {
    let mut all = Bounds::new();
    for (place, kind) in [CONTAINER, POD, CLAIM].into_iter().enumerate() {
        for range in ranges {
            let speaks = kind != CONTAINER || container.is_none_or(|container| range.applies_to(container));
            for item in range.items().iter().filter(|item| speaks && item.kind == kind) {
                tighten(&mut all, place, range, item);
            }
        }
    }
    all
}

fn tighten(all: &mut Bounds, kind: usize, range: &Range<'_>, item: &Item<'_>) {
    let lists = [("min", &item.min), ("max", &item.max), ("maxLimitRequestRatio", &item.max_ratio)];
    for (place, (bound, list)) in lists.into_iter().enumerate() {
        for (resource, amount) in list.iter() {
            let key = (kind, resource.to_string(), place);
            let is_tighter =
                |have: &EffectiveBound| if bound == "min" { *amount > have.value } else { *amount < have.value };
            if all.get(&key).is_none_or(is_tighter) {
                let effective = EffectiveBound {
                    kind: item.kind.to_string(),
                    resource: resource.to_string(),
                    bound,
                    value: amount.clone(),
                    from: range.name().to_string(),
                };
                all.insert(key, effective);
            }
        }
    }
}

/// A minimum above the maximum: nothing can be admitted.
fn contradictions(bounds: &Bounds) -> Vec<String> {
    let mut found = Vec::new();
    for ((kind, resource, _), min) in bounds.iter().filter(|((_, _, bound), _)| *bound == 0) {
        if let Some(max) = bounds.get(&(*kind, resource.clone(), 1)).filter(|max| max.value < min.value) {
            found.push(format!(
                "no {} can be admitted that asks for {}: the min of {} is {}, and the max of {} is {}",
                min.kind, min.resource, min.from, min.value, max.from, max.value
            ));
        }
    }
    found
}

/// Rules of the settings that are not about this container, because they choose others.
fn about_others(ranges: &[Range<'_>], container: Option<&Container<'_>>, settings: &Settings<'_>) -> Vec<String> {
    let speaks = |name: &str| {
        let of_rule = |range: &&Range<'_>| range.name().to_string() == format!("rule {name}");
        let range = ranges.iter().find(of_rule);
        range.is_some_and(|range| container.is_none_or(|container| range.applies_to(container)))
    };
    let rules = settings.limit_ranges.rules.iter().map(|rule| &rule.range.name);
    rules
        .filter(|name| !speaks(name))
        .map(|name| format!("rule {name} chooses other namespaces, pods, containers or images and is left out here"))
        .collect()
}

/// kubectl's text, then the effective view.
impl NamespaceLimits {
    pub fn page(&self) -> Page {
        let mut page = Page::new();
        for range in &self.as_kubectl {
            page.gap();
            page.lines(range);
        }
        if self.limit_ranges.is_empty() {
            writeln!(page, "No LimitRange in namespace {}.", self.namespace);
        }
        if self.defaults.is_empty() {
            writeln!(page, "\nNo defaults in namespace {}.", self.namespace);
        } else {
            let heading = format!("Defaults in namespace {}:", self.namespace);
            section(&mut page, &heading, self.defaults_table());
        }
        if let Some(refused) = &self.refused {
            writeln!(page, "  A container without values is rejected: {refused}");
        }
        for warning in &self.warnings {
            writeln!(page, "  warning: {warning}");
        }
        if !self.bounds.is_empty() {
            let mut table = Table::new(&["TYPE", "RESOURCE", "BOUND", "VALUE", "FROM"]);
            for bound in &self.bounds {
                let value = bound.value.to_string();
                table.row([&bound.kind, &bound.resource, bound.bound, &value, &bound.from].map(str::to_owned));
            }
            section(&mut page, "Effective bounds:", table);
        }
        if !self.notes.is_empty() {
            page.gap();
        }
        self.notes.iter().for_each(|note| writeln!(page, "Note: {note}"));
        page
    }

    /// Keeps one LimitRange of the text, and the combined limits.
    pub fn show_only(&mut self, name: &str) -> Result<(), String> {
        let Some(place) = self.limit_ranges.iter().position(|range| range == name) else {
            let there = self.limit_ranges.iter().map(String::as_str);
            return Err(super::not_there("LimitRange", name, &self.namespace, there));
        };
        self.as_kubectl = self.as_kubectl.drain(..).skip(place).take(1).collect();
        Ok(())
    }

    fn defaults_table(&self) -> Table {
        let mut table = Table::new(&["RESOURCE", "BOUND", "VALUE", "FROM"]);
        for default in &self.defaults {
            for (bound, given) in [("request", &default.request), ("limit", &default.limit)] {
                let Some(given) = given else { continue };
                table.row([&default.resource, bound, &given.value, &given.from].map(str::to_owned));
            }
        }
        table
    }
}
