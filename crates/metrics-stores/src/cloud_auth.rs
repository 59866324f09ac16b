//! Authentication to the metrics stores of clouds by workload identity: Google Cloud Monitoring and Managed Prometheus, Amazon
//! Managed Prometheus, Azure Monitor.
//!
//! No secret is configured. The cloud's own server gives a token or key, which is kept and renewed a little before it expires.
//! [`token`] requests it, [`signature`] signs requests as Amazon requires, and [`google`], [`azure`] and [`aws`] know where each
//! cloud has its servers and files.
//!
//! This is by hand because of what crates for it bring: `reqsign` adds 44 packages to the programs, the SDKs of the three
//! vendors 69, with HTTP clients and TLS stacks of their own. Here are three requests in JSON or forms, and one HMAC.

mod signature;
mod token;

pub mod aws;
pub mod azure;
pub mod google;

use async_trait::async_trait;
use headroom_api_server::clock;
use http::header::AUTHORIZATION;
use http::{Request, Uri};
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use self::token::{Credentials, Environment, ExpiringCredentials};
use crate::SourceError;
use crate::http::{Authorize, authorization};

/// Credentials are renewed so many seconds before they expire.
const RENEW_BEFORE: i64 = 300;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cloud {
    Google,
    Aws,
    Azure,
}

impl Cloud {
    /// The cloud that runs the store at this URL.
    pub fn of(url: &str) -> Option<Self> {
        let url: Uri = url.parse().ok()?;
        let host = url.host()?;
        if host == "monitoring.googleapis.com" {
            Some(Self::Google)
        } else if aws::region_of(host).is_some() {
            Some(Self::Aws)
        } else if azure::DOMAINS.iter().any(|domain| host.ends_with(&format!(".prometheus.{domain}"))) {
            Some(Self::Azure)
        } else {
            None
        }
    }
}

/// The identity of this machine or workload at one cloud.
pub struct Identity {
    provider: Provider,
    kept: Mutex<Option<ExpiringCredentials>>,
}

enum Provider {
    Google(google::GoogleAccount),
    Azure(azure::AzureAccount),
    Aws(aws::AwsAccount),
}

impl Identity {
    /// Reads the environment, for the store at this URL. Sends nothing yet.
    pub fn new(cloud: Cloud, url: &str, environment: Environment<'_>) -> Result<Self, SourceError> {
        let provider = match cloud {
            Cloud::Google => Provider::Google(google::GoogleAccount::new(environment)?),
            Cloud::Azure => Provider::Azure(azure::AzureAccount::new(url, environment)?),
            Cloud::Aws => Provider::Aws(aws::AwsAccount::new(url, environment)?),
        };
        Ok(Self { provider, kept: Mutex::default() })
    }

    /// Those that are kept, or new ones. Many readers wait for one answer.
    async fn credentials(&self) -> Result<Credentials, SourceError> {
        let mut kept = self.kept.lock().await;
        if let Some(kept) = kept.as_ref().filter(|kept| clock::now() < kept.until.saturating_sub(RENEW_BEFORE)) {
            return Ok(kept.credentials.clone());
        }
        let asked = match &self.provider {
            Provider::Google(account) => account.ask().await,
            Provider::Azure(account) => account.ask().await,
            Provider::Aws(account) => account.ask().await,
        };
        match (asked, kept.as_ref()) {
            (Ok(new), _) => {
                tracing::debug!(seconds = new.until.saturating_sub(clock::now()), "got new credentials of the cloud");
                *kept = Some(new.clone());
                Ok(new.credentials)
            }
            // The cloud's server may be away for a moment, and the kept credentials are valid until they expire.
            (Err(error @ SourceError::Temporary(_)), Some(old)) if clock::now() < old.until => {
                tracing::warn!(%error, "the credentials of the cloud were not renewed; trying again");
                Ok(old.credentials.clone())
            }
            (Err(SourceError::Temporary(what)), _) => {
                Err(SourceError::Temporary(format!("{what}; {}", self.elsewhere())))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Advice for a machine that does not reach the cloud's servers.
    fn elsewhere(&self) -> &'static str {
        match self.provider {
            Provider::Google(_) => {
                "away from Google's machines, set GOOGLE_APPLICATION_CREDENTIALS, or `tokenFile` in --source"
            }
            Provider::Azure(_) => {
                "away from Azure's machines, set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_FEDERATED_TOKEN_FILE, or \
                 `tokenFile` in --source"
            }
            Provider::Aws(_) => "away from Amazon's machines, set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        }
    }
}

#[async_trait]
impl Authorize for Identity {
    fn describe(&self) -> String {
        match &self.provider {
            Provider::Google(account) => account.describe(),
            Provider::Azure(account) => account.describe(),
            Provider::Aws(account) => account.describe(),
        }
    }

    fn is_google(&self) -> bool {
        matches!(self.provider, Provider::Google(_))
    }

    async fn authorize(&self, base: &Uri, request: &mut Request<Vec<u8>>) -> Result<(), SourceError> {
        match self.credentials().await? {
            Credentials::Token(token) => {
                let value = authorization("Bearer", token.expose_secret());
                let value = value.map_err(|what| SourceError::Permanent(format!("the token of the cloud {what}")))?;
                request.headers_mut().insert(AUTHORIZATION, value);
                Ok(())
            }
            Credentials::Keys { keys, region } => {
                signature::sign(request, base, &keys, &region, aws::SERVICE, clock::now())
            }
        }
    }

    async fn forget(&self) {
        *self.kept.lock().await = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cloud_is_known_by_the_address_of_its_store() {
        let check = |url: &str, cloud| assert_eq!(Cloud::of(url), cloud, "{url}");
        let google = "https://monitoring.googleapis.com/v1/projects/p/location/global/prometheus";
        check(google, Some(Cloud::Google));
        check("https://aps-workspaces.eu-central-1.amazonaws.com/workspaces/ws-1", Some(Cloud::Aws));
        check("https://team-x1y2.westeurope.prometheus.monitor.azure.com", Some(Cloud::Azure));
        check("https://team-x1y2.usgovvirginia.prometheus.monitor.azure.us", Some(Cloud::Azure));
        check("https://prometheus.example", None);
        check("https://monitoring.googleapis.com.example", None);
    }
}
