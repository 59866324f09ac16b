//! Random numbers that need not be hard to guess.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A text that no other call returns. The hasher's keys are random.
pub fn token() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}
