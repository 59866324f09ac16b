//! `check` as a gate: what cannot run is not green, whatever the reason.

use serde_json::Value;

use crate::support::*;

/// Objects in one text, as `verdict name`, with the exit code; beside a LimitRange that allows 1Gi of memory and a quota
/// of 1 CPU for the namespace `shop`.
#[track_caller]
fn check(text: &str, arguments: &[&str], expected: &[&str], code: i32) -> String {
    let cluster = limit_range("limits", "max: {memory: 1Gi}") + "---\n" + &quota("team", "{limits.memory: 4Gi}");
    let folder = folder(&[("app.yaml", text), ("cluster/bounds.yaml", &cluster)]);
    let run = |form: &str| {
        let given = ["check", "-f", "app.yaml", "--cluster-dir", "cluster", "-o", form];
        headroom(folder.path(), &[&given, arguments].concat())
    };
    let said = run("json");
    let report: Value = serde_json::from_str(&said.out).expect(&said.err);
    let verdicts: Vec<String> = report["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|object| format!("{} {}", object["verdict"].as_str().unwrap(), object["name"].as_str().unwrap_or("-")))
        .collect();
    assert_eq!(
        (verdicts.iter().map(String::as_str).collect::<Vec<_>>().as_slice(), said.code),
        (expected, code),
        "{text}"
    );
    // Every output fails in the same way.
    for form in ["table", "yaml", "sarif", "github", "markdown", "junit"] {
        assert_eq!(run(form).code, code, "{form}");
    }
    run("table").out + &said.err
}

fn object(api_version: &str, kind: &str, rest: &str) -> String {
    format!("apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: web, namespace: shop}}\n{rest}\n")
}

fn template(resources: &str) -> String {
    format!("template: {{spec: {{containers: [{{name: app, image: app, resources: {resources}}}]}}}}")
}

#[test]
fn a_deployment_whose_pods_exceed_a_maximum_is_blocked() {
    let text =
        object("apps/v1", "Deployment", &format!("spec: {{replicas: 2, {}}}", template("{limits: {memory: 2Gi}}")));
    let said = check(&text, &[], &["pods blocked web"], 1);
    assert!(said.contains("maximum memory usage per Container is 1Gi, but limit is 2Gi"), "{said}");
    check(&text, &["--fail-on", "rejected"], &["pods blocked web"], 0);
    let fits_in_part = text.replace("2Gi", "1Gi").replace("replicas: 2", "replicas: 6");
    let said = check(&fits_in_part, &[], &["pods blocked web"], 1);
    assert!(said.contains("4 of 6 replicas fit"), "{said}");
}

#[test]
fn requests_above_limits_are_invalid() {
    let text = pod("web", "{requests: {cpu: 500m, memory: 512Mi}, limits: {cpu: 250m, memory: 256Mi}}");
    let said = check(&text, &[], &["invalid web"], 1);
    for resource in ["cpu limit of 250m", "memory limit of 256Mi"] {
        assert!(said.contains(&format!("must be less than or equal to {resource}")), "{said}");
    }
}

#[test]
fn kinds_that_no_api_server_knows_are_invalid() {
    let said = check(&object("apps/v1", "Deploymnet", "spec: {}"), &[], &["invalid web"], 1);
    assert!(
        said.contains("no matches for kind \"Deploymnet\" in version \"apps/v1\"; did you mean Deployment?"),
        "{said}"
    );
    let old = object("extensions/v1beta1", "Deployment", &format!("spec: {{{}}}", template("{limits: {memory: 1Gi}}")));
    let said = check(&old, &[], &["invalid web"], 1);
    assert!(said.contains("it was removed in Kubernetes 1.16: use apps/v1"), "{said}");
    let above = old.replace("1Gi", "2Gi");
    let said = check(&above, &[], &["invalid web"], 1);
    assert!(!said.contains("maximum memory"), "there would be no pods: {said}");
}

#[test]
fn misspelt_fields_and_resources_are_invalid() {
    let said =
        check(&pod("web", "{request: {cpu: 1}, limits: {memmory: 128Mi, memory: 1Gi}}"), &[], &["invalid web"], 1);
    assert!(said.contains("unknown field \"spec.containers[0].resources.request\"; did you mean requests?"), "{said}");
    assert!(said.contains("limits[memmory]: Invalid value") && said.contains("did you mean memory?"), "{said}");
    // It would not be stored, so nothing is filled in.
    assert!(!said.contains("copied from the limit") && !said.contains("warning:"), "{said}");
}

#[test]
fn all_malformed_quantities_of_a_pod_are_named_at_once() {
    let said = check(&pod("web", "{requests: {cpu: 100mm, memory: 128MB}}"), &[], &["invalid web"], 1);
    assert!(said.contains("requests[cpu]: Invalid value: \"100mm\": unable to parse quantity's suffix"), "{said}");
    assert!(
        said.contains("requests[memory]: Invalid value: \"128MB\"") && said.contains("did you mean 128M or 128Mi?"),
        "{said}"
    );
}

#[test]
fn the_pods_of_custom_resources_are_checked() {
    let rollout = object(
        "argoproj.io/v1alpha1",
        "Rollout",
        &format!("spec: {{replicas: 2, {}}}", template("{limits: {memory: 4Gi}}")),
    );
    let said = check(&rollout, &[], &["pods blocked web"], 1);
    assert!(said.contains("maximum memory usage per Container is 1Gi, but limit is 4Gi"), "{said}");
    let knative =
        object("serving.knative.dev/v1", "Service", &format!("spec: {{{}}}", template("{limits: {memory: 4Gi}}")));
    check(&knative, &[], &["pods blocked web"], 1);
    // They use the quota, too.
    let rollout = rollout.replace("4Gi", "1Gi").replace("replicas: 2", "replicas: 4");
    check(&(rollout + "---\n" + &pod("late", "{limits: {memory: 1Gi}}")), &[], &["admitted web", "rejected late"], 1);
    let sandbox = object(
        "example.com/v1",
        "Sandbox",
        "spec: {pod: {containers: [{image: a, resources: {limits: {memory: 4Gi}}}]}}",
    );
    check(&sandbox, &[], &["not checked web"], 0);
    check(&sandbox, &["--pods-at", "Sandbox=spec.pod"], &["pods blocked web"], 1);
}

#[test]
fn kinds_that_nobody_looks_at_are_not_green() {
    let kinds = [
        ("v1", "ServiceAccount"),
        ("v1", "ConfigMap"),
        ("cert-manager.io/v1", "Certificate"),
        ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ];
    let text = kinds.map(|(api_version, kind)| object(api_version, kind, "")).join("---\n");
    let said = check(&text, &[], &["not checked web"; 4], 0);
    assert!(said.contains("4 objects: 4 not checked"), "{said}");
    check(&text, &["--fail-on", "not-checked"], &["not checked web"; 4], 1);
}

#[test]
fn a_namespace_that_the_files_do_not_have_is_named() {
    let text = pod("web", "{limits: {memory: 2Gi}}").replace(", namespace: shop", "");
    let said = check(&text, &[], &["not checked web"], 1);
    let warning = "warning: 1 object sets no namespace, and \"default\" has no LimitRange or ResourceQuota in --cluster-dir (found: \
                   shop); pass -n\n";
    assert!(said.contains(warning), "{said}");
    check(&text, &["--fail-on", "rejected"], &["not checked web"], 0);
    check(&text, &["-n", "default"], &["admitted web"], 0);
    let said = check(&text, &["-n", "shop"], &["rejected web"], 1);
    assert!(!said.contains("set no namespace"), "{said}");
    check(&text, &["-n", "default", "--fail-on", "warning"], &["admitted web"], 1);
}

#[test]
fn one_bad_document_does_not_hide_the_others() {
    let bad = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, : }\nspec: x: y\n";
    let text = [pod("a", "{limits: {memory: 1Gi}}"), bad.to_owned(), pod("b", "{limits: {memory: 2Gi}}")].join("---\n");
    let said = check(&text, &[], &["admitted a", "error -", "rejected b"], 2);
    assert!(said.contains("app.yaml:8\n  a key must be text"), "{said}");
    assert!(said.contains("3 objects: 1 not evaluated, 1 rejected, 1 admitted"), "{said}");
}

