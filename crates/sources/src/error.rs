//! Why reading a source failed.

/// Why a read failed, in the only three ways that make a difference to the pipeline. The text is for people: lower
/// case, one line, says what was asked of whom, what came back and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Too much was asked for (422, 503 with such a reason, a timeout of the query): ask for half the window.
    #[error("{0}")]
    Overloaded(String),
    /// May work when tried again (connection refused, 5xx, truncated answer): back off, then the same again.
    #[error("{0}")]
    Temporary(String),
    /// Will not work until something is changed (401, 404, unreadable answer, bad name).
    #[error("{0}")]
    Permanent(String),
}
