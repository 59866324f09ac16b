//! A report for people: a table, sums by namespace, reasons, and what else is to know.

use std::fmt;

use headroom_core::amount::{Family, Quantity};
use headroom_core::cluster::usage::Resource;
use headroom_core::estimate::Basis;
use headroom_report::draw::Charset;
use headroom_report::{Page, Paint, Table};

use super::amounts::signed;
use super::recommendation::NO_USAGE_DATA;
use super::report::{Report, Total};
use super::workload::{Container, ResourceAdvice, Workload};

/// How the table looks.
#[derive(Debug, Clone, Copy)]
pub struct View {
    pub is_wide: bool,
    /// Nothing but the rows, for scripts.
    pub is_bare: bool,
    pub charset: Charset,
    pub paint: Paint,
}

/// The reasons of so many containers are printed without being asked for.
const FEW: usize = 20;
/// The distributions of so many are drawn.
const DRAWN: usize = 2;

const HEADER: [&str; 10] = [
    "NAMESPACE",
    "WORKLOAD",
    "CONTAINER",
    "PODS",
    "CPU REQUEST",
    "CPU P95",
    "MEMORY REQUEST",
    "MEMORY PEAK",
    "SAVED",
    "EVIDENCE",
];
/// Where the store was asked for it, and knows it.
const STORAGE: [&str; 2] = ["STORAGE REQUEST", "STORAGE PEAK"];
const WIDE: [&str; 13] = [
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
    "MANAGED BY",
    "IMAGE",
];

const CPU_AND_MEMORY: [Resource; 2] = [Resource::Cpu, Resource::Memory];

pub fn page(report: &Report, view: View) -> Page {
    let mut page = Page::new();
    if view.is_bare {
        page.table(rows(report, view).without_header());
        return page;
    }
    if !report.headline().is_empty() {
        writeln!(page, "{}", report.headline());
        page.gap();
    }
    if !report.risks.is_empty() {
        writeln!(page, "{}", view.paint.strong("Fix first:"));
        report.risks.iter().for_each(|risk| writeln!(page, "  {}", view.paint.bad(&risk.to_string())));
        page.gap();
    }
    page.table(rows(report, view));
    if report.workloads.len() > 1 {
        let mut totals = Table::new(&total_header(report));
        report.totals.iter().chain([&report.total]).for_each(|total| totals.row(total_cells(total)));
        page.gap();
        page.table(totals);
    }
    writeln!(page, "\n{}", report.source);
    if view.is_wide || report.containers().count() <= FEW {
        section(&mut page, "Reasons", reasons(report));
    }
    if report.containers().count() <= DRAWN {
        report.containers().for_each(|(of, container)| plots(&mut page, of, container, view.charset));
    }
    quotas(&mut page, report, view.paint);
    section(&mut page, "Autoscalers", report.scaled());
    section(&mut page, "Flags", flags_explained(report));
    section(&mut page, "Notes", report.all_notes());
    page
}

fn section(page: &mut Page, heading: &str, lines: Vec<String>) {
    if !lines.is_empty() {
        writeln!(page, "\n{heading}:");
        lines.iter().for_each(|line| writeln!(page, "  {line}"));
    }
}

/// `deployment/web nginx cpu: p90 of 7d nginx:1.27 in this namespace, …`
fn reasons(report: &Report) -> Vec<String> {
    let of_container = |(of, container): (&Workload, &Container)| {
        let line = |advice: &ResourceAdvice| {
            format!("{} {} {}: {}", of.key, container.name, advice.resource.name(), advice.explained())
        };
        container.resources.iter().map(line).collect::<Vec<_>>()
    };
    report.containers().flat_map(of_container).collect()
}

