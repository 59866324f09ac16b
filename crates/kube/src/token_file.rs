//! The token of a file that is renewed from time to time, as kubectl reads it.

use std::fs;
use std::path::{Path, PathBuf};

use http::{HeaderValue, Request, header};
use kube::client::Body;
use tower::BoxError;

/// A file with a token, and what it contained last.
#[derive(Clone)]
pub struct TokenFile {
    path: PathBuf,
    authorization: HeaderValue,
}

impl TokenFile {
    /// `otherwise` is the token until the file has one.
    pub fn open(path: &Path, otherwise: Option<&str>) -> Result<Self, String> {
        let authorization = match (read(path), otherwise) {
            (Err(_), Some(token)) => bearer(token),
            (read, _) => read,
        };
        let path = path.to_owned();
        let describe = |problem| format!("the tokenFile `{}` {problem}", path.display());
        Ok(Self { authorization: authorization.map_err(describe)?, path })
    }

    /// If the file is gone or unreadable, the last token may still be valid.
    pub fn authorize(&mut self, mut request: Request<Body>) -> Result<Request<Body>, BoxError> {
        if let Ok(authorization) = read(&self.path) {
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
mod tests {
    use super::*;

    #[test]
    fn a_new_token_is_used_at_once_and_the_last_one_while_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "first\n").unwrap();
        let mut file = TokenFile::open(&path, None).unwrap();
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
        assert!(TokenFile::open(&path, None).is_err_and(|error| error.contains("cannot be read")));
    }
}
