//! The URL of a store. A user and a password in it are refused, and never shown.

use std::fmt;

/// A URL as typed, whether it can be parsed or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    shown: String,
    has_credentials: bool,
}

impl Url {
    /// Without user and password.
    pub fn as_str(&self) -> &str {
        &self.shown
    }

    pub fn has_credentials(&self) -> bool {
        self.has_credentials
    }

    /// The URL before a text in it, and what follows that.
    pub fn split_once(&self, separator: &str) -> (Self, Option<&str>) {
        let (before, after) = self.shown.split_once(separator).map_or((self.as_str(), None), |(a, b)| (a, Some(b)));
        (Self { shown: before.to_owned(), ..*self }, after)
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
        match authority.rsplit_once('@') {
            Some((_, host)) => Self { shown: format!("{scheme}{host}{path}"), has_credentials: true },
            None => Self { shown: text.to_owned(), has_credentials: false },
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, shown: &str, has_credentials: bool) {
        let url = Url::from(text);
        assert_eq!((url.to_string().as_str(), url.has_credentials()), (shown, has_credentials));
    }

    #[test]
    fn a_password_is_not_shown() {
        check("http://p:9090/a?b=c@d", "http://p:9090/a?b=c@d", false);
        check("http://ann:se%40cret@p:9090/a", "http://p:9090/a", true);
        check("https://ann@p", "https://p", true);
        check("http://ann:a/b@p/c", "http://p/c", true);
        check("http://p:9090/a@b", "http://p:9090/a@b", false);
        check("http://p:x", "http://p:x", false);
        check("ann:secret@p:9090", "p:9090", true);
        check("http://ann:s@e@p", "http://p", true);
    }
}
