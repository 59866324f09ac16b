//! A live cluster, played by a fake API server: the requests, the permissions they need, and the errors if it refuses.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use headroom_fixtures::api_server::{self, Objects, status};
use headroom_fixtures::http::{FakeServer, answer, method_and_target};
use serde_json::{Value, json};

use super::program::{here, program};
use crate::support::{Said, said};

/// An API server with the objects of the test's files.
struct ApiServer {
    server: FakeServer,
    kubeconfig: PathBuf,
    _folder: tempfile::TempDir,
}

fn documents(path: &str) -> Vec<Value> {
    let text = fs::read_to_string(here().join(path)).unwrap();
    let read: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let items = |document: Value| match document["items"].as_array() {
        Some(items) => items.clone(),
        None => vec![document],
    };
    read.into_iter().flat_map(items).collect()
}

impl ApiServer {
    /// `refuses` returns whether a path is forbidden.
    fn start(refuses: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self::with(Vec::new(), refuses)
    }

    /// With more objects in the namespace shop.
    fn with(more: Vec<Value>, refuses: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        let history =
            ["usage-26", "usage-3d"].map(|root| documents(&format!("profiles/headroom/{root}.yaml"))).concat();
        Self::of([more, history].concat(), refuses)
    }

    /// With these objects in addition to those of `world`.
    fn of(mut objects: Vec<Value>, refuses: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        for file in ["world/limits.yaml", "world/quota.yaml", "world/objects.json"] {
            objects.extend(documents(file));
        }
        let objects = Objects::new(objects);
        let server = FakeServer::start_raw(move |request| {
            let path = method_and_target(request).1.split('?').next().unwrap();
            let (code, object) = if refuses(path) {
                let resource = path.rsplit('/').next().unwrap();
                let message = format!("{resource} is forbidden: User \"eve\" cannot list resource \"{resource}\"");
                status(403, &message)
            } else if path == "/apis/headroom.dev/v1alpha1" {
                let kind =
                    json!({"name": "usageprofiles", "kind": "UsageProfile", "namespaced": true, "verbs": ["list"]});
                (200, json!({"kind": "APIResourceList", "groupVersion": "headroom.dev/v1alpha1", "resources": [kind]}))
            } else {
                objects.answer(path)
            };
            answer(code, &object.to_string())
        });
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("config");
        fs::write(&kubeconfig, api_server::kubeconfig(&[("test", &server.url(), "shop")])).unwrap();
        Self { server, kubeconfig, _folder: folder }
    }

    fn run(&self, arguments: &str) -> Said {
        let mut command = program();
        command.args(arguments.split_whitespace()).args(["--settings", "settings.yaml"]);
        said(with_kubeconfig(&mut command, &self.kubeconfig))
    }

    /// The requested paths.
    fn asked(&self) -> BTreeSet<String> {
        let heads = self.server.asked.lock().unwrap();
        let path = |head: &String| head.split(' ').nth(1).unwrap().split('?').next().unwrap().to_owned();
        // Discovery is always allowed.
        let heads: Vec<_> = heads.iter().filter(|head| !head.contains("/apis/headroom.dev/v1alpha1 ")).collect();
        assert!(heads.iter().all(|head| head.starts_with("GET ")), "nothing is written");
        heads.into_iter().map(path).collect()
    }
}

fn with_kubeconfig<'c>(command: &'c mut Command, kubeconfig: &PathBuf) -> &'c mut Command {
    command.env("KUBECONFIG", kubeconfig)
}

