//! The sources of usage as they are named on the command line of `collect` and `doctor`.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, Subcommand};
use headroom_api_server::kubeconfig::{self, Chosen};
use headroom_metrics_stores::diagnosis::{Examination, SourceFinding};
use headroom_metrics_stores::http::{Authentication, Endpoint, Http, Url};
use headroom_metrics_stores::port_forward::{self, ForwardTarget};
use headroom_metrics_stores::prometheus::Matchers;
use headroom_metrics_stores::{Source, SourceError, influxdb, metrics_api, prometheus};

use super::source_file::{SourceFile, SourceFlag};

/// A source of usage.
#[derive(Debug, Subcommand)]
pub enum SourceCommand {
    /// Prometheus, or a store with the same API: Thanos, VictoriaMetrics, Mimir, and those of Google, Amazon and Azure
    Prometheus(Box<PrometheusArgs>),
    /// InfluxDB 1 with the data of Heapster
    Influxdb(Box<InfluxDbArgs>),
    /// The metrics API (metrics-server), sampled each minute; for clusters without a metrics store
    MetricsApi,
}

#[derive(Debug, Args)]
pub struct PrometheusArgs {
    /// URL such as http://prometheus.monitoring:9090, with the path in front of the API if there is one; or its Service as
    /// NAMESPACE/SERVICE:PORT (https:SERVICE:PORT for TLS), which is reached through the API server
    #[arg(value_name = "URL | SERVICE", required_unless_present = "source")]
    pub(super) address: Option<Address>,
    #[command(flatten)]
    pub(super) source: SourceFlag,
}

#[derive(Debug, Args)]
pub struct InfluxDbArgs {
    /// Such as http://monitoring-influxdb.kube-system:8086, with `?db=NAME` after it unless the database is `k8s`, Heapster's
    #[arg(required_unless_present = "source")]
    pub(super) url: Option<Url>,
    #[command(flatten)]
    pub(super) source: SourceFlag,
}

/// Names the database, as in InfluxDB's own API.
const DATABASE: &str = "?db=";
/// The query step unless the file has another, in seconds.
const STEP: i64 = 60;

/// The place of a store with Prometheus' API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Url(Url),
    Service(ForwardTarget),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_url(text) {
            return Ok(Self::Url(Url::from(text)));
        }
        let service = ForwardTarget::parse(text).map(Self::Service);
        // It may have a password in it, which the store's reader refuses without repeating it.
        service.or_else(|| text.contains('@').then(|| Self::Url(Url::from(text)))).ok_or_else(|| {
            "expected a URL that begins with http:// or https://, or a service as NAMESPACE/SERVICE:PORT, with a /PATH after it \
             if the API is below one"
                .to_owned()
        })
    }
}

fn is_url(text: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme))
}

impl Address {
    /// The one that is given, or else that of the file; none if neither names a store.
    pub(super) fn of(given: Option<&Self>, file: &SourceFile) -> anyhow::Result<Option<Self>> {
        if given.is_some() {
            return Ok(given.cloned());
        }
        let of_file = file.url.as_ref().or(file.service.as_ref());
        of_file
            .map(|text| text.parse().map_err(|expected| anyhow!("`{text}` in the file of --source: {expected}")))
            .transpose()
    }

    /// Reaches the store, of which the endpoint is.
    pub(super) async fn http(&self, cluster: &Chosen, endpoint: &Endpoint) -> anyhow::Result<Http> {
        Ok(match self {
            Self::Url(_) => Http::new(endpoint)?,
            Self::Service(target) => behind_service(client(cluster).await?, target.clone(), endpoint).await?,
        })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Url(url) => write!(f, "{url}"),
            Self::Service(service) => write!(f, "service {service}"),
        }
    }
}

/// Any source of usage, as `doctor` is asked about it.
#[derive(Debug)]
pub(super) enum Asked {
    Source(SourceCommand),
    /// A file to import.
    File(PathBuf),
}

