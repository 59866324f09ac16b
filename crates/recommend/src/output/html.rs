//! A report as one HTML page that needs nothing else: no network, no other file. The first rows stand in the page itself, the others
//! as text; its script makes rows of that, sorts and filters them, and saves them as CSV.
//!
//! Names and images are whatever somebody typed, so every text is escaped, and the page's own policy lets no script run but
//! the one it came with.

use std::collections::HashMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use headroom_admission::amount::Quantity;
use headroom_admission::cluster::usage::Resource;
use headroom_admission::truncate::count_of;
use headroom_output::clean::is_hidden;
use headroom_output::people::Unit;

use crate::advice::amounts::{CPU_AND_MEMORY, short};
use crate::advice::flag::Flag;
use crate::advice::quota_effect::QuotaEffect;
use crate::advice::risk::{Risk, RiskKind};
use crate::advice::workload::{ContainerAdvice, ResourceAdvice, Severity, Workload};
use crate::history::timeline::Timeline;
use crate::output::csv;
use crate::report::rule;
use crate::report::{Recommendations, Sum, Total};
use headroom_workloads::WorkloadRef;

/// The design that the playground has too, and what only the report needs.
const STYLE: &str = concat!(
    include_str!("../../../../playground/design/tokens.css"),
    include_str!("../../../../playground/design/components.css"),
    include_str!("html/page.css")
);
const SCRIPT: &str = include_str!("html/page.js");
const LOGO: &str = include_str!("../../../../playground/design/logo.svg");

/// Columns of the main table with their classes; those that sort have a name.
const COLUMNS: [(&str, &str); 7] = [
    ("Workload", ""),
    ("CPU request, cores", "number"),
    ("CPU usage", "usage"),
    ("Memory request", "number"),
    ("Memory usage", "usage"),
    ("Saves", "number"),
    ("Evidence", "number why"),
];

/// Workloads with risks in a list of their own.
const MAX_RISKS: usize = 50;

/// Rows that are elements of the page from the start.
const FIRST_ROWS: usize = 200;

/// The legend of the pictures.
const LEGEND: &str = r#"<div class="legend">
<span><svg width="32" height="12"><line class="rare" x1="2" x2="30" y1="6" y2="6" stroke="var(--usage)" stroke-width="2"/><rect x="6" y="2" width="12" height="8" rx="2" fill="var(--usage)"/></svg>usage p50 to p95, peak</span>
<span><svg width="6" height="14"><line x1="3" x2="3" y1="0" y2="14" stroke="var(--text)" stroke-width="3"/></svg>request</span>
<span><svg width="6" height="14"><line x1="3" x2="3" y1="0" y2="14" stroke="var(--good)" stroke-width="3"/></svg>recommended</span>
<span><svg width="6" height="14"><line x1="3" x2="3" y1="0" y2="14" stroke="var(--muted)" stroke-width="2" stroke-dasharray="3 2"/></svg>limit</span>
</div>
"#;

/// The page; `made_at` is printed as it is.
pub fn text(report: &Recommendations, made_at: &str) -> String {
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
    let partial = if report.source.is_partial { " Some of it could not be read: see the notes." } else { "" };
    let outage = report.source.outage().map(|outage| format!(" <b class=\"bad\">{}.</b>", escaped(&sentence(&outage))));
    let outage = outage.unwrap_or_default();
    let _ = write!(
        page,
        "<header class=\"top\"><h1 class=\"brand\">{LOGO}Headroom <span>recommendations</span></h1>\
         <p class=\"tagline\">{}. Made {}.{outage}{partial}</p><nav><button id=\"save\" type=\"button\">Export CSV</button>\
         <button id=\"look\" class=\"icon\" type=\"button\" title=\"Dark or light\" aria-label=\"Dark or light\">◐</button>\
         </nav></header>\n<main>\n",
        escaped(&report.about()),
        escaped(made_at)
    );
    stats(&mut page, report);
    list(&mut page, "Blocked", report.blocked());
    risks(&mut page, &report.risks);
    containers(&mut page, report);
    quotas(&mut page, &report.quotas);
    namespaces(&mut page, report);
    list(&mut page, "Flags", report.flags_explained());
    list(&mut page, "Autoscalers", report.scaled());
    list(&mut page, "Notes", report.all_notes());
    let lines: Vec<String> = csv::text(report).lines().map(escaped).collect();
    let _ = write!(
        page,
        "</main>\n<pre id=\"csv\" hidden>\n{}\n</pre>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        lines.join("\n")
    );
    page
}

