//! Any bytes as a DSP's HTTP response, in pieces of any size: bounded, and the pieces do not change
//! the result.
#![no_main]

use exchange_serve::answer::{AnswerProgress, AnswerReader};
use libfuzzer_sys::fuzz_target;

const BODY_MAX: usize = 4096;

fn read(input: &[u8], size: usize) -> Option<(u16, Vec<u8>)> {
    let mut reader = AnswerReader::new(BODY_MAX);
    for piece in input.chunks(size.max(1)) {
        match reader.read(piece) {
            Ok(AnswerProgress::Partial) => (),
            Ok(AnswerProgress::Done { head, body, .. }) => {
                return Some((head.status, body.to_vec()));
            }
            Err(_) => return None,
        }
    }
    match reader.end() {
        Ok(AnswerProgress::Done { head, body, .. }) => Some((head.status, body.to_vec())),
        _ => None,
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((size, input)) = data.split_first() else { return };
    let whole = read(input, input.len());
    let pieces = read(input, usize::from(*size) % 64 + 1);
    assert_eq!(whole, pieces);
    assert!(whole.is_none_or(|(_, body)| body.len() <= BODY_MAX));
});
