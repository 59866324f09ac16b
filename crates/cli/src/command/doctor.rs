//! `kubectl headroom doctor`: probes a source and says what it found. The probing itself is the source's.

use anyhow::{Context, bail};
use clap::ValueEnum;
use headroom_api_server::clock;
use headroom_api_server::kubeconfig::Chosen;
use headroom_metrics_stores::diagnosis::{Examination, SourceFinding, SourceVerdict};
use headroom_metrics_stores::files;
use headroom_output::{Page, Paint, Table};

use super::source::Asked;
use super::source_file::SourceFlag;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// URL or Service of a metrics store, or a file to import; the metrics API of the cluster unless given. A Service is
    /// NAMESPACE/SERVICE:PORT, InfluxDB 1 is known by `?db=NAME`, and a file is CSV with a header or JSON lines
    #[arg(value_name = "URL | SERVICE | FILE")]
    asked: Option<String>,
    #[command(flatten)]
    source: SourceFlag,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = DoctorFormat::Text)]
    output: DoctorFormat,
    #[command(flatten, next_help_heading = "Cluster options")]
    cluster: Chosen,
}

const EXAMPLES: &str = "Examples:
  # The metrics API of the cluster, if nothing is named
  kubectl headroom doctor

  # Whether usage can be collected from a Prometheus, and what is missing
  kubectl headroom doctor http://prometheus:9090

  # Whether a file can be imported, and what is in it
  kubectl headroom doctor usage.csv

  # A file for `--source` of other commands, with what was found
  kubectl headroom doctor http://prometheus:9090 -o source > source.yaml

  # InfluxDB with Heapster's data
  kubectl headroom doctor http://monitoring-influxdb.kube-system:8086?db=k8s

  # A store that is reached through the API server, for a script
  kubectl headroom doctor monitoring/prometheus:9090 -o json";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DoctorFormat {
    Text,
    Json,
    /// A file for --source: the address, and the names of metrics and labels
    Source,
}

/// The seconds that a line of a file stands for.
const LINE: u32 = 60;

/// Fails if collecting from the place cannot work, so that a script can ask.
pub fn run(args: Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
    let asked = Asked::of(args.asked.as_deref(), args.source)?;
    let examination = match &asked {
        Asked::File(path) => {
            let findings = files::diagnose(path, LINE, clock::now());
            Examination { source: format!("file {}", path.display()), findings }
        }
        Asked::Source(source) => runtime.block_on(source.diagnose(&args.cluster, clock::now()))?,
    };
    headroom_output::print(&match (args.output, &asked) {
        (DoctorFormat::Text, _) => page(&examination),
        (DoctorFormat::Json, _) => Page::json(&examination)?,
        (DoctorFormat::Source, Asked::File(_)) => bail!("files need no file for --source"),
        (DoctorFormat::Source, Asked::Source(source)) => {
            Page::ours(runtime.block_on(source.source_file(&args.cluster))?)
        }
    })?;
    if examination.findings.iter().any(|finding| finding.verdict == SourceVerdict::Bad) {
        bail!("usage cannot be collected from this source yet");
    }
    Ok(())
}

/// Aligned columns, with advice below its finding.
fn page(examination: &Examination) -> Page {
    let mut table = Table::default();
    for SourceFinding { verdict, subject, found, advice } in &examination.findings {
        let mark = match verdict {
            SourceVerdict::Good => Paint::ON.green("ok"),
            SourceVerdict::Doubtful => Paint::ON.yellow("warn"),
            SourceVerdict::Bad => Paint::ON.red("FAIL"),
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
