//! Errors of an API server without the credentials that it was sent: errors are shown, and a server, or a proxy in front of it,
//! may quote the request.

use std::cmp::Reverse;
use std::task::{Context, Poll};

use futures::future::{BoxFuture, FutureExt as _};
use http::{HeaderMap, Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use kube::client::{Body, DynBody};
use kube::config::AuthInfo;
use secrecy::ExposeSecret as _;
use serde_json::Value;
use tower::{BoxError, Layer, Service};

/// The most bytes of an error: a Status of Kubernetes has some hundred, and whatever stands behind a proxy may go on for ever.
const LONGEST_ERROR: usize = 1 << 20;

const CONCEALED: &str = "***";

type Answer = Response<Box<DynBody>>;

/// Conceals what the header `Authorization` of each request holds, whoever has set it: so this layer comes below those that do.
#[derive(Clone)]
pub struct ConcealLayer {
    /// That of the kubeconfig, which the header holds in another form.
    password: Option<String>,
}

impl ConcealLayer {
    pub fn of(auth: &AuthInfo) -> Self {
        Self { password: auth.password.as_ref().map(|password| password.expose_secret().to_owned()) }
    }

    fn secrets(&self, headers: &HeaderMap) -> Vec<String> {
        let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let sent = sent.map(|value| value.split_once(' ').map_or(value, |(_scheme, secret)| secret).trim());
        let mut secrets: Vec<String> = sent.into_iter().chain(self.password.as_deref()).flat_map(forms).collect();
        secrets.retain(|secret| !secret.is_empty());
        // Some contain others.
        secrets.sort_by_key(|secret| Reverse(secret.len()));
        secrets
    }
}

/// A secret as it is, and as a part of a text in JSON.
fn forms(secret: &str) -> [String; 2] {
    let quoted = Value::from(secret).to_string();
    [secret.to_owned(), quoted.trim_start_matches('"').trim_end_matches('"').to_owned()]
}

impl<S> Layer<S> for ConcealLayer {
    type Service = Conceal<S>;

    fn layer(&self, inner: S) -> Conceal<S> {
        Conceal { layer: self.clone(), inner }
    }
}

pub struct Conceal<S> {
    layer: ConcealLayer,
    inner: S,
}

impl<S> Service<Request<Body>> for Conceal<S>
where
    S: Service<Request<Body>, Response = Answer, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Answer;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Answer, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let secrets = self.layer.secrets(request.headers());
        let answer = self.inner.call(request);
        async move { conceal(&secrets, answer.await?).await }.boxed()
    }
}

/// The answer; that of an error without the secrets.
async fn conceal(secrets: &[String], answer: Answer) -> Result<Answer, BoxError> {
    let (head, mut body) = answer.into_parts();
    if !head.status.is_client_error() && !head.status.is_server_error() {
        return Ok(Response::from_parts(head, body));
    }
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        bytes.extend(frame?.into_data().unwrap_or_default());
        if bytes.len() > LONGEST_ERROR {
            return Err(format!("the server answered {} with more than {LONGEST_ERROR} bytes", head.status).into());
        }
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let text = secrets.iter().fold(text, |text, secret| text.replace(secret, CONCEALED));
    Ok(Response::from_parts(head, Box::new(Full::from(text).map_err(|never| match never {}))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_known_in_the_forms_that_a_server_may_repeat() {
        let auth: AuthInfo = serde_json::from_str(r#"{"password": "pa\"ss"}"#).unwrap();
        let headers = [(header::AUTHORIZATION, "Basic YW5uOnBhInNz".parse().unwrap())].into_iter().collect();
        let secrets = ConcealLayer::of(&auth).secrets(&headers);
        assert_eq!(secrets, ["YW5uOnBhInNz", "YW5uOnBhInNz", "pa\\\"ss", "pa\"ss"]);
    }

    #[tokio::test]
    async fn an_error_that_does_not_end_is_given_up() {
        let answer = |bytes: usize| {
            let body: Box<DynBody> = Box::new(Full::from(vec![b'x'; bytes]).map_err(|never| match never {}));
            Response::builder().status(500).body(body).unwrap()
        };
        assert!(conceal(&[], answer(LONGEST_ERROR)).await.is_ok());
        assert!(conceal(&[], answer(LONGEST_ERROR + 1)).await.is_err());
    }
}
