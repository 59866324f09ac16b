//! The sources as they are typed, for `collect` and `doctor` alike.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use headroom_kube::kubeconfig::{self, Chosen};
use headroom_kube::secret::Secret;

use headroom_sources::cloud_auth::{Cloud, Identity};
use headroom_sources::diagnosis::{Examination, Finding};
use headroom_sources::http::{Authentication, Endpoint, Http, Url};
use headroom_sources::port_forward::{self, Target};
use headroom_sources::prometheus::Matchers;
use headroom_sources::{Source, SourceError, checkpoints, influxdb, metrics_api, prometheus};

/// A place that knows what containers used.
#[derive(Debug, Subcommand)]
pub enum Place {
    /// Prometheus, or a store with the same API: Thanos, VictoriaMetrics, Mimir, and those of Google, Amazon and Azure
    Prometheus(Box<PrometheusArgs>),
    /// InfluxDB 1, 2 or 3 with the data of Telegraf (inputs kubernetes and kube_inventory) or of Heapster
    Influxdb(Box<InfluxDbArgs>),
    /// The metrics API (metrics-server), sampled each minute; for clusters without a metrics store
    MetricsApi,
    /// The checkpoints of the Vertical Pod Autoscaler
    Checkpoints,
}

#[derive(Debug, Args)]
pub struct PrometheusArgs {
    /// Such as http://prometheus.monitoring:9090, with the path in front of the API if there is one
    #[arg(required_unless_present = "service")]
    url: Option<Url>,
    /// Reach it through the API server instead: NAMESPACE/SERVICE:PORT (https:SERVICE:PORT for TLS); by a port-forward with a
    /// token, user or certificate authority, else by the API server's proxy
    #[arg(long, value_name = "SERVICE", conflicts_with = "url")]
    service: Option<String>,
    /// Query step
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = super::seconds)]
    step: i64,
    /// Matchers for every query, such as 'cluster="prod"', where several clusters share a store
    #[arg(long, default_value = "")]
    matchers: Matchers,
    /// Accept partial responses; gaps are never backfilled
    #[arg(long)]
    accept_partial: bool,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    names: Names,
}

/// Names that are found out unless they are given.
#[derive(Debug, Args)]
#[command(next_help_heading = "Metric and label names (detected unless given)")]
pub(super) struct Names {
    /// Counter of CPU seconds
    #[arg(long, value_name = "NAME")]
    cpu_metric: Option<String>,
    /// The CPU metric is a recording rule in cores, not a counter of seconds
    #[arg(long, requires = "cpu_metric")]
    cpu_is_rate: bool,
    /// Memory working set in bytes
    #[arg(long, value_name = "NAME")]
    memory_metric: Option<String>,
    /// Read ephemeral storage too, where the store knows it
    #[arg(long)]
    pub(super) ephemeral_storage: bool,
    /// Ephemeral storage in bytes
    #[arg(long, value_name = "NAME", requires = "ephemeral_storage")]
    storage_metric: Option<String>,
    /// Metric of kube-state-metrics with the image of each container
    #[arg(long, value_name = "NAME")]
    info_metric: Option<String>,
    /// Label of the usage metrics with the namespace
    #[arg(long, value_name = "NAME")]
    namespace_label: Option<String>,
    /// … with the pod
    #[arg(long, value_name = "NAME")]
    pod_label: Option<String>,
    /// … with the container
    #[arg(long, value_name = "NAME")]
    container_label: Option<String>,
    /// … with the image, used if kube-state-metrics has none
    #[arg(long, value_name = "NAME")]
    image_label: Option<String>,
    /// Label of kube-state-metrics with the namespace
    #[arg(long, value_name = "NAME")]
    info_namespace_label: Option<String>,
    /// … with the pod
    #[arg(long, value_name = "NAME")]
    info_pod_label: Option<String>,
    /// … with the container
    #[arg(long, value_name = "NAME")]
    info_container_label: Option<String>,
    /// … with the image
    #[arg(long, value_name = "NAME")]
    info_image_label: Option<String>,
}

#[derive(Debug, Args)]
pub struct InfluxDbArgs {
    /// Such as http://monitoring-influxdb.kube-system:8086
    url: Url,
    /// Query step
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = super::seconds)]
    step: i64,
    /// Database, or bucket of an InfluxDB 2; `k8s` (Heapster's) and `telegraf` are tried unless given
    #[arg(long, value_name = "NAME", visible_alias = "bucket")]
    database: Option<String>,
    /// Organization of an InfluxDB 2, which also needs a token
    #[arg(long, value_name = "NAME")]
    org: Option<String>,
    /// Condition for every query, such as "cluster = 'prod'", where several clusters share a database
    #[arg(long = "where", value_name = "CONDITION", default_value = "")]
    condition: String,
    /// Read ephemeral storage too, which Telegraf writes
    #[arg(long)]
    ephemeral_storage: bool,
    /// Retention policy to read; the database's default unless given
    #[arg(long, value_name = "NAME")]
    retention_policy: Option<String>,
    #[command(flatten)]
    access: Access,
}

