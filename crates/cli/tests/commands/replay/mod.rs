//! Replays recorded usage: at times in the past the program estimates from the usage before, and later usage shows how
//! accurate the estimates were.
//!
//! A folder of traces has a folder for each set of recordings, with a file for each period in the format of `collect
//! files`, named by its first day (`2026-11-01.csv`, optionally compressed with gzip); `pods/SET.yaml` with a pod of
//! each image; and `requests/NAME.json` with the requests of other recommenders, by time and image. One of those is
//! `vpa`, with which all are compared.

pub mod built;
pub mod judge;
pub mod product;
pub mod requests;
pub mod table;
pub mod traces;

use std::error::Error;
use std::fs;
use std::path::Path;

use judge::Judged;
use requests::Requests;
use traces::{Set, Traces};

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

const YARDSTICK: &str = "vpa";
const OURS: &str = "headroom";

/// The judged tables of all sets in the folder.
pub fn run(folder: &Path) -> Result<String> {
    let traces = Traces::open(folder)?;
    let mut all = requests::of_others(&folder.join("requests"))?;
    let yardstick = all.iter().position(|one| one.name == YARDSTICK);
    all.swap(0, yardstick.ok_or("requests/vpa.json is missing: all are compared with it")?);
    let mut text = String::new();
    for set in &traces.sets {
        text.push_str(&judge(set, &folder.join("pods").join(format!("{}.yaml", set.name)), &all)?);
        for set in built::of(set)? {
            let pods = tempfile::NamedTempFile::new()?;
            fs::write(pods.path(), built::pods(&set)?)?;
            text.push_str(&judge(&set, pods.path(), &[])?);
        }
    }
    Ok(text)
}

/// The tables of one set.
fn judge(set: &Set, pods: &Path, others: &[Requests]) -> Result<String> {
    let mut text = String::new();
    let ours = Requests { name: OURS.to_owned(), by_moment: product::estimate(set, pods)? };
    let columns: Vec<&Requests> = others.iter().chain([&ours]).collect();
    for resource in traces::Resource::ALL {
        let used = set.used_after(resource)?;
        text.push_str(&table::text(&set.name, resource, &Judged::of(&used, &columns, resource)));
    }
    Ok(text)
}
