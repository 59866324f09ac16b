//! Tokens and keys that a cloud's own server gives, and the requests for them.

use std::path::Path;
use std::time::Duration;

use headroom_api_server::clock;
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::signature::Keys;
use crate::SourceError;
use crate::http::{Endpoint, Http, Response, StoreText, refusal};

/// A metadata server is near.
const TIMEOUT: Duration = Duration::from_secs(10);

pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Credentials of a cloud, and when they expire (Unix seconds).
#[derive(Clone)]
pub struct ExpiringCredentials {
    pub credentials: Credentials,
    pub until: i64,
}

#[derive(Clone)]
pub enum Credentials {
    Token(SecretString),
    /// Sign requests to Amazon in a region.
    Keys {
        keys: Keys,
        region: String,
    },
}

/// The token in the answer of Google or Azure.
#[derive(Deserialize)]
pub struct Token {
    pub access_token: String,
    #[serde(deserialize_with = "seconds")]
    expires_in: i64,
}

impl Token {
    pub fn kept(self) -> ExpiringCredentials {
        let until = clock::now().saturating_add(self.expires_in);
        ExpiringCredentials { credentials: Credentials::Token(self.access_token.into()), until }
    }
}

/// Most servers return a number, one of Azure's a string.
fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let found = Value::deserialize(deserializer)?;
    let seconds = found.as_i64().or_else(|| found.as_str()?.parse().ok());
    seconds.ok_or_else(|| serde::de::Error::custom("expires_in is not a number of seconds"))
}

/// A server that gives credentials.
pub fn server(url: &str) -> Result<Http, SourceError> {
    Http::new(&Endpoint { timeout: TIMEOUT, ..Endpoint::new(url) })
}

/// The server of a URL, and the path there.
pub fn server_and_path(url: &str) -> Result<(Http, String), SourceError> {
    let begin = url.find("://").map_or(0, |at| at + 3);
    let path = url.get(begin..).and_then(|rest| rest.find('/'));
    let (before, path) = url.split_at(path.map_or(url.len(), |at| begin + at));
    Ok((server(before)?, path.to_owned()))
}

/// A token that the cluster keeps in a file.
pub fn token_in(file: &Path) -> Result<String, SourceError> {
    std::fs::read_to_string(file)
        .map_err(|error| SourceError::Permanent(format!("cannot read the token `{}`: {error}", file.display())))
}

/// The JSON of a good answer. `advice` is what to do about a refusal.
pub async fn json<T: DeserializeOwned>(http: &Http, answer: Response, advice: &str) -> Result<T, SourceError> {
    let text = text(answer, advice).await?;
    serde_json::from_str(&text).map_err(|error| {
        // The error's own words may quote the text, which holds a secret.
        let (line, column) = (error.line(), error.column());
        SourceError::Permanent(format!("the answer of `{}` cannot be read at {line}:{column}", http.name()))
    })
}

pub async fn text(answer: Response, advice: &str) -> Result<String, SourceError> {
    let (status, redactor) = (answer.status, answer.redactor());
    let text = answer.text().await?;
    if status.is_success() {
        return Ok(text.into_data());
    }
    Err(match refusal(&redactor, status, &said(text)) {
        SourceError::Forbidden(what) | SourceError::Permanent(what) => {
            SourceError::Permanent(format!("{what}; {advice}"))
        }
        other => other,
    })
}

/// The reason for a refusal of a server of credentials, in JSON or not.
fn said(text: StoreText) -> StoreText {
    #[derive(Deserialize)]
    struct TokenRefusal {
        error_description: Option<StoreText>,
        message: Option<StoreText>,
    }
    let reason = text.json::<TokenRefusal>().ok().and_then(|refusal| refusal.error_description.or(refusal.message));
    reason.unwrap_or(text)
}
