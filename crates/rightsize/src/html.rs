//! A report as one HTML page that needs nothing else: no network, no other file. Rows stand in the page itself; its script
//! only sorts and filters them.
//!
//! Names and images are whatever somebody typed, so every text is escaped, and the page's own policy lets no script run but
//! the one it came with.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use headroom_core::amount::Quantity;
use headroom_core::cluster::usage::Resource;
use headroom_report::clean::is_hidden;

use super::distribution::Distribution;
use super::quota_effect::QuotaEffect;
use super::recommendation::NO_USAGE_DATA;
use super::report::{Report, Total};
use super::table::{self, Flag, short};
use super::workload::{Container, ResourceAdvice, Workload};

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

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

/// The page; `made_at` is printed as it is.
pub fn text(report: &Report, made_at: &str) -> String {
    let hash = |text: &str| STANDARD.encode(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    );
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Headroom recommendations</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n"
    );
    head(&mut page, report, made_at);
    list(&mut page, "Fix first", report.risks.iter().map(ToString::to_string).collect());
    quotas(&mut page, &report.quotas);
    namespaces(&mut page, report);
    containers(&mut page, report);
    list(&mut page, "Autoscalers", report.scaled());
    list(&mut page, "Notes", report.all_notes());
    let _ = write!(page, "<script>{SCRIPT}</script>\n</body>\n</html>\n");
    page
}

