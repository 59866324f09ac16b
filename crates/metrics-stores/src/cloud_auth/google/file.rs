//! The file of Google's credentials: the key of a service account, which signs an assertion; the file with a token of another
//! identity provider (workload identity federation); or the login of a person.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use headroom_api_server::clock;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::{Value, json as object};

use super::SCOPE;
use crate::SourceError;
use crate::cloud_auth::token::{Credentials, ExpiringCredentials, Token, json, server_and_path};
use crate::http::{Form, Http, authorization};

const ADVICE: &str = "does the account have the role roles/monitoring.viewer, and are the credentials still good?";
const TOKEN_SERVER: &str = "https://oauth2.googleapis.com/token";
const IMPERSONATING: &str = "https://www.googleapis.com/auth/cloud-platform";
/// The lifetime of a signed assertion in seconds: the maximum at Google.
const GOOD_FOR: i64 = 3_600;

pub struct CredentialsFile {
    path: PathBuf,
    server: Http,
    /// The path of the token server's URL.
    at: String,
    holds: Holds,
}

enum Holds {
    Key { email: String, id: Option<String>, audience: String, key: RsaKeyPair },
    Federation { audience: String, token_type: String, source: TokenFile, impersonation: Option<(Http, String)> },
    Login { client: String, secret: SecretString, refresh: SecretString },
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum CredentialsJson {
    ServiceAccount {
        client_email: String,
        private_key: String,
        private_key_id: Option<String>,
        token_uri: Option<String>,
    },
    ExternalAccount {
        audience: String,
        subject_token_type: String,
        token_url: String,
        service_account_impersonation_url: Option<String>,
        credential_source: TokenFile,
    },
    AuthorizedUser {
        client_id: String,
        client_secret: String,
        refresh_token: String,
        token_uri: Option<String>,
    },
    #[serde(other)]
    Other,
}

/// The file with another provider's token.
#[derive(Deserialize)]
struct TokenFile {
    file: PathBuf,
    format: Option<TokenFormat>,
}

#[derive(Deserialize)]
struct TokenFormat {
    /// The field of a JSON file that has the token.
    subject_token_field_name: Option<String>,
}

/// The response of the impersonation of a service account.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Impersonated {
    access_token: String,
    expire_time: jiff::Timestamp,
}

impl CredentialsFile {
    pub fn read(path: &Path) -> Result<Self, SourceError> {
        let wrong = |what: String| SourceError::Permanent(format!("the credentials in `{}`: {what}", path.display()));
        let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let written = serde_json::from_slice(&text).map_err(|error| {
            // serde_json quotes no texts, but for the names of fields and kinds.
            wrong(format!("not a file of Google's ({error})"))
        })?;
        let (url, holds) = match written {
            CredentialsJson::ServiceAccount { client_email: email, private_key, private_key_id: id, token_uri } => {
                let url = token_uri.unwrap_or_else(|| TOKEN_SERVER.to_owned());
                let key = key(&private_key).ok_or_else(|| wrong("the private key cannot be read".to_owned()))?;
                (url.clone(), Holds::Key { email, id, audience: url, key })
            }
            CredentialsJson::ExternalAccount {
                audience,
                subject_token_type: token_type,
                token_url,
                service_account_impersonation_url: impersonation,
                credential_source: source,
            } => {
                let impersonation = impersonation.map(|url| server_and_path(&url)).transpose()?;
                (token_url, Holds::Federation { audience, token_type, source, impersonation })
            }
            CredentialsJson::AuthorizedUser { client_id: client, client_secret, refresh_token, token_uri } => {
                let url = token_uri.unwrap_or_else(|| TOKEN_SERVER.to_owned());
                (url, Holds::Login { client, secret: client_secret.into(), refresh: refresh_token.into() })
            }
            CredentialsJson::Other => {
                return Err(wrong(
                    "expected a service_account, an external_account with a file, or an authorized_user".to_owned(),
                ));
            }
        };
        let (server, at) = server_and_path(&url)?;
        Ok(Self { path: path.to_owned(), server, at, holds })
    }

    pub fn describe(&self) -> String {
        let path = self.path.display();
        match &self.holds {
            Holds::Key { email, .. } => format!("key of service account {email} in `{path}`"),
            Holds::Federation { source, .. } => {
                format!("workload identity federation of the token `{}`, by `{path}`", source.file.display())
            }
            Holds::Login { .. } => format!("a person's login in `{path}`"),
        }
    }

