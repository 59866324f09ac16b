//! The answer of a bare `resize`: the changes of running pods under way, what is left alone and why, and what would be done.

use std::collections::BTreeMap;

use headroom_admission::timestamp::Timestamp;
use headroom_objects::kinds::text;
use headroom_output::{Page, Table};
use headroom_resizer::decision::{Direction, Harm, Past, Phase, Record, Resized, Time};
use headroom_workloads::WorkloadRef;
use serde::Serialize;
use serde_json::Value;

use crate::describe::section;

/// The name under which the loop writes Events.
pub const COMPONENT: &str = "headroom-resizer";
/// The reasons of the Events that say what is not done.
const REASONS: [&str; 5] = ["WouldResize", "ResizeWaits", "ResizeUnsettled", "ResizeDoesNotFit", "ResizeRefused"];

/// Everything that is known about resizes, in words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resizes {
    /// The workloads with changes in the last 7 days, and how many pods were changed.
    pub changes: Vec<Changed>,
    pub under_way: Vec<UnderWay>,
    /// Containers of which a change was taken back or refused.
    pub left_alone: Vec<Left>,
    pub not_done: Vec<NotDone>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Changed {
    pub workload: String,
    pub raised: usize,
    pub lowered: usize,
    /// The number of pods with a change after which nothing got worse.
    pub quiet: usize,
    pub last: String,
    /// The last change, as far as its amounts are still known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub what: String,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnderWay {
    pub workload: String,
    pub pod: String,
    pub change: String,
    pub why: String,
    pub state: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Left {
    pub workload: String,
    /// `app`, or `app of pod web-1`
    pub container: String,
    /// `not raised` or `not lowered`
    pub what: &'static str,
    pub until: String,
    pub why: String,
    /// True if a change was made and taken back, false if the API server refused it.
    pub is_taken_back: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotDone {
    pub namespace: String,
    pub object: String,
    /// The reason of the Event, such as `WouldResize`.
    pub reason: String,
    pub time: String,
    pub what: String,
}

impl Resizes {
    pub fn new(records: &BTreeMap<WorkloadRef, Record>, events: &[Value], now: Time) -> Self {
        let mut all = Self::default();
        for (workload, record) in records {
            let of = || workload.path();
            if let Some(last) = record.all_past().max_by_key(|past| past.begun) {
                let count = |is_it: &dyn Fn(&Past) -> bool| {
                    record.past.values().filter(|of_pod| of_pod.iter().any(is_it)).count()
                };
                all.changes.push(Changed {
                    workload: of(),
                    raised: count(&|past| past.direction == Direction::Up),
                    lowered: count(&|past| past.direction == Direction::Down),
                    quiet: count(&|past| past.quiet),
                    last: time(last.begun),
                    what: to(&last.containers),
                    why: last.why.to_string(),
                });
            }
            all.under_way.extend(record.changes.iter().map(|change| UnderWay {
                workload: of(),
                pod: change.pod.clone(),
                change: to(&change.containers),
                why: change.why.to_string(),
                state: state(&change.phase),
            }));
            all.left_alone.extend(record.left_alone.iter().filter(|left| now < left.until).map(|left| Left {
                workload: of(),
                container: match &left.pod {
                    Some(pod) => format!("{} of pod {pod}", left.container),
                    None => left.container.clone(),
                },
                what: if left.direction == Direction::Up { "not raised" } else { "not lowered" },
                until: time(left.until),
                why: left.harm.to_string(),
                is_taken_back: !matches!(left.harm, Harm::Refused(_)),
            }));
        }
        let mut newest: BTreeMap<[&str; 4], [&str; 2]> = BTreeMap::new();
        for event in events.iter().filter(|event| REASONS.contains(&text(event, "/reason"))) {
            let about = ["/metadata/namespace", "/involvedObject/kind", "/involvedObject/name", "/reason"];
            let known = newest.entry(about.map(|pointer| text(event, pointer))).or_default();
            *known = ["/lastTimestamp", "/message"].map(|pointer| text(event, pointer)).max(*known);
        }
        let not_done = newest.into_iter().map(|([namespace, kind, name, reason], said)| {
            let [namespace, reason, time, what] = [namespace, reason, said[0], said[1]].map(str::to_owned);
            NotDone { namespace, object: format!("{}/{name}", kind.to_lowercase()), reason, time, what }
        });
        all.not_done = not_done.collect();
        all
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn page(&self) -> Page {
        let mut page = Page::new();
        if self.changes.is_empty() {
            writeln!(page, "no pod was resized in the last 7 days");
        }
        let changes = self.changes.iter().map(|of| {
            let [raised, lowered, quiet] = [of.raised, of.lowered, of.quiet].map(|count| count.to_string());
            [of.workload.clone(), raised, lowered, quiet, of.last.clone()]
        });
        let columns = ["WORKLOAD", "RAISED", "LOWERED", "QUIET", "LAST"];
        add(&mut page, "Pods resized in the last 7 days", &columns, changes);
        let under_way =
            self.under_way.iter().map(|of| [&of.workload, &of.pod, &of.change, &of.state].map(String::clone));
        add(&mut page, "Under way", &["WORKLOAD", "POD", "CHANGE", "STATE"], under_way);
        let left = self.left_alone.iter().map(|of| {
            let what = format!("{} until {}", of.what, of.until);
            [of.workload.clone(), of.container.clone(), what, of.why.clone()]
        });
        add(&mut page, "Left alone", &["WORKLOAD", "CONTAINER", "WHAT", "WHY"], left);
        let not_done = self
            .not_done
            .iter()
            .map(|of| [format!("{}/{}", of.namespace, of.object), of.time.clone(), of.what.clone()]);
        add(&mut page, "Not done, as last told", &["OBJECT", "TIME", "WHAT"], not_done);
        page
    }
}

fn add<const COLUMNS: usize>(
    page: &mut Page,
    heading: &str,
    columns: &[&str],
    rows: impl Iterator<Item = [String; COLUMNS]>,
) {
    let mut table = Table::new(columns);
    rows.for_each(|row| table.row(row));
    if !table.is_empty() {
        section(page, heading, table);
    }
}

fn time(at: Time) -> String {
    Timestamp::from_unix_seconds(at).map(|at| at.to_string()).unwrap_or_default()
}

fn to(containers: &[Resized]) -> String {
    let of = |of: &Resized| format!("{}: {of}", of.name);
    containers.iter().map(of).collect::<Vec<_>>().join("; ")
}

fn state(phase: &Phase) -> String {
    match phase {
        Phase::Asked { .. } => "sent".to_owned(),
        Phase::Withheld { .. } => "not sent again".to_owned(),
        Phase::Watched { since } => format!("watched since {}", time(*since)),
        Phase::TakenBack { harm, .. } => format!("being taken back: {harm}"),
    }
}
