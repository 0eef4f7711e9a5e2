//! Compressed answers (gzip, RFC 1952), decompressed within a bound.
//!
//! It must not know whose answer it is.

use flate2::{Decompress, FlushDecompress, Status};

/// Least room to begin with: most answers fit.
const ROOM_MIN: usize = 4 * 1024;
/// Log2 of the largest window that gzip knows.
const WINDOW_BITS: u8 = 15;

/// Why a body cannot be decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InflateError {
    /// Not gzip, cut off, or its checksum is wrong.
    #[error("the answer's body is not gzip")]
    Malformed,
    /// More than the DSP may answer, once decompressed.
    #[error("the answer's body is too large once decompressed")]
    TooLarge,
}

/// Decompresses one body after the other into the same room.
#[derive(Debug, Default)]
pub struct Inflater {
    room: Vec<u8>,
}

impl Inflater {
    /// The decompressed body. Never holds more than `body_max` bytes and one, whatever a few
    /// bytes promise to grow into.
    ///
    /// # Errors
    ///
    /// When `body` is not gzip through and through, or larger than `body_max` decompressed.
    pub fn gunzip(&mut self, body: &[u8], body_max: usize) -> Result<&[u8], InflateError> {
        // One byte past the limit tells a body that is too large from one that just fits.
        let most = body_max.saturating_add(1);
        let mut decoder = Decompress::new_gzip(WINDOW_BITS);
        let (mut read, mut written) = (0, 0);
        loop {
            if self.room.len() == written {
                let more = (2 * written).clamp(ROOM_MIN, most.max(ROOM_MIN)).min(most);
                self.room.resize(more.max(written), 0);
            }
            let (before_in, before_out) = (decoder.total_in(), decoder.total_out());
            let output = &mut self.room[written..];
            let status = decoder.decompress(&body[read..], output, FlushDecompress::None);
            let status = status.map_err(|_| InflateError::Malformed)?;
            let advanced = |after: u64, before| usize::try_from(after - before).unwrap_or(0);
            read += advanced(decoder.total_in(), before_in);
            written += advanced(decoder.total_out(), before_out);
            if written > body_max {
                return Err(InflateError::TooLarge);
            }
            match status {
                Status::StreamEnd if read == body.len() => return Ok(&self.room[..written]),
                // Several members in a row are one body (RFC 1952, section 2.2).
                Status::StreamEnd => decoder = Decompress::new_gzip(WINDOW_BITS),
                // There is room left, so it waits for input that will not come.
                _ if read == body.len() && written < self.room.len() => {
                    return Err(InflateError::Malformed);
                }
                _ => (),
            }
        }
    }
}

#[cfg(test)]
mod tests;
