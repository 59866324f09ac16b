//! The settings, their defaults, and the checks for contradictions.
//!
//! Settings are read again for every request, because a policy host creates a new instance for each; so reading `{}`
//! costs next to nothing, and the rest is borrowed from the text.

mod reader;

mod estimates;
mod quotas;

mod rule;

use std::borrow::Cow;
use std::fmt;

use crate::cluster::label_selector::{LabelSelector, Requirement};
use crate::glob;
use crate::json::{Malformed, Node};
use crate::truncate::on_one_line;

pub use estimates::{
    EstimateMode, EstimateSettings, HistoryMatch, HistoryOwner, HistoryScope, LookupStep, Margin, PerResource,
    PercentileChoice,
};
pub use quotas::{LimitedResource, QuotaSettings};
pub use reader::SettingsReader;
pub use rule::LimitRangeRule;

#[derive(Debug, Clone, Default)]
pub struct Settings<'d> {
    pub role: Role,
    /// True if Kubewarden drops what the policy decides, so that its texts say "would".
    pub is_monitored: bool,
    pub server: ServerVersion,
    pub limit_ranges: LimitRangeSettings<'d>,
    pub quotas: QuotaSettings<'d>,
    pub estimates: EstimateSettings<'d>,
    pub mutate_templates: bool,
    /// True if objects get no annotations that say what was set.
    pub omits_annotations: bool,
    /// True if a request is only warned, not refused, when a needed object cannot be read.
    pub admits_without_context: bool,
    pub exempt: Exempt<'d>,
}

/// The part of the work that a policy does.
///
/// Only after mutating admission is an object as it will be stored. So the safest deployment is two policies of one
/// module: a mutating one fills in values, and a validating one evaluates the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// A single policy: it anticipates how the API server will complete the object.
    #[default]
    Both,
    /// It fills in values and warns the authors of workloads; it refuses nothing.
    Mutate,
    /// It evaluates the object as it is, and changes nothing.
    Validate,
}

impl Role {
    fn read(node: Node<'_>) -> Result<Self, Malformed> {
        match node.str()?.as_ref() {
            "both" => Ok(Self::Both),
            "mutate" => Ok(Self::Mutate),
            "validate" => Ok(Self::Validate),
            _ => Err(node.expected("`both`, `mutate`, `validate`")),
        }
    }
}

/// The minor version of the cluster's API server, for rules that depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerVersion(Option<u16>);

impl ServerVersion {
    /// None stands for 1.37.
    pub const fn of_minor(minor: Option<u16>) -> Self {
        Self(minor)
    }

    /// True if the API server keeps pod-level resources.
    pub fn has_pod_level_resources(self) -> bool {
        self.0.is_none_or(|minor| minor >= 34)
    }

    /// True if a DeviceClass may name an extended resource.
    pub fn maps_extended_resources(self) -> bool {
        self.0.is_none_or(|minor| minor >= 34)
    }

    /// True if the API server also fills in missing pod-level limits.
    pub fn completes_pod_level_limits(self) -> bool {
        self.0.is_none_or(|minor| minor >= 37)
    }

    /// True if a pod that is being resized counts by the sums of spec, allocated and actual amounts, not by the largest
    /// of each container.
    pub fn sums_resizes(self) -> bool {
        self.0.is_none_or(|minor| minor >= 37)
    }

    /// True if LimitRanges do not bind what an update of a claim leaves as it was (Kubernetes' change 142170).
    pub fn skips_unchanged_claims(self) -> bool {
        self.0.is_some_and(|minor| minor >= 38)
    }

    /// `1.34`
    fn read(node: Node<'_>) -> Result<Self, Malformed> {
        // Only in quotes, because YAML reads 1.30 as 1.3.
        let text = node.str().ok();
        let minor = text.as_deref().and_then(|text| text.strip_prefix("1.")?.parse().ok());
        minor.map(|minor| Self(Some(minor))).ok_or_else(|| node.expected("a version in quotes, such as `\"1.34\"`"))
    }
}

