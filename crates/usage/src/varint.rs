//! The encoding of summaries on disk: unsigned numbers of seven bits a byte, low ones first (LEB128), without names and lengths
//! of records. The version of the store's format determines their order.

/// Bytes on disk that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a stored summary is damaged")]
pub struct Damaged;

pub fn write(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number as u8) | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes one number off the front of `rest`.
pub fn read(rest: &mut &[u8]) -> Result<u64, Damaged> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, tail) = rest.split_first().ok_or(Damaged)?;
        *rest = tail;
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit only.
        if bits << shift >> shift != bits {
            return Err(Damaged);
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(numbers: Vec<u64>) {
            let mut out = Vec::new();
            numbers.iter().for_each(|number| write(&mut out, *number));
            let mut rest = out.as_slice();
            for number in numbers {
                prop_assert_eq!(read(&mut rest), Ok(number));
            }
            prop_assert_eq!(read(&mut rest), Err(Damaged));
        }
    }

    #[test]
    fn numbers_beyond_64_bits_are_refused() {
        let mut too_large = [0xff; 9].to_vec();
        too_large.push(0x02);
        assert_eq!(read(&mut too_large.as_slice()), Err(Damaged));
    }
}
