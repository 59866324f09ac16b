//! The entry point of the core for tests: a request, settings, and the answers to reads.

use headroom_admission::cluster::lookup::Lookup;
use headroom_admission::json::Document;
use headroom_admission::timestamp::Timestamp;
use headroom_admission::{Context, Decision, FetchedObjects, Request, Settings};

/// Evaluates a request and passes the decision to `then`, with the objects that were read for it.
pub fn evaluate<T>(
    request: &str,
    settings: &str,
    now: Option<Timestamp>,
    mut read: impl FnMut(&Lookup<'_>) -> Result<String, String>,
    then: impl for<'d> FnOnce(&Request<'d>, &Decision<'d>, &Context<'d>) -> T,
) -> T {
    let documents = [request, settings].map(|text| Document::read(text).unwrap());
    let request = Request::read(documents[0].root()).unwrap();
    let settings = Settings::read(Some(documents[1].root())).unwrap();
    let fetched = FetchedObjects::default();
    let read = |lookups: &[Lookup<'_>]| lookups.iter().map(|lookup| read(lookup).map(String::into_bytes)).collect();
    let (decision, context) = headroom_admission::evaluate(&request, &settings, &fetched, read, || now);
    then(&request, &decision, &context)
}
