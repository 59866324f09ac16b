//! `headroom-controller serve-ui` behind an authenticating proxy: users see what they may read, whatever the program may read.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use headroom_e2e::cluster::{Cluster, create, resource};
use headroom_e2e::control_plane::Controllers;
use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::objects::{deployment, limit_range, pod, quota};

struct Page {
    program: Child,
    address: String,
}

impl Page {
    /// Started by the administrator, for the whole cluster.
    fn start(cluster: &Cluster) -> Self {
        let site = tempfile::tempdir().unwrap();
        std::fs::write(site.path().join("index.html"), "page").unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_headroom-controller-under-test"))
            .args(["serve-ui", "--port", "0", "-A", "--site"])
            .arg(site.path())
            .env("KUBECONFIG", cluster.kubeconfig_file().unwrap())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).unwrap().trim().trim_end_matches('/').to_owned();
        Self { program, address }
    }

    /// Status and body.
    fn get(&self, path: &str, token: Option<&str>) -> (u16, String) {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        write!(connection, "GET {path} HTTP/1.1\r\nHost: {}\r\n{token}Connection: close\r\n\r\n", self.address)
            .unwrap();
        let (mut connection, mut head) = (BufReader::new(connection), String::new());
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(connection.read_line(&mut head).unwrap(), 0, "{head}");
        }
        let mut body = String::new();
        match head.contains("content-encoding: gzip\r\n") {
            true => GzDecoder::new(connection).read_to_string(&mut body).unwrap(),
            false => connection.read_to_string(&mut body).unwrap(),
        };
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        drop(self.program.kill());
        drop(self.program.wait());
    }
}

