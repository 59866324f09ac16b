//! A report as the text of a pull request that changes what it recommends: risks, changes with their evidence, what goes with them,
//! and how to decline a change.

use headroom_admission::amount::Quantity;
use headroom_admission::recommend::NoRecommendation;
use headroom_dry_run::quota_levels::QuotaKey;
use headroom_output::markdown_cell;

use crate::advice::amounts::short;
use crate::advice::quota_effect::QuotaEffect;
use crate::advice::workload::{ContainerAdvice, ResourceAdvice, Workload};
use crate::engine::declined::{self, fingerprint};
use crate::output::markdown::list;
use crate::report::Recommendations;
use crate::report::rule::RequestRule;

/// The text; empty parts are left out.
pub fn text(report: &Recommendations) -> String {
    let mut text = String::new();
    list(&mut text, "Risks", report.risks.iter().map(ToString::to_string).collect());
    let mut first = None;
    let mut rows = String::new();
    for (workload, container, advice) in advised(report) {
        for (requirement, from, to, is_raised) in changes(advice) {
            let mark = fingerprint(&workload.key, &container.name, advice.resource.name(), is_raised);
            let amount = |amount: Option<_>| amount.map_or_else(|| "-".to_owned(), |of| short(advice.resource, of));
            let used = advice.used.as_ref().map(|used| short(advice.resource, used.peak()));
            let cells = [
                markdown_cell(&format!("{} {}", workload.key.namespace, workload.with_deciders())),
                markdown_cell(&container.name),
                format!("{} {requirement}", advice.resource.name()),
                format!("{} → **{}**", amount(from), amount(Some(to))),
                used.unwrap_or_else(|| "-".to_owned()),
                container.evidence.map_or_else(|| "-".to_owned(), |evidence| evidence.to_string()),
                markdown_cell(&container.flag_text()),
                markdown_cell(&advice.reason.as_ref().map(ToString::to_string).unwrap_or_default()),
                format!("`{mark}`"),
            ];
            rows.push_str(&format!("| {} |\n", cells.join(" | ")));
            first.get_or_insert(mark);
        }
    }
    list(
        &mut text,
        "Targets of autoscalers, which this changes too if they are in the same manifests",
        report.scaled(),
    );
    let quota = |effect: &QuotaEffect| {
        let unit = if effect.fits { "" } else { ": **it would not fit**" };
        let QuotaKey { namespace, quota, name } = &effect.level.key;
        let [used, after, hard] = effect.amounts();
        format!("{namespace}/{quota} {name}: {used} → {after} of {hard}{unit}")
    };
    list(&mut text, "Quotas", report.quotas.iter().map(quota).collect());
    let dates = advised(report).filter_map(|(workload, container, advice)| match &advice.unknown {
        Some(NoRecommendation::Declined { on }) => {
            let resource = advice.resource.name();
            Some(format!("{} {} {} {resource}, on {on}", workload.key.namespace, workload.key, container.name))
        }
        _ => None,
    });
    list(&mut text, "Declined before", dates.collect());
    list(&mut text, "Left out", report.left_out());
    list(&mut text, "Beside the changes", report.beside_changes());
    let source = std::iter::once(report.source.to_string()).chain(report.rules.iter().map(RequestRule::to_string));
    list(&mut text, "Evidence", source.collect());
    if let Some(mark) = first {
        let header = "| Workload | Container | | Change | Peak | Seen | Flags | Reason | Fingerprint |\n|---|---|---|---|---:|---|---|---|---|\n";
        text.insert_str(0, &format!("**Changes**\n\n{header}{rows}\n"));
        text.push_str(&format!(
            "To decline a change for good, add a line with its fingerprint to `{}`, such as `{mark} YYYY-MM-DD why`.\n",
            declined::FILE
        ));
    }
    if let Some(outage) = report.source.outage() {
        text.insert_str(0, &format!("**{}**\n\n", markdown_cell(&outage)));
    }
    text
}

/// The advice for all workloads but those that nothing is written for.
fn advised(report: &Recommendations) -> impl Iterator<Item = (&Workload, &ContainerAdvice, &ResourceAdvice)> {
    let written = report.containers().filter(|(of, _)| of.is_handed_out());
    let written = written.filter(|(of, container)| of.why_unpatched().is_none() && container.injected.is_none());
    written
        .flat_map(|(workload, container)| container.resources.iter().map(move |advice| (workload, container, advice)))
}

type Change<'a> = (&'static str, Option<&'a Quantity>, &'a Quantity, bool);

/// The request and the limit that change: from, to, and whether it is raised.
fn changes(advice: &ResourceAdvice) -> impl Iterator<Item = Change<'_>> {
    let request = advice.to_write().map(|to| ("request", advice.written.as_ref(), to, advice.is_raised()));
    let limit = advice.recommended_limit.as_ref().map(|to| {
        let from = advice.written_limit.as_ref();
        ("limit", from, to, from.is_none_or(|from| from < to))
    });
    request.into_iter().chain(limit)
}

impl ResourceAdvice {
    /// True if more is recommended than is requested now.
    pub fn is_raised(&self) -> bool {
        let now = self.request.as_ref().map(|request| &request.value);
        self.recommended.as_ref() > now
    }

    pub fn is_lowered(&self) -> bool {
        self.request.as_ref().zip(self.recommended.as_ref()).is_some_and(|(now, to)| *to < now.value)
    }
}
