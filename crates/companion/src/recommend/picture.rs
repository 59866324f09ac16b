//! Advice as a picture: each container's distribution with what is set and what is advised.

use headroom_core::amount::Quantity;

use super::{Advice, History, ResourceAdvice, thousandths};
use crate::draw::svg::{self, ADVISED, Mark, PEAK, Panel, SET};

/// None if no advice comes from a history.
pub fn svg(advice: &Advice) -> Option<String> {
    let mut panels = Vec::new();
    for workload in &advice.workloads {
        for container in &workload.containers {
            for resource in &container.resources {
                let history = resource.evidence.as_ref().and_then(|evidence| evidence.history.as_ref());
                let Some(history) = history.filter(|history| !history.percentiles.is_empty()) else { continue };
                let title = format!("{} of {} {}", resource.resource, workload.told(), container.name);
                panels.push(panel(title, history, resource));
            }
        }
    }
    (!panels.is_empty()).then(|| svg::picture(&panels))
}

fn panel(title: String, history: &History, advice: &ResourceAdvice) -> Panel {
    let value = |text: &str| text.parse::<Quantity>().map(|amount| thousandths(&amount)).unwrap_or(0);
    let mut marks = vec![Mark { label: format!("peak {}", history.peak), value: history.peak_value, color: PEAK }];
    if let Some(recommended) = &advice.recommended {
        let label = format!("recommended {recommended}");
        marks.push(Mark { label, value: value(recommended), color: ADVISED });
    }
    if let Some(current) = &advice.current {
        marks.push(Mark { label: format!("now {}", current.value), value: value(&current.value), color: SET });
    }
    let curve = history.percentiles.iter().map(|at| (at.permille, at.value)).chain([(1000, history.peak_value)]);
    Panel {
        title,
        subtitle: format!(
            "{} samples of {} in {}, {} old",
            history.samples,
            history.key,
            history.window,
            history.age()
        ),
        curve: curve.collect(),
        marks,
    }
}
