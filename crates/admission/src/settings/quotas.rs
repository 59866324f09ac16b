//! `quotas`: settings for ResourceQuotas.

use std::borrow::Cow;

use super::reader::in_backticks;
use super::{Mode, SettingsReader};
use crate::cluster::label_selector::{Operator, Requirement};
use crate::cluster::resource_quota::validate::SCOPES;

#[derive(Debug, Clone)]
pub struct QuotaSettings<'d> {
    pub mode: Mode,
    /// The consequence of a breach by the pods of a controller, which would be checked against the quotas only later.
    pub workload_mode: Mode,
    /// True if each quota that is close to its bound is read again, live. Otherwise the usage is that of the host's watched
    /// list: nearly free, and some milliseconds old.
    pub is_live: bool,
    /// True if the pods of controllers are also checked against TenantQuotas.
    pub tenant_quotas: bool,
    /// Resources that may be consumed only where a quota covers them.
    pub limited_resources: Vec<LimitedResource<'d>>,
}

/// One entry of `limitedResources`, as in the API server's own admission configuration.
#[derive(Debug, Clone)]
pub struct LimitedResource<'d> {
    pub api_group: Cow<'d, str>,
    /// The plural name, such as `pods`.
    pub resource: Cow<'d, str>,
    /// A consumed resource is limited if its name contains one of these texts.
    pub match_contains: Vec<Cow<'d, str>>,
    pub match_scopes: Vec<Requirement<'d>>,
}

impl Default for QuotaSettings<'_> {
    fn default() -> Self {
        Self {
            mode: Mode::Enforce,
            workload_mode: Mode::Warn,
            is_live: false,
            tenant_quotas: false,
            limited_resources: Vec::new(),
        }
    }
}

impl<'d> QuotaSettings<'d> {
    pub(super) fn read(section: &mut SettingsReader<'_, 'd>) -> Self {
        let default = Self::default();
        let (mode, workload_mode) = section.modes((default.mode, default.workload_mode));
        let read = Self {
            mode,
            workload_mode,
            is_live: section.choice("freshness", &[("watch", false), ("live", true)], default.is_live),
            tenant_quotas: section.flag("tenantQuotas", default.tenant_quotas),
            limited_resources: section.sections("limitedResources", LimitedResource::read),
        };
        let made = [
            ("tenantQuotas", read.tenant_quotas),
            ("limitedResources", !read.limited_resources.is_empty()),
            ("freshness", read.is_live),
        ];
        section.unused_if_off(mode, &made);
        if read.tenant_quotas && workload_mode == Mode::Off && mode != Mode::Off {
            section
                .problem("tenantQuotas", "is `true`, but `workloadMode` is `off`: choose `warn` or `enforce` for it");
        }
        read
    }
}

impl<'d> LimitedResource<'d> {
    fn read(section: &mut SettingsReader<'_, 'd>) -> Self {
        let read = Self {
            api_group: section.string("apiGroup").unwrap_or_default(),
            resource: section.string("resource").unwrap_or_default(),
            match_contains: section.strings("matchContains"),
            match_scopes: section.sections("matchScopes", |scope| {
                let key = scope.word("scopeName", &SCOPES.map(|(scope, _)| scope));
                scope.requirement(key)
            }),
        };
        if read.resource.is_empty() {
            section.problem("resource", "is missing: name a resource in the plural, such as `pods`");
        }
        // Scopes are limited for all kinds, as by the API server, so that with these alone the names do not matter.
        if !read.match_contains.is_empty() {
            section.expect_name("apiGroup", &read.api_group, "-.");
            match (read.api_group.as_ref(), read.resource.as_bytes().last()) {
                ("v1" | "core", _) => section.problem("apiGroup", "must be absent for the core group"),
                ("", Some(last)) if *last != b's' => {
                    section.problem("resource", "must be a resource in the plural, such as `pods`");
                }
                _ => section.expect_name("resource", &read.resource, "-"),
            }
        } else if read.match_scopes.is_empty() {
            section.problem("matchContains", "is missing, and `matchScopes` too: set one of them");
        }
        read
    }
}

impl<'d> SettingsReader<'_, 'd> {
    /// Reads a requirement whose key was read.
    pub(super) fn requirement(&mut self, key: Cow<'d, str>) -> Requirement<'d> {
        let operator = Operator::from(&*self.word("operator", &Operator::BY_NAME.map(|(operator, _)| operator)));
        let values = self.strings("values");
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                self.problem("values", "is missing: `In` and `NotIn` need at least one value");
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                self.problem("values", "must be absent: `Exists` and `DoesNotExist` take none");
            }
            _ => {}
        }
        Requirement { key, operator, values }
    }

    /// Reads a required field with one of several words.
    fn word(&mut self, name: &'static str, words: &[&str]) -> Cow<'d, str> {
        let word = self.string(name).unwrap_or_default();
        if !words.contains(&word.as_ref()) {
            self.problem(name, &format!("must be one of {}", in_backticks(words)));
        }
        word
    }
}
