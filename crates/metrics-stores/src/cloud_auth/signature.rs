//! Amazon's signature of a request, version 4: an HMAC of what is sent, under a key that is made of the secret, the day,
//! the region and the service.

use http::header::{AUTHORIZATION, HOST};
use http::{HeaderName, HeaderValue, Request, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ring::{digest, hmac};
use secrecy::{ExposeSecret as _, SecretString};

use crate::SourceError;
use crate::http::sensitive;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// The path is escaped once more than it is sent.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

#[derive(Clone)]
pub struct Keys {
    pub id: String,
    pub secret: SecretString,
    pub session: Option<SecretString>,
}

/// Signs a request to the server at `base`, whose path comes before the request's. The request's query has to be escaped
/// as RFC 3986 wants it.
pub fn sign(
    request: &mut Request<Vec<u8>>,
    base: &Uri,
    keys: &Keys,
    region: &str,
    service: &str,
    now: i64,
) -> Result<(), SourceError> {
    let wrong = |what: &str| SourceError::Permanent(format!("the request cannot be signed: {what}"));
    let time = jiff::Timestamp::from_second(now).map_err(|_| wrong("the clock is beyond any calendar"))?;
    let (date, moment) = (time.strftime("%Y%m%d").to_string(), time.strftime("%Y%m%dT%H%M%SZ").to_string());
    let secret = |text: &str| sensitive(text).map_err(|_| wrong("a key has characters that no key has"));
    let host = host(base).ok_or_else(|| wrong("the URL has no host"))?;
    let plain =
        |text: &str| HeaderValue::try_from(text).map_err(|_| wrong("the URL has a host that HTTP does not allow"));
    request.headers_mut().insert(HOST, plain(&host)?);
    request.headers_mut().insert(DATE, plain(&moment)?);
    let mut signed = vec![("host", host), ("x-amz-date", moment.clone())];
    if let Some(session) = &keys.session {
        request.headers_mut().insert(TOKEN, secret(session.expose_secret())?);
        signed.push(("x-amz-security-token", session.expose_secret().to_owned()));
    }
    let names = signed.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let headers: String = signed.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let path = format!("{}{}", base.path().trim_end_matches('/'), request.uri().path());
    let canonical = format!(
        "{}\n{}\n{}\n{headers}\n{names}\n{}",
        request.method(),
        utf8_percent_encode(&path, IN_PATH),
        sorted(request.uri().query().unwrap_or_default()),
        hex(digest::digest(&digest::SHA256, request.body()).as_ref())
    );
    let scope = format!("{date}/{region}/{service}/aws4_request");
    let hash = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let text = format!("{ALGORITHM}\n{moment}\n{scope}\n{hash}");
    let key = [&date, region, service, "aws4_request"]
        .iter()
        .fold(format!("AWS4{}", keys.secret.expose_secret()).into_bytes(), |key, part| hmac(&key, part.as_bytes()));
    let signature = hex(&hmac(&key, text.as_bytes()));
    let authorization =
        format!("{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={signature}", keys.id);
    request.headers_mut().insert(AUTHORIZATION, secret(&authorization)?);
    Ok(())
}

/// As the client writes it: without a port that is the scheme's own.
fn host(base: &Uri) -> Option<String> {
    let host = base.host()?;
    let own = if base.scheme_str() == Some("https") { 443 } else { 80 };
    Some(match base.port_u16() {
        Some(port) if port != own => format!("{host}:{port}"),
        _ => host.to_owned(),
    })
}

/// The parameters of a query, each with `=`, by name and value.
fn sorted(query: &str) -> String {
    let mut parameters: Vec<&str> = query.split('&').collect();
    parameters.sort_unstable_by(|one, other| one.split_once('=').cmp(&other.split_once('=')));
    parameters.join("&")
}

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Amazon's own test suite for signatures has these: `get-vanilla` and `get-vanilla-query-order-key-case`.
    #[test]
    fn signatures_are_those_of_amazons_examples() {
        let keys = Keys {
            id: "AKIDEXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned().into(),
            session: None,
        };
        let check = |target: &str, signature: &str| {
            let mut request = Request::new(Vec::new());
            *request.uri_mut() = target.parse().unwrap();
            let base: Uri = "https://example.amazonaws.com".parse().unwrap();
            sign(&mut request, &base, &keys, "us-east-1", "service", 1_440_938_160).unwrap();
            let expected = format!(
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                 SignedHeaders=host;x-amz-date, Signature={signature}"
            );
            assert_eq!(request.headers()[AUTHORIZATION], expected);
            assert_eq!(request.headers()[DATE], "20150830T123600Z");
        };
        check("/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
        check("/?Param2=value2&Param1=value1", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
    }
}
