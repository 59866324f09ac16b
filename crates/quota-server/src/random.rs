//! Random tokens. They must be unique, but not hard to guess.

use ring::rand::{SecureRandom, SystemRandom};

/// A random 32-bit number.
pub fn random() -> u32 {
    let mut bytes = [0; 4];
    // Without randomness, equal tokens would make different claims look like the same one.
    match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => u32::from_le_bytes(bytes),
        Err(_) => std::process::id(),
    }
}

/// A token for each time that a review is handled.
pub fn token() -> String {
    format!("{:08x}{:08x}", random(), random())
}