/// Prints what can be freed, and how many containers are at risk.
fn stats(page: &mut String, report: &Recommendations) {
    let total = &report.total;
    page.push_str("<div class=\"stats\">\n");
    stat(page, Resource::Cpu, &total.cpu);
    stat(page, Resource::Memory, &total.memory);
    if let Some(money) = &total.saved_a_month {
        let _ = writeln!(
            page,
            "<div class=\"card stat\"><b>{} <small>per month</small></b>\
             <span>{}</span></div>",
            escaped(&report.prices.shown(*money)),
            escaped(&report.money().unwrap_or_default())
        );
    }
    let at_risk = report.at_risk();
    let (class, what) = if at_risk > 0 {
        (" bad", "killed, throttled, above their request, or without one")
    } else {
        ("", "none is killed, throttled, above its request, or without one")
    };
    let _ = writeln!(
        page,
        "<div class=\"card stat{class}\"><b>{at_risk} <small>at risk</small></b><span>of {}: {what}</span></div>\n</div>",
        count_of(total.containers, "container")
    );
    if total.without_usage > 0 {
        let _ = writeln!(
            page,
            "<p class=\"muted\">No usage data for {} of {}: nothing is recommended for them.</p>",
            total.without_usage,
            count_of(total.containers, "container")
        );
    }
}

fn stat(page: &mut String, resource: Resource, sum: &Sum) {
    let amount = |amount: &Quantity| short(resource, amount);
    let unit = Unit::of(resource.name(), [&sum.requested, &sum.recommended]);
    let name = if resource == Resource::Cpu { "CPU" } else { "Memory" };
    let (percent, is_less) = (percent(&sum.recommended, &sum.requested), !sum.saved.is_negative());
    let (saved, what, change) = if is_less {
        (amount(&sum.saved), "you can free", format!("−{}%", 100_u64.saturating_sub(percent)))
    } else {
        let more = sum.recommended.minus(&sum.requested);
        (amount(&more), "needed besides", format!("+{}%", percent.saturating_sub(100)))
    };
    let class = if is_less { "less" } else { "more" };
    let _ = writeln!(
        page,
        "<div class=\"card stat\"><b>{saved} <small class=\"{class}\">{change}</small></b>\
         <span>{name} {what}: {} requested → {} {} recommended</span>{}</div>",
        unit.number(&sum.requested),
        unit.number(&sum.recommended),
        unit.name(),
        gauge(percent.min(100), None)
    );
}

/// Prints the risks.
fn risks(page: &mut String, risks: &[Risk]) {
    if risks.is_empty() {
        return;
    }
    let _ = writeln!(
        page,
        "<section><header><h2>Fix first <small class=\"muted\">{}</small></h2></header><div class=\"card\"><table id=\"risks\" class=\"stack\">\
         <thead><tr><th scope=\"col\">Workload</th><th scope=\"col\">Why</th><th scope=\"col\">Fix</th></tr></thead><tbody>",
        count_of(risks.len() as u64, "finding")
    );
    let mut groups: Vec<(&WorkloadRef, Vec<&Risk>)> = Vec::new();
    let mut places: HashMap<&WorkloadRef, usize> = HashMap::new();
    for risk in risks {
        let place = *places.entry(&risk.workload).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, of_workload)) => of_workload.push(risk),
            None => groups.push((&risk.workload, vec![risk])),
        }
    }
    for (workload, risks) in groups.iter().take(MAX_RISKS) {
        let container = risks.first().map_or("", |risk| &risk.container);
        let id = id_of(&workload.namespace, &workload.to_string(), container);
        let (mut why, mut fixes) = (String::new(), String::new());
        for Risk { container, risk, text, fix, .. } in risks {
            let tone = match risk {
                RiskKind::OomKilled => "bad",
                RiskKind::Throttled | RiskKind::AboveRequest => "warn",
                RiskKind::NoRequest => "info",
            };
            let (text, fix, container) = (escaped(&sentence(text)), escaped(&sentence(fix)), escaped(container));
            why.push_str(&format!("<div><span class=\"pill {tone}\">{text}</span></div>"));
            fixes.push_str(&format!("<div>{fix} <span class=\"muted\">{container}</span></div>"));
        }
        let _ = writeln!(
            page,
            "<tr><th scope=\"row\"><a href=\"#{id}\">{}</a></th><td>{why}</td><td>{fixes}</td></tr>",
            named(&workload.namespace, &workload.name, &[&workload.kind]),
        );
    }
    page.push_str("</tbody></table>");
    if groups.len() > MAX_RISKS {
        let more = count_of((groups.len() - MAX_RISKS) as u64, "workload");
        let _ = write!(page, "<p class=\"muted\">and {more} more: filter the containers by critical or warning</p>");
    }
    page.push_str("</div></section>\n");
}