#[test]
fn templates_and_charts_are_told_what_to_run() {
    let template =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: {{ toYaml .Values.containers }}}\n";
    let folder = folder(&[
        ("chart/Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\n"),
        ("chart/templates/pod.yaml", template),
        ("$(id)/Chart.yaml", "name: shop\n"),
        ("good.yaml", &pod("a", "{}")),
    ]);
    let check = |arguments: &[&str], expected: &str| {
        let said = headroom(folder.path(), &[&["check", "--offline", "-f"], arguments].concat());
        assert_eq!(said.code, 2);
        assert!((said.out.clone() + &said.err).contains(expected), "{arguments:?}: {said:?}");
    };
    let chart = "`chart` is a Helm chart: run `helm template chart | kubectl headroom check -f -` instead";
    check(&["chart"], &format!("error: {chart}\n"));
    check(&["chart/Chart.yaml"], &format!("error: {chart}\n"));
    check(&[".", "-R"], "`./chart` is a Helm chart");
    check(&[".", "-R"], "admitted   pod/a");
    check(&["$(id)"], "run `helm template '$(id)' | kubectl headroom check -f -` instead");
    check(
        &["chart/templates/pod.yaml"],
        "unrendered Helm template: run `helm template CHART | kubectl headroom check -f -` instead",
    );
}

#[test]
fn equal_reasons_of_many_objects_are_grouped() {
    let pods: Vec<String> = (0..50).map(|index| pod(&format!("p{index}"), "{limits: {memory: 2Gi}}")).collect();
    let verdicts: Vec<String> = (0..50).map(|index| format!("rejected p{index}")).collect();
    let said = check(&pods.join("---\n"), &[], &verdicts.iter().map(String::as_str).collect::<Vec<_>>(), 1);
    assert!(said.contains("and 49 more for the same reason: pod/p1 (app.yaml:6), "), "{said}");
    assert!(said.lines().count() < 10, "{said}");
}
