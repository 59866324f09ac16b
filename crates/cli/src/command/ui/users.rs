//! The users of a proxy, by the tokens that it passes on.
//!
//! A proxy may pass on tokens that nobody has checked, and an account makes as many valid ones as it likes. So what one
//! visitor may have is counted by user. A token that is not known yet is checked at once or rejected: nobody waits
//! for the tokens of others.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use headroom_kube::api_client::{ApiError, ApiResult};
use headroom_kube::secret::Secret;
use http::StatusCode;
use ring::digest::{SHA256, digest};
use tokio::sync::Semaphore;

/// Those whose requests are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Visitor {
    /// Who has started the program.
    Owner,
    User(String),
    /// All accounts of a namespace: whoever may create one may create any number.
    ServiceAccounts(String),
    /// A user whose name the API server does not say.
    Token(TokenDigest),
}

type TokenDigest = [u8; 32];

/// Finds the user of a token; none if it is valid and the API server does not say whose it is.
pub type Find = Box<dyn Fn(Secret) -> Pin<Box<dyn Future<Output = ApiResult<Option<String>>> + Send>> + Send + Sync>;

/// Why a token is not served.
pub type Refusal = (StatusCode, String);

pub struct Users {
    find: Find,
    checks: Semaphore,
    /// Whose tokens are known, and since when.
    known: Mutex<HashMap<TokenDigest, (Visitor, Instant)>>,
}

/// Tokens that are checked at a time, half as many as there are connections.
const CHECKS: usize = 32;

/// A token that has expired meanwhile is rejected when the cluster is read.
const KNOWN_FOR: Duration = Duration::from_secs(600);
const KNOWN_TOKENS: usize = 1000;
/// So nobody's tokens push out those of others.
const KNOWN_TOKENS_EACH: usize = 4;

const BUSY: &str = "too many new tokens are being checked; try again\n";

impl Users {
    pub fn new(find: Find) -> Self {
        Self { find, checks: Semaphore::new(CHECKS), known: Mutex::default() }
    }

    /// The visitor with this token.
    pub async fn visitor(&self, token: &Secret) -> Result<Visitor, Refusal> {
        let digest = token_digest(token);
        if let Some(visitor) = self.known(digest) {
            return Ok(visitor);
        }
        let _check = self.checks.try_acquire().map_err(|_| (StatusCode::SERVICE_UNAVAILABLE, BUSY.to_owned()))?;
        let user = (self.find)(token.clone()).await.map_err(|error| refusal(&error))?;
        let visitor = visitor(user, digest);
        self.remember(digest, &visitor);
        Ok(visitor)
    }

    fn known(&self, digest: TokenDigest) -> Option<Visitor> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (visitor, since) = known.get(&digest)?;
        (since.elapsed() < KNOWN_FOR).then(|| visitor.clone())
    }

    fn remember(&self, digest: TokenDigest, visitor: &Visitor) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (_, since)| since.elapsed() < KNOWN_FOR);
        let theirs = known.iter().filter(|(_, (other, _))| other == visitor);
        let mut theirs: Vec<_> = theirs.map(|(digest, (_, since))| (*since, *digest)).collect();
        if theirs.len() >= KNOWN_TOKENS_EACH {
            theirs.sort_unstable();
            theirs.first().and_then(|(_, oldest)| known.remove(oldest));
        }
        if known.len() < KNOWN_TOKENS {
            known.insert(digest, (visitor.clone(), Instant::now()));
        }
    }
}

fn token_digest(token: &Secret) -> TokenDigest {
    let mut bytes = TokenDigest::default();
    bytes.copy_from_slice(digest(&SHA256, token.reveal().as_bytes()).as_ref());
    bytes
}

fn visitor(user: Option<String>, digest: TokenDigest) -> Visitor {
    let Some(user) = user else { return Visitor::Token(digest) };
    match user.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':')) {
        Some((namespace, _)) => Visitor::ServiceAccounts(namespace.to_owned()),
        None => Visitor::User(user),
    }
}

fn refusal(error: &ApiError) -> Refusal {
    match error {
        ApiError::Unauthenticated { message } => (
            StatusCode::UNAUTHORIZED,
            format!(
                "the API server does not accept your token ({message}): log in again; if that does not help, the API server does \
                 not trust the issuer that the proxy uses\n"
            ),
        ),
        error => (StatusCode::BAD_GATEWAY, format!("cannot check your token: {error}\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Users whose tokens begin with their names.
    fn users() -> Users {
        Users::new(Box::new(|token| {
            let user = token.reveal().split('/').next().map(str::to_owned);
            Box::pin(std::future::ready(Ok(user.filter(|user| !user.is_empty()))))
        }))
    }

    #[tokio::test]
    async fn service_accounts_count_by_namespace_and_unnamed_users_by_token() {
        let users = users();
        let visitor = async |token: &str| users.visitor(&Secret::from(token.to_owned())).await.unwrap();
        assert_eq!(visitor("ann/1").await, Visitor::User("ann".to_owned()));
        let of_shop = Visitor::ServiceAccounts("shop".to_owned());
        assert_eq!(visitor("system:serviceaccount:shop:a/1").await, of_shop);
        assert_eq!(visitor("system:serviceaccount:shop:b/1").await, of_shop);
        assert_ne!(visitor("/1").await, visitor("/2").await);
    }

    #[tokio::test]
    async fn many_tokens_of_one_user_push_out_none_of_others() {
        let users = users();
        let ann = Secret::from("ann/1");
        users.visitor(&ann).await.unwrap();
        for number in 0..KNOWN_TOKENS + 10 {
            users.visitor(&Secret::from(format!("eve/{number}"))).await.unwrap();
        }
        assert!(users.known(token_digest(&ann)).is_some());
        assert_eq!(users.known.lock().unwrap().len(), 1 + KNOWN_TOKENS_EACH);
    }
}
