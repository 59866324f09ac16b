//! Serves one browser, or the users of an authenticating proxy.
//!
//! Other programs of this machine and pages of other sites can reach a port on loopback. So for one browser the address
//! contains a secret, and the Host must be ours: another site's name that resolves to 127.0.0.1 would have that site's
//! origin (DNS rebinding). Behind a proxy every read needs the user's own bearer token, which no other site can
//! make a browser send. Requests from other sites are refused by their Origin and Sec-Fetch-Site, except links to the
//! page itself: a login, a wiki or a chat leads to it. Only GET is supported.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use headroom_kube::http_server::{Limits, serve_pages};
use headroom_kube::secret::Secret;
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::site::Site;
use super::users::{Refusal, Users, Visitor};

pub struct Server {
    site: Site,
    visitors: Visitors,
    take: Take,
    /// A snapshot of a large cluster takes minutes and much memory, and every open page asks for one a minute.
    takes: Arc<Semaphore>,
    /// The snapshots that each visitor waits for or is being sent.
    asked: Mutex<HashMap<Visitor, usize>>,
}

/// Takes a snapshot, or says why there is none. The token is cancelled when the client has gone.
pub type Take = Box<dyn Fn(Asked, CancellationToken) -> Taking + Send + Sync>;
pub type Taking = Pin<Box<dyn Future<Output = Result<Taken, String>> + Send>>;

pub const TAKES_AT_ONCE: usize = 2;

/// The snapshots that one visitor may wait for or still has to read. Others are next when the first of these is taken, so
/// nobody keeps them waiting for long; and who reads slowly or not at all takes no more memory than for these.
const ASKED_AT_ONCE: usize = 2;

/// Who is served.
pub enum Visitors {
    /// Clients that know the printed address.
    One { key: Key, address: SocketAddr },
    /// Users of a proxy, each with the token that it passes on.
    OfProxy(Users),
}

/// What a visitor asks to see.
#[derive(Debug, PartialEq, Eq)]
pub struct Asked {
    /// One namespace instead of those that the program was started for.
    pub namespace: Option<String>,
    /// In the place of the program's own credentials.
    pub token: Option<Secret>,
}

/// A snapshot, and what could not be read for it.
pub struct Taken {
    /// By gzip, which every browser reads.
    pub compressed: Bytes,
    pub missed: Vec<String>,
}

/// The secret in the address.
pub struct Key(String);