/// A token of a service account that has a role in one namespace.
async fn viewer(client: &Client, namespace: &str, name: &str, role: &str) -> String {
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}});
    create(client, account).await.unwrap();
    create(
        client,
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }),
    )
    .await
    .unwrap();
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
    let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}).to_string();
    let request =
        http::Request::post(path).header("content-type", "application/json").body(asked.into_bytes()).unwrap();
    let answer: Value = client.request(request).await.unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn behind_a_proxy_users_see_what_they_may_read() {
    let cluster = Cluster::of_environment(Controllers::On).await.unwrap();
    let client = cluster.client().await.unwrap();
    let (shop, bank) = (cluster.new_namespace("shop").await.unwrap(), cluster.new_namespace("bank").await.unwrap());
    for namespace in [&shop, &bank] {
        create(&client, limit_range(namespace, json!({"max": {"cpu": "1"}}))).await.unwrap();
    }
    let token = viewer(&client, &shop, "viewer", "view").await;
    let page = Page::start(&cluster);

    assert_eq!(page.get("/", None), (200, "page".to_owned()));
    let (status, said) = page.get("/cluster.json", None);
    assert!(status == 401 && said.contains("the proxy passes on no bearer token"), "{status} {said}");
    let (status, said) = page.get("/cluster.json", Some("forged"));
    assert!(
        status == 401 && said.contains("does not accept your token (Unauthorized): log in again"),
        "{status} {said}"
    );
    let (status, said) = page.get("/cluster.json", Some(&token));
    assert!(status == 502 && said.contains("name a namespace that you may read"), "{status} {said}");
    let (status, said) = page.get(&format!("/cluster.json?namespace={bank}"), Some(&token));
    assert!(status == 502 && said.contains("forbidden"), "{status} {said}");

    let deadline = Instant::now() + Duration::from_secs(30);
    let said = loop {
        let (status, said) = page.get(&format!("/cluster.json?namespace={shop}"), Some(&token));
        // The role `view` is put together by a controller, so at first only a part of it may be effective.
        if status == 200 && said.contains(r#""kind":"LimitRange""#) {
            break said;
        }
        assert!(Instant::now() < deadline, "the role is not effective yet: {status} {said}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    let seen: Value = serde_json::from_str(&said).unwrap();
    let kinds: Vec<_> = seen["items"].as_array().unwrap().iter().map(|item| item["kind"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"LimitRange") && !said.contains(&bank), "{kinds:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn the_accounts_of_a_namespace_have_the_places_of_one_visitor() {
    let cluster = Cluster::of_environment(Controllers::On).await.unwrap();
    let client = cluster.client().await.unwrap();
    let (shop, bank) = (cluster.new_namespace("shop").await.unwrap(), cluster.new_namespace("bank").await.unwrap());
    let mut tokens = Vec::new();
    for number in 0..12 {
        tokens.push(viewer(&client, &shop, &format!("viewer-{number}"), "view").await);
    }
    let other = viewer(&client, &bank, "viewer", "view").await;
    let page = Page::start(&cluster);
    let statuses = |path: &str, tokens: &[String]| -> Vec<u16> {
        std::thread::scope(|scope| {
            let clients: Vec<_> = tokens.iter().map(|token| scope.spawn(|| page.get(path, Some(token)).0)).collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        })
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while page.get(&format!("/cluster.json?namespace={bank}"), Some(&other)).0 != 200 {
        assert!(Instant::now() < deadline, "the role is not effective yet");
    }
    let path = format!("/cluster.json?namespace={shop}");
    let of_many = statuses(&path, &tokens);
    assert!(of_many.contains(&429), "{of_many:?}");
    let with_another = statuses(&path, &[tokens[..11].to_vec(), vec![other]].concat());
    assert_ne!(with_another[11], 429, "{with_another:?}");
}

/// The Deployment `web` and the StatefulSet `db` want Pods, and the quota `team` has room for none.
async fn workloads_without_room(client: &Client, namespace: &str) {
    create(client, quota(namespace, json!({"pods": "0"}))).await.unwrap();
    // The plugin hears of a quota a moment after it was created.
    let pods: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource("v1", "Pod"));
    let probe: DynamicObject = serde_json::from_value(pod(namespace, "probe", json!({}))).unwrap();
    let only_asked = PostParams { dry_run: true, ..PostParams::default() };
    while !pods.create(&only_asked, &probe).await.is_err_and(|error| error.to_string().contains("exceeded quota")) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let web = deployment(namespace, 1, json!({}));
    let mut db = web.clone();
    db["kind"] = json!("StatefulSet");
    db["metadata"]["name"] = json!("db");
    db["spec"]["serviceName"] = json!("db");
    for workload in [web, db] {
        create(client, workload).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a control plane: make e2e-cluster"]
async fn what_was_rejected_lately_is_read_with_the_rights_of_the_user() {
    let cluster = Cluster::of_environment(Controllers::On).await.unwrap();
    let client = cluster.client().await.unwrap();
    let shop = cluster.new_namespace("shop").await.unwrap();
    workloads_without_room(&client, &shop).await;
    let page = Page::start(&cluster);
    let rejections = |token: &str| {
        let (status, said) = page.get(&format!("/cluster.json?namespace={shop}"), Some(token));
        let seen: Value = serde_json::from_str(&said).unwrap_or_default();
        let spec = seen["items"].as_array().and_then(|items| items.last()).map(|about| about["spec"].clone());
        (status, spec.map_or(Value::Null, |spec| spec["rejections"].clone()))
    };
    let until = async |token: &str, is_there: &dyn Fn(&Value) -> bool| {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let (status, found) = rejections(token);
            if status == 200 && is_there(&found) {
                return found;
            }
            assert!(Instant::now() < deadline, "{status} {found}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };

    let token = viewer(&client, &shop, "viewer", "view").await;
    let found =
        until(&token, &|found| found["groups"][0]["workloadCount"] == 2 && found["groups"][0]["blocked"] == 1).await;
    let group = &found["groups"][0];
    assert_eq!(group["workloads"], json!(["deployment/web", "statefulset/db"]), "{found}");
    assert_eq!(group["message"], "exceeded quota: team, requested: pods=1, used: pods=0, limited: pods=0");
    assert!(group["count"].as_u64() >= Some(2) && found["problem"].is_null(), "{found}");

    let role = format!("{shop}-blind");
    let rules = json!([{"apiGroups": ["", "apps"], "resources": ["deployments", "limitranges"], "verbs": ["list"]}]);
    create(&client, json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": role}, "rules": rules}))
        .await
        .unwrap();
    let token = viewer(&client, &shop, "blind", &role).await;
    let found = until(&token, &|found| found["groups"][0]["blocked"] == 1).await;
    // What conditions tell is there all the same.
    assert_eq!(found["groups"][0]["workloads"], json!(["deployment/web"]));
    let problem = found["problem"].as_str().unwrap();
    assert!(problem.starts_with(&format!("cannot read events in namespace {shop}: ")), "{problem}");
    assert!(problem.ends_with("; bind this account to the ClusterRole headroom-reader"), "{problem}");
}
