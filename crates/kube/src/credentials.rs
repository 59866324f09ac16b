//! Errors of an API server without the credentials that it was sent: errors are shown, and a server, or a proxy in front of it,
//! may quote the request.

use std::fs;
use std::sync::Arc;

use http::Response;
use http_body_util::{BodyExt as _, Full};
use kube::client::DynBody;
use kube::config::AuthInfo;
use serde_json::Value;
use tower::BoxError;

/// Stands for a credential.
const CONCEALED: &str = "***";

/// The credentials of a kubeconfig. Those that a plugin hands to the client are not known here.
#[derive(Debug, Clone)]
pub struct Credentials(Arc<AuthInfo>);

impl Credentials {
    pub fn of(auth: &AuthInfo) -> Self {
        Self(Arc::new(auth.clone()))
    }

    fn texts(&self) -> Vec<String> {
        // In this form, and only there, they are plain text.
        let plain = serde_json::to_value(&*self.0).unwrap_or_default();
        let text = |field: &str| plain.pointer(field).and_then(Value::as_str).map(str::to_owned);
        let written = ["/token", "/password", "/auth-provider/config/id-token", "/auth-provider/config/access-token"];
        // The file's content changes from time to time.
        let in_file = self.0.token_file.as_ref().and_then(|file| fs::read_to_string(file).ok());
        let texts = written.into_iter().filter_map(text).chain(in_file.map(|token| token.trim().to_owned()));
        texts.filter(|text| !text.is_empty()).collect()
    }

    /// The response; that of an error without the credentials.
    pub async fn conceal(self, response: Response<Box<DynBody>>) -> Result<Response<Box<DynBody>>, BoxError> {
        let (head, body) = response.into_parts();
        if !head.status.is_client_error() && !head.status.is_server_error() {
            return Ok(Response::from_parts(head, body));
        }
        let bytes = body.collect().await?.to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let text = self.texts().iter().fold(text, |text, secret| text.replace(secret, CONCEALED));
        Ok(Response::from_parts(head, Box::new(Full::from(text).map_err(|never| match never {}))))
    }
}
