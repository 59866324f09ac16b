//! `describe resizes`: the changes of running pods under way, what is left alone and why, and what would be done.

use std::collections::BTreeMap;

use headroom_core::timestamp::Timestamp;
use headroom_report::{Page, Table};
use headroom_resize::{Change, Direction, Phase, Record, Time};
use serde_json::Value;

use super::section;

/// The reasons of the Events that say what is not done.
pub const REASONS: [&str; 4] = ["WouldResize", "ResizeWaits", "ResizeDoesNotFit", "ResizeRefused"];

/// Everything that is known about resizes, by workload.
pub struct Resizes {
    pub records: BTreeMap<String, Record>,
    pub events: Vec<Value>,
    pub now: Time,
}

impl Resizes {
    pub fn page(&self) -> Page {
        let mut page = Page::new();
        let (mut changes, mut under_way) =
            (Table::new(&["WORKLOAD", "RAISED", "LOWERED", "QUIET", "LAST"]), Vec::new());
        let mut left_alone = Vec::new();
        for (workload, record) in &self.records {
            let count = |direction| record.past.iter().filter(|past| past.direction == direction).count().to_string();
            let quiet = record.past.iter().filter(|past| past.quiet).count().to_string();
            let last = record.past.iter().map(|past| past.begun).max().map(time).unwrap_or_default();
            changes.row([workload.clone(), count(Direction::Up), count(Direction::Down), quiet, last]);
            under_way.extend(
                record.changes.iter().map(|change| [workload.clone(), change.pod.clone(), to(change), phase(change)]),
            );
            let left = record.left_alone.iter().filter(|left| self.now < left.until);
            left_alone.extend(left.map(|left| {
                let what = if left.direction == Direction::Up { "not raised" } else { "not lowered" };
                let what = format!("{what} until {}", time(left.until));
                [workload.clone(), left.container.clone(), what, left.harm.to_string()]
            }));
        }
        if self.records.is_empty() {
            writeln!(page, "no pod was resized in the last 7 days");
        } else {
            section(&mut page, "Changes of the last 7 days", changes);
        }
        add(&mut page, "Under way", &["WORKLOAD", "POD", "CHANGE", "STATE"], under_way);
        add(&mut page, "Left alone", &["WORKLOAD", "CONTAINER", "WHAT", "WHY"], left_alone);
        let text = |event: &Value, pointer: &str| {
            event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let mut newest: BTreeMap<[String; 3], [String; 2]> = BTreeMap::new();
        for event in &self.events {
            let about =
                ["/involvedObject/namespace", "/involvedObject/name", "/reason"].map(|pointer| text(event, pointer));
            let said = ["/lastTimestamp", "/message"].map(|pointer| text(event, pointer));
            let known = newest.entry(about).or_default();
            *known = std::mem::take(known).max(said);
        }
        let rows =
            newest.into_iter().map(|([namespace, name, _], [at, said])| [format!("{namespace}/{name}"), at, said]);
        add(&mut page, "Not done", &["OBJECT", "TIME", "WHAT"], rows.collect());
        page
    }
}

fn add<const COLUMNS: usize>(page: &mut Page, heading: &str, columns: &[&str], rows: Vec<[String; COLUMNS]>) {
    if rows.is_empty() {
        return;
    }
    let mut table = Table::new(columns);
    rows.into_iter().for_each(|row| table.row(row));
    section(page, heading, table);
}

fn time(at: Time) -> String {
    Timestamp::from_unix_seconds(at).map(|at| at.to_string()).unwrap_or_default()
}

fn to(change: &Change) -> String {
    let of = |of: &headroom_resize::Resized| format!("{}: {} -> {}", of.name, of.from.requests, of.to.requests);
    change.containers.iter().map(of).collect::<Vec<_>>().join("; ")
}

fn phase(change: &Change) -> String {
    match &change.phase {
        Phase::Asked { .. } => "sent".to_owned(),
        Phase::Withheld { .. } => "not sent again".to_owned(),
        Phase::Watched { since } => format!("watched since {}", time(*since)),
        Phase::TakenBack { harm, .. } => format!("being taken back: {harm}"),
    }
}
