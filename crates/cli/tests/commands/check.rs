//! `check`: verdicts, messages, order, output formats and exit codes.

use serde_json::Value;

use crate::support::*;

const SHOP: [&str; 5] = ["check", "-f", "docs/examples/shop/app", "--cluster-dir", "docs/examples/shop/cluster"];

#[test]
fn all_output_formats_agree() {
    for form in ["table", "json", "yaml", "sarif", "github", "junit"] {
        let said = headroom(&root(), &[&SHOP[..], &["-o", form]].concat());
        assert_eq!((said.code, said.err.as_str()), (1, ""), "{form}");
        snapshot(&format!("check.{form}"), &said.out);
    }
}

/// The verdict on each object, such as `refused pod/a`, for files in a folder next to a `cluster`.
fn verdicts(files: &[(&str, &str)], arguments: &[&str]) -> Vec<String> {
    let folder = folder(files);
    let said = headroom(folder.path(), &[&["check", "-o", "json"], arguments].concat());
    let report: Value = serde_json::from_str(&said.out).expect(&said.err);
    let line_of =
        |object: &Value| format!("{} {}", object["verdict"].as_str().unwrap(), object["name"].as_str().unwrap());
    report["objects"].as_array().unwrap().iter().map(line_of).collect()
}

#[test]
fn each_object_is_evaluated_after_those_before_it() {
    let pods =
        [pod("a", "{requests: {cpu: 600m}}"), pod("b", "{requests: {cpu: 600m}}"), pod("c", "{requests: {cpu: 400m}}")];
    let quota = quota("team", "{requests.cpu: 1}");
    let found = verdicts(
        &[("app.yaml", &pods.join("---\n")), ("cluster/q.yaml", &quota)],
        &["-f", "app.yaml", "--cluster-dir", "cluster"],
    );
    // A refused object uses nothing.
    assert_eq!(found, ["admitted a", "rejected b", "admitted c"]);
}

#[test]
fn the_pods_of_a_workload_are_charged() {
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {replicas: 3, template: \
                      {spec: {containers: [{name: app, resources: {requests: {cpu: 300m}}}]}}}\n";
    let files = [deployment.to_owned(), pod("late", "{requests: {cpu: 200m}}")].join("---\n");
    let quota = quota("team", "{requests.cpu: 1}");
    let arguments = ["-f", "app.yaml", "--cluster-dir", "cluster"];
    let found = verdicts(&[("app.yaml", &files), ("cluster/q.yaml", &quota)], &arguments);
    assert_eq!(found, ["admitted web", "rejected late"]);
}

/// Folders are read by the names of their files.
#[test]
fn a_quota_bounds_the_workloads_of_files_before_its_own() {
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {replicas: 3, template: \
                      {spec: {containers: [{name: app, resources: {requests: {cpu: 500m}}}]}}}\n";
    let found = verdicts(
        &[("deploy/app.yaml", deployment), ("deploy/quota.yaml", &quota("team", "{requests.cpu: 1}"))],
        &["-f", "deploy", "--offline"],
    );
    assert_eq!(found, ["pods blocked web", "admitted team"]);
}

#[test]
fn limits_and_quotas_of_a_run_bound_the_objects_before_them_too() {
    let files = [
        pod("a", "{requests: {cpu: 1}}"),
        quota("team", "{requests.cpu: 2}"),
        limit_range("limits", "max: {memory: 1Gi}"),
        pod("b", "{requests: {cpu: 1}}"),
        pod("c", "{requests: {cpu: 100m}}"),
        pod("d", "{requests: {cpu: 0}, limits: {memory: 2Gi}}"),
    ];
    let found = verdicts(&[("app.yaml", &files.join("---\n"))], &["-f", "app.yaml", "--offline"]);
    let expected = ["changed a", "admitted team", "admitted limits", "changed b", "rejected c", "rejected d"];
    assert_eq!(found, expected);
}

#[test]
fn a_new_quota_counts_the_pods_of_workloads_before_it() {
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {replicas: 3, template: \
                      {spec: {containers: [{name: app, resources: {requests: {cpu: 300m}}}]}}}\n";
    let files = [deployment.to_owned(), quota("team", "{requests.cpu: 1}"), pod("late", "{requests: {cpu: 200m}}")];
    let found = verdicts(&[("app.yaml", &files.join("---\n"))], &["-f", "app.yaml", "--offline"]);
    assert_eq!(found, ["admitted web", "admitted team", "rejected late"]);
}

