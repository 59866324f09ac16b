//! Azure: a pod's federated token is exchanged for one of Entra (workload identity), or the metadata server of the machine
//! gives one (managed identity).

use std::path::PathBuf;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

use super::token::{Environment, ExpiringCredentials, Token, json, server, token_in};
use crate::SourceError;
use crate::http::{Form, Http};

/// The domains of Azure Monitor in the public and the national clouds.
pub const DOMAINS: [&str; 3] = ["monitor.azure.com", "monitor.azure.us", "monitor.azure.cn"];

const ADVICE: &str = "does the identity have the role Monitoring Data Reader on the Azure Monitor workspace, and is it \
                      federated with this service account?";

pub struct AzureAccount {
    /// The audience of the token: `https://prometheus.monitor.azure.com`.
    resource: String,
    way: Way,
}

enum Way {
    Workload { authority: Http, tenant: String, client: String, token_file: PathBuf },
    Machine { metadata: Http, client: Option<String> },
}

impl AzureAccount {
    pub fn new(url: &str, environment: Environment<'_>) -> Result<Self, SourceError> {
        let host = url.parse().ok().and_then(|url: Uri| url.host().map(str::to_owned)).unwrap_or_default();
        let domain = DOMAINS.into_iter().find(|domain| host.ends_with(domain)).unwrap_or("monitor.azure.com");
        let named = |name| environment(name).filter(|value| !value.is_empty());
        let client = named("AZURE_CLIENT_ID");
        let way = match (named("AZURE_FEDERATED_TOKEN_FILE"), named("AZURE_TENANT_ID"), client.clone()) {
            (Some(token_file), Some(tenant), Some(client)) => {
                let authority = named("AZURE_AUTHORITY_HOST");
                let authority = authority.unwrap_or_else(|| "https://login.microsoftonline.com".to_owned());
                let authority = server(authority.trim_end_matches('/'))?;
                Way::Workload { authority, tenant, client, token_file: token_file.into() }
            }
            (Some(_), ..) => {
                return Err(SourceError::Permanent(
                    "AZURE_FEDERATED_TOKEN_FILE is set, but not AZURE_TENANT_ID and AZURE_CLIENT_ID: label the pod \
                     azure.workload.identity/use, and annotate its service account with the client"
                        .to_owned(),
                ));
            }
            (None, ..) => {
                let metadata = named("AZURE_POD_IDENTITY_AUTHORITY_HOST");
                let metadata = metadata.unwrap_or_else(|| "http://169.254.169.254".to_owned());
                Way::Machine { metadata: server(metadata.trim_end_matches('/'))?, client }
            }
        };
        Ok(Self { resource: format!("https://prometheus.{domain}"), way })
    }

    pub fn describe(&self) -> String {
        match &self.way {
            Way::Workload { authority, client, .. } => {
                format!("Azure, workload identity of client {client} at `{}`", authority.name())
            }
            Way::Machine { metadata, .. } => {
                format!("Azure, managed identity of the metadata server at `{}`", metadata.name())
            }
        }
    }

    pub async fn ask(&self) -> Result<ExpiringCredentials, SourceError> {
        let (http, answer) = match &self.way {
            Way::Workload { authority, tenant, client, token_file } => {
                let assertion = token_in(token_file)?;
                let form = Form::default()
                    .with("grant_type", "client_credentials")
                    .with("client_id", client)
                    .with("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
                    .with_secret("client_assertion", assertion.trim())
                    .with("scope", format!("{}/.default", self.resource));
                let path = format!("/{tenant}/oauth2/v2.0/token");
                (authority, authority.post(&path, form).await?)
            }
            Way::Machine { metadata, client } => {
                let mut parameters = vec![("api-version", "2018-02-01"), ("resource", self.resource.as_str())];
                parameters.extend(client.iter().map(|client| ("client_id", client.as_str())));
                let header = (HeaderName::from_static("metadata"), HeaderValue::from_static("true"));
                let headers = HeaderMap::from_iter([header]);
                let path = "/metadata/identity/oauth2/token";
                (metadata, metadata.send(Method::GET, path, &parameters, headers, Vec::new(), &[]).await?)
            }
        };
        Ok(json::<Token>(http, answer, ADVICE).await?.kept())
    }
}
