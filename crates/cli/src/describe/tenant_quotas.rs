//! The TenantQuotas of `describe quota`: a summary of the status of TenantQuotas.

use std::collections::{BTreeMap, BTreeSet};

use headroom_admission::amount::{Quantity, ResourceList};
use headroom_admission::cluster::tenant_quota::TenantQuota;
use serde_json::Value;

use headroom_objects::kinds::{amounts_at, items, metadata, shares_at, text};
use headroom_output::draw::{Charset, gauge};
use headroom_output::{Page, Table, people};
use headroom_quota_protocol::message::Consumers;
use headroom_quota_server::tenants::read_quota;

use super::{GAUGE, MAX_CONSUMERS, thousandths};

/// All TenantQuotas with their status.
pub struct DescribedTenantQuotas<'o>(BTreeMap<String, DescribedTenantQuota<'o>>);

struct DescribedTenantQuota<'o> {
    spec: TenantQuota<'static>,
    object: &'o Value,
    used: ResourceList<'static>,
    reserved: ResourceList<'static>,
}

impl<'o> DescribedTenantQuotas<'o> {
    /// An error is a message that names the quota that cannot be read.
    pub fn read(objects: &'o [Value]) -> Result<Self, String> {
        let mut quotas = BTreeMap::new();
        for object in objects {
            let spec = read_quota(object)
                .map_err(|problem| format!("tenant quota {}: {problem}", metadata(object, "name")))?;
            let [used, reserved] = ["/status/used", "/status/reserved"].map(|at| amounts_at(object, at));
            quotas.insert(spec.name().to_owned(), DescribedTenantQuota { used, reserved, spec, object });
        }
        Ok(Self(quotas))
    }

    /// The full description of a quota; none if it does not exist.
    pub fn describe(&self, name: &str, charset: Charset) -> Option<Page> {
        let quota = self.0.get(name)?;
        let mut page = Page::new();
        let mut line = |title: &str, value: &str| writeln!(page, "{:13}{value}", format!("{title}:"));
        line("Name", name);
        line("Parent", quota.spec.parent.as_deref().unwrap_or("<none>"));
        let count = quota.object.pointer("/status/namespaceCount").and_then(Value::as_u64);
        line("Namespaces", &count.map_or("unknown".to_owned(), |count| count.to_string()));
        for condition in items(quota.object, "/status/conditions") {
            let [kind, status, message] = ["/type", "/status", "/message"].map(|at| text(condition, at));
            if status != "True" {
                line(kind, &format!("{status}: {message}"));
            }
        }
        page.gap();
        let mut table = Table::new(&["RESOURCE", "USED", "RESERVED", "HARD", "AVAILABLE", "", "TIGHTEST ANCESTOR"])
            .right(&["USED", "RESERVED", "HARD", "AVAILABLE"])
            .spare(&["", "RESERVED", "TIGHTEST ANCESTOR"]);
        for (name, hard) in quota.spec_hard().iter() {
            let unknown = || "unknown".to_owned();
            let reserved = quota.reserved.get(name).cloned().unwrap_or(Quantity::ZERO);
            let held = quota.held(name);
            let gauge = held.as_ref().map(|held| {
                let (part, whole) = (thousandths(held), thousandths(hard));
                let percent = part.saturating_mul(100).checked_div(whole).unwrap_or(100);
                format!("{percent}% {}", gauge(part, whole, GAUGE, charset))
            });
            let used = quota.used.get(name).map_or_else(unknown, ToString::to_string);
            let free = quota.available(name).map_or_else(unknown, |free| free.to_string());
            let exact = [used, reserved.to_string(), hard.to_string(), free];
            let [used, reserved, hard, free] = people::row(name, exact.each_ref().map(String::as_str));
            let ancestor = self.tightest_ancestor(quota, name).unwrap_or_default();
            table.row([name.to_string(), used, reserved, hard, free, gauge.unwrap_or_default(), ancestor]);
        }
        page.table(table);
        for (title, at) in [("Top namespaces", "/status/namespaces"), ("Children", "/status/children")] {
            let table = quota.consumers(at);
            if !table.is_empty() {
                writeln!(page, "\n{title}:");
                page.table(table);
            }
        }
        let warnings = self.overcommitted(quota);
        if !warnings.is_empty() {
            page.gap();
            warnings.iter().for_each(|warning| writeln!(page, "Warning: {warning}"));
        }
        Some(page)
    }

