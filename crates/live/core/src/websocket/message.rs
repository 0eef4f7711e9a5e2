//! A message that arrives in parts: its bytes so far, and whether they can still become text.

use super::frame::Opcode;
use super::violation::{FRAGMENTS_MAX, WebSocketViolation};

/// A message of which a part has arrived.
#[derive(Debug)]
pub(super) struct PartialMessage {
    /// Text or binary.
    pub opcode: Opcode,
    pub bytes: Vec<u8>,
    /// How many of the first bytes are UTF-8, if it is text.
    valid: usize,
    /// Frames so far.
    fragments: u32,
}

impl PartialMessage {
    pub(super) const fn new(opcode: Opcode) -> Self {
        Self { opcode, bytes: Vec::new(), valid: 0, fragments: 1 }
    }

    /// Counts a continuation.
    ///
    /// # Errors
    /// If it is one too many.
    pub(super) const fn count_fragment(&mut self) -> Result<(), WebSocketViolation> {
        if self.fragments == FRAGMENTS_MAX {
            return Err(WebSocketViolation::TooManyFragments);
        }
        self.fragments += 1;
        Ok(())
    }

    /// Adds what has arrived. The whole message has at most `bytes_max` bytes.
    ///
    /// # Errors
    /// With the first byte after which text can no longer become UTF-8.
    pub(super) fn push(&mut self, part: &[u8], bytes_max: usize) -> Result<(), WebSocketViolation> {
        append(&mut self.bytes, part, bytes_max);
        if self.opcode != Opcode::Text {
            return Ok(());
        }
        match str::from_utf8(&self.bytes[self.valid..]) {
            Ok(text) => self.valid += text.len(),
            // The last character may be completed by the next part.
            Err(error) if error.error_len().is_none() => self.valid += error.valid_up_to(),
            Err(_) => return Err(WebSocketViolation::TextNotUtf8),
        }
        Ok(())
    }
}

/// Appends a part of at most `bytes_max` bytes in all. The capacity doubles, so that copies are
/// rare, but never exceeds the limit.
pub(super) fn append(bytes: &mut Vec<u8>, part: &[u8], bytes_max: usize) {
    let needed = bytes.len() + part.len();
    if needed > bytes.capacity() {
        let capacity = needed.max(bytes_max.min(bytes.capacity() * 2));
        bytes.reserve_exact(capacity - bytes.len());
    }
    bytes.extend_from_slice(part);
}
