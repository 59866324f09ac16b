//! `headroom-controller serve-ui` behind a proxy that passes on what clients send, at an API server in memory.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use headroom_fixtures::api_server::{kubeconfig, list, not_found, status};
use headroom_fixtures::http::{FakeServer, Reply, answer, header, method_and_target};
#[cfg(target_os = "linux")]
use headroom_fixtures::process::anonymous_kib;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The program, which reads a cluster of our making.
struct Page {
    program: Child,
    address: String,
    api_server: FakeServer,
    _folder: TempDir,
}

impl Page {
    fn start(api_server: FakeServer) -> Self {
        Self::start_with(api_server, &[])
    }

    fn start_with(api_server: FakeServer, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("kubeconfig");
        fs::write(&config, kubeconfig(&[("here", &api_server.url(), "shop")])).unwrap();
        fs::write(folder.path().join("index.html"), "page").unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_headroom-controller"))
            .args(["serve-ui", "--port", "0", "-A", "--site"])
            .arg(folder.path())
            .args(arguments)
            .env("KUBECONFIG", &config)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).unwrap().trim().trim_end_matches('/').to_owned();
        Self { program, address, api_server, _folder: folder }
    }

    /// Status and body.
    fn ask(&self, token: &str) -> (u16, String) {
        ask(&self.address, token)
    }

    /// Asks with many tokens at the same time, from threads of their own. Returns the status of each answer.
    fn ask_with_each(&self, tokens: impl Iterator<Item = String>) -> thread::JoinHandle<Vec<u16>> {
        let clients: Vec<_> = tokens
            .map(|token| {
                let address = self.address.clone();
                thread::spawn(move || ask(&address, &token).0)
            })
            .collect();
        thread::spawn(move || clients.into_iter().map(|client| client.join().unwrap()).collect())
    }

    /// How many requests with tokens that start so have read the cluster.
    fn reads(&self, token: &str) -> usize {
        let bearer = format!("Bearer {token}");
        let is_theirs = |head: &&String| header(head, "authorization").is_some_and(|value| value.starts_with(&bearer));
        self.api_server.asked_for("GET ").iter().filter(is_theirs).count()
    }
}

/// The processes that take snapshots.
#[cfg(target_os = "linux")]
impl Page {
    fn children(&self) -> Vec<u32> {
        children(self.program.id())
    }

    fn wait_for_children(&self, count: usize) {
        let begun = Instant::now();
        while self.children().len() != count {
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", self.children());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Measures the memory of all processes until the returned function is called, which returns the highest sum in KiB.
    fn measure(&self) -> impl FnOnce() -> u64 + use<> {
        let (id, is_over) = (self.program.id(), Arc::new(AtomicBool::new(false)));
        let ends = Arc::clone(&is_over);
        let measured = thread::spawn(move || {
            let mut most = 0;
            while !ends.load(Ordering::Relaxed) {
                let all = children(id).into_iter().chain([id]);
                most = most.max(all.filter_map(anonymous_kib).sum());
                thread::sleep(Duration::from_millis(2));
            }
            most
        });
        move || {
            is_over.store(true, Ordering::Relaxed);
            measured.join().unwrap()
        }
    }
}

#[cfg(target_os = "linux")]
fn children(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let of_thread = |thread: std::io::Result<fs::DirEntry>| {
        let text = fs::read_to_string(thread.unwrap().path().join("children")).unwrap_or_default();
        text.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<u32>>()
    };
    threads.flat_map(of_thread).collect()
}

impl Drop for Page {
    fn drop(&mut self) {
        drop(self.program.kill());
        drop(self.program.wait());
    }
}

fn ask(address: &str, token: &str) -> (u16, String) {
    let mut connection = TcpStream::connect(address).unwrap();
    write!(connection, "{}", request(token)).unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn request(token: &str) -> String {
    format!("GET /cluster.json HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n")
}

/// A token is `USER/NUMBER`: each user has any number of them.
fn users_token(head: &str) -> (String, String) {
    let token = header(head, "authorization").and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    let user = token.split('/').next().unwrap_or_default();
    (user.to_owned(), token.to_owned())
}

/// An API server that rejects tokens of `nobody`, keeps those of `stuck` waiting, and reads slowly for the account `eve`.
/// Services of `big` have 300 megabytes, and pods of `endless` never arrive.
fn api_server(reviews: bool) -> FakeServer {
    FakeServer::start_raw(move |head| {
        let (user, _) = users_token(head);
        match user.as_str() {
            "nobody" => {
                thread::sleep(Duration::from_millis(20));
                let (code, object) = status(401, "Unauthorized");
                return answer(code, &object.to_string());
            }
            "stuck" => return Reply::Stall(Vec::new()),
            _ => {}
        }
        let name = match user.as_str() {
            "eve" => "system:serviceaccount:eve:default",
            other => other,
        };
        let (method, target) = method_and_target(head);
        let path = target.split('?').next().unwrap_or_default();
        let (code, object): (u16, Value) = match (method, path) {
            ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews") if reviews => {
                (201, json!({"status": {"userInfo": {"username": name}}}))
            }
            ("POST", path) => {
                let resource = path.rsplit('/').next().unwrap_or_default();
                let refusal = format!(
                    "{resource}.authentication.k8s.io is forbidden: User {name:?} cannot create resource {resource:?} in \
                     API group \"authentication.k8s.io\" at the cluster scope"
                );
                status(403, &refusal)
            }
            (_, "/version") => {
                if user == "eve" {
                    thread::sleep(Duration::from_millis(500));
                }
                (200, json!({"major": "1", "minor": "30"}))
            }
            (_, "/api/v1/services") if user == "big" => return answer(200, &huge_page(target)),
            (_, "/api/v1/pods") if user == "endless" => return Reply::Stall(Vec::new()),
            (_, "/api/v1/pods") => {
                let pod = json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {"containers": [{"name": "web", "image": "web"}]}});
                (200, list(json!([pod])))
            }
            (_, path) if path.starts_with("/api/v1/") => (200, list(json!([]))),
            _ => not_found("x"),
        };
        answer(code, &object.to_string())
    })
}

