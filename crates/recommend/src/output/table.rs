//! A report for people: a table, sums by namespace, reasons, and what else is to know.

use std::fmt::Display;

use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::Resource;
use headroom_admission::estimate::Basis;
use headroom_dry_run::quota_levels::QuotaKey;
use headroom_output::draw::Charset;
use headroom_output::people::{self, Unit};
use headroom_output::{Page, Paint, Table};

use crate::advice::amounts::CPU_AND_MEMORY;
use crate::advice::workload::{ContainerAdvice, RequestOrigin, ResourceAdvice, Severity, Workload};
use crate::report::{Recommendations, Total, rule};

/// Choices of the table's look.
#[derive(Debug, Clone, Copy)]
pub struct View {
    pub is_wide: bool,
    pub charset: Charset,
    pub paint: Paint,
}

/// The reasons of so many containers, and so many risks and blocked changes, are printed without being asked for.
const FEW: usize = 20;
/// The distributions of so many are drawn.
const DRAWN: usize = 2;

/// Columns of numbers.
const NUMBERS: [&str; 17] = [
    "CPU (cores)",
    "CPU P95",
    "MEMORY (MiB)",
    "MEMORY (GiB)",
    "MEMORY PEAK",
    "STORAGE (MiB)",
    "STORAGE (GiB)",
    "STORAGE PEAK",
    "PODS",
    "CPU SAVED",
    "MEMORY SAVED",
    "PER MONTH",
    "WORKLOADS",
    "CONTAINERS",
    "SKIPPED",
    "RECOMMENDED",
    "SAVED",
];
/// Columns that are left out on a narrow terminal, the first first.
const SPARE: [&str; 10] = [
    "STORAGE PEAK",
    "EVIDENCE",
    "SEVERITY",
    "PODS",
    "CPU P95",
    "MEMORY PEAK",
    "MEMORY SAVED",
    "CPU SAVED",
    "STORAGE (MiB)",
    "STORAGE (GiB)",
];
const WIDE: [&str; 12] = [
    "CPU CHANGE",
    "CPU P50-PEAK",
    "MEMORY CHANGE",
    "MEMORY P50-PEAK",
    "CPU LIMIT",
    "MEMORY LIMIT",
    "QOS",
    "OOM",
    "THROTTLED",
    "RESTARTS",
    "AUTOSCALER",
    "IMAGE",
];

pub fn page(report: &Recommendations, view: View) -> Page {
    let mut page = Page::new();
    if !report.headline().is_empty() {
        writeln!(page, "{}", report.headline());
        page.gap();
    }
    let blocked = "Blocked, and left out of files and patches:";
    first(&mut page, view, blocked, &report.blocked());
    first(&mut page, view, "Fix first:", &report.risks);
    writeln!(page, "{}", report.about());
    match rule::sentence(&report.rules) {
        Some(sentence) if !view.is_wide => writeln!(page, "{sentence} (-o wide: the whole rule)"),
        _ => report.rules.iter().for_each(|rule| writeln!(page, "{rule}")),
    }
    page.gap();
    page.table(rows(report, view));
    // Without any recommendation the sums are nothing, beside workloads that request something.
    let has_advice = report.total.without_advice < report.total.containers;
    if report.workloads.len() > 1 && has_advice {
        // With one namespace, the total is its sum.
        let parts = if report.totals.len() > 1 { report.totals.as_slice() } else { &[] };
        let all = || parts.iter().chain([&report.total]);
        let sums = all().flat_map(|total| [&total.memory.requested, &total.memory.recommended, &total.memory.saved]);
        let unit = Unit::of("memory", sums);
        let memory = format!("MEMORY ({})", unit.name());
        let mut header = vec!["NAMESPACE", "WORKLOADS", "CONTAINERS", "SKIPPED"];
        header.extend(["CPU (cores)", "RECOMMENDED", "SAVED", &memory, "RECOMMENDED", "SAVED"]);
        header.extend(report.total.saved_a_month.map(|_| "PER MONTH"));
        let spare = ["SKIPPED", "CONTAINERS", "WORKLOADS", "RECOMMENDED"];
        let mut totals = Table::new(&header).right(&NUMBERS).spare(&spare);
        all().for_each(|total| totals.row(total_cells(report, total, unit)));
        page.gap();
        page.table(totals);
    }
    if let Some(money) = report.money() {
        page.gap();
        writeln!(page, "{money}");
    }
    if view.is_wide || report.containers().count() <= FEW {
        section(&mut page, "Reasons", reasons(report));
    }
    if report.containers().count() <= DRAWN {
        report.containers().for_each(|(of, container)| plots(&mut page, of, container, view.charset));
    }
    quotas(&mut page, report, view.paint);
    section(&mut page, "Autoscalers", report.scaled());
    section(&mut page, "Flags", report.flags_explained());
    section(&mut page, "Notes", report.all_notes());
    page
}

