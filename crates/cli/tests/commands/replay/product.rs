//! The programs' own estimates: they collect the recordings before a time, and recommend requests at that time.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use super::Result;
use super::requests::{ByMoment, recommended};
use super::traces::Set;

/// The estimates at the start of each of the set's recordings except the first.
pub fn estimate(set: &Set, pods: &Path) -> Result<ByMoment> {
    let work = tempfile::tempdir()?;
    let step = format!("{}s", set.step()?);
    let mut known = Vec::new();
    let mut by_moment = ByMoment::new();
    for file in &set.files {
        let moment = file.moment();
        if !known.is_empty() {
            let profiles = work.path().join(&file.day);
            fs::create_dir(&profiles)?;
            let mut collect = Command::new(env!("CARGO_BIN_EXE_headroom-controller"));
            collect.args(["collect", "files"]).args(&known).args(["--step", &step, "--as-of", &moment]);
            collect.arg("--store").arg(work.path().join("store")).arg("--output").arg(&profiles);
            succeeded(collect.output()?)?;
            let settings = work.path().join("settings.yaml");
            fs::write(&settings, format!("estimates: {{replayTime: \"{moment}\"}}\n"))?;
            let mut recommend = Command::new(env!("CARGO_BIN_EXE_kubectl-headroom"));
            recommend.args(["recommend", "-o", "json", "-f"]).arg(pods).arg("--cluster-dir").arg(&profiles);
            recommend.arg("--settings").arg(&settings);
            // Without history of any image, the output is empty.
            let recommendation = recommend.output()?.stdout;
            if !recommendation.is_empty() {
                by_moment.insert(moment, recommended(&serde_json::from_slice(&recommendation)?)?);
            }
        }
        let csv = work.path().join(format!("{}.csv", file.day));
        fs::write(&csv, file.lines()?)?;
        known.push(csv);
    }
    Ok(by_moment)
}

fn succeeded(output: Output) -> Result<()> {
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned().into()) }
}
