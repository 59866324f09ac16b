//! `kubectl headroom doctor`: probes the source that the flags name and says what it found. The probing itself is the source's.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::ValueEnum;
use headroom_kube::clock;
use headroom_kube::kubeconfig::Chosen;
use headroom_report::{Page, Paint, Table};
use headroom_sources::diagnosis::{Examination, SourceFinding, SourceVerdict};
use headroom_sources::files;
use headroom_sources::http::Url;

use super::seconds;
use super::source::{Database, InfluxDbArgs, PrometheusArgs, SourceCommand};
use super::source_file::SourceFlag;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// URL of Prometheus, or of a store with the same API
    #[arg(long, value_name = "URL", conflicts_with_all = ["service", "influxdb", "file"])]
    prometheus: Option<Url>,
    /// The store's Service as NAMESPACE/SERVICE:PORT (https:SERVICE:PORT for TLS), reached through the API server
    #[arg(long, value_name = "SERVICE", conflicts_with_all = ["influxdb", "file"])]
    service: Option<String>,
    /// URL of InfluxDB 1; the `url` of --source unless given
    #[arg(long, value_name = "URL", num_args = 0..=1, conflicts_with = "file")]
    influxdb: Option<Option<Url>>,
    /// File to import, CSV with a header or JSON lines; it is read whole, and nothing is stored
    #[arg(long, value_name = "FILE", conflicts_with = "source")]
    file: Option<PathBuf>,
    /// Query step, or the time that each line of a file stands for
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = seconds)]
    step: i64,
    #[command(flatten)]
    database: Database,
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
  kubectl headroom doctor --prometheus http://prometheus:9090

  # Whether a file can be imported, and what is in it
  kubectl headroom doctor --file usage.csv

  # A file for `--source` of other commands, with what was found
  kubectl headroom doctor --prometheus http://prometheus:9090 -o source > source.yaml

  # A store that is reached through the API server, for a script
  kubectl headroom doctor --service monitoring/prometheus:9090 -o json";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DoctorFormat {
    Text,
    Json,
    /// A file for --source: the address, and the names of metrics and labels
    Source,
}

/// Fails if collecting from the place cannot work, so that a script can ask.
pub fn run(args: Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
    let source = args.source();
    let examination = match (&args.file, &source) {
        (Some(path), _) => {
            let findings = files::diagnose(path, u32::try_from(args.step).unwrap_or(u32::MAX), clock::now());
            Examination { source: format!("file {}", path.display()), findings }
        }
        (None, source) => runtime.block_on(source.diagnose(&args.cluster, clock::now()))?,
    };
    headroom_report::print(&match args.output {
        DoctorFormat::Text => page(&examination),
        DoctorFormat::Json => Page::json(&examination)?,
        DoctorFormat::Source if args.file.is_some() => bail!("files need no file for --source"),
        DoctorFormat::Source => Page::ours(runtime.block_on(source.source_file(&args.cluster))?),
    })?;
    if examination.verdict() == SourceVerdict::Bad {
        bail!("usage cannot be collected from this source yet");
    }
    Ok(())
}

impl Args {
    /// The source that the flags name; the metrics API if they name none.
    fn source(&self) -> SourceCommand {
        let Self { prometheus, service, influxdb, step, database, source, .. } = self;
        let (step, source) = (*step, source.clone());
        match influxdb {
            Some(url) => SourceCommand::Influxdb(Box::new(InfluxDbArgs {
                url: url.clone(),
                step,
                database: database.clone(),
                source,
            })),
            None if prometheus.is_some() || service.is_some() || source.is_given() => {
                let (url, service) = (prometheus.clone(), service.clone());
                SourceCommand::Prometheus(Box::new(PrometheusArgs { url, service, step, source }))
            }
            None => SourceCommand::MetricsApi,
        }
    }
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