impl Key {
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

/// The answer to a request.
#[derive(Debug, PartialEq, Eq)]
enum Answer<'s> {
    File(&'static str, &'s [u8]),
    Snapshot(Asked),
    Refused(StatusCode, &'static str),
}

/// The bytes of answers that clients have not read. A snapshot of a large cluster has tens of megabytes.
pub const UNREAD_BYTES: usize = 128 << 20;
const LIMITS: Limits = Limits { answers: UNREAD_BYTES, ..Limits::PAGES };

/// Answers until the program ends.
pub async fn serve(listener: TcpListener, server: Arc<Server>) {
    let respond = move |request: Request<Bytes>| respond(Arc::clone(&server), request.into_parts().0);
    serve_pages(listener, LIMITS, respond).await;
}

async fn respond(server: Arc<Server>, request: Parts) -> Response<Full<Bytes>> {
    let (mut missed, mut encoding) = (Vec::new(), None);
    let (status, kind, body) = match server.answer(&request) {
        Answer::File(kind, bytes) => (StatusCode::OK, kind, Bytes::copy_from_slice(bytes)),
        Answer::Refused(status, text) => (status, TEXT, Bytes::from(text)),
        Answer::Snapshot(asked) => match take(&server, asked).await {
            // The turn ends with this arm: nothing waits until the answer counts as one that is not read.
            Ok((sent, missed_by_it, _turn)) => {
                (missed, encoding) = (missed_by_it, Some(HeaderValue::from_static("gzip")));
                (StatusCode::OK, "application/json", Bytes::from_owner(sent))
            }
            Err((status, problem)) => (status, TEXT, Bytes::from(problem)),
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
    if let Some(value) = missed_header(&missed) {
        headers.insert(HeaderName::from_static("x-headroom-missed"), value);
    }
    response
}

/// Takes a snapshot when it is the visitor's turn, with what could not be read for it. The turn is over when the snapshot
/// counts elsewhere.
async fn take(server: &Arc<Server>, asked: Asked) -> Result<(Sent, Vec<String>, OwnedSemaphorePermit), Refusal> {
    let visitor = match (&server.visitors, &asked.token) {
        (Visitors::OfProxy(users), Some(token)) => users.visitor(token).await?,
        _ => Visitor::Owner,
    };
    let place = Place::of(server, visitor).ok_or_else(|| (StatusCode::TOO_MANY_REQUESTS, TOO_MANY.to_owned()))?;
    let closed = |_| (StatusCode::INTERNAL_SERVER_ERROR, UNREAD.to_owned());
    let turn = Arc::clone(&server.takes).acquire_owned().await.map_err(closed)?;
    let gone = CancellationToken::new();
    let _guard = gone.clone().drop_guard();
    // Reading may go on when the client has gone, so it keeps its turn until it ends.
    let take = async move { ((place.server.take)(asked, gone).await, place, turn) };
    match tokio::spawn(take).await {
        Ok((Ok(taken), place, turn)) => Ok((Sent { compressed: taken.compressed, _place: place }, taken.missed, turn)),
        Ok((Err(problem), ..)) => Err((StatusCode::BAD_GATEWAY, problem)),
        Err(_) => Err((StatusCode::INTERNAL_SERVER_ERROR, UNREAD.to_owned())),
    }
}

/// Reading in this process, which goes on when the client has gone.
pub fn in_this_process(read: impl Fn(Asked) -> Result<Taken, String> + Send + Sync + 'static) -> Take {
    let read = Arc::new(read);
    Box::new(move |asked, _| {
        let read = Arc::clone(&read);
        // Reading waits, in a runtime of its own.
        Box::pin(async move {
            tokio::task::spawn_blocking(move || read(asked)).await.unwrap_or_else(|_| Err(UNREAD.to_owned()))
        })
    })
}

/// A snapshot that keeps its visitor's place until the client has read it or is given up.
struct Sent {
    compressed: Bytes,
    _place: Place,
}

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        &self.compressed
    }
}

/// A visitor's place among those who wait for a snapshot.
struct Place {
    server: Arc<Server>,
    visitor: Visitor,
}

impl Place {
    /// None if the visitor has as many as one may have.
    fn of(server: &Arc<Server>, visitor: Visitor) -> Option<Self> {
        let mut waiting = server.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let places = waiting.entry(visitor.clone()).or_default();
        (*places < ASKED_AT_ONCE).then(|| {
            *places += 1;
            Self { server: Arc::clone(server), visitor }
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.server.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(places) = waiting.get_mut(&self.visitor) {
            *places -= 1;
            if *places == 0 {
                waiting.remove(&self.visitor);
            }
        }
    }
}

const TOO_MANY: &str = "two snapshots are being read or sent for you already; try again when they are done\n";

pub const UNREAD: &str = "cannot read the cluster";

const TEXT: &str = "text/plain; charset=utf-8";

/// What could not be read, as a header may hold it: the page shows it beside what was read.
fn missed_header(missed: &[String]) -> Option<HeaderValue> {
    let first = missed.first()?;
    let more = if missed.len() > 1 { format!(" (and {} more)", missed.len() - 1) } else { String::new() };
    let text: String = first.chars().filter(|c| c.is_ascii() && !c.is_ascii_control()).take(300).collect();
    HeaderValue::from_str(&(text + &more)).ok()
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
    pub fn new(site: Site, visitors: Visitors, take: Take) -> Self {
        Self { site, visitors, take, takes: Arc::new(Semaphore::new(TAKES_AT_ONCE)), asked: Mutex::default() }
    }

    fn answer(&self, request: &Parts) -> Answer<'_> {
        let header = |name: &str| request.headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let hosts = match &self.visitors {
            Visitors::One { address, .. } => vec![address.to_string(), format!("localhost:{}", address.port())],
            Visitors::OfProxy(_) => {
                ["host", "x-forwarded-host"].iter().filter_map(|name| header(name)).map(str::to_owned).collect()
            }
        };
        if !header("host").is_some_and(|host| hosts.iter().any(|own| own == host)) {
            return Answer::Refused(StatusCode::MISDIRECTED_REQUEST, "unknown host name\n");
        }
        let is_ours =
            |origin: &str| origin.split_once("://").is_some_and(|(_, host)| hosts.iter().any(|own| own == host));
        let path = request.uri.path().strip_prefix('/').unwrap_or_default();
        let is_foreign_site = header("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none"));
        let is_link = header("sec-fetch-mode") == Some("navigate")
            && header("sec-fetch-dest") == Some("document")
            && !path.ends_with(SNAPSHOT);
        if is_foreign_site && !is_link || header("origin").is_some_and(|origin| !is_ours(origin)) {
            return Answer::Refused(StatusCode::FORBIDDEN, "requests from other sites are rejected\n");
        }
        if request.method != Method::GET {
            return Answer::Refused(StatusCode::METHOD_NOT_ALLOWED, "only GET is supported\n");
        }
        let name = match (&self.visitors, path.split_once('/')) {
            (Visitors::OfProxy(_), _) => path,
            (Visitors::One { key, .. }, Some((guess, name))) if key.is(guess) => name,
            _ => return Answer::Refused(StatusCode::NOT_FOUND, "open the address that kubectl headroom ui printed\n"),
        };
        match name {
            SNAPSHOT => self.snapshot(request),
            name => match self.site.get(name) {
                Some((kind, bytes)) => Answer::File(kind, bytes),
                None => Answer::Refused(StatusCode::NOT_FOUND, "no such file\n"),
            },
        }
    }

