//! The token of a kubeconfig, or that of a file that is renewed from time to time, as kubectl reads it.

use std::fs;
use std::path::{Path, PathBuf};

use http::{HeaderValue, Request, header};
use kube::client::Body;
use tower::BoxError;

/// A token, and the file where the next one will be.
#[derive(Clone)]
pub struct Bearer {
    file: Option<PathBuf>,
    authorization: HeaderValue,
}

impl Bearer {
    /// `token` is used until the file has one. None if there is neither.
    pub fn of(file: Option<&Path>, token: Option<&str>) -> Result<Option<Self>, String> {
        let token = token.map(bearer);
        let authorization = match (file, token) {
            (None, None) => return Ok(None),
            (None, Some(token)) => token.map_err(|problem| format!("the token {problem}"))?,
            (Some(file), token) => match (read(file), token) {
                (Err(_), Some(Ok(token))) => token,
                (read, _) => read.map_err(|problem| format!("the tokenFile `{}` {problem}", file.display()))?,
            },
        };
        Ok(Some(Self { file: file.map(Path::to_owned), authorization }))
    }

    /// If the file is gone or unreadable, the last token may still be valid.
    pub fn authorize(&mut self, mut request: Request<Body>) -> Result<Request<Body>, BoxError> {
        if let Some(file) = &self.file
            && let Ok(authorization) = read(file)
        {
            self.authorization = authorization;
        }
        request.headers_mut().insert(header::AUTHORIZATION, self.authorization.clone());
        Ok(request)
    }
}

fn read(path: &Path) -> Result<HeaderValue, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    bearer(&text)
}

fn bearer(token: &str) -> Result<HeaderValue, String> {
    let token = token.trim();
    if token.is_empty() {
        return Err("is empty".to_owned());
    }
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| "contains characters that a token cannot have".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write the files that programs read")]
mod tests {
    use super::*;

    #[test]
    fn a_new_token_is_used_at_once_and_the_last_one_while_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "first\n").unwrap();
        let mut file = Bearer::of(Some(&path), None).unwrap().unwrap();
        let mut check = |expected: &str| {
            let request = file.authorize(Request::new(Body::empty())).unwrap();
            assert_eq!(request.headers()[header::AUTHORIZATION], expected);
        };
        check("Bearer first");
        fs::write(&path, "second\n").unwrap();
        check("Bearer second");
        for incomplete in ["", "\n", "two\nlines"] {
            fs::write(&path, incomplete).unwrap();
            check("Bearer second");
        }
        fs::remove_file(&path).unwrap();
        check("Bearer second");
        assert!(Bearer::of(Some(&path), None).is_err_and(|error| error.contains("cannot be read")));
        assert!(Bearer::of(None, Some("two\nlines")).is_err_and(|error| error.contains("a token cannot have")));
    }
}
