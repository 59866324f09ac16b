//! Answers one browser, and nobody else.
//!
//! Other programs of this machine and pages of other sites can reach a port on loopback. So the address holds a secret; the
//! Host must be ours, because a name that somebody else resolves to 127.0.0.1 would be of their origin (DNS rebinding);
//! a request that another site makes is refused by its Origin and Sec-Fetch-Site; and nothing but reading is known.

use std::net::SocketAddr;
use std::sync::Arc;

use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use tokio::net::TcpListener;

use super::site::Site;

pub struct Server {
    pub site: Site,
    pub settings: String,
    pub secret: Secret,
    pub address: SocketAddr,
    /// Takes a snapshot, or says why there is none.
    pub take: Box<dyn Fn() -> Result<String, String> + Send + Sync>,
}

/// What only the address tells.
pub struct Secret(String);

impl Secret {
    pub fn new(bytes: [u8; 16]) -> Self {
        Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    /// In the same time for any guess of the same length.
    fn is(&self, guess: &str) -> bool {
        guess.len() == self.0.len()
            && self.0.bytes().zip(guess.bytes()).fold(0, |differing, (a, b)| differing | (a ^ b)) == 0
    }
}

/// What a request is answered with.
#[derive(Debug, PartialEq, Eq)]
enum Answer<'s> {
    File(&'static str, &'s [u8]),
    Settings,
    Snapshot,
    Refused(StatusCode, &'static str),
}

/// Answers until the program ends.
pub async fn serve(listener: TcpListener, server: Arc<Server>) {
    crate::serve::connections(listener, move |request| respond(Arc::clone(&server), request.into_parts().0)).await;
}

async fn respond(server: Arc<Server>, request: Parts) -> Response<Full<Bytes>> {
    let (status, kind, body) = match server.answer(&request) {
        Answer::File(kind, bytes) => (StatusCode::OK, kind, Bytes::copy_from_slice(bytes)),
        Answer::Settings => (StatusCode::OK, "application/yaml", Bytes::from(server.settings.clone())),
        Answer::Refused(status, text) => (status, "text/plain; charset=utf-8", Bytes::from(text)),
        Answer::Snapshot => {
            let server = Arc::clone(&server);
            // Reading waits, in a runtime of its own.
            match tokio::task::spawn_blocking(move || (server.take)()).await {
                Ok(Ok(text)) => (StatusCode::OK, "application/json", Bytes::from(text)),
                Ok(Err(problem)) => (StatusCode::BAD_GATEWAY, "text/plain; charset=utf-8", Bytes::from(problem)),
                Err(_) => (
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "text/plain; charset=utf-8",
                    Bytes::from("cannot read the cluster"),
                ),
            }
        }
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

/// As the page's own policy, and no frame of another site around it.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(&str, &str); 6] = [
    ("content-security-policy", CONTENT_SECURITY_POLICY),
    ("x-content-type-options", "nosniff"),
    // The address holds the secret.
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
];

impl Server {
    fn answer(&self, request: &Parts) -> Answer<'_> {
        let header = |name: &str| request.headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let port = self.address.port();
        let hosts = [self.address.to_string(), format!("localhost:{port}")];
        if !header("host").is_some_and(|host| hosts.iter().any(|own| own == host)) {
            return Answer::Refused(StatusCode::MISDIRECTED_REQUEST, "this is no host of that name\n");
        }
        let is_ours = |origin: &str| hosts.iter().any(|own| origin.strip_prefix("http://") == Some(own));
        let is_foreign_site = header("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none"));
        if is_foreign_site || header("origin").is_some_and(|origin| !is_ours(origin)) {
            return Answer::Refused(StatusCode::FORBIDDEN, "other sites are not answered\n");
        }
        if request.method != Method::GET {
            return Answer::Refused(StatusCode::METHOD_NOT_ALLOWED, "there is nothing to write here\n");
        }
        let path = request.uri.path().strip_prefix('/').unwrap_or_default();
        match path.split_once('/') {
            Some((guess, name)) if self.secret.is(guess) => match name {
                "cluster.json" => Answer::Snapshot,
                "settings.yaml" => Answer::Settings,
                name => match self.site.get(name) {
                    Some((kind, bytes)) => Answer::File(kind, bytes),
                    None => Answer::Refused(StatusCode::NOT_FOUND, "there is no such file\n"),
                },
            },
            _ => Answer::Refused(StatusCode::NOT_FOUND, "open the address that kubectl headroom ui printed\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn only_who_knows_the_address_reads_and_only_from_the_page() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("index.html"), "page").unwrap();
        let server = Server {
            site: Site::read(folder.path()).unwrap(),
            settings: String::new(),
            secret: Secret::new([0xab; 16]),
            address: SocketAddr::from(([127, 0, 0, 1], 4000)),
            take: Box::new(|| Err("no cluster".to_owned())),
        };
        let secret = "ab".repeat(16);
        let own = ("host", "127.0.0.1:4000");
        let check = |method: &str, path: &str, headers: &[(&str, &str)], expected: Result<&str, u16>| {
            let mut request = Request::builder().method(method).uri(path);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let parts = request.body(()).unwrap().into_parts().0;
            let answer = match server.answer(&parts) {
                Answer::File(_, bytes) => Ok(std::str::from_utf8(bytes).unwrap()),
                Answer::Settings => Ok("settings"),
                Answer::Snapshot => Ok("snapshot"),
                Answer::Refused(status, _) => Err(status.as_u16()),
            };
            assert_eq!(answer, expected, "{method} {path} {headers:?}");
        };
        let page = format!("/{secret}/");
        let cluster = format!("/{secret}/cluster.json");
        check("GET", &page, &[own], Ok("page"));
        check("GET", &page, &[("host", "localhost:4000")], Ok("page"));
        check("GET", &cluster, &[own, ("sec-fetch-site", "same-origin")], Ok("snapshot"));
        check("GET", &format!("/{secret}/settings.yaml"), &[own, ("origin", "http://127.0.0.1:4000")], Ok("settings"));
        check("GET", &format!("/{secret}/../index.html"), &[own], Err(404));
        check("GET", &format!("/{secret}"), &[own], Err(404));
        check("GET", &format!("/{}/", "ac".repeat(16)), &[own], Err(404));
        check("GET", "/", &[own], Err(404));
        check("POST", &cluster, &[own], Err(405));
        check("GET", &cluster, &[], Err(421));
        check("GET", &cluster, &[("host", "evil.example:4000")], Err(421));
        check("GET", &cluster, &[("host", "127.0.0.1:4001")], Err(421));
        check("GET", &cluster, &[own, ("origin", "https://evil.example")], Err(403));
        check("GET", &cluster, &[own, ("origin", "null")], Err(403));
        check("GET", &cluster, &[own, ("sec-fetch-site", "cross-site")], Err(403));
    }
}
