//! Forwards a local port to a pod of a Service, like `kubectl port-forward`.
//!
//! The API server's proxy to Services is simpler, but it does not forward `Authorization`, and checks no certificate. Through a
//! port-forward the store itself gets the requests.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use headroom_admission::json::Node;
use headroom_api_server::ApiPath;
use headroom_api_server::api_client::{ApiClient, ApiError, ListOptions};
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::Client;
use kube::api::Api;
use tokio::net::{TcpListener, TcpStream};

use super::SourceError;
use super::http::{Endpoint, Http};

/// A port of a Service, and the path in front of the API there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardTarget {
    pub namespace: String,
    pub service: String,
    /// A number or a name.
    pub port: String,
    pub is_tls: bool,
    /// Empty, or with a slash before it.
    pub path: String,
}

impl ForwardTarget {
    /// Reads `NAMESPACE/SERVICE:PORT` or `NAMESPACE/https:SERVICE:PORT`, each with a `/path` after it if there is one.
    pub fn parse(text: &str) -> Option<Self> {
        let (namespace, service) = text.split_once('/')?;
        let (is_tls, service) = match service.strip_prefix("https:") {
            Some(service) => (true, service),
            None => (false, service.strip_prefix("http:").unwrap_or(service)),
        };
        let (service, port) = service.split_once(':')?;
        let (port, path) = port.split_at(port.find('/').unwrap_or(port.len()));
        let is_name = |part: &str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
        };
        let is_path = path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#%".contains(&byte));
        let is_whole = [namespace, service, port].into_iter().all(is_name) && is_path && !path.contains("..");
        let [namespace, service, port, path] = [namespace, service, port, path].map(str::to_owned);
        is_whole.then_some(Self { namespace, service, port, is_tls, path })
    }
}

/// Writes the form that [`ForwardTarget::parse`] reads.
impl fmt::Display for ForwardTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, service, port, is_tls, path } = self;
        write!(f, "{namespace}/{}{service}:{port}{path}", if *is_tls { "https:" } else { "" })
    }
}

/// Forwards to the store behind a Service, with the credentials and options of the endpoint.
pub async fn http(client: Client, target: ForwardTarget, endpoint: &Endpoint) -> Result<Http, SourceError> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await;
    let listener =
        listener.map_err(|error| SourceError::Permanent(format!("cannot listen on this machine: {error}")))?;
    let address = listener.local_addr();
    let address: SocketAddr = address.map_err(|error| SourceError::Permanent(error.to_string()))?;
    let scheme = if target.is_tls { "https" } else { "http" };
    let endpoint = Endpoint {
        url: format!("{scheme}://{address}").into(),
        tls_server_name: target.is_tls.then(|| format!("{}.{}.svc", target.service, target.namespace)),
        ..endpoint.clone()
    };
    let name = format!("service {}/{}:{}", target.namespace, target.service, target.port);
    let http = Http::new(&endpoint)?.called(name).below(&target.path);
    // Looked up now, so that a missing Service is reported, and again for each connection.
    find(&client, &target).await?;
    tokio::spawn(serve(listener, client, target));
    Ok(http)
}

async fn serve(listener: TcpListener, client: Client, target: ForwardTarget) {
    while let Ok((connection, _)) = listener.accept().await {
        let (client, target) = (client.clone(), target.clone());
        tokio::spawn(async move {
            if let Err(error) = lead(connection, &client, &target).await {
                tracing::warn!(%error, "a port-forward ended");
            }
        });
    }
}

async fn lead(mut connection: TcpStream, client: &Client, target: &ForwardTarget) -> Result<(), SourceError> {
    let (pod, port) = find(client, target).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), &target.namespace);
    let forwarded = pods.portforward(&pod, &[port]).await;
    let mut forwarded = forwarded.map_err(|error| refused(error.into(), "create pods/portforward", target))?;
    let Some(mut stream) = forwarded.take_stream(port) else { return Ok(()) };
    // Whichever side closes ends it.
    let copied = tokio::io::copy_bidirectional(&mut connection, &mut stream).await;
    drop(stream);
    copied.map(|_| ()).map_err(|error| SourceError::Temporary(error.to_string()))
}

