//! Refuses messages with two framings before hyper sees them: one that has both `Content-Length` and
//! `Transfer-Encoding` ends elsewhere for another reader (RFC 9112, section 6.3). Hyper drops the
//! length in silence, so a proxy must look at the bytes itself. It also tells where messages end.
//!
//! A head that is refused gets a byte that no head may have; hyper then answers 400, or fails.

use memchr::memchr;

/// Longest line of a head or of a chunk's size that is put together from several reads.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Room for a line that is kept for the next one.
const LINE_BYTES_KEPT: usize = 1 << 10;

/// Follows the messages that come over a connection.
#[derive(Debug, Default)]
pub struct FramingCheck {
    at: MessagePart,
    /// The beginning of a line that is not complete.
    line: Vec<u8>,
    has_length: Option<u64>,
    has_coding: bool,
    /// Whole messages so far.
    messages: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum MessagePart {
    #[default]
    FirstLine,
    Fields,
    /// Bytes that are left of a body with a length.
    Body(u64),
    ChunkSize,
    /// Bytes that are left of a chunk, with the line break behind it.
    Chunk(u64),
    Trailers,
    /// Nothing is known any more: hyper refuses what follows.
    Unknown,
}

impl FramingCheck {
    /// How many whole messages came. None within a message.
    pub fn whole_messages(&self) -> Option<u64> {
        (self.at == MessagePart::FirstLine && self.line.is_empty()).then_some(self.messages)
    }

    /// Looks at the next bytes, and spoils a head that has two framings.
    pub fn follow(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            match self.at {
                MessagePart::Unknown => return,
                MessagePart::Body(left) | MessagePart::Chunk(left) => {
                    let skipped =
                        usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
                    bytes = &mut bytes[skipped..];
                    self.skip(left - skipped as u64);
                }
                _ => {
                    let Some(end) = memchr(b'\n', bytes) else {
                        self.keep(bytes);
                        return;
                    };
                    let (line, rest) = bytes.split_at_mut(end + 1);
                    if !self.take_line(&line[..end]) {
                        // Hyper refuses a head with this byte.
                        line[end] = 0;
                        self.at = MessagePart::Unknown;
                    }
                    bytes = rest;
                }
            }
        }
    }

    fn end_message(&mut self) -> MessagePart {
        self.messages += 1;
        MessagePart::FirstLine
    }

    fn skip(&mut self, left: u64) {
        self.at = match (self.at, left) {
            (MessagePart::Body(_), 0) => self.end_message(),
            (MessagePart::Body(_), left) => MessagePart::Body(left),
            (_, 0) => MessagePart::ChunkSize,
            (_, left) => MessagePart::Chunk(left),
        };
    }

    /// A line that is too long is refused: what comes behind it could not be followed.
    fn keep(&mut self, bytes: &mut [u8]) {
        if self.line.len() + bytes.len() > LINE_BYTES_MAX {
            bytes[0] = 0;
            self.at = MessagePart::Unknown;
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(bytes);
        }
    }

    /// False if the message is to be refused.
    fn take_line(&mut self, end: &[u8]) -> bool {
        let mut kept = std::mem::take(&mut self.line);
        let line = if kept.is_empty() {
            end
        } else {
            kept.extend_from_slice(end);
            &kept
        };
        let (line, has_return) = match line.strip_suffix(b"\r") {
            Some(line) => (line, true),
            None => (line, false),
        };
        let is_sound = match self.at {
            // Hyper takes it for part of the trailers, and others for their end (RFC 9112, section 2.2).
            MessagePart::ChunkSize | MessagePart::Trailers if !has_return => false,
            // Empty lines before a message are skipped (RFC 9112, section 2.2).
            MessagePart::FirstLine => {
                if !line.is_empty() {
                    (self.at, self.has_length, self.has_coding) =
                        (MessagePart::Fields, None, false);
                }
                true
            }
            MessagePart::Fields if line.is_empty() => {
                self.at = match (self.has_coding, self.has_length) {
                    (true, _) => MessagePart::ChunkSize,
                    (false, None | Some(0)) => self.end_message(),
                    (false, Some(length)) => MessagePart::Body(length),
                };
                true
            }
            MessagePart::Fields => self.take_field(line),
            MessagePart::ChunkSize => {
                self.at = match chunk_size(line) {
                    None => MessagePart::Unknown,
                    Some(0) => MessagePart::Trailers,
                    Some(size) => MessagePart::Chunk(size.saturating_add(2)),
                };
                true
            }
            MessagePart::Trailers => {
                if line.is_empty() {
                    self.at = self.end_message();
                }
                true
            }
            MessagePart::Body(_) | MessagePart::Chunk(_) | MessagePart::Unknown => true,
        };
        if kept.capacity() <= LINE_BYTES_KEPT {
            kept.clear();
            self.line = kept;
        }
        is_sound
    }

    fn take_field(&mut self, line: &[u8]) -> bool {
        let first = line[0] | 0x20;
        if first == b'c'
            && let Some(value) = value_of(line, b"content-length")
        {
            // Hyper takes a list of equal numbers for one: another reader may not.
            let Some(length) = length_of(value) else { return false };
            self.has_length = Some(length);
        } else if first == b't' && value_of(line, b"transfer-encoding").is_some() {
            self.has_coding = true;
        }
        !(self.has_coding && self.has_length.is_some())
    }
}

/// None if the line is another field's.
fn value_of<'l>(line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    let (field, rest) = line.split_at_checked(name.len())?;
    let value = rest.strip_prefix(b":")?;
    field.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

/// None if it is not a number.
fn length_of(digits: &[u8]) -> Option<u64> {
    let is_number = digits.iter().all(u8::is_ascii_digit);
    str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

/// None if it is malformed.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii();
    u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests;
