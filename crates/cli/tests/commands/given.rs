//! The choice of objects: kustomizations, labels, several namespaces.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

use crate::support::*;

/// A folder with a script that plays `kubectl kustomize`.
fn with_kubectl(script: &str) -> tempfile::TempDir {
    let folder = folder(&[
        ("bin/kubectl", &format!("#!/bin/sh\n{script}\n")),
        ("prod/kustomization.yml", "resources: [app.yaml]\n"),
        ("built.yaml", &[pod("a", "{requests: {cpu: 2}}"), limit_range("limits", "max: {cpu: 1}")].join("---\n")),
        ("limits/limits.yaml", &limit_range("limits", "max: {cpu: 1}")),
    ]);
    fs::set_permissions(folder.path().join("bin/kubectl"), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn check_kustomization(folder: &Path, path: &str, more: &[&str]) -> Said {
    let arguments = [&["check", "-k", "prod", "--cluster-dir", "limits"], more].concat();
    said(program(folder).args(arguments).env("PATH", path))
}

#[test]
fn a_kustomization_is_built_by_kubectl() {
    let folder = with_kubectl(r#"[ "$*" = "kustomize prod" ] && exec /bin/cat built.yaml"#);
    let said = check_kustomization(folder.path(), "bin", &["-o", "github"]);
    assert_eq!((said.code, said.err.as_str()), (1, ""));
    assert!(said.out.starts_with("::error file=prod/kustomization.yml,line=1,"), "{}", said.out);
}

#[test]
fn a_missing_or_failing_kubectl_is_reported() {
    let folder = with_kubectl("echo 'error: no such resource: app.yaml' >&2; exit 1");
    let said = check_kustomization(folder.path(), "bin", &[]);
    assert_eq!(
        (said.code, said.err.as_str()),
        (2, "error: `kubectl kustomize prod` failed: no such resource: app.yaml\n")
    );
    let said = check_kustomization(folder.path(), "nowhere", &[]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("kubectl, which -k needs, is not in PATH"), "{}", said.err);
    assert!(said.err.contains("kustomize build prod | kubectl headroom"), "{}", said.err);
}

/// The names of the objects in a report.
fn names(arguments: &[&str], files: &[(&str, &str)]) -> Vec<String> {
    let folder = folder(files);
    let said = headroom(folder.path(), &[arguments, &["-o", "json"]].concat());
    let report: Value = serde_json::from_str(&said.out).expect(&said.err);
    let name = |object: &Value| object.get("name").or(object.get("object")).and_then(Value::as_str).unwrap().to_owned();
    report["objects"].as_array().unwrap().iter().map(name).collect()
}

/// A pod with a label, in some namespace.
fn labelled(name: &str, app: &str, namespace: &str) -> String {
    let pod = pod(name, "{requests: {cpu: 2}}").replace("namespace: shop", &format!("namespace: {namespace}"));
    pod.replace("metadata: {", &format!("metadata: {{labels: {{app: {app}}}, "))
}

#[test]
fn only_labelled_manifests_are_checked() {
    let text = [labelled("a", "web", "shop"), labelled("b", "db", "shop"), pod("c", "{}")].join("---\n");
    let files = [("all.yaml", text.as_str())];
    assert_eq!(names(&["check", "--offline", "-f", "all.yaml", "-l", "app=web"], &files), ["a"]);
    assert_eq!(names(&["check", "--offline", "-f", "all.yaml", "-l", "app!=web"], &files), ["b", "c"]);
    let folder = folder(&files);
    let said = headroom(folder.path(), &["check", "--offline", "-f", "all.yaml", "-l", "app=cache"]);
    assert_eq!(
        (said.code, said.err.as_str()),
        (2, "error: nothing to check: no object in the files has these labels\n")
    );
}

#[test]
fn labelled_tenant_quotas_are_described_with_their_ancestors() {
    let quota = |metadata: &str, spec: &str| {
        format!("{{apiVersion: headroom.dev/v1alpha1, kind: TenantQuota, metadata: {metadata}, spec: {spec}}}\n")
    };
    let quotas = [
        quota("{name: acme}", "{quota: {hard: {pods: '9'}}}"),
        quota("{name: payments, labels: {tier: gold}}", "{parent: acme, quota: {hard: {pods: '5'}}}"),
    ];
    let folder = folder(&[("cluster/quotas.yaml", &quotas.join("---\n"))]);
    let describe = |more: &[&str]| {
        let arguments = [&["describe", "tenantquota", "--cluster-dir", "cluster"], more].concat();
        let said = headroom(folder.path(), &arguments);
        assert_eq!((said.code, said.err.as_str()), (0, ""));
        said.out
    };
    let text = describe(&["-l", "tier=gold"]);
    assert!(
        text.starts_with("Name:        payments\nParent:      acme\n") && !text.contains("Name:        acme"),
        "{text}"
    );
    let items: Value = serde_json::from_str(&describe(&["-l", "!tier", "-o", "json"])).unwrap();
    assert_eq!(items["items"].as_array().unwrap().len(), 1);
    assert_eq!(items["items"][0]["metadata"]["name"], "acme");
    assert_eq!(describe(&["-l", "tier=silver"]), "There are no TenantQuotas.\n");
}

#[test]
fn a_simulation_can_select_labels_and_several_namespaces() {
    let pods = [labelled("a", "web", "shop"), labelled("b", "db", "shop"), labelled("c", "web", "pay")];
    let new = limit_range("limits", "max: {cpu: 1}").replace(", namespace: shop", "");
    let files = [
        ("cluster/pods.yaml", &*[pods.join("---\n"), labelled("d", "web", "other")].join("---\n")),
        ("new.yaml", &*new),
    ];
    let simulate = |more: &[&str]| {
        let arguments = [&["simulate", "-f", "new.yaml", "--cluster-dir", "cluster"], more].concat();
        names(&arguments, &files)
    };
    // A LimitRange without a namespace is tried in each selected one.
    assert_eq!(simulate(&["-n", "shop,pay"]), ["pod/c", "pod/a", "pod/b"]);
    assert_eq!(simulate(&["-n", "pay", "-n", "shop", "-l", "app=web"]), ["pod/c", "pod/a"]);
    assert_eq!(simulate(&["-A", "-l", "app=web"]), ["pod/d", "pod/c", "pod/a"]);
    assert_eq!(simulate(&["-n", "shop"]), ["pod/a", "pod/b"]);
    // A pattern selects namespaces, too.
    assert_eq!(simulate(&["-n", "*p*"]), ["pod/c", "pod/a", "pod/b"]);
    assert_eq!(simulate(&["-n", "pa*,other"]), ["pod/d", "pod/c"]);
    let folder = folder(&files);
    let said = headroom(folder.path(), &["simulate", "-f", "new.yaml", "--cluster-dir", "cluster", "-n", "team-.*"]);
    let expected = "error: no namespace matches `team-.*`, where `*` stands for any characters\n";
    assert_eq!((said.code, said.err.as_str()), (2, expected));
}

#[test]
fn several_namespaces_are_refused_where_one_is_required() {
    let folder = folder(&[("a.yaml", &pod("a", "{}"))]);
    for command in [["check", "-f"], ["explain", "-f"], ["record", "-f"], ["recommend", "-f"]] {
        let said = headroom(folder.path(), &[&command[..], &["a.yaml", "--offline", "-n", "a,b"]].concat());
        assert_eq!(said.code, 2);
        assert_eq!(said.err, "error: several namespaces are not supported here; give one with -n\n");
        let said = headroom(folder.path(), &[&command[..], &["a.yaml", "--offline", "-n", "a*"]].concat());
        assert_eq!(said.err, "error: a pattern such as `a*` is not supported here; give one namespace with -n\n");
    }
}
