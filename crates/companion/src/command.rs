//! One file a subcommand.

pub mod collect;
pub mod doctor;