fn plots(page: &mut Page, of: &Workload, container: &Container, charset: Charset) {
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

fn rows(report: &Report, view: View) -> Table {
    let mut header: Vec<&str> = HEADER.to_vec();
    let knows_storage = report.containers().any(|(_, container)| {
        let storage = container.resource(Resource::EphemeralStorage);
        storage.is_some_and(|advice| advice.used.is_some() || advice.recommended.is_some())
    });
    if knows_storage {
        STORAGE.into_iter().rev().for_each(|name| header.insert(8, name));
    }
    let has_prices = report.prices.cpu.is_some() || report.prices.memory.is_some();
    if has_prices {
        header.insert(if knows_storage { 11 } else { 9 }, "PER MONTH");
    }
    if view.is_wide {
        header.extend(WIDE);
    } else {
        header.push("FLAGS");
    }
    let mut table = Table::new(&header);
    for (of, container) in report.containers() {
        let mut cells = vec![
            of.key.namespace.clone(),
            of.key.to_string(),
            if container.is_init { format!("{} (init)", container.name) } else { container.name.clone() },
            of.pods.to_string(),
        ];
        for resource in CPU_AND_MEMORY.into_iter().chain(knows_storage.then_some(Resource::EphemeralStorage)) {
            let advice = container.resource(resource);
            cells.push(request(advice, view.paint));
            cells.push(advice.and_then(typical).unwrap_or_else(dash));
        }
        cells.push(saved(of, container));
        if has_prices {
            let [cpu, memory] = CPU_AND_MEMORY.map(|resource| of.saved_by(container, resource));
            let is_known = cpu.is_some() || memory.is_some();
            let [cpu, memory] = [cpu, memory].map(|saved| saved.unwrap_or(Quantity::ZERO));
            let money = report.prices.money(&cpu, &memory).filter(|_| is_known);
            cells.push(money.map_or_else(dash, |money| money.to_string()));
        }
        cells.push(evidence(container));
        if view.is_wide {
            cells.extend(wide(of, container, view.charset));
        } else {
            let flags: Vec<String> = flags(of, container).iter().map(ToString::to_string).collect();
            let flags = flags.join(", ");
            cells.push(if container.oom_kills > 0 { view.paint.bad(&flags) } else { flags });
        }
        table.row(cells);
    }
    table
}

/// `500m -> 120m`, `- -> 120m`, or `500m` where nothing is to be changed.
fn request(advice: Option<&ResourceAdvice>, paint: Paint) -> String {
    let Some(advice) = advice else { return dash() };
    // In parentheses it counts, though nobody wrote it.
    let current = advice.request.as_ref().map_or_else(dash, ToString::to_string);
    let Some(recommended) = advice.to_write() else { return current };
    let recommended = recommended.to_string();
    let is_more = advice.saved(1).is_some_and(|saved| saved.is_negative());
    let painted = if is_more { paint.bad(&recommended) } else { paint.good(&recommended) };
    format!("{current} -> {painted}")
}

/// The amount of usage that requests are compared with: what CPU mostly needs, and what memory needs at most.
pub fn typical(advice: &ResourceAdvice) -> Option<String> {
    let used = advice.used.as_ref()?;
    let amount = if advice.resource == Resource::Cpu { used.percentile(950)? } else { used.peak() };
    Some(short(advice.resource, amount))
}

/// `1140m, 2142Mi` over all pods.
pub fn saved(of: &Workload, container: &Container) -> String {
    let saved = CPU_AND_MEMORY.map(|resource| of.saved_by(container, resource).map(|amount| short(resource, &amount)));
    match saved {
        [None, None] => dash(),
        [cpu, memory] => format!("{}, {}", cpu.unwrap_or_else(dash), memory.unwrap_or_else(dash)),
    }
}

fn evidence(container: &Container) -> String {
    container.evidence.as_ref().map_or_else(|| NO_USAGE_DATA.to_owned(), ToString::to_string)
}

/// What a person should look at before taking a recommendation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    OomKills(u64),
    Throttled(u64),
    Restarts(u64),
    Limit,
    Autoscaler,
    QosClass,
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OomKills(kills) => write!(f, "oom {kills}"),
            Self::Throttled(percent) => write!(f, "throttled {percent}%"),
            Self::Restarts(restarts) => write!(f, "restarts {restarts}"),
            Self::Limit => f.write_str("limit"),
            Self::Autoscaler => f.write_str("hpa"),
            Self::QosClass => f.write_str("qos"),
        }
    }
}

pub fn flags(of: &Workload, container: &Container) -> Vec<Flag> {
    let has_limit = container.resource(Resource::Memory).is_some_and(|memory| memory.recommended_limit.is_some());
    let throttled = container.throttled_percent.filter(|_| container.is_much_throttled());
    let flags = [
        (container.oom_kills > 0).then_some(Flag::OomKills(container.oom_kills)),
        throttled.map(Flag::Throttled),
        (container.restarts > 0).then_some(Flag::Restarts(container.restarts)),
        has_limit.then_some(Flag::Limit),
        (!of.autoscalers.is_empty()).then_some(Flag::Autoscaler),
        (of.qos != of.qos_after).then_some(Flag::QosClass),
    ];
    flags.into_iter().flatten().collect()
}

