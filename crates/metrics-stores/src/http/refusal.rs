//! Errors by HTTP status.

use http::StatusCode;

use super::{Redactor, StoreText};
use crate::SourceError;

/// The error of an HTTP status, for a body without a better one.
pub fn refusal(redactor: &Redactor, status: StatusCode, said: &StoreText) -> SourceError {
    let said = quoted(&redactor.shown(said));
    let text = |advice: &str| format!("`{}` answers {}{said}{advice}", redactor.store, status.as_u16());
    match status.as_u16() {
        401 | 403 => SourceError::Forbidden(text(": check the token, user or tenant, and what they may read")),
        404 => SourceError::Permanent(text(": check the URL, and the path in front of the API")),
        300..=399 => SourceError::Permanent(text(": a redirection; give the URL it leads to")),
        408 | 413 | 422 | 504 => SourceError::Overloaded(text("")),
        429 | 500..=599 => SourceError::Temporary(text("")),
        _ => SourceError::Permanent(text("")),
    }
}

/// Nothing of a page for browsers.
fn quoted(line: &str) -> String {
    if line.is_empty() || line.starts_with('<') { String::new() } else { format!(": `{line}`") }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[test]
    fn a_status_tells_whether_to_ask_for_less_again_or_never() {
        let redactor = Redactor::new("http://p", &HeaderMap::new(), &[]);
        let check = |status: u16, said: &str, kind: fn(String) -> SourceError, text: &str| {
            let found = refusal(&redactor, StatusCode::from_u16(status).unwrap(), &said.into());
            assert_eq!(found, kind(format!("`http://p` answers {status}{text}")));
        };
        let advice = ": `Unauthorized`: check the token, user or tenant, and what they may read";
        check(401, "Unauthorized\n", SourceError::Forbidden, advice);
        check(504, "<html>", SourceError::Overloaded, "");
        check(503, "Service Unavailable", SourceError::Temporary, ": `Service Unavailable`");
        check(429, "", SourceError::Temporary, "");
        check(400, "bad", SourceError::Permanent, ": `bad`");
        check(302, "", SourceError::Permanent, ": a redirection; give the URL it leads to");
    }
}
