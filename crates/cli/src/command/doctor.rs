//! `kubectl headroom doctor`: probes a source and says what it found. The probing itself is the source's.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Subcommand, ValueEnum};
use headroom_kube::clock;
use headroom_kube::kubeconfig::Chosen;
use headroom_report::{Page, Paint, Table};
use headroom_sources::diagnosis::{Examination, Finding, Verdict};
use headroom_sources::files;

use super::seconds;
use super::source::SourceCommand;

#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    mut_arg("context", |argument| argument.global(true)),
    mut_arg("kubeconfig", |argument| argument.global(true)),
    mut_arg("as_user", |argument| argument.global(true)),
    mut_arg("groups", |argument| argument.global(true))
)]
pub struct Args {
    #[command(subcommand)]
    of: Of,
    /// Output format
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten, next_help_heading = "Cluster options")]
    cluster: Chosen,
}

const EXAMPLES: &str = "Examples:
  # Whether usage can be collected from a Prometheus, and what is missing
  kubectl headroom doctor prometheus http://prometheus:9090

  # Whether a file can be imported, and what is in it
  kubectl headroom doctor files usage.csv

  # A file for `--source` of other commands, with what was found
  kubectl headroom doctor prometheus http://prometheus:9090 -o source > source.yaml

  # A store that is reached through the API server, for a script
  kubectl headroom doctor prometheus --service monitoring/prometheus:9090 -o json";

/// The subject of the examination.
#[derive(Debug, Subcommand)]
enum Of {
    #[command(flatten)]
    Source(SourceCommand),
    /// A file to import: CSV with a header, or JSON lines
    Files {
        /// File to read, whole; nothing is stored
        path: PathBuf,
        /// Time that each line stands for
        #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = seconds)]
        step: i64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    /// A file for --source: the address, and the names of metrics and labels
    Source,
}

/// Fails if collecting from the place cannot work, so that a script can ask.
pub fn run(args: Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
    let examination = match &args.of {
        Of::Source(source) => runtime.block_on(source.diagnose(&args.cluster, clock::now()))?,
        Of::Files { path, step } => {
            let findings = files::diagnose(path, u32::try_from(*step).unwrap_or(u32::MAX), clock::now());
            Examination { source: format!("file {}", path.display()), findings }
        }
    };
    headroom_report::print(&match args.output {
        Format::Text => page(&examination),
        Format::Json => Page::json(&examination)?,
        Format::Source => {
            let Of::Source(source) = &args.of else { bail!("files need no file for --source") };
            Page::ours(runtime.block_on(source.source_file(&args.cluster))?)
        }
    })?;
    if examination.verdict() == Verdict::Bad {
        bail!("usage cannot be collected from this source yet");
    }
    Ok(())
}

/// Aligned columns, with advice below its finding.
fn page(examination: &Examination) -> Page {
    let mut table = Table::default();
    for Finding { verdict, subject, found, advice } in &examination.findings {
        let mark = match verdict {
            Verdict::Good => Paint::ON.green("ok"),
            Verdict::Doubtful => Paint::ON.yellow("warn"),
            Verdict::Bad => Paint::ON.red("FAIL"),
        };
        table.row([mark, (*subject).to_owned(), found.clone()]);
        if let Some(advice) = advice {
            table.row([String::new(), String::new(), format!("-> {advice}")]);
        }
    }
    let mut page = Page::new();
    writeln!(page, "{}", examination.source);
    page.indented(table, 2);
    page
}
