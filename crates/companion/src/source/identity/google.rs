//! Google: the metadata server of the machine, which on GKE with Workload Identity answers for the pod.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde::Deserialize;

use super::{Credentials, Environment, Kept, json, server};
use crate::clock;
use crate::source::SourceError;
use crate::source::http::Http;

/// The least that reading metrics takes.
const SCOPE: &str = "https://www.googleapis.com/auth/monitoring.read";
const PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";
const ADVICE: &str = "does the service account of this machine or pod have the role roles/monitoring.viewer, and is \
                      Workload Identity set up for it?";

pub struct MetadataServer {
    http: Http,
}

#[derive(Deserialize)]
struct Token {
    access_token: String,
    expires_in: i64,
}

impl MetadataServer {
    pub fn new(environment: Environment<'_>) -> Result<Self, SourceError> {
        let host = environment("GCE_METADATA_HOST").unwrap_or_else(|| "metadata.google.internal".to_owned());
        Ok(Self { http: server(&format!("http://{host}"))? })
    }

    pub fn describe(&self) -> String {
        format!("Google, token of the metadata server at `{}`", self.http.name())
    }

    pub async fn ask(&self) -> Result<Kept, SourceError> {
        let flavor = HeaderValue::from_static("Google");
        let headers = HeaderMap::from_iter([(HeaderName::from_static("metadata-flavor"), flavor)]);
        let answer = self.http.send(Method::GET, PATH, &[("scopes", SCOPE)], headers, Vec::new()).await?;
        let token: Token = json(&self.http, answer, ADVICE).await?;
        let until = clock::now().saturating_add(token.expires_in);
        Ok(Kept { credentials: Credentials::Token(token.access_token.into()), until })
    }
}