#[test]
fn existing_objects_are_evaluated_as_updates() {
    let workload = |replicas: u32| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, namespace: shop}}\nspec: {{replicas: {replicas}, \
             template: {{spec: {{containers: [{{name: app, resources: {{requests: {{cpu: 500m}}}}}}]}}}}}}\n"
        )
    };
    let there = workload(2)
        + "status: {replicas: 2}\n---\n"
        + &pod("a", "{requests: {cpu: 1}}")
        + "---\n"
        + &quota("team", "{requests.cpu: 1}");
    let folder = folder(&[("same.yaml", &workload(2)), ("more.yaml", &workload(3)), ("cluster/all.yaml", &there)]);
    let reasons = |file: &str| -> Value {
        let said = headroom(folder.path(), &["check", "-f", file, "--cluster-dir", "cluster", "-o", "json"]);
        let report: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(report["objects"][0]["operation"], "update");
        report["objects"][0]["reasons"].clone()
    };
    assert_eq!(reasons("same.yaml"), Value::Null);
    assert!(reasons("more.yaml")[0]["message"].as_str().unwrap().contains("2 of 3 replicas fit"));
}

#[test]
fn settings_come_from_a_file_or_from_a_policy() {
    let settings = "limitRanges: {rules: [{name: house, limits: [{type: Container, max: {memory: 1Gi}}]}]}\n";
    let policy = |name: &str, mutating: bool, settings: &str| {
        format!(
            "apiVersion: policies.kubewarden.io/v1\nkind: ClusterAdmissionPolicy\nmetadata: {{name: {name}}}\nspec: {{mutating: \
             {mutating}, settings: {{{}}}}}\n",
            settings.trim_end()
        )
    };
    let both = policy("headroom", true, settings) + "---\n" + &policy("headroom-subresources", false, "");
    let app = pod("a", "{limits: {memory: 2Gi}}");
    let folder = folder(&[("app.yaml", &app), ("settings.yaml", settings), ("policy.yaml", &both)]);
    for file in ["settings.yaml", "policy.yaml"] {
        let said = headroom(folder.path(), &["check", "-f", "app.yaml", "--offline", "--settings", file]);
        assert_eq!(said.code, 1, "{file}: {}", said.err);
        assert!(said.out.contains("maximum memory usage per Container is 1Gi, but limit is 2Gi"), "{}", said.out);
        assert!(said.out.contains("(rule house)"), "{}", said.out);
    }
}

#[test]
fn what_fails_the_check_is_chosen() {
    let check = |files: &[&str], expected: [i32; 5]| {
        for (fail_on, code) in ["never", "rejected", "pods-blocked", "warning", "not-checked"].into_iter().zip(expected)
        {
            let arguments = ["check", "--cluster-dir", "docs/examples/shop/cluster", "--fail-on", fail_on, "-f"];
            assert_eq!(headroom(&root(), &[&arguments, files].concat()).code, code, "{files:?} {fail_on}");
        }
    };
    check(&["docs/examples/shop/app/cache.yaml"], [0, 1, 1, 1, 1]);
    check(&["docs/examples/shop/app/migrate.yaml", "docs/examples/shop/app/web.yaml"], [0, 0, 1, 1, 1]);
    check(&["docs/examples/shop/app/migrate.yaml"], [0, 0, 0, 0, 0]);
}

#[test]
fn objects_can_come_from_standard_input() {
    let input = "# from kustomize\n---\n".to_owned() + &pod("a", "{}").replace(", namespace: shop", "");
    let said = headroom_reading(
        &root(),
        &["check", "-f", "-", "-n", "shop", "--cluster-dir", "docs/examples/shop/cluster"],
        &input,
    );
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("changed   pod/a    shop        standard input:3"), "{}", said.out);
    let said =
        headroom_reading(&root(), &["check", "-f", "-", "--offline", "-o", "github"], &pod("a", "{limits: {cpu: -1}}"));
    assert!(!said.out.contains("file="), "{}", said.out);
}

