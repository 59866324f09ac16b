//! Sends requests to metrics stores, and nothing else does.
//!
//! It uses kube's client, which the programs have anyway, with its TLS stack, certificate authorities, gzip and proxies. It does
//! not read responses: a response is a status and bytes, and each source knows what they mean.

mod redact;
mod url;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use form_urlencoded::Serializer;
use futures::stream::TryStreamExt as _;
use http::header::{AUTHORIZATION, CONTENT_TYPE, DATE, InvalidHeaderValue};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::BodyDataStream;
use kube::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::Instant;

pub use self::redact::{Redactor, StoreText};
pub use self::url::Url;
use headroom_api_server::ApiPath;
use headroom_api_server::error_chain::innermost;
use headroom_api_server::proxy::{self, Proxies};

use super::SourceError;

/// Longest text of an error answer, or of one that is wanted whole, that is kept.
const MAX_TEXT_BYTES: usize = 64 << 10;
/// The characters that are not escaped in a query (RFC 3986). Signatures are made of the query as it is sent.
const IN_QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[derive(Clone, Default)]
pub enum Authentication {
    #[default]
    None,
    /// A file with a bearer token. Read again for every request, because service account tokens rotate.
    TokenFile(PathBuf),
    Basic {
        user: String,
        password: SecretString,
    },
    Cloud(Arc<dyn Authorize>),
}

/// Adds credentials to each request, which are requested when they are needed.
#[async_trait]
pub trait Authorize: Send + Sync {
    /// The origin of the credentials, for people.
    fn describe(&self) -> String;

    /// Returns true for Google, whose gateway refuses parameters that it does not know.
    fn is_google(&self) -> bool;

    /// Adds credentials to a request to the server at `base`.
    async fn authorize(&self, base: &Uri, request: &mut Request<Vec<u8>>) -> Result<(), SourceError>;

    /// The next request asks for new credentials.
    async fn forget(&self);
}

/// The address of a metrics store, and the options of its requests.
#[derive(Clone)]
pub struct Endpoint {
    /// With the path in front of the API, if any: `https://mimir.example/prometheus`.
    pub url: Url,
    pub authentication: Authentication,
    pub headers: BTreeMap<String, String>,
    /// The tenant of a Mimir, Cortex or Thanos with several: sent as `X-Scope-OrgID`.
    pub tenant: Option<String>,
    /// Certificate authorities to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    pub accept_invalid_certificates: bool,
    /// The name in the store's certificate, where it is reached under another.
    pub tls_server_name: Option<String>,
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
            tls_server_name: None,
            timeout: Duration::from_secs(60),
        }
    }

    /// The further headers, the tenant's among them.
    fn header_map(&self) -> Result<HeaderMap, SourceError> {
        // Headers may be as good as a password; a tenant's name is none, and stores name it in their errors.
        let tenant = self.tenant.iter().map(|tenant| ("x-scope-orgid", tenant.as_str(), false));
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str(), true));
        let mut map = HeaderMap::new();
        for (name, value, is_sensitive) in headers.chain(tenant) {
            let parsed = (HeaderName::try_from(name), HeaderValue::try_from(value));
            let (Ok(parsed), Ok(mut value)) = parsed else {
                return Err(SourceError::Permanent(format!(
                    "header `{name}` has a name or value that HTTP does not allow"
                )));
            };
            value.set_sensitive(is_sensitive);
            map.insert(parsed, value);
        }
        Ok(map)
    }
}

/// A connection to a metrics store; cheap to clone, and shared by concurrent reads.
#[derive(Clone)]
pub struct Http {
    client: kube::Client,
    /// The prefix of the path of every request.
    prefix: String,
    /// Scheme, host and path in front of that.
    base: Uri,
    headers: HeaderMap,
    /// A user and a password are among the headers already.
    authentication: Authentication,
    /// The name of the store in messages.
    name: String,
    pub timeout: Duration,
}

/// A status, and a body that arrives piece by piece.
pub struct Response {
    pub status: StatusCode,
    headers: HeaderMap,
    body: BodyDataStream<Body>,
    deadline: Instant,
    http: Http,
    redactor: Redactor,
}

/// A form, as token servers and, for long questions, metrics stores read it.
#[derive(Default)]
pub struct Form<'n> {
    fields: Vec<(&'n str, String)>,
    secrets: Vec<String>,
}

impl<'n> Form<'n> {
    pub fn with(mut self, name: &'n str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    pub fn with_secret(mut self, name: &'n str, value: &str) -> Self {
        self.secrets.push(value.to_owned());
        self.with(name, value)
    }
}