/// With a capital, as the first word of a cell.
fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

fn id_of(namespace: &str, object: &str, container: &str) -> String {
    escaped(&format!("{namespace}/{object}/{container}").replace(char::is_whitespace, "_"))
}

/// Namespace and name in one cell, with what else is to know below.
fn named(namespace: &str, name: &str, below: &[&str]) -> String {
    let below: Vec<String> = below.iter().filter(|text| !text.is_empty()).map(|text| escaped(text)).collect();
    format!(
        "<span class=\"muted\">{} / </span><b>{}</b><small>{}</small>",
        escaped(namespace),
        escaped(name),
        below.join(" · ")
    )
}

fn containers(page: &mut String, report: &Recommendations) {
    let _ = write!(
        page,
        "<section><header><h2>Containers <small class=\"muted\">the largest savings first</small></h2><span id=\"count\" class=\"muted\"></span>\
         <input id=\"filter\" class=\"no-print\" type=\"search\" placeholder=\"Filter by name, image or flag\" aria-label=\"Filter\">\
         </header>"
    );
    let rules: Vec<String> = report.rules.iter().map(|rule| escaped(&rule.to_string())).collect();
    let rule = rule::sentence(&report.rules).map(|sentence| escaped(&sentence)).unwrap_or_default();
    let _ = write!(
        page,
        "<details class=\"muted\"><summary>{rule}</summary>{}</details>\
         <div class=\"card\"><table id=\"containers\" class=\"stack\"><thead><tr>",
        rules.join("<br>")
    );
    for (heading, class) in COLUMNS {
        let heading =
            if class == "usage" { heading.to_owned() } else { format!("<button type=\"button\">{heading}</button>") };
        let _ = write!(page, "<th scope=\"col\" class=\"{class}\">{heading}</th>");
    }
    page.push_str("</tr></thead><tbody>\n");
    let mut containers = report.containers();
    containers.by_ref().take(FIRST_ROWS).for_each(|(of, container)| container_row(page, report, of, container));
    page.push_str("</tbody></table>");
    page.push_str(LEGEND);
    // A browser reads these as text, of which the script makes rows while somebody scrolls.
    page.push_str("<script id=\"rows\" type=\"text/plain\">");
    containers.for_each(|(of, container)| container_row(page, report, of, container));
    page.push_str("</script>");
    page.push_str("</div></section>\n");
}

