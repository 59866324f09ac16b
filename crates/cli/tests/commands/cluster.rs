//! A live cluster, played by the fake API server: the requests, the permissions that they need, and the errors if it refuses.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use headroom_api_server::cluster_reader::LiveCluster;
use headroom_api_server::kept_lists::KeptLists;
use headroom_api_server::kubeconfig::Chosen;
use headroom_fixtures::api_server::{Answer, ApiServer, Request, kubeconfig, status};
use headroom_objects::cluster_reader::{ClusterReader as _, LeftOut};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::describe::here;
use crate::support::*;

/// An API server, and a folder with a kubeconfig for it, a Pod in `app.yaml`, a LimitRange in `new.yaml`, and settings.
pub struct Live {
    pub server: Arc<ApiServer>,
    url: String,
    pub folder: TempDir,
    /// The working folder of commands.
    place: PathBuf,
}

/// The command of the controller.
const CHECK_LEDGERS: &str = "check-ledgers";

const RANGES: &str = "/api/v1/namespaces/shop/limitranges";
const QUOTAS: &str = "/api/v1/namespaces/shop/resourcequotas";
const TENANT_QUOTAS: &str = "/apis/headroom.dev/v1alpha1/tenantquotas";
const DISCOVERY: &str = "/apis/headroom.dev/v1alpha1";

fn limits() -> Value {
    json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits", "namespace": "shop"},
        "spec": {"limits": [{"type": "Container", "max": {"memory": "1Gi"}, "default": {"memory": "1Gi"},
            "defaultRequest": {"memory": "1Gi"}}]}})
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// A quota for three Pods.
fn team(used: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team", "namespace": "shop"},
        "spec": {"hard": {"pods": "3"}}, "status": {"hard": {"pods": "3"}, "used": {"pods": used}}})
}

fn documents(path: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&fs::read_to_string(here().join(path)).unwrap()).unwrap()
}

impl Live {
    pub fn new(objects: impl IntoIterator<Item = Value>) -> Self {
        let server = ApiServer::new();
        ["shop", "lab"].into_iter().for_each(|name| server.put(namespace(name)));
        objects.into_iter().for_each(|object| server.put(object));
        let url = server.listen();
        let folder = folder(&[
            ("kubeconfig", &kubeconfig(&[("here", &url, "shop"), ("lab", &url, "lab")])),
            ("app.yaml", &pod("a", "{limits: {memory: 2Gi}}").replace(", namespace: shop", "")),
            ("new.yaml", &limit_range("limits", "max: {memory: 4Gi}")),
            // Without estimates, so that no history is read.
            ("settings.yaml", "estimates: {mode: never}\n"),
        ]);
        Self { place: folder.path().to_owned(), server, url, folder }
    }

    /// The objects of `describe/world` with their usage history.
    fn world() -> Self {
        let files = ["limits.yaml", "quota.yaml", "objects.json"].map(|file| format!("world/{file}"));
        let history = ["usage-26.c", "usage-3d.c"].map(|quarter| format!("profiles/headroom/{quarter}.yaml"));
        let objects = files.iter().chain(&history).flat_map(|file| documents(file));
        Self { place: here(), ..Self::new(objects) }
    }

