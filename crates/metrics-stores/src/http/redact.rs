//! Texts of stores, such as errors. They may repeat the secrets that were sent, so they are shown only without them.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue};
use serde::Deserialize;
use serde::de::DeserializeOwned;

const MAX_SHOWN: usize = 300;
const CONCEALED: &str = "***";

/// A text of a store, which is shown only through [`Redactor::shown`].
#[derive(Default, Deserialize)]
#[serde(transparent)]
pub struct StoreText(String);

impl<T: Into<String>> From<T> for StoreText {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for StoreText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(CONCEALED)
    }
}

impl StoreText {
    pub fn contains(&self, words: &str) -> bool {
        self.0.contains(words)
    }

    pub fn json<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(&self.0)
    }

    /// The text as data, which is not shown.
    pub fn into_data(self) -> String {
        self.0
    }
}

/// A store, and the secrets that it was sent.
#[derive(Clone)]
pub struct Redactor {
    /// The name of the store in messages.
    pub store: String,
    sent: Vec<String>,
}

impl Redactor {
    /// Knows the sensitive headers of a request, and the other secrets in it.
    pub fn new(store: &str, headers: &HeaderMap, sent: &[String]) -> Self {
        let sensitive = headers.values().filter(|value| value.is_sensitive());
        let mut sent: Vec<String> = sensitive.flat_map(forms).chain(sent.iter().cloned()).collect();
        sent.retain(|secret| !secret.is_empty());
        // Some contain others.
        sent.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { store: store.to_owned(), sent }
    }

    /// The first line of a text, not too long, without secrets.
    pub fn shown(&self, said: &StoreText) -> String {
        let concealed = self.sent.iter().fold(said.0.clone(), |text, secret| text.replace(secret, CONCEALED));
        let line = concealed.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        line.chars().take(MAX_SHOWN).collect()
    }
}

/// The forms of a secret in a header: its value, and the token, or user and password, after the scheme.
fn forms(value: &HeaderValue) -> Vec<String> {
    let Ok(value) = value.to_str() else { return vec![String::from_utf8_lossy(value.as_bytes()).into_owned()] };
    let mut forms = vec![value.to_owned()];
    if let Some((scheme, credentials)) = value.split_once(' ') {
        forms.push(credentials.trim().to_owned());
        if scheme.eq_ignore_ascii_case("basic")
            && let Ok(decoded) = STANDARD.decode(credentials.trim())
        {
            let decoded = String::from_utf8_lossy(&decoded).into_owned();
            forms.extend(decoded.split_once(':').map(|(_, password)| password.to_owned()));
            forms.push(decoded);
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::sensitive;

    #[test]
    fn what_was_sent_in_confidence_is_not_shown_in_any_form() {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", sensitive("Basic YW5uOnBhIlxzcw==").unwrap());
        headers.insert("x-api-key", sensitive("k3y").unwrap());
        headers.insert("x-scope-orgid", HeaderValue::from_static("shop"));
        let redactor = Redactor::new("p", &headers, &["assertion".to_owned()]);
        let check = |said: &str, shown: &str| assert_eq!(redactor.shown(&said.into()), shown);
        check("no org id: shop", "no org id: shop");
        check("\n bad header Authorization: Basic YW5uOnBhIlxzcw==\nb", "bad header Authorization: ***");
        check("bad base64 `YW5uOnBhIlxzcw==`", "bad base64 `***`");
        check(r#"ann:pa"\ss is wrong, pa"\ss too"#, "*** is wrong, *** too");
        check("key k3y, assertion", "key ***, ***");
        // Cut where people stop to read, after that.
        check(&format!("{}k3y", "x".repeat(298)), &format!("{}**", "x".repeat(298)));
        let read: StoreText = serde_json::from_str(r#""pa\u0022\\ss""#).unwrap();
        assert_eq!(redactor.shown(&read), "***");
    }
}
