//! `kubectl headroom doctor`: probes a source and says what it found. The probing itself is the source's.

#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn run(_args: Args) -> anyhow::Result<()> {
    anyhow::bail!("no source can be probed yet")
}