    fn forbid(&self, is_forbidden: impl Fn(&str) -> bool + Send + Sync + 'static) {
        self.server.on_request(move |request| {
            is_forbidden(&request.path).then(|| status(403, "it is forbidden: User \"ann\" cannot list it"))
        });
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn run(&self, arguments: &str) -> Said {
        let (mut command, settings) = match arguments {
            CHECK_LEDGERS => (controller(&self.place), None),
            _ => (program(&self.place), Some("--settings=settings.yaml")),
        };
        command.args(arguments.split_whitespace().chain(settings));
        said(command.env("KUBECONFIG", self.kubeconfig()))
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// The requested paths, in order.
    fn asked(&self) -> Vec<String> {
        let requests = self.server.requests();
        assert!(requests.iter().all(|request| request.method == "GET"), "nothing is written");
        requests.into_iter().map(|request| request.path).collect()
    }
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
    let mut rules = role["rules"].as_array().unwrap().iter();
    rules.any(|rule| has(&rule["apiGroups"], group) && has(&rule["resources"], resource) && has(&rule["verbs"], verb))
}

fn role(file: &str) -> Value {
    documents(&format!("../../../../../deploy/charts/headroom/files/people/{file}")).remove(0)
}

#[test]
fn a_cluster_and_its_objects_in_files_give_the_same_output() {
    let live = Live::world();
    for question in
        ["describe limits", "describe quota", "recommend image nginx", "recommend", "recommend deployment/web"]
    {
        let of_cluster = live.run(question);
        assert_eq!((of_cluster.code, of_cluster.err.as_str()), (0, ""), "{question}");
        let of_files = live.run(&format!("{question} -n shop --cluster-dir world --cluster-dir profiles"));
        assert_eq!(of_cluster.out.replace("Cluster: here. ", ""), of_files.out, "{question}");
    }
}

const NO_HISTORY: &str = "; usage history is in the collector's namespace: bind this account to the Role \
                          headroom-pool-reader there\n";

const NODES: &str = "/api/v1/nodes";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

#[test]
fn the_role_for_one_namespace_is_sufficient_and_no_secret_is_read() {
    let (reader, pool_reader) = (role("reader.yaml"), role("pool-reader.yaml"));
    let is_of_pool = |path: &str| path.contains("/namespaces/headroom/");
    let live = Live::world();
    let allowing = reader.clone();
    // The server only answers what the roles allow, so nothing else is needed. A RoleBinding grants no nodes and no classes.
    live.forbid(move |path| {
        let role = if is_of_pool(path) { &pool_reader } else { &allowing };
        path != DISCOVERY && (path == NODES || path == CLASSES || !allows(role, path))
    });
    for question in ["describe limits", "describe quota", "recommend deployment/web", "recommend"] {
        let said = live.run(question);
        assert_eq!(said.code, 0, "{question}: {}", said.err);
    }
    let asked = live.asked();
    assert!(asked.len() >= 10, "{asked:?}");
    for path in &asked {
        assert!(!path.contains("secrets"), "{path}");
        // Every authenticated user may read the version and discovery.
        let is_free = path == "/version" || path == DISCOVERY;
        // Without TenantQuotas, changes are checked against the quotas of the namespace; without nodes, not against those; a
        // default class counts only where quotas ask for it.
        let is_free = is_free || path.ends_with("/tenantquotas") || path == NODES || CLASSES.starts_with(path);
        assert!(is_free || is_of_pool(path) || path.contains("/namespaces/shop"), "{path}");
    }

    // Without permission to read usage history, recommendations say that it is missing.
    live.forbid(move |path| path != DISCOVERY && (!allows(&reader, path) || is_of_pool(path)));
    let said = live.run("recommend deployment/web");
    assert!(said.code == 2 && said.out.contains("not taken into account: cannot read"), "{}{}", said.out, said.err);
    let said = live.run("why deployment/web");
    let note = "were not looked at: UsageProfiles may not be read\n  not taken into account: cannot read";
    assert!(said.out.contains(note) && said.out.contains(NO_HISTORY), "{}{}", said.out, said.err);
}

#[test]
fn all_namespaces_need_the_cluster_role_and_it_is_sufficient() {
    let reader = role("reader.yaml");
    assert_eq!(reader["kind"], "ClusterRole");
    for devices in ["deviceclasses", "resourceclaims"] {
        assert!(allows(&reader, &format!("/apis/resource.k8s.io/v1/{devices}")), "{devices}");
    }
    let live = Live::world();
    live.forbid(move |path| path != DISCOVERY && !allows(&reader, path));
    for question in ["describe limits -A", "describe quota -A", "recommend -A", "snapshot -A"] {
        let said = live.run(question);
        assert_eq!(said.code, 0, "{question}: {}", said.err);
    }
    let asked = live.asked();
    for list in ["/api/v1/resourcequotas", "/api/v1/namespaces"] {
        assert!(asked.iter().any(|path| path == list), "{asked:?}");
    }

    live.forbid(|path| !path.contains("/namespaces/shop"));
    for question in ["describe limits -A", "describe quota -A", "recommend image nginx -A", "recommend -A"] {
        let said = live.run(question);
        assert_eq!(said.code, 2, "{question}");
        let advice = "; -A needs permission to list in all namespaces: bind this account to the ClusterRole headroom-reader \
                      by a ClusterRoleBinding, or look at one namespace with -n\n";
        let advice = if question.contains("image ") { NO_HISTORY } else { advice };
        assert!(said.err.starts_with("error: cannot read ") && said.err.ends_with(advice), "{}", said.err);
    }
}

#[test]
fn a_whole_cluster_is_listed_once_and_not_namespace_by_namespace() {
    for (question, kind) in [("recommend -A", "limitranges"), ("describe quota -A", "pods")] {
        let live = Live::world();
        assert_eq!(live.run(question).code, 0);
        let asked = live.asked();
        let lists: Vec<&String> = asked.iter().filter(|path| path.ends_with(&format!("/{kind}"))).collect();
        assert_eq!(lists, [&format!("/api/v1/{kind}")], "{question}");
    }
}

#[test]
fn forbidden_kinds_are_named_with_the_role_that_allows_them() {
    let live = Live::world();
    live.forbid(|path| path.ends_with("/resourcequotas"));
    let said = live.run("describe quota");
    assert_eq!(said.code, 2);
    assert!(said.err.ends_with("; bind this account to the ClusterRole headroom-reader\n"), "{}", said.err);
    // No policy refuses because of it.
    let said = live.run("describe limits");
    let note = "Note: not taken into account: cannot read resourcequotas in namespace shop";
    assert!(said.code == 0 && said.out.contains(note) && !said.out.contains("is rejected"), "{}", said.out);
    // A recommendation that knows no bounds or autoscalers is not the one that was asked for.
    for kind in ["HorizontalPodAutoscalers", "limitranges"] {
        live.forbid(move |path| path.ends_with(&kind.to_lowercase()));
        let said = live.run("recommend deployment/web");
        assert!(said.code == 2 && (said.out + &said.err).contains(kind), "{kind}: {}", said.code);
    }
    live.forbid(|path| path.ends_with("/resourcequotas"));
    let said = live.run("recommend deployment/web");
    assert_eq!(said.code, 2, "not everything was read");
    assert!(said.out.contains("not everything could be read (see the notes)\n"), "{}", said.out);
    let note = "  not taken into account: cannot read resourcequotas in namespace shop";
    assert!(said.out.contains(note), "{}", said.out);

    live.forbid(|path| path.ends_with("/pods"));
    let said = live.run("describe quota");
    assert_eq!(said.code, 0);
    assert!(said.out.contains("Note: pods are not recounted: cannot read pods in namespace shop"), "{}", said.out);

    let live = Live::new([]);
    live.forbid(|path| path == "/api/v1/namespaces/shop/pods");
    let said = live.run("check --against-running -f new.yaml");
    assert_eq!(said.code, 2);
    let missed = "not read: cannot read pods in namespace shop: it is forbidden: User \"ann\" cannot list it";
    assert!(said.out.contains(missed), "{}", said.out);
}

#[test]
fn forbidden_reads_fail_a_check_unless_the_settings_allow_them() {
    let live = Live::new([]);
    live.forbid(|path| path == RANGES);
    let said = live.run("check -f app.yaml");
    assert_eq!((said.code, said.err.as_str()), (2, ""));
    snapshot("check-forbidden.table", &said.out);
    live.write("settings.yaml", "estimates: {mode: never}\nonMissingContext: warn\n");
    let said = live.run("check -f app.yaml");
    assert_eq!(said.code, 0, "{}", said.err);
    let expected = "warning: cannot read limitranges in namespace shop: it is forbidden: User \"ann\" cannot list it; evaluated without it\n";
    assert!(said.out.contains(expected), "{}", said.out);
    // Other reasons still refuse.
    live.server.put(team("3"));
    assert_eq!(live.run("check -f app.yaml").code, 1);
}

#[test]
fn a_missing_kind_is_reported() {
    let said = Live::new([]).run("recommend image nginx");
    assert_eq!(said.code, 2);
    let expected = "error: no usage history: `headroom-controller collect` gathers it by image, also of pods that are gone; \
                    or name a metrics store with --prometheus, by its URL or as NAMESPACE/SERVICE:PORT\n";
    assert_eq!(said.err, expected);
}

#[test]
fn manifests_are_evaluated_in_the_namespace_of_the_kubeconfig() {
    let live = Live::new([limits(), team("1")]);
    live.forbid(|path| path == TENANT_QUOTAS);
    let said = live.run("check -f app.yaml");
    assert_eq!((said.code, said.err.as_str()), (1, ""));
    assert!(said.out.contains("rejected   pod/a    shop"), "{}", said.out);
    // Without TenantQuotas in the cluster, permissions in the one namespace are sufficient.
    let [shop, pod] = ["/api/v1/namespaces/shop", "/api/v1/namespaces/shop/pods/a"];
    assert_eq!(live.asked(), ["/version", shop, pod, CLASSES, RANGES, QUOTAS, TENANT_QUOTAS, DISCOVERY]);
    let said = live.run("check -f app.yaml --context lab");
    assert!(said.out.contains("pod/a    lab"), "{}{}", said.out, said.err);
}

#[test]
fn lists_are_read_once_in_a_run() {
    let live = Live::new([team("1")]);
    live.write("app.yaml", &["a", "b", "c"].map(|name| pod(name, "{}")).join("---\n"));
    let said = live.run("check -f app.yaml");
    assert_eq!(said.code, 1);
    assert!(said.out.contains("3 objects: 1 rejected, 2 admitted"), "{}", said.out);
    assert_eq!(live.asked().iter().filter(|path| *path == QUOTAS).count(), 1);
}

/// Pages that are read ahead are not read again, unless the API server has forgotten where they continue.
#[test]
fn each_page_of_a_long_list_is_read_once() {
    for forgets in [false, true] {
        let pod = |number: usize| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("web-{number}"), "namespace": "shop"}});
        let live = Live::new((0..6).map(pod));
        live.server.limit_pages(2);
        let is_forgotten = AtomicBool::new(forgets);
        live.server.on_request(move |request| {
            let is_second = request.parameter("continue").is_some();
            let expired = || json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"});
            (is_second && is_forgotten.swap(false, Ordering::Relaxed)).then(|| (410_u16, expired()))
        });
        let said = live.run("snapshot -n shop -o shop.json");
        assert_eq!(said.code, 0, "{}", said.err);
        let pages = live.asked().iter().filter(|path| *path == "/api/v1/namespaces/shop/pods").count();
        assert_eq!(pages, if forgets { 5 } else { 3 });
        let taken = fs::read_to_string(live.folder.path().join("shop.json")).unwrap();
        for number in 0..6 {
            assert_eq!(taken.matches(&format!("\"web-{number}\"")).count(), 1, "{taken}");
        }
    }
}

