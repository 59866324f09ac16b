//! Waiting for what controllers, caches and programs do in their own time.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Tries again after each pause until an attempt succeeds; fails with the reason of the last one.
pub async fn within<T>(
    [patience, pause]: [Duration; 2],
    claim: &str,
    mut attempt: impl AsyncFnMut() -> Result<T, String>,
) -> Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        match attempt().await {
            Ok(found) => return Ok(found),
            Err(reason) if Instant::now() > deadline => bail!("not within {patience:?}: {claim}: {reason}"),
            Err(_) => tokio::time::sleep(pause).await,
        }
    }
}
