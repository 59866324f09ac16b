//! The sources of usage as they are named on the command line of `collect` and `doctor`.

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, Subcommand};
use headroom_kube::kubeconfig::{self, Chosen};
use headroom_sources::diagnosis::{Examination, SourceFinding};
use headroom_sources::http::{Authentication, Endpoint, Http, Url};
use headroom_sources::port_forward::{self, ForwardTarget};
use headroom_sources::prometheus::Matchers;
use headroom_sources::{Source, SourceError, influxdb, metrics_api, prometheus};

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
    /// Such as http://prometheus.monitoring:9090, with the path in front of the API if there is one
    #[arg(required_unless_present_any = ["service", "source"])]
    pub(super) url: Option<Url>,
    /// Reach it through the API server instead: NAMESPACE/SERVICE:PORT (https:SERVICE:PORT for TLS); by a port-forward with a
    /// token, user or certificate authority, else by the API server's proxy
    #[arg(long, value_name = "SERVICE", conflicts_with = "url")]
    pub(super) service: Option<String>,
    /// Query step
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = super::seconds)]
    pub(super) step: i64,
    #[command(flatten)]
    pub(super) source: SourceFlag,
}

#[derive(Debug, Args)]
pub struct InfluxDbArgs {
    /// Such as http://monitoring-influxdb.kube-system:8086
    #[arg(required_unless_present = "source")]
    pub(super) url: Option<Url>,
    /// Query step
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = super::seconds)]
    pub(super) step: i64,
    #[command(flatten)]
    pub(super) database: Database,
    #[command(flatten)]
    pub(super) source: SourceFlag,
}

/// The part of an InfluxDB that is read.
#[derive(Debug, Clone, Args)]
pub(super) struct Database {
    /// Database; `k8s`, Heapster's, unless given
    #[arg(long = "database", value_name = "NAME")]
    name: Option<String>,
    /// Condition for every query, such as "cluster = 'prod'", where several clusters share a database
    #[arg(long = "where", value_name = "CONDITION", default_value = "")]
    condition: String,
    /// Retention policy to read; the database's default unless given
    #[arg(long, value_name = "NAME")]
    retention_policy: Option<String>,
}

/// The address of a store: the flags, or else the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    Url(Url),
    Service(ForwardTarget),
}

impl Address {
    /// None if neither a flag nor the file names a store.
    pub fn of(url: Option<&Url>, service: Option<&str>, file: &SourceFile) -> anyhow::Result<Option<Self>> {
        let is_given = url.is_some() || service.is_some();
        let url = if is_given { url.cloned() } else { file.url.as_deref().map(Url::from) };
        match if is_given { service } else { file.service.as_deref() } {
            Some(service) => Ok(Some(Self::Service(service_named(service)?))),
            None => Ok(url.map(Self::Url)),
        }
    }

    /// Empty if the store is behind a Service.
    fn url(&self) -> Url {
        match self {
            Self::Url(url) => url.clone(),
            Self::Service(_) => Url::from(""),
        }
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
                let database = args.database.name.iter().map(|name| format!(", database {name}"));
                let condition = Some(&args.database.condition).filter(|condition| !condition.is_empty());
                let condition = condition.map(|condition| format!(" where {condition}"));
                format!("influxdb at {}{}", args.url()?, database.chain(condition).collect::<String>())
            }
            Self::MetricsApi => "metrics-api".to_owned(),
        })
    }

    /// Opens the source without sending a request, so it may be down when the program starts. `cluster` is used if the source
    /// is reached through an API server.
    pub async fn open(&self, cluster: &Chosen) -> anyhow::Result<Box<dyn Source>> {
        Ok(match self {
            Self::Prometheus(args) => {
                let options = args.options()?;
                Box::new(prometheus::Prometheus::new(args.http(cluster, &options).await?, options))
            }
            Self::Influxdb(args) => Box::new(influxdb::InfluxDb::new(&args.options()?)?),
            Self::MetricsApi => Box::new(metrics_api::MetricsApi::new(client(cluster).await?, 60)),
        })
    }

    /// Examines the source.
    pub async fn diagnose(&self, cluster: &Chosen, our_clock: i64) -> anyhow::Result<Examination> {
        let (kind, place, findings) = match self {
            Self::Prometheus(args) => {
                let options = args.options()?;
                let http = args.http(cluster, &options).await?;
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
                let options = args.options()?;
                let http = args.http(cluster, &options).await?;
                let names = prometheus::detect(http, &options).await?;
                let file = args.source.file()?.clone();
                file.with_address(args.url.as_ref(), args.service.as_deref()).with_names(names).to_yaml()
            }
            Self::Influxdb(args) => args.source.file()?.clone().with_address(args.url.as_ref(), None).to_yaml(),
            Self::MetricsApi => Err(anyhow!("the metrics API needs no file for --source")),
        }
    }
}

impl PrometheusArgs {
    fn address(&self) -> anyhow::Result<Address> {
        let address = Address::of(self.url.as_ref(), self.service.as_deref(), self.source.file()?)?;
        address.context(
            "the file of --source names no `url` and no `service`: name the store in it or on the command line",
        )
    }

    fn options(&self) -> anyhow::Result<prometheus::PrometheusOptions> {
        options(self.source.file()?, &self.address()?, self.step)
    }

    async fn http(&self, cluster: &Chosen, options: &prometheus::PrometheusOptions) -> anyhow::Result<Http> {
        let Address::Service(target) = self.address()? else { return Ok(Http::new(&options.endpoint)?) };
        Ok(behind_service(client(cluster).await?, target, &options.endpoint).await?)
    }
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
    Ok(prometheus::PrometheusOptions {
        names: file.names(),
        ephemeral_storage: file.ephemeral_storage,
        matchers,
        step_seconds: u32::try_from(step)?,
        accept_partial: file.accept_partial,
        ..prometheus::PrometheusOptions::new(file.endpoint(&address.url())?)
    })
}

/// Reads NAMESPACE/SERVICE:PORT.
fn service_named(text: &str) -> anyhow::Result<ForwardTarget> {
    ForwardTarget::parse(text).ok_or_else(|| {
        anyhow!(
            "`{text}` is not a service: expected NAMESPACE/SERVICE:PORT, with a /PATH after it if the API is below one"
        )
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
        let file = self.source.file()?;
        Ok(influxdb::InfluxdbOptions {
            database: self.database.name.clone(),
            condition: self.database.condition.clone(),
            retention_policy: self.database.retention_policy.clone(),
            step_seconds: u32::try_from(self.step)?,
            ..influxdb::InfluxdbOptions::new(file.endpoint(&self.url()?)?)
        })
    }
}

async fn client(cluster: &Chosen) -> anyhow::Result<kube::Client> {
    kubeconfig::client(cluster).await.map_err(anyhow::Error::msg)
}
