//! Bodies that are whole, broken, or far too large.

use std::io::Write as _;

use proptest::prelude::*;

use super::*;

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(body).expect("a Vec takes all");
    encoder.finish().expect("a Vec takes all")
}

#[test]
fn limits_and_damage() {
    let mut inflater = Inflater::default();
    let mut check = |body: &[u8], body_max, want: Result<&[u8], InflateError>| {
        assert_eq!(inflater.gunzip(body, body_max), want);
    };
    let text = vec![b'x'; 10_000];
    let zipped = gzip(&text);
    check(&zipped, 10_000, Ok(&text));
    check(&zipped, 9_999, Err(InflateError::TooLarge));
    check(&zipped, 0, Err(InflateError::TooLarge));
    check(&gzip(b""), 0, Ok(b""));
    check(&[gzip(b"ab"), gzip(b"cd")].concat(), 4, Ok(b"abcd"));
    check(&[gzip(b"ab"), gzip(b"cd")].concat(), 3, Err(InflateError::TooLarge));
    check(&[gzip(b"ab"), b"cd".to_vec()].concat(), 9, Err(InflateError::Malformed));
    check(b"", 9, Err(InflateError::Malformed));
    check(b"{\"id\":1}", 9, Err(InflateError::Malformed));
    check(&zipped[..zipped.len() - 1], 10_000, Err(InflateError::Malformed));
    let mut flipped = zipped.clone();
    let crc = flipped.len() - 8;
    flipped[crc] ^= 1;
    check(&flipped, 10_000, Err(InflateError::Malformed));
}

#[test]
fn a_bomb_costs_no_more_than_the_limit() {
    let bomb = gzip(&vec![0; 64 * 1024 * 1024]);
    let mut inflater = Inflater::default();
    assert_eq!(inflater.gunzip(&bomb, 65_536), Err(InflateError::TooLarge));
    assert!(inflater.buffer.capacity() <= 2 * 65_537, "{}", inflater.buffer.capacity());
}

proptest! {
    #[test]
    fn what_was_zipped_comes_back(
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9000), 1..4),
    ) {
        let zipped: Vec<u8> = parts.iter().flat_map(|part| gzip(part)).collect();
        let whole = parts.concat();
        let mut inflater = Inflater::default();
        prop_assert_eq!(inflater.gunzip(&zipped, whole.len()), Ok(&whole[..]));
    }

    #[test]
    fn anything_else_is_refused_or_ends(body in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Inflater::default().gunzip(&body, 1000);
    }
}