/// The consequence of a breach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Enforce,
    Warn,
    Off,
}

/// `limitRanges`
#[derive(Debug, Clone)]
pub struct LimitRangeSettings<'d> {
    pub mode: Mode,
    /// The consequence of a breach by the pods of a controller, which would be checked against the ranges only later.
    pub workload_mode: Mode,
    /// True if `rules` get the defaults that Kubernetes derives for a LimitRange.
    pub derive_defaults: bool,
    pub raise_default_limits: bool,
    pub rules: Vec<LimitRangeRule<'d>>,
}

impl Default for LimitRangeSettings<'_> {
    fn default() -> Self {
        Self {
            mode: Mode::Enforce,
            workload_mode: Mode::Warn,
            derive_defaults: true,
            raise_default_limits: true,
            rules: Vec::new(),
        }
    }
}

/// `exempt`: objects that are not evaluated.
#[derive(Debug, Clone, Default)]
pub struct Exempt<'d> {
    pub namespaces: Vec<Cow<'d, str>>,
    /// `namespace/name` of the pod's service account.
    pub service_accounts: Vec<Cow<'d, str>>,
    /// Labels of pods, and of other objects.
    pub labels: Option<LabelSelector<'d>>,
    pub namespace_labels: Option<LabelSelector<'d>>,
}

/// All problems of the settings, one line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError {
    pub problems: Vec<String>,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid settings: {}", self.problems.join("; "))
    }
}

impl std::error::Error for SettingsError {}

impl<'d> Settings<'d> {
    /// Reads the settings; none is the same as `{}`.
    pub fn read(node: Option<Node<'d>>) -> Result<Self, SettingsError> {
        let mut problems = Vec::new();
        let mut settings = Self::default();
        if let Some(node) = node.filter(|node| !node.is_null()) {
            let mut reader = SettingsReader::new(node, String::new(), &mut problems);
            settings.role = reader.field("role", Role::read).unwrap_or_default();
            settings.is_monitored = reader.choice("mode", &[("monitor", true), ("protect", false)], false);
            settings.server = reader.field("kubernetesVersion", ServerVersion::read).unwrap_or_default();
            settings.limit_ranges = reader.section("limitRanges", LimitRangeSettings::read).unwrap_or_default();
            settings.quotas = reader.section("quotas", QuotaSettings::read).unwrap_or_default();
            settings.estimates = reader.section("estimates", EstimateSettings::read).unwrap_or_default();
            settings.mutate_templates = reader.flag("mutateTemplates", false);
            settings.omits_annotations = !reader.flag("annotate", true);
            settings.admits_without_context =
                reader.choice("onMissingContext", &[("deny", false), ("warn", true)], false);
            settings.exempt = reader.section("exempt", Exempt::read).unwrap_or_default();
            if settings.role == Role::Validate && settings.mutate_templates {
                reader.problem("mutateTemplates", "is set, but a policy of `role: validate` changes nothing");
            }
            if settings.estimates.shrink_to_quota && settings.quotas.mode == Mode::Off {
                let problem = "has no effect, because `quotas.mode` is `off`: remove one of them";
                reader.problem("estimates.shrinkToQuota", problem);
            }
            reader.finish();
        }
        if problems.is_empty() {
            return Ok(settings);
        }
        // Problems quote the settings, which may be long and contain line breaks.
        const MAX_LENGTH: usize = 1_000;
        Err(SettingsError { problems: problems.iter().map(|problem| on_one_line(problem, MAX_LENGTH)).collect() })
    }
}

impl Settings<'_> {
    /// True if any selector needs the labels of the request's namespace.
    pub fn selects_by_namespace_labels(&self) -> bool {
        let in_rules = self.limit_ranges.rules.iter().any(|rule| rule.namespace_labels.is_some());
        in_rules || self.exempt.namespace_labels.is_some()
    }
}

