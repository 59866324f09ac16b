//! Bytes of JSON strings, for reading and for writing them.

/// Skips bytes that need no escape inside a string, sixteen at a time: most of a request is such text.
#[inline(never)]
pub(super) fn skip_plain(bytes: &[u8], mut at: usize) -> usize {
    while let Some(sixteen) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let marks = marked(sixteen);
        if marks != 0 {
            return at.wrapping_add(marks.trailing_zeros() as usize);
        }
        at = at.wrapping_add(16);
    }
    // The last sixteen bytes, which overlap the bytes that were checked before.
    if let Some(sixteen) = bytes.last_chunk() {
        let before = at.wrapping_add(16).wrapping_sub(bytes.len());
        let marks = marked(sixteen) >> before.min(16);
        return if marks != 0 { at.wrapping_add(marks.trailing_zeros() as usize) } else { bytes.len() };
    }
    while bytes.get(at).is_some_and(|byte| !is_marked(*byte)) {
        at += 1;
    }
    at
}

/// True for a byte that ends a string, begins an escape or must be escaped.
fn is_marked(byte: u8) -> bool {
    matches!(byte, ..0x20 | b'"' | b'\\')
}

/// One bit for each of these bytes; the lowest is for the first byte.
#[cfg(not(target_feature = "simd128"))]
pub(super) fn marked(bytes: &[u8; 16]) -> u32 {
    bytes.iter().rev().fold(0, |marks, byte| marks << 1 | u32::from(is_marked(*byte)))
}

/// The same with a few WebAssembly instructions.
#[cfg(target_feature = "simd128")]
#[inline(always)]
pub(super) fn marked(bytes: &[u8; 16]) -> u32 {
    use std::arch::wasm32::{u8x16_bitmask, u8x16_eq, u8x16_lt, u8x16_splat, u64x2, v128_or};
    let word =
        |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word));
    let bytes = u64x2(word(0), word(8));
    let ends = v128_or(u8x16_eq(bytes, u8x16_splat(b'"')), u8x16_eq(bytes, u8x16_splat(b'\\')));
    u32::from(u8x16_bitmask(v128_or(ends, u8x16_lt(bytes, u8x16_splat(0x20)))))
}

/// The number in four hex digits.
pub(super) fn hex4(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 4)?;
    digits.iter().try_fold(0, |value, digit| Some(value * 16 + char::from(*digit).to_digit(16)?))
}
