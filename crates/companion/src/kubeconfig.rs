//! The cluster we talk to: that of the kubeconfig, or the one we run in.

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

/// A client of the cluster. The text of an error says what was looked for.
pub async fn client(context: Option<String>) -> Result<Client, String> {
    Client::try_from(config(context, None).await?).map_err(|error| error.to_string())
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
        Ok(config) => config,
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
