//! Interim responses (1xx) before a response. Hyper skips any number of them without a break: a server
//! that sends nothing else would have its reader's thread to itself.

/// Interim responses before one response, and their bytes.
const INTERIM_MAX: usize = 64;
const INTERIM_BYTES_MAX: usize = 256 << 10;

/// The beginning of an interim response, but for the minor version.
const BEGINNING: &[u8] = b"HTTP/1.x 1";

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {INTERIM_MAX} interim responses, or {INTERIM_BYTES_MAX} bytes of them")]
pub(super) struct TooManyInterim;

/// Follows the responses of an HTTP/1.1 connection as far as they are interim.
#[derive(Debug, Default)]
pub(super) struct InterimCount {
    at: ResponsePart,
    count: usize,
    bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponsePart {
    /// So many bytes of a beginning.
    Beginning(usize),
    /// The head of an interim response; whether only the end of a line has come since its last
    /// line.
    Head { is_line_empty: bool },
    /// What follows is not interim.
    Final,
}

impl Default for ResponsePart {
    fn default() -> Self {
        Self::Beginning(0)
    }
}

impl InterimCount {
    /// Bytes of a request were sent: a response begins, or goes on.
    pub(super) fn sent(&mut self) {
        if self.at == ResponsePart::Final {
            *self = Self::default();
        }
    }

    /// Bytes of a response were received.
    pub(super) fn received(&mut self, bytes: &[u8]) -> Result<(), TooManyInterim> {
        for byte in bytes {
            self.at = match self.at {
                ResponsePart::Final => return Ok(()),
                ResponsePart::Beginning(at) if BEGINNING[at] != *byte && BEGINNING[at] != b'x' => {
                    ResponsePart::Final
                }
                ResponsePart::Beginning(at) if at + 1 < BEGINNING.len() => {
                    ResponsePart::Beginning(at + 1)
                }
                ResponsePart::Beginning(_) => {
                    self.count += 1;
                    ResponsePart::Head { is_line_empty: false }
                }
                ResponsePart::Head { is_line_empty: true } if *byte == b'\n' => {
                    ResponsePart::default()
                }
                ResponsePart::Head { is_line_empty } => {
                    let is_line_empty = *byte == b'\n' || is_line_empty && *byte == b'\r';
                    ResponsePart::Head { is_line_empty }
                }
            };
            self.bytes += 1;
            if self.count > INTERIM_MAX || self.bytes > INTERIM_BYTES_MAX {
                return Err(TooManyInterim);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