/// Who we are to the store. Secrets come from files or the environment, where other users cannot read them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Access")]
pub(super) struct Access {
    /// File with a bearer token, read again for each request
    #[arg(long, value_name = "FILE", conflicts_with_all = ["token", "user"])]
    token_file: Option<PathBuf>,
    /// Bearer token
    #[arg(long, env = "HEADROOM_TOKEN", hide_env_values = true, conflicts_with = "user")]
    token: Option<Secret>,
    /// User for basic auth
    #[arg(long, env = "HEADROOM_USER")]
    user: Option<String>,
    /// File with the user's password
    #[arg(long, value_name = "FILE", requires = "user", conflicts_with = "password")]
    password_file: Option<PathBuf>,
    /// The user's password
    #[arg(long, env = "HEADROOM_PASSWORD", hide_env_values = true)]
    password: Option<Secret>,
    /// Additional header, as `Name: value`; may be repeated
    #[arg(long, value_name = "HEADER")]
    header: Vec<Secret>,
    /// Cloud identity of this machine or workload; detected by the URL for stores that a cloud runs
    #[arg(long, value_enum, value_name = "CLOUD", conflicts_with_all = ["token_file", "token", "user"])]
    identity: Option<Cloud>,
    /// Tenant of a store with several, sent as X-Scope-OrgID
    #[arg(long)]
    tenant: Option<String>,
    /// Certificate authorities to trust instead of the system's (PEM)
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Do not check the store's certificate
    #[arg(long)]
    insecure_skip_tls_verify: bool,
    /// Timeout per query; queries that time out are split
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = super::seconds)]
    timeout: i64,
}

impl Place {
    /// Kind and address, without secrets: what a store knows its source by.
    pub fn name(&self) -> String {
        match self {
            Self::Prometheus(args) => {
                let matchers =
                    if args.matchers.is_empty() { String::new() } else { format!(" with {}", args.matchers) };
                let tenant = args.access.tenant.iter().map(|tenant| format!(" of tenant {tenant}"));
                format!("prometheus at {}{matchers}{}", args.place(), tenant.collect::<String>())
            }
            Self::Influxdb(args) => {
                let parts = [("database", &args.database), ("organization", &args.org)];
                let parts = parts.into_iter().filter_map(|(part, name)| Some(format!(", {part} {}", name.as_ref()?)));
                let condition = Some(&args.condition).filter(|condition| !condition.is_empty());
                let condition = condition.map(|condition| format!(" where {condition}")).unwrap_or_default();
                format!("influxdb at {}{}{condition}", args.url, parts.collect::<String>())
            }
            Self::MetricsApi => "metrics-api".to_owned(),
            Self::Checkpoints => "checkpoints".to_owned(),
        }
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
            Self::MetricsApi => Box::new(metrics_api::MetricsApi::new(api_server(cluster).await?, 60)),
            Self::Checkpoints => Box::new(checkpoints::Checkpoints::new(api_server(cluster).await?)),
        })
    }

    /// Looks closely, and tells all that was found.
    pub async fn diagnose(&self, cluster: &Chosen, our_clock: i64) -> anyhow::Result<Examination> {
        let (kind, place, findings) = match self {
            Self::Prometheus(args) => {
                let options = args.options()?;
                let http = args.http(cluster, &options).await?;
                let place = http.name().to_owned();
                ("prometheus", place, prometheus::diagnose(http, &options, our_clock).await)
            }
            Self::Influxdb(args) => {
                ("influxdb", args.url.to_string(), influxdb::diagnose(&args.options()?, our_clock).await)
            }
            Self::MetricsApi => {
                let http = api_server(cluster).await?;
                ("metrics API", http.name().to_owned(), metrics_api::diagnose(http, our_clock).await)
            }
            Self::Checkpoints => {
                let http = api_server(cluster).await?;
                ("checkpoints", http.name().to_owned(), checkpoints::diagnose(http, our_clock).await)
            }
        };
        let findings = findings.unwrap_or_else(|error| {
            vec![Finding::bad(
                "connection",
                error.to_string(),
                "fix the connection first; the remaining checks were skipped",
            )]
        });
        Ok(Examination { source: format!("{kind} at {place}"), findings })
    }
}

impl PrometheusArgs {
    fn place(&self) -> String {
        match (&self.service, &self.url) {
            (Some(service), _) => format!("service {service}"),
            (None, url) => url.iter().map(Url::to_string).collect(),
        }
    }

    fn options(&self) -> anyhow::Result<prometheus::Options> {
        Ok(prometheus::Options {
            endpoint: self.access.endpoint(self.url.clone().unwrap_or_else(|| Url::from("")))?,
            names: self.names.overrides(),
            ephemeral_storage: self.names.ephemeral_storage,
            matchers: self.matchers.clone(),
            step_seconds: u32::try_from(self.step)?,
            accept_partial: self.accept_partial,
            as_of: None,
        })
    }

