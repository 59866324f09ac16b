//! The findings of `doctor` about an InfluxDB.

use std::collections::BTreeSet;

use headroom_usage::batch::Impossible;
use headroom_usage::sample::{Resource, Window};

use super::answer::Point;
use super::query::{CONTAINER, IMAGE, NAMESPACE, POD};
use super::{InfluxDb, InfluxdbOptions, NAME_IT, RESOURCES};
use crate::diagnosis::{self, SourceFinding, duration};
use crate::{Source as _, SourceError};

pub async fn diagnose(options: &InfluxdbOptions, our_clock: i64) -> Result<Vec<SourceFinding>, SourceError> {
    let store = InfluxDb::new(options)?;
    let now = store.now().await?;
    let mut findings = vec![diagnosis::clock(our_clock, now)];
    let schema = match store.find_schema().await? {
        Ok(schema) => schema,
        Err(problem) => {
            findings.push(SourceFinding::bad("schema", problem, NAME_IT));
            return Ok(findings);
        }
    };
    let questions = store.questions_in(schema);
    let names = RESOURCES.map(|resource| schema.name(resource)).join(" and ");
    findings.push(SourceFinding::good("schema", format!("Heapster's, {names} in database `{}`", options.database)));

    if let Some(question) = store.several_clusters(&questions).await? {
        findings.push(SourceFinding::bad("cluster", question, "one store of the collector holds one cluster"));
        return Ok(findings);
    }
    let window = Window { from: now - 600, to: now };
    let (mut seen, mut named, mut intervals) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    let mut impossible = Impossible::default();
    store
        .ask::<Point>(&questions.newest(window), &mut |series| {
            let key = [NAMESPACE, POD, CONTAINER].map(|tag| series.tag(tag).to_owned());
            if !series.tag(IMAGE).is_empty() {
                named.insert(key.clone());
            }
            for bytes in series.values.iter().filter_map(|(_, bytes)| *bytes) {
                impossible.check(bytes as u64, Resource::Memory, key.each_ref().map(String::as_str));
            }
            seen.insert(key);
            let distances = series.values.windows(2).filter_map(|pair| pair.last()?.0.checked_sub(pair.first()?.0));
            intervals.extend(distances.filter(|distance| *distance > 0));
        })
        .await?;
    let found = format!("{} of {} containers in the last 10 minutes", named.len(), seen.len());
    let unnamed = seen.difference(&named).next();
    let example = unnamed.map(|[namespace, pod, container]| format!("`{container}` of `{namespace}/{pod}`"));
    let none = "check that Heapster is running and writes to this database";
    let advice = format!("their points have no tag `{IMAGE}`, so their usage is left out");
    findings.push(diagnosis::matched(named.len(), found, example, none, &advice));
    findings.extend(diagnosis::impossible(&impossible));
    let interval = diagnosis::median(intervals);
    findings.extend(interval.map(|interval| SourceFinding::good("sample interval", format!("{interval} s"))));
    let mut oldest = None;
    store.ask::<Point>(&questions.oldest(), &mut |series| oldest = series.values.first().map(|point| point.0)).await?;
    findings.extend(oldest.map(|oldest| diagnosis::history(duration(now - oldest), now - oldest >= 30 * 86_400)));
    Ok(findings)
}