#[test]
fn files_override_the_cluster() {
    let said = Live::new([limits(), team("3")]).run("check -f app.yaml --cluster-dir new.yaml --context here");
    assert_eq!(said.code, 1);
    assert!(said.out.contains("exceeded quota: team") && !said.out.contains("maximum memory"), "{}", said.out);
}

/// A server that decides by the credentials of requests, and a check with these in the kubeconfig and the file `token`.
fn check_as(user: &Value, token: &str, answer: impl Fn(&str) -> Option<Answer> + Send + Sync + 'static) -> Said {
    let live = Live::new([]);
    live.server.on_request(move |request: &Request| answer(request.header("authorization")));
    let kubeconfig = kubeconfig(&[("here", &live.url, "shop")]);
    live.write("kubeconfig", &kubeconfig.replace(r#""user":{}"#, &format!(r#""user":{user}"#)));
    live.write("token", token);
    let said = live.run("check -f app.yaml --kubeconfig kubeconfig");
    let path = live.folder.path().join("token").display().to_string();
    Said { err: said.err.replace(&path, "token"), ..said }
}

#[test]
fn no_error_shows_a_credential_that_the_server_repeats() {
    let check = |user: &Value, scheme: &str| {
        let said = check_as(user, "s3cret", |sent| Some(status(403, &format!("no limits for `{sent}`"))));
        assert_eq!(said.code, 2, "{}", said.err);
        // The base64 of `ann:s3cret`.
        let is_shown = ["s3cret", "YW5uOnMzY3JldA=="].iter().any(|secret| said.out.contains(secret));
        assert!(said.out.contains(&format!("no limits for `{scheme} ***`")) && !is_shown, "{}", said.out);
    };
    let plugin = |status: Value| {
        let (version, kind) = ("client.authentication.k8s.io/v1", "ExecCredential");
        let said = json!({"apiVersion": version, "kind": kind, "status": status}).to_string();
        json!({"exec": {"apiVersion": version, "command": "echo", "args": [said], "interactiveMode": "Never"}})
    };
    check(&json!({"token": "s3cret"}), "Bearer");
    check(&json!({"tokenFile": "token"}), "Bearer");
    check(&json!({"username": "ann", "password": "s3cret"}), "Basic");
    check(&plugin(json!({"token": "s3cret"})), "Bearer");
    check(&plugin(json!({"token": "s3cret", "expirationTimestamp": "2126-01-01T00:00:00Z"})), "Bearer");
}

/// As kubectl: most editors end a file with a newline.
#[test]
fn the_token_of_a_file_is_sent_without_the_space_around_it() {
    let check = |user: &Value, token: &str, expected: &str| {
        let said =
            check_as(user, token, |sent| (sent != "Bearer s3cret").then(|| status(401, &format!("unknown: {sent:?}"))));
        assert_eq!(said.err, expected, "{}", said.out);
    };
    check(&json!({"tokenFile": "token"}), " s3cret\r\n", "");
    check(&json!({"tokenFile": "token", "token": "old"}), "s3cret\n", "");
    check(&json!({"tokenFile": "token", "token": "s3cret"}), "\n", "");
    check(&json!({"tokenFile": "token"}), "\n", "error: the tokenFile `token` is empty\n");
}

#[test]
fn a_running_pod_is_explained_from_the_cluster() {
    let running = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "shop"},
        "spec": {"containers": [{"name": "app", "image": "app:1",
            "resources": {"limits": {"memory": "1Gi"}, "requests": {"memory": "1Gi"}}}]}});
    let said = Live::new([running, limits(), team("3")]).run("why a");
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    snapshot("why-cluster.text", &said.out);
}

