//! A replica of the controller behind a proxy, at which a test may stop the requests that resize a pod.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use headroom_e2e::cluster::Cluster;
use headroom_e2e::process::Process;
use headroom_fixtures::api_server::kubeconfig;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

const USER: &str = "system:serviceaccount:headroom:headroom-resizer";

/// The fate of a request that resizes a pod, if it is not just sent.
#[derive(Clone)]
pub enum Fate {
    /// The program is killed instead.
    Lost,
    /// The program is killed before the answer arrives.
    Unanswered,
    Held(Arc<Gate>),
}

/// Says what becomes of a request that resizes a pod of this namespace.
pub type Hook = Arc<dyn Fn(&str) -> Option<Fate> + Send + Sync>;

/// Holds requests back until a test opens it.
#[derive(Default)]
pub struct Gate {
    pub asked: Notify,
    pub opened: CancellationToken,
}

/// The program, which is killed when it is dropped.
type Program = Arc<Mutex<Option<Process>>>;

pub struct Replica {
    program: Program,
    status: u16,
    folder: TempDir,
}

impl Replica {
    /// Starts `headroom-controller resize` with the rights that the chart gives it.
    pub async fn start(cluster: &Cluster, hook: &Hook) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let file = folder.path().join("kubeconfig");
        std::fs::write(&file, kubeconfig(&[("proxy", &server, "default")])).unwrap();
        let status = headroom_fixtures::servers::free_port();
        let arguments = [
            format!("KUBECONFIG={}", file.display()),
            env!("CARGO_BIN_EXE_headroom-controller-under-test").to_owned(),
            "resize".to_owned(),
            format!("--listen-status=127.0.0.1:{status}"),
        ];
        let program = Program::default();
        let client = cluster.client_as(USER).await.unwrap();
        tokio::spawn(serve(listener, client, Arc::clone(hook), Arc::clone(&program)));
        *program.lock().unwrap() = Some(Process::start(&PathBuf::from("env"), &arguments, folder.path()).unwrap());
        Self { program, status, folder }
    }

    /// A page of its status, if it answers with one.
    pub fn page(&self, path: &str) -> Option<String> {
        let answer = headroom_fixtures::servers::request(self.status, "GET", path, b"").ok();
        answer.filter(|(status, _)| *status == 200).map(|(_, page)| page)
    }

    /// True if it leads and its last pass has ended since then, in seconds since 1970.
    pub fn has_passed_since(&self, time: i64) -> bool {
        let metrics = self.page("/metrics").unwrap_or_default();
        let value = |name: &str| metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<i64>().ok());
        value("headroom_resize_leads ") == Some(1) && value("headroom_resize_last_pass_timestamp_seconds ") > Some(time)
    }

    pub fn is_killed(&self) -> bool {
        self.program.lock().unwrap().is_none()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("env.log")).unwrap_or_default()
    }
}

async fn serve(listener: TcpListener, client: Client, hook: Hook, program: Program) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (client, hook, program) = (client.clone(), Arc::clone(&hook), Arc::clone(&program));
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, &client, &hook, &program));
            // Without an answer the connection ends, as one to an API server does that is not there.
            drop(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    client: &Client,
    hook: &Hook,
    program: &Program,
) -> anyhow::Result<Response<Full<Bytes>>> {
    let fate = resized(&request).and_then(|namespace| hook(&namespace));
    match &fate {
        Some(Fate::Lost) => {
            kill(program).await;
            anyhow::bail!("the program is gone");
        }
        Some(Fate::Held(gate)) => {
            gate.asked.notify_one();
            gate.opened.cancelled().await;
        }
        Some(Fate::Unanswered) | None => {}
    }
    let (mut parts, body) = request.into_parts();
    for header in [AUTHORIZATION, HOST, CONTENT_LENGTH, TRANSFER_ENCODING] {
        parts.headers.remove(header);
    }
    let body = Body::from(body.collect().await?.to_bytes().to_vec());
    let (mut parts, body) = client.send(Request::from_parts(parts, body)).await?.into_parts();
    if matches!(fate, Some(Fate::Unanswered)) {
        kill(program).await;
    }
    for header in [CONTENT_LENGTH, TRANSFER_ENCODING] {
        parts.headers.remove(header);
    }
    Ok(Response::from_parts(parts, Full::new(body.collect().await?.to_bytes())))
}

/// The namespace of the pod that a request resizes, unless it only tries to.
fn resized(request: &Request<Incoming>) -> Option<String> {
    let is_for_real =
        request.method() == Method::PATCH && !request.uri().query().unwrap_or_default().contains("dryRun");
    let path = request.uri().path().strip_prefix("/api/v1/namespaces/")?.strip_suffix("/resize")?;
    is_for_real.then(|| path.split('/').next().unwrap_or_default().to_owned())
}

async fn kill(program: &Program) {
    let program = program.lock().unwrap().take();
    tokio::task::spawn_blocking(move || drop(program)).await.unwrap();
}
