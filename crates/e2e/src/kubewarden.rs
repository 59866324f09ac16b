//! Kubewarden's own policy server: the program that `POLICY_SERVER` names, over HTTPS and with its watches as in
//! production. What it answers is compared with what our host answers.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use headroom_api_server::parts::locked;
use http::Request;
use kube::{Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Handle;

use crate::certificate;
use crate::control_plane::free_port;
use crate::process::Process;

/// A review takes milliseconds, the first of a namespace a tenth of a second. About one in 300 of these hangs in the
/// server for minutes.
const LONGEST_REVIEW: Duration = Duration::from_secs(8);
const LONGEST_START: Duration = Duration::from_secs(60);
/// Its watches lag behind what our host reads.
const LONGEST_LAG: Duration = Duration::from_secs(10);

pub struct Kubewarden {
    arguments: Vec<String>,
    authority: String,
    folder: TempDir,
    running: Mutex<Arc<Running>>,
    runtime: Handle,
    differences: Mutex<Vec<String>>,
}

struct Running {
    process: Process,
    client: Client,
}

impl Kubewarden {
    /// Starts `program` with the content of its `policies.yml`, reading as the user of `kubeconfig`.
    pub async fn start(program: &str, policies: &Value, kubeconfig: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let server = certificate::for_server(&["127.0.0.1"])?;
        let write = |name: &str, text: String| -> Result<String> {
            let path = folder.path().join(name);
            std::fs::write(&path, text)?;
            Ok(path.display().to_string())
        };
        let mut arguments = vec![format!("KUBECONFIG={}", kubeconfig.display()), program.to_owned()];
        for (flag, value) in [
            ("--addr", "127.0.0.1".to_owned()),
            ("--policies", write("policies.yml", policies.to_string())?),
            ("--policies-download-dir", folder.path().display().to_string()),
            ("--sigstore-cache-dir", folder.path().join("sigstore").display().to_string()),
            ("--cert-file", write("tls.crt", server.certificate)?),
            ("--key-file", write("tls.key", server.key)?),
        ] {
            arguments.extend([flag.to_owned(), value]);
        }
        let authority = server.authority;
        let running = Mutex::new(Arc::new(Running::start(&arguments, &authority, folder.path()).await?));
        Ok(Self { arguments, authority, folder, running, runtime: Handle::current(), differences: Mutex::default() })
    }

    /// The server's answer to a request at `path`, once it is that of our host.
    pub fn review(&self, path: &str, request: &Value, ours: impl Fn() -> Value) -> Result<Value> {
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        let deadline = Instant::now() + LONGEST_LAG;
        loop {
            let (theirs, ours) = (self.ask(path, &review)?, ours());
            if decision(&theirs)? == decision(&ours)? {
                return Ok(theirs);
            }
            if Instant::now() > deadline {
                let said = format!("{path}: Kubewarden answers {theirs}\nour host {ours}\nto {request}");
                locked(&self.differences).push(said.clone());
                bail!(said);
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The processor time that the server takes for a review.
    pub async fn cpu_of(&self, path: &str, review: &Value) -> Result<Duration> {
        let running = locked(&self.running).clone();
        let before = running.process.cpu()?;
        let answer = running.ask(path, review).await.context("the policy server hangs")??;
        if answer.get("allowed") != Some(&Value::Bool(true)) || answer.get("patch").is_none() {
            bail!("{path} answers {answer}");
        }
        // The server's work after its answer counts, too.
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(running.process.cpu()?.saturating_sub(before))
    }

    /// Answers of the server that stayed others than those of our host.
    pub fn differences(&self) -> Vec<String> {
        locked(&self.differences).clone()
    }

    /// Asks once more if the server hangs, and another one, because the hung one may answer nobody.
    fn ask(&self, path: &str, review: &Value) -> Result<Value> {
        let asked = locked(&self.running).clone();
        if let Some(answer) = self.runtime.block_on(asked.ask(path, review)) {
            return answer;
        }
        let replacement = {
            let mut running = locked(&self.running);
            if Arc::ptr_eq(&running, &asked) {
                // Not `eprintln`: the line is to be seen where tests pass, too.
                let namespace = review.pointer("/request/namespace").and_then(Value::as_str).unwrap_or_default();
                writeln!(std::io::stderr(), "the policy server hung at {path} in {namespace}, and is replaced")?;
                let start = Running::start(&self.arguments, &self.authority, self.folder.path());
                *running = Arc::new(self.runtime.block_on(start)?);
            }
            Arc::clone(&running)
        };
        let answer = self.runtime.block_on(replacement.ask(path, review));
        answer.with_context(|| format!("hung twice\n{}", replacement.process.last_words()))?
    }
}

impl Running {
    async fn start(arguments: &[String], authority: &str, folder: &Path) -> Result<Self> {
        let (port, probes) = (free_port()?, free_port()?);
        let ports = [format!("--port={port}"), format!("--readiness-probe-port={probes}")];
        let mut process = Process::start(Path::new("env"), &[arguments, &ports].concat(), folder)?;
        let deadline = Instant::now() + LONGEST_START;
        // It listens when its policies are compiled.
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if process.ended()?.is_some() || Instant::now() > deadline {
                bail!("the policy server does not start\n{}", process.last_words());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let mut config = Config::new(format!("https://127.0.0.1:{port}").parse()?);
        let base64: String = authority.lines().filter(|line| !line.starts_with('-')).collect();
        config.root_cert = Some(vec![STANDARD.decode(base64)?]);
        Ok(Self { process, client: Client::try_from(config)? })
    }

    /// The server's answer to a review; None if it hangs.
    async fn ask(&self, path: &str, review: &Value) -> Option<Result<Value>> {
        let ask = async {
            let request = Request::post(path).header("content-type", "application/json");
            let mut answer: Value = self.client.request(request.body(review.to_string().into_bytes())?).await?;
            answer.get_mut("response").map(Value::take).context("the answer has no response")
        };
        tokio::time::timeout(LONGEST_REVIEW, ask).await.ok()
    }
}

/// The part of a response that the API server acts upon or hands on, with the patch in plain text.
fn decision(response: &Value) -> Result<Value> {
    let patch = response.get("patch").and_then(Value::as_str).map(|patch| STANDARD.decode(patch)).transpose()?;
    let patch: Option<Value> = patch.map(|patch| serde_json::from_slice(&patch)).transpose()?;
    let field = |name: &str| response.get(name).unwrap_or(&Value::Null);
    Ok(json!([field("allowed"), field("status"), patch, field("warnings"), field("auditAnnotations")]))
}
