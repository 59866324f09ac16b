//! Amazon: keys of the environment, of the role of a service account (IRSA), of EKS Pod Identity or an ECS task, or of the
//! machine's role, in this order, which is that of Amazon's own tools.

use std::path::PathBuf;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use super::signature::Keys;
use super::token::{Credentials, Environment, ExpiringCredentials, json, server, server_and_path, text, token_in};
use crate::SourceError;
use crate::http::{Form, Http, sensitive};

const ADVICE: &str = "does the role exist, and does it trust this service account or machine?";
/// The lifetime of a token for the metadata server, in seconds.
const METADATA_TOKEN_SECONDS: &str = "300";
/// Keys of the environment do not end.
const ALWAYS: i64 = i64::MAX;
/// The service that requests are signed for: Amazon Managed Prometheus.
pub const SERVICE: &str = "aps";

pub struct AwsAccount {
    region: String,
    way: Way,
}

enum Way {
    Environment(Keys),
    ServiceAccount { sts: Http, role: String, session: String, token_file: PathBuf },
    Container { http: Http, path: String, token: Option<ContainerToken> },
    Machine { metadata: Http },
}

enum ContainerToken {
    File(PathBuf),
    Text(SecretString),
}

/// The answer to containers and to machines.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RoleCredentials {
    access_key_id: String,
    secret_access_key: String,
    token: String,
    expiration: jiff::Timestamp,
}

impl AwsAccount {
    pub fn new(url: &str, environment: Environment<'_>) -> Result<Self, SourceError> {
        let named = |name: &str| environment(name).filter(|value| !value.is_empty());
        let host = url.parse().ok().and_then(|url: Uri| url.host().map(str::to_owned));
        let region =
            host.as_deref().and_then(region_of).or_else(|| named("AWS_REGION")).or_else(|| named("AWS_DEFAULT_REGION"));
        let region = region.ok_or_else(|| {
            SourceError::Permanent("the region is neither in the URL nor in AWS_REGION: set that".to_owned())
        })?;
        let way = if let (Some(id), Some(secret)) = (named("AWS_ACCESS_KEY_ID"), named("AWS_SECRET_ACCESS_KEY")) {
            let session = named("AWS_SESSION_TOKEN").map(SecretString::from);
            Way::Environment(Keys { id, secret: secret.into(), session })
        } else if let (Some(file), Some(role)) = (named("AWS_WEB_IDENTITY_TOKEN_FILE"), named("AWS_ROLE_ARN")) {
            let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
            let sts = named("AWS_ENDPOINT_URL_STS").unwrap_or_else(|| format!("https://sts.{region}.{domain}"));
            let session = named("AWS_ROLE_SESSION_NAME").unwrap_or_else(|| "headroom-collector".to_owned());
            Way::ServiceAccount { sts: server(sts.trim_end_matches('/'))?, role, session, token_file: file.into() }
        } else if let Some(container) = container(&named)? {
            container
        } else {
            let metadata = named("AWS_EC2_METADATA_SERVICE_ENDPOINT");
            let metadata = metadata.unwrap_or_else(|| "http://169.254.169.254".to_owned());
            Way::Machine { metadata: server(metadata.trim_end_matches('/'))? }
        };
        Ok(Self { region, way })
    }

    pub fn describe(&self) -> String {
        let way = match &self.way {
            Way::Environment(keys) => format!("key {} of the environment", keys.id),
            Way::ServiceAccount { role, .. } => format!("role {role} of the service account"),
            Way::Container { http, .. } => format!("role of the pod or task, from `{}`", http.name()),
            Way::Machine { metadata } => {
                format!("role of the machine, from the metadata server at `{}`", metadata.name())
            }
        };
        format!("Amazon in {}, {way}", self.region)
    }

    pub async fn ask(&self) -> Result<ExpiringCredentials, SourceError> {
        let (keys, until) = match &self.way {
            Way::Environment(keys) => (keys.clone(), ALWAYS),
            Way::ServiceAccount { sts, role, session, token_file } => {
                let token = token_in(token_file)?;
                let form = Form::default()
                    .with("Action", "AssumeRoleWithWebIdentity")
                    .with("Version", "2011-06-15")
                    .with("RoleArn", role)
                    .with("RoleSessionName", session)
                    .with_secret("WebIdentityToken", token.trim());
                let answer = sts.post("/", form).await?;
                assumed(&text(answer, ADVICE).await?).ok_or_else(|| unreadable(sts))?
            }
            Way::Container { http, path, token } => {
                let mut headers = HeaderMap::new();
                if let Some(token) = token {
                    let token = match token {
                        ContainerToken::File(file) => token_in(file)?,
                        ContainerToken::Text(token) => token.expose_secret().to_owned(),
                    };
                    headers.insert(AUTHORIZATION, sensitive(token.trim()).map_err(|_| unreadable(http))?);
                }
                let answer = http.send(Method::GET, path, &[], headers, Vec::new(), &[]).await?;
                json::<RoleCredentials>(http, answer, ADVICE).await?.keys()
            }
            Way::Machine { metadata } => machine(metadata).await?,
        };
        let credentials = Credentials::Keys { keys, region: self.region.clone() };
        Ok(ExpiringCredentials { credentials, until })
    }
}

