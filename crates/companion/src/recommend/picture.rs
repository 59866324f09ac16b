//! Advice as a picture: each container's distribution with what is set and what is advised.

use headroom_core::amount::Quantity;

use super::{Advice, ResourceAdvice};
use crate::distribution::thousandths;
use crate::draw::svg::{self, ADVISED, Mark, PEAK, Panel, SET};

/// None if no advice comes from a history.
pub fn svg(advice: &Advice) -> Option<String> {
    let mut panels = Vec::new();
    for workload in &advice.workloads {
        for container in &workload.containers {
            let title = |resource: &str| format!("{resource} of {} {}", workload.told(), container.name);
            panels.extend(container.resources.iter().filter_map(|advice| panel(title(advice.resource), advice)));
        }
    }
    (!panels.is_empty()).then(|| svg::picture(&panels))
}

fn panel(title: String, advice: &ResourceAdvice) -> Option<Panel> {
    let (history, distribution) = advice.observed()?;
    let value = |text: &str| text.parse::<Quantity>().map(|amount| thousandths(&amount)).unwrap_or(0);
    let mark = |what: &str, amount: &str, value, color| Mark { label: format!("{what} {amount}"), value, color };
    let mut marks = vec![mark("peak", distribution.shown_at("peak"), value(&distribution.peak), PEAK)];
    marks.extend(advice.recommended.iter().map(|amount| mark("recommended", amount, value(amount), ADVISED)));
    marks.extend(advice.current.iter().map(|current| mark("now", &current.value, value(&current.value), SET)));
    Some(Panel {
        title,
        subtitle: format!(
            "{} samples of {} in {}, {} old",
            history.samples,
            history.key,
            history.window,
            history.age()
        ),
        curve: distribution.curve(),
        marks,
    })
}
