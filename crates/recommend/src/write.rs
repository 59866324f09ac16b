//! Advice as changes: `patches` of objects, `edit`s of manifests and of charts' values where they stand; `trial` evaluates each
//! change before it is handed out.
//!
//! Modules in reading order.

pub mod edit;
pub mod patches;
pub mod trial;
