//! The steps of a decision, in the order in which `decide` takes them. No step calls another.

pub mod authored;
pub mod defaults;
pub mod estimate;
pub mod exempt;
pub mod limits;
pub mod quota;
pub mod ranges;