impl Asked {
    /// Finds out what is meant: a file that is there, InfluxDB by the database in its URL, or else a store with Prometheus' API.
    /// Nothing and no file of `--source` stand for the metrics API.
    pub fn of(typed: Option<&str>, source: SourceFlag) -> anyhow::Result<Self> {
        let file = PathBuf::from(typed.unwrap_or_default());
        if file.is_file() {
            return Ok(Self::File(file));
        }
        let named = match typed {
            None if !source.is_given() => return Ok(Self::Source(SourceCommand::MetricsApi)),
            None => source.file()?.url.as_deref(),
            typed => typed,
        };
        let is_influxdb = named.is_some_and(|named| is_url(named) && named.contains(DATABASE));
        Ok(Self::Source(match typed {
            typed if is_influxdb => {
                let url = typed.map(Url::from);
                SourceCommand::Influxdb(Box::new(InfluxDbArgs { url, source }))
            }
            typed => {
                let address = typed.map(|typed| {
                    typed.parse().map_err(|expected| anyhow!("`{typed}` is no file and no store: {expected}"))
                });
                SourceCommand::Prometheus(Box::new(PrometheusArgs { address: address.transpose()?, source }))
            }
        }))
    }
}

impl SourceCommand {
    /// Kind and address, without secrets. A store of the collector belongs to one of them.
    pub fn name(&self) -> anyhow::Result<String> {
        Ok(match self {
            Self::Prometheus(args) => {
                let file = args.source.file()?;
                let matchers = file.matchers.iter().map(|matchers| format!(" with {matchers}"));
                let tenant = file.tenant.iter().map(|tenant| format!(" of tenant {tenant}"));
                format!("prometheus at {}{}", args.address()?, matchers.chain(tenant).collect::<String>())
            }
            Self::Influxdb(args) => {
                let matchers = args.source.file()?.matchers.iter().map(|matchers| format!(" where {matchers}"));
                format!("influxdb at {}{}", args.url()?, matchers.collect::<String>())
            }
            Self::MetricsApi => "metrics-api".to_owned(),
        })
    }

    /// Opens the source without sending a request, so it may be down when the program starts. `cluster` is used if the source
    /// is reached through an API server.
    pub async fn open(&self, cluster: &Chosen) -> anyhow::Result<Box<dyn Source>> {
        Ok(match self {
            Self::Prometheus(args) => {
                let (http, options) = args.reached(cluster).await?;
                Box::new(prometheus::Prometheus::new(http, options))
            }
            Self::Influxdb(args) => Box::new(influxdb::InfluxDb::new(&args.options()?)?),
            Self::MetricsApi => Box::new(metrics_api::MetricsApi::new(client(cluster).await?)),
        })
    }

    pub async fn diagnose(&self, cluster: &Chosen, our_clock: i64) -> anyhow::Result<Examination> {
        let (kind, place, findings) = match self {
            Self::Prometheus(args) => {
                let (http, options) = args.reached(cluster).await?;
                let place = http.name().to_owned();
                ("prometheus", place, prometheus::diagnose(http, &options, our_clock).await)
            }
            Self::Influxdb(args) => {
                ("influxdb", args.url()?.to_string(), influxdb::diagnose(&args.options()?, our_clock).await)
            }
            Self::MetricsApi => {
                let findings = metrics_api::diagnose(client(cluster).await?, our_clock).await;
                ("metrics API", "the API server".to_owned(), findings)
            }
        };
        let findings = findings.unwrap_or_else(|error| {
            vec![SourceFinding::bad(
                "connection",
                error.to_string(),
                "fix the connection first; the remaining checks were skipped",
            )]
        });
        Ok(Examination { source: format!("{kind} at {place}"), findings })
    }

    /// The file for `--source`: the flags and the given file, and what the store calls its metrics and labels.
    pub async fn source_file(&self, cluster: &Chosen) -> anyhow::Result<String> {
        match self {
            Self::Prometheus(args) => {
                let (http, options) = args.reached(cluster).await?;
                let names = prometheus::detect(http, &options).await?;
                let mut file = at_address(args.source.file()?.clone(), args.address.as_ref());
                (file.metrics, file.labels, file.info_labels) = (names.metrics, names.labels, names.info_labels);
                file.to_yaml()
            }
            Self::Influxdb(args) => {
                let address = args.url.clone().map(Address::Url);
                at_address(args.source.file()?.clone(), address.as_ref()).to_yaml()
            }
            Self::MetricsApi => Err(anyhow!("the metrics API needs no file for --source")),
        }
    }
}

