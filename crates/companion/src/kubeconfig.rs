//! The cluster we talk to: that of the kubeconfig, or the one we run in.

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::source::proxy::{self, Proxies};

/// A client of the cluster. The text of an error says what was looked for.
pub async fn client(context: Option<String>) -> Result<Client, String> {
    proxy::client(config(context, None).await?).map_err(|error| error.to_string())
}

/// How to reach the cluster, and which namespace to use there.
pub async fn config(context: Option<String>, kubeconfig: Option<&Path>) -> Result<Config, String> {
    let options = KubeConfigOptions { context, ..Default::default() };
    let from_file = match kubeconfig {
        Some(path) => match Kubeconfig::read_from(path) {
            Ok(kubeconfig) => Config::from_custom_kubeconfig(kubeconfig, &options).await,
            Err(error) => Err(error),
        },
        None => Config::from_kubeconfig(&options).await,
    };
    let mut config = match from_file {
        Ok(mut config) => {
            let proxies = Proxies::from_env();
            // Of the environment's proxy, kube holds NO_PROXY against the proxy's own address, not the cluster's.
            if config.proxy_url.as_ref().is_none_or(|proxy| proxies.names(proxy)) {
                config.proxy_url = proxies.of(&config.cluster_url);
            }
            config
        }
        Err(error) if kubeconfig.is_some() || options.context.is_some() => return Err(told(&error)),
        // A pod in a cluster needs no kubeconfig.
        Err(error) => Config::incluster().map_err(|_| format!("{}, and this is no pod in a cluster", told(&error)))?,
    };
    // Who asks decides what is tried again, and how often.
    config.default_retry = false;
    Ok(config)
}

/// The error with the user's text in backticks, as everywhere else.
fn told(error: &KubeconfigError) -> String {
    error.to_string().replace("'\"", "`").replace("\"'", "`")
}
