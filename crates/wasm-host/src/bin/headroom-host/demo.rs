//! `demo`: a story of a few objects that are applied: what each says, how the policy answers, and why.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use anstream::println;
use anstyle::{AnsiColor, Style};
use headroom_fixtures::request::for_object;
use headroom_wasm_host::admission::{AdmissionRequest, AdmissionResponse};
use headroom_wasm_host::built;
use headroom_wasm_host::cluster::Cluster;
use headroom_wasm_host::host::PolicyHost;
use serde::Deserialize;
use serde_json::{Map, Value};

const WIDTH: usize = 80;
/// The column in which the reasons of a diff begin.
const REASONS: usize = 30;
const RED: Style = AnsiColor::Red.on_default();
const GREEN: Style = AnsiColor::Green.on_default();
const NEXT: &str = "\
The kubectl plugin answers the same before anything is applied:

  make kubectl-headroom
  target/native/kubectl-headroom check -f docs/examples/shop/app \\
      --cluster-dir docs/examples/shop/cluster
  target/native/kubectl-headroom ui -A --cluster-dir docs/examples/shop/cluster
";

/// One object that is applied, to a cluster of these files.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scene {
    title: String,
    text: String,
    cluster: Vec<PathBuf>,
    #[serde(default)]
    settings: Map<String, Value>,
    object: Value,
}

pub fn demo() -> Result<(), String> {
    let (access, host) = (built::access()?, PolicyHost::load(Path::new("policy.wasm"))?);
    let unreadable = |error: &dyn std::fmt::Display| format!("cannot read the story: {error}");
    let story = fs::read_to_string("tests/data/demo/story.yaml").map_err(|error| unreadable(&error))?;
    let scenes: Vec<Scene> = serde_yaml::from_str(&story).map_err(|error| unreadable(&error))?;
    for (number, scene) in (1..).zip(&scenes) {
        let request = AdmissionRequest::from_value(for_object("CREATE", &scene.object, None, ""))?;
        let mut cluster = Cluster::from_files(&scene.cluster)?;
        let response = host.validate(&request, &scene.settings.clone().into(), &access, &mut cluster);
        let title = format!("{number} of {}: {}", scenes.len(), scene.title);
        println!("\n{}\n{}\n", painted(Style::new().bold(), &title), scene.text);
        println!("{}", answer(&scene.object, &response)?);
    }
    print!("{NEXT}");
    Ok(())
}

/// Shows the object with the changes, the verdict, and the warnings.
fn answer(object: &Value, response: &AdmissionResponse) -> Result<String, String> {
    let field = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let mut text =
        format!("  {} {}, namespace {}\n\n", field("/kind"), field("/metadata/name"), field("/metadata/namespace"));
    let patched = response.patched(object)?;
    let changes = diff(&lines(object), &lines(&patched), &reasons(&patched));
    text.push_str(&changes);
    let verdict = match (response.allowed, response.patch.is_some()) {
        (false, _) => painted(RED, "REJECTED"),
        (true, true) => painted(GREEN, "ADMITTED with the values marked +"),
        (true, false) => painted(GREEN, "ADMITTED"),
    };
    text.push_str(&format!("\n{verdict}\n"));
    // Kubernetes' own words come first, and then what to do.
    for part in response.message().into_iter().flat_map(|message| message.splitn(2, "; ")) {
        text.push_str(&format!("  {}\n", wrapped(part, WIDTH - 2).join("\n  ")));
    }
    for warning in response.warnings.iter().flatten() {
        let lines = wrapped(warning, WIDTH - 11).join("\n         ");
        text.push_str(&format!("{}  {lines}\n", painted(AnsiColor::Yellow.on_default(), "Warning")));
    }
    Ok(text)
}

/// A line of YAML, and the path that says which field it is.
#[derive(Debug, PartialEq)]
struct Line {
    path: String,
    text: String,
}

