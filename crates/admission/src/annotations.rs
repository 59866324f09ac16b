//! The annotations that record who set a value, LimitRanger's and ours: read and written.

pub const OURS: &str = "headroom.dev/";

pub mod headroom_annotation;
pub mod limit_ranger;
