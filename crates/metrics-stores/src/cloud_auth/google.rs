//! Google: the metadata server of the machine, which on GKE with Workload Identity answers for the pod; or, elsewhere, the
//! file that `GOOGLE_APPLICATION_CREDENTIALS` names.

mod file;

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use self::file::CredentialsFile;
use super::token::{Environment, ExpiringCredentials, Token, json, server};
use crate::SourceError;
use crate::http::Http;

/// The least that reading metrics takes.
const SCOPE: &str = "https://www.googleapis.com/auth/monitoring.read";
const PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";
const ADVICE: &str = "does the service account of this machine or pod have the role roles/monitoring.viewer, and is \
                      Workload Identity set up for it?";

pub enum GoogleAccount {
    Machine { metadata: Box<Http> },
    File(Box<CredentialsFile>),
}

impl GoogleAccount {
    pub fn new(environment: Environment<'_>) -> Result<Self, SourceError> {
        if let Some(path) = environment("GOOGLE_APPLICATION_CREDENTIALS").filter(|path| !path.is_empty()) {
            return Ok(Self::File(Box::new(CredentialsFile::read(path.as_ref())?)));
        }
        let host = environment("GCE_METADATA_HOST").unwrap_or_else(|| "metadata.google.internal".to_owned());
        Ok(Self::Machine { metadata: Box::new(server(&format!("http://{host}"))?) })
    }

    pub fn describe(&self) -> String {
        match self {
            Self::Machine { metadata } => format!("Google, token of the metadata server at `{}`", metadata.name()),
            Self::File(file) => format!("Google, {}", file.describe()),
        }
    }

    pub async fn ask(&self) -> Result<ExpiringCredentials, SourceError> {
        match self {
            Self::Machine { metadata } => {
                let flavor = HeaderValue::from_static("Google");
                let headers = HeaderMap::from_iter([(HeaderName::from_static("metadata-flavor"), flavor)]);
                let answer = metadata.send(Method::GET, PATH, &[("scopes", SCOPE)], headers, Vec::new(), &[]).await?;
                Ok(json::<Token>(metadata, answer, ADVICE).await?.kept())
            }
            Self::File(file) => file.ask().await,
        }
    }
}
