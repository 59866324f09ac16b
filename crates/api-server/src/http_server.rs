//! The HTTP server of all programs. It takes bounded memory and time for any clients: it limits connections and the bytes of all
//! requests together, and closes connections of clients that are slow to send or stop reading. Work for a client that has
//! disconnected ends, because its future is dropped.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Limits of memory and time for all clients.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// Connections at a time; others wait to be accepted.
    pub connections: usize,
    /// The bytes of one request's body.
    pub body: usize,
    /// The bytes of the bodies of all requests that are being read or answered.
    pub bodies: usize,
    /// The bytes of each body that are not counted, so that small requests never wait for large ones.
    pub uncounted: usize,
    /// The bytes of all answers that clients have not read yet, beyond [`SMALL_ANSWER`] each. More are not sent.
    pub answers: usize,
    /// The bytes of an answer that a client has to read in a second on average, once `patience` is over.
    pub slowest: usize,
    /// The timeout of a handshake, of the headers of the first request, of a body, and of a client that reads nothing of its
    /// answer.
    pub patience: Duration,
    /// The time that a connection is kept for another request; none if each request has its own connection.
    pub idle: Option<Duration>,
}

impl ServerLimits {
    /// For a server that only answers GET. Its clients ask rarely, so each request has a connection of its own, and no client keeps one
    /// from others.
    pub const PAGES: Self = Self {
        connections: 64,
        body: 0,
        bodies: 0,
        uncounted: 0,
        answers: 16 << 20,
        slowest: SLOWEST,
        patience: Duration::from_secs(10),
        idle: None,
    };
}

/// The rate of a slow network, in bytes per second.
pub const SLOWEST: usize = 128 << 10;

/// A server wakes this often also where nobody asks, as a sign of life.
const AWAKE: Duration = Duration::from_secs(60);

/// The bytes of an answer that are not counted, so that probes are answered whatever others read.
const SMALL_ANSWER: usize = 64 << 10;

/// The bytes of a request's head at most, and what is read of a body at a time.
const READ_BUFFER: usize = 64 << 10;

/// Answers every request on plain HTTP by `respond`, until the program ends. Bodies are not read.
pub async fn serve_pages<R>(
    listener: TcpListener,
    limits: ServerLimits,
    respond: impl Fn(Request<Bytes>) -> R + Clone + Send + 'static,
) where
    R: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    serve(listener, limits, CancellationToken::new(), |stream| std::future::ready(Some(stream)), respond).await;
}

/// Answers every request by `respond` until `stop`, then finishes those in progress. `handshake` makes a connection
/// secure, or gives it up.
pub async fn serve<S, H, R>(
    listener: TcpListener,
    limits: ServerLimits,
    stop: CancellationToken,
    handshake: impl Fn(TcpStream) -> H + Clone + Send + 'static,
    respond: impl Fn(Request<Bytes>) -> R + Clone + Send + 'static,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Future<Output = Option<S>> + Send + 'static,
    R: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let tracker = TaskTracker::new();
    let [connections, bodies, answers] =
        [limits.connections, limits.bodies, limits.answers].map(|limit| Arc::new(Semaphore::new(limit)));
    let budgets = Budgets { bodies, answers };
    loop {
        let accepted = tokio::time::timeout(AWAKE, accept(&listener, &connections));
        let (stream, connection) = match stop.run_until_cancelled(accepted).await {
            Some(Ok(Some(accepted))) => accepted,
            Some(Err(_)) => continue,
            Some(Ok(None)) | None => break,
        };
        let (handshake, respond, budgets, stop) = (handshake.clone(), respond.clone(), budgets.clone(), stop.clone());
        tracker.spawn(async move {
            let _connection = connection;
            if let Ok(Some(stream)) = tokio::time::timeout(limits.patience, handshake(stream)).await {
                answer_requests(stream, limits, budgets, stop, respond).await;
            }
        });
    }
    tracker.close();
    tracker.wait().await;
}

/// The bytes that are left of what all clients together may take.
#[derive(Clone)]
struct Budgets {
    bodies: Arc<Semaphore>,
    answers: Arc<Semaphore>,
}

