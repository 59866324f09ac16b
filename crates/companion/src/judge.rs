//! One object judged at the desk, by the same core and in the same order as the policy judges it: the request as the API
//! server would send it, the objects that the core asks for, the decision, and what of it concerns people.
//!
//! Where the objects come from is the surroundings' business; how a judgement is told is the commands'.

mod apply;
mod bounds;
mod judgement;
pub mod request;
mod run;

use headroom_core::context::lookup::Lookup;
use headroom_core::context::read_answers;
use headroom_core::context::wanted_history::WantedHistory;
use headroom_core::decide::{Decision, Violation};
use headroom_core::json::{Document, Malformed};
use headroom_core::settings::Mode;
use headroom_core::stage::ranges;
use headroom_core::timestamp::Timestamp;
use headroom_core::{Context, Request, Settings, decide};
use serde_json::{Value, json};

use crate::clock;
use crate::surroundings::Surroundings;

pub use bounds::{Edge, HeldAgainst};
pub use judgement::{
    Amount, Call, Charge, ContainerValues, Exchange, Judgement, Operation, Reason, Speaker, SpokenValue, Topic, Verdict,
};
pub use run::{Run, problems};

/// Judges a request in its surroundings. `settings` is the JSON of valid settings.
pub fn judge(request: Value, settings: &str, around: &mut dyn Surroundings) -> Judgement {
    // In its envelope as the policy gets it, so that places in it are told alike.
    let text = json!({ "request": request }).to_string();
    let mut judgement = Judgement::of(request);
    if let Err(problem) = decide_on(&text, settings, around, &mut judgement) {
        judgement.verdict = Verdict::NotJudged;
        judgement.reasons = vec![Reason { topic: Topic::Unreadable, text: problem, cause: None }];
    }
    judgement
}

/// The policy's own order: what the request needs, the history that this makes worth reading, the decision, and once
/// more where a quota must be read afresh.
fn decide_on(
    text: &str,
    settings: &str,
    around: &mut dyn Surroundings,
    judgement: &mut Judgement,
) -> Result<(), String> {
    let document = Document::read(text).map_err(|error| error.to_string())?;
    let request = document.root().get("request").transpose().unwrap_or_else(|| Ok(document.root()));
    let request = match request.and_then(Request::read) {
        Ok(request) => request,
        Err(malformed) => {
            judgement.take(&Decision::refusing(vec![Violation::Unreadable(malformed)]), &Context::default(), None);
            return Ok(());
        }
    };
    let settings_document = Document::read(settings).map_err(|error| format!("invalid settings: {error}"))?;
    let settings = Settings::read(Some(settings_document.root())).map_err(|error| error.to_string())?;
    // Declared before the context, which borrows from them.
    let (fresh, fresh_answers, fresh_documents);
    let mut context = Context::default();
    let lookups = Lookup::all(&request, &settings);
    let answers = fetch(&lookups, around, &settings, judgement);
    let documents = read_answers(&answers);
    context.add_all(&lookups, &documents);
    let wanted = WantedHistory::of(&request, &settings, &context);
    let own_history = wanted.own(&request, &settings);
    let answers = fetch(&own_history, around, &settings, judgement);
    let documents = read_answers(&answers);
    context.add_all(&own_history, &documents);
    if !own_history.is_empty() {
        context.now = Timestamp::from_unix_seconds(clock::now());
    }
    let pooled_history = wanted.pooled(&request, &settings, &context);
    let answers = fetch(&pooled_history, around, &settings, judgement);
    let documents = read_answers(&answers);
    context.add_all(&pooled_history, &documents);
    if !pooled_history.is_empty() {
        context.now = Timestamp::from_unix_seconds(clock::now());
    }
    let mut decision = decide(&request, &context, &settings);
    fresh = Lookup::again(&request, &decision.doubtful_quotas);
    if !fresh.is_empty() {
        fresh_answers = fetch(&fresh, around, &settings, judgement);
        fresh_documents = read_answers(&fresh_answers);
        context.add_all(&fresh, &fresh_documents);
        decision = decide(&request, &context, &settings);
    }
    judgement.take(&decision, &context, changed(&decision, &request)?);
    if settings.limit_ranges.mode != Mode::Off {
        let held = held_against(&request, &decision, &context, &settings);
        judgement.held_against = held.map_err(|malformed| malformed.to_string())?;
    }
    Ok(())
}

/// The bounds that the request's pod or claim was held against.
fn held_against<'d>(
    request: &Request<'d>,
    decision: &Decision<'d>,
    context: &Context<'d>,
    settings: &Settings<'d>,
) -> Result<Vec<HeldAgainst>, Malformed> {
    match (&decision.pod, request.object) {
        (Some(pod), _) => {
            let ranges = ranges::applicable(request, Some(pod), context, settings)?;
            Ok(bounds::of_pod(pod, &ranges))
        }
        // What cannot be read was refused for that, and is held against nothing.
        (None, Some(claim)) if request.is("", "persistentvolumeclaims", "") && !is_unreadable(decision) => {
            bounds::of_claim(claim, &ranges::applicable(request, None, context, settings)?)
        }
        _ => Ok(Vec::new()),
    }
}

fn is_unreadable(decision: &Decision<'_>) -> bool {
    decision.violations.iter().any(|violation| matches!(violation, Violation::Unreadable(_)))
}

fn changed(decision: &Decision<'_>, request: &Request<'_>) -> Result<Option<Value>, String> {
    let Some(object) = request.object else { return Ok(None) };
    let Some(text) = decision.changed_object(object).map_err(|malformed| malformed.to_string())? else {
        return Ok(None);
    };
    serde_json::from_str(&text).map(Some).map_err(|error| error.to_string())
}

/// Reads what some lookups ask for, in their order, and notes what was asked and answered.
fn fetch(
    lookups: &[Lookup<'_>],
    around: &mut dyn Surroundings,
    settings: &Settings<'_>,
    judgement: &mut Judgement,
) -> Vec<Result<Vec<u8>, String>> {
    let mut answers = Vec::new();
    for lookup in lookups {
        let call = lookup.call();
        let mut answer = around.read(&call);
        // Before an object can be sent its namespace must be there. One that nobody describes says nothing for or
        // against estimates; but what its labels are is not guessed where settings select by them.
        if let (Lookup::Namespace { name }, Err(problem)) = (lookup, &answer)
            && problem.starts_with("Cannot find")
            && !settings.selects_by_namespace_labels()
        {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            answer = Ok(namespace.to_string().into_bytes());
        }
        judgement.exchanges.push(Exchange::new(&call, &answer));
        answers.push(answer);
    }
    answers
}
