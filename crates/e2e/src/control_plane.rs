//! A Kubernetes control plane on loopback: etcd, the API server and, optionally, the controllers.
//!
//! `scripts/control-plane.sh` tells where the programs are, and builds them if necessary. There are no nodes: pods are admitted and stored, and stay
//! `Pending` unless a test writes their status. [`crate::cluster`] has the operations on a running API server.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kube::config::Kubeconfig;
use rcgen::KeyPair;
use serde_json::json;
use tempfile::TempDir;

use crate::certificate;
use crate::kubeconfig;
use crate::process::Process;

/// The longest start of a part of the control plane, on a machine that is busy with other builds.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Switches the API server's LimitRanger and ResourceQuota plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InTreePlugins {
    On,
    Off,
}

/// Switches the controllers that create pods of ReplicaSets, count quotas and finalize deleted namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controllers {
    On,
    /// As slow as they are by default: with [`Self::On`] each quota is recounted every second.
    Default,
    Off,
}

pub struct ControlPlane {
    // Fields are dropped in this order: dependents first.
    controller_manager: Option<Process>,
    api_servers: Vec<Process>,
    etcd: Process,
    programs: PathBuf,
    api_server_arguments: Vec<String>,
    kubeconfig: Kubeconfig,
    folder: TempDir,
}

impl ControlPlane {
    /// With further arguments for the API server.
    pub async fn start(plugins: InTreePlugins, controllers: Controllers, arguments: &[&str]) -> Result<Self> {
        let programs = programs()?;
        let folder = tempfile::Builder::new().prefix("headroom-control-plane-").tempdir()?;
        write_files(folder.path())?;
        let etcd_url = format!("http://127.0.0.1:{}", free_port()?);
        let port = free_port()?;

        let etcd = Process::start(&programs.join("etcd"), &etcd_arguments(folder.path(), &etcd_url)?, folder.path())?;
        let mut api_server_arguments = api_server_arguments(folder.path(), &etcd_url, port, plugins);
        api_server_arguments.extend(arguments.iter().map(|&argument| argument.to_owned()));
        let kubeconfig = kubeconfig_of(ADMIN, folder.path(), port)?;
        let (controller_manager, api_servers) = (None, Vec::new());
        let mut plane =
            Self { controller_manager, api_servers, etcd, programs, api_server_arguments, kubeconfig, folder };
        plane.start_api_server().await?;
        if controllers != Controllers::Off {
            let mut arguments = controller_manager_arguments(plane.folder.path(), port)?;
            if controllers == Controllers::On {
                arguments.extend(IN_A_HURRY.map(str::to_owned));
            }
            let program = plane.programs.join("kube-controller-manager");
            plane.controller_manager = Some(Process::start(&program, &arguments, plane.folder.path())?);
        }
        Ok(plane)
    }

    /// A kubeconfig for the cluster's administrator.
    pub fn kubeconfig(&self) -> &Kubeconfig {
        &self.kubeconfig
    }

    /// The folder with `kubectl` and the servers.
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    /// The processor time that the first API server and etcd have taken.
    pub fn cpu(&self) -> Result<[Duration; 2]> {
        let api_server = self.api_servers.first().map(Process::cpu).transpose()?;
        Ok([api_server.unwrap_or_default(), self.etcd.cpu()?])
    }

    /// Kills the first API server, like a crash. Stored objects are kept.
    pub fn stop_api_server(&mut self) {
        drop(self.api_servers.remove(0));
    }

    /// Starts the first API server, at the same address each time.
    pub async fn start_api_server(&mut self) -> Result<()> {
        let program = self.programs.join("kube-apiserver");
        self.api_servers.insert(0, Process::start(&program, &self.api_server_arguments, self.folder.path())?);
        self.wait_until_ready(&self.kubeconfig.clone()).await
    }

    /// Starts another API server on the same etcd, as in a highly available cluster. Returns its administrator's
    /// kubeconfig.
    pub async fn add_api_server(&mut self) -> Result<Kubeconfig> {
        let port = free_port()?;
        let mut arguments = self.api_server_arguments.clone();
        // If a flag is given twice, the last one is used.
        arguments.push(format!("--secure-port={port}"));
        let program = self.programs.join("kube-apiserver");
        self.api_servers.push(Process::start(&program, &arguments, self.folder.path())?);
        let mut kubeconfig = self.kubeconfig.clone();
        for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
            cluster.server = Some(format!("https://127.0.0.1:{port}"));
        }
        self.wait_until_ready(&kubeconfig).await?;
        Ok(kubeconfig)
    }

    async fn wait_until_ready(&mut self, kubeconfig: &Kubeconfig) -> Result<()> {
        let client = kubeconfig::client(kubeconfig).await?;
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            let Err(unready) = client.request_text(request).await else { return Ok(()) };
            for process in std::iter::once(&mut self.etcd).chain(&mut self.api_servers) {
                if let Some(status) = process.ended()? {
                    bail!("a server ended with {status}\n{}", process.last_words());
                }
            }
            if Instant::now() > deadline {
                let words = self.api_servers.first().map(Process::last_words).unwrap_or_default();
                bail!("the API server is not ready after {START_TIMEOUT:?}: {unready}\n{words}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for process in self.controller_manager.iter().chain(self.api_servers.first()).chain([&self.etcd]) {
                eprintln!("{}", process.last_words());
            }
        }
    }
}