/// A page of 4 MB of a list with 300 MB.
fn huge_page(target: &str) -> String {
    const PAGES: usize = 75;
    let number = target.split_once("continue=").map_or(0, |(_, from)| from.parse().unwrap());
    let service = json!({"metadata": {"name": format!("service-{number}"), "namespace": "big"}, "spec": {"ports": []}});
    let mut page = list(json!([service]));
    if number + 1 < PAGES {
        page["metadata"]["continue"] = json!((number + 1).to_string());
    }
    // As text, which takes less time than values.
    let port = |port: usize| format!(r#"{{"name":"port-{port}","port":{port},"protocol":"TCP"}}"#);
    let ports: Vec<_> = (10_000..90_000).map(port).collect();
    page.to_string().replacen("[]", &format!("[{}]", ports.join(",")), 1)
}

/// An account makes as many tokens as it likes, and a proxy may pass on tokens that nobody made.
fn nobody_is_kept_waiting_by_many_tokens(reviews: bool) {
    let page = Page::start(api_server(reviews));
    let tokens = |user: &'static str, count: usize| (0..count).map(move |number| format!("{user}/{number}"));
    assert_eq!(page.ask("alice/0").0, 200);
    let own = page.ask_with_each(tokens("eve", 24));
    thread::sleep(Duration::from_millis(300));
    let asked = Instant::now();
    assert_eq!(page.ask("bob/0").0, 200);
    let waited = asked.elapsed();
    let statuses = own.join().unwrap();
    assert!(waited < Duration::from_secs(3), "{waited:?}");
    assert!(statuses.iter().filter(|status| **status == 429).count() >= 20, "{statuses:?}");

    let statuses = page.ask_with_each(tokens("nobody", 60)).join().unwrap();
    assert!(statuses.iter().all(|status| matches!(status, 401 | 503)) && statuses.contains(&401), "{statuses:?}");
    let (status, said) = page.ask("nobody/0");
    assert!(status == 401 && said.contains("log in again"), "{status} {said}");
    assert_eq!(page.reads("nobody"), 0);

    // Who was here a moment ago waits for no token of strangers.
    let strangers = page.ask_with_each(tokens("stuck", 100));
    thread::sleep(Duration::from_millis(300));
    let asked = Instant::now();
    assert_eq!(page.ask("alice/0").0, 200);
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    let statuses = strangers.join().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(9), "{:?}", asked.elapsed());
    assert!(statuses.iter().all(|status| matches!(status, 502 | 503)), "{statuses:?}");
    assert_eq!((page.reads("stuck"), page.ask("carol/0").0), (0, 200));
}

#[test]
fn many_tokens_of_one_account_and_invented_ones_keep_nobody_waiting() {
    nobody_is_kept_waiting_by_many_tokens(true);
}

#[test]
fn many_tokens_keep_nobody_waiting_where_the_api_server_has_no_self_subject_reviews() {
    nobody_is_kept_waiting_by_many_tokens(false);
}

/// Who fills a namespace, and asks for it again and again, ends the process that reads it and nothing else.
#[cfg(target_os = "linux")]
#[test]
fn a_snapshot_that_takes_too_much_memory_ends_alone() {
    const MEMORY: u64 = 400;
    let page = Page::start_with(api_server(true), &["--memory", &format!("{MEMORY}Mi")]);
    let most = page.measure();
    let asked = page.ask_with_each((0..2).map(|number| format!("big/{number}")));
    page.wait_for_children(2);
    assert_eq!(page.ask("alice/0").0, 200);
    assert_eq!(asked.join().unwrap(), [502, 502]);
    let (status, said) = page.ask("big/2");
    assert!(status == 502 && said.contains("of memory that the page has for one"), "{status} {said}");
    let most = most() >> 10;
    println!("peak memory: {most} MiB");
    assert!(most < MEMORY, "{most} MiB");
    assert_eq!((page.ask("alice/1").0, page.children().len()), (200, 0));
}

#[cfg(target_os = "linux")]
#[test]
fn a_client_that_hangs_up_ends_what_is_read_for_it() {
    let page = Page::start(api_server(true));
    let mut clients = Vec::new();
    for number in 0..2 {
        let mut connection = TcpStream::connect(&page.address).unwrap();
        write!(connection, "{}", request(&format!("endless/{number}"))).unwrap();
        clients.push(connection);
    }
    page.wait_for_children(2);
    let arguments = page.children().into_iter().map(|id| fs::read(format!("/proc/{id}/cmdline")).unwrap());
    let environments = page.children().into_iter().map(|id| fs::read(format!("/proc/{id}/environ")).unwrap());
    for bytes in arguments.chain(environments) {
        assert!(!String::from_utf8_lossy(&bytes).contains("endless"), "others see the token");
    }
    drop(clients);
    page.wait_for_children(0);
    assert_eq!(page.ask("alice/0").0, 200);
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_that_ends_otherwise_is_no_matter_of_memory() {
    let page = Page::start(api_server(true));
    let address = page.address.clone();
    let asked = thread::spawn(move || ask(&address, "endless/0"));
    page.wait_for_children(1);
    thread::sleep(Duration::from_millis(300));
    assert!(Command::new("kill").arg(page.children()[0].to_string()).status().unwrap().success());
    assert_eq!(asked.join().unwrap(), (502, "cannot read the cluster".to_owned()));
    assert_eq!(page.ask("bob/0").0, 200);
}
