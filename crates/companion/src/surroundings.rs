//! The desk's surroundings, and the one of them that only the companion has: a live cluster.

pub mod at_once;
pub mod cluster;

pub use headroom_dryrun::cluster_reader::*;

pub use at_once::AtOnce;
pub use cluster::Cluster;
