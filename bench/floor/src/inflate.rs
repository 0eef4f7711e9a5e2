//! Decompresses answers into one reused buffer.
//!
//! Output is limited; anything but gzip is refused.

use flate2::{Decompress, FlushDecompress, Status};

/// Log2 of gzip's largest window.
const WINDOW_BITS: u8 = 15;

pub(crate) struct Inflater {
    room: Box<[u8]>,
}

impl Inflater {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { room: vec![0; bytes_max].into_boxed_slice() }
    }

    /// The content of `body`, a single gzip member. None if it is anything else, or too large.
    pub(crate) fn gunzip(&mut self, body: &[u8]) -> Option<&[u8]> {
        let mut decoder = Decompress::new_gzip(WINDOW_BITS);
        let status = decoder.decompress(body, &mut self.room, FlushDecompress::Finish).ok()?;
        let bytes = usize::try_from(decoder.total_out()).ok()?;
        (status == Status::StreamEnd).then(|| &self.room[..bytes])
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::Inflater;

    #[test]
    fn bodies() {
        let gzip = |body: &[u8]| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(body).expect("a Vec takes all");
            encoder.finish().expect("a Vec takes all")
        };
        let mut inflater = Inflater::new(5);
        let mut check =
            |body: &[u8], want: Option<&[u8]>| assert_eq!(inflater.gunzip(body), want, "{body:?}");
        check(&gzip(b"12345"), Some(b"12345"));
        check(&gzip(b""), Some(b""));
        check(&gzip(b"123456"), None);
        check(&gzip(b"123")[..20], None);
        check(b"{}", None);
        check(b"", None);
    }
}
