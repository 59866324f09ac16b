//! What the programs that run for long write into their logs.

use tracing_subscriber::EnvFilter;

/// What `RUST_LOG` asks for, or everything from a level up.
pub fn filter(level: &str) -> EnvFilter {
    // The client's own line about a failed request says less than ours, and comes with each of them.
    EnvFilter::try_from_default_env().unwrap_or_else(|_| format!("{level},kube_client::client::builder=off").into())
}