#[test]
fn contents_of_secrets_are_never_requested() {
    let live = Live::new([]);
    live.write("secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: b}\n");
    assert_eq!(live.run("check -f secret.yaml").code, 0);
    let requests = live.server.requests();
    let get = requests.iter().find(|request| request.path.ends_with("/secrets/s")).unwrap();
    assert!(get.header("accept").contains("as=PartialObjectMetadata"), "{get}");
}

/// They hold settings of programs, which recommendations need; whoever only counts them gets metadata.
#[test]
fn contents_of_config_maps_are_requested_for_settings_of_programs_alone() {
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "shop"},
        "data": {"JAVA_OPTS": "-Xmx6g"}});
    let live = Live::new([config]);
    let chosen = Chosen { kubeconfig: Some(live.kubeconfig()), ..Chosen::default() };
    let (mut cluster, _) = LiveCluster::connect(&chosen).unwrap();
    let (mut whole, mut counted) = (Vec::new(), Vec::new());
    cluster.visit_configs(Some("shop"), &mut |object| whole.push(object)).unwrap();
    cluster.visit(("v1", "ConfigMap", Some("shop")), &mut |object| counted.push(object)).unwrap();
    assert_eq!(whole[0]["data"]["JAVA_OPTS"], "-Xmx6g");
    let requests = live.server.requests();
    let lists = requests.iter().filter(|request| request.path.contains("/configmaps"));
    let of_metadata: Vec<bool> =
        lists.map(|request| request.header("accept").contains("as=PartialObjectMetadataList")).collect();
    assert_eq!((counted.len(), of_metadata), (1, vec![false, true]));
}

