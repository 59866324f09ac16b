//! Serves the page and its snapshots to one browser.
//!
//! Other programs of this machine and pages of other sites can reach a port on loopback. So the address contains a secret, and
//! the Host must be ours: another site's name that resolves to 127.0.0.1 would have that site's origin (DNS rebinding).
//! Requests from other sites are refused by their Origin and Sec-Fetch-Site, except links to the page itself: the browser is
//! started with one. Only GET is supported.

use std::net::SocketAddr;
use std::sync::Arc;

use headroom_api_server::http_server::{ServerLimits, serve_pages};
use headroom_workloads::owner::WorkloadRef;
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::command::site::Site;

pub struct Server {
    site: Site,
    key: PageSecret,
    address: SocketAddr,
    answer: Answer,
    /// A snapshot of a large cluster takes minutes and much memory, and every open page asks for one a minute.
    turns: Arc<Semaphore>,
    /// Smaller questions do not wait for snapshots.
    small_turns: Arc<Semaphore>,
}

/// Answers what the page asks about the cluster. An error is a message.
pub type Answer = Box<dyn Fn(PageQuestion) -> Result<Answered, String> + Send + Sync>;

#[derive(Debug, PartialEq, Eq)]
pub enum PageQuestion {
    /// Asks for the views of one namespace, or of those that the program was started for.
    Snapshot(Option<String>),
    /// Asks for the views without the usage of a metrics store, which is soon read.
    Rows(Option<String>),
    /// Asks for the objects that "What if" evaluates, likewise.
    Objects(Option<String>),
    /// The usage of a container by the hour.
    Hours(WorkloadRef, String),
    /// The recommendations for some workloads as a text.
    Changes(TextForm, Vec<WorkloadRef>),
    /// Proposed quotas and LimitRanges of one namespace, or of those that the program was started for.
    Bounds(Option<String>),
    /// Asks what is wrong with a workload now.
    Why(WorkloadRef),
    /// Asks to try the changes beside a workload of the views of one namespace, or of those that the program was started for.
    Tried(Option<String>, WorkloadRef),
    /// The reads that are under way.
    Progress,
}

/// A text that is made of recommendations, as `recommend -o` makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextForm {
    Kustomize,
    Markdown,
    /// A command line that applies the patches.
    Patch,
}

#[derive(Debug, Clone)]
pub struct Answered {
    pub body: Bytes,
    /// Compressed by gzip, which every browser reads.
    pub is_gzip: bool,
}

impl Answered {
    pub fn gzip(body: Vec<u8>) -> Self {
        Self { body: body.into(), is_gzip: true }
    }

    pub fn json(answer: &impl Serialize) -> anyhow::Result<Self> {
        Ok(Self { body: serde_json::to_vec(answer)?.into(), is_gzip: false })
    }
}

const SNAPSHOTS_AT_A_TIME: usize = 2;
const SMALL_AT_A_TIME: usize = 2;

pub struct PageSecret(String);

