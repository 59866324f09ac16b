//! One file a subcommand.

pub mod check;
pub mod cluster_args;
pub mod collect;
pub mod completion;
pub mod describe;
pub mod doctor;
pub mod explain;
pub mod ledger;
pub mod manifests;
mod rbac_hint;
pub mod recommend;
pub mod record;
pub mod simulate;
pub mod snapshot;
pub mod source;
pub mod ui;

/// A duration as typed, in whole seconds.
fn seconds(text: &str) -> Result<i64, String> {
    match text.parse::<jiff::SignedDuration>() {
        Ok(duration) if duration.as_secs() > 0 => Ok(duration.as_secs()),
        _ => Err("expected a duration of at least a second, such as `90s`, `5m`, `1h`".to_owned()),
    }
}