fn flags_explained(report: &Report) -> Vec<String> {
    let all: Vec<Flag> = report.containers().flat_map(|(of, container)| flags(of, container)).collect();
    let is_throttled = |flag: &Flag| matches!(flag, Flag::Throttled(_));
    let explained = [
        (
            all.iter().any(is_throttled),
            "throttled: CPU usage is what the limit allowed, not what was wanted: raise or remove the CPU limit, then \
             look again",
        ),
        (all.contains(&Flag::Limit), "limit: a new memory limit is recommended beside the request: see -o wide"),
        (all.contains(&Flag::QosClass), "qos: the pod's QoS class would change: see -o wide"),
    ];
    explained.into_iter().filter(|(is_used, _)| *is_used).map(|(_, text)| text.to_owned()).collect()
}

fn wide(of: &Workload, container: &Container, charset: Charset) -> [String; 13] {
    let is_killed = container.oom_kills > 0;
    let is_memory = |advice: &ResourceAdvice| advice.resource == Resource::Memory;
    let [cpu, memory] = CPU_AND_MEMORY.map(|resource| container.resource(resource));
    let limit = |advice: Option<&ResourceAdvice>| {
        let current = advice.and_then(|advice| advice.limit.as_ref()).map_or_else(dash, ToString::to_string);
        match advice.and_then(|advice| advice.recommended_limit.as_ref()) {
            Some(limit) => format!("{current} -> {limit}"),
            None => current,
        }
    };
    let change = |advice: Option<&ResourceAdvice>| match advice.and_then(|advice| advice.change.as_ref()) {
        // Nothing is fine about a container that is killed.
        Some(change) if change.amount.is_zero() && is_killed && advice.is_some_and(is_memory) => {
            "raise the limit".to_owned()
        }
        change => change.map_or_else(dash, ToString::to_string),
    };
    let drawn = |advice: Option<&ResourceAdvice>| {
        advice.and_then(|advice| advice.used.as_ref()).map_or_else(dash, |used| used.columns(charset))
    };
    let qos = if of.qos == of.qos_after { of.qos.to_owned() } else { format!("{} -> {}", of.qos, of.qos_after) };
    let scaled: Vec<String> = of
        .autoscalers
        .iter()
        .map(|scaled| format!("{} {}% -> {}%", scaled.resource, scaled.target_percent, scaled.target_to_keep))
        .collect();
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
        if scaled.is_empty() { dash() } else { scaled.join("; ") },
        of.managed_by.clone().unwrap_or_else(dash),
        container.image.clone(),
    ]
}

fn total_header(report: &Report) -> Vec<&'static str> {
    let mut header = vec![
        "NAMESPACE",
        "WORKLOADS",
        "CONTAINERS",
        "WITHOUT ADVICE",
        "CPU REQUESTED",
        "RECOMMENDED",
        "SAVED",
        "MEMORY REQUESTED",
        "RECOMMENDED",
        "SAVED",
    ];
    if report.total.saved_a_month.is_some() {
        header.push("PER MONTH");
    }
    header
}

fn total_cells(total: &Total) -> Vec<String> {
    let mut cells = vec![
        total.namespace.clone().unwrap_or_else(|| "TOTAL".to_owned()),
        total.workloads.to_string(),
        total.containers.to_string(),
        total.without_advice.to_string(),
    ];
    for (resource, sum) in [(Resource::Cpu, &total.cpu), (Resource::Memory, &total.memory)] {
        cells.extend([&sum.requested, &sum.recommended, &sum.saved].map(|amount| short(resource, amount)));
    }
    cells.extend(total.saved_a_month.map(|money| money.to_string()));
    cells
}

fn quotas(page: &mut Page, report: &Report, paint: Paint) {
    if report.quotas.is_empty() {
        return;
    }
    let mut table = Table::new(&["NAMESPACE", "QUOTA", "RESOURCE", "USED", "CHANGE", "AFTER", "HARD"]);
    for effect in &report.quotas {
        let after =
            if effect.fits { effect.used_after.to_string() } else { format!("{} (exceeds quota)", effect.used_after) };
        let after = if effect.fits { after } else { paint.bad(&after) };
        let names = [&effect.namespace, &effect.quota, &effect.resource].map(String::clone);
        let before = names.into_iter().chain([effect.used.to_string(), signed(&effect.change)]);
        table.row(before.chain([after, effect.hard.to_string()]));
    }
    writeln!(page, "\nQuotas, with all advice taken:");
    page.table(table);
}

/// An amount that a person can read: whole thousandths of a core, whole mebibytes.
pub fn short(resource: Resource, amount: &Quantity) -> String {
    if resource == Resource::Cpu {
        return amount.rounded_up_to_milli().to_string();
    }
    let mebibyte = Quantity::from_bytes(1 << 20);
    amount.rounded_up_to_multiple_of(&mebibyte).to_family(Family::BinarySi).to_string()
}

fn dash() -> String {
    "-".to_owned()
}
