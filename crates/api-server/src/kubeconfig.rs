//! The cluster of the kubeconfig, or that of this pod.

use std::io::ErrorKind;
use std::path::PathBuf;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use headroom_objects::shell::ShellCommand;

use crate::proxy::{self, Proxies};

/// Flags that choose a cluster and a user.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Chosen {
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// The kubeconfig; else $KUBECONFIG, ~/.kube/config, or the pod that this runs in
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// User to impersonate; requires the `impersonate` permission
    #[arg(id = "as_user", long = "as", value_name = "USER")]
    pub user: Option<String>,
}

impl Chosen {
    pub fn of_context(context: Option<String>) -> Self {
        Self { context, ..Self::default() }
    }

    /// The context that is used: the chosen one, or the current one of the kubeconfig. None in a pod.
    pub fn context_name(&self) -> Option<String> {
        self.context.clone().or_else(|| self.read().ok()?.current_context).filter(|name| !name.is_empty())
    }

    /// `context prod (https://10.0.0.1:6443)`, for people who are about to change something there.
    pub fn described(&self) -> String {
        match (self.context_name(), self.server()) {
            (Some(name), Some(server)) => format!("context {name} ({server})"),
            (Some(name), None) => format!("context {name}"),
            (None, _) => "the cluster of this pod".to_owned(),
        }
    }

    /// The address of the API server without a user and a password, which a URL may have; none without a context.
    pub fn server(&self) -> Option<String> {
        let (kubeconfig, name) = (self.read().ok()?, self.context_name()?);
        let context = kubeconfig.contexts.into_iter().find(|of| of.name == name)?.context?;
        let cluster = kubeconfig.clusters.into_iter().find(|of| of.name == context.cluster)?;
        let server = cluster.cluster?.server?;
        let (scheme, rest) = server.split_once("://")?;
        Some(format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, host)| host)))
    }

    fn read(&self) -> Result<Kubeconfig, KubeconfigError> {
        self.kubeconfig.as_ref().map_or_else(of_environment, Kubeconfig::read_from)
    }

    /// As kubectl takes it, in a shell. The context is always named, because the current one may be another later.
    pub fn as_words(&self) -> ShellCommand {
        ShellCommand::default().words(self.arguments().into_iter().flat_map(|(name, value)| [name.to_owned(), value]))
    }

    pub fn arguments(&self) -> Vec<(&'static str, String)> {
        let file = self.kubeconfig.as_ref().map(|file| file.display().to_string());
        let named = [("--context", self.context_name()), ("--kubeconfig", file), ("--as", self.user.clone())];
        named.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// As kubectl merges the files of $KUBECONFIG, unlike kube: one that does not exist is skipped, and an empty name of a context is
/// none.
fn of_environment() -> Result<Kubeconfig, KubeconfigError> {
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let mut files = std::env::split_paths(&listed).filter(|file| file.exists()).peekable();
    if files.peek().is_none() {
        return Kubeconfig::read();
    }
    files.try_fold(Kubeconfig::default(), |merged, file| {
        let mut next = Kubeconfig::read_from(file)?;
        next.current_context.take_if(|name| name.is_empty());
        merged.merge(next)
    })
}

/// A client of the cluster. The text of an error says what was looked for.
pub async fn client(chosen: &Chosen) -> Result<Client, String> {
    proxy::client(config(chosen).await?)
}

/// The address of the API server, without a user and a password, which a URL may have.
pub fn server(config: &Config) -> String {
    let url = &config.cluster_url;
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", url.scheme_str().unwrap_or("https"), url.host().unwrap_or_default())
}

/// Finds the cluster's address and credentials, and the namespace to use there.
pub async fn config(chosen: &Chosen) -> Result<Config, String> {
    found(chosen).await.map_err(|problem| format!("no cluster: {problem}"))
}

async fn found(chosen: &Chosen) -> Result<Config, String> {
    let options = KubeConfigOptions { context: chosen.context.clone(), ..Default::default() };
    let from_file = match chosen.read() {
        Ok(kubeconfig) => Config::from_custom_kubeconfig(kubeconfig, &options).await,
        Err(error) => Err(error),
    };
    let mut config = match from_file {
        Ok(mut config) => {
            let proxies = Proxies::from_env();
            // For the environment's proxy, kube compares NO_PROXY with the proxy's own address, not the cluster's.
            if config.proxy_url.as_ref().is_none_or(|proxy| proxies.names(proxy)) {
                config.proxy_url = proxies.of(&config.cluster_url);
            }
            config
        }
        Err(error) if chosen.kubeconfig.is_some() || options.context.is_some() => return Err(worded(&error, chosen)),
        // A pod in a cluster needs no kubeconfig.
        Err(error) => Config::incluster()
            .map_err(|_| format!("{}, and this is not a pod; set KUBECONFIG", worded(&error, chosen)))?,
    };
    // Callers decide about retries.
    config.default_retry = false;
    if let Some(user) = &chosen.user {
        config.auth_info.impersonate = Some(user.clone());
        config.auth_info.impersonate_groups = None;
    }
    Ok(config)
}

/// The error with the user's text in backticks, as everywhere else, and with the contexts that there are.
fn worded(error: &KubeconfigError, chosen: &Chosen) -> String {
    let contexts = || {
        let names = chosen.read().into_iter().flat_map(|read| read.contexts).map(|context| context.name);
        names.collect::<Vec<String>>().join(", ")
    };
    match error {
        KubeconfigError::CurrentContextNotSet => match contexts() {
            none if none.is_empty() => "the kubeconfig has no contexts".to_owned(),
            some => format!("the kubeconfig sets no current context: choose one with --context (it has {some})"),
        },
        KubeconfigError::ReadConfig(cause, path) if cause.kind() == ErrorKind::NotFound => {
            format!("`{}` does not exist", path.display())
        }
        KubeconfigError::LoadContext(name) => match contexts() {
            none if none.is_empty() => format!("the kubeconfig has no context `{name}`"),
            some => format!("the kubeconfig has no context `{name}`; it has {some}"),
        },
        error => error.to_string().replace("'\"", "`").replace("\"'", "`"),
    }
}