    /// The ancestor with the least available, if less than the quota itself: `acme: 12 of 300 available`.
    fn tightest_ancestor(&self, quota: &DescribedTenantQuota<'_>, name: &str) -> Option<String> {
        let mut least = quota.available(name)?;
        let mut tightest = None;
        let mut seen = BTreeSet::new();
        let mut above = quota.spec.parent.as_deref();
        while let Some(ancestor) = above.filter(|name| seen.insert(*name)).and_then(|name| self.0.get(name)) {
            if let (Some(free), Some(hard)) = (ancestor.available(name), ancestor.spec_hard().get(name))
                && free < least
            {
                let [shown, hard] = people::row(name, [&free.to_string(), &hard.to_string()]);
                tightest = Some(format!("{}: {shown} of {hard} available", ancestor.spec.name()));
                least = free;
            }
            above = ancestor.spec.parent.as_deref();
        }
        tightest
    }

    /// Warnings for bounds of children that exceed the quota's bound in total.
    fn overcommitted(&self, quota: &DescribedTenantQuota<'_>) -> Vec<String> {
        let children = || self.0.values().filter(|child| child.spec.parent.as_deref() == Some(quota.spec.name()));
        let over = quota.spec_hard().iter().filter_map(|(name, hard)| {
            let given = children().filter_map(|child| child.spec_hard().get(name));
            let given = given.fold(Quantity::ZERO, |sum, hard| sum.plus(hard));
            (given > *hard).then(|| {
                let over = people::amount(name, &given.minus(hard));
                format!("children have {name} {} in total, {over} more than this quota", people::amount(name, &given))
            })
        });
        over.collect()
    }
}

impl DescribedTenantQuota<'_> {
    fn spec_hard(&self) -> &ResourceList<'static> {
        &self.spec.quota.spec_hard
    }

    fn held(&self, name: &str) -> Option<Quantity> {
        let used = self.used.get(name)?;
        Some(self.reserved.get(name).map_or(used.clone(), |reserved| used.plus(reserved)))
    }

    fn available(&self, name: &str) -> Option<Quantity> {
        let (hard, held) = (self.spec_hard().get(name)?, self.held(name)?);
        Some(if held < *hard { hard.minus(&held) } else { Quantity::ZERO })
    }

    fn consumers(&self, at: &str) -> Table {
        let mut table = Table::new(&["RESOURCE", "NAME", "AMOUNT", "SHARE"]).right(&["AMOUNT", "SHARE"]);
        for (name, _) in self.spec_hard().iter() {
            let consumers = Consumers::shares(shares_at(self.object, at, name));
            for (consumer, amount) in consumers.into_iter().take(MAX_CONSUMERS) {
                let used = self.used.get(name).map(thousandths).unwrap_or_default();
                let share = thousandths(&amount).saturating_mul(100).checked_div(used).unwrap_or_default();
                table.row([name.to_string(), consumer, people::amount(name, &amount), format!("{share}%")]);
            }
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn conditions_children_and_bounds_that_exceed_the_one_above_are_told() {
        let quotas = [
            json!({"metadata": {"name": "acme"}, "spec": {"quota": {"hard": {"requests.cpu": "300"}}},
                "status": {"used": {"requests.cpu": "288"},
                    "children": [{"name": "payments", "used": {"requests.cpu": "61200m"}}]}}),
            json!({"metadata": {"name": "payments"}, "spec": {"parent": "acme", "quota": {"hard": {"requests.cpu": "400"}}},
                "status": {"conditions": [{"type": "Ready", "status": "False", "message": "cannot count pods: forbidden"},
                    {"type": "Valid", "status": "True"}]}}),
        ];
        let quotas = DescribedTenantQuotas::read(&quotas).unwrap();
        let [acme, payments] =
            ["acme", "payments"].map(|name| quotas.describe(name, Charset::Ascii).unwrap().to_string());
        let conditions = "Ready:       False: cannot count pods: forbidden\n\nRESOURCE";
        assert!(payments.contains(conditions), "{payments}");
        assert!(acme.contains("Children:\nRESOURCE       NAME"), "{acme}");
        let warning = "Warning: children have requests.cpu 400 cores in total, 100 cores more than this quota\n";
        assert!(acme.ends_with(warning), "{acme}");
        assert!(quotas.describe("nobody", Charset::Ascii).is_none());
    }
}