    async fn http(&self, cluster: &Chosen, options: &prometheus::Options) -> anyhow::Result<Http> {
        let Some(service) = &self.service else { return Ok(Http::new(&options.endpoint)?) };
        let target = service_named(service)?;
        let client = kubeconfig::client(cluster).await.map_err(anyhow::Error::msg)?;
        Ok(behind_service(client, target, &options.endpoint).await?)
    }
}

/// A Service as it is typed.
pub(super) fn service_named(text: &str) -> anyhow::Result<Target> {
    Target::parse(text).ok_or_else(|| {
        anyhow!(
            "`{text}` is not a service: expected NAMESPACE/SERVICE:PORT, with a /PATH after it if the API is below one"
        )
    })
}

/// A store behind a Service: by a port-forward where it is to be told who we are, or its certificate is to be checked, and
/// else by the API server's proxy.
pub(super) async fn behind_service(
    client: kube::Client,
    target: Target,
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

impl Names {
    pub(super) fn overrides(&self) -> prometheus::Overrides {
        let Names {
            cpu_metric,
            cpu_is_rate,
            memory_metric,
            ephemeral_storage: _,
            storage_metric,
            info_metric,
            namespace_label,
            pod_label,
            container_label,
            image_label,
            info_namespace_label,
            info_pod_label,
            info_container_label,
            info_image_label,
        } = self;
        prometheus::Overrides {
            cpu_metric: cpu_metric.clone(),
            memory_metric: memory_metric.clone(),
            storage_metric: storage_metric.clone(),
            cpu_is_rate: *cpu_is_rate,
            info_metric: info_metric.clone(),
            namespace_label: namespace_label.clone(),
            pod_label: pod_label.clone(),
            container_label: container_label.clone(),
            image_label: image_label.clone(),
            info_namespace_label: info_namespace_label.clone(),
            info_pod_label: info_pod_label.clone(),
            info_container_label: info_container_label.clone(),
            info_image_label: info_image_label.clone(),
        }
    }
}

impl InfluxDbArgs {
    fn options(&self) -> anyhow::Result<influxdb::Options> {
        Ok(influxdb::Options {
            database: self.database.clone(),
            organization: self.org.clone(),
            condition: self.condition.clone(),
            retention_policy: self.retention_policy.clone(),
            step_seconds: u32::try_from(self.step)?,
            ephemeral_storage: self.ephemeral_storage,
            ..influxdb::Options::new(self.access.endpoint(self.url.clone())?)
        })
    }
}

impl Access {
    pub(super) fn endpoint(&self, url: Url) -> anyhow::Result<Endpoint> {
        let cloud = self.identity.or_else(|| Cloud::of(url.as_str()));
        let authentication = match (&self.token_file, &self.token, &self.user, cloud) {
            (Some(file), ..) => Authentication::TokenFile(file.clone()),
            (None, Some(token), ..) => Authentication::Token(token.clone()),
            (None, None, Some(user), _) => {
                Authentication::Basic { user: user.clone(), password: self.password().context("no password")? }
            }
            (None, None, None, Some(cloud)) => {
                Authentication::Cloud(Arc::new(Identity::new(cloud, url.as_str(), &|name| std::env::var(name).ok())?))
            }
            (None, None, None, None) => Authentication::None,
        };
        Ok(Endpoint {
            url,
            authentication,
            headers: self.header.iter().map(header).collect::<anyhow::Result<_>>()?,
            tenant: self.tenant.clone(),
            ca_file: self.ca_file.clone(),
            accept_invalid_certificates: self.insecure_skip_tls_verify,
            tls_server_name: None,
            token_scheme: "Bearer",
            timeout: Duration::from_secs(self.timeout.unsigned_abs()),
        })
    }

    /// True if requests carry something that the store must not give away.
    pub(super) fn has_credentials(&self) -> bool {
        let Self { token_file, token, user, header, identity, .. } = self;
        token_file.is_some() || token.is_some() || user.is_some() || !header.is_empty() || identity.is_some()
    }

    fn password(&self) -> anyhow::Result<Secret> {
        match (&self.password_file, &self.password) {
            (Some(file), _) => {
                let text =
                    std::fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))?;
                Ok(text.trim_end_matches(['\r', '\n']).into())
            }
            (None, Some(password)) => Ok(password.clone()),
            (None, None) => Err(anyhow!("a user needs --password-file or HEADROOM_PASSWORD")),
        }
    }
}

async fn api_server(cluster: &Chosen) -> anyhow::Result<Http> {
    let client = kubeconfig::client(cluster).await.map_err(anyhow::Error::msg)?;
    Ok(Http::api_server(client, Duration::from_secs(60)))
}

/// What is wrong is said without the header's value, which may be as good as a password.
fn header(text: &Secret) -> anyhow::Result<(String, String)> {
    let (name, value) = text.reveal().split_once(':').context("a --header has no colon: expected `Name: value`")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}
