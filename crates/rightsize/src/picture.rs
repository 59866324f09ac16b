//! Recommendations as a picture: each container's distribution with its request now and the recommended one.

use headroom_core::amount::Quantity;
use headroom_core::cluster::usage::read::Age;
use headroom_core::estimate::Basis;
use headroom_report::draw::svg::{self, ADVISED, Mark, PEAK, Panel, SET};

use super::distribution::thousandths;
use super::report::Report;
use super::workload::ResourceAdvice;

/// None if there is no usage to draw.
pub fn svg(report: &Report) -> Option<String> {
    let mut panels = Vec::new();
    for (workload, container) in report.containers() {
        let title = |resource: &str| format!("{resource} of {} {}", workload.key, container.name);
        panels.extend(container.resources.iter().filter_map(|advice| panel(title(advice.resource.name()), advice)));
    }
    (!panels.is_empty()).then(|| svg::picture(&panels))
}

fn panel(title: String, advice: &ResourceAdvice) -> Option<Panel> {
    let used = advice.used.as_ref()?;
    let mark = |label: String, amount: &Quantity, color| Mark { label, value: thousandths(amount), color };
    let mut marks = vec![mark(format!("peak {}", used.shown_at("peak")), used.peak(), PEAK)];
    marks.extend(advice.recommended.iter().map(|amount| mark(format!("recommended {amount}"), amount, ADVISED)));
    let request = advice.request.iter().map(|request| &request.value);
    marks.extend(request.map(|amount| mark(format!("now {amount}"), amount, SET)));
    let age = match advice.reason.as_ref().map(|reason| &reason.basis) {
        Some(Basis::History { age, .. }) if used.of.is_some() => format!(", {} old", Age(*age)),
        _ => String::new(),
    };
    let subtitle = format!("{}{age}", used.heading());
    Some(Panel { title, subtitle, curve: used.curve(), marks })
}
