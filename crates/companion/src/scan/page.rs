//! A report as one HTML page that needs nothing else: no network, no other file. Rows stand in the page itself; its script
//! only sorts and filters them.
//!
//! Names and images are whatever somebody typed, so every text is escaped, and the page's own policy lets no script run but
//! the one it came with.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use headroom_core::amount::Quantity;
use headroom_core::cut::count_of;

use super::report::{ContainerRow, Report, ResourceRow, Row, Total};
use super::table::{self, short};
use crate::recommend::QuotaEffect;

const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// Columns of the main table, and whether they are numbers.
const COLUMNS: [(&str, bool); 14] = [
    ("Namespace", false),
    ("Workload", false),
    ("Container", false),
    ("Pods", true),
    ("CPU now", true),
    ("Recommended", true),
    ("CPU saved", true),
    ("CPU used", true),
    ("Memory now", true),
    ("Recommended", true),
    ("Memory saved", true),
    ("Memory used", true),
    ("Evidence", true),
    ("Flags", false),
];

/// The filter of the main table, and what the marks in it mean.
const CONTROLS: &str = r#"<input id="filter" type="search" placeholder="Filter by name, image or flag" aria-label="Filter">
<span id="count" class="faint"></span>
<div class="key">
<span><svg width="44" height="12"><line class="line" x1="10" x2="40" y1="6" y2="6"/><rect class="range" x="6" y="1" width="22" height="10" rx="2"/></svg>used, p50 to p95, and its peak</span>
<span><svg width="8" height="14"><line class="now" x1="4" x2="4" y1="0" y2="14"/></svg>request now</span>
<span><svg width="8" height="14"><line class="advice" x1="4" x2="4" y1="0" y2="14"/></svg>recommended</span>
</div>
"#;

/// The page. `made_at` is told as it is.
pub fn html(report: &Report, made_at: &str) -> String {
    let hash = |text: &str| STANDARD.encode(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    );
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Headroom scan</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n"
    );
    head(&mut page, report, made_at);
    quotas(&mut page, &report.quotas);
    namespaces(&mut page, report);
    containers(&mut page, report);
    autoscalers(&mut page, report);
    list(&mut page, "Notes", table::notes(report));
    let _ = write!(page, "<script>{SCRIPT}</script>\n</body>\n</html>\n");
    page
}

fn head(page: &mut String, report: &Report, made_at: &str) {
    let partial = if report.source.is_partial { " Some of it could not be read: see the notes." } else { "" };
    let _ = write!(
        page,
        "<header><h1>Headroom scan</h1><p>{}. Made {}.{partial}</p>\
         <button id=\"look\" type=\"button\">Dark or light</button></header>\n<div class=\"tiles\">\n",
        escaped(&report.source.told()),
        escaped(made_at)
    );
    let total = &report.total;
    let mut tiles = vec![
        (short("cpu", &total.cpu.saved), "CPU requests saved".to_owned()),
        (short("memory", &total.memory.saved), "memory requests saved".to_owned()),
        (
            format!("{} → {}", short("cpu", &total.cpu.requested), short("cpu", &total.cpu.recommended)),
            "CPU requested and recommended".to_owned(),
        ),
        (
            format!("{} → {}", short("memory", &total.memory.requested), short("memory", &total.memory.recommended)),
            "memory requested and recommended".to_owned(),
        ),
        (
            format!("{} / {}", total.containers - total.without_advice, total.containers),
            "containers with advice".to_owned(),
        ),
    ];
    tiles.extend(total.saved_a_month.map(|money| (money.to_string(), "saved per month".to_owned())));
    for (figure, what) in tiles {
        let _ = writeln!(page, "<div class=\"tile\"><b>{}</b><span>{}</span></div>", escaped(&figure), escaped(&what));
    }
    page.push_str("</div>\n");
}

