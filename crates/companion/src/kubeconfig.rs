//! The cluster we talk to: that of the kubeconfig, or the one we run in.

use kube::config::KubeConfigOptions;
use kube::{Client, Config};

/// The text of an error says what was looked for.
pub async fn client(context: Option<String>) -> Result<Client, String> {
    let options = KubeConfigOptions { context, ..Default::default() };
    let config = match &options.context {
        Some(_) => Config::from_kubeconfig(&options).await.map_err(|error| error.to_string()),
        None => Config::infer().await.map_err(|error| error.to_string()),
    };
    // Who asks decides what is tried again, and how often.
    let config = config.map(|mut config| {
        config.default_retry = false;
        config
    });
    config.and_then(|config| Client::try_from(config).map_err(|error| error.to_string()))
}