impl PageSecret {
    pub fn new(bytes: [u8; 16]) -> Self {
        Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    /// In constant time for guesses of the same length.
    fn is(&self, guess: &str) -> bool {
        guess.len() == self.0.len()
            && self.0.bytes().zip(guess.bytes()).fold(0, |differing, (a, b)| differing | (a ^ b)) == 0
    }
}

/// A request that may be answered, or the reason why not.
#[derive(Debug, PartialEq, Eq)]
enum Route<'s> {
    File(&'static str, &'s [u8]),
    Question(PageQuestion),
    Refused(StatusCode, &'static str),
}

/// A snapshot of a large cluster has tens of megabytes.
const LIMITS: ServerLimits = ServerLimits { answers: 128 << 20, ..ServerLimits::PAGES };

pub async fn serve(listener: TcpListener, server: Arc<Server>) {
    let respond = move |request: Request<Bytes>| respond(Arc::clone(&server), request.into_parts().0);
    serve_pages(listener, LIMITS, respond).await;
}

async fn respond(server: Arc<Server>, request: Parts) -> Response<Full<Bytes>> {
    let mut encoding = None;
    let (status, kind, body) = match server.route(&request) {
        Route::File(kind, bytes) => (StatusCode::OK, kind, Bytes::copy_from_slice(bytes)),
        Route::Refused(status, text) => (status, TEXT, Bytes::from(text)),
        Route::Question(question) => match answered(&server, question).await {
            Ok(answered) => {
                encoding = answered.is_gzip.then(|| HeaderValue::from_static("gzip"));
                (StatusCode::OK, "application/json", answered.body)
            }
            Err(problem) => (StatusCode::BAD_GATEWAY, TEXT, Bytes::from(problem)),
        },
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.extend(encoding.map(|encoding| (header::CONTENT_ENCODING, encoding)));
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

/// Answers when it is this request's turn.
async fn answered(server: &Arc<Server>, question: PageQuestion) -> Result<Answered, String> {
    let failed = || "cannot read the cluster".to_owned();
    if question == PageQuestion::Progress {
        return (server.answer)(question);
    }
    let turns = match question {
        PageQuestion::Snapshot(_) | PageQuestion::Rows(_) | PageQuestion::Objects(_) => &server.turns,
        _ => &server.small_turns,
    };
    let turn = Arc::clone(turns).acquire_owned().await.map_err(|_| failed())?;
    let server = Arc::clone(server);
    let take = move || {
        // Reading goes on when the client has hung up, so it keeps its turn until it ends.
        let _turn = turn;
        (server.answer)(question)
    };
    tokio::task::spawn_blocking(take).await.unwrap_or_else(|_| Err(failed()))
}

const TEXT: &str = "text/plain; charset=utf-8";

/// As the page's own policy, and no frame of another site around it.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
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
    pub fn new(site: Site, key: PageSecret, address: SocketAddr, answer: Answer) -> Self {
        let [turns, small_turns] = [SNAPSHOTS_AT_A_TIME, SMALL_AT_A_TIME].map(|turns| Arc::new(Semaphore::new(turns)));
        Self { site, key, address, answer, turns, small_turns }
    }

    fn route(&self, request: &Parts) -> Route<'_> {
        let header = |name: &str| request.headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let hosts = [self.address.to_string(), format!("localhost:{}", self.address.port())];
        if !header("host").is_some_and(|host| hosts.iter().any(|own| own == host)) {
            return Route::Refused(StatusCode::MISDIRECTED_REQUEST, "unknown host name\n");
        }
        let is_ours =
            |origin: &str| origin.split_once("://").is_some_and(|(_, host)| hosts.iter().any(|own| own == host));
        let path = request.uri.path().strip_prefix('/').unwrap_or_default();
        let is_foreign_site = header("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none"));
        let is_link = header("sec-fetch-mode") == Some("navigate")
            && header("sec-fetch-dest") == Some("document")
            && !QUESTIONS.iter().any(|name| path.ends_with(name));
        if is_foreign_site && !is_link || header("origin").is_some_and(|origin| !is_ours(origin)) {
            return Route::Refused(StatusCode::FORBIDDEN, "requests from other sites are rejected\n");
        }
        if request.method != Method::GET {
            return Route::Refused(StatusCode::METHOD_NOT_ALLOWED, "only GET is supported\n");
        }
        let name = match path.split_once('/') {
            Some((guess, name)) if self.key.is(guess) => name,
            _ => return Route::Refused(StatusCode::NOT_FOUND, "open the address that kubectl headroom ui printed\n"),
        };
        match name {
            name if QUESTIONS.contains(&name) => match question(name, request.uri.query().unwrap_or_default()) {
                Ok(question) => Route::Question(question),
                Err(problem) => Route::Refused(StatusCode::BAD_REQUEST, problem),
            },
            name => match self.site.get(name) {
                Some((kind, bytes)) => Route::File(kind, bytes),
                None => Route::Refused(StatusCode::NOT_FOUND, "no such file\n"),
            },
        }
    }
}

const QUESTIONS: [&str; 9] = [
    "cluster.json",
    "rows.json",
    "objects.json",
    "bounds.json",
    "hours.json",
    "changes.json",
    "why.json",
    "tried.json",
    "progress.json",
];

/// So many workloads are changed at once.
const MAX_WORKLOADS: usize = 500;

