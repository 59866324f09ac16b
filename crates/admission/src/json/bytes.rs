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
    use std::arch::wasm32::{u8x16_bitmask, u8x16_eq, u8x16_lt, u8x16_splat, v128_or};
    let bytes = vector(bytes);
    let ends = v128_or(u8x16_eq(bytes, u8x16_splat(b'"')), u8x16_eq(bytes, u8x16_splat(b'\\')));
    u32::from(u8x16_bitmask(v128_or(ends, u8x16_lt(bytes, u8x16_splat(0x20)))))
}

pub(super) fn hex4(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 4)?;
    digits.iter().try_fold(0, |value, digit| Some(value * 16 + char::from(*digit).to_digit(16)?))
}

/// The end of the list or object that begins at a place, 64 bytes at a time. Brackets in strings do not count. None if the end
/// is not found, if there is an escape on the way, or if the text is shorter.
pub(super) fn end_of_container(bytes: &[u8], start: usize) -> Option<usize> {
    let (open, close) = if bytes.get(start) == Some(&b'{') { (b'{', b'}') } else { (b'[', b']') };
    let (mut at, mut depth, mut in_string) = (start, 0_u32, false);
    loop {
        let rest = bytes.get(at..)?;
        let (block, before) = match rest.first_chunk() {
            Some(block) => (block, 0),
            None if rest.is_empty() => return None,
            // The last bytes, of which the first were looked at already.
            None => (bytes.last_chunk()?, 64 - rest.len()),
        };
        let [quotes, opened, closed, escapes] = [b'"', open, close, b'\\'].map(|byte| places(block, byte) >> before);
        if escapes != 0 {
            return None;
        }
        let mut brackets = opened | closed;
        if brackets != 0 {
            // A bit for each byte in a string: those with an odd number of quotes up to it.
            let odd = [1, 2, 4, 8, 16, 32].iter().fold(quotes, |odd, by| odd ^ odd << by);
            brackets &= if in_string { odd } else { !odd };
            let closing = (closed & brackets).count_ones();
            if closing < depth {
                depth = depth.wrapping_add((opened & brackets).count_ones()).wrapping_sub(closing);
                brackets = 0;
            }
        }
        while brackets != 0 {
            let place = brackets.trailing_zeros();
            brackets &= brackets.wrapping_sub(1);
            if opened >> place & 1 == 1 {
                depth = depth.wrapping_add(1);
            } else if depth == 1 {
                return Some(at.wrapping_add(place as usize).wrapping_add(1));
            } else {
                depth = depth.wrapping_sub(1);
            }
        }
        in_string ^= quotes.count_ones() & 1 == 1;
        at = at.wrapping_add(64);
    }
}

/// One bit for each byte that is this one; the lowest is for the first byte.
#[cfg(not(target_feature = "simd128"))]
fn places(block: &[u8; 64], wanted: u8) -> u64 {
    block.iter().rev().fold(0, |places, byte| places << 1 | u64::from(*byte == wanted))
}

#[cfg(target_feature = "simd128")]
#[inline(always)]
fn places(block: &[u8; 64], wanted: u8) -> u64 {
    use std::arch::wasm32::{u8x16_bitmask, u8x16_eq, u8x16_splat};
    let of_sixteen = |at: usize| {
        let sixteen = block.get(at..).and_then(|rest| rest.first_chunk()).map_or(u8x16_splat(0), vector);
        u64::from(u8x16_bitmask(u8x16_eq(sixteen, u8x16_splat(wanted)))) << at
    };
    of_sixteen(0) | of_sixteen(16) | of_sixteen(32) | of_sixteen(48)
}

#[cfg(target_feature = "simd128")]
#[inline(always)]
fn vector(bytes: &[u8; 16]) -> std::arch::wasm32::v128 {
    let word =
        |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word));
    std::arch::wasm32::u64x2(word(0), word(8))
}
