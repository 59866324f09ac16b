//! The names of our objects about something that others have named.

/// A name that is made of a text which others choose, such as the name of an owner. It has all of SHA-256, so nobody finds another
/// text with the same name; a short hash without a key would let a tenant take the name of somebody else's object.
pub fn derived_name(prefix: &str, text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let hash: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{prefix}-{hash}")
}