impl<'d> LimitRangeSettings<'d> {
    fn read(section: &mut SettingsReader<'_, 'd>) -> Self {
        let default = Self::default();
        let derive_defaults = section.flag("deriveDefaults", default.derive_defaults);
        let (mode, workload_mode) = section.modes((default.mode, default.workload_mode));
        let read = Self {
            mode,
            workload_mode,
            derive_defaults,
            raise_default_limits: section.flag("raiseDefaultLimits", default.raise_default_limits),
            rules: LimitRangeRule::read_all(section, derive_defaults),
        };
        section.unused_if_off(mode, &[("rules", !read.rules.is_empty())]);
        read
    }
}

impl<'d> Exempt<'d> {
    fn read(section: &mut SettingsReader<'_, 'd>) -> Self {
        let read = Self {
            namespaces: section.patterns("namespaces", "-*"),
            service_accounts: section.strings("serviceAccounts"),
            labels: section.section("labels", read_selector),
            namespace_labels: section.section("namespaceLabels", read_selector),
        };
        for (name, selector) in [("labels", &read.labels), ("namespaceLabels", &read.namespace_labels)] {
            if selector.as_ref().is_some_and(|selector| selector.requirements.is_empty()) {
                section.problem(name, "is empty, which selects everything: name the labels to exempt, or remove it");
            }
        }
        for account in &read.service_accounts {
            if account.contains('/') {
                section.expect_name("serviceAccounts", account, "-./*");
            } else {
                let problem = format!("`{account}` must be `namespace/name`, where `*` stands for any text");
                section.problem("serviceAccounts", &problem);
            }
        }
        read
    }
}

impl SettingsReader<'_, '_> {
    /// The consequence of a breach, and of one by the pods of a controller: none where the first is off.
    fn modes(&mut self, default: (Mode, Mode)) -> (Mode, Mode) {
        const MODES: &[(&str, Mode)] = &[("enforce", Mode::Enforce), ("warn", Mode::Warn), ("off", Mode::Off)];
        let mode = self.choice("mode", MODES, default.0);
        let of_workloads = self.choice("workloadMode", MODES, default.1);
        // `warn` is the default, which forms send too.
        self.unused_if_off(mode, &[("workloadMode", of_workloads == Mode::Enforce)]);
        (mode, if mode == Mode::Off { Mode::Off } else { of_workloads })
    }

    /// Reports the settings that are made although a `mode` is off without which they do nothing.
    fn unused_if_off(&mut self, mode: Mode, settings: &[(&str, bool)]) {
        for (name, _) in settings.iter().filter(|(_, is_made)| *is_made && mode == Mode::Off) {
            let problem = format!("is `off`, so `{name}` would never apply: remove it or choose `enforce` or `warn`");
            self.problem("mode", &problem);
        }
    }
}

/// True if a selector from an object selects a namespace. An invalid selector selects nothing.
pub fn selects_namespace(selector: Node<'_>, namespace: Option<Node<'_>>) -> Result<bool, Malformed> {
    let mut problems = Vec::new();
    let selector = read_selector(&mut SettingsReader::new(selector, String::new(), &mut problems));
    Ok(problems.is_empty() && selector.matches_namespace(namespace)?)
}

fn read_selector<'d>(reader: &mut SettingsReader<'_, 'd>) -> LabelSelector<'d> {
    let labels = reader.field("matchLabels", |labels| {
        let labels = labels.fields()?.map(|(key, value)| Ok(Requirement::equal(key.str()?, value.str()?)));
        labels.collect::<Result<Vec<_>, Malformed>>()
    });
    let mut requirements = labels.unwrap_or_default();
    requirements.extend(reader.sections("matchExpressions", |expression| {
        let key = expression.string("key").unwrap_or_default();
        if key.is_empty() {
            expression.problem("key", "is missing");
        }
        expression.requirement(key)
    }));
    LabelSelector { requirements }
}

/// True if any of the patterns matches, in which `*` matches any text.
pub fn any_matches(patterns: &[Cow<'_, str>], text: &str) -> bool {
    patterns.iter().any(|pattern| glob::matches(pattern, text))
}

#[cfg(test)]
mod tests;
