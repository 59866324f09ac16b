//! Random numbers that need not be hard to guess.

use std::hash::{BuildHasher, Hasher, RandomState};

/// The hasher's keys are random.
pub fn number() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A text that no other call returns.
pub fn token() -> String {
    format!("{:016x}", number())
}
