//! Two modules side by side: what each row costs with the first, and as a part of what it costs with the other.

use super::case::{Bench, Case, Times, json, medians, micros};

pub fn run(bench: &Bench, other: &Bench, cases: Vec<Case>) -> Result<(), String> {
    println!(
        "{:<50} {:>14} {:>13} {:>13} {:>13} {:>11} {:>11}  answer",
        "request", "fuel", "start us", "evaluation us", "together us", "start fault", "eval fault"
    );
    for case in cases {
        let [(cost, recorded), (other_cost, other_recorded)] = [bench.record(&case)?, other.record(&case)?];
        let (Some(recorded), Some(other_recorded)) = (recorded, other_recorded) else { return Ok(()) };
        let times = medians(&[&recorded, &other_recorded])?;
        let [times, other_times] = times.as_slice() else { return Ok(()) };
        let both = |of: fn(&Times) -> f64| ratio(of(times), of(other_times), 1);
        let faults = |of: fn(&Times) -> f64| ratio(of(times), of(other_times), 0);
        println!(
            "{:<50} {:>14} {:>13} {:>13} {:>13} {:>11} {:>11}  {}",
            case.name,
            ratio(cost.measured.fuel as f64, other_cost.measured.fuel as f64, 0),
            both(|times| micros(times.start.time)),
            both(|times| micros(times.evaluation.time)),
            both(|times| micros(times.start.time + times.evaluation.time)),
            faults(|times| times.start.page_faults as f64),
            faults(|times| times.evaluation.page_faults as f64),
            if same(&cost.measured.response, &other_cost.measured.response) { "same" } else { "differs" }
        );
    }
    Ok(())
}

/// An amount, and which part of the other it is.
fn ratio(amount: f64, other: f64, digits: usize) -> String {
    format!("{amount:.digits$} {:>5.2}", amount / other)
}

/// True if two responses have the same content: a field that is null is one that is absent.
fn same(one: &Result<Vec<u8>, String>, other: &Result<Vec<u8>, String>) -> bool {
    let stated = |response| {
        let mut value = json(response);
        if let Some(fields) = value.as_mut().ok().and_then(|value| value.as_object_mut()) {
            fields.retain(|_, value| !value.is_null());
        }
        value
    };
    stated(one) == stated(other)
}
