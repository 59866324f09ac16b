//! Lists of objects from the API server, read object by object, so that memory is bounded by the largest one.

use headroom_kube::ApiPath;
use http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::SourceError;
use super::http::{Answer, Asked, Http, Said, refusal};
use crate::json_stream::{self, Pieces, Shape};

/// What is around the objects: of a list nothing that matters here, of an error its text.
#[derive(Deserialize)]
struct Around {
    #[serde(default)]
    message: Said,
}

/// Hands over each object of the list at `path`, as far as `Object` wants to know it. `what` is what a missing path
/// means to people.
pub async fn list<Object: DeserializeOwned>(
    http: &Http,
    path: &ApiPath,
    parameters: &[(&str, &str)],
    missing: &str,
    each: &mut (dyn FnMut(Object) + Send),
) -> Result<(), SourceError> {
    let answer = http.get(path.as_str(), parameters).await?;
    items(http, path, answer, missing, each).await
}

/// As [`list`]; false if this may not be listed.
pub async fn list_if_allowed<Object: DeserializeOwned>(
    http: &Http,
    path: &ApiPath,
    parameters: &[(&str, &str)],
    missing: &str,
    each: &mut (dyn FnMut(Object) + Send),
) -> Result<bool, SourceError> {
    let answer = http.get(path.as_str(), parameters).await?;
    if answer.status() == StatusCode::FORBIDDEN {
        return Ok(false);
    }
    items(http, path, answer, missing, each).await.map(|()| true)
}

async fn items<Object: DeserializeOwned>(
    http: &Http,
    path: &ApiPath,
    mut answer: Answer,
    missing: &str,
    each: &mut (dyn FnMut(Object) + Send),
) -> Result<(), SourceError> {
    let status = answer.status();
    if !status.is_success() {
        return Err(refused(&answer.asked(), status, answer.text().await?, missing));
    }
    let mut pieces = Pieces::new(Shape::ArrayAt(1, "items"));
    while let Some(bytes) = answer.next().await? {
        pieces.feed(&bytes, &mut |piece| {
            each(read(http, path, piece)?);
            Ok(())
        })?;
    }
    let around = pieces.finish()?;
    match serde_json::from_slice::<Around>(&around) {
        Ok(_) => Ok(()),
        Err(error) if error.is_eof() => Err(json_stream::truncated()),
        Err(error) => Err(SourceError::Permanent(format!("`{}`: {path} is not a list: {error}", http.name()))),
    }
}

/// One object, or `None` if it does not exist.
pub async fn get<Object: DeserializeOwned>(http: &Http, path: &ApiPath) -> Result<Option<Object>, SourceError> {
    let mut answer = http.get(path.as_str(), &[]).await?;
    let status = answer.status();
    if status == StatusCode::NOT_FOUND {
        return Ok(None);
    }
    if !status.is_success() {
        return Err(refused(&answer.asked(), status, answer.text().await?, ""));
    }
    let mut object = None;
    let mut pieces = Pieces::new(Shape::Documents);
    while let Some(bytes) = answer.next().await? {
        pieces.feed(&bytes, &mut |piece| {
            object = Some(read(http, path, piece)?);
            Ok(())
        })?;
    }
    pieces.finish()?;
    Ok(object)
}

fn read<Object: DeserializeOwned>(http: &Http, path: &ApiPath, piece: &[u8]) -> Result<Object, SourceError> {
    serde_json::from_slice(piece).map_err(|error| {
        SourceError::Permanent(format!("`{}`: {path} has an object that cannot be read: {error}", http.name()))
    })
}

fn refused(asked: &Asked, status: StatusCode, body: Said, missing: &str) -> SourceError {
    if status == StatusCode::NOT_FOUND && !missing.is_empty() {
        return SourceError::Permanent(format!("`{}`: {missing}", asked.store));
    }
    refusal(asked, status, &body.json::<Around>().map_or(body, |around| around.message))
}
