//! The line that a problem is about.

use headroom_objects::manifest::yaml_spans;

/// The line of the field that a problem of settings names in its first backticks, as far as the text has it; the first
/// line if it has none of it.
pub fn of_setting(text: &str, problem: &str) -> usize {
    let path = problem.split('`').nth(1).unwrap_or_default();
    let documents = yaml_spans::documents(text).unwrap_or_default();
    // Settings may stand within a policy object.
    let lines = documents.iter().map(|document| {
        let settings = document.get("spec").and_then(|spec| spec.get("settings")).unwrap_or(document);
        deepest(settings, path)
    });
    lines.max().map_or(1, |(_, line)| line)
}

/// The line of the field that a problem of an object begins with (`spec.limits[0].min[cpu]: …`), as far as the object that
/// begins at a line has it; else that line.
pub fn of_field(documents: &[yaml_spans::YamlNode], object: usize, problem: &str) -> usize {
    let path = problem.split_once(": ").map_or("", |(path, _)| path);
    let begun = documents.get(documents.partition_point(|document| document.line < object));
    let found = begun.map(|document| deepest(document, path)).filter(|(steps, _)| *steps > 0);
    found.map_or(object, |(_, line)| line)
}

/// Counts the steps of a path (`limitRanges.rules[0].limits`, `min[example.com/gpu]`) that a node has, and finds the line of the last.
fn deepest(node: &yaml_spans::YamlNode, path: &str) -> (usize, usize) {
    let (mut node, mut found) = (node, (0, node.line));
    // Brackets are one step: an index, or a key with dots of its own.
    let steps = path.split('[').flat_map(|part| {
        let (bracketed, names) = part.split_once(']').map_or((None, part), |(key, names)| (Some(key), names));
        bracketed.into_iter().chain(names.split('.'))
    });
    for step in steps.filter(|step| !step.is_empty()) {
        let next = match step.parse::<usize>() {
            Ok(index) => node.items().get(index).map(|item| (item, item.line)),
            Err(_) => node.entry(step).map(|(key, value)| (value, key.line)),
        };
        let Some((value, line)) = next else { break };
        (node, found) = (value, (found.0 + 1, line));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_stand_at_their_fields() {
        let settings =
            "# ours\nlimitRanges:\n  mode: on\n  rules:\n    - name: a\n    - name: b\n      limits: 3\nestimate: {}\n";
        let check = |problem: &str, line: usize| assert_eq!(of_setting(settings, problem), line, "{problem}");
        check("`limitRanges.mode` is wrong: expected `enforce`", 3);
        check("`limitRanges.rules[1].limits` is wrong", 7);
        check("`limitRanges.rules[1].name2` is wrong", 6);
        check("`estimate` is not a setting", 8);
        check("`quotas` is wrong", 2);
        check("no path", 2);
        assert_eq!(of_setting("{", "`a` is wrong"), 1);
        let policy = "kind: ClusterAdmissionPolicy\nspec:\n  settings:\n    mutateTemplates: 3\n";
        assert_eq!(of_setting(policy, "`mutateTemplates` is wrong"), 4);
    }

    #[test]
    fn problems_of_objects_are_at_their_fields() {
        let ranges = "kind: LimitRange\nspec:\n  limits: []\n---\nkind: LimitRange\nspec:\n  limits:\n  - type: Pod\n  - min:\n      memory: 1Gi\n      example.com/gpu: 3\n";
        let documents = yaml_spans::documents(ranges).unwrap();
        let check = |problem: &str, line: usize| assert_eq!(of_field(&documents, 5, problem), line, "{problem}");
        check("spec.limits[1].min[memory]: is above", 10);
        check("spec.limits[1].min[example.com/gpu]: is above", 11);
        check("spec.limits[1].max[cpu]: is wrong", 9);
        check("spec.limits[7].max[cpu]: is wrong", 7);
        check("no path", 5);
        check("other: no such field", 5);
        assert_eq!(of_field(&[], 3, "spec: wrong"), 3);
    }
}
