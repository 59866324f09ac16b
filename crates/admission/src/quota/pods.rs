//! The pods that quotas count: those that are live.

use crate::json::{Malformed, Node};
use crate::request;
use crate::timestamp::Timestamp;

/// A pod is live until it has ended, or until its deletion is overdue. Like Kubernetes, this adds the grace period to
/// a time that already includes it.
pub fn is_live(pod: &request::Object<'_>, now: Option<Timestamp>) -> Result<bool, Malformed> {
    let phase = pod.status_at(&["phase"])?.map(Node::str).transpose()?;
    if matches!(phase.as_deref(), Some("Succeeded" | "Failed")) {
        return Ok(false);
    }
    let (Some(metadata), Some(now)) = (pod.deletion, now) else { return Ok(true) };
    let (Some(deletion), Some(grace)) =
        (metadata.get("deletionTimestamp")?, metadata.get("deletionGracePeriodSeconds")?)
    else {
        return Ok(true);
    };
    let gone_after = Timestamp::read(deletion)?.unix_seconds().saturating_add(grace.integer()?);
    Ok(now.unix_seconds() <= gone_after)
}
