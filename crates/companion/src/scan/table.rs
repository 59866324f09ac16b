//! A report for people: a table, sums by namespace, and what else is to know.

use headroom_core::amount::{Family, Quantity};
use headroom_core::cut::count_of;

use super::report::{ContainerRow, Report, ResourceRow, Row, Total};
use crate::output::{Paint, Table};

/// How the table looks.
#[derive(Debug, Clone, Copy)]
pub struct View {
    pub is_wide: bool,
    /// Nothing but the rows, for scripts.
    pub is_bare: bool,
    pub paint: Paint,
}

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
const WIDE: [&str; 9] =
    ["CPU LIMIT", "MEMORY LIMIT", "QOS", "OOM", "THROTTLED", "RESTARTS", "AUTOSCALER", "MANAGED BY", "IMAGE"];

pub fn text(report: &Report, view: View) -> String {
    let mut text = rows(report, view);
    if view.is_bare {
        return text;
    }
    let mut totals = Table::new(&total_header(report));
    report.totals.iter().chain([&report.total]).for_each(|total| totals.row(total_cells(total)));
    text.push_str(&format!("\n{totals}\n{}\n", report.source.told()));
    quotas(&mut text, report, view.paint);
    let scaled = report.workloads.iter().flat_map(|row| row.autoscalers.iter().map(move |scaled| (row, scaled)));
    let scaled: Vec<String> =
        scaled.map(|(row, scaled)| format!("{} {}: {}", row.namespace, row.told(), scaled.told())).collect();
    for (heading, lines) in [("Autoscalers", scaled), ("Flags", flags_explained(report)), ("Notes", notes(report))] {
        if !lines.is_empty() {
            text.push_str(&format!("\n{heading}:\n"));
            lines.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
        }
    }
    text
}

fn rows(report: &Report, view: View) -> String {
    let mut header: Vec<&str> = HEADER.to_vec();
    let storage = Some("ephemeral-storage").filter(|name| {
        report.containers().any(|(_, container)| {
            container.resource(name).is_some_and(|row| row.used.is_some() || row.recommended.is_some())
        })
    });
    if storage.is_some() {
        STORAGE.into_iter().rev().for_each(|name| header.insert(8, name));
    }
    let has_prices = report.prices.cpu.is_some() || report.prices.memory.is_some();
    if has_prices {
        header.insert(if storage.is_some() { 11 } else { 9 }, "PER MONTH");
    }
    if view.is_wide {
        header.extend(WIDE);
    } else {
        header.push("FLAGS");
    }
    let mut table = if view.is_bare { Table::default() } else { Table::new(&header) };
    for (row, container) in report.containers() {
        let plain = |text: String| (text.clone(), text);
        let mut cells = vec![
            plain(row.namespace.clone()),
            plain(row.told()),
            plain(if container.is_init { format!("{} (init)", container.name) } else { container.name.clone() }),
            plain(row.pods.to_string()),
        ];
        for name in ["cpu", "memory"].into_iter().chain(storage) {
            let resource = container.resource(name);
            cells.push(request(resource, view.paint));
            let used = resource.and_then(|resource| resource.used.as_ref());
            let figure = used.map(|used| if name == "cpu" { &used.p95 } else { &used.peak });
            cells.push(plain(figure.map_or_else(dash, |amount| short(name, amount))));
        }
        cells.push(plain(saved(container)));
        if has_prices {
            let nothing = || Quantity::ZERO;
            let (cpu, memory) = (container.saved("cpu"), container.saved("memory"));
            let is_known = cpu.is_some() || memory.is_some();
            let money =
                report.prices.money(&cpu.unwrap_or_else(nothing), &memory.unwrap_or_else(nothing)).filter(|_| is_known);
            cells.push(plain(money.map_or_else(dash, |money| money.to_string())));
        }
        cells.push(plain(evidence(container)));
        if view.is_wide {
            cells.extend(wide(row, container).into_iter().map(plain));
        } else {
            let flags = flags(row, container).join(", ");
            let painted = if container.oom_kills > 0 { view.paint.bad(&flags) } else { flags.clone() };
            cells.push((flags, painted));
        }
        table.painted_row(cells);
    }
    table.to_string()
}

/// `500m -> 120m`, `- -> 120m`, or `500m` where nothing is to be changed.
fn request(row: Option<&ResourceRow>, paint: Paint) -> (String, String) {
    let Some(row) = row else { return (dash(), dash()) };
    let current = match &row.request {
        Some(current) if current.from == "author" => current.value.clone(),
        // Nobody wrote it, but it counts all the same.
        Some(current) => format!("({})", current.value),
        None => dash(),
    };
    let Some(recommended) = row.recommended.as_ref().filter(|_| row.to_write().is_some()) else {
        return (current.clone(), current);
    };
    // What is only usual for the image is no measurement.
    let recommended = if row.is_measured { recommended.clone() } else { format!("{recommended}?") };
    let is_more = row.saved().is_some_and(|saved| saved.is_negative());
    let painted = if is_more { paint.bad(&recommended) } else { paint.good(&recommended) };
    (format!("{current} -> {recommended}"), format!("{current} -> {painted}"))
}

/// `1140m, 2142Mi` over all pods.
fn saved(container: &ContainerRow) -> String {
    let saved = ["cpu", "memory"].map(|name| container.saved(name).map(|amount| short(name, &amount)));
    match saved {
        [None, None] => dash(),
        [cpu, memory] => format!("{}, {}", cpu.unwrap_or_else(dash), memory.unwrap_or_else(dash)),
    }
}

