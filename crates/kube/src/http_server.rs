//! The connections of our own servers on plain HTTP.

use std::convert::Infallible;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

/// How long a client may take over its request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers every request by `respond`, until the program ends.
pub async fn connections<R>(listener: TcpListener, respond: impl Fn(Request<Incoming>) -> R + Clone + Send + 'static)
where
    R: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    loop {
        let connection = match listener.accept().await {
            Ok((connection, _)) => connection,
            Err(error) => {
                // Mostly too many open files: no use in trying at once.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        let respond = respond.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answer = respond(request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .serve_connection(TokioIo::new(connection), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
}
