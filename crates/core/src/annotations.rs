//! The annotations that record who set a value, LimitRanger's and ours: read and written.

pub mod limit_ranger;
pub mod ours;