fn evidence(container: &ContainerRow) -> String {
    let Some(evidence) = &container.evidence else { return "none".to_owned() };
    format!("{}d, {}", evidence.days, count_of(evidence.pods, "pod"))
}

/// What a person should look at before taking the advice.
pub fn flags(row: &Row, container: &ContainerRow) -> Vec<String> {
    let mut flags = Vec::new();
    if container.oom_kills > 0 {
        flags.push(format!("oom {}", container.oom_kills));
    }
    if let Some(percent) = container.throttled_percent.filter(|_| container.is_much_throttled()) {
        flags.push(format!("throttled {percent}%"));
    }
    if container.restarts > 0 {
        flags.push(format!("restarts {}", container.restarts));
    }
    if container.resource("memory").is_some_and(|memory| memory.recommended_limit.is_some()) {
        flags.push("limit".to_owned());
    }
    if !row.autoscalers.is_empty() {
        flags.push("hpa".to_owned());
    }
    if row.qos != row.qos_after {
        flags.push("qos".to_owned());
    }
    if container.evidence.is_none() && !container.is_without_advice() {
        flags.push("unmeasured".to_owned());
    }
    flags
}

fn flags_explained(report: &Report) -> Vec<String> {
    let explained = [
        (
            "throttled",
            "CPU usage is what the limit allowed, not what was wanted: raise or remove the CPU limit, then scan again",
        ),
        ("limit", "a new memory limit is recommended beside the request: see -o wide"),
        ("qos", "the pod's QoS class would change: see -o wide"),
        ("unmeasured", "no usage was found: the request is what is usual for the image, marked with `?`"),
    ];
    let all: Vec<String> = report.containers().flat_map(|(row, container)| flags(row, container)).collect();
    let is_used = |flag: &str| all.iter().any(|used| used.starts_with(flag));
    let told = explained.into_iter().filter(|(flag, _)| is_used(flag));
    told.map(|(flag, meaning)| format!("{flag}: {meaning}")).collect()
}

fn wide(row: &Row, container: &ContainerRow) -> [String; 9] {
    let limit = |name: &str| {
        let Some(resource) = container.resource(name) else { return dash() };
        let current = resource.limit.clone().unwrap_or_else(dash);
        match &resource.recommended_limit {
            Some(limit) => format!("{current} -> {limit}"),
            None => current,
        }
    };
    let qos = if row.qos == row.qos_after { row.qos.to_owned() } else { format!("{} -> {}", row.qos, row.qos_after) };
    let scaled: Vec<String> = row
        .autoscalers
        .iter()
        .map(|scaled| format!("{} {}% -> {}%", scaled.resource, scaled.target_percent, scaled.target_to_keep))
        .collect();
    [
        limit("cpu"),
        limit("memory"),
        qos,
        container.oom_kills.to_string(),
        container.throttled_percent.map_or_else(dash, |percent| format!("{percent}%")),
        container.restarts.to_string(),
        if scaled.is_empty() { dash() } else { scaled.join("; ") },
        row.managed_by.clone().unwrap_or_else(dash),
        printable(&container.image),
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
    for (name, sum) in [("cpu", &total.cpu), ("memory", &total.memory)] {
        cells.extend([&sum.requested, &sum.recommended, &sum.saved].map(|amount| short(name, amount)));
    }
    cells.extend(total.saved_a_month.map(|money| money.to_string()));
    cells
}

fn quotas(text: &mut String, report: &Report, paint: Paint) {
    if report.quotas.is_empty() {
        return;
    }
    let mut table = Table::new(&["NAMESPACE", "QUOTA", "RESOURCE", "USED", "CHANGE", "AFTER", "HARD"]);
    for effect in &report.quotas {
        let after =
            if effect.fits { effect.used_after.clone() } else { format!("{} (exceeds quota)", effect.used_after) };
        let painted = if effect.fits { after.clone() } else { paint.bad(&after) };
        let plain = |text: &String| (text.clone(), text.clone());
        let before = [&effect.namespace, &effect.quota, &effect.resource, &effect.used, &effect.change].map(plain);
        table.painted_row(before.into_iter().chain([(after, painted), plain(&effect.hard)]));
    }
    text.push_str(&format!("\nQuotas, with all advice taken:\n{table}"));
}

/// Each note once, with the first workload that it is about.
pub fn notes(report: &Report) -> Vec<String> {
    let mut about: Vec<(&str, Vec<String>)> = Vec::new();
    for row in &report.workloads {
        for note in &row.notes {
            let subject = format!("{} {}", row.namespace, row.told());
            match about.iter_mut().find(|(have, _)| have == note) {
                Some((_, subjects)) => subjects.push(subject),
                None => about.push((note, vec![subject])),
            }
        }
    }
    let worded = about.into_iter().map(|(note, subjects)| match subjects.as_slice() {
        [] => note.to_owned(),
        [one] => format!("{one}: {note}"),
        [first, others @ ..] => format!("{first} and {} more: {note}", others.len()),
    });
    worded.chain(report.notes.iter().cloned()).collect()
}

/// An amount that a person can read: whole thousandths of a core, whole mebibytes.
pub fn short(name: &str, amount: &Quantity) -> String {
    if name == "cpu" {
        return amount.rounded_up_to_milli().to_string();
    }
    let mebibyte = Quantity::from_bytes(1 << 20);
    amount.rounded_up_to_multiple_of(&mebibyte).to_family(Family::BinarySi).to_string()
}

/// The API server takes any text for an image, and a terminal obeys some.
fn printable(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '\u{fffd}' } else { character }).collect()
}

fn dash() -> String {
    "-".to_owned()
}