    fn snapshot(&self, request: &Parts) -> Answer<'_> {
        let query = request.uri.query().unwrap_or_default().as_bytes();
        let namespace = form_urlencoded::parse(query).find(|(name, _)| name == "namespace").map(|(_, value)| value);
        let namespace = namespace.filter(|name| !name.is_empty()).map(|name| name.into_owned());
        if namespace.as_deref().is_some_and(|name| !is_namespace(name)) {
            return Answer::Refused(StatusCode::BAD_REQUEST, "invalid namespace name\n");
        }
        let token = match &self.visitors {
            Visitors::One { .. } => None,
            Visitors::OfProxy(_) => match bearer(request) {
                Some(token) => Some(token),
                None => return Answer::Refused(StatusCode::UNAUTHORIZED, NO_TOKEN),
            },
        };
        Answer::Snapshot(Asked { namespace, token })
    }
}

/// What the page reads.
const SNAPSHOT: &str = "cluster.json";

const NO_TOKEN: &str = "the proxy passes on no bearer token: let it set the header Authorization, such as oauth2-proxy does with \
     --pass-authorization-header\n";

fn bearer(request: &Parts) -> Option<Secret> {
    let value = request.headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| Secret::from(token.to_owned()))
}

/// It becomes a part of the API server's paths.
fn is_namespace(name: &str) -> bool {
    name.len() <= 63 && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(visitors: Visitors) -> (tempfile::TempDir, Server) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("index.html"), "page").unwrap();
        let site = Site::read(folder.path()).unwrap();
        (folder, Server::new(site, visitors, in_this_process(|_| Err("no cluster".to_owned()))))
    }

    /// Users whose tokens are their names.
    fn of_proxy() -> Visitors {
        Visitors::OfProxy(Users::new(Box::new(|token| {
            Box::pin(std::future::ready(Ok(Some(token.reveal().to_owned()))))
        })))
    }

    /// The answer to GET, or by another method that stands before the path.
    #[track_caller]
    fn check(server: &Server, path: &str, headers: &[(&str, &str)], expected: Result<&str, u16>) {
        let (method, path) = path.split_once(' ').unwrap_or(("GET", path));
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let parts = request.body(()).unwrap().into_parts().0;
        let answer = match server.answer(&parts) {
            Answer::File(_, bytes) => Ok(std::str::from_utf8(bytes).unwrap().to_owned()),
            Answer::Snapshot(Asked { namespace, token }) => {
                let token = token.as_ref().map_or("its own rights", Secret::reveal);
                Ok(format!("{} by {token}", namespace.as_deref().unwrap_or("all")))
            }
            Answer::Refused(status, _) => Err(status.as_u16()),
        };
        assert_eq!(answer.as_deref().map_err(|status| *status), expected, "{path} {headers:?}");
    }

    #[test]
    fn only_who_knows_the_address_reads_and_only_from_the_page() {
        let address = SocketAddr::from(([127, 0, 0, 1], 4000));
        let (_folder, server) = server(Visitors::One { key: Key::new([0xab; 16]), address });
        let key = "ab".repeat(16);
        let own = ("host", "127.0.0.1:4000");
        let check = |path: &str, headers: &[(&str, &str)], expected| check(&server, path, headers, expected);
        let page = format!("/{key}/");
        let cluster = format!("/{key}/cluster.json");
        check(&page, &[own], Ok("page"));
        check(&page, &[("host", "localhost:4000")], Ok("page"));
        check(&cluster, &[own, ("sec-fetch-site", "same-origin")], Ok("all by its own rights"));
        // Nobody chooses whose rights are used.
        check(&cluster, &[own, ("authorization", "Bearer other")], Ok("all by its own rights"));
        check(&format!("{cluster}?namespace=shop"), &[own], Ok("shop by its own rights"));
        check(&format!("{cluster}?namespace=../secrets"), &[own], Err(400));
        check(&cluster, &[own, ("origin", "http://127.0.0.1:4000")], Ok("all by its own rights"));
        // As the page that the browser is started with leads here.
        let led =
            [own, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        check(&page, &led, Ok("page"));
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
        check(&cluster, &[own, ("sec-fetch-site", "cross-site")], Err(403));
    }

    #[test]
    fn behind_a_proxy_everybody_reads_with_a_token_of_their_own() {
        let (_folder, server) = server(of_proxy());
        let (host, token) = (("host", "127.0.0.1:8080"), ("authorization", "Bearer alice"));
        let outside = ("x-forwarded-host", "headroom.example");
        let check = |path: &str, headers: &[(&str, &str)], expected| check(&server, path, headers, expected);
        check("/", &[host], Ok("page"));
        check("/cluster.json", &[host, token], Ok("all by alice"));
        check("/cluster.json?namespace=shop", &[host, ("authorization", "bearer  bob ")], Ok("shop by bob"));
        check("/cluster.json?namespace=Shop", &[host, token], Err(400));
        for no_token in ["", "Bearer", "Bearer ", "Basic YWxpY2U6"] {
            check("/cluster.json", &[host, ("authorization", no_token)], Err(401));
        }
        check("/cluster.json", &[host], Err(401));
        check("/cluster.json", &[host, outside, token, ("origin", "https://headroom.example")], Ok("all by alice"));
        check("/cluster.json", &[host, outside, token, ("origin", "https://evil.example")], Err(403));
        let other_site = ("sec-fetch-site", "cross-site");
        check("/cluster.json", &[host, token, other_site], Err(403));
        // A link to the page, or a login before it, but no frame, no script and nothing that reads.
        let (navigates, document) = (("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"));
        check("/", &[host, other_site, navigates, document], Ok("page"));
        check("/", &[host, other_site, navigates, ("sec-fetch-dest", "iframe")], Err(403));
        check("/", &[host, other_site, ("sec-fetch-mode", "no-cors"), document], Err(403));
        check("/cluster.json", &[host, token, other_site, navigates, document], Err(403));
        check("POST /cluster.json", &[host, token], Err(405));
    }

    #[tokio::test]
    async fn a_client_that_hangs_up_keeps_its_turn_until_reading_ends() {
        let (_folder, server) = server(of_proxy());
        let (end, is_ended) = std::sync::mpsc::channel::<()>();
        let is_ended = std::sync::Mutex::new(is_ended);
        let take = move |_| {
            // Returns when the other side is dropped.
            _ = is_ended.lock().unwrap().recv();
            Err("ended".to_owned())
        };
        let server = Arc::new(Server { take: in_this_process(take), ..server });
        let until = async |turns: usize| {
            while server.takes.available_permits() != turns {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        let ask = |user: &str| {
            let request = Request::get("/cluster.json").header("host", "a");
            let request = request.header("authorization", format!("Bearer {user}"));
            tokio::spawn(respond(Arc::clone(&server), request.body(()).unwrap().into_parts().0))
        };
        let clients = [ask("alice"), ask("alice")];
        until(0).await;
        clients.iter().for_each(tokio::task::JoinHandle::abort);
        let other = ask("bob");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        assert!(server.takes.available_permits() == 0 && !other.is_finished());
        // Whoever asks again and again is not ahead of others.
        assert_eq!(ask("alice").await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
        drop(end);
        assert_eq!(other.await.unwrap().status(), StatusCode::BAD_GATEWAY);
        until(TAKES_AT_ONCE).await;
        // A place is given up a moment after its turn.
        while !server.asked.lock().unwrap().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        assert_eq!(ask("alice").await.unwrap().status(), StatusCode::BAD_GATEWAY);
    }

    #[tokio::test]
    async fn a_visitor_who_gives_up_waiting_gives_up_the_place() {
        let (_folder, server) = server(of_proxy());
        let server = Arc::new(server);
        let turns = Arc::clone(&server.takes).acquire_many_owned(2).await;
        let ask = || {
            let request = Request::get("/cluster.json").header("host", "a").header("authorization", "Bearer alice");
            tokio::spawn(respond(Arc::clone(&server), request.body(()).unwrap().into_parts().0))
        };
        let alice = Visitor::User("alice".to_owned());
        for _ in 0..5 {
            let waiting = [ask(), ask()];
            while server.asked.lock().unwrap().get(&alice) != Some(&2) {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            for client in waiting {
                client.abort();
                assert!(client.await.unwrap_err().is_cancelled());
            }
            assert!(server.asked.lock().unwrap().is_empty());
        }
        drop(turns);
        assert_eq!(ask().await.unwrap().status(), StatusCode::BAD_GATEWAY);
    }

    #[tokio::test]
    async fn a_visitor_who_does_not_read_takes_the_memory_of_two_snapshots() {
        let (_folder, server) = server(of_proxy());
        let take = |_| Ok(Taken { compressed: Bytes::from_static(b"{}"), missed: Vec::new() });
        let server = Arc::new(Server { take: in_this_process(take), ..server });
        let ask = |user: &str| {
            let request = Request::get("/cluster.json").header("host", "a");
            let request = request.header("authorization", format!("Bearer {user}"));
            respond(Arc::clone(&server), request.body(()).unwrap().into_parts().0)
        };
        let unread = [ask("alice").await, ask("alice").await];
        assert!(unread.iter().all(|response| response.status() == StatusCode::OK));
        assert_eq!(ask("alice").await.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(ask("bob").await.status(), StatusCode::OK);
        drop(unread);
        assert_eq!(ask("alice").await.status(), StatusCode::OK);
        assert!(server.asked.lock().unwrap().is_empty());
    }

    /// The share of this process in the memory of the page, in kilobytes.
    #[cfg(target_os = "linux")]
    const MEMORY_LIMIT: u64 = 256 << 10;

    /// Visitors with large snapshots who do not read them, who vanish, or who never finish a request: memory stays within
    /// the limit, and others are answered.
    #[cfg(target_os = "linux")]
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn slow_many_and_vanishing_visitors_are_bounded() {
        use memmap2::MmapMut;
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        use tokio::net::TcpStream;

        let (_folder, server) = server(of_proxy());
        let take = |asked: Asked| {
            let length = if asked.namespace.is_some() { 100 } else { 30 << 20 };
            let mut compressed = MmapMut::map_anon(length).unwrap();
            compressed.fill(b'x');
            Ok(Taken { compressed: Bytes::from_owner(compressed), missed: Vec::new() })
        };
        let server = Arc::new(Server { take: in_this_process(take), ..server });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, Arc::clone(&server)));
        let send = async |user: usize, query: &str, part: usize| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request =
                format!("GET /cluster.json{query} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer user-{user}\r\n\r\n");
            stream.write_all(&request.as_bytes()[..request.len() * part / 2]).await.unwrap();
            stream
        };
        let status = async |stream: &mut TcpStream| {
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).await.unwrap();
            String::from_utf8_lossy(&answer[9..]).into_owned()
        };
        let (mut unread, mut statuses) = (Vec::new(), Vec::new());
        for user in 0..40 {
            // One vanishes, one never finishes, and one does not read.
            drop(send(user, "", 2).await);
            if user < 20 {
                unread.push(send(user, "", 1).await);
            }
            let mut stream = send(user, "", 2).await;
            statuses.push(status(&mut stream).await);
            unread.push(stream);
        }
        assert_eq!(status(&mut send(99, "?namespace=shop", 2).await).await, "200");
        let peak = headroom_fixtures::process::peak_kib(std::process::id()).unwrap();
        println!("peak memory: {} MiB", peak >> 10);
        assert!(peak < MEMORY_LIMIT, "{} MiB", peak >> 10);
        let count = |status: &str| statuses.iter().filter(|other| *other == status).count();
        assert!(count("200") >= 3 && count("503") > 0, "{statuses:?}");
        drop(unread);
        while status(&mut send(99, "", 2).await).await != "200" {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    #[test]
    fn what_could_not_be_read_fits_a_header() {
        assert_eq!(missed_header(&[]), None);
        let missed = ["cannot list pods:\r\nX: é".to_owned(), "other".to_owned()];
        assert_eq!(missed_header(&missed).unwrap(), "cannot list pods:X:  (and 1 more)");
    }
}