fn container_row(page: &mut String, report: &Recommendations, of: &Workload, container: &ContainerAdvice) {
    let severity = container.severity.to_string();
    let all_flags = container.flags.iter().map(Flag::to_string).collect::<Vec<_>>().join(" ");
    let (namespace, name) = (&of.key.namespace, of.key.to_string());
    let text = [namespace, &name, &container.name, &container.image, &severity, &all_flags].map(String::as_str);
    let id = id_of(namespace, &name, &container.name);
    let _ = write!(page, "<tr id=\"{id}\" data-text=\"{}\">", escaped(&text.join(" ").to_lowercase()));
    let mut below =
        vec![of.key.kind.clone(), container.name.clone(), count_of(of.pods, "pod"), container.image.clone()];
    below.extend(of.decided_by.iter().map(|who| format!("decided by {who}")).chain(of.through.clone()));
    let below: Vec<&str> = below.iter().map(String::as_str).collect();
    let pills = container.flags.iter().map(|flag| {
        let tone = match flag {
            Flag::OomKills(_) => "bad",
            Flag::NoUsageData | Flag::TooBrief(_) | Flag::Thin(_) => "",
            Flag::Autoscaler | Flag::Limit | Flag::QosClass => "info",
            _ => "warn",
        };
        format!(" <span class=\"pill {tone}\">{}</span>", escaped(&flag.to_string()))
    });
    let tone = match container.severity {
        Severity::Critical => "bad",
        Severity::Warning => "warn",
        Severity::Adjust => "info",
        Severity::Ok => "good",
        Severity::Unknown => "",
    };
    let _ = write!(
        page,
        "<th scope=\"row\" data-sort=\"{id}\"><a href=\"#{id}\">{}</a> <span class=\"pill {tone}\">{severity}</span>{}</th>",
        named(namespace, &of.key.name, &below),
        pills.collect::<String>()
    );
    for resource in CPU_AND_MEMORY {
        resource_cells(page, container.resource(resource), container.timeline.as_ref());
    }
    saved_cell(page, report, of, container);
    let samples = container.evidence.as_ref().map_or(0, |evidence| evidence.samples);
    let evidence = container.evidence.as_ref().map_or_else(|| "no usage data".to_owned(), ToString::to_string);
    let _ =
        write!(page, "<td class=\"number why\" data-label=\"Evidence\" data-sort=\"{samples}\">{}", escaped(&evidence));
    let reasons: String = container.resources.iter().filter_map(reasons).collect();
    if !reasons.is_empty() {
        let _ = write!(page, "<details><summary>why</summary>{reasons}</details>");
    }
    if of.qos != of.qos_after {
        let _ = write!(page, "<small>{} → {}</small>", of.qos, of.qos_after);
    }
    page.push_str("</td></tr>\n");
}

/// Lists the adjustments of an amount, if there are any.
fn reasons(advice: &ResourceAdvice) -> Option<String> {
    let adjustments = &advice.reason.as_ref()?.adjustments;
    let texts: Vec<String> = adjustments.iter().map(ToString::to_string).collect();
    let text = format!("{}: {}", advice.resource.name(), texts.join("; "));
    (!texts.is_empty()).then(|| format!("<small>{}</small>", escaped(&text)))
}

/// Money where there are prices, and what is freed over all pods.
fn saved_cell(page: &mut String, report: &Recommendations, of: &Workload, container: &ContainerAdvice) {
    let all_saved = CPU_AND_MEMORY.map(|resource| of.saved_by(container, resource));
    let money = report.money_of(of, container).map(|money| format!("<b>{}</b>", escaped(&report.prices.shown(money))));
    let mut lines: Vec<String> = money.into_iter().collect();
    for (resource, saved) in CPU_AND_MEMORY.into_iter().zip(&all_saved) {
        let Some(saved) = saved.as_ref().filter(|saved| !saved.is_zero()) else { continue };
        let (class, sign) = if saved.is_negative() { ("more", "+") } else { ("", "") };
        let amount = short(resource, &if saved.is_negative() { Quantity::ZERO.minus(saved) } else { saved.clone() });
        lines.push(format!("<small class=\"{class}\">{sign}{amount}</small>"));
    }
    let text = if all_saved.iter().all(Option::is_none) { "–".to_owned() } else { lines.concat() };
    let [cpu, memory] = all_saved.map(|saved| saved.unwrap_or(Quantity::ZERO));
    let weight = report.prices.weight(&cpu, &memory);
    let _ = write!(page, "<td class=\"number\" data-label=\"Saves\" data-sort=\"{weight}\">{text}</td>");
}