#[test]
fn usage_errors_are_reported_and_exit_with_2() {
    let folder = folder(&[
        ("broken.yaml", "apiVersion: v1\nkind: Pod\nkind: Job\n"),
        ("settings.yaml", "limitRange: {}\n"),
        ("app.yaml", &pod("a", "{}")),
        ("empty.yaml", "# nothing\n"),
        ("cluster/range.yaml", &limit_range("limits", "max: {cpu: lots}")),
        ("wrong.yaml", &limit_range("limits", "max: {cpu: 1}, min: {cpu: 2}")),
    ]);
    let check = |arguments: &[&str], expected: &str| {
        let said = headroom(folder.path(), &[&["check"], arguments].concat());
        assert_eq!((said.code, said.err.trim_end()), (2, expected), "{arguments:?}: {}", said.out);
    };
    check(
        &["-f", "broken.yaml", "--offline"],
        "error: broken.yaml:3: duplicate key `kind`, of which kubectl would take the last: remove one",
    );
    check(&["-f", "gone.yaml", "--offline"], "error: `gone.yaml` does not exist");
    check(&["-f", "empty.yaml", "--offline"], "error: nothing to check: the files hold no objects");
    check(
        &["-f", "app.yaml", "--offline", "--settings", "settings.yaml"],
        "error: `settings.yaml`: invalid settings: `limitRange` is not a setting; did you mean `limitRanges`?",
    );
    check(
        &["-f", "app.yaml", "--offline", "-n", "lab"],
        "error: app.yaml:1: `a` is in namespace `shop`, but -n says `lab`: leave -n out, or change the manifest",
    );
    check(
        &["-f", "app.yaml", "--offline", "-A"],
        "error: --all-namespaces is not supported here: manifests name their namespaces; use -n for those that do not",
    );
    let said = headroom(folder.path(), &["check", "-f", "app.yaml", "--cluster-dir", "cluster"]);
    assert_eq!(said.code, 2);
    assert!(said.err.starts_with("error: cluster/range.yaml:1: the LimitRange cannot be read: "), "{}", said.err);
    let said = headroom(folder.path(), &["check", "-f", "app.yaml"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("set KUBECONFIG, pass --cluster-dir to use files, or --offline"), "{}", said.err);
    let said = headroom(folder.path(), &["check", "-f", "wrong.yaml", "--offline"]);
    assert_eq!(said.code, 1);
    assert!(said.out.contains("LimitRange \"limits\" is invalid: spec.limits[0]"), "{}", said.out);
}

#[test]
fn the_sarif_log_is_valid_for_its_readers() {
    let said = headroom(&root(), &[&SHOP[..], &["-o", "sarif"]].concat());
    let log: Value = serde_json::from_str(&said.out).unwrap();
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    assert_eq!((log["version"].as_str(), rules.is_empty()), (Some("2.1.0"), false));
    for rule in rules {
        let ends_well = |text: &Value| text["text"].as_str().is_some_and(|text| !text.is_empty());
        assert!(ends_well(&rule["shortDescription"]) && ends_well(&rule["help"]), "{rule}");
    }
    let results = run["results"].as_array().unwrap();
    assert!(results.len() >= 3, "expected a refusal, a change and a warning");
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        assert!(["error", "warning", "note"].contains(&result["level"].as_str().unwrap()));
        let place = &result["locations"][0]["physicalLocation"];
        assert!(place["region"]["startLine"].as_u64().unwrap() >= 1);
        let file = root().join(place["artifactLocation"]["uri"].as_str().unwrap());
        assert!(file.is_file(), "{}", file.display());
    }
}

#[test]
fn special_characters_in_names_are_escaped() {
    let nasty = pod("\"a<&>%\\\"\"", "{limits: {memory: 2Gi}}");
    let range = limit_range("limits", "max: {memory: 1Gi}");
    let folder = folder(&[("a b,c.yaml", &nasty), ("cluster/range.yaml", &range)]);
    // The file's name has a comma, so the folder is given.
    let said = |form: &str| headroom(folder.path(), &["check", "-f", ".", "--cluster-dir", "cluster", "-o", form]).out;
    let junit = said("junit");
    assert!(junit.contains("name=\"pod/a&lt;&amp;&gt;%&quot;\""), "{junit}");
    let github = said("github");
    assert!(github.starts_with("::error file=./a b%2Cc.yaml,line=1,title=shop/pod/a<&>%25\"%3A rejected"), "{github}");
    let sarif: Value = serde_json::from_str(&said("sarif")).unwrap();
    let place = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
    assert_eq!(place, "a%20b%2Cc.yaml");
}

#[test]
fn bytes_in_templates_of_custom_resources_are_doubtful_too() {
    let rollout = "apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: web, namespace: shop}\nspec:\n  replicas: 2\n  \
                   template:\n    spec: {containers: [{name: app, image: app, resources: {requests: {memory: 512m}, limits: {memory: \
                   512}}}]}\n";
    let folder = folder(&[("rollout.yaml", rollout)]);
    let said = headroom(folder.path(), &["check", "-f", "rollout.yaml", "--offline", "-o", "json"]);
    for meant in [
        "spec.template.spec.containers[0].resources.limits[memory]: 512 bytes are too few for any container; did you mean 512Mi?",
        "spec.template.spec.containers[0].resources.requests[memory]: fractional byte value \\\"512m\\\" is invalid, must be an \
         integer; did you mean 512Mi?",
    ] {
        assert!(said.out.contains(meant), "{}{}", said.out, said.err);
    }
}
