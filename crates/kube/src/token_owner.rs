//! The user of a bearer token. The API server is asked with that token alone, which every user may do.

use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Request};
use kube::Client;
use kube::config::AuthInfo;
use serde_json::{Value, json};

use crate::api_client::{ApiError, ApiResult};
use crate::kubeconfig::{self, Chosen};
use crate::proxy;
use crate::secret::Secret;

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct TokenOwners {
    /// Without credentials.
    client: Client,
}

impl TokenOwners {
    pub async fn connect(chosen: &Chosen) -> Result<Self, String> {
        let mut config = kubeconfig::config(chosen).await?;
        config.auth_info = AuthInfo::default();
        Ok(Self { client: proxy::client(config)? })
    }

    /// The name of the user, or none if the token is valid and the API server does not say whose it is.
    pub async fn find(&self, token: &Secret) -> ApiResult<Option<String>> {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let other = |error: http::Error| ApiError::Other(error.to_string());
        let mut bearer =
            HeaderValue::from_str(&format!("Bearer {}", token.reveal())).map_err(|error| other(error.into()))?;
        bearer.set_sensitive(true);
        let request = Request::post(REVIEWS).header(CONTENT_TYPE, "application/json").header(AUTHORIZATION, bearer);
        let request = request.body(review.to_string().into_bytes()).map_err(other)?;
        match tokio::time::timeout(TIMEOUT, self.client.request::<Value>(request)).await {
            Err(_) => Err(ApiError::TimedOut(TIMEOUT)),
            Ok(Ok(review)) => {
                Ok(review.pointer("/status/userInfo/username").and_then(Value::as_str).map(str::to_owned))
            }
            // Kubernetes 1.27 and older have no such reviews, but check the token first.
            Ok(Err(error)) => match error.into() {
                ApiError::Forbidden { message, .. } => Ok(user_in(&message)),
                ApiError::NotFound(_) => Ok(None),
                error => Err(error),
            },
        }
    }
}

/// The user in a message of the authorizer: `… is forbidden: User "eve" cannot create resource …`.
fn user_in(message: &str) -> Option<String> {
    let (_, rest) = message.split_once(" is forbidden: User \"")?;
    Some(rest.split_once("\" cannot ")?.0.to_owned())
}
