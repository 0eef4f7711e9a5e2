//! Integers in LEB128, for data that stays in memory.

/// Appends a number: seven bits a byte, lowest first.
pub(crate) fn put(bytes: &mut Vec<u8>, mut word: u64) {
    while word > 0x7f {
        bytes.push(0x80 | u8::try_from(word & 0x7f).expect("seven bits"));
        word >>= 7;
    }
    bytes.push(u8::try_from(word).expect("seven bits"));
}

pub(crate) fn take(bytes: &mut &[u8]) -> u64 {
    let (mut word, mut shift) = (0, 0);
    loop {
        let (first, rest) = bytes.split_first().expect("it was packed whole");
        *bytes = rest;
        word |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return word;
        }
        shift += 7;
    }
}

/// Appends `to - from` modulo 2^64: few bytes if they are close, either way.
pub(crate) fn put_difference(bytes: &mut Vec<u8>, from: u64, to: u64) {
    let difference = to.wrapping_sub(from);
    let is_negative = difference >> 63;
    put(bytes, difference << 1 ^ is_negative.wrapping_neg());
}

pub(crate) fn take_difference(bytes: &mut &[u8], from: u64) -> u64 {
    let folded = take(bytes);
    from.wrapping_add(folded >> 1 ^ (folded & 1).wrapping_neg())
}

#[cfg(test)]
mod tests;
