//! The YAML reader beside a real kubectl, over generated snippets: what both read, they read alike.
//!
//! `KUBECTL` names the program, `HEADROOM_YAML_SNIPPETS` the number (20,000), `HEADROOM_YAML_SEED` another course.

#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test may start kubectl and stop on what it cannot read"
)]

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use headroom_objects::manifest::read_text;
use serde_json::Value;

/// Pieces of YAML of which snippets are made: what the two kinds of readers are known to take differently, and its surroundings.
const PIECES: &str = r#"a|b|k: |- |? |: |, |[|]|{|}|&x |*x|&y |*y|!!str |!!int |!!binary |!!float |!!null |!!map |!!seq |!!set |!!timestamp |!mine |! |'|"|''|\"|
|
  |
    |
      |	|#| # c|>|>-|>+|>2|0x1F|0o17|017|08|0b11|1_000|1e3|1E400|.5|5.|+1|-0|-.inf|.NaN|~|null|Null|yes|Yes|on|OFF|No|y|n|true|tRUE|2001-01-01|<<: |<<|<<: *x|<<: {a: 1}|<<: [*x, {b: 2}]|{a: 1, <<: {a: 2}}|{<<: {a: 1}, a: 2}|{<<: {<<: {a: 1}, b: 2}, a: 3}|{<<: {a: 1}, <<: {a: 2}}|{<<: {a: {b: 1}}, a: {c: 2}}|\n|\x41|\u2028|\e|é|@L|@P|@N|﻿| |---|...|%|@|`|=|1:30:00|-|--|a: b|a:b|::|k: v|k: w|"k": 1|true: 1|yes: 1|1: a|01: b|1.0: c|9223372036854775808|18446744073709551616|0.1|1e-7|'a@B  b'|"a@B  b"|"a\@B  b"|'a@Bb'|"a@B b": c|- 'a@Bb'|k: 'it''s@Bb'|k: "a \" b@Bc"|k: 'a@Bk: b'|?a|?k: 1|{?k: v}|{k: v, ?k: w}|[?a]|:a|a:|{a:: b}|[a::]|[-a, -, --]|[-]|[:a]|{:k: v}|0x_40|0b_1|0o_7|-0x_1|0_x1|1__2|@R@R@B|@R@B|190:20:30|=: 1|"<<": {a: 1}|? k@B  : v|[? a : b]|{? a : b}|!!merge <<|? <<@B  : {a: 1}"#;

fn snippet(random: &mut fastrand::Rng, pieces: &[&str], number: usize) -> String {
    let count = 1 + random.usize(..7);
    let made: String = (0..count).map(|_| pieces[random.usize(..pieces.len())]).collect();
    // Breaks inside pieces, and those that only YAML 1.1 knows.
    let made = made
        .replace("@B", "\n")
        .replace("@L", "\u{2028}")
        .replace("@P", "\u{2029}")
        .replace("@N", "\u{85}")
        .replace("@R", "\r");
    let value = if random.bool() { format!(" {made}") } else { format!("\n  {made}") };
    format!("apiVersion: v1\nkind: Widget\nmetadata:\n  name: p{number}\nvalue:{value}\nafter: 1\n")
}

/// Without null fields, which say nothing, and with one kind of numbers.
fn comparable(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, comparable(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(comparable).collect(),
        // serde_json, which reads what kubectl prints, may miss the last digits.
        Value::Number(number) => Value::from(format!("{:.11e}", number.as_f64().unwrap())),
        other => other,
    }
}

/// The objects that kubectl reads in a folder, by name.
fn read_by_kubectl(kubectl: &str, folder: &Path) -> HashMap<String, Value> {
    let mut command = Command::new(kubectl);
    command.args(["label", "--local", "read=yes", "-o", "json", "-f"]).arg(folder).env("KUBECONFIG", "/dev/null");
    let printed = command.output().unwrap().stdout;
    let objects = serde_json::Deserializer::from_slice(&printed).into_iter::<Value>().map(Result::unwrap);
    objects
        .map(|mut object| {
            object["metadata"].as_object_mut().unwrap().remove("labels");
            (object["metadata"]["name"].as_str().unwrap_or_default().to_owned(), comparable(object))
        })
        .collect()
}

#[test]
#[ignore = "needs kubectl: make test-yaml"]
fn kubectl_reads_the_same_values() {
    let kubectl = std::env::var("KUBECTL").unwrap_or_else(|_| "kubectl".to_owned());
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (count, seed) = (number("HEADROOM_YAML_SNIPPETS", 20_000), number("HEADROOM_YAML_SEED", 1));
    let mut random = fastrand::Rng::with_seed(seed as u64);
    let pieces: Vec<&str> = PIECES.split('|').chain(["|", "|-", "|+", "|2"]).collect();
    let (mut both, mut only_kubectl, mut only_ours, mut differing) = (0, 0, 0, Vec::new());
    for first in (0..count).step_by(500) {
        let folder = tempfile::tempdir().unwrap();
        let snippets: Vec<String> =
            (first..count.min(first + 500)).map(|number| snippet(&mut random, &pieces, number)).collect();
        for (index, snippet) in snippets.iter().enumerate() {
            std::fs::write(folder.path().join(format!("{index}.yaml")), snippet).unwrap();
        }
        let mut theirs = read_by_kubectl(&kubectl, folder.path());
        for (index, snippet) in snippets.into_iter().enumerate() {
            let theirs = theirs.remove(&format!("p{}", first + index));
            let ours = read_text(Path::new("snippet.yaml"), &snippet).ok();
            let ours = ours.and_then(|objects| objects.into_iter().next()).map(|first| comparable(first.object));
            match (ours, theirs) {
                (Some(ours), Some(theirs)) if ours != theirs => differing.push((snippet, ours, theirs)),
                (Some(_), Some(_)) => both += 1,
                (Some(_), None) => only_ours += 1,
                (None, Some(_)) => only_kubectl += 1,
                (None, None) => {}
            }
        }
    }
    println!("{count} snippets: {both} read alike by both, {only_kubectl} only by kubectl, {only_ours} only by us");
    assert!(both > count / 10, "most snippets are not even YAML");
    for (snippet, ours, theirs) in differing.iter().take(20) {
        println!("--- {snippet:?}\nours    {ours}\nkubectl {theirs}");
    }
    assert_eq!(differing.len(), 0, "read otherwise");
}
