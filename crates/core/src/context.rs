//! What the decision must know of the cluster.

pub mod usage;
