//! The one place that sends requests to a metrics store: where it is, who we are, how long we wait.
//!
//! It uses kube's client, which the companion has anyway: one TLS stack, and with it bearer tokens, basic auth, own
//! certificate authorities, gzip and proxies, already well kept. It knows nothing of what is asked: an answer is a
//! status and bytes, and what they mean is for the source.

mod url;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::{AUTHORIZATION, DATE};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri};
use http_body_util::BodyExt as _;
use kube::client::Body;
use tokio::time::Instant;

pub use self::url::{Secret, Url};
use super::SourceError;
use super::proxy::{self, Proxies};

/// Longest text of an error answer that is kept: enough for its sentence.
const ERROR_TEXT: usize = 64 << 10;

/// Who we are to the metrics store.
#[derive(Clone, Default)]
pub enum Authentication {
    #[default]
    None,
    Bearer(Secret),
    /// Read again for every request, because service account tokens rotate.
    BearerFile(PathBuf),
    Basic {
        user: String,
        password: Secret,
    },
}

/// Where a metrics store is and how it is to be spoken to.
#[derive(Clone)]
pub struct Endpoint {
    /// With the path in front of the API, if any: `https://mimir.example/prometheus`. A user and password in it count
    /// where `authentication` is none.
    pub url: Url,
    pub authentication: Authentication,
    pub headers: BTreeMap<String, String>,
    /// The tenant of a Mimir, Cortex or Thanos with several: sent as `X-Scope-OrgID`.
    pub tenant: Option<String>,
    /// Certificate authorities to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    pub accept_invalid_certificates: bool,
    /// For a whole answer, from connecting to the last byte.
    pub timeout: Duration,
}

impl Endpoint {
    pub fn new(url: impl Into<Url>) -> Self {
        Self {
            url: url.into(),
            authentication: Authentication::None,
            headers: BTreeMap::new(),
            tenant: None,
            ca_file: None,
            accept_invalid_certificates: false,
            timeout: Duration::from_secs(60),
        }
    }

    /// The further headers, the tenant's among them.
    fn header_map(&self) -> Result<HeaderMap, SourceError> {
        let tenant = self.tenant.iter().map(|tenant| ("x-scope-orgid", tenant.as_str()));
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut map = HeaderMap::new();
        for (name, value) in headers.chain(tenant) {
            let parsed = (HeaderName::try_from(name), HeaderValue::try_from(value));
            let (Ok(parsed), Ok(mut value)) = parsed else {
                return Err(SourceError::Permanent(format!(
                    "header `{name}` has a name or value that HTTP does not allow"
                )));
            };
            // Some are as good as a password.
            value.set_sensitive(true);
            map.insert(parsed, value);
        }
        Ok(map)
    }
}

/// A connection to a metrics store; cheap to clone, and shared by concurrent reads.
#[derive(Clone)]
pub struct Http {
    client: kube::Client,
    /// What stands before the path of every request.
    prefix: String,
    /// Sent with every request.
    headers: HeaderMap,
    token_file: Option<PathBuf>,
    /// How the store is called in messages.
    name: String,
    timeout: Duration,
}

/// A status, and a body that arrives piece by piece.
pub struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Body,
    deadline: Instant,
    http: Http,
}

