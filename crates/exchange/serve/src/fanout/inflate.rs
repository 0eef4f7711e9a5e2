//! Decompresses answers (gzip, RFC 1952) within a limit.
//!
//! Must not know whose answer it is.

use flate2::{Decompress, FlushDecompress, Status};

/// Initial buffer; most answers fit.
const ROOM_MIN: usize = 4 * 1024;
/// Log2 of gzip's largest window.
const WINDOW_BITS: u8 = 15;

/// Why a body cannot be decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InflateError {
    /// Not gzip, cut off, or its checksum is wrong.
    #[error("the answer's body is not gzip")]
    Malformed,
    /// Beyond the DSP's limit once decompressed.
    #[error("the answer's body is too large once decompressed")]
    TooLarge,
}

/// Decompresses bodies into one reused buffer.
#[derive(Debug, Default)]
pub struct Inflater {
    buffer: Vec<u8>,
}

impl Inflater {
    /// Returns the decompressed body. Allocates at most `body_max` + 1 bytes, whatever the input.
    ///
    /// # Errors
    /// `body` is not entirely gzip, or exceeds `body_max` decompressed.
    pub fn gunzip(&mut self, body: &[u8], body_max: usize) -> Result<&[u8], InflateError> {
        // The extra byte detects a body that is too large.
        let most = body_max.saturating_add(1);
        let mut decoder = Decompress::new_gzip(WINDOW_BITS);
        let (mut read, mut written) = (0, 0);
        loop {
            if self.buffer.len() == written {
                let more = (2 * written).clamp(ROOM_MIN, most.max(ROOM_MIN)).min(most);
                self.buffer.resize(more.max(written), 0);
            }
            let (before_in, before_out) = (decoder.total_in(), decoder.total_out());
            let output = &mut self.buffer[written..];
            let status = decoder.decompress(&body[read..], output, FlushDecompress::None);
            let status = status.map_err(|_| InflateError::Malformed)?;
            let advanced = |after: u64, before| usize::try_from(after - before).unwrap_or(0);
            read += advanced(decoder.total_in(), before_in);
            written += advanced(decoder.total_out(), before_out);
            if written > body_max {
                return Err(InflateError::TooLarge);
            }
            match status {
                Status::StreamEnd if read == body.len() => return Ok(&self.buffer[..written]),
                // Several members are one body (RFC 1952, section 2.2).
                Status::StreamEnd => decoder = Decompress::new_gzip(WINDOW_BITS),
                // With room left, it waits for input that will not come.
                _ if read == body.len() && written < self.buffer.len() => {
                    return Err(InflateError::Malformed);
                }
                _ => (),
            }
        }
    }
}

#[cfg(test)]
mod tests;