/// The first lines of a list that may be long.
fn first(page: &mut Page, view: View, heading: &str, lines: &[impl Display]) {
    if lines.is_empty() {
        return;
    }
    writeln!(page, "{}", view.paint.bold(heading));
    let shown = if view.is_wide { lines.len() } else { FEW };
    lines.iter().take(shown).for_each(|line| writeln!(page, "  {}", view.paint.red(&line.to_string())));
    if let Some(more) = lines.len().checked_sub(shown).filter(|more| *more > 0) {
        writeln!(page, "  and {more} more: -o wide lists all");
    }
    page.gap();
}

fn section(page: &mut Page, heading: &str, lines: Vec<String>) {
    if !lines.is_empty() {
        writeln!(page, "\n{heading}:");
        lines.iter().for_each(|line| writeln!(page, "  {line}"));
    }
}

/// `deployment/web nginx cpu: p90 of 7d nginx:1.27 in this namespace, …`
fn reasons(report: &Recommendations) -> Vec<String> {
    let of_container = |(of, container): (&Workload, &ContainerAdvice)| {
        let line = |advice: &ResourceAdvice| {
            format!("{} {} {}: {}", of.key, container.name, advice.resource.name(), advice.explained())
        };
        container.resources.iter().map(line).collect::<Vec<_>>()
    };
    report.containers().flat_map(of_container).collect()
}

fn plots(page: &mut Page, of: &Workload, container: &ContainerAdvice, charset: Charset) {
    for advice in &container.resources {
        let Some(used) = &advice.used else { continue };
        let place = format!("{} of {} {}", advice.resource.name(), of.key, container.name);
        let recommended = advice.recommended.as_ref().map(|amount| format!("recommended: {amount}"));
        let noted = match advice.reason.as_ref().map(|reason| &reason.basis) {
            Some(Basis::History { percentile, .. }) => percentile.to_string(),
            _ => String::new(),
        };
        writeln!(page, "\n{place}, {}:", used.heading());
        page.lines(&used.plot(charset, &noted, &recommended.unwrap_or_default()));
    }
}

/// The units of memory and of storage in the rows.
struct Units {
    memory: Unit,
    storage: Unit,
}

impl Units {
    fn of(report: &Recommendations) -> Self {
        let unit = |resource: Resource| {
            let advices = report.containers().filter_map(|(_, container)| container.resource(resource));
            let amounts = advices.flat_map(|advice| {
                let request = advice.request.as_ref().map(|request| &request.value);
                [request, advice.recommended.as_ref(), advice.used.as_ref().map(|used| used.peak())]
                    .into_iter()
                    .flatten()
            });
            Unit::of(resource.name(), amounts)
        };
        Self { memory: unit(Resource::Memory), storage: unit(Resource::EphemeralStorage) }
    }

    fn number(&self, resource: Resource, amount: &Quantity) -> String {
        match resource {
            Resource::Cpu => Unit::Cores,
            Resource::Memory => self.memory,
            Resource::EphemeralStorage => self.storage,
        }
        .number(amount)
    }
}