#[test]
fn an_api_server_that_gives_no_access_is_one_line_of_every_command() {
    let live = Live::new([]);
    live.server.on_request(|_| status(401, "Unauthorized"));
    let check = |expected: &str| {
        for command in [
            "check app.yaml",
            "why web",
            "recommend",
            "describe quota",
            "describe limits",
            "check --against-running -f new.yaml",
            "snapshot -A -o taken.json",
            CHECK_LEDGERS,
        ] {
            let Said { code, out, err } = live.run(command);
            assert_eq!((code, out.as_str(), err.as_str()), (2, "", expected), "{command}");
        }
        // An earlier snapshot is kept.
        assert_eq!(fs::read_to_string(live.folder.path().join("taken.json")).unwrap(), "taken before");
    };
    live.write("taken.json", "taken before");
    let url = &live.url;
    check(&format!(
        "error: the API server {url} does not accept the credentials (Unauthorized): they may have expired, so log in again\n"
    ));
    live.write("kubeconfig", &kubeconfig(&[("here", "https://127.0.0.1:1", "shop")]));
    check("error: cannot reach the API server https://127.0.0.1:1: Connection refused (os error 111)\n");
}

#[test]
fn a_live_check_uses_the_release_of_the_cluster() {
    let autoscaler = "apiVersion: autoscaling/v2beta2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a, namespace: shop}\n\
                      spec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}\n";
    for (minor, code) in [("25", 0), ("26+", 1)] {
        let live = Live::new([]);
        live.server.on_request(move |request| {
            (request.path == "/version").then(|| (200_u16, json!({"major": "1", "minor": minor})))
        });
        live.write("hpa.yaml", autoscaler);
        let said = live.run("check hpa.yaml");
        assert_eq!(said.code, code, "{minor}: {}{}", said.out, said.err);
        // The settings have precedence.
        live.write("settings.yaml", "kubernetesVersion: \"1.30\"\n");
        assert_eq!(live.run("check hpa.yaml").code, 1);
    }
}