impl RoleCredentials {
    /// The keys, and when they expire.
    fn keys(self) -> (Keys, i64) {
        let Self { access_key_id: id, secret_access_key, token, expiration } = self;
        let keys = Keys { id, secret: secret_access_key.into(), session: Some(token.into()) };
        (keys, expiration.as_second())
    }
}

/// The region in the name of one of Amazon's hosts: `aps-workspaces.eu-central-1.amazonaws.com`, a private one with more
/// in front, or one of the newer domain.
pub fn region_of(host: &str) -> Option<String> {
    let is_amazons = [".amazonaws.com", ".amazonaws.com.cn", ".api.aws"].iter().any(|domain| host.ends_with(domain));
    let mut labels = host.split('.').skip_while(|label| !label.starts_with("aps-workspaces"));
    labels.next().filter(|_| is_amazons)?;
    labels.next().map(str::to_owned)
}

/// The URL in the environment that gives a container its role.
fn container(named: &dyn Fn(&str) -> Option<String>) -> Result<Option<Way>, SourceError> {
    let url = named("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        .or_else(|| named("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").map(|path| format!("http://169.254.170.2{path}")));
    let Some(url) = url else { return Ok(None) };
    let (http, path) = server_and_path(&url)?;
    let token = named("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").map(|file| ContainerToken::File(file.into()));
    let token =
        token.or_else(|| named("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(|text| ContainerToken::Text(text.into())));
    Ok(Some(Way::Container { http, path, token }))
}

/// The metadata server gives its answers only against a token of its own (IMDSv2).
async fn machine(metadata: &Http) -> Result<(Keys, i64), SourceError> {
    const ROLES: &str = "/latest/meta-data/iam/security-credentials/";
    let lifetime = HeaderName::from_static("x-aws-ec2-metadata-token-ttl-seconds");
    let headers = HeaderMap::from_iter([(lifetime, HeaderValue::from_static(METADATA_TOKEN_SECONDS))]);
    let answer = metadata.send(Method::PUT, "/latest/api/token", &[], headers, Vec::new(), &[]).await?;
    let token = text(answer, "is this a machine of Amazon's?").await?;
    let token = sensitive(token.trim()).map_err(|_| unreadable(metadata))?;
    let headers = HeaderMap::from_iter([(HeaderName::from_static("x-aws-ec2-metadata-token"), token)]);
    let get = async |path: &str| metadata.send(Method::GET, path, &[], headers.clone(), Vec::new(), &[]).await;
    let roles = text(get(ROLES).await?, "does the machine have a role?").await?;
    let role = roles.lines().next().unwrap_or_default().trim();
    Ok(json::<RoleCredentials>(metadata, get(&format!("{ROLES}{role}")).await?, ADVICE).await?.keys())
}

fn unreadable(http: &Http) -> SourceError {
    SourceError::Permanent(format!("the answer of `{}` cannot be read", http.name()))
}

/// The keys in the XML that STS answers with. It holds each element once.
fn assumed(xml: &str) -> Option<(Keys, i64)> {
    let element = |name: &str| {
        let (_, rest) = xml.split_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>"))?.0.trim().to_owned())
    };
    let until = element("Expiration")?.parse::<jiff::Timestamp>().ok()?.as_second();
    let session = Some(element("SessionToken")?.into());
    Some((Keys { id: element("AccessKeyId")?, secret: element("SecretAccessKey")?.into(), session }, until))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_in_the_host() {
        let check = |host: &str, region: Option<&str>| assert_eq!(region_of(host).as_deref(), region, "{host}");
        check("aps-workspaces.eu-central-1.amazonaws.com", Some("eu-central-1"));
        check("aps-workspaces.cn-north-1.amazonaws.com.cn", Some("cn-north-1"));
        check("vpce-1.aps-workspaces.eu-central-1.vpce.amazonaws.com", Some("eu-central-1"));
        check("aps-workspaces-fips.us-gov-west-1.api.aws", Some("us-gov-west-1"));
        check("aps-workspaces.eu-central-1.example", None);
        check("prometheus.example", None);
    }

    #[test]
    fn keys_are_found_in_the_answer_of_sts() {
        let xml = "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\
                   <AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>s/+=</SecretAccessKey><SessionToken>t==</SessionToken>\
                   <Expiration>2026-11-21T01:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";
        let (keys, until) = assumed(xml).unwrap();
        assert_eq!((keys.id.as_str(), keys.secret.expose_secret(), until), ("ASIA1", "s/+=", 1_795_222_800));
        assert!(assumed("<html>").is_none() && assumed(&xml.replace("Expiration", "Other")).is_none());
    }
}