/// True if a role allows to read a path.
fn allows(role: &Value, path: &str) -> bool {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let (group, rest) = match parts.as_slice() {
        ["api", "v1", rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return false,
    };
    let (resource, verb) = match rest {
        ["namespaces", _, resource] | [resource] => (*resource, "list"),
        ["namespaces", _, resource, _] => (*resource, "get"),
        ["namespaces", _] => ("namespaces", "get"),
        _ => return false,
    };
    let has = |list: &Value, wanted: &str| list.as_array().unwrap().iter().any(|have| have == wanted);
    role["rules"]
        .as_array()
        .unwrap()
        .iter()
        .any(|rule| has(&rule["apiGroups"], group) && has(&rule["resources"], resource) && has(&rule["verbs"], verb))
}

#[test]
fn a_cluster_and_its_objects_in_files_give_the_same_output() {
    let server = ApiServer::start(|_| false);
    for question in ["describe limits", "describe quota", "describe usage", "recommend", "recommend deployment/web"] {
        let live = server.run(question);
        let files = said(program().args(question.split_whitespace()).args([
            "-n",
            "shop",
            "--cluster-dir",
            "world",
            "--cluster-dir",
            "profiles",
            "--settings",
            "settings.yaml",
        ]));
        assert_eq!((live.code, live.err.as_str()), (0, ""), "{question}");
        assert_eq!(live.out, files.out, "{question}");
    }
}

const NO_HISTORY: &str = "; usage history is in the collector's namespace: bind this account to the Role \
                          headroom-pool-reader there\n";

#[test]
fn the_role_for_one_namespace_is_sufficient_and_no_secret_is_read() {
    let role = documents("../../../../../deploy/charts/headroom/files/people/reader.yaml").remove(0);
    let pool = documents("../../../../../deploy/charts/headroom/files/people/pool-reader.yaml").remove(0);
    let allowing = (role.clone(), pool.clone());
    let is_of_pool = |path: &str| path.contains("/namespaces/headroom/");
    // The server only answers what the roles allow, so nothing else is needed.
    let server = ApiServer::start(move |path| !allows(if is_of_pool(path) { &allowing.1 } else { &allowing.0 }, path));
    for question in ["describe limits", "describe quota", "describe usage", "recommend deployment/web", "recommend"] {
        let said = server.run(question);
        assert_eq!(said.code, 0, "{question}: {}", said.err);
    }
    let asked = server.asked();
    assert!(asked.len() >= 10, "{asked:?}");
    for path in &asked {
        assert!(!path.contains("secrets"), "{path}");
        // Every authenticated user may read the version.
        assert!(path == "/version" || is_of_pool(path) || path.contains("/namespaces/shop"), "{path}");
    }

    // Without permission to read usage history, recommendations say that it is missing.
    let allowing = role.clone();
    let server = ApiServer::start(move |path| !allows(&allowing, path) || is_of_pool(path));
    let said = server.run("recommend deployment/web");
    assert!(said.code == 2 && said.out.contains("not taken into account: cannot read"), "{}{}", said.out, said.err);
    let said = server.run("describe usage");
    assert!(said.code == 2 && said.err.ends_with(NO_HISTORY), "{}", said.err);
}

#[test]
fn all_namespaces_need_the_cluster_role_and_it_is_sufficient() {
    let role = documents("../../../../../deploy/charts/headroom/files/people/reader.yaml").remove(0);
    assert_eq!(role["kind"], "ClusterRole");
    let allowing = role.clone();
    let server = ApiServer::start(move |path| !allows(&allowing, path));
    for question in ["describe limits -A", "describe quota -A", "describe usage -A", "recommend -A", "snapshot -A"] {
        let said = server.run(question);
        assert_eq!(said.code, 0, "{question}: {}", said.err);
    }
    assert!(server.asked().contains("/api/v1/resourcequotas") && server.asked().contains("/api/v1/namespaces"));
    for devices in ["deviceclasses", "resourceclaims"] {
        assert!(allows(&role, &format!("/apis/resource.k8s.io/v1/{devices}")), "{devices}");
    }

    let refusing = ApiServer::start(|path| !path.contains("/namespaces/shop"));
    for question in ["describe limits -A", "describe quota -A", "describe usage -A", "recommend -A"] {
        let said = refusing.run(question);
        assert_eq!(said.code, 2, "{question}");
        let advice = "; -A needs permission to list in all namespaces: bind this account to the ClusterRole headroom-reader \
                      by a ClusterRoleBinding, or look at one namespace with -n\n";
        let advice = if question.contains("usage") { NO_HISTORY } else { advice };
        assert!(said.err.starts_with("error: cannot read ") && said.err.ends_with(advice), "{}", said.err);
    }
}

#[test]
fn a_whole_cluster_is_listed_once_and_not_namespace_by_namespace() {
    for (question, kind) in [("recommend -A", "limitranges"), ("describe quota -A", "pods")] {
        let server = ApiServer::start(|_| false);
        assert_eq!(server.run(question).code, 0);
        let asked = server.server.asked.lock().unwrap();
        let lists: Vec<&String> = asked.iter().filter(|head| head.contains(&format!("/{kind}?"))).collect();
        assert!(lists.len() == 1 && lists[0].contains(&format!(" /api/v1/{kind}?")), "{question}: {asked:?}");
    }
}

#[test]
fn forbidden_kinds_are_named_with_the_role_that_allows_them() {
    let server = ApiServer::start(|path| path.ends_with("/resourcequotas"));
    let said = server.run("describe quota");
    assert_eq!(said.code, 2);
    assert!(said.err.ends_with("; bind this account to the ClusterRole headroom-reader\n"), "{}", said.err);
    // Recommendations still work without quotas, and say what is missing.
    let said = server.run("recommend deployment/web");
    assert_eq!(said.code, 2, "not everything was read");
    assert!(said.out.contains("not everything could be read (see the notes)\n"), "{}", said.out);
    assert!(
        said.out.contains("  not taken into account: cannot read resourcequotas in namespace shop"),
        "{}",
        said.out
    );

    let server = ApiServer::start(|path| path.ends_with("/pods"));
    let said = server.run("describe quota");
    assert_eq!(said.code, 0);
    assert!(said.out.contains("Note: pods are not recounted: cannot read pods in namespace shop"), "{}", said.out);
    assert!(!said.out.contains("The status of quota"), "{}", said.out);
}

#[test]
fn a_missing_kind_is_reported() {
    let server = ApiServer::of(Vec::new(), |_| false);
    let said = server.run("describe usage");
    assert_eq!(said.code, 2);
    assert_eq!(
        said.err,
        "error: the kind UsageProfile is not installed in the cluster: install the Helm chart or a release's manifests.yaml, and run `headroom-controller collect`\n"
    );
}

/// A controlled object with a container of this image.
fn owned(kind: &str, name: &str, owner: [&str; 3], image: &str, replicas: u64) -> Value {
    let [api_version, owner_kind, owner_name] = owner;
    let owner =
        json!({"apiVersion": api_version, "kind": owner_kind, "name": owner_name, "controller": true, "uid": "x"});
    let spec = json!({"containers": [{"name": "main", "image": image}]});
    let (api_version, spec) = match kind {
        "Pod" => ("v1", spec),
        _ => ("apps/v1", json!({"replicas": replicas, "selector": {}, "template": {"spec": spec}})),
    };
    let metadata = json!({"name": name, "namespace": "shop", "uid": name, "ownerReferences": [owner]});
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
}

#[test]
fn workloads_of_unknown_kinds_get_recommendations_under_their_names() {
    let rollout = ["argoproj.io/v1alpha1", "Rollout", "front"];
    let cluster = ["postgresql.cnpg.io/v1", "Cluster", "pg"];
    let server = ApiServer::with(
        vec![
            owned("ReplicaSet", "front-1", rollout, "nginx:1.26", 0),
            owned("ReplicaSet", "front-2", rollout, "nginx:1.27", 3),
            owned("Pod", "front-2-x", ["apps/v1", "ReplicaSet", "front-2"], "nginx:1.27", 1),
            owned("Pod", "pg-1", cluster, "postgres:16", 1),
            owned("Pod", "pg-2", cluster, "postgres:16", 1),
            owned("Pod", "static-node-1", ["v1", "Node", "node-1"], "nginx:1.27", 1),
        ],
        |_| false,
    );
    let report: Value = serde_json::from_str(&server.run("recommend -o json").out).unwrap();
    let workloads: Vec<_> = report["workloads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|workload| {
            let text = |field: &str| workload[field].as_str().unwrap_or_default().to_owned();
            (text("kind"), text("name"), text("through"), workload["pods"].as_u64().unwrap())
        })
        .collect();
    let has = |kind: &str, name: &str, through: &str, pods| {
        let wanted = (kind.to_owned(), name.to_owned(), through.to_owned(), pods);
        assert!(workloads.contains(&wanted), "{wanted:?} in {workloads:?}");
    };
    has("Rollout", "front", "replicaset/front-2", 3);
    has("Cluster", "pg", "pod/pg-1", 2);
    has("Pod", "static-node-1", "", 1);
    assert_eq!(workloads.iter().filter(|(_, name, ..)| name.contains("front")).count(), 1, "{workloads:?}");
    let table = server.run("recommend").out;
    assert!(
        table.contains("rollout/front") && table.contains("set the requests in the template of rollout/front"),
        "{table}"
    );
    let patches = server.run("recommend -o kustomize").out;
    assert!(!patches.contains("Rollout") && patches.contains("static-node-1"), "{patches}");
}