/// A user and a token. The administrator impersonates all other users.
type Account = [&'static str; 2];

const ADMIN: Account = ["admin", "admin-on-loopback"];
const CONTROLLERS: Account = ["system:kube-controller-manager", "controllers-on-loopback"];

/// Writes the files that the servers' arguments name.
fn write_files(folder: &Path) -> Result<()> {
    let server = certificate::for_server(&["127.0.0.1", "localhost"])?;
    let service_account = KeyPair::generate()?;
    let tokens = [ADMIN, CONTROLLERS].map(|[user, token]| format!("{token},{user},{user},system:masters\n"));
    for (name, text) in [
        ("authority.crt", server.authority),
        ("server.crt", server.certificate),
        ("server.key", server.key),
        ("service-account.key", service_account.serialize_pem()),
        ("service-account.pub", service_account.public_key_pem()),
        ("tokens.csv", tokens.concat()),
    ] {
        fs::write(folder.join(name), text)?;
    }
    Ok(())
}

fn kubeconfig_of([user, token]: Account, folder: &Path, port: u16) -> Result<Kubeconfig> {
    let name = "headroom-test";
    Ok(serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {
            "server": format!("https://127.0.0.1:{port}"),
            "certificate-authority": folder.join("authority.crt"),
        }}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
    }))?)
}

fn etcd_arguments(folder: &Path, url: &str) -> Result<Vec<String>> {
    // This etcd has no other members, but it requires a peer address.
    let peers = format!("http://127.0.0.1:{}", free_port()?);
    Ok(vec![
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=default={peers}"),
        // Test data need not survive a crash of the machine.
        "--unsafe-no-fsync".to_owned(),
    ])
}

fn api_server_arguments(folder: &Path, etcd_url: &str, port: u16, plugins: InTreePlugins) -> Vec<String> {
    let folder = folder.display();
    // Without the ServiceAccount plugin, pods can be created in a namespace before its service account exists.
    let disabled = match plugins {
        InTreePlugins::On => "ServiceAccount",
        InTreePlugins::Off => "ServiceAccount,LimitRanger,ResourceQuota",
    };
    vec![
        format!("--etcd-servers={etcd_url}"),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        // The API server's own Service is not needed here, and its endpoint must not be on loopback.
        "--advertise-address=127.0.0.1".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        format!("--tls-cert-file={folder}/server.crt"),
        format!("--tls-private-key-file={folder}/server.key"),
        format!("--service-account-key-file={folder}/service-account.pub"),
        format!("--service-account-signing-key-file={folder}/service-account.key"),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--token-auth-file={folder}/tokens.csv"),
        "--authorization-mode=RBAC".to_owned(),
        "--allow-privileged=true".to_owned(),
        format!("--disable-admission-plugins={disabled}"),
    ]
}

const IN_A_HURRY: [&str; 3] = [
    // Without the plugin, new pods are only counted by the periodic recount, whose default interval is five minutes.
    "--resource-quota-sync-period=1s",
    // By default, the controllers send only 20 requests a second.
    "--kube-api-qps=1000",
    "--kube-api-burst=1000",
];

fn controller_manager_arguments(folder: &Path, port: u16) -> Result<Vec<String>> {
    let kubeconfig = folder.join("controller-manager.kubeconfig");
    kubeconfig::write_kubeconfig(&kubeconfig_of(CONTROLLERS, folder, port)?, &kubeconfig)?;
    let folder = folder.display();
    Ok(vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        "--controllers=*".to_owned(),
        "--use-service-account-credentials=false".to_owned(),
        "--leader-elect=false".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", free_port()?),
        format!("--cert-dir={folder}/controller-manager"),
        format!("--root-ca-file={folder}/authority.crt"),
        format!("--service-account-private-key-file={folder}/service-account.key"),
    ])
}

/// The folder of the servers' programs.
pub fn programs() -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/control-plane.sh");
    let output = Command::new(&script).stderr(std::process::Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot run {}", script.display()))?;
    if !output.status.success() {
        bail!("{} ended with {}", script.display(), output.status);
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

/// True if the folder of programs lacks one that a test needs: the test then says so and ends. Where nothing may be skipped,
/// that is a failure.
pub fn lacks(program: &str) -> Result<bool> {
    let programs = programs()?;
    let lacks = !programs.join(program).exists();
    if lacks {
        eprintln!("skipped: {} has no program {program}", programs.display());
        ensure!(std::env::var_os("HEADROOM_SKIP_NOTHING").is_none(), "nothing may be skipped");
    }
    Ok(lacks)
}

/// A free port.
///
/// Not one of the ephemeral ports for outgoing connections: a client that connects while the API server restarts could
/// take such a port, or even connect to itself.
pub fn free_port() -> Result<u16> {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    static ASKED: AtomicU32 = AtomicU32::new(0);
    for _ in 0..COUNT {
        // Processes with adjacent ids start far apart, so that they do not find the same free port.
        let turn = std::process::id().wrapping_mul(7919).wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(FIRST + turn % COUNT)?;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port between {FIRST} and {} is free", FIRST + COUNT)
}