fn quotas(page: &mut String, quotas: &[QuotaEffect]) {
    if quotas.is_empty() {
        return;
    }
    page.push_str("<h2>Quotas, with all advice taken</h2>\n<div class=\"wide\"><table id=\"quotas\"><thead><tr>");
    for heading in ["Namespace", "Quota", "Resource", "Used and after", "Used", "After", "Hard"] {
        let _ = write!(page, "<th>{heading}</th>");
    }
    page.push_str("</tr></thead><tbody>\n");
    for effect in quotas {
        let share = |amount: &str| percent(amount, &effect.hard);
        let _ = write!(page, "<tr>");
        for cell in [&effect.namespace, &effect.quota, &effect.resource] {
            let _ = write!(page, "<td>{}</td>", escaped(cell));
        }
        // Widths are attributes of an image, since the page's policy lets no element style itself.
        let _ = write!(page, "<td>{}</td>", quota_bar(share(&effect.used), share(&effect.used_after), effect.fits));
        let way = if effect.fits { "" } else { " class=\"more\"" };
        let _ = writeln!(
            page,
            "<td>{}</td><td{way}>{}</td><td>{}</td></tr>",
            escaped(&effect.used),
            escaped(&effect.used_after),
            escaped(&effect.hard)
        );
    }
    page.push_str("</tbody></table></div>\n");
}

fn quota_bar(used: u64, after: u64, fits: bool) -> String {
    let (used, after) = (used.min(100) * 2, after.min(100) * 2);
    let class = if fits { "advice" } else { "advice more" };
    format!(
        "<svg width=\"200\" height=\"14\" role=\"img\" aria-label=\"quota\"><rect class=\"track\" width=\"200\" height=\"14\" rx=\"3\"/>\
         <rect class=\"range\" width=\"{used}\" height=\"14\" rx=\"3\"/>\
         <line class=\"{class}\" x1=\"{after}\" x2=\"{after}\" y1=\"0\" y2=\"14\"/></svg>"
    )
}

fn percent(amount: &str, whole: &str) -> u64 {
    let parsed = |text: &str| text.parse::<Quantity>().map_or(0, |amount| i128::from(amount.milli_value()));
    let (amount, whole) = (parsed(amount), parsed(whole));
    if whole <= 0 { 100 } else { u64::try_from(amount.max(0) * 100 / whole).unwrap_or(100) }
}

