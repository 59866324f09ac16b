//! Manifests before and after.

use super::*;

fn change(requests: &[(&'static str, &str)]) -> Edit {
    Edit {
        place: EditPlace::Container {
            object: WorkloadRef::new("", "Deployment", "web"),
            path: vec!["spec".to_owned(), "template".to_owned()],
            name: "nginx".to_owned(),
        },
        requirement: Requirement::Request,
        amounts: requests.iter().map(|(name, amount)| (*name, amount.parse().unwrap())).collect(),
    }
}

fn both() -> Edit {
    change(&[("cpu", "120m"), ("memory", "200Mi")])
}

/// A Deployment whose container ends as told, at the container's own indentation.
fn deployment(container: &str) -> String {
    let mut text = String::from(
        "# what we run\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}   # the shop\nspec:\n  replicas: 3\n  \
         template:\n    spec:\n      containers:\n      - name: nginx\n        image: nginx:1.27 # pinned\n",
    );
    for line in container.lines() {
        text.push_str(if line.is_empty() { "" } else { "        " });
        text.push_str(line);
        text.push('\n');
    }
    text.push_str("      # the end\n      restartPolicy: Always\n");
    text
}

/// Sets both requests in a container, and again, which must change nothing more.
#[track_caller]
fn check(before: &str, after: &str) {
    check_texts(&[both()], &deployment(before), &deployment(after));
}

#[track_caller]
fn check_texts(edits: &[Edit], before: &str, after: &str) {
    let edited = set_amounts(before, edits).unwrap().unwrap_or_else(|| before.to_owned());
    assert_eq!(edited, after, "\n{edited}");
    assert_eq!(set_amounts(&edited, edits), Ok(None));
}

const NEW: &str = "resources:\n  requests:\n    cpu: 120m\n    memory: 200Mi\n";

#[test]
fn a_container_without_resources_gets_them_after_its_image() {
    check("", NEW);
    check("ports:\n- containerPort: 80\n", &format!("{NEW}ports:\n- containerPort: 80\n"));
}

#[test]
fn empty_resources_are_filled_and_their_comment_stays() {
    for nothing in [
        "resources: {}",
        "resources:",
        "resources: null",
        "resources: ~",
        "resources:\n  requests: {}",
        "resources:\n  requests:",
    ] {
        check(nothing, NEW);
    }
    check(
        "resources: {} # none\ntty: true\n",
        "resources: # none\n  requests:\n    cpu: 120m\n    memory: 200Mi\ntty: true\n",
    );
}

#[test]
fn amounts_are_replaced_in_their_own_quotes() {
    check(
        "resources:\n  requests:\n    memory: \"1Gi\"   # too much?\n    cpu: 1\n    example.com/gpu: 1\n",
        "resources:\n  requests:\n    memory: \"200Mi\"   # too much?\n    cpu: 120m\n    example.com/gpu: 1\n",
    );
    check(
        "resources:\n  requests:\n    cpu: '0.12'\n    memory: 204800Ki\n",
        "resources:\n  requests:\n    cpu: '0.12'\n    memory: 204800Ki\n",
    );
}

#[test]
fn what_is_missing_joins_what_is_there() {
    check(
        "resources:\n  # never more\n  limits:\n    memory: 1Gi # by the book\n# next\ntty: true\n",
        "resources:\n  # never more\n  limits:\n    memory: 1Gi # by the book\n  requests:\n    cpu: 120m\n    memory: 200Mi\n# next\ntty: true\n",
    );
    check(
        "resources:\n    requests:\n        memory: 200Mi\n",
        "resources:\n    requests:\n        cpu: 120m\n        memory: 200Mi\n",
    );
    check(
        "resources:\n  requests:\n    # as measured\n    memory: 1Gi\n",
        "resources:\n  requests:\n    # as measured\n    memory: 200Mi\n    cpu: 120m\n",
    );
    check(
        "resources:\n  requests:\n    cpu: 1\n  limits: {memory: 1Gi}\n",
        "resources:\n  requests:\n    cpu: 120m\n    memory: 200Mi\n  limits: {memory: 1Gi}\n",
    );
}

#[test]
fn text_blocks_are_stepped_around() {
    check_texts(
        &[both()],
        "kind: Deployment\nmetadata:\n  name: web\nspec:\n  template:\n    spec:\n      containers:\n        - args:\n            - |\n              run\n\n          name: nginx\n          command: |\n            a\n",
        "kind: Deployment\nmetadata:\n  name: web\nspec:\n  template:\n    spec:\n      containers:\n        - resources:\n            requests:\n              cpu: 120m\n              memory: 200Mi\n          args:\n            - |\n              run\n\n          name: nginx\n          command: |\n            a\n",
    );
}

#[test]
fn flow_style_stays_flow_style() {
    check("resources: {requests: {cpu: 1, memory: 1Gi}}", "resources: {requests: {cpu: 120m, memory: 200Mi}}");
    check(
        "resources: {requests: {cpu: 120m}, limits: {}}",
        "resources: {requests: {cpu: 120m, memory: 200Mi}, limits: {}}",
    );
    check("resources: {limits: {cpu: 1}}", "resources: {limits: {cpu: 1}, requests: {cpu: 120m, memory: 200Mi}}");
    check("resources: {requests: {}}", "resources: {requests: {cpu: 120m, memory: 200Mi}}");
}

#[test]
fn json_stays_json() {
    let before = "{\n  \"kind\": \"Deployment\",\n  \"metadata\": {\"name\": \"web\"},\n  \"spec\": {\"template\": {\"spec\": {\"containers\": [\n    {\n      \"name\": \"nginx\",\n      \"image\": \"nginx\"\n    }\n  ]}}}\n}\n";
    let after = before.replace(
        "\"image\": \"nginx\"\n",
        "\"image\": \"nginx\",\n      \"resources\": {\"requests\": {\"cpu\": \"120m\", \"memory\": \"200Mi\"}}\n",
    );
    check_texts(&[both()], before, &after);
    assert!(serde_json::from_str::<serde_json::Value>(&after).is_ok());
}

#[test]
fn line_ends_stay_as_they_are() {
    check_texts(
        &[both()],
        &deployment("tty: true").replace('\n', "\r\n"),
        &deployment(&format!("{NEW}tty: true")).replace('\n', "\r\n"),
    );
    let (before, after) = (deployment(""), deployment(NEW));
    let cut = |text: &str| text.replace("      # the end\n      restartPolicy: Always\n", "").trim_end().to_owned();
    check_texts(&[both()], &cut(&before), &cut(&after));
}

#[test]
fn the_right_object_and_the_right_container_are_found() {
    let other = deployment("").replace("name: web", "name: other");
    let service = "kind: Service\nmetadata: {name: web}\n";
    let three = |web: &str| format!("{service}---\n{other}---\n{web}---\n# nothing\n");
    check_texts(&[both()], &three(&deployment("")), &three(&deployment(NEW)));

    let list = |resources: &str| {
        format!(
            "apiVersion: v1\nkind: List\nitems:\n- kind: Deployment\n  metadata: {{name: web}}\n  spec:\n    template:\n      spec:\n        initContainers:\n        - name: nginx\n          image: a:1\n{resources}        containers:\n        - name: app\n          image: b\n"
        )
    };
    check_texts(
        &[both()],
        &list(""),
        &list("          resources:\n            requests:\n              cpu: 120m\n              memory: 200Mi\n"),
    );
}

#[test]
fn values_are_set_where_they_stand_and_nothing_else_changes() {
    let edit = |key: &str, requirement, amounts: &[(&'static str, &str)]| Edit {
        place: EditPlace::Values(vec![key.to_owned()]),
        requirement,
        ..change(amounts)
    };
    let text = "\
# the shop
web:
  image: nginx # pinned
  resources:
    limits: {memory: 1Gi}
worker:
  resources: {}
";
    let edits = [
        edit("web", Requirement::Request, &[("cpu", "250m"), ("memory", "512Mi")]),
        edit("web", Requirement::Limit, &[("memory", "2Gi")]),
        edit("worker", Requirement::Request, &[("cpu", "1")]),
    ];
    let expected = "\
# the shop
web:
  image: nginx # pinned
  resources:
    limits: {memory: 2Gi}
    requests:
      cpu: 250m
      memory: 512Mi
worker:
  resources:
    requests:
      cpu: \"1\"
";
    check_texts(&edits, text, expected);
    let values: Value = serde_saphyr::from_str(text).unwrap();
    let is_in = |key: &str, requirement| {
        are_in_values(&values, &[key.to_owned()], requirement, &[("memory", Quantity::from_bytes(1 << 30))])
    };
    assert!(is_in("web", Requirement::Limit) && is_in("worker", Requirement::Request));
    assert!(!is_in("worker", Requirement::Limit) && !is_in("cache", Requirement::Request));
    let shared = "web: &web\n  resources: {}\nother: *web\n";
    let refused = set_amounts(shared, &[edit("web", Requirement::Request, &[("cpu", "1")])]);
    assert!(matches!(refused, Err(EditError::Shared { .. })), "{refused:?}");
}

#[test]
fn what_is_not_certain_is_refused() {
    const BY_HAND: &str = "set `resources.requests: {cpu: 120m, memory: 200Mi}` by hand";
    let check = |text: &str, expected: &str| {
        assert_eq!(set_amounts(text, &[both()]).unwrap_err().to_string(), expected, "{text}");
    };
    check(
        &deployment("resources: &small\n  requests:\n    cpu: 1"),
        &format!("line 13: has an anchor, so an edit would change other places too: {BY_HAND}"),
    );
    check(
        &deployment("env: &none []\nresources: *none"),
        &format!("line 13: uses an alias, so an edit would change other places too: {BY_HAND}"),
    );
    check(
        &format!("x: &x {{requests: {{cpu: 1}}}}\n{}", deployment("resources:\n  <<: *x")),
        &format!("line 14: uses a merge key, so an edit would change other places too: {BY_HAND}"),
    );
    check(&deployment("resources: none"), "line 12: resources is neither a mapping nor empty");
    check(&deployment("").replace("nginx\n", "other\n"), "container `nginx` is not in the file");
    check("kind: Deployment\n", "Deployment `web` is not in the file");
    let twice = format!("{}---\n{}", deployment(""), deployment(""));
    check(&twice, "Deployment `web` occurs twice in the file");
    assert!(matches!(set_amounts("a: [", &[both()]), Err(EditError::Unreadable(_))));
}

/// The lines of `all` that are not in `some`, if the others are there in the same order.
fn lines_beside<'t>(all: &'t str, some: &str) -> Option<Vec<&'t str>> {
    let mut wanted = some.lines().peekable();
    let beside = all.lines().filter(|line| wanted.next_if_eq(line).is_none()).collect();
    wanted.next().is_none().then_some(beside)
}

#[test]
fn however_it_is_written_only_the_amounts_change() {
    let resources = [
        "",
        "resources: {}\n",
        "resources:\n",
        "resources: # later\n",
        "resources:\n  limits:\n    memory: 1Gi\n",
        "resources:\n  limits: {memory: 1Gi}\n",
        "resources:\n  requests: {}\n  limits:\n    memory: 1Gi\n",
        "resources:\n  requests:\n  limits:\n    memory: 1Gi\n",
        "resources:\n  requests:\n    cpu: 2 # two\n",
        "resources:\n      requests:\n            memory: '2Gi'\n",
        "resources:\n  requests:\n    # why\n    memory: 2Gi\n    ephemeral-storage: 1Gi\n",
        "resources: {requests: {cpu: \"2\"}}\n",
        "resources: {limits: {cpu: 2}, requests: {}}\n",
        "resources: {requests: {\n  cpu: 2,\n  memory: 1Gi\n}}\n",
    ];
    let others = ["", "command:\n- |\n  run # no comment\n\n  more\n", "env: []\n# the last word\n", "tty: true\n\n"];
    for resources in resources {
        for others in others {
            for text in [deployment(&format!("{resources}{others}")), deployment(&format!("{others}{resources}"))] {
                for text in [text.clone(), text.replace('\n', "\r\n"), text.trim_end().to_owned()] {
                    // That it means the same but for the amounts, the edit itself makes sure of.
                    let edited = set_amounts(&text, &[both()]).unwrap().unwrap();
                    assert_eq!(set_amounts(&edited, &[both()]), Ok(None), "{edited}");
                    let kept: String =
                        text.lines().filter(|line| !is_of_resources(line)).map(|line| format!("{line}\n")).collect();
                    let beside = lines_beside(&edited, &kept).unwrap_or_else(|| panic!("{text}\n{edited}"));
                    assert!(beside.iter().all(|line| is_of_resources(line)), "{beside:?}\n{edited}");
                }
            }
        }
    }
}

/// True if a line is about resources, and so may be edited.
fn is_of_resources(line: &str) -> bool {
    ["resources", "requests", "limits", "cpu", "memory", "}}"].iter().any(|word| line.contains(word))
}

#[test]
fn a_limit_is_set_beside_the_requests() {
    let edits = [Edit { requirement: Requirement::Limit, ..change(&[("memory", "1200Mi")]) }, both()];
    let check = |before: &str, after: &str| check_texts(&edits, &deployment(before), &deployment(after));
    check(
        "resources:\n  limits:\n    memory: 1Gi # by the book\n  requests:\n    memory: 1Gi\n",
        "resources:\n  limits:\n    memory: 1200Mi # by the book\n  requests:\n    cpu: 120m\n    memory: 200Mi\n",
    );
    check(
        "resources: {limits: {memory: 1Gi}}",
        "resources: {limits: {memory: 1200Mi}, requests: {cpu: 120m, memory: 200Mi}}",
    );
}

fn target(resource: &str, container: Option<&str>, percent: u64) -> TargetEdit {
    let object = WorkloadRef::new("shop", "HorizontalPodAutoscaler", "web");
    TargetEdit { object, resource: resource.to_owned(), container: container.map(str::to_owned), percent }
}

const AUTOSCALER: &str = "\
kind: HorizontalPodAutoscaler  # ours
metadata: {name: web, namespace: shop}
spec:
  metrics:
  - type: Resource
    resource:
      name: memory
      target: {type: Utilization, averageUtilization: 80}
  - type: ContainerResource
    containerResource: {name: cpu, container: app, target: {averageUtilization: 50}}
  - type: Resource
    resource:
      target:
        type: Utilization
        averageUtilization: 70 # as ever
      name: cpu
";

#[test]
fn targets_are_set_where_they_stand() {
    let check = |text: &str, targets: &[TargetEdit], expected: &[(&str, &str)]| {
        let edited = set_targets(text, targets).unwrap().unwrap();
        let wanted = expected.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
        assert_eq!(edited, wanted);
        assert_eq!(set_targets(&edited, targets), Ok(None));
    };
    check(AUTOSCALER, &[target("cpu", None, 140)], &[("70 # as", "140 # as")]);
    check(AUTOSCALER, &[target("cpu", Some("app"), 20)], &[("50}", "20}")]);
    let both = [target("cpu", None, 7), target("memory", None, 160)];
    check(AUTOSCALER, &both, &[("70 # as", "7 # as"), ("80}", "160}")]);
    let of_first_version = "kind: HorizontalPodAutoscaler\nmetadata: {name: web, namespace: shop}\nspec: {targetCPUUtilizationPercentage: 70}\n";
    check(of_first_version, &[target("cpu", None, 35)], &[("70", "35")]);
}

#[test]
fn a_target_that_is_shared_or_missing_is_left_alone() {
    let shared = AUTOSCALER.replace("averageUtilization: 70", "averageUtilization: &share 70");
    assert!(matches!(set_targets(&shared, &[target("cpu", None, 140)]), Err(EditError::Shared { line: 15, .. })));
    assert!(matches!(set_targets(AUTOSCALER, &[target("gpu", None, 140)]), Err(EditError::NotCertain(_))));
    let twice = format!("{AUTOSCALER}---\n{AUTOSCALER}");
    assert!(matches!(set_targets(&twice, &[target("cpu", None, 140)]), Err(EditError::TwoObjects(_))));
}