impl Http {
    /// Needs a Tokio runtime around it. Sends nothing yet.
    pub fn new(endpoint: &Endpoint) -> Result<Self, SourceError> {
        let wrong = |what: &str| SourceError::Permanent(format!("`{}`: {what}", endpoint.url));
        let url: Uri = endpoint
            .url
            .as_str()
            .parse()
            .map_err(|_| wrong("not a URL: expected one such as `http://prometheus:9090`"))?;
        let plain = match url.scheme_str() {
            Some("http") => true,
            Some("https") => false,
            _ => return Err(wrong("must start with `http://` or `https://`")),
        };
        let mut config = kube::Config::new(url);
        config.proxy_url = Proxies::from_env().of(&config.cluster_url);
        config.default_retry = false; // the pipeline knows better when to ask again, and for less
        config.connect_timeout = Some(endpoint.timeout.min(Duration::from_secs(10)));
        config.read_timeout = None; // one deadline for the whole answer instead
        config.accept_invalid_certs = endpoint.accept_invalid_certificates;
        config.root_cert_file.clone_from(&endpoint.ca_file);
        if plain {
            // The system's authorities are not needed, and a minimal container image has none to load.
            config.root_cert = Some(Vec::new());
        }
        let mut token_file = None;
        match (&endpoint.authentication, endpoint.url.credentials()) {
            (Authentication::None, None) => {}
            (Authentication::Bearer(token), _) => config.auth_info.token = Some(token.reveal().to_owned().into()),
            (Authentication::BearerFile(path), _) => token_file = Some(path.clone()),
            (Authentication::Basic { user, password }, _) | (Authentication::None, Some((user, password))) => {
                config.auth_info.username = Some(user.clone());
                config.auth_info.password = Some(password.reveal().to_owned().into());
            }
        }
        let headers = endpoint.header_map()?;
        let client = proxy::client(config).map_err(|error| wrong(&innermost(&error)))?;
        let (name, timeout) = (endpoint.url.to_string(), endpoint.timeout);
        Ok(Self { client, prefix: String::new(), headers, token_file, name, timeout })
    }

    /// A store that is reached through the API server's proxy to a Service, with the rights of that client
    /// (`get` on `services/proxy`): for people at a laptop, to whom the store is not open. Headers and tenant of the
    /// endpoint are passed on; the API server keeps `Authorization` to itself.
    pub fn through_api_server(
        client: kube::Client,
        namespace: &str,
        service: &str,
        endpoint: &Endpoint,
    ) -> Result<Self, SourceError> {
        Ok(Self {
            client,
            prefix: format!("/api/v1/namespaces/{namespace}/services/{service}/proxy"),
            headers: endpoint.header_map()?,
            token_file: None,
            name: format!("service {namespace}/{service}"),
            timeout: endpoint.timeout,
        })
    }

    /// The API server itself, as a source of the metrics API and of checkpoints.
    pub fn api_server(client: kube::Client, timeout: Duration) -> Self {
        let name = "the API server".to_owned();
        Self { client, prefix: String::new(), headers: HeaderMap::new(), token_file: None, name, timeout }
    }

    /// How the store is called in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Asks `path` with the given parameters; the answer's body has not arrived yet.
    pub async fn get(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Answer, SourceError> {
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        let mut request = Request::get(format!("{}{path}?{query}", self.prefix));
        if let Some(headers) = request.headers_mut() {
            headers.extend(self.headers.clone());
        }
        if let Some(file) = &self.token_file {
            request = request.header(AUTHORIZATION, bearer(file)?);
        }
        let request = request
            .body(Body::empty())
            .map_err(|error| SourceError::Permanent(format!("cannot ask `{}`: {error}", self.name)))?;
        let deadline = Instant::now() + self.timeout;
        match tokio::time::timeout_at(deadline, self.client.send(request)).await {
            Err(_) => Err(self.timed_out()),
            Ok(Err(error)) => {
                Err(SourceError::Temporary(format!("cannot reach `{}`: {}", self.name, innermost(&error))))
            }
            Ok(Ok(response)) => {
                let (parts, body) = response.into_parts();
                Ok(Answer { status: parts.status, headers: parts.headers, body, deadline, http: self.clone() })
            }
        }
    }

    /// A store that needs too long may well answer in time when asked for less.
    fn timed_out(&self) -> SourceError {
        SourceError::Overloaded(format!("`{}` did not answer within {} s", self.name, self.timeout.as_secs_f32()))
    }
}

impl Answer {
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The clock of the server, in unix seconds, as its answer's `Date` tells it.
    pub fn date(&self) -> Result<i64, SourceError> {
        let date = self.headers.get(DATE).and_then(|date| date.to_str().ok());
        date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok()).map(|date| date.timestamp().as_second()).ok_or_else(
            || SourceError::Permanent(format!("`{}` does not tell its time: no `Date` in its answer", self.http.name)),
        )
    }

