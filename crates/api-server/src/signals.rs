//! Stop signals of the operating system.

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

/// Cancels what runs at the first signal; a second one changes nothing.
pub fn cancel(stop: CancellationToken) -> anyhow::Result<()> {
    let signal = stop_signal()?;
    tokio::spawn(async move {
        signal.await;
        tracing::info!("received a stop signal");
        stop.cancel();
    });
    Ok(())
}

/// SIGTERM, as Kubernetes stops a pod, or SIGINT, as a terminal does. Both are listened for from now on.
#[cfg(unix)]
fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Ctrl+C, a closed console, or the end of a Windows container. All are listened for from now on.
#[cfg(windows)]
fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    use tokio::signal::windows::{ctrl_c, ctrl_close, ctrl_shutdown};
    let mut interrupt = ctrl_c().context("cannot listen for Ctrl+C")?;
    let mut close = ctrl_close().context("cannot listen for the console's end")?;
    let mut shutdown = ctrl_shutdown().context("cannot listen for the system's shutdown")?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = close.recv() => {}
            _ = shutdown.recv() => {}
        }
    })
}