/// The request with its recommendation, and the distribution of usage.
fn resource_cells(page: &mut String, advice: Option<&ResourceAdvice>, timeline: Option<&Timeline>) {
    let Some(advice) = advice else {
        return page.push_str("<td data-sort=\"-1\" class=\"number\">–</td><td class=\"usage\"></td>");
    };
    let request = advice.request.as_ref().map(|request| &request.value);
    let (amount, behind) = in_one_unit(advice.resource, request.into_iter().chain(&advice.recommended));
    let now = request.map_or_else(|| "none".to_owned(), &amount);
    let text = match &advice.recommended {
        Some(recommended) if request != Some(recommended) => {
            let class = if request.is_none_or(|request| recommended > request) { "more" } else { "less" };
            let then = amount(recommended);
            format!(
                "<span class=\"change\">{now} <span class=\"arrow\">→</span> <b class=\"{class}\">{then}</b>{behind}</span>"
            )
        }
        Some(_) => now + behind,
        None => format!(
            "{now}{}<small>{}</small>",
            if request.is_some() { behind } else { "" },
            escaped(&advice.unknown.as_ref().map(ToString::to_string).unwrap_or_default())
        ),
    };
    let limits = || advice.limit.iter().chain(&advice.recommended_limit);
    let (amount, behind) = in_one_unit(advice.resource, limits());
    let limits: Vec<String> = match (&advice.limit, &advice.recommended_limit) {
        (None, Some(recommended)) => vec!["none".to_owned(), amount(recommended)],
        _ => limits().map(amount).collect(),
    };
    let limit = match limits.join(" → ") {
        none if none.is_empty() => none,
        limit => format!("<small>limit {limit}{behind}</small>"),
    };
    let label = if advice.resource == Resource::Cpu { "CPU" } else { "Memory" };
    let sort = request.map_or(-1, |request| i128::from(request.milli_value()));
    let _ = write!(
        page,
        "<td class=\"number\" data-label=\"{label} request\" data-sort=\"{sort}\">{text}{limit}</td>\
         <td class=\"usage\" data-label=\"{label} usage\">{}{}</td>",
        distribution(advice),
        timeline.map(|timeline| course(timeline, advice)).unwrap_or_default()
    );
}

/// The peaks of the days as steps, with the lines of request, recommendation and limit, and a mark at each kill and release.
fn course(timeline: &Timeline, advice: &ResourceAdvice) -> String {
    const HEIGHT: u64 = 24;
    let peaks = timeline.peaks(advice.resource);
    let amount = |amount: &Quantity| Timeline::amount(advice.resource, amount);
    if peaks.len() < 2 {
        return String::new();
    }
    let request = advice.request.as_ref().map(|request| &request.value);
    let inner = [request, advice.recommended.as_ref()].into_iter().flatten().map(amount);
    let most = inner.chain(peaks.iter().flatten().copied()).max().unwrap_or(0).max(1);
    let limit = advice.recommended_limit.as_ref().or(advice.limit.as_ref()).filter(|limit| amount(limit) <= most * 3);
    let most = limit.map_or(most, |limit| amount(limit).max(most));
    let y = |amount: u64| HEIGHT - amount.min(most) * (HEIGHT - 2) / most;
    let days = peaks.len();
    let mut steps = format!("M0 {HEIGHT}");
    peaks.iter().for_each(|peak| steps.push_str(&format!("V{}h1", y(peak.unwrap_or(0)))));
    let mut svg = format!(
        "<svg class=\"course\" viewBox=\"0 0 {days} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"peaks of {days} days\"><path d=\"{steps}V{HEIGHT}z\"/>"
    );
    for (mark, class) in [(limit, "limit"), (request, "request"), (advice.recommended.as_ref(), "recommended")] {
        if let Some(y) = mark.map(|mark| y(amount(mark))) {
            let _ = write!(svg, "<line class=\"{class}\" x2=\"{days}\" y1=\"{y}\" y2=\"{y}\"/>");
        }
    }
    for (times, class) in [(&timeline.releases, "release"), (&timeline.kills, "kill")] {
        let mut places: Vec<i64> = times.iter().map(|at| (at - timeline.from) / timeline.step.max(1)).collect();
        places.dedup();
        for x in places.into_iter().filter(|place| *place >= 0 && *place < days as i64) {
            let _ = write!(svg, "<line class=\"{class}\" x1=\"{x}.5\" x2=\"{x}.5\" y2=\"{HEIGHT}\"/>");
        }
    }
    svg + "</svg>"
}

