//! Starts a control plane for manual work, and stops it at the end of standard input: `cargo run -p
//! headroom-e2e --example control_plane`. With the argument `off`, LimitRanger and ResourceQuota are off.

use std::io::Read;

use anyhow::Result;
use headroom_e2e::cluster::Cluster;
use headroom_e2e::control_plane::{Controllers, InTreePlugins};

#[tokio::main]
async fn main() -> Result<()> {
    let plugins = match std::env::args().nth(1).as_deref() {
        Some("off") => InTreePlugins::Off,
        _ => InTreePlugins::On,
    };
    let cluster = Cluster::start(plugins, Controllers::On).await?;
    println!("export KUBECONFIG={}", cluster.kubeconfig_file()?.display());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
