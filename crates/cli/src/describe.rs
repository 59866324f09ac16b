//! The reports of `describe`: kubectl's own text, and what follows from it.
//!
//! Each module turns objects into a report, and `quotas` lists what is charged. A report is a [`Page`] for people and JSON for programs.

pub mod kubectl;
pub mod limits;
pub mod quotas;
pub mod tenant_quotas;

use headroom_admission::nearest::nearest;
use headroom_output::{Page, Table};
use headroom_recommend::history::distribution::thousandths;

/// The consumers of a quota that are listed for each resource.
const MAX_CONSUMERS: usize = 5;

/// The width of a gauge in columns.
const GAUGE: usize = 12;

/// A heading and the table below it, set off from what is above.
pub fn section(page: &mut Page, heading: &str, table: Table) {
    page.gap();
    writeln!(page, "{heading}");
    page.table(table);
}

/// Says that there is no such object, and which was meant, or which there are.
pub fn not_there<'n>(kind: &str, name: &str, namespace: &str, there: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = there.collect();
    let problem = format!("{} \"{name}\" not found in namespace \"{namespace}\"", kind.to_lowercase());
    match nearest(name, names.iter().copied()) {
        Some(meant) => format!("{problem}; did you mean {meant}?"),
        None if names.is_empty() => format!("{problem}; there is none"),
        None => format!("{problem}; there is {}", names.join(", ")),
    }
}