fn head(page: &mut String, report: &Report, made_at: &str) {
    let partial = if report.source.is_partial { " Some of it could not be read: see the notes." } else { "" };
    let _ = write!(
        page,
        "<header><h1>Headroom recommendations</h1><p>{}. Made {}.{partial}</p>\
         <button id=\"look\" type=\"button\">Dark or light</button></header>\n<div class=\"tiles\">\n",
        escaped(&report.source.to_string()),
        escaped(made_at)
    );
    let total = &report.total;
    let mut tiles = vec![
        (short(Resource::Cpu, &total.cpu.saved), "CPU requests saved".to_owned()),
        (short(Resource::Memory, &total.memory.saved), "memory requests saved".to_owned()),
        (
            format!(
                "{} → {}",
                short(Resource::Cpu, &total.cpu.requested),
                short(Resource::Cpu, &total.cpu.recommended)
            ),
            "CPU requested and recommended".to_owned(),
        ),
        (
            format!(
                "{} → {}",
                short(Resource::Memory, &total.memory.requested),
                short(Resource::Memory, &total.memory.recommended)
            ),
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
    if !report.headline().is_empty() {
        let _ = writeln!(page, "<p>{}</p>", escaped(&report.headline()));
    }
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
        let share = |amount: &Quantity| percent(amount, &effect.hard);
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
            escaped(&effect.used.to_string()),
            escaped(&effect.used_after.to_string()),
            escaped(&effect.hard.to_string())
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

fn percent(amount: &Quantity, whole: &Quantity) -> u64 {
    let (amount, whole) = (i128::from(amount.milli_value()), i128::from(whole.milli_value()));
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
        let Total { namespace, workloads, containers, without_advice, cpu, memory, saved_a_month, .. } = total;
        let name = namespace.as_ref().map_or_else(|| "<b>Total</b>".to_owned(), |name| escaped(name));
        let _ = write!(page, "<tr><td>{name}</td>");
        let mut cells = vec![workloads.to_string(), containers.to_string(), without_advice.to_string()];
        for (resource, sum) in [(Resource::Cpu, cpu), (Resource::Memory, memory)] {
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

fn container_row(page: &mut String, of: &Workload, container: &Container) {
    let flags: Vec<(Flag, String)> =
        table::flags(of, container).into_iter().map(|flag| (flag, flag.to_string())).collect();
    let all_flags = flags.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" ");
    let (namespace, name) = (&of.key.namespace, of.key.to_string());
    let text = [namespace, &name, &container.name, &container.image, &all_flags].map(String::as_str);
    let _ = write!(page, "<tr data-text=\"{}\">", escaped(&text.join(" ").to_lowercase()));
    let above = [of.managed_by.as_ref().map(|top| format!("managed by {top}")), of.through.clone()];
    let above: Vec<String> = above.into_iter().flatten().collect();
    for (cell, beneath) in
        [(namespace, String::new()), (&name, above.join(", ")), (&container.name, container.image.clone())]
    {
        let beneath = if beneath.is_empty() { beneath } else { format!("<small>{}</small>", escaped(&beneath)) };
        let cell = escaped(cell);
        let _ = write!(page, "<td data-sort=\"{cell}\">{cell}{beneath}</td>");
    }
    number(page, i128::from(of.pods), &of.pods.to_string());
    for resource in [Resource::Cpu, Resource::Memory] {
        resource_cells(page, of, container.resource(resource));
    }
    let samples = container.evidence.as_ref().map_or(0, |evidence| evidence.samples);
    let evidence = container.evidence.as_ref().map_or_else(|| NO_USAGE_DATA.to_owned(), ToString::to_string);
    let _ = write!(page, "<td class=\"number\" data-sort=\"{samples}\">{evidence}");
    let reasons: String = container.resources.iter().filter_map(reasons).collect();
    if !reasons.is_empty() {
        let _ = write!(page, "<details><summary>why</summary>{reasons}</details>");
    }
    page.push_str("</td>");
    let _ = write!(page, "<td data-sort=\"{}\">", escaped(&all_flags));
    for (flag, text) in &flags {
        let class = if matches!(flag, Flag::OomKills(_)) { "flag bad" } else { "flag" };
        let _ = write!(page, "<span class=\"{class}\">{}</span>", escaped(text));
    }
    if of.qos != of.qos_after {
        let _ = write!(page, "<small>{} → {}</small>", of.qos, of.qos_after);
    }
    page.push_str("</td></tr>\n");
}

/// How the amount came about, if anything changed it on its way.
fn reasons(advice: &ResourceAdvice) -> Option<String> {
    let adjustments = &advice.reason.as_ref()?.adjustments;
    let texts: Vec<String> = adjustments.iter().map(ToString::to_string).collect();
    let text = format!("{}: {}", advice.resource.name(), texts.join("; "));
    (!texts.is_empty()).then(|| format!("<small>{}</small>", escaped(&text)))
}

/// Request, recommendation, what is saved, and the distribution.
fn resource_cells(page: &mut String, of: &Workload, advice: Option<&ResourceAdvice>) {
    let Some(advice) = advice else {
        return page.push_str(&"<td data-sort=\"-1\" class=\"number faint\">-</td>".repeat(4));
    };
    let sort = |amount: Option<&Quantity>| amount.map_or(-1, |amount| i128::from(amount.milli_value()));
    let text = |amount: Option<&Quantity>| amount.map_or_else(|| "-".to_owned(), ToString::to_string);
    let limit = |limit: &Option<Quantity>| limit.as_ref().map(|limit| format!("limit {limit}")).unwrap_or_default();
    let request = advice.request.as_ref().map(|request| &request.value);
    number_with(page, sort(request), &text(request), &limit(&advice.limit), "");
    let recommended = advice.recommended.as_ref();
    let unknown = advice.unknown.as_ref().map(ToString::to_string);
    let beneath = unknown.unwrap_or_else(|| limit(&advice.recommended_limit));
    number_with(page, sort(recommended), &text(recommended), &beneath, "");
    let saved = advice.saved(of.pods);
    let class = match &saved {
        Some(saved) if saved.is_positive() => "less",
        Some(saved) if saved.is_negative() => "more",
        _ => "faint",
    };
    let text = saved.as_ref().map_or_else(|| "-".to_owned(), |saved| short(advice.resource, saved));
    let sorted = saved.as_ref().map_or(0, |saved| i128::from(saved.milli_value()));
    number_with(page, sorted, &text, "", class);
    let peak = advice.used.as_ref().map(Distribution::peak);
    let _ = write!(page, "<td data-sort=\"{}\">{}</td>", sort(peak), distribution(advice));
}

fn number(page: &mut String, sort: i128, text: &str) {
    number_with(page, sort, text, "", "");
}

fn number_with(page: &mut String, sort: i128, text: &str, beneath: &str, class: &str) {
    let beneath = if beneath.is_empty() { String::new() } else { format!("<small>{}</small>", escaped(beneath)) };
    let _ = write!(page, "<td class=\"number {class}\" data-sort=\"{sort}\">{}{beneath}</td>", escaped(text));
}

/// From p50 to p95 a box, a line to the peak, and where the request is and should be.
fn distribution(advice: &ResourceAdvice) -> String {
    const WIDTH: i128 = 110;
    let Some(used) = &advice.used else { return "<span class=\"faint\">none</span>".to_owned() };
    let amount = |amount: &Quantity| i128::from(amount.milli_value());
    let marks = [advice.request.as_ref().map(|request| &request.value), advice.recommended.as_ref()];
    // Namespaces may agree on no other figure.
    let figures = [500, 950].map(|permille| used.percentile(permille).unwrap_or(used.peak()));
    let most = marks.into_iter().flatten().chain([used.peak()]).map(amount).max().unwrap_or(0).max(1);
    let at = |value: &Quantity| 2 + amount(value).max(0) * WIDTH / most;
    let ([p50, p95], peak) = (figures.map(at), at(used.peak()));
    let [typical, high, highest] =
        [figures[0], figures[1], used.peak()].map(|amount| escaped(&short(advice.resource, amount)));
    let mut svg = format!(
        "<svg width=\"{}\" height=\"18\" role=\"img\" aria-label=\"p50 {typical}, p95 {high}, peak {highest}\">\
         <line class=\"line\" x1=\"{p50}\" x2=\"{peak}\" y1=\"9\" y2=\"9\"/>\
         <rect class=\"range\" x=\"{p50}\" y=\"4\" width=\"{}\" height=\"10\" rx=\"2\"/>",
        WIDTH + 6,
        (p95 - p50).max(2)
    );
    for (mark, class) in marks.into_iter().zip(["now", "advice"]) {
        if let Some(mark) = mark {
            let x = at(mark);
            let _ = write!(svg, "<line class=\"{class}\" x1=\"{x}\" x2=\"{x}\" y1=\"0\" y2=\"18\"/>");
        }
    }
    svg.push_str("</svg>");
    svg + &format!("<small>p95 {high}, peak {highest}</small>")
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
            hidden if is_hidden(hidden) => html.push('\u{fffd}'),
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
        let percent = |amount: &str, whole: &str| percent(&amount.parse().unwrap(), &whole.parse().unwrap());
        assert_eq!((percent("500m", "2"), percent("3", "2"), percent("1", "0"), percent("-1", "2")), (25, 150, 100, 0));
    }
}
