use super::documents::LEAST_BUDGET;
use super::*;
use crate::cluster_reader::{ClusterReader, Folder};

fn read(text: &str) -> Result<Vec<Manifest>, String> {
    read_text(Path::new("app.yaml"), text).map_err(|error| error.to_string())
}

fn check(text: &str, expected: &[(usize, usize, &str)]) {
    let found = read(text).unwrap();
    let told = found.iter().map(|of| (of.origin.line, of.origin.document, metadata(&of.object, "name")));
    assert_eq!(told.collect::<Vec<_>>(), expected, "{text}");
}

#[test]
fn documents_stand_where_their_first_value_does() {
    check("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", &[(1, 0, "a")]);
    check(
        "# Source: chart/a.yaml\n---\n\n# a comment\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n---\n\
         apiVersion: v1\nkind: Pod\nmetadata: {name: b}\n...\n",
        &[(5, 0, "a"), (10, 1, "b")],
    );
    check("--- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n", &[(1, 0, "a")]);
    check("%YAML 1.2\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", &[(3, 0, "a")]);
    check("apiVersion: v1\r\nkind: Pod\r\nmetadata: {name: a}\r\n---\r\n", &[(1, 0, "a")]);
}

#[test]
fn json_values_may_follow_each_other() {
    let pod =
        |name: &str| format!("{{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {{\"name\": \"{name}\"}}}}\n");
    check(&(pod("a") + "\n" + &pod("b")), &[(1, 0, "a"), (3, 1, "b")]);
}

#[test]
fn a_list_stands_for_its_items() {
    check(
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n\
         - {apiVersion: v1, kind: Service, metadata: {name: b}}\n",
        &[(1, 0, "a"), (1, 0, "b")],
    );
    let found = read("apiVersion: v1\nkind: LimitRangeList\nitems: [{metadata: {name: a}}]\n").unwrap();
    assert_eq!((&found[0].object["apiVersion"], &found[0].object["kind"]), (&json!("v1"), &json!("LimitRange")));
}

#[test]
fn a_long_list_is_read_and_a_bomb_of_anchors_is_not() {
    let long = format!("apiVersion: v1\nkind: Pod\nmany: [{}]\n", "0,".repeat(LEAST_BUDGET + 1));
    assert_eq!(read(&long).unwrap()[0].object["many"].as_array().unwrap().len(), LEAST_BUDGET + 1);
    let mut bomb = "apiVersion: v1\nkind: Pod\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for index in 1..9 {
        let many = vec![format!("*a{}", index - 1); 10].join(", ");
        bomb.push_str(&format!("a{index}: &a{index} [{many}]\n"));
    }
    let refused = read(&bomb).unwrap_err();
    assert!(refused.starts_with("app.yaml:"), "{refused}");
}

#[test]
fn nested_anchors_keep_no_more_than_the_text_is_long() {
    let nested = |depth: usize, values: usize| {
        let open: String = (0..depth).map(|level| format!("&a{level} [")).collect();
        format!("apiVersion: v1\nkind: Pod\nmany: {open}{}{}\n", "1,".repeat(values), "]".repeat(depth))
    };
    assert!(read(&nested(2, LEAST_BUDGET)).is_ok());
    let refused = read(&nested(110, LEAST_BUDGET)).unwrap_err();
    assert!(refused.contains("anchors nested too deep for their size"), "{refused}");
}

#[test]
fn problems_are_told_with_their_place() {
    let problem = |text: &str| read(text).unwrap_err();
    assert_eq!(
        problem("apiVersion: v1\nkind: Pod\n---\napiVersion: v1\nkind: Pod\nkind: Job\n"),
        "app.yaml:6: duplicate key `kind`, of which kubectl would take the last: remove one"
    );
    assert_eq!(problem("---\nkind: Pod\n"), "app.yaml:2: `apiVersion` is missing: expected a Kubernetes object");
    assert_eq!(problem("- a\n"), "app.yaml:1: expected a Kubernetes object with `apiVersion` and `kind`");
    // Found by the fuzzer: a space that is text.
    assert_eq!(problem("\u{2008} "), "app.yaml:1: expected a Kubernetes object with `apiVersion` and `kind`");
    let open = problem("apiVersion: v1\nkind: Pod\nmetadata: {name: a\n");
    assert!(open.starts_with("app.yaml:") && !open.contains('\n'), "{open}");
}

#[test]
fn a_damaged_snapshot_is_a_problem_or_other_objects_and_no_panic() {
    let good = concat!(
        include_str!("../../../../docs/examples/shop/cluster/namespace.yaml"),
        "\n---\n",
        include_str!("../../../../docs/examples/shop/cluster/running.yaml")
    );
    let (mut random, mut problems) = (47_u64, 0);
    let mut below = |most: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % most
    };
    for trial in 0..400 {
        let mut bytes = good.as_bytes().to_vec();
        match trial % 4 {
            0 => bytes[below(good.len())] ^= 1 << below(7),
            1 => bytes.truncate(below(good.len())),
            2 => (0..8).for_each(|_| bytes[below(good.len())] = b' ' + below(95) as u8),
            _ => bytes.copy_within(below(good.len() / 2)..good.len() / 2, below(good.len() / 2)),
        }
        let Ok(text) = String::from_utf8(bytes) else { continue };
        let read = read_text(Path::new("cluster.yaml"), &text).map_err(|error| error.to_string());
        let folder = read.and_then(|all| Folder::of(all, "shop").map_err(|error| error.to_string()));
        match folder {
            Ok(mut folder) => assert!(folder.list(("v1", "ResourceQuota", Some("shop"))).unwrap().len() <= 3),
            Err(problem) => {
                problems += 1;
                assert!(problem.starts_with("cluster.yaml:"), "{problem}");
            }
        }
    }
    assert!(problems > 100, "{problems}");
}