    /// The next bytes of the body, `None` at its end.
    pub async fn next(&mut self) -> Result<Option<bytes::Bytes>, SourceError> {
        loop {
            match tokio::time::timeout_at(self.deadline, self.body.frame()).await {
                Err(_) => return Err(self.http.timed_out()),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => {
                    return Err(SourceError::Temporary(format!(
                        "the answer of `{}` broke off: {}",
                        self.http.name,
                        innermost(&error)
                    )));
                }
                Ok(Some(Ok(frame))) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }

    /// The beginning of the body as text, for an answer that is an error.
    pub async fn error_text(mut self) -> Result<String, SourceError> {
        let mut text = Vec::new();
        while text.len() < ERROR_TEXT
            && let Some(bytes) = self.next().await?
        {
            text.extend_from_slice(&bytes);
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// The header for the token in a file, in which people leave a newline at the end.
fn bearer(file: &Path) -> Result<HeaderValue, SourceError> {
    let wrong = |what: String| SourceError::Permanent(format!("the token in `{}`: {what}", file.display()));
    let token = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim()))
        .map_err(|_| wrong("has characters that no token has".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// What an HTTP status says by itself, when the source found nothing more telling in the body.
pub fn refusal(store: &str, status: StatusCode, said: &str) -> SourceError {
    let text = |advice: &str| format!("`{store}` answers {}{}{advice}", status.as_u16(), quoted(said));
    match status.as_u16() {
        401 | 403 => SourceError::Permanent(text(": check the token, user or tenant, and what they may read")),
        404 => SourceError::Permanent(text(": check the URL, and the path in front of the API")),
        300..=399 => SourceError::Permanent(text(": a redirection; give the URL it leads to")),
        408 | 413 | 422 | 504 => SourceError::Overloaded(text("")),
        429 | 500..=599 => SourceError::Temporary(text("")),
        _ => SourceError::Permanent(text("")),
    }
}

/// The first line of what was said, not too long, or nothing.
fn quoted(said: &str) -> String {
    let line = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    if line.is_empty() || line.starts_with('<') {
        return String::new(); // a page for browsers
    }
    let short: String = line.chars().take(300).collect();
    format!(": `{short}`")
}

/// Errors wrap each other, and the innermost one says what happened.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: u16, said: &str, expected: SourceError) {
        assert_eq!(refusal("http://p", StatusCode::from_u16(status).unwrap(), said), expected);
    }

    #[test]
    fn a_status_tells_whether_to_ask_for_less_again_or_never() {
        check(
            401,
            "Unauthorized\n",
            SourceError::Permanent(
                "`http://p` answers 401: `Unauthorized`: check the token, user or tenant, and what they may read"
                    .into(),
            ),
        );
        check(504, "<html>", SourceError::Overloaded("`http://p` answers 504".into()));
        check(
            503,
            "Service Unavailable",
            SourceError::Temporary("`http://p` answers 503: `Service Unavailable`".into()),
        );
        check(429, "", SourceError::Temporary("`http://p` answers 429".into()));
        check(400, "bad", SourceError::Permanent("`http://p` answers 400: `bad`".into()));
        check(
            302,
            "",
            SourceError::Permanent("`http://p` answers 302: a redirection; give the URL it leads to".into()),
        );
    }

    #[test]
    fn a_url_without_a_scheme_is_refused() {
        let refused = Http::new(&Endpoint::new("prometheus:9090")).err();
        assert_eq!(
            refused,
            Some(SourceError::Permanent("`prometheus:9090`: must start with `http://` or `https://`".into()))
        );
    }
}
