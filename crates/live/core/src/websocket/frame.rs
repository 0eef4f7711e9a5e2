//! Frames (RFC 6455, section 5.2): opcodes and limits.

/// The longest payload of a control frame (section 5.5).
pub(super) const CONTROL_BYTES_MAX: usize = 125;

/// Bit of the first byte: the frame is the last of its message.
pub(super) const FIN: u8 = 0x80;
/// Value of the second byte: the length follows in 16 bits.
pub(super) const LENGTH_16: u8 = 126;
/// Value of the second byte: the length follows in 64 bits.
pub(super) const LENGTH_64: u8 = 127;

/// What a frame is for (section 11.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Opcode {
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}