fn question(name: &str, query: &str) -> Result<PageQuestion, &'static str> {
    let all = |wanted: &str| {
        let values = form_urlencoded::parse(query.as_bytes()).filter(move |(name, _)| name == wanted);
        values.map(|(_, value)| value.into_owned()).filter(|value| !value.is_empty()).collect::<Vec<String>>()
    };
    let first = |wanted: &str| all(wanted).into_iter().next();
    let workloads = all("workload").iter().map(|text| workload(text)).collect::<Option<Vec<_>>>();
    let workloads = workloads.filter(|all| all.len() <= MAX_WORKLOADS).ok_or("invalid workload\n")?;
    let one = || workloads.first().cloned().ok_or("name a workload\n");
    match name {
        "hours.json" => {
            let container = first("container").filter(|name| is_name(name)).ok_or("invalid container name\n")?;
            Ok(PageQuestion::Hours(one()?, container))
        }
        "why.json" => Ok(PageQuestion::Why(one()?)),
        "progress.json" => Ok(PageQuestion::Progress),
        "changes.json" => {
            let form = match first("form").as_deref() {
                Some("kustomize") => TextForm::Kustomize,
                Some("markdown") => TextForm::Markdown,
                Some("patch") => TextForm::Patch,
                _ => return Err("unknown form\n"),
            };
            if workloads.is_empty() { Err("name a workload\n") } else { Ok(PageQuestion::Changes(form, workloads)) }
        }
        _ => match first("namespace") {
            Some(name) if !is_namespace(&name) => Err("invalid namespace name\n"),
            namespace if name == "bounds.json" => Ok(PageQuestion::Bounds(namespace)),
            namespace if name == "rows.json" => Ok(PageQuestion::Rows(namespace)),
            namespace if name == "objects.json" => Ok(PageQuestion::Objects(namespace)),
            namespace if name == "tried.json" => Ok(PageQuestion::Tried(namespace, one()?)),
            namespace => Ok(PageQuestion::Snapshot(namespace)),
        },
    }
}

/// Reads `shop/deployment/web`.
fn workload(text: &str) -> Option<WorkloadRef> {
    let (namespace, object) = text.split_once('/')?;
    let (kind, name) = object.split_once('/')?;
    (is_namespace(namespace) && is_name(kind) && is_name(name)).then(|| WorkloadRef::new(namespace, kind, name))
}

/// Reads a part of a path, and of a query of the metrics store.
fn is_name(name: &str) -> bool {
    let is_usual = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    !name.starts_with(['.', '-']) && !name.is_empty() && name.len() <= 253 && name.bytes().all(is_usual)
}

