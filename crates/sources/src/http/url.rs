//! The URL of a store, and the user and password that may stand in it. Those are never shown.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use headroom_kube::secret::Secret;
use percent_encoding::percent_decode_str;

/// A URL as typed, whether it can be parsed or not.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    shown: String,
    credentials: Option<(String, Secret)>,
}

impl Url {
    /// Without user and password.
    pub fn as_str(&self) -> &str {
        &self.shown
    }

    /// The user and password in it.
    pub fn credentials(&self) -> Option<&(String, Secret)> {
        self.credentials.as_ref()
    }
}

impl<T: AsRef<str>> From<T> for Url {
    fn from(text: T) -> Self {
        let text = text.as_ref();
        // Cut by hand, so that a URL that cannot be parsed does not show its password either.
        let (scheme, rest) = text.split_at(text.find("://").map_or(0, |at| at + 3));
        let (mut authority, mut path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !authority.contains('@') && authority.rsplit_once(':').is_some_and(|(_, port)| !is_port(port)) {
            // Somebody did not escape the slash in a password.
            (authority, path) = rest.split_at(rest.rfind('@').map_or(rest.len(), |at| {
                let host = rest.get(at..).unwrap_or_default();
                at + host.find(['/', '?', '#']).unwrap_or(host.len())
            }));
        }
        let Some((credentials, host)) = authority.rsplit_once('@') else {
            return Self { shown: text.to_owned(), credentials: None };
        };
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
        let credentials = Some((decoded(user), Secret::from(decoded(password))));
        Self { shown: format!("{scheme}{host}{path}"), credentials }
    }
}

impl FromStr for Url {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self::from(text))
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, shown: &str, credentials: Option<(&str, &str)>) {
        let url = Url::from(text);
        assert_eq!((url.to_string(), format!("{url:?}")), (shown.to_owned(), shown.to_owned()));
        let found = url.credentials().map(|(user, password)| (user.as_str(), password.reveal()));
        assert_eq!(found, credentials);
    }

    #[test]
    fn a_password_is_kept_apart_and_not_shown() {
        check("http://p:9090/a?b=c@d", "http://p:9090/a?b=c@d", None);
        check("http://ann:se%40cret@p:9090/a", "http://p:9090/a", Some(("ann", "se@cret")));
        check("https://ann@p", "https://p", Some(("ann", "")));
        check("http://ann:a/b@p/c", "http://p/c", Some(("ann", "a/b")));
        check("http://p:9090/a@b", "http://p:9090/a@b", None);
        check("http://p:x", "http://p:x", None);
        check("ann:secret@p:9090", "p:9090", Some(("ann", "secret")));
        check("http://ann:s@e@p", "http://p", Some(("ann", "s@e")));
    }
}
