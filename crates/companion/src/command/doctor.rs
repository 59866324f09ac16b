//! `kubectl headroom doctor`: probes a source and says what it found. The probing itself is the source's.

use std::io::Write as _;

use anyhow::{Context, bail};
use clap::ValueEnum;

use super::source::Place;
use crate::clock;
use crate::source::examination::Verdict;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    place: Place,
    /// How to tell it
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Text)]
    output: Format,
    /// Context of the kubeconfig, for what is reached through the API server
    #[arg(long, global = true)]
    context: Option<String>,
}

const EXAMPLES: &str = "Examples:
  # Whether usage can be collected from a Prometheus, and what is missing
  kubectl headroom doctor prometheus http://prometheus:9090

  # A store that is reached through the API server, for a script
  kubectl headroom doctor prometheus --service monitoring/prometheus:9090 -o json";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Fails if collecting from the place cannot work, so that a script can ask.
pub fn run(args: Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
    let examination = runtime.block_on(args.place.examine(args.context, clock::now()))?;
    let text = match args.output {
        Format::Text => examination.text(),
        Format::Json => serde_json::to_string_pretty(&examination)? + "\n",
    };
    std::io::stdout().write_all(text.as_bytes()).context("cannot write")?;
    if examination.verdict() == Verdict::Bad {
        bail!("nothing can be collected from here yet");
    }
    Ok(())
}