    fn form(&self) -> Result<Form<'static>, SourceError> {
        Ok(match &self.holds {
            Holds::Key { email, id, audience, key } => Form::default()
                .with("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer")
                .with_secret("assertion", &self.signed(email, id.as_deref(), audience, key)?),
            Holds::Federation { audience, token_type, source, impersonation } => Form::default()
                .with("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange")
                .with("audience", audience)
                // To be a service account takes more than to read metrics does.
                .with("scope", impersonation.as_ref().map_or(SCOPE, |_| IMPERSONATING))
                .with("requested_token_type", "urn:ietf:params:oauth:token-type:access_token")
                .with("subject_token_type", token_type)
                .with_secret("subject_token", &source.token()?),
            Holds::Login { client, secret, refresh } => Form::default()
                .with("grant_type", "refresh_token")
                .with("client_id", client)
                .with_secret("client_secret", secret.expose_secret())
                .with_secret("refresh_token", refresh.expose_secret()),
        })
    }

    pub async fn ask(&self) -> Result<ExpiringCredentials, SourceError> {
        let answer = self.server.post(&self.at, self.form()?).await?;
        let token: Token = json(&self.server, answer, ADVICE).await?;
        match &self.holds {
            Holds::Federation { impersonation: Some((service_account, at)), .. } => {
                impersonated(service_account, at, &token).await
            }
            _ => Ok(token.kept()),
        }
    }

    /// The signed assertion of the service account (a JWT).
    fn signed(&self, email: &str, id: Option<&str>, audience: &str, key: &RsaKeyPair) -> Result<String, SourceError> {
        let now = clock::now();
        let mut header = object!({"alg": "RS256", "typ": "JWT"});
        if let (Some(id), Some(header)) = (id, header.as_object_mut()) {
            header.insert("kid".to_owned(), Value::from(id));
        }
        let claims = object!({"iss": email, "scope": SCOPE, "aud": audience, "iat": now, "exp": now + GOOD_FOR});
        let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let text = format!("{header}.{claims}");
        let mut signature = vec![0; key.public().modulus_len()];
        let signed = key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature);
        signed.map_err(|_| SourceError::Permanent(format!("the key in `{}` cannot sign", self.path.display())))?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

impl TokenFile {
    fn token(&self) -> Result<String, SourceError> {
        let wrong = |what: &str| SourceError::Permanent(format!("the token `{}`: {what}", self.file.display()));
        let text = std::fs::read_to_string(&self.file).map_err(|error| wrong(&error.to_string()))?;
        let field = self.format.as_ref().and_then(|format| format.subject_token_field_name.as_ref());
        let Some(field) = field else { return Ok(text.trim().to_owned()) };
        let object: Value = serde_json::from_str(&text).map_err(|_| wrong("not JSON"))?;
        let token = object.get(field).and_then(Value::as_str);
        token.map(str::to_owned).ok_or_else(|| wrong(&format!("there is no `{field}` in it")))
    }
}

async fn impersonated(service_account: &Http, at: &str, token: &Token) -> Result<ExpiringCredentials, SourceError> {
    let bearer = authorization("Bearer", &token.access_token);
    let bearer = bearer.map_err(|what| SourceError::Permanent(format!("the token of Google {what}")))?;
    let headers =
        HeaderMap::from_iter([(AUTHORIZATION, bearer), (CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    let body = object!({"scope": [SCOPE]}).to_string().into_bytes();
    let answer = service_account.send(Method::POST, at, &[], headers, body, &[]).await?;
    let advice = "may this identity impersonate the service account (roles/iam.workloadIdentityUser)?";
    let Impersonated { access_token, expire_time } = json(service_account, answer, advice).await?;
    Ok(ExpiringCredentials { credentials: Credentials::Token(access_token.into()), until: expire_time.as_second() })
}

fn key(pem: &str) -> Option<RsaKeyPair> {
    let text: String = pem.lines().filter(|line| !line.starts_with("-----")).map(str::trim).collect();
    RsaKeyPair::from_pkcs8(&STANDARD.decode(text).ok()?).ok()
}