/// The next connection, once there is room for it.
async fn accept(listener: &TcpListener, connections: &Arc<Semaphore>) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(connections).acquire_owned().await.ok()?;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Answers are small, and clients wait for them.
                _ = stream.set_nodelay(true);
                return Some((stream, permit));
            }
            Err(error) => {
                // Mostly too many open files: no use in trying at once.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn answer_requests<R>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    limits: ServerLimits,
    budgets: Budgets,
    stop: CancellationToken,
    respond: impl Fn(Request<Bytes>) -> R + Clone + Send + 'static,
) where
    R: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let (deadline, mut deadlines) = watch::channel(Some(Instant::now() + limits.patience));
    let deadline = Arc::new(deadline);
    let service = service_fn(move |request: Request<Incoming>| {
        deadline.send_replace(None);
        let (respond, budgets, deadline) = (respond.clone(), budgets.clone(), Arc::clone(&deadline));
        async move {
            let (parts, body) = request.into_parts();
            let response = match read(body, limits, &budgets.bodies).await {
                // The bytes are counted until the request is answered.
                Ok((body, _bytes)) => respond(Request::from_parts(parts, body)).await,
                Err(status) => untyped(status, ""),
            };
            Ok::<_, Infallible>(held(response, limits, budgets.answers, deadline).await)
        }
    });
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limits.patience));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(limits.idle.is_some())
        .header_read_timeout(limits.idle.unwrap_or(limits.patience))
        .max_buf_size(READ_BUFFER)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    let mut connection = std::pin::pin!(connection);
    let mut is_stopping = false;
    let ended = loop {
        tokio::select! {
            ended = &mut connection => break ended,
            () = passed(&mut deadlines) => return,
            () = stop.cancelled(), if !is_stopping => {
                is_stopping = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

pub fn answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut answer = untyped(status, body);
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

fn untyped(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer
}

/// An answer that counts until the client has read it or is given up, or another if there is no room for it.
async fn held(
    response: Response<Full<Bytes>>,
    limits: ServerLimits,
    answers: Arc<Semaphore>,
    deadline: Arc<Deadline>,
) -> Response<Full<Bytes>> {
    let (parts, body) = response.into_parts();
    let Ok(body) = body.collect().await;
    let bytes = body.to_bytes();
    // A longer one than all may have is sent alone.
    let counted = bytes.len().saturating_sub(SMALL_ANSWER).min(limits.answers);
    let Ok(room) = answers.try_acquire_many_owned(u32::try_from(counted).unwrap_or(u32::MAX)) else {
        return untyped(StatusCode::SERVICE_UNAVAILABLE, "too many answers are being sent; try again\n");
    };
    let at_slowest = Duration::from_secs((bytes.len() / limits.slowest) as u64);
    deadline.send_replace(Some(Instant::now() + limits.patience + at_slowest));
    Response::from_parts(parts, Full::new(Bytes::from_owner(Held { bytes, deadline, _room: room })))
}

struct Held {
    bytes: Bytes,
    deadline: Arc<Deadline>,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.deadline.send_replace(None);
    }
}

/// When the client has to have sent its first request, or read its answer; none in between.
type Deadline = watch::Sender<Option<Instant>>;

async fn passed(deadlines: &mut watch::Receiver<Option<Instant>>) {
    loop {
        let deadline = *deadlines.borrow_and_update();
        let passed = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Ok(()) = deadlines.changed() => {}
            () = passed => return,
        }
    }
}

/// Reads a body, once the budget has room for all of it: bodies that each held a part would wait for each other. The bytes
/// of one whose length is not declared are taken from the budget as they arrive.
async fn read(
    mut body: Incoming,
    limits: ServerLimits,
    bodies: &Arc<Semaphore>,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), StatusCode> {
    if limits.body == 0 {
        return Ok((Bytes::new(), None));
    }
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if declared > limits.body {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    let reading = async {
        let (mut read, mut budget) = (Vec::new(), None);
        take(&mut budget, declared.saturating_sub(limits.uncounted), bodies).await?;
        while let Some(frame) = body.frame().await {
            let data = frame.map_err(|_| StatusCode::BAD_REQUEST)?.into_data().unwrap_or_default();
            let length = read.len() + data.len();
            if length > limits.body {
                return Err(StatusCode::PAYLOAD_TOO_LARGE);
            }
            take(&mut budget, length.saturating_sub(limits.uncounted), bodies).await?;
            read.extend_from_slice(&data);
        }
        Ok((Bytes::from(read), budget))
    };
    tokio::time::timeout(limits.patience, reading).await.unwrap_or(Err(StatusCode::REQUEST_TIMEOUT))
}

/// Takes what is missing of so many bytes.
async fn take(
    budget: &mut Option<OwnedSemaphorePermit>,
    bytes: usize,
    bodies: &Arc<Semaphore>,
) -> Result<(), StatusCode> {
    let taken = budget.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
    let missing = u32::try_from(bytes.saturating_sub(taken)).map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?;
    if missing == 0 {
        return Ok(());
    }
    let more = Arc::clone(bodies).acquire_many_owned(missing).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    match budget {
        Some(budget) => budget.merge(more),
        None => *budget = Some(more),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const LIMITS: ServerLimits = ServerLimits {
        connections: 2,
        body: 10,
        bodies: 12,
        uncounted: 2,
        answers: 2 * LONG,
        slowest: SLOWEST,
        patience: Duration::from_millis(300),
        idle: Some(Duration::from_secs(5)),
    };

    /// More than the system keeps for a connection.
    const LONG: usize = 64 << 20;

    const GET_LONG: &str = "GET /long HTTP/1.1\r\nConnection: close\r\n\r\n";

    /// A server that answers with the request's body, never on `/hang`, of which it counts the ends, and at length on `/long`.
    async fn start(limits: ServerLimits) -> (SocketAddr, Arc<Semaphore>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, ended) = (listener.local_addr().unwrap(), Arc::new(Semaphore::new(0)));
        let ends = Arc::clone(&ended);
        let respond = move |request: Request<Bytes>| {
            let ends = Arc::clone(&ends);
            async move {
                if request.uri().path() == "/hang" {
                    let _at_end = AtEnd(ends);
                    std::future::pending::<()>().await;
                }
                let answer = match request.uri().path() {
                    "/long" => vec![b'x'; LONG].into(),
                    _ => request.into_body(),
                };
                Response::new(Full::new(answer))
            }
        };
        let plain = |stream| std::future::ready(Some(stream));
        tokio::spawn(serve(listener, limits, CancellationToken::new(), plain, respond));
        (address, ended)
    }

    struct AtEnd(Arc<Semaphore>);

    impl Drop for AtEnd {
        fn drop(&mut self) {
            self.0.add_permits(1);
        }
    }

    async fn send(address: SocketAddr, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// All text from the server until it closes the connection.
    async fn end(mut stream: TcpStream) -> String {
        let mut text = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut text)).await;
        read.unwrap().unwrap_or_default();
        String::from_utf8(text).unwrap()
    }

    fn post(body: &str, length: usize) -> String {
        format!("POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
    }

    #[tokio::test]
    async fn a_request_is_answered_and_one_that_is_too_long_is_not_read() {
        let (address, _) = start(LIMITS).await;
        assert!(end(send(address, &post("ten bytes!", 10)).await).await.ends_with("\r\n\r\nten bytes!"));
        assert!(end(send(address, &post("", 11)).await).await.starts_with("HTTP/1.1 413 "));
        let chunked =
            "POST / HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\nb\r\neleven byte\r\n0\r\n\r\n";
        assert!(end(send(address, chunked).await).await.starts_with("HTTP/1.1 413 "));
    }

    #[tokio::test]
    async fn clients_that_send_nothing_or_half_are_given_up_and_others_are_then_answered() {
        let (address, _) = start(LIMITS).await;
        // Both take all connections, and most of the budget.
        let (silent, half) = (send(address, "").await, send(address, &post("12345678", 10)).await);
        let next = send(address, &post("ten bytes!", 10)).await;
        assert!(end(next).await.ends_with("ten bytes!"));
        assert_eq!(end(silent).await, "");
        assert!(end(half).await.starts_with("HTTP/1.1 408 "));
    }

    #[tokio::test]
    async fn large_requests_take_turns_and_small_ones_wait_for_none() {
        let patience = Duration::from_secs(20);
        let (address, _) = start(ServerLimits { connections: 20, patience, ..LIMITS }).await;
        let mut large = Vec::new();
        for _ in 0..8 {
            large.push(send(address, &post("first", 10)).await);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        let began = tokio::time::Instant::now();
        assert!(end(send(address, &post("ab", 2)).await).await.ends_with("\r\n\r\nab"));
        for stream in &mut large {
            stream.write_all(b"other").await.unwrap();
        }
        for stream in large {
            assert!(end(stream).await.ends_with("firstother"));
        }
        assert!(began.elapsed() < patience / 2);
    }

    #[tokio::test]
    async fn clients_that_do_not_read_are_given_up_and_slow_ones_get_all() {
        let (address, _) = start(LIMITS).await;
        // Both take all connections.
        let (one, other) = (send(address, GET_LONG).await, send(address, GET_LONG).await);
        let next = send(address, &post("ten bytes!", 10)).await;
        assert!(end(next).await.ends_with("ten bytes!"));
        tokio::time::sleep(2 * LIMITS.patience).await;
        for silent in [one, other] {
            assert!(end(silent).await.len() < LONG);
        }
        let mut slow = send(address, GET_LONG).await;
        let (mut part, mut received) = (vec![0; 256 << 10], 0);
        loop {
            match slow.read(&mut part).await.unwrap() {
                0 => break,
                bytes => received += bytes,
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(received > LONG);
    }

    #[tokio::test]
    async fn answers_that_nobody_reads_leave_no_room_for_large_ones_but_for_small_ones() {
        let limits = ServerLimits { connections: 4, answers: LONG, patience: Duration::from_secs(20), ..LIMITS };
        let (address, _) = start(limits).await;
        let mut unread = send(address, GET_LONG).await;
        unread.read_exact(&mut [0]).await.unwrap();
        assert!(end(send(address, GET_LONG).await).await.starts_with("HTTP/1.1 503 "));
        assert!(end(send(address, &post("ten bytes!", 10)).await).await.ends_with("ten bytes!"));
        drop(unread);
        while end(send(address, GET_LONG).await).await.len() < LONG {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn clients_that_read_too_slowly_are_given_up() {
        let (address, _) = start(ServerLimits { slowest: LONG, patience: Duration::from_secs(2), ..LIMITS }).await;
        let mut slow = send(address, GET_LONG).await;
        let (began, mut part) = (Instant::now(), vec![0; 256 << 10]);
        while slow.read(&mut part).await.is_ok_and(|bytes| bytes > 0) {
            assert!(began.elapsed() < Duration::from_secs(15));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    #[tokio::test]
    async fn a_page_s_connection_is_kept_for_no_other_request() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let respond = |_| std::future::ready(Response::new(Full::new(Bytes::from("ok"))));
        tokio::spawn(serve_pages(listener, ServerLimits::PAGES, respond));
        let began = Instant::now();
        let both = "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n";
        assert_eq!(end(send(address, both).await).await.matches("200 OK").count(), 1);
        assert!(began.elapsed() < ServerLimits::PAGES.patience / 2);
    }

    #[tokio::test]
    async fn work_ends_when_its_client_goes() {
        let (address, ended) = start(LIMITS).await;
        for _ in 0..5 {
            let stream = send(address, "POST /hang HTTP/1.1\r\nContent-Length: 10\r\n\r\nten bytes!").await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            drop(stream);
            ended.acquire().await.unwrap().forget();
        }
        assert!(end(send(address, &post("ten bytes!", 10)).await).await.ends_with("ten bytes!"));
    }
}
