//! The programs' own estimates: they collect the recordings before a time, and recommend requests at that time.

#![expect(clippy::disallowed_methods, reason = "the programs read these files")]

use std::collections::BTreeMap;
use std::fs;
use std::process::Output;

use serde_json::Value;

use super::requests::{ByMoment, Requests, in_report};
use super::traces::Set;
use crate::Result;
use crate::measure::program;

/// The programs' amounts at the start of each of a set's recordings except the first, from the usage before it.
pub struct Ours {
    /// The estimates at admission.
    pub admission: Requests,
    /// The recommended requests, as for manifests.
    pub manifests: Requests,
    /// The peaks of usage that are known, by which memory limits are recommended.
    pub peaks: Requests,
}

/// With each of these settings of estimates, such as `percentile: {cpu: p95 of 7d}`, and by them; an empty text is the defaults.
pub fn estimate<'s>(set: &Set, settings: impl IntoIterator<Item = &'s str>) -> Result<BTreeMap<&'s str, Ours>> {
    let work = tempfile::tempdir()?;
    let step = format!("{}s", set.step()?);
    let mut newest = None;
    let named = |name: &str| Requests { name: name.to_owned(), by_moment: ByMoment::new() };
    let ours = || Ours { admission: named("headroom"), manifests: named("recommend"), peaks: named("peaks") };
    let mut all: BTreeMap<&str, Ours> = settings.into_iter().map(|settings| (settings, ours())).collect();
    for file in &set.files {
        let moment = file.moment();
        // The store has those before.
        if let Some(newest) = &newest {
            let profiles = work.path().join(&file.day);
            fs::create_dir(&profiles)?;
            let mut collect = program("headroom-controller");
            collect.args(["collect", "files"]).arg(newest).args(["--step", &step]);
            collect.arg("--store").arg(work.path().join("store")).arg("--output").arg(&profiles);
            succeeded(collect.output()?)?;
            for (settings, ours) in &mut all {
                let file = work.path().join("settings.yaml");
                let of_time = format!("namespace: headroom, replayTime: \"{moment}\"");
                fs::write(&file, format!("estimates: {{{of_time}, {settings}}}\n"))?;
                let mut recommend = program("kubectl-headroom");
                recommend.args(["recommend", "-o", "json", "-f"]).arg(&set.pods).arg("--cluster-dir").arg(&profiles);
                recommend.arg("--settings").arg(&file);
                // Without history of any image, the output is empty.
                let recommendation = recommend.output()?.stdout;
                if !recommendation.is_empty() {
                    let report = serde_json::from_slice(&recommendation)?;
                    ours.admission.by_moment.insert(moment.clone(), in_report(&report, admitted)?);
                    let recommended = in_report(&report, |of| of.get("recommended")?.as_str())?;
                    ours.manifests.by_moment.insert(moment.clone(), recommended);
                    let peaks = in_report(&report, |of| of.pointer("/used/peak")?.as_str())?;
                    ours.peaks.by_moment.insert(moment.clone(), peaks);
                }
            }
        }
        let csv = work.path().join(format!("{}.csv", file.day));
        fs::write(&csv, file.lines()?)?;
        newest = Some(csv);
    }
    Ok(all)
}

/// The estimate that admission sets. What is typical for an image is none.
fn admitted(resource: &Value) -> Option<&str> {
    let request = resource.get("request").filter(|of| of.get("from") == Some(&"estimated at admission".into()))?;
    request.get("value")?.as_str()
}

fn succeeded(output: Output) -> Result<()> {
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned().into()) }
}