/// It becomes a part of the API server's paths.
fn is_namespace(name: &str) -> bool {
    name.len() <= 63 && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write the files that programs read")]
mod tests {
    use super::*;

    const ADDRESS: &str = "127.0.0.1:4000";

    fn server(answer: Answer) -> Server {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("index.html"), "page").unwrap();
        let site = Site::read(folder.path()).unwrap();
        Server::new(site, PageSecret::new([0xab; 16]), ADDRESS.parse().unwrap(), answer)
    }

    fn get(path: &str, headers: &[(&str, &str)]) -> Parts {
        let (method, path) = path.split_once(' ').unwrap_or(("GET", path));
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_who_knows_the_address_reads_and_only_from_the_page() {
        let server = server(Box::new(|_| Err("no cluster".to_owned())));
        let page_itself = || Ok(Route::File("text/html; charset=utf-8", b"page"));
        let check = |path: &str, headers: &[(&str, &str)], expected: Result<Route<'_>, u16>| {
            let route = match server.route(&get(path, headers)) {
                Route::Refused(status, _) => Err(status.as_u16()),
                route => Ok(route),
            };
            assert_eq!(route, expected, "{path} {headers:?}");
        };
        let (shop, web) = (|| Some("shop".to_owned()), || WorkloadRef::new("shop", "deployment", "web"));
        let asks = |question: PageQuestion| Ok(Route::Question(question));
        let key = "ab".repeat(16);
        let own = ("host", ADDRESS);
        let page = format!("/{key}/");
        let cluster = format!("/{key}/cluster.json");
        check(&page, &[own], page_itself());
        check(&page, &[("host", "localhost:4000")], page_itself());
        check(&cluster, &[own, ("sec-fetch-site", "same-origin")], asks(PageQuestion::Snapshot(None)));
        check(&format!("{cluster}?namespace=shop"), &[own], asks(PageQuestion::Snapshot(shop())));
        check(&format!("{cluster}?namespace=../secrets"), &[own], Err(400));
        check(&format!("/{key}/bounds.json?namespace=shop"), &[own], asks(PageQuestion::Bounds(shop())));
        check(&format!("/{key}/objects.json?namespace=shop"), &[own], asks(PageQuestion::Objects(shop())));
        check(&format!("{cluster}?namespace=Shop"), &[own], Err(400));
        check(&cluster, &[own, ("origin", "http://127.0.0.1:4000")], asks(PageQuestion::Snapshot(None)));
        // The file with which the browser is started redirects here.
        let (cross_site, navigates, document) =
            (("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"));
        let [hours, changes] = [format!("/{key}/hours.json"), format!("/{key}/changes.json")];
        let of_app = asks(PageQuestion::Hours(web(), "app".to_owned()));
        check(&format!("{hours}?workload=shop/deployment/web&container=app"), &[own], of_app);
        check(&format!("{hours}?workload=shop/deployment/web&container=a%22%7D"), &[own], Err(400));
        let both = asks(PageQuestion::Changes(TextForm::Markdown, vec![web(), WorkloadRef::new("a", "pod", "b")]));
        check(&format!("{changes}?form=markdown&workload=shop/deployment/web&workload=a/pod/b"), &[own], both);
        check(&format!("/{key}/why.json?workload=shop/deployment/web"), &[own], asks(PageQuestion::Why(web())));
        check(&format!("/{key}/why.json"), &[own], Err(400));
        let tried = format!("/{key}/tried.json?workload=shop/deployment/web");
        check(&format!("{tried}&namespace=shop"), &[own], asks(PageQuestion::Tried(shop(), web())));
        check(&tried, &[own], asks(PageQuestion::Tried(None, web())));
        check(&format!("/{key}/progress.json"), &[own], asks(PageQuestion::Progress));
        for bad in ["form=html&workload=shop/deployment/web", "form=patch", "form=patch&workload=shop/../web"] {
            check(&format!("{changes}?{bad}"), &[own], Err(400));
        }
        check(&format!("{changes}?form=patch&workload=a/pod/b"), &[own, cross_site, navigates, document], Err(403));
        check(&page, &[own, cross_site, navigates, document], page_itself());
        check(&page, &[own, cross_site, navigates, ("sec-fetch-dest", "iframe")], Err(403));
        check(&page, &[own, cross_site, ("sec-fetch-mode", "no-cors"), document], Err(403));
        check(&cluster, &[own, cross_site, navigates, document], Err(403));
        check(&format!("/{key}/../index.html"), &[own], Err(404));
        check(&format!("/{key}"), &[own], Err(404));
        check(&format!("/{}/", "ac".repeat(16)), &[own], Err(404));
        check("/", &[own], Err(404));
        check(&format!("POST {cluster}"), &[own], Err(405));
        check(&cluster, &[], Err(421));
        check(&cluster, &[("host", "evil.example:4000")], Err(421));
        check(&cluster, &[("host", "127.0.0.1:4001")], Err(421));
        check(&cluster, &[own, ("origin", "https://evil.example")], Err(403));
        check(&cluster, &[own, ("origin", "null")], Err(403));
        check(&cluster, &[own, cross_site], Err(403));
    }

    #[tokio::test]
    async fn a_client_that_hangs_up_keeps_its_turn_until_reading_ends() {
        let (end, is_ended) = std::sync::mpsc::channel::<()>();
        let is_ended = std::sync::Mutex::new(is_ended);
        let server = Arc::new(server(Box::new(move |_| {
            // Returns when the other side is dropped.
            _ = is_ended.lock().unwrap().recv();
            Err("ended".to_owned())
        })));
        let until = async |turns: usize| {
            while server.turns.available_permits() != turns {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        let asked = Arc::clone(&server);
        let client = tokio::spawn(async move { answered(&asked, PageQuestion::Snapshot(None)).await });
        until(SNAPSHOTS_AT_A_TIME - 1).await;
        client.abort();
        assert!(client.await.unwrap_err().is_cancelled());
        assert_eq!(server.turns.available_permits(), SNAPSHOTS_AT_A_TIME - 1);
        drop(end);
        until(SNAPSHOTS_AT_A_TIME).await;
    }
}