impl Http {
    /// Needs a Tokio runtime around it. Sends nothing yet.
    pub fn new(endpoint: &Endpoint) -> Result<Self, SourceError> {
        let wrong = |what: &str| SourceError::Permanent(format!("`{}`: {what}", endpoint.url));
        if endpoint.url.has_credentials() {
            return Err(wrong("has a user or password in it: name `user` and `passwordFile` in --source"));
        }
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
        config.tls_server_name.clone_from(&endpoint.tls_server_name);
        let base = config.cluster_url.clone();
        let mut headers = endpoint.header_map()?;
        if let Authentication::Basic { user, password } = &endpoint.authentication {
            let value = authorization("Basic", &STANDARD.encode(format!("{user}:{}", password.expose_secret())));
            headers.insert(AUTHORIZATION, value.map_err(|what| wrong(&format!("the password {what}")))?);
        }
        let client = proxy::client(config).map_err(|problem| wrong(&problem))?;
        let (name, timeout, authentication) =
            (endpoint.url.to_string(), endpoint.timeout, endpoint.authentication.clone());
        Ok(Self { client, prefix: String::new(), base, headers, authentication, name, timeout })
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
            prefix: ApiPath::new("/api/v1").collection(Some(namespace), "services").at(service).at("proxy").to_string(),
            base: Uri::default(),
            headers: endpoint.header_map()?,
            authentication: Authentication::None,
            name: format!("service {namespace}/{service}"),
            timeout: endpoint.timeout,
        })
    }

    /// The same, called otherwise in messages.
    pub fn called(self, name: String) -> Self {
        Self { name, ..self }
    }

    /// The same with a path in front of the API.
    pub fn below(self, path: &str) -> Self {
        Self { prefix: format!("{}{path}", self.prefix), ..self }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks `path` with the given parameters; the answer's body has not arrived yet.
    pub async fn get(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Response, SourceError> {
        self.send(Method::GET, path, parameters, HeaderMap::new(), Vec::new(), &[]).await
    }

    /// Like [`Self::get`]; as a form, if the parameters may be too long for an address.
    pub async fn get_or_post(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Response, SourceError> {
        // Servers and proxies read 8 KB, and quoting makes a parameter longer.
        const MOST: usize = 4_000;
        if parameters.iter().map(|(_, value)| value.len()).sum::<usize>() <= MOST {
            return self.get(path, parameters).await;
        }
        self.post(path, parameters.iter().fold(Form::default(), |form, (name, value)| form.with(name, *value))).await
    }

    pub async fn post(&self, path: &str, Form { fields, secrets }: Form<'_>) -> Result<Response, SourceError> {
        const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");
        let body = Serializer::new(String::new()).extend_pairs(&fields).finish().into_bytes();
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, FORM)]);
        self.send(Method::POST, path, &[], headers, body, &secrets).await
    }

    /// `secrets` are those that the body holds.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        parameters: &[(&str, &str)],
        headers: HeaderMap,
        body: Vec<u8>,
        secrets: &[String],
    ) -> Result<Response, SourceError> {
        let query = query(parameters);
        let target = format!("{}{path}{}{query}", self.prefix, if query.is_empty() { "" } else { "?" });
        let target: Uri =
            target.parse().map_err(|error| SourceError::Permanent(format!("cannot ask `{}`: {error}", self.name)))?;
        let mut is_second = false;
        loop {
            let mut request = Request::new(body.clone());
            *request.method_mut() = method.clone();
            *request.uri_mut() = target.clone();
            request.headers_mut().extend(self.headers.clone());
            request.headers_mut().extend(headers.clone());
            let answer = self.send_once(request, secrets).await?;
            match &self.authentication {
                // A cloud may take back a token before its end: one more try with another.
                Authentication::Cloud(identity) if answer.status == StatusCode::UNAUTHORIZED && !is_second => {
                    identity.forget().await;
                    is_second = true;
                }
                _ => return Ok(answer),
            }
        }
    }

    async fn send_once(&self, mut request: Request<Vec<u8>>, secrets: &[String]) -> Result<Response, SourceError> {
        match &self.authentication {
            Authentication::None | Authentication::Basic { .. } => {}
            Authentication::TokenFile(path) => {
                request.headers_mut().insert(AUTHORIZATION, token_in(path)?);
            }
            Authentication::Cloud(identity) => identity.authorize(&self.base, &mut request).await?,
        }
        let redactor = Redactor::new(&self.name, request.headers(), secrets);
        let request = request.map(Body::from);
        let deadline = Instant::now() + self.timeout;
        match tokio::time::timeout_at(deadline, self.client.send(request)).await {
            Err(_) => Err(self.timed_out()),
            Ok(Err(error)) => {
                Err(SourceError::Temporary(format!("cannot reach `{}`: {}", self.name, innermost(&error))))
            }
            Ok(Ok(response)) => {
                let (parts, body) = response.into_parts();
                let (status, headers, http) = (parts.status, parts.headers, self.clone());
                let body = BodyDataStream::new(body);
                Ok(Response { status, headers, body, deadline, http, redactor })
            }
        }
    }

    /// A store that needs too long may well answer in time when asked for less.
    fn timed_out(&self) -> SourceError {
        SourceError::Overloaded(format!("`{}` did not answer within {} s", self.name, self.timeout.as_secs_f32()))
    }
}

