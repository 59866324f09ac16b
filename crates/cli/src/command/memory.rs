//! Remembers what containers requested, and should have requested, when `ui` first looked on each of two days: so the page says which
//! recommendations were followed since. It is one file for each cluster, which only its owner can read.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use headroom_output::file::WholeFile;
use headroom_recommend::output::summary::RecommendationSummary;
use headroom_usage::{cardinality, day_of};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::state_folder;

pub struct Memory(PathBuf);

/// The [`Pairs`] of each container, as text: `shop/deployment/web/nginx`. Most stay as they are, and are not read.
type Requests = BTreeMap<String, Box<RawValue>>;

/// The request and the recommendation of each resource.
type Pairs = BTreeMap<String, [Option<String>; 2]>;

#[derive(Debug, Serialize, Deserialize)]
struct Day {
    day: u32,
    requests: Requests,
}

/// A container whose requests are others than on the last day before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedRequest {
    id: String,
    /// They are what was recommended then.
    is_as_recommended: bool,
}

impl Memory {
    /// None if there is no folder for the state of programs.
    pub fn of_cluster(cluster: &str) -> Option<Self> {
        let name = format!("ui-{:08x}.json", cardinality::hash("", cluster));
        Some(Self(state_folder()?.join("headroom").join(name)))
    }

    /// The changes since the last day before, and keeps what is new. Without a file that can be read or written, nothing is known.
    pub fn changes(&self, summary: &RecommendationSummary, now: i64) -> Vec<ChangedRequest> {
        let text = fs::read(&self.0).unwrap_or_default();
        let mut days: Vec<Day> = serde_json::from_slice(&text).unwrap_or_default();
        let changes = remember(&mut days, requests(summary), day_of(now));
        if let Err(error) = write(&self.0, &days) {
            tracing::debug!(%error, "cannot keep the requests of today");
        }
        changes
    }
}

fn requests(summary: &RecommendationSummary) -> Requests {
    // OK because texts can be written.
    summary.requests().filter_map(|(id, pairs)| Some((id, to_raw_value(&pairs).ok()?))).collect()
}

fn remember(days: &mut Vec<Day>, now: Requests, today: u32) -> Vec<ChangedRequest> {
    days.retain(|day| day.day <= today);
    let before = days.iter().filter(|day| day.day < today).max_by_key(|day| day.day);
    let changed = |(id, now): (&String, &str)| {
        let before = before?.requests.get(id)?.get();
        let pairs = |text| serde_json::from_str::<Pairs>(text).unwrap_or_default();
        let (before, now) = if before == now { return None } else { (pairs(before), pairs(now)) };
        let mut changed = now.iter().filter_map(|(resource, [request, _])| {
            let [old, recommended] = before.get(resource)?;
            (old != request).then_some(request == recommended)
        });
        let first = changed.next()?;
        Some(ChangedRequest { id: id.clone(), is_as_recommended: first && changed.all(|is| is) })
    };
    let changes = now.iter().map(|(id, now)| (id, now.get())).filter_map(changed).collect();
    match days.iter_mut().find(|day| day.day == today) {
        // The first look of a day counts. Later ones may add namespaces.
        Some(day) => now.into_iter().for_each(|(id, resources)| _ = day.requests.entry(id).or_insert(resources)),
        None => days.push(Day { day: today, requests: now }),
    }
    days.sort_by_key(|day| day.day);
    days.drain(..days.len().saturating_sub(2));
    changes
}

fn write(path: &Path, days: &[Day]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = WholeFile::create_private(path)?;
    file.write_all(&serde_json::to_vec(days)?)?;
    file.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_those_since_the_last_day_before() {
        let now = |request: &str| -> Requests {
            let pair = [Some(request.to_owned()), Some("300m".to_owned())];
            let pairs = to_raw_value(&BTreeMap::from([("cpu", pair)])).unwrap();
            BTreeMap::from([("shop/deployment/web/nginx".to_owned(), pairs)])
        };
        let mut days = Vec::new();
        let mut look = |day: u32, request: &str| {
            let changes = remember(&mut days, now(request), day);
            (changes.iter().map(|change| change.is_as_recommended).collect::<Vec<_>>(), days.len())
        };
        assert_eq!(look(1, "1"), (vec![], 1));
        assert_eq!(look(1, "2"), (vec![], 1));
        // From the 1 core of the first look.
        assert_eq!(look(2, "300m"), (vec![true], 2));
        assert_eq!(look(2, "400m"), (vec![false], 2));
        assert_eq!(look(2, "1"), (vec![], 2));
        assert_eq!(look(9, "300m"), (vec![], 2));
        // A clock that was set back forgets what is to come.
        assert_eq!(look(1, "300m"), (vec![], 1));
    }
}
