//! The changes that admission made to an object, line by line.

use headroom_objects::manifest::yaml;
use serde::Serialize;
use serde_json::Value;

/// Some lines that share a mark.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Part {
    pub mark: Mark,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Mark {
    Same,
    Removed,
    Added,
}

/// Between the first and the last line that differ, lines are compared each with each, so many pairs at most; what is
/// longer is shown as removed and added.
const MOST_PAIRS: usize = 4_000_000;

/// The object after admission as YAML, with what admission added and removed.
pub fn between(before: &Value, after: &Value) -> Vec<Part> {
    let (old, new) = (yaml::write(before), yaml::write(after));
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let mut parts = DiffParts::default();
    let head = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(old, new)| old == new).count();
    let (same, old) = old.split_at(head);
    let old = old.get(..old.len() - tail).unwrap_or_default();
    let (new, last) = new.split_at(new.len() - tail);
    let new = new.get(head..).unwrap_or_default();
    same.iter().for_each(|line| parts.push(Mark::Same, line));
    parts.compare(old, new);
    last.iter().for_each(|line| parts.push(Mark::Same, line));
    parts.0
}

#[derive(Default)]
struct DiffParts(Vec<Part>);

impl DiffParts {
    fn push(&mut self, mark: Mark, line: &str) {
        let part = match self.0.pop_if(|part| part.mark == mark) {
            Some(part) => part.text + line + "\n",
            None => line.to_owned() + "\n",
        };
        self.0.push(Part { mark, text: part });
    }

    /// By the longest sequence of lines that both have.
    fn compare(&mut self, mut old: &[&str], mut new: &[&str]) {
        let width = new.len() + 1;
        let pairs = if old.len().saturating_mul(new.len()) > MOST_PAIRS { 0 } else { (old.len() + 1) * width };
        // The number of lines that the rests of both have in common, from the i-th old and the j-th new line on.
        let mut common = vec![0_u32; pairs];
        let at = |common: &[u32], i: usize, j: usize| common.get(i * width + j).copied().unwrap_or_default();
        if pairs > 0 {
            for (i, old) in old.iter().enumerate().rev() {
                for (j, new) in new.iter().enumerate().rev() {
                    let longest = if old == new {
                        at(&common, i + 1, j + 1) + 1
                    } else {
                        at(&common, i + 1, j).max(at(&common, i, j + 1))
                    };
                    if let Some(cell) = common.get_mut(i * width + j) {
                        *cell = longest;
                    }
                }
            }
        }
        let (mut i, mut j) = (0, 0);
        loop {
            match (old.split_first(), new.split_first()) {
                (Some((line, rest)), Some((same, others))) if line == same && pairs > 0 => {
                    self.push(Mark::Same, line);
                    (old, new, i, j) = (rest, others, i + 1, j + 1);
                }
                (Some((line, rest)), other) if other.is_none() || at(&common, i + 1, j) >= at(&common, i, j + 1) => {
                    self.push(Mark::Removed, line);
                    (old, i) = (rest, i + 1);
                }
                (_, Some((line, rest))) => {
                    self.push(Mark::Added, line);
                    (new, j) = (rest, j + 1);
                }
                // OK because what is left of the old lines alone was taken above.
                (_, None) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(before: Value, after: Value, expected: &str) {
        let marked = |part: &Part| {
            let sign = match part.mark {
                Mark::Same => ' ',
                Mark::Removed => '-',
                Mark::Added => '+',
            };
            part.text.lines().map(|line| format!("{sign}{line}\n")).collect::<String>()
        };
        let shown: String = between(&before, &after).iter().map(marked).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_is_filled_in_is_added_and_the_rest_stays() {
        check(json!({"kind": "Pod"}), json!({"kind": "Pod"}), " kind: Pod\n");
        check(
            json!({"kind": "Pod", "spec": {"containers": [{"name": "web"}]}}),
            json!({"kind": "Pod", "spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": "1"}}}]}}),
            " kind: Pod\n spec:\n   containers:\n   - name: web\n+    resources:\n+      requests:\n+        cpu: \"1\"\n",
        );
        check(
            json!({"limits": {"cpu": "500m"}, "name": "web"}),
            json!({"limits": {"cpu": "750m"}, "name": "web"}),
            " limits:\n-  cpu: 500m\n+  cpu: 750m\n name: web\n",
        );
    }
}
