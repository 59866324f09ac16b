//! The cluster that a test uses: the one in `KUBECONFIG`, or a new control plane.
//!
//! Tests act as the administrator, or as another user by impersonation, which the API server authorizes like the user.
//! The API server generates names of namespaces, so that tests can share a cluster.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use headroom_api_server::parts::locked;
use headroom_wasm_host::built::workspace_file;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::control_plane::{ControlPlane, Controllers, InTreePlugins};
use crate::kubeconfig::{client, impersonating, write_kubeconfig};

pub struct Cluster {
    kubeconfig: Kubeconfig,
    /// The folder for kubeconfig files of programs.
    folder: TempDir,
    /// None for the cluster of `KUBECONFIG`.
    pub control_plane: Option<ControlPlane>,
    /// The namespaces that were created by this test.
    namespaces: Mutex<Vec<String>>,
}

/// The label of cluster-scoped objects that were made for the tests in a namespace; its value is the namespace.
/// Namespaces that belong together have the label too.
pub const LABEL: &str = "headroom-test";

impl Cluster {
    /// The cluster of `KUBECONFIG`, which must have the plugins and controllers, or else a new control plane.
    pub async fn of_environment(controllers: Controllers) -> Result<Self> {
        if std::env::var_os("KUBECONFIG").is_none() {
            return Self::start(InTreePlugins::On, controllers).await;
        }
        let kubeconfig = Kubeconfig::from_env()?.context("KUBECONFIG is empty")?;
        Ok(Self { kubeconfig, folder: tempfile::tempdir()?, control_plane: None, namespaces: Mutex::default() })
    }

    /// A new control plane, for tests that need plugins switched off or a restart.
    pub async fn start(plugins: InTreePlugins, controllers: Controllers) -> Result<Self> {
        Self::start_with(plugins, controllers, &[]).await
    }

    /// Like [`Self::start`], with more arguments for the API server.
    pub async fn start_with(plugins: InTreePlugins, controllers: Controllers, arguments: &[&str]) -> Result<Self> {
        let control_plane = ControlPlane::start(plugins, controllers, arguments).await?;
        let kubeconfig = control_plane.kubeconfig().clone();
        let folder = tempfile::tempdir()?;
        Ok(Self { kubeconfig, folder, control_plane: Some(control_plane), namespaces: Mutex::default() })
    }

    pub async fn client(&self) -> Result<Client> {
        client(&self.kubeconfig).await
    }

    /// A client that acts as `user`, with the permissions of the cluster's roles.
    pub async fn client_as(&self, user: &str) -> Result<Client> {
        client(&impersonating(&self.kubeconfig, user, None)).await
    }

    /// The API server's minor version: 36 of 1.36.2.
    pub async fn minor_version(&self) -> Result<u16> {
        let version = self.client().await?.apiserver_version().await?;
        version.minor.trim_end_matches('+').parse().with_context(|| format!("minor version {}", version.minor))
    }

    /// `kubectl` as the administrator: the control plane's own, or for the cluster of `KUBECONFIG` the one in `PATH`.
    pub fn kubectl(&self) -> Result<Command> {
        let mut command = match &self.control_plane {
            Some(control_plane) => Command::new(control_plane.programs().join("kubectl")),
            None => Command::new("kubectl"),
        };
        command.env("KUBECONFIG", self.kubeconfig_file()?).arg("--cache-dir").arg(self.folder.path().join("cache"));
        Ok(command)
    }

