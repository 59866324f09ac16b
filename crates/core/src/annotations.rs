//! The annotations that say who set a value, read and written: LimitRanger's, and ours.

pub mod limit_ranger;
pub mod ours;
