//! A problem of an object from a file or the settings, as the API server would report it.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldProblem {
    /// Such as `spec.limits[0].min[cpu]`.
    pub field: String,
    pub detail: String,
}

impl fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.detail)
    }
}
