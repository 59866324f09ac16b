//! Validates a LimitRange as the API server does, with the same texts. All problems are collected.

use super::{CLAIM, CONTAINER, Item, LimitRange, POD};
use crate::amount::{Quantity, is_native};
use crate::cluster::problem::FieldProblem;
use crate::find;
use crate::sort;

impl LimitRange<'_> {
    /// All problems of the range, in the order of its items; field paths begin with `prefix`.
    pub fn problems(&self, prefix: &str) -> Vec<FieldProblem> {
        let mut problems = Vec::new();
        for (index, item) in self.items.iter().enumerate() {
            let place = format!("{prefix}[{index}]");
            let repeated = self.items.iter().take(index).any(|earlier| earlier.kind == item.kind);
            if repeated {
                let detail = format!("Duplicate value: `{}`", item.kind);
                problems.push(FieldProblem { field: format!("{place}.type"), detail });
            }
            Check { item, place, problems: &mut problems }.all();
        }
        problems
    }
}

struct Check<'a, 'd> {
    item: &'a Item<'d>,
    place: String,
    problems: &'a mut Vec<FieldProblem>,
}

impl Check<'_, '_> {
    fn problem(&mut self, field: &str, detail: impl Into<String>) {
        self.problems.push(FieldProblem { field: format!("{}.{field}", self.place), detail: detail.into() });
    }

    fn all(&mut self) {
        let item = self.item;
        if !matches!(item.kind.as_ref(), CONTAINER | POD | CLAIM) && !is_qualified(&item.kind) {
            self.problem("type", "must be a standard limit type or fully qualified");
        }
        self.names();
        if item.kind == POD {
            for (field, list) in [("default", &item.default_limit), ("defaultRequest", &item.default_request)] {
                if !list.is_empty() {
                    self.problem(field, "may not be specified when `type` is 'Pod'");
                }
            }
        }
        if item.kind == CLAIM && !item.min.contains("storage") && !item.max.contains("storage") {
            self.problem("limits", "either minimum or maximum storage value is required, but neither was provided");
        }
        let mut names: Vec<&str> =
            item.lists().into_iter().flat_map(|(_, list)| list.names()).map(AsRef::as_ref).collect();
        sort::by_text(&mut names, |name| name);
        names.dedup();
        names.into_iter().for_each(|name| self.amounts(name));
    }

    fn names(&mut self) {
        let item = self.item;
        let of_containers = matches!(item.kind.as_ref(), CONTAINER | POD);
        for (field, list) in item.lists() {
            for name in list.names() {
                let problem = if of_containers { container_name_problem(name) } else { other_name_problem(name) };
                if let Some(detail) = problem {
                    self.problem(&format!("{field}[{name}]"), detail);
                }
            }
        }
    }

    fn amounts(&mut self, name: &str) {
        let item = self.item;
        let (min, max) = (item.min.get(name), item.max.get(name));
        let (request, limit) = (item.default_request.get(name), item.default_limit.get(name));
        let mut found: Vec<(&str, String)> = Vec::new();
        let mut above = |field, low_name: &str, low: Option<&Quantity>, high_name: &str, high: Option<&Quantity>| {
            if let (Some(low), Some(high)) = (low, high)
                && low > high
            {
                found.push((field, format!("{low_name} value {low} is greater than {high_name} value {high}")));
            }
        };
        above("min", "min", min, "max", max);
        above("defaultRequest", "min", min, "default request", request);
        above("defaultRequest", "default request", request, "max", max);
        above("defaultRequest", "default request", request, "default limit", limit);
        above("default", "min", min, "default", limit);
        above("default", "default", limit, "max", max);
        if let Some(ratio) = item.max_ratio.get(name) {
            if *ratio < Quantity::from_units(1) {
                found.push(("maxLimitRequestRatio", format!("ratio {ratio} is less than 1")));
            }
            if let (Some(min), Some(max)) = (min, max)
                && !min.is_zero()
                && Quantity::falls_short_of_ratio(max, min, ratio)
            {
                let most = Quantity::ratio_text(max, min);
                found.push(("maxLimitRequestRatio", format!("ratio {ratio} is greater than max/min = {most}")));
            }
        }
        if let (Some(request), Some(limit)) = (request, limit)
            && !may_overcommit(name)
            && request != limit
        {
            found.push((
                "defaultRequest",
                format!("default value {limit} must equal to defaultRequest value {request} in {name}"),
            ));
        }
        found.into_iter().for_each(|(field, detail)| self.problem(&format!("{field}[{name}]"), detail));
    }
}

/// True if the request may be below the limit, as for cpu and memory, but not for devices and huge pages.
pub fn may_overcommit(name: &str) -> bool {
    is_native(name) && !name.starts_with("hugepages-")
}

pub fn is_qualified(name: &str) -> bool {
    name.split_once('/').is_some_and(|(domain, rest)| !domain.is_empty() && !rest.is_empty() && !rest.contains('/'))
}

pub fn container_name_problem(name: &str) -> Option<&'static str> {
    if !name.contains('/') {
        let is_standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
        return (!is_standard).then_some("must be a standard resource for containers");
    }
    let is_extended = is_qualified(name) && !name.starts_with("requests.");
    (!is_extended && !find::contains(name, "kubernetes.io/"))
        .then_some("doesn't follow extended resource name standard")
}

fn other_name_problem(name: &str) -> Option<&'static str> {
    let is_standard = matches!(name, "cpu" | "memory" | "ephemeral-storage" | "storage")
        || COUNTED.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.")
        || name.starts_with("limits.");
    (!is_standard && !is_qualified(name)).then_some("must be a standard resource type or fully qualified")
}

pub const COUNTED: [&str; 9] = [
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