impl PrometheusArgs {
    fn address(&self) -> anyhow::Result<Address> {
        let address = Address::of(self.address.as_ref(), self.source.file()?)?;
        address.context(
            "the file of --source names no `url` and no `service`: name the store in it or on the command line",
        )
    }

    async fn reached(&self, cluster: &Chosen) -> anyhow::Result<(Http, prometheus::PrometheusOptions)> {
        let (file, address) = (self.source.file()?, self.address()?);
        let options = options(file, &address, file.step()?.unwrap_or(STEP))?;
        Ok((address.http(cluster, &options.endpoint).await?, options))
    }
}

/// The file with the address that was named on the command line.
fn at_address(mut file: SourceFile, address: Option<&Address>) -> SourceFile {
    (file.url, file.service) = match address {
        Some(Address::Url(url)) => (Some(url.to_string()), None),
        Some(Address::Service(service)) => (None, Some(service.to_string())),
        None => return file,
    };
    file
}

/// The way to read the store at this address.
pub(super) fn options(
    file: &SourceFile,
    address: &Address,
    step: i64,
) -> anyhow::Result<prometheus::PrometheusOptions> {
    let matchers = Matchers::from(file.matchers.clone().unwrap_or_default());
    if let Some(problem) = matchers.problem() {
        bail!("{problem}");
    }
    let url = match address {
        Address::Url(url) => url.clone(),
        Address::Service(_) => Url::from(""),
    };
    Ok(prometheus::PrometheusOptions {
        names: file.names(),
        ephemeral_storage: file.ephemeral_storage,
        matchers,
        step_seconds: u32::try_from(step)?,
        accept_partial: file.accept_partial,
        ..prometheus::PrometheusOptions::new(file.endpoint(&url)?)
    })
}

/// Reaches a store behind a Service: by a port-forward if requests have credentials or its certificate is checked, else by the
/// API server's proxy.
pub(super) async fn behind_service(
    client: kube::Client,
    target: ForwardTarget,
    endpoint: &Endpoint,
) -> Result<Http, SourceError> {
    if needs_port_forward(endpoint) {
        return port_forward::http(client, target, endpoint).await;
    }
    let scheme = if target.is_tls { "https:" } else { "" };
    let service = format!("{scheme}{}:{}", target.service, target.port);
    Ok(Http::through_api_server(client, &target.namespace, &service, endpoint)?.below(&target.path))
}

/// The API server's proxy passes no credentials on, and checks no certificate.
pub(super) fn needs_port_forward(endpoint: &Endpoint) -> bool {
    let has_credentials = !matches!(endpoint.authentication, Authentication::None);
    has_credentials || endpoint.ca_file.is_some() || endpoint.accept_invalid_certificates
}

impl InfluxDbArgs {
    fn url(&self) -> anyhow::Result<Url> {
        let file = self.source.file()?;
        let url = self.url.clone().or_else(|| file.url.as_deref().map(Url::from));
        url.context("the file of --source names no `url`: name the store in it or on the command line")
    }

    fn options(&self) -> anyhow::Result<influxdb::InfluxdbOptions> {
        let (file, url) = (self.source.file()?, self.url()?);
        let (url, database) = url.split_once(DATABASE);
        Ok(influxdb::InfluxdbOptions {
            database: database.unwrap_or(influxdb::DATABASE).to_owned(),
            condition: file.matchers.clone().unwrap_or_default(),
            step_seconds: u32::try_from(file.step()?.unwrap_or(STEP))?,
            ..influxdb::InfluxdbOptions::new(file.endpoint(&url)?)
        })
    }
}

pub(super) async fn client(cluster: &Chosen) -> anyhow::Result<kube::Client> {
    kubeconfig::client(cluster).await.map_err(anyhow::Error::msg)
}
