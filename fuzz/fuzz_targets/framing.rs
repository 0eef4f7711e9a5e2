//! Any bytes of a connection: the same are spoilt wherever they are cut, and only a line's end is.
#![no_main]

use http_kit::framing::FramingCheck;
use libfuzzer_sys::fuzz_target;

fn follow(input: &[u8], length: usize) -> Vec<u8> {
    let (mut check, mut bytes) = (FramingCheck::default(), input.to_vec());
    bytes.chunks_mut(length.max(1)).for_each(|piece| check.follow(piece));
    bytes
}

fuzz_target!(|input: &[u8]| {
    let whole = follow(input, input.len());
    for length in [1, 2, 3, 7, 64] {
        assert_eq!(follow(input, length), whole, "in pieces of {length}");
    }
    let changed = input.iter().zip(&whole).filter(|(before, after)| before != after);
    for (before, after) in changed {
        assert_eq!((*before, *after), (b'\n', 0));
    }
});
