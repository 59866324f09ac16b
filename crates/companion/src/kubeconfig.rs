//! The cluster we talk to: that of the kubeconfig, or the one we run in.

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// A client of the cluster. The text of an error says what was looked for.
pub async fn client(context: Option<String>) -> Result<Client, String> {
    Client::try_from(config(context, None).await?).map_err(|error| error.to_string())
}

/// How to reach the cluster, and which namespace to use there.
pub async fn config(context: Option<String>, kubeconfig: Option<&Path>) -> Result<Config, String> {
    let options = KubeConfigOptions { context, ..Default::default() };
    let mut config = match (kubeconfig, &options.context) {
        (Some(path), _) => {
            let kubeconfig = Kubeconfig::read_from(path).map_err(|error| error.to_string())?;
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| error.to_string())?
        }
        (None, Some(_)) => Config::from_kubeconfig(&options).await.map_err(|error| error.to_string())?,
        (None, None) => Config::infer().await.map_err(|error| error.to_string())?,
    };
    // Who asks decides what is tried again, and how often.
    config.default_retry = false;
    Ok(config)
}
