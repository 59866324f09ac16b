//! One thing wrong with an object that a person wrote, as the API server would tell it.

use std::fmt;

/// Where, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Such as `spec.limits[0].min[cpu]`.
    pub field: String,
    pub detail: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.detail)
    }
}