    /// Runs `kubectl` as the administrator, and returns what it prints.
    pub fn run_kubectl(&self, arguments: &[&str]) -> Result<String> {
        let output = self.kubectl()?.args(arguments).output()?;
        if !output.status.success() {
            bail!("kubectl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Applies a file of the workspace with definitions, and waits until the API server serves their kinds.
    pub fn install(&self, file: &str) -> Result<()> {
        self.run_kubectl(&["apply", "-f", &workspace_file(file).to_string_lossy()])?;
        self.wait_for_definitions()
    }

    /// Waits until the API server serves the kinds of all definitions. `kubectl wait` fails for one that has no conditions yet.
    pub fn wait_for_definitions(&self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            match self.run_kubectl(&["wait", "--for=condition=established", "--timeout=60s", "crd", "--all"]) {
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(200)),
                Ok(_) => return Ok(()),
            }
        }
    }

    /// True if the API server has this kind, or this subresource such as `pods/resize`, in this version.
    pub fn serves(&self, api_version: &str, name: &str) -> bool {
        let prefix = if api_version == "v1" { "/api" } else { "/apis" };
        let found = self.run_kubectl(&["get", "--raw", &format!("{prefix}/{api_version}")]);
        let found: Value = found.ok().and_then(|found| serde_json::from_str(&found).ok()).unwrap_or_default();
        let mut resources = found.get("resources").and_then(Value::as_array).into_iter().flatten();
        resources.any(|resource| ["kind", "name"].iter().any(|field| resource.get(field).is_some_and(|of| of == name)))
    }

    /// A kubeconfig file for the administrator.
    pub fn kubeconfig_file(&self) -> Result<PathBuf> {
        let path = self.folder.path().join("admin.kubeconfig");
        write_kubeconfig(&self.kubeconfig, &path)?;
        Ok(path)
    }

    /// A kubeconfig file that acts as `user` of `group`.
    pub fn kubeconfig_file_as(&self, user: &str, group: &str) -> Result<PathBuf> {
        // KUBECONFIG is a list of paths with colons between them.
        let path = self.folder.path().join(format!("{}.kubeconfig", user.replace(':', "-")));
        write_kubeconfig(&impersonating(&self.kubeconfig, user, Some(group)), &path)?;
        Ok(path)
    }

    /// Creates a namespace with a unique name that starts with `prefix`.
    pub async fn new_namespace(&self, prefix: &str) -> Result<String> {
        let metadata = json!({"generateName": format!("{prefix}-")});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        let created = create(&self.client().await?, namespace).await?;
        let name = created.metadata.name.context("the API server returned a namespace without a name")?;
        locked(&self.namespaces).push(name.clone());
        Ok(name)
    }

    /// Deletes the namespaces, and the objects that were made for them.
    fn tidy(&self) -> Result<()> {
        let kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations,customresourcedefinitions";
        for namespace in locked(&self.namespaces).iter() {
            let label = format!("--selector={LABEL}={namespace}");
            for [kinds, which] in [[kinds, &label], ["namespace", namespace]] {
                self.run_kubectl(&["delete", "--wait=false", kinds, which])?;
            }
        }
        Ok(())
    }
}

impl Drop for Cluster {
    /// Cleans up, because the cluster of `KUBECONFIG` continues to run.
    fn drop(&mut self) {
        if self.control_plane.is_none()
            && let Err(error) = self.tidy()
        {
            eprintln!("cannot clean up the cluster: {error:#}");
        }
    }
}

/// Creates `object`, in its namespace if it has one, and returns it as stored.
pub async fn create(client: &Client, object: Value) -> kube::Result<DynamicObject> {
    create_with(client, object, &PostParams::default()).await
}

/// Returns the object that [`create`] would store.
pub async fn try_create(client: &Client, object: Value) -> kube::Result<DynamicObject> {
    create_with(client, object, &PostParams { dry_run: true, ..PostParams::default() }).await
}

async fn create_with(client: &Client, object: Value, parameters: &PostParams) -> kube::Result<DynamicObject> {
    let object: DynamicObject = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
    let types = object.types.clone().unwrap_or_default();
    let objects = match &object.metadata.namespace {
        Some(namespace) => api_in(client, namespace, &types.api_version, &types.kind),
        None => api(client, &types.api_version, &types.kind),
    };
    objects.create(parameters, &object).await
}

/// The objects of a kind in all namespaces, or of one that lives in none.
pub fn api(client: &Client, api_version: &str, kind: &str) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &resource(api_version, kind))
}

pub fn api_in(client: &Client, namespace: &str, api_version: &str, kind: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &resource(api_version, kind))
}

/// The API resource of a kind, with the plural that kube guesses.
pub fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, kind))
}
