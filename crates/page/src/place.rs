//! The line on which a problem of the settings stands.

use headroom_desk::manifest::tree;

/// The line of the field that a problem names in its first backticks, as far as the text has it; the first line if it
/// has none of it.
pub fn of_problem(text: &str, problem: &str) -> usize {
    let path = problem.split('`').nth(1).unwrap_or_default();
    let documents = tree::documents(text).unwrap_or_default();
    // Settings may stand within a policy object.
    let lines = documents.iter().map(|document| {
        let settings = document.get("spec").and_then(|spec| spec.get("settings")).unwrap_or(document);
        deepest(settings, path)
    });
    lines.max().map_or(1, |(_, line)| line)
}

/// How many steps of a path (`limitRanges.rules[0].limits`) a node has, and the line of the last of them.
fn deepest(node: &tree::Node, path: &str) -> (usize, usize) {
    let (mut node, mut found) = (node, (0, node.line));
    for step in path.split(['.', '[']).filter(|step| !step.is_empty()) {
        let index: Option<usize> = step.strip_suffix(']').and_then(|index| index.parse().ok());
        let next = match index {
            Some(index) => node.items().get(index).map(|item| (item, item.line)),
            None => node.entry(step).map(|(key, value)| (value, key.line)),
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
        let check = |problem: &str, line: usize| assert_eq!(of_problem(settings, problem), line, "{problem}");
        check("`limitRanges.mode` is wrong: expected `enforce`", 3);
        check("`limitRanges.rules[1].limits` is wrong", 7);
        check("`limitRanges.rules[1].name2` is wrong", 6);
        check("`estimate` is not a setting", 8);
        check("`quotas` is wrong", 2);
        check("no path", 2);
        assert_eq!(of_problem("{", "`a` is wrong"), 1);
    }

    #[test]
    fn settings_are_found_within_a_policy() {
        let policy = "kind: ClusterAdmissionPolicy\nspec:\n  settings:\n    mutateTemplates: 3\n";
        assert_eq!(of_problem(policy, "`mutateTemplates` is wrong"), 4);
    }
}
