//! Bytes as text.

use std::str;

/// The bytes as text.
///
/// Input from a policy host is UTF-8 and nearly always plain ASCII. The standard library checks for ASCII four bytes at
/// a time; checking sixteen at a time made a request 2 % cheaper (`make bench`).
pub(super) fn text_of(bytes: &[u8]) -> Result<&str, str::Utf8Error> {
    if is_ascii(bytes) {
        #[expect(unsafe_code, reason = "the safe function of the standard library would check every byte again")]
        // SAFETY: ASCII is UTF-8.
        return Ok(unsafe { str::from_utf8_unchecked(bytes) });
    }
    str::from_utf8(bytes)
}

/// The same for owned bytes, without copying them.
pub(super) fn string_of(bytes: Vec<u8>) -> Result<String, str::Utf8Error> {
    text_of(&bytes)?;
    #[expect(unsafe_code, reason = "the safe function of the standard library would check every byte again")]
    // SAFETY: the bytes were just checked.
    Ok(unsafe { String::from_utf8_unchecked(bytes) })
}

fn is_ascii(bytes: &[u8]) -> bool {
    let (sixteens, rest) = bytes.as_chunks::<16>();
    sixteens.iter().all(|sixteen| u128::from_le_bytes(*sixteen) & u128::from_le_bytes([0x80; 16]) == 0)
        && rest.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_the_standard_library_reads_them() {
        let plain = "plain text, longer than two times sixteen bytes";
        for at in 0..plain.len() {
            for wide in ["é", "…", "𝄞", "\0", "\u{7f}", "\u{80}"] {
                let text = [&plain[..at], wide, &plain[at..]].concat();
                assert_eq!(text_of(text.as_bytes()), Ok(text.as_str()));
                assert_eq!(string_of(text.clone().into_bytes()).as_ref(), Ok(&text));
                for cut in 1..wide.len() {
                    let broken = &text.as_bytes()[..at + cut];
                    assert_eq!(text_of(broken), str::from_utf8(broken));
                    assert!(text_of(broken).is_err());
                    assert_eq!(string_of(broken.to_vec()).map_err(|error| error.valid_up_to()), Err(at));
                }
            }
        }
        assert_eq!(text_of(b""), Ok(""));
    }
}