#[test]
fn wrong_names_are_answered_with_the_nearest() {
    let mut old = namespace("old");
    old["metadata"]["deletionTimestamp"] = json!("2026-12-01T00:00:00Z");
    let live = Live::new([old]);
    let mut text = String::new();
    let commands = "check app.yaml -n shp; check app.yaml -n old; describe quota -n shp; why web -n shp; why web; \
                    why web --context gone; recommend -A";
    for command in commands.split("; ").chain([CHECK_LEDGERS]) {
        let Said { code, out, err } = live.run(command);
        let name = if command == CHECK_LEDGERS { "headroom-controller" } else { "kubectl headroom" };
        writeln!(text, "$ {name} {command}\n{err}{out}exit code {code}\n").unwrap();
    }
    snapshot("errors-live.txt", &text.replace(live.folder.path().to_str().unwrap(), "~"));
}

#[test]
fn kept_lists_are_watched_for_what_has_changed_and_read_again_only_where_that_fails() {
    let live = Live::new([limits(), team("1")]);
    let chosen = Chosen { kubeconfig: Some(live.kubeconfig()), ..Chosen::default() };
    let kept = KeptLists::new(|_, _| &LeftOut::Nothing);
    let check = |claim: &str, is_read_ahead: bool, expected: &[&str], is_watched: &[bool]| {
        live.server.take_requests();
        let mut cluster = LiveCluster::connect(&chosen).unwrap().0.with_kept(Some(kept.clone()));
        let lists = ["LimitRange", "ResourceQuota"].map(|kind| ("v1", kind, None));
        if is_read_ahead {
            cluster.prefetch(&lists, &mut || {});
        }
        // The second visit of a reading asks for nothing more.
        for _ in 0..2 {
            let mut found = Vec::new();
            let mut visited = |object: Value| {
                let name = object["metadata"]["name"].as_str().unwrap();
                found.push(format!("{} {name} {}", object["kind"].as_str().unwrap(), object["status"]["used"]["pods"]));
            };
            lists.iter().for_each(|list| cluster.visit(*list, &mut visited).unwrap());
            assert_eq!(found, expected, "{claim}");
        }
        // Nor does an object of such a list.
        let quota = ("v1", "ResourceQuota", Some("shop"));
        assert_eq!(cluster.get(quota, "team").unwrap().unwrap()["metadata"]["name"], "team", "{claim}");
        assert_eq!(cluster.get(quota, "gone"), Ok(None), "{claim}");
        let asked = live.server.take_requests();
        let mut watched: Vec<bool> = asked.iter().map(|request| request.parameter("watch").is_some()).collect();
        watched.sort_unstable();
        assert_eq!(watched, is_watched, "{claim}");
    };
    let now = ["LimitRange limits null", r#"ResourceQuota team "1""#];
    check("first", false, &now, &[false, false]);
    check("nothing new", true, &now, &[true, true]);
    live.server.edit(&format!("{QUOTAS}/team"), &json!({"status": {"used": {"pods": "2"}}}));
    live.server.remove(&format!("{RANGES}/limits"));
    let mut more = team("0");
    more["metadata"]["name"] = json!("another");
    live.server.put(more);
    let now = [r#"ResourceQuota another "0""#, r#"ResourceQuota team "2""#];
    check("changed", true, &now, &[true, true]);
    check("not ahead", false, &now, &[true, true]);
    for code in [403, 410] {
        live.server.on_request(move |request| request.parameter("watch").map(|_| status(code, "no watch")));
        check("no watch", true, &now, &[false, false, true, true]);
    }
}
