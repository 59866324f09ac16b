//! Proposed objects as YAML to commit, each value with its reason in a comment above it.

use std::fmt::Write as _;

use headroom_output::Page;
use serde_json::Value;

/// Where a value stands in an object, such as `["spec", "hard", "pods"]`, and the reason for it.
pub type Reasons = Vec<(Vec<String>, String)>;

/// One YAML document for each object.
pub fn page(heading: &str, objects: &[(&Value, Reasons)]) -> anyhow::Result<Page> {
    let mut text = format!("# {heading}\n");
    for (object, reasons) in objects {
        text.push_str("---\n");
        commented(&Page::yaml(object)?.to_string(), reasons, &mut text);
    }
    Ok(Page::document(&text))
}

/// Adds each reason above its line. A line's place is known by its indent, as our own writer indents.
fn commented(yaml: &str, reasons: &Reasons, text: &mut String) {
    let mut place: Vec<(usize, String)> = Vec::new();
    for line in yaml.lines() {
        let content = line.trim_start_matches([' ', '-']);
        let (indent, key) = (line.len() - content.len(), content.split(": ").next().unwrap_or(content));
        place.retain(|(other, _)| *other < indent);
        place.push((indent, key.trim_end_matches(':').trim_matches('"').to_owned()));
        let is_here = |path: &&Vec<String>| path.iter().eq(place.iter().map(|(_, key)| key));
        if let Some((_, reason)) = reasons.iter().find(|(path, _)| is_here(&path)) {
            // A name with a line end would leave the comment.
            let reason: String = reason.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
            let _ = writeln!(text, "{}# {reason}", " ".repeat(indent));
        }
        text.push_str(line);
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reasons_stand_above_their_values_and_cannot_leave_their_line() {
        let range = json!({"kind": "LimitRange", "spec": {"limits": [
            {"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "2"}}]}});
        let path = |path: [&str; 4]| path.map(str::to_owned).to_vec();
        let reasons = vec![
            (path(["spec", "limits", "default", "cpu"]), "half of\n  max: 7".to_owned()),
            (path(["spec", "limits", "max", "cpu"]), "the largest".to_owned()),
        ];
        let expected = "\
# today
---
kind: LimitRange
spec:
  limits:
  - default:
      # half of   max: 7
      cpu: \"1\"
    max:
      # the largest
      cpu: \"2\"
    type: Container
";
        assert_eq!(page("today", &[(&range, reasons)]).unwrap().to_string(), expected);
    }
}
