//! The desk's surroundings, and the one of them that only the companion has: a live cluster.

pub mod cluster;

pub use headroom_desk::surroundings::*;

pub use cluster::Cluster;