/// The fields of an object that the demo is about: replicas, and of each container the image and the resources.
fn lines(object: &Value) -> Vec<Line> {
    let spec = &object["spec"];
    let mut lines = Vec::new();
    let mut add = |path: String, text: String| lines.push(Line { path, text });
    if let Some(replicas) = spec.get("replicas") {
        add("replicas".to_owned(), format!("replicas: {replicas}"));
    }
    add("containers".to_owned(), "containers:".to_owned());
    let pod = spec.pointer("/template/spec").unwrap_or(spec);
    for container in pod["containers"].as_array().into_iter().flatten() {
        let name = plain(&container["name"]);
        add(name.clone(), format!("- name: {name}"));
        add(format!("{name} image"), format!("  image: {}", plain(&container["image"])));
        let resources = container["resources"].as_object().into_iter().flatten();
        for (index, (list, amounts)) in resources.enumerate() {
            if index == 0 {
                add(format!("{name} resources"), "  resources:".to_owned());
            }
            add(format!("{name} {list}"), format!("    {list}:"));
            for (resource, amount) in amounts.as_object().into_iter().flatten() {
                add(format!("{name} {list}.{resource}"), format!("      {resource}: {}", plain(amount)));
            }
        }
    }
    lines
}

/// A scalar as YAML has it, without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Reads the reason of each value from the annotation that the policy wrote, by the path of its line.
fn reasons(patched: &Value) -> HashMap<String, String> {
    let annotation = patched.pointer("/metadata/annotations/headroom.dev~1resources").and_then(Value::as_str);
    let containers: HashMap<String, HashMap<String, String>> =
        annotation.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let reason = |value: &str| value.split_once(": ").map_or(value, |(_, reason)| reason).to_owned();
    let all = containers.iter().flat_map(|(container, fields)| {
        fields.iter().map(move |(field, value)| (format!("{container} {field}"), reason(value)))
    });
    all.collect()
}

/// A diff of two objects whose lines are in the same order, with the reasons beside the lines that are new.
fn diff(before: &[Line], after: &[Line], reasons: &HashMap<String, String>) -> String {
    let mut text = String::new();
    let mut old = before.iter().peekable();
    for line in after {
        while let Some(removed) = old.next_if(|removed| !after.contains(removed)) {
            text.push_str(&format!("{}\n", painted(RED, &format!("  - {}", removed.text))));
        }
        if old.next_if_eq(&line).is_some() {
            text.push_str(&format!("    {}\n", line.text));
            continue;
        }
        let added = format!("  + {}", line.text);
        let Some(reason) = reasons.get(&line.path) else {
            text.push_str(&format!("{}\n", painted(GREEN, &added)));
            continue;
        };
        for (index, note) in wrapped(reason, WIDTH - REASONS - 2).iter().enumerate() {
            let field = if index == 0 { &added } else { "  +" };
            text.push_str(&format!(
                "{}{}\n",
                painted(GREEN, &format!("{field:REASONS$}")),
                painted(Style::new().dimmed(), &format!("# {note}"))
            ));
        }
    }
    text
}

/// A text in lines of at most that width, broken between words.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

/// The text in a style, which [`println`] leaves out where it is unwanted.
fn painted(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_diff_has_reasons_beside_new_lines_and_fits_80_columns() {
        let pod =
            |resources: Value| json!({"spec": {"containers": [{"name": "web", "image": "a", "resources": resources}]}});
        let before = pod(json!({"limits": {"cpu": "1"}}));
        let mut after = pod(json!({"limits": {"cpu": "2"}, "requests": {"cpu": "250m"}}));
        let reason = "default of LimitRange limits, and some more words until the line is full";
        after["metadata"]["annotations"]["headroom.dev/resources"] =
            json!({"web": {"requests.cpu": format!("250m: {reason}")}}).to_string().into();
        let shown = diff(&lines(&before), &lines(&after), &reasons(&after));
        let expected = "    containers:\n    - name: web\n      image: a\n      resources:\n        limits:\n  -       cpu: 1\n  +       cpu: 2\n  +     requests:\n\
            \u{20} +       cpu: 250m           # default of LimitRange limits, and some more\n\
            \u{20} +                           # words until the line is full\n";
        assert_eq!(anstream::adapter::strip_str(&shown).to_string(), expected);
    }
}
