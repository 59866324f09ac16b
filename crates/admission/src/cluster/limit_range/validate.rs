//! Validates a LimitRange as the API server does, with the same texts. All problems are collected.

use super::{CLAIM, CONTAINER, Item, LimitRange, POD};
use crate::amount::{Quantity, is_native};
use crate::find;
use crate::json::Malformed;
use crate::sort;

impl LimitRange<'_> {
    /// All problems of the range, in the order of its items; paths begin with `prefix`.
    pub fn problems(&self, prefix: &str) -> Vec<Malformed> {
        let mut problems = Vec::new();
        for (index, item) in self.items.iter().enumerate() {
            let mut add = |field: &str, problem: String| {
                problems.push(Malformed { path: format!("{prefix}[{index}].{field}"), problem });
            };
            if self.items.iter().take(index).any(|earlier| earlier.kind == item.kind) {
                add("type", format!("Duplicate value: `{}`", item.kind));
            }
            item.check(&mut add);
        }
        problems
    }
}

impl Item<'_> {
    fn check(&self, add: &mut dyn FnMut(&str, String)) {
        let of_containers = matches!(self.kind.as_ref(), CONTAINER | POD);
        if !of_containers && self.kind != CLAIM && !is_qualified(&self.kind) {
            add("type", "must be a standard limit type or fully qualified".to_owned());
        }
        for (field, list) in self.lists() {
            for name in list.names() {
                let problem = if of_containers { container_name_problem(name) } else { other_name_problem(name) };
                if let Some(problem) = problem {
                    add(&format!("{field}[{name}]"), problem.to_owned());
                }
            }
        }
        if self.kind == POD {
            for (field, list) in [("default", &self.default_limit), ("defaultRequest", &self.default_request)] {
                if !list.is_empty() {
                    add(field, "may not be specified when `type` is 'Pod'".to_owned());
                }
            }
        }
        if self.kind == CLAIM && !self.min.contains("storage") && !self.max.contains("storage") {
            let problem = "either minimum or maximum storage value is required, but neither was provided";
            add("limits", problem.to_owned());
        }
        let mut names: Vec<&str> =
            self.lists().into_iter().flat_map(|(_, list)| list.names()).map(AsRef::as_ref).collect();
        sort::by_text(&mut names, |name| name);
        names.dedup();
        for name in names {
            self.check_amounts(name, add);
        }
    }

    fn check_amounts(&self, name: &str, add: &mut dyn FnMut(&str, String)) {
        let mut add = |field: &str, problem: String| add(&format!("{field}[{name}]"), problem);
        let (min, max) = (self.min.get(name), self.max.get(name));
        let (request, limit) = (self.default_request.get(name), self.default_limit.get(name));
        let mut above = |field, low_name: &str, low: Option<&Quantity>, high_name: &str, high: Option<&Quantity>| {
            if let (Some(low), Some(high)) = (low, high)
                && low > high
            {
                add(field, format!("{low_name} value {low} is greater than {high_name} value {high}"));
            }
        };
        above("min", "min", min, "max", max);
        above("defaultRequest", "min", min, "default request", request);
        above("defaultRequest", "default request", request, "max", max);
        above("defaultRequest", "default request", request, "default limit", limit);
        above("default", "min", min, "default", limit);
        above("default", "default", limit, "max", max);
        if let Some(ratio) = self.max_ratio.get(name) {
            if *ratio < Quantity::from_units(1) {
                add("maxLimitRequestRatio", format!("ratio {ratio} is less than 1"));
            }
            if let (Some(min), Some(max)) = (min, max)
                && !min.is_zero()
                && Quantity::falls_short_of_ratio(max, min, ratio)
            {
                let most = Quantity::ratio_text(max, min);
                add("maxLimitRequestRatio", format!("ratio {ratio} is greater than max/min = {most}"));
            }
        }
        if let (Some(request), Some(limit)) = (request, limit)
            && !may_overcommit(name)
            && request != limit
        {
            let problem = format!("default value {limit} must equal to defaultRequest value {request} in {name}");
            add("defaultRequest", problem);
        }
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
