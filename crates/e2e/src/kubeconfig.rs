//! Kubeconfigs: a client from one, a file of one, and one of another user.

use std::path::Path;

use anyhow::Result;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

pub async fn client(kubeconfig: &Kubeconfig) -> Result<Client> {
    let config = Config::from_custom_kubeconfig(kubeconfig.clone(), &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

pub fn write_kubeconfig(kubeconfig: &Kubeconfig, path: &Path) -> Result<()> {
    // JSON is valid YAML.
    std::fs::write(path, serde_json::to_vec(kubeconfig)?)?;
    Ok(())
}

pub fn impersonating(kubeconfig: &Kubeconfig, user: &str, group: Option<&str>) -> Kubeconfig {
    let mut kubeconfig = kubeconfig.clone();
    for auth_info in kubeconfig.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        auth_info.impersonate = Some(user.to_owned());
        auth_info.impersonate_groups = group.map(|group| vec![group.to_owned()]);
    }
    kubeconfig
}