fn namespaces(page: &mut String, report: &Report) {
    if report.totals.len() < 2 {
        return;
    }
    page.push_str("<h2>Namespaces</h2>\n<div class=\"wide\"><table id=\"namespaces\"><thead><tr><th>Namespace</th>");
    let mut headings = vec![
        "Workloads",
        "Containers",
        "Without advice",
        "CPU requested",
        "Recommended",
        "Saved",
        "Memory requested",
        "Recommended",
        "Saved",
    ];
    if report.total.saved_a_month.is_some() {
        headings.push("Saved per month");
    }
    for heading in headings {
        let _ = write!(page, "<th class=\"number\">{heading}</th>");
    }
    page.push_str("</tr></thead><tbody>\n");
    for total in report.totals.iter().chain([&report.total]) {
        let Total { namespace, workloads, containers, without_advice, cpu, memory, saved_a_month } = total;
        let name = namespace.as_ref().map_or_else(|| "<b>Total</b>".to_owned(), |name| escaped(name));
        let _ = write!(page, "<tr><td>{name}</td>");
        let mut cells = vec![workloads.to_string(), containers.to_string(), without_advice.to_string()];
        for (resource, sum) in [("cpu", cpu), ("memory", memory)] {
            cells.extend([&sum.requested, &sum.recommended, &sum.saved].map(|amount| short(resource, amount)));
        }
        cells.extend(saved_a_month.map(|money| money.to_string()));
        for cell in cells {
            let _ = write!(page, "<td class=\"number\">{}</td>", escaped(&cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

fn containers(page: &mut String, report: &Report) {
    page.push_str("<h2>Containers</h2>\n");
    page.push_str(CONTROLS);
    page.push_str("<div class=\"wide\"><table id=\"containers\"><thead><tr>");
    for (heading, is_number) in COLUMNS {
        let class = if is_number { " class=\"number\"" } else { "" };
        let _ = write!(page, "<th{class}><button type=\"button\">{heading}</button></th>");
    }
    page.push_str("</tr></thead><tbody>\n");
    for (row, container) in report.containers() {
        container_row(page, row, container);
    }
    page.push_str("</tbody></table></div>\n");
}

fn container_row(page: &mut String, row: &Row, container: &ContainerRow) {
    let flags = table::flags(row, container);
    let (told, all_flags) = (row.told(), flags.join(" "));
    let text = [&row.namespace, &told, &container.name, &container.image, &all_flags].map(String::as_str);
    let _ = write!(page, "<tr data-text=\"{}\">", escaped(&text.join(" ").to_lowercase()));
    let above = [row.managed_by.as_ref().map(|top| format!("managed by {top}")), row.through.clone()];
    let above: Vec<String> = above.into_iter().flatten().collect();
    for (cell, beneath) in [
        (row.namespace.clone(), String::new()),
        (row.told(), above.join(", ")),
        (container.name.clone(), container.image.clone()),
    ] {
        let beneath = if beneath.is_empty() { beneath } else { format!("<small>{}</small>", escaped(&beneath)) };
        let cell = escaped(&cell);
        let _ = write!(page, "<td data-sort=\"{cell}\">{cell}{beneath}</td>");
    }
    number(page, i128::from(row.pods), &row.pods.to_string());
    for name in ["cpu", "memory"] {
        resource_cells(page, name, container.resource(name));
    }
    let samples = container.evidence.as_ref().map_or(0, |evidence| evidence.samples);
    let told = container.evidence.as_ref();
    let told = told.map_or_else(
        || "none".to_owned(),
        |evidence| format!("{}, {}", count_of(evidence.days, "day"), count_of(evidence.pods, "pod")),
    );
    let _ = write!(page, "<td class=\"number\" data-sort=\"{samples}\">{told}");
    let reasons = container.resources.iter().filter(|resource| !resource.reasons.is_empty());
    let reasons: Vec<String> =
        reasons.map(|resource| format!("{}: {}", resource.resource, resource.reasons.join("; "))).collect();
    if !reasons.is_empty() {
        let reasons: String = reasons.iter().map(|reason| format!("<small>{}</small>", escaped(reason))).collect();
        let _ = write!(page, "<details><summary>why</summary>{reasons}</details>");
    }
    page.push_str("</td>");
    let _ = write!(page, "<td data-sort=\"{}\">", escaped(&flags.join(" ")));
    for flag in &flags {
        let class = if flag.starts_with("oom") { "flag bad" } else { "flag" };
        let _ = write!(page, "<span class=\"{class}\">{}</span>", escaped(flag));
    }
    if row.qos != row.qos_after {
        let _ = write!(page, "<small>{} → {}</small>", row.qos, row.qos_after);
    }
    page.push_str("</td></tr>\n");
}

/// Request, recommendation, what is saved, and the distribution.
fn resource_cells(page: &mut String, name: &str, resource: Option<&ResourceRow>) {
    let Some(resource) = resource else {
        return page.push_str(&"<td data-sort=\"-1\" class=\"number faint\">-</td>".repeat(4));
    };
    let amounts = &resource.amounts;
    let sort = |amount: Option<&Quantity>| amount.map_or(-1, |amount| i128::from(amount.milli_value()));
    let told = |amount: Option<&String>| amount.cloned().unwrap_or_else(|| "-".to_owned());
    let limit = |limit: &Option<String>| limit.as_ref().map(|limit| format!("limit {limit}")).unwrap_or_default();
    let request = told(resource.request.as_ref().map(|current| &current.value));
    number_with(page, sort(amounts.current.as_ref()), &request, &limit(&resource.limit), "");
    let beneath = resource.unknown.clone().unwrap_or_else(|| limit(&resource.recommended_limit));
    number_with(page, sort(amounts.recommended.as_ref()), &told(resource.recommended.as_ref()), &beneath, "");
    let saved = resource.saved();
    let class = match &saved {
        Some(saved) if saved.is_positive() => "less",
        Some(saved) if saved.is_negative() => "more",
        _ => "faint",
    };
    let text = saved.as_ref().map_or_else(|| "-".to_owned(), |saved| short(name, saved));
    let sorted = saved.as_ref().map_or(0, |saved| i128::from(saved.milli_value()));
    number_with(page, sorted, &text, "", class);
    let peak = resource.used.as_ref().map(|used| &used.peak);
    let _ = write!(page, "<td data-sort=\"{}\">{}</td>", sort(peak), distribution(name, resource));
}

fn number(page: &mut String, sort: i128, text: &str) {
    number_with(page, sort, text, "", "");
}

fn number_with(page: &mut String, sort: i128, text: &str, beneath: &str, class: &str) {
    let beneath = if beneath.is_empty() { String::new() } else { format!("<small>{}</small>", escaped(beneath)) };
    let _ = write!(page, "<td class=\"number {class}\" data-sort=\"{sort}\">{}{beneath}</td>", escaped(text));
}

/// From p50 to p95 a box, a line to the peak, and where the request is and should be.
fn distribution(name: &str, resource: &ResourceRow) -> String {
    const WIDTH: i128 = 110;
    let Some(used) = &resource.used else { return "<span class=\"faint\">none</span>".to_owned() };
    let amount = |amount: &Quantity| i128::from(amount.milli_value());
    let marks = [resource.amounts.current.as_ref(), resource.amounts.recommended.as_ref()];
    let most = marks.iter().flatten().map(|mark| amount(mark)).chain([amount(&used.peak)]).max().unwrap_or(0).max(1);
    let at = |value: &Quantity| 2 + amount(value).max(0) * WIDTH / most;
    let (p50, p95, peak) = (at(&used.p50), at(&used.p95), at(&used.peak));
    let mut svg = format!(
        "<svg width=\"{}\" height=\"18\" role=\"img\" aria-label=\"p50 {}, p95 {}, peak {}\">\
         <line class=\"line\" x1=\"{p50}\" x2=\"{peak}\" y1=\"9\" y2=\"9\"/>\
         <rect class=\"range\" x=\"{p50}\" y=\"4\" width=\"{}\" height=\"10\" rx=\"2\"/>",
        WIDTH + 6,
        escaped(&short(name, &used.p50)),
        escaped(&short(name, &used.p95)),
        escaped(&short(name, &used.peak)),
        (p95 - p50).max(2)
    );
    for (mark, class) in marks.into_iter().zip(["now", "advice"]) {
        if let Some(mark) = mark {
            let x = at(mark);
            let _ = write!(svg, "<line class=\"{class}\" x1=\"{x}\" x2=\"{x}\" y1=\"0\" y2=\"18\"/>");
        }
    }
    svg.push_str("</svg>");
    svg + &format!(
        "<small>p95 {}, peak {}</small>",
        escaped(&short(name, &used.p95)),
        escaped(&short(name, &used.peak))
    )
}

fn autoscalers(page: &mut String, report: &Report) {
    let scaled = report.workloads.iter().flat_map(|row| row.autoscalers.iter().map(move |scaled| (row, scaled)));
    let lines = scaled.map(|(row, scaled)| format!("{} {}: {}", row.namespace, row.told(), scaled.told()));
    list(page, "Autoscalers", lines.collect());
}

fn list(page: &mut String, heading: &str, lines: Vec<String>) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(page, "<h2>{heading}</h2>\n<ul>");
    lines.iter().for_each(|line| page.push_str(&format!("<li>{}</li>\n", escaped(line))));
    page.push_str("</ul>\n");
}

/// Text in HTML, in an element or in quotes.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            // Bidirectional controls can make a name look like another.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => html.push('\u{fffd}'),
            control if control.is_control() => html.push('\u{fffd}'),
            other => html.push(other),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        assert_eq!(
            escaped("<img src=x onerror=\"alert('1')\">&\u{202e}\n"),
            "&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;&gt;&amp;\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn a_share_of_a_quota_is_a_share_of_its_bar() {
        assert_eq!((percent("500m", "2"), percent("3", "2"), percent("1", "0"), percent("-1", "2")), (25, 150, 100, 0));
    }
}
