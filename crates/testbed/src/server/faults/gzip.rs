//! The gzip bodies of simulated servers: valid, broken, or a bomb. Knows no HTTP.

use std::io::Write as _;

use flate2::write::GzEncoder;
use flate2::{Compress, Compression, Crc, FlushCompress};

use crate::draws::Draws;

/// A bomb repeats one block, which is compressed once.
const BLOCK_BYTES: usize = 1024 * 1024;

/// A gzip head: deflate, no name, no time, unknown system (RFC 1952, 2.3).
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// `body` as one gzip member.
pub(super) fn gzipped(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).expect("a vector takes every write");
    encoder.finish().expect("a vector takes every write")
}

/// A false gzip of `body`: truncated, altered, with a wrong checksum, or no gzip at all.
pub(super) fn broken(body: &[u8], draws: &mut Draws) -> Vec<u8> {
    let mut zip = gzipped(body);
    match draws.below(4) {
        0 => zip.truncate(zip.len() / 2),
        // A block type that does not exist (RFC 1951, 3.2.3).
        1 => zip[HEAD.len()] = 0b111,
        2 => {
            let sum = zip.len() - 8;
            zip[sum] ^= 1;
        }
        _ => return body.to_vec(),
    }
    zip
}

/// One gzip member that inflates to `inflated` spaces from a thousandth of that size. Costs the
/// time and memory of compressing one block.
pub(super) fn bomb(inflated: usize) -> Vec<u8> {
    let (blocks, rest) = (inflated / BLOCK_BYTES, inflated % BLOCK_BYTES);
    let mut out = HEAD.to_vec();
    let mut crc = Crc::new();
    let block = vec![b' '; BLOCK_BYTES];
    if blocks > 0 {
        // A full flush ends on a byte and forgets the window, so the block can be repeated.
        let deflated = deflated(&block, FlushCompress::Full);
        let mut block_crc = Crc::new();
        block_crc.update(&block);
        for _ in 0..blocks {
            out.extend_from_slice(&deflated);
            crc.combine(&block_crc);
        }
    }
    out.extend_from_slice(&deflated(&block[..rest], FlushCompress::Finish));
    crc.update(&block[..rest]);
    out.extend_from_slice(&crc.sum().to_le_bytes());
    let length = u32::try_from(inflated).expect("a bomb is limited below 4 GiB");
    out.extend_from_slice(&length.to_le_bytes());
    out
}

/// Raw deflate of `bytes`.
fn deflated(bytes: &[u8], flush: FlushCompress) -> Vec<u8> {
    // Spaces deflate a thousandfold; the constant is for flush marks and empty input.
    let mut out = Vec::with_capacity(bytes.len() / 100 + 64);
    Compress::new(Compression::best(), false)
        .compress_vec(bytes, &mut out, flush)
        .expect("deflate takes every input");
    out
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    fn inflated(zip: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut body = Vec::new();
        GzDecoder::new(zip).read_to_end(&mut body).map(|_| body)
    }

    #[test]
    fn a_bomb_inflates_to_its_size_and_is_small() {
        for size in [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, 3 * BLOCK_BYTES + 5] {
            let zip = bomb(size);
            assert!(zip.len() < 64 + size / 900, "{} of {size}", zip.len());
            let body = inflated(&zip).expect("a sound gzip");
            assert!(body.len() == size && body.iter().all(|&byte| byte == b' '), "{size}");
        }
    }

    #[test]
    fn what_is_broken_never_inflates_to_the_body_and_comes_in_every_kind() {
        let body = br#"{"id":"a","seatbid":[{"bid":[{"id":"1","impid":"1","price":1.5}]}]}"#;
        assert_eq!(inflated(&gzipped(body)).expect("sound"), body);
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let zip = broken(body, &mut Draws::seeded(seed));
            inflated(&zip).expect_err("broken");
            kinds.insert(zip);
        }
        assert_eq!(kinds.len(), 4);
    }
}
