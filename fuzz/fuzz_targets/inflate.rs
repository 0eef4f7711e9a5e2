//! Any bytes as a compressed response: bounded, and decompressed as by another implementation,
//! whatever came before.
#![no_main]

use std::io::{Read as _, Write as _};

use exchange_serve::inflate::{InflateError, Inflater};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;

const BODY_MAX: usize = 4096;

/// The output of the other implementation, up to one byte beyond the limit. None if it is not gzip.
fn second_opinion(body: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let most = BODY_MAX as u64 + 1;
    MultiGzDecoder::new(body).take(most).read_to_end(&mut out).is_ok().then_some(out)
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).expect("a Vec takes all");
    encoder.finish().expect("a Vec takes all")
}

fuzz_target!(|data: &[u8]| {
    let mut inflater = Inflater::default();
    match inflater.gunzip(data, BODY_MAX) {
        Ok(body) => {
            assert!(body.len() <= BODY_MAX);
            assert_eq!(second_opinion(data).as_deref(), Some(body));
        }
        Err(InflateError::TooLarge | InflateError::Malformed) => {
            assert!(second_opinion(data).is_none_or(|body| body.len() > BODY_MAX));
        }
    }
    // The same buffer, reused; in one member and in two.
    let plain = &data[..data.len().min(BODY_MAX)];
    let (first, second) = plain.split_at(plain.len() / 3);
    for zipped in [gzip(plain), [gzip(first), gzip(second)].concat()] {
        assert_eq!(inflater.gunzip(&zipped, plain.len()), Ok(plain));
        if let Some(less) = plain.len().checked_sub(1) {
            assert_eq!(inflater.gunzip(&zipped, less), Err(InflateError::TooLarge));
        }
        let cut = &zipped[..zipped.len() - 1];
        assert_eq!(inflater.gunzip(cut, BODY_MAX), Err(InflateError::Malformed));
    }
});
