//! The proxy for a server, by the usual environment variables.
//!
//! As in Go's tools: `HTTPS_PROXY` or `HTTP_PROXY` by the scheme of the URL, `ALL_PROXY` for both, none for what
//! `NO_PROXY` names, and never one for this machine or for a cloud's metadata server, which only this machine can reach.
//! A request goes through the proxy by `CONNECT`.

use std::env;
use std::net::IpAddr;
use std::path::Path;

use http::{Request, Uri};
use hyper_util::client::proxy::matcher::Matcher;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::config::AuthInfo;
use secrecy::ExposeSecret;
use tower::buffer::BufferLayer;
use tower::filter::FilterLayer;
use tower::util::option_layer;

use crate::bearer::Bearer;
use crate::credentials::ConcealLayer;

/// The number of requests that can wait to be handed on, which takes no time. As many as in kube's own buffer.
const REQUESTS_WAITING: usize = 1024;

/// The proxies that the environment names.
pub struct Proxies {
    http: String,
    https: String,
    matcher: Matcher,
}

impl Proxies {
    pub fn from_env() -> Self {
        let value = |name: &str| {
            let upper = env::var(name).unwrap_or_default();
            if upper.is_empty() { env::var(name.to_lowercase()).unwrap_or_default() } else { upper }
        };
        Self::new(&value("HTTP_PROXY"), &value("HTTPS_PROXY"), &value("ALL_PROXY"), &value("NO_PROXY"))
    }

    pub fn new(http: &str, https: &str, all: &str, no: &str) -> Self {
        let chosen = |own: &str| if own.is_empty() { all.to_owned() } else { own.to_owned() };
        let (http, https) = (chosen(http), chosen(https));
        let matcher = Matcher::builder().http(http.clone()).https(https.clone()).no(no.to_owned()).build();
        Self { http, https, matcher }
    }

    /// The proxy to ask for `url`, with the user and password that its own URL may hold.
    pub fn of(&self, url: &Uri) -> Option<Uri> {
        self.matcher.intercept(url).filter(|_| !is_this_machine(url))?;
        let proxy = if url.scheme_str() == Some("https") { &self.https } else { &self.http };
        let with_scheme = if proxy.contains("://") { proxy.clone() } else { format!("http://{proxy}") };
        with_scheme.parse().ok()
    }

    /// True if the environment names this proxy for HTTPS.
    pub fn names(&self, proxy: &Uri) -> bool {
        self.https.parse().is_ok_and(|named: Uri| named == *proxy)
    }
}

fn is_this_machine(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let is_link_local = |address: IpAddr| match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    matches!(host, "localhost" | "metadata.google.internal")
        || address.is_ok_and(|address| address.is_loopback() || is_link_local(address))
}

/// A client as `config` describes it. No text of an error contains a password or token that was sent.
pub fn client(mut config: kube::Config) -> Result<kube::Client, String> {
    if let Some(proxy) = &config.proxy_url
        && !matches!(proxy.scheme_str(), Some("http" | "https" | "socks5"))
    {
        // kube's own error quotes the URL.
        return Err("the URL of a proxy must start with http://, https:// or socks5://".to_owned());
    }
    let conceal = ConcealLayer::of(&config.auth_info);
    let bearer = bearer(&mut config.auth_info)?;
    let bearer = bearer.map(|mut bearer| FilterLayer::new(move |request: Request<Body>| bearer.authorize(request)));
    let authorize = config.auth_layer().map_err(|error| error.to_string())?;
    if authorize.is_some() {
        // kube would set the header again, below what conceals it, and run plugins again for that.
        let auth = config.auth_info;
        let none = AuthInfo { username: None, password: None, token: None, token_file: None, ..auth };
        config.auth_info = AuthInfo { exec: None, auth_provider: None, ..none };
    }
    let builder = ClientBuilder::try_from(config).map_err(|error| error.to_string())?;
    let builder = builder.with_layer(&conceal).with_layer(&option_layer(bearer));
    Ok(match authorize {
        None => builder.build(),
        // kube's layer has to clone what is below it. Each request is then handed to another task.
        Some(authorize) => builder.with_layer(&BufferLayer::new(REQUESTS_WAITING)).with_layer(&authorize).build(),
    })
}

/// Takes tokens and their file out of `auth`, where kubectl uses them. kube sends what a file contains with the newline at its
/// end, which is no valid header, and prefers an old token beside it.
fn bearer(auth: &mut AuthInfo) -> Result<Option<Bearer>, String> {
    if auth.auth_provider.is_some() || auth.username.is_some() && auth.password.is_some() {
        return Ok(None);
    }
    let token = auth.token.take().filter(|token| !token.expose_secret().is_empty());
    let token = token.as_ref().map(ExposeSecret::expose_secret);
    let bearer = Bearer::of(auth.token_file.take().as_ref().map(Path::new), token)?;
    if bearer.is_some() {
        auth.exec = None;
    }
    Ok(bearer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expected: Option<&str>) {
        let proxies = Proxies::new("plain:3128", "http://ann:secret@tls:3128", "", "10.0.0.0/8, .corp, exact.example");
        let proxy = proxies.of(&url.parse().unwrap());
        assert_eq!(proxy, expected.map(|proxy| proxy.parse().unwrap()), "{url}");
    }

    #[test]
    fn the_scheme_chooses_and_no_proxy_and_this_machine_are_excepted() {
        check("http://prometheus.example:9090/", Some("http://plain:3128"));
        check("https://prometheus.example/", Some("http://ann:secret@tls:3128"));
        check("https://metrics.corp/", None);
        check("http://exact.example/", None);
        check("http://10.1.2.3:9090/", None);
        check("http://localhost:9090/", None);
        check("http://127.0.0.1:9090/", None);
        check("https://[::1]:6443/", None);
        check("http://169.254.169.254/metadata/identity", None);
        check("http://metadata.google.internal/computeMetadata/v1", None);
    }

    #[test]
    fn one_proxy_may_serve_both_schemes() {
        let proxies = Proxies::new("", "", "socks5://both:1080", "");
        for url in ["http://a.example/", "https://a.example/"] {
            assert_eq!(proxies.of(&url.parse().unwrap()), Some("socks5://both:1080".parse().unwrap()));
        }
        assert_eq!(Proxies::new("", "", "", "").of(&"http://a.example/".parse().unwrap()), None);
    }

    #[tokio::test]
    async fn an_unknown_kind_of_proxy_is_refused_without_its_password() {
        let mut config = kube::Config::new("https://a.example".parse().unwrap());
        config.proxy_url = Some("ftp://ann:secret@tls:3128".parse().unwrap());
        let error = client(config).err().unwrap();
        assert!(error.contains("must start with") && !error.contains("secret"), "{error}");
    }
}
