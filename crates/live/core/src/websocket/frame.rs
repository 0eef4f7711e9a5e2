//! Frames (RFC 6455, section 5.2): opcodes, the headers that clients send, and their masks.

use super::violation::WebSocketViolation;

/// The longest header of a client's frame: two bytes, a 64-bit length and the masking key.
pub(super) const CLIENT_HEADER_BYTES_MAX: usize = 14;

/// The longest payload of a control frame (section 5.5).
pub(super) const CONTROL_BYTES_MAX: usize = 125;

/// Bit of the first byte: the frame is the last of its message.
pub(super) const FIN: u8 = 0x80;
/// Bits of the first byte that only extensions may set.
const RESERVED_BITS: u8 = 0x70;
/// Bits of the first byte that hold the opcode.
const OPCODE_BITS: u8 = 0x0F;
/// Bit of the second byte: the payload is masked.
const MASKED: u8 = 0x80;
/// Value of the second byte: the length follows in 16 bits.
pub(super) const LENGTH_16: u8 = 126;
/// Value of the second byte: the length follows in 64 bits.
pub(super) const LENGTH_64: u8 = 127;

/// What a frame is for (section 11.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Opcode {
    /// Continues a fragmented message.
    Continuation = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

impl Opcode {
    const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Continuation),
            1 => Some(Self::Text),
            2 => Some(Self::Binary),
            8 => Some(Self::Close),
            9 => Some(Self::Ping),
            10 => Some(Self::Pong),
            _ => None,
        }
    }

    /// Whether the frame stands alone, even between the fragments of a message (section 5.5).
    pub(super) const fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// The masking key of a frame (section 5.3), rotated to the next byte of the payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct MaskingKey([u8; 4]);

impl MaskingKey {
    /// Unmasks the next bytes of the payload.
    pub(super) fn unmask(&mut self, bytes: &mut [u8]) {
        let key = u32::from_ne_bytes(self.0);
        let key = u64::from(key) << 32 | u64::from(key);
        let (words, rest) = bytes.as_chunks_mut();
        for word in words {
            *word = (u64::from_ne_bytes(*word) ^ key).to_ne_bytes();
        }
        for (byte, key) in rest.iter_mut().zip(key.to_ne_bytes()) {
            *byte ^= key;
        }
        self.0.rotate_left(bytes.len() % 4);
    }
}

/// The header of a client's frame. What it holds is right by itself, whatever came before.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientFrameHeader {
    /// Whether the frame is the last of its message.
    pub fin: bool,
    pub opcode: Opcode,
    /// Length of the payload.
    pub length: u64,
    pub key: MaskingKey,
}

impl ClientFrameHeader {
    /// The header at the start of `bytes`, and its length. None if more bytes must arrive first.
    ///
    /// # Errors
    /// With the first byte that breaks the protocol.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, WebSocketViolation> {
        let Some((&first, rest)) = bytes.split_first() else { return Ok(None) };
        if first & RESERVED_BITS != 0 {
            return Err(WebSocketViolation::ReservedBits);
        }
        let number = first & OPCODE_BITS;
        let opcode =
            Opcode::from_number(number).ok_or(WebSocketViolation::UnknownOpcode(number))?;
        let fin = first & FIN != 0;
        if opcode.is_control() && !fin {
            return Err(WebSocketViolation::FragmentedControl);
        }
        let Some((&second, rest)) = rest.split_first() else { return Ok(None) };
        if second & MASKED == 0 {
            return Err(WebSocketViolation::Unmasked);
        }
        let short = second & !MASKED;
        if opcode.is_control() && usize::from(short) > CONTROL_BYTES_MAX {
            return Err(WebSocketViolation::ControlTooLong);
        }
        let (length, length_min, rest) = match short {
            LENGTH_16 => {
                let Some((length, rest)) = rest.split_first_chunk() else { return Ok(None) };
                (u16::from_be_bytes(*length).into(), LENGTH_16.into(), rest)
            }
            LENGTH_64 => {
                let Some((length, rest)) = rest.split_first_chunk() else { return Ok(None) };
                (u64::from_be_bytes(*length), 1 << 16, rest)
            }
            short => (short.into(), 0, rest),
        };
        if length >> 63 != 0 {
            return Err(WebSocketViolation::LengthTopBit);
        }
        if length < length_min {
            return Err(WebSocketViolation::LengthNotMinimal);
        }
        let Some((&key, rest)) = rest.split_first_chunk() else { return Ok(None) };
        let header = Self { fin, opcode, length, key: MaskingKey(key) };
        Ok(Some((header, bytes.len() - rest.len())))
    }
}
