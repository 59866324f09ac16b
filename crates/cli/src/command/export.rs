//! The page as one file with a snapshot inside. `build.mjs` makes the file, with its scripts and styles inlined under hashes.

use std::io::Write as _;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use headroom_api_server::clock;
use headroom_objects::kinds::SNAPSHOT;
use headroom_recommend::output::summary::RecommendationSummary;
use headroom_recommend::report::Recommendations;
use serde_json::json;

use super::site::Site;

/// The file of the site, and the place in it for the snapshot.
const REPORT: (&str, &str) = ("report.html", "@SNAPSHOT@");

/// Puts a compressed snapshot into the page. Its letters end no element, whatever the objects are named.
pub fn page(site: &Site, snapshot: &[u8]) -> anyhow::Result<String> {
    let (name, place) = REPORT;
    let (_, bytes) = site.get(name).with_context(|| format!("the page has no {name}: make it again"))?;
    Ok(std::str::from_utf8(bytes)?.replacen(place, &STANDARD.encode(snapshot), 1))
}

/// The page with recommendations alone.
pub fn of_report(report: &Recommendations) -> anyhow::Result<String> {
    let (api_version, kind) = SNAPSHOT;
    let spec = json!({"advice": RecommendationSummary(report), "cluster": report.cluster, "madeAt": clock::now()});
    let about = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "snapshot"}, "spec": spec});
    let mut compressed = GzEncoder::new(Vec::new(), Compression::fast());
    compressed.write_all(json!({"apiVersion": "v1", "items": [about], "kind": "List"}).to_string().as_bytes())?;
    page(&Site::find()?, &compressed.finish()?)
}