/// From p50 to p95 a box, a line to the peak, and where the request is and should be.
fn distribution(advice: &ResourceAdvice) -> String {
    const WIDTH: i128 = 156;
    let Some(used) = &advice.used else { return "<span class=\"muted\">no usage data</span>".to_owned() };
    let milli = |amount: &Quantity| i128::from(amount.milli_value());
    let marks = [advice.request.as_ref().map(|request| &request.value), advice.recommended.as_ref()];
    // Namespaces may agree on no other figure.
    let figures = [500, 950].map(|permille| used.percentile(permille).unwrap_or(used.peak()));
    let inner = marks.into_iter().flatten().chain([used.peak()]).map(milli).max().unwrap_or(0).max(1);
    // A limit far above everything else would press the rest into a corner.
    let limit = advice.limit.as_ref().filter(|limit| milli(limit) <= inner * 3);
    let most = limit.map_or(inner, |limit| milli(limit).max(inner));
    let at = |value: &Quantity| 2 + milli(value).max(0) * WIDTH / most;
    let ([p50, p95], peak) = (figures.map(at), at(used.peak()));
    let (amount, behind) = in_one_unit(advice.resource, [figures[0], figures[1], used.peak()]);
    let [typical, high, highest] = [figures[0], figures[1], used.peak()].map(amount);
    let mut svg = format!(
        "<svg class=\"spread\" viewBox=\"0 0 160 24\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"p50 {typical}, p95 {high}, peak {highest}{behind}\">\
         <line class=\"axis\" x1=\"0\" x2=\"160\" y1=\"12\" y2=\"12\"/><line class=\"rare\" x1=\"{p50}\" x2=\"{peak}\" y1=\"12\" y2=\"12\"/>\
         <rect class=\"usual\" x=\"{p50}\" y=\"8\" width=\"{}\" height=\"8\" rx=\"2\"/>",
        (p95 - p50).max(2)
    );
    let is_raise = matches!(marks, [Some(request), Some(recommended)] if recommended > request);
    let classes = ["request", if is_raise { "recommended raise" } else { "recommended" }, "limit"];
    for (mark, class) in marks.into_iter().chain([limit]).zip(classes) {
        if let Some(mark) = mark {
            let x = at(mark);
            let _ = write!(svg, "<line class=\"{class}\" x1=\"{x}\" x2=\"{x}\" y1=\"3\" y2=\"21\"/>");
        }
    }
    svg.push_str("</svg>");
    svg + &format!("<small>p95 {high}, peak {highest}{behind}</small>")
}

fn quotas(page: &mut String, quotas: &[QuotaEffect]) {
    if quotas.is_empty() {
        return;
    }
    page.push_str("<section><header><h2>Quotas <small class=\"muted\">with all recommendations applied</small></h2></header><div class=\"card\"><table id=\"quotas\" class=\"stack\"><thead><tr>");
    for (heading, class) in
        [("Quota", ""), ("Used, and after", "share"), ("Used", "number"), ("After", "number"), ("Hard", "number")]
    {
        let _ = write!(page, "<th scope=\"col\" class=\"{class}\">{heading}</th>");
    }
    page.push_str("</tr></thead><tbody>\n");
    for effect in quotas {
        let unit = Unit::of(&effect.resource, [&effect.used, &effect.used_after, &effect.hard]);
        let [used, after, hard] = [&effect.used, &effect.used_after, &effect.hard]
            .map(|amount| format!("{} {}", unit.number(amount), unit.name()));
        let class = if effect.fits { "" } else { " more" };
        let _ = writeln!(
            page,
            "<tr><th scope=\"row\">{}</th><td class=\"share\">{}</td>\
             <td class=\"number\" data-label=\"Used\">{used}</td><td class=\"number{class}\" data-label=\"After\">{after}</td>\
             <td class=\"number\" data-label=\"Hard\">{hard}</td></tr>",
            named(&effect.namespace, &effect.quota, &[&effect.resource]),
            gauge(percent(&effect.used, &effect.hard), Some((percent(&effect.used_after, &effect.hard), effect.fits)))
        );
    }
    page.push_str("</tbody></table></div></section>\n");
}

