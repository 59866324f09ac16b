//! Random words. Nobody has to guess them, they only have to differ.

use ring::rand::{SecureRandom, SystemRandom};

/// A number of 32 bits.
pub fn random() -> u32 {
    let mut bytes = [0; 4];
    // Without randomness tokens would be equal and claims would be merged that are not one.
    match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => u32::from_le_bytes(bytes),
        Err(_) => std::process::id(),
    }
}

/// The token of one handling of a review.
pub fn token() -> String {
    format!("{:08x}{:08x}", random(), random())
}
