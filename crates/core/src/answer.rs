//! What goes back: edits of the request's own text, and the annotation that explains them.

pub mod annotation;
pub mod describe;
pub mod patch;