/// A bar, with a mark at what follows and whether that fits. Widths are attributes of an image, since the page's policy lets
/// no element style itself.
fn gauge(share: u64, after: Option<(u64, bool)>) -> String {
    let share = share.min(100);
    let (label, mark) = match after {
        None => (format!("{share}%"), String::new()),
        Some((after, fits)) => {
            let (after, class) = (after.min(100), if fits { "after" } else { "after more" });
            let mark = format!("<line class=\"{class}\" x1=\"{after}\" x2=\"{after}\" y1=\"0\" y2=\"8\"/>");
            (format!("{share}% used, {after}% after"), mark)
        }
    };
    format!(
        "<svg class=\"gauge\" viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{label}\">\
         <rect class=\"track\" width=\"100\" height=\"8\"/><rect class=\"now\" width=\"{share}\" height=\"8\"/>{mark}</svg>"
    )
}

fn percent(amount: &Quantity, whole: &Quantity) -> u64 {
    let (amount, whole) = (i128::from(amount.milli_value()), i128::from(whole.milli_value()));
    if whole <= 0 { 100 } else { u64::try_from(amount.max(0) * 100 / whole).unwrap_or(100) }
}

fn namespaces(page: &mut String, report: &Recommendations) {
    if report.totals.len() < 2 {
        return;
    }
    page.push_str("<section><header><h2>Namespaces</h2></header><div class=\"card\"><table id=\"namespaces\"><thead><tr><th scope=\"col\">Namespace</th>");
    let mut headings =
        vec!["Containers", "Without advice", "CPU requested", "Recommended", "Memory requested", "Recommended"];
    if report.total.saved_a_month.is_some() {
        headings.push("Saves per month");
    }
    for heading in headings {
        let _ = write!(page, "<th scope=\"col\" class=\"number\">{heading}</th>");
    }
    page.push_str("</tr></thead><tbody>\n");
    for total in report.totals.iter().chain([&report.total]) {
        let Total { namespace, containers, without_advice, cpu, memory, saved_a_month, .. } = total;
        let name = namespace.as_ref().map_or_else(|| "<b>Total</b>".to_owned(), |name| escaped(name));
        let _ = write!(page, "<tr><th scope=\"row\">{name}</th>");
        let mut cells = vec![containers.to_string(), without_advice.to_string()];
        for (resource, sum) in [(Resource::Cpu, cpu), (Resource::Memory, memory)] {
            let (amount, behind) = in_one_unit(resource, [&sum.requested, &sum.recommended]);
            cells.extend([&sum.requested, &sum.recommended].map(|sum| amount(sum) + behind));
        }
        cells.extend(saved_a_month.map(|money| report.prices.shown(money)));
        for cell in cells {
            let _ = write!(page, "<td class=\"number\">{}</td>", escaped(&cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div></section>\n");
}

fn list(page: &mut String, heading: &str, lines: Vec<String>) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(page, "<section><header><h2>{heading}</h2></header><ul class=\"card\">");
    lines.iter().for_each(|line| page.push_str(&format!("<li>{}</li>\n", escaped(line))));
    page.push_str("</ul></section>\n");
}

/// Writes numbers in a unit for all of these amounts, with what stands behind the last of them: nothing for cores, which the
/// heading names.
fn in_one_unit<'q>(
    resource: Resource,
    amounts: impl IntoIterator<Item = &'q Quantity>,
) -> (impl Fn(&Quantity) -> String, &'static str) {
    let unit = Unit::of_change(resource.name(), &amounts.into_iter().collect::<Vec<_>>());
    let behind = match unit {
        Unit::MiB => " MiB",
        Unit::GiB => " GiB",
        Unit::Cores | Unit::One => "",
    };
    (move |amount: &Quantity| unit.number(amount), behind)
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