/// A pod behind the Service that is ready, and its port.
async fn find(client: &Client, target: &ForwardTarget) -> Result<(String, u16), SourceError> {
    let ForwardTarget { namespace, service: name, port, .. } = target;
    // An ApiClient bounds the bytes of answers.
    let (api, within) = (ApiClient::new(client.clone()), ApiPath::new("/api/v1/namespaces").at(namespace));
    let service = api.get(&within.at("services").at(name)).await;
    let service = service.map_err(|error| refused(error, "get services", target))?;
    let service: Service =
        serde_json::from_value(service).map_err(|error| SourceError::Permanent(error.to_string()))?;
    let spec = service.spec.unwrap_or_default();
    let wanted = spec
        .ports
        .unwrap_or_default()
        .into_iter()
        .find(|known| known.port.to_string() == *port || known.name.as_deref() == Some(port));
    let wanted = wanted.ok_or_else(|| {
        SourceError::Permanent(format!("service {namespace}/{name} has no port `{port}`: give its number or name"))
    })?;
    let labels: BTreeMap<String, String> = spec.selector.unwrap_or_default();
    let selector: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let options = ListOptions { label_selector: &selector.join(","), ..ListOptions::WHOLE };
    let read = |pod: Node<'_>| serde_json::from_str(pod.text()).ok().filter(is_ready);
    let pods = api.list(&within.at("pods"), options, read).await;
    let (_, pods) = pods.map_err(|error| refused(error, "list pods", target))?;
    let mut ready = pods.into_iter().filter(|_| !labels.is_empty());
    let pod = ready
        .next()
        .ok_or_else(|| SourceError::Temporary(format!("no pod behind service {namespace}/{name} is ready")))?;
    let target_port = wanted.target_port.unwrap_or(IntOrString::Int(wanted.port));
    let number = port_of(&pod, &target_port).ok_or_else(|| {
        SourceError::Permanent(format!("the pods behind service {namespace}/{name} have no port {target_port:?}"))
    })?;
    Ok((pod.metadata.name.unwrap_or_default(), number))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn port_of(pod: &Pod, port: &IntOrString) -> Option<u16> {
    match port {
        IntOrString::Int(number) => u16::try_from(*number).ok(),
        IntOrString::String(name) => {
            let containers = &pod.spec.as_ref()?.containers;
            let mut ports = containers.iter().flat_map(|container| container.ports.iter().flatten());
            let port = ports.find(|port| port.name.as_ref() == Some(name))?;
            u16::try_from(port.container_port).ok()
        }
    }
}

fn refused(error: ApiError, right: &str, target: &ForwardTarget) -> SourceError {
    let ForwardTarget { namespace, service, .. } = target;
    match error {
        ApiError::Forbidden { message } => SourceError::Permanent(format!(
            "service {namespace}/{service} is reached by a port-forward, since it is given a token, user or authority, and \
             that is not allowed: grant `{right}` ({message})"
        )),
        ApiError::NotFound(_) => {
            SourceError::Permanent(format!("service {namespace}/{service} cannot be reached: there is none"))
        }
        error => SourceError::Temporary(format!("service {namespace}/{service} cannot be reached: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_named_as_the_api_server_names_it() {
        let check = |text: &str, expected: Option<(&str, &str, &str, bool, &str)>| {
            let target = ForwardTarget::parse(text);
            let found = target.as_ref().map(|target| {
                let ForwardTarget { namespace, service, port, is_tls, path } = target;
                (namespace.as_str(), service.as_str(), port.as_str(), *is_tls, path.as_str())
            });
            assert_eq!(found, expected, "{text}");
            let written = target.map(|target| target.to_string());
            assert_eq!(written, expected.map(|_| text.replace("/http:", "/")), "{text}");
        };
        check("monitoring/prometheus:9090", Some(("monitoring", "prometheus", "9090", false, "")));
        check("monitoring/https:thanos:web", Some(("monitoring", "thanos", "web", true, "")));
        check("monitoring/http:thanos:web", Some(("monitoring", "thanos", "web", false, "")));
        check("m/vmselect:8481/select/0/prometheus", Some(("m", "vmselect", "8481", false, "/select/0/prometheus")));
        for wrong in [
            "prometheus:9090",
            "monitoring/prometheus",
            "/a:1",
            "a/b:",
            "a/b:c:d",
            "a%2f/b:1",
            "a/b:1/../../secrets",
            "a/b:1/x?y",
            "a/b\n:1",
        ] {
            check(wrong, None);
        }
    }
}