impl Response {
    pub fn redactor(&self) -> Redactor {
        self.redactor.clone()
    }

    /// The clock of the server in Unix seconds, by the `Date` of its response.
    pub fn date(&self) -> Result<i64, SourceError> {
        let date = self.headers.get(DATE).and_then(|date| jiff::fmt::rfc2822::parse(date.to_str().ok()?).ok());
        date.map(|date| date.timestamp().as_second()).ok_or_else(|| {
            SourceError::Permanent(format!("`{}` does not report its time: no `Date` in its response", self.http.name))
        })
    }

    /// The next bytes of the body, `None` at its end.
    pub async fn next(&mut self) -> Result<Option<bytes::Bytes>, SourceError> {
        let next = tokio::time::timeout_at(self.deadline, self.body.try_next()).await;
        next.map_err(|_| self.http.timed_out())?.map_err(|error| {
            SourceError::Temporary(format!("the answer of `{}` broke off: {}", self.http.name, innermost(&error)))
        })
    }

    /// The beginning of the body as text: of an error, or of an answer that is short.
    pub async fn text(mut self) -> Result<StoreText, SourceError> {
        let mut text = Vec::new();
        while text.len() < MAX_TEXT_BYTES
            && let Some(bytes) = self.next().await?
        {
            text.extend_from_slice(&bytes);
        }
        Ok(String::from_utf8_lossy(&text).into())
    }
}

/// The error of an HTTP status, for a body without a better one.
pub fn refusal(redactor: &Redactor, status: StatusCode, said: &StoreText) -> SourceError {
    let line = redactor.shown(said);
    // Nothing of a page for browsers.
    let said = if line.is_empty() || line.starts_with('<') { String::new() } else { format!(": `{line}`") };
    let text = |advice: &str| format!("`{}` answers {}{said}{advice}", redactor.store, status.as_u16());
    match status.as_u16() {
        401 | 403 => SourceError::Forbidden(text(": check the token, user or tenant, and what they may read")),
        404 => SourceError::Permanent(text(": check the URL, and the path in front of the API")),
        300..=399 => SourceError::Permanent(text(": a redirection; give the URL it leads to")),
        408 | 413 | 422 | 504 => SourceError::Overloaded(text("")),
        429 | 500..=599 => SourceError::Temporary(text("")),
        _ => SourceError::Permanent(text("")),
    }
}

/// The parameters as they are sent. A space is `%20`, which everybody understands, and signatures want.
fn query(parameters: &[(&str, &str)]) -> String {
    let escaped = |text| utf8_percent_encode(text, IN_QUERY).to_string();
    let pairs: Vec<_> =
        parameters.iter().map(|(name, value)| format!("{}={}", escaped(name), escaped(value))).collect();
    pairs.join("&")
}

/// The header for the token in a file, in which people leave a newline at the end.
fn token_in(file: &Path) -> Result<HeaderValue, SourceError> {
    let wrong = |what: String| SourceError::Permanent(format!("the token in `{}`: {what}", file.display()));
    let token = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    authorization("Bearer", token.trim()).map_err(|what| wrong(what.to_owned()))
}

pub fn authorization(scheme: &str, token: &str) -> Result<HeaderValue, &'static str> {
    sensitive(&format!("{scheme} {token}")).map_err(|_| "has characters that no token has")
}

/// A value that no log and no error shows.
pub fn sensitive(text: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::try_from(text)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_a_scheme_is_refused() {
        let refused = Http::new(&Endpoint::new("prometheus:9090")).err();
        assert_eq!(
            refused,
            Some(SourceError::Permanent("`prometheus:9090`: must start with `http://` or `https://`".into()))
        );
    }

    #[test]
    fn a_query_is_escaped_as_signatures_want_it() {
        let parameters = [("query", r#"up{a="ä b"}"#), ("time", "1.5")];
        assert_eq!(query(&parameters), "query=up%7Ba%3D%22%C3%A4%20b%22%7D&time=1.5");
        assert_eq!(query(&[]), "");
    }

    #[test]
    fn a_status_tells_whether_to_ask_for_less_again_or_never() {
        let redactor = Redactor::new("http://p", &HeaderMap::new(), &[]);
        let check = |status: u16, said: &str, kind: fn(String) -> SourceError, text: &str| {
            let found = refusal(&redactor, StatusCode::from_u16(status).unwrap(), &said.into());
            assert_eq!(found, kind(format!("`http://p` answers {status}{text}")));
        };
        let advice = ": `Unauthorized`: check the token, user or tenant, and what they may read";
        check(401, "Unauthorized\n", SourceError::Forbidden, advice);
        check(504, "<html>", SourceError::Overloaded, "");
        check(503, "Service Unavailable", SourceError::Temporary, ": `Service Unavailable`");
        check(429, "", SourceError::Temporary, "");
        check(400, "bad", SourceError::Permanent, ": `bad`");
        check(302, "", SourceError::Permanent, ": a redirection; give the URL it leads to");
    }
}