fn rows(report: &Recommendations, view: View) -> Table {
    let units = Units::of(report);
    let [memory, storage] =
        [("MEMORY", units.memory), ("STORAGE", units.storage)].map(|(name, unit)| format!("{name} ({})", unit.name()));
    let mut header =
        vec!["NAMESPACE", "WORKLOAD", "CONTAINER", "CPU (cores)", "CPU P95", memory.as_str(), "MEMORY PEAK"];
    let knows_storage = report.containers().any(|(_, container)| {
        let storage = container.resource(Resource::EphemeralStorage);
        storage.is_some_and(|advice| advice.used.is_some() || advice.recommended.is_some())
    });
    if knows_storage {
        header.extend([storage.as_str(), "STORAGE PEAK"]);
    }
    header.extend(["PODS", "CPU SAVED", "MEMORY SAVED"]);
    let has_prices = report.prices.cpu.is_some() || report.prices.memory.is_some();
    if has_prices {
        header.push("PER MONTH");
    }
    header.extend(["EVIDENCE", "SEVERITY"]);
    let has_deciders = report.workloads.iter().any(|of| !of.decided_by.is_empty());
    if has_deciders {
        header.push("DECIDED BY");
    }
    if view.is_wide {
        header.extend(WIDE);
    } else {
        header.push("FLAGS");
    }
    let spare = if report.totals.len() == 1 { [&["NAMESPACE"], &SPARE[..]].concat() } else { SPARE.to_vec() };
    let mut table = Table::new(&header).right(&NUMBERS).spare(&spare);
    for (of, container) in report.containers() {
        let mut cells = vec![
            of.key.namespace.clone(),
            of.key.to_string(),
            if container.is_init { format!("{} (init)", container.name) } else { container.name.clone() },
        ];
        for resource in CPU_AND_MEMORY.into_iter().chain(knows_storage.then_some(Resource::EphemeralStorage)) {
            let advice = container.resource(resource);
            cells.push(request(advice, &units, view.paint));
            cells.push(
                advice.and_then(ResourceAdvice::mostly_used).map_or_else(dash, |amount| units.number(resource, amount)),
            );
        }
        cells.push(of.pods.to_string());
        for resource in CPU_AND_MEMORY {
            let saved = of.saved_by(container, resource);
            cells.push(saved.map_or_else(dash, |amount| units.number(resource, &amount)));
        }
        if has_prices {
            cells.push(report.money_of(of, container).map_or_else(dash, |money| report.prices.shown(money)));
        }
        cells.push(container.evidence.as_ref().map_or_else(dash, ToString::to_string));
        cells.push(severity(container.severity, view.paint));
        if has_deciders {
            cells.push(if of.decided_by.is_empty() { dash() } else { of.decided_by.join(", ") });
        }
        if view.is_wide {
            cells.extend(wide(of, container, &units, view.charset));
        } else {
            let flags = container.flag_text();
            cells.push(if container.oom_kills > 0 { view.paint.red(&flags) } else { flags });
        }
        table.row(cells);
    }
    table
}

/// `0.50 -> 0.12`, `- -> 0.12`, or `0.50` where nothing is to be changed.
fn request(advice: Option<&ResourceAdvice>, units: &Units, paint: Paint) -> String {
    let Some(advice) = advice else { return dash() };
    let current = advice.request.as_ref().map_or_else(dash, |request| {
        let number = units.number(advice.resource, &request.value);
        // In parentheses it counts, though nobody wrote it.
        if request.from == RequestOrigin::Author { number } else { format!("({number})") }
    });
    let Some(recommended) = advice.to_write() else { return current };
    let number = units.number(advice.resource, recommended);
    let painted = if advice.is_raised() { paint.red(&number) } else { paint.green(&number) };
    format!("{current} -> {painted}")
}

fn severity(severity: Severity, paint: Paint) -> String {
    let text = severity.to_string();
    match severity {
        Severity::Critical => paint.red(&text),
        Severity::Ok => paint.green(&text),
        Severity::Warning | Severity::Adjust | Severity::Unknown => text,
    }
}

