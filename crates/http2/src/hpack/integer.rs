//! Integers (RFC 7541, section 5.1).

use super::error::HpackError;

/// Reads an integer with a prefix of `bits`; `first` is its first byte, the others are taken from
/// `rest`.
pub(super) fn read(first: u8, bits: u32, rest: &mut &[u8]) -> Result<usize, HpackError> {
    let mask = (1u32 << bits) - 1;
    let mut value = u32::from(first) & mask;
    if value < mask {
        return Ok(value as usize);
    }
    let mut shift = 0;
    loop {
        let (&byte, after) = rest.split_first().ok_or(HpackError::Truncated)?;
        *rest = after;
        // Four bytes hold more than any length or index that can be valid here.
        if shift > 21 {
            return Err(HpackError::IntegerTooLarge);
        }
        value += u32::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return Ok(value as usize);
        }
    }
}

/// Appends `value` with a prefix of `bits`; `pattern` has the bits before the prefix.
pub(super) fn write(out: &mut Vec<u8>, pattern: u8, bits: u32, value: usize) {
    let mask = (1usize << bits) - 1;
    let low = |value: usize| u8::try_from(value).expect("it is masked");
    if value < mask {
        return out.push(pattern | low(value));
    }
    out.push(pattern | low(mask));
    let mut left = value - mask;
    while left >= 0x80 {
        out.push(low(left & 0x7f) | 0x80);
        left >>= 7;
    }
    out.push(low(left));
}
