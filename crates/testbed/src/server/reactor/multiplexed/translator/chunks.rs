//! Decodes a chunked body that may come in pieces (RFC 9112, section 7.1). Ignores extensions and
//! trailers.

/// Most hexadecimal digits of a chunk's size.
const DIGITS_MAX: u32 = 15;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkPart<'a> {
    Data(&'a [u8]),
    End,
    Malformed,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChunkDecoder {
    phase: ChunkPhase,
    /// Size of the chunk as far as it is read, then its bytes still to come.
    left: u64,
    /// Digits of the size, or bytes of the trailer's line.
    count: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ChunkPhase {
    #[default]
    Size,
    /// Up to the end of the size's line.
    Extension,
    Data,
    /// The line's end after the data.
    DataEnd,
    Trailer,
}

impl ChunkDecoder {
    /// Takes the next part off the front of `bytes`. None if all of them are taken.
    pub(super) fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<ChunkPart<'a>> {
        loop {
            if self.phase == ChunkPhase::Data {
                let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
                let data = bytes.split_off(..count).filter(|data| !data.is_empty())?;
                self.left -= count as u64;
                if self.left == 0 {
                    self.phase = ChunkPhase::DataEnd;
                }
                return Some(ChunkPart::Data(data));
            }
            let byte = *bytes.split_off_first()?;
            match self.phase {
                ChunkPhase::Size => match char::from(byte).to_digit(16) {
                    Some(digit) if self.count < DIGITS_MAX => {
                        self.left = self.left * 16 + u64::from(digit);
                        self.count += 1;
                    }
                    None if self.count > 0 && b"\r\n; \t".contains(&byte) => self.end_size(byte),
                    _ => return Some(ChunkPart::Malformed),
                },
                ChunkPhase::Extension => self.end_size(byte),
                ChunkPhase::DataEnd if byte == b'\r' => (),
                ChunkPhase::DataEnd if byte == b'\n' => *self = Self::default(),
                ChunkPhase::DataEnd => return Some(ChunkPart::Malformed),
                ChunkPhase::Trailer if byte == b'\r' => (),
                ChunkPhase::Trailer if byte == b'\n' && self.count == 0 => {
                    return Some(ChunkPart::End);
                }
                ChunkPhase::Trailer if byte == b'\n' => self.count = 0,
                ChunkPhase::Trailer => self.count = 1,
                ChunkPhase::Data => unreachable!("it is handled above"),
            }
        }
    }

    /// A byte after the size.
    const fn end_size(&mut self, byte: u8) {
        self.phase = match (byte, self.left) {
            (b'\n', 0) => {
                self.count = 0;
                ChunkPhase::Trailer
            }
            (b'\n', _) => ChunkPhase::Data,
            _ => ChunkPhase::Extension,
        };
    }
}