fn wide(of: &Workload, container: &ContainerAdvice, units: &Units, charset: Charset) -> [String; 12] {
    let is_killed = container.oom_kills > 0;
    let is_memory = |advice: &ResourceAdvice| advice.resource == Resource::Memory;
    let [cpu, memory] = CPU_AND_MEMORY.map(|resource| container.resource(resource));
    let limit = |advice: Option<&ResourceAdvice>| {
        let Some(advice) = advice else { return dash() };
        let number = |amount: &Quantity| units.number(advice.resource, amount);
        let current = advice.limit.as_ref().map_or_else(dash, number);
        match &advice.recommended_limit {
            Some(limit) => format!("{current} -> {}", number(limit)),
            None => current,
        }
    };
    let change = |advice: Option<&ResourceAdvice>| match advice.and_then(|advice| advice.change.as_ref()) {
        // Nothing is fine about a container that is killed.
        Some(change) if change.amount.is_zero() && is_killed && advice.is_some_and(is_memory) => {
            "raise the limit".to_owned()
        }
        Some(change) => change.percent.map_or_else(dash, |percent| format!("{percent:+}%")),
        None => dash(),
    };
    let drawn = |advice: Option<&ResourceAdvice>| {
        advice.and_then(|advice| advice.used.as_ref()).map_or_else(dash, |used| used.columns(charset))
    };
    let qos = if of.qos == of.qos_after { of.qos.to_owned() } else { format!("{} -> {}", of.qos, of.qos_after) };
    let scaled = of.autoscalers.iter();
    let scaled = scaled.map(|of| format!("{} {}% -> {}%", of.resource, of.target_percent, of.target_to_keep));
    let scaled = scaled.collect::<Vec<_>>().join("; ");
    [
        change(cpu),
        drawn(cpu),
        change(memory),
        drawn(memory),
        limit(cpu),
        limit(memory),
        qos,
        container.oom_kills.to_string(),
        container.throttled_percent.map_or_else(dash, |percent| format!("{percent}%")),
        container.restarts.to_string(),
        if scaled.is_empty() { dash() } else { scaled },
        container.image.clone(),
    ]
}

fn total_cells(report: &Recommendations, total: &Total, unit: Unit) -> Vec<String> {
    let mut cells = vec![
        total.namespace.clone().unwrap_or_else(|| "TOTAL".to_owned()),
        total.workloads.to_string(),
        total.containers.to_string(),
        total.without_advice.to_string(),
    ];
    for (unit, sum) in [(Unit::Cores, &total.cpu), (unit, &total.memory)] {
        cells.extend([&sum.requested, &sum.recommended, &sum.saved].map(|amount| unit.number(amount)));
    }
    cells.extend(total.saved_a_month.map(|money| report.prices.shown(money)));
    cells
}

fn quotas(page: &mut Page, report: &Recommendations, paint: Paint) {
    if report.quotas.is_empty() {
        return;
    }
    let numbers = ["USED", "CHANGE", "AFTER", "HARD"];
    let header = ["NAMESPACE", "QUOTA", "RESOURCE", "USED", "CHANGE", "AFTER", "HARD", ""];
    let mut table = Table::new(&header).right(&numbers).spare(&["CHANGE", "NAMESPACE"]);
    for effect in &report.quotas {
        let QuotaKey { namespace, quota, name } = &effect.level.key;
        let [used, after, hard] = effect.amounts().map(|of| people::amount(name, of));
        let after = if effect.fits { after } else { paint.red(&after) };
        let warning = if effect.fits { String::new() } else { paint.red("exceeds quota") };
        let [namespace, quota, resource] = [namespace, quota, name].map(String::clone);
        table.row([namespace, quota, resource, used, people::change(name, &effect.change), after, hard, warning]);
    }
    writeln!(page, "\nQuotas after applying all recommendations:");
    page.table(table);
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_list_the_first_lines_are_shown_and_all_with_wide() {
        let lines: Vec<String> = (1..=FEW + 2).map(|number| format!("line {number}")).collect();
        let shown = |is_wide| {
            let mut page = Page::new();
            let view = View { is_wide, charset: Charset::Ascii, paint: Paint::OFF };
            first(&mut page, view, "Blocked:", &lines);
            page.to_string()
        };
        assert!(shown(false).ends_with("  line 20\n  and 2 more: -o wide lists all\n\n"), "{}", shown(false));
        assert!(shown(true).ends_with("  line 21\n  line 22\n\n"), "{}", shown(true));
    }
}
