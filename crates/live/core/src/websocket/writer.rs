//! Writes a server's frames (RFC 6455, section 5.2): never masked, never fragmented.

use super::close_code::CloseCode;
use super::frame::{CONTROL_BYTES_MAX, FIN, LENGTH_16, LENGTH_64, Opcode};

/// The longest reason of a close frame, in bytes: a control frame's payload without the code.
pub const CLOSE_REASON_BYTES_MAX: usize = CONTROL_BYTES_MAX - size_of::<CloseCode>();

/// The longest header of a server's frame: two bytes and a 64-bit length.
const SERVER_HEADER_BYTES_MAX: usize = 10;

/// The header of a frame, so that a message for many receivers is written once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerFrameHeader {
    bytes: [u8; SERVER_HEADER_BYTES_MAX],
    length: u8,
}

impl ServerFrameHeader {
    /// The header of a text message of `payload_bytes` bytes, which must be UTF-8.
    pub const fn text(payload_bytes: usize) -> Self {
        Self::new(Opcode::Text, payload_bytes)
    }

    /// The header of a binary message of `payload_bytes` bytes.
    pub const fn binary(payload_bytes: usize) -> Self {
        Self::new(Opcode::Binary, payload_bytes)
    }

    /// Its bytes, at most 10.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length.into()]
    }

    #[expect(clippy::cast_possible_truncation, reason = "each cast follows its range")]
    const fn new(opcode: Opcode, payload_bytes: usize) -> Self {
        let mut bytes = [0; SERVER_HEADER_BYTES_MAX];
        bytes[0] = FIN | opcode as u8;
        let length = match payload_bytes {
            0..=125 => {
                bytes[1] = payload_bytes as u8;
                2
            }
            126..=0xFFFF => {
                bytes[1] = LENGTH_16;
                [bytes[2], bytes[3]] = (payload_bytes as u16).to_be_bytes();
                4
            }
            _ => {
                bytes[1] = LENGTH_64;
                let (_, length) = bytes.split_at_mut(2);
                length.copy_from_slice(&(payload_bytes as u64).to_be_bytes());
                10
            }
        };
        Self { bytes, length }
    }
}

/// Appends a text message.
pub fn write_text(out: &mut Vec<u8>, text: &str) {
    write_frame(out, Opcode::Text, text.as_bytes());
}

/// The payloads of whole text messages that a server wrote, one behind the other.
///
/// # Panics
/// If `frames` ends within a message.
pub fn server_payloads(mut frames: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (&[_, length], mut rest) = frames.split_first_chunk()?;
        let mut length = usize::from(length);
        if length == usize::from(LENGTH_16) {
            let (bytes, behind) = rest.split_first_chunk().expect("the header is whole");
            (length, rest) = (u16::from_be_bytes(*bytes).into(), behind);
        } else if length == usize::from(LENGTH_64) {
            let (bytes, behind) = rest.split_first_chunk().expect("the header is whole");
            length = usize::try_from(u64::from_be_bytes(*bytes)).expect("it is in memory");
            rest = behind;
        }
        let (payload, behind) = rest.split_at(length);
        frames = behind;
        Some(payload)
    })
}

/// Appends a binary message.
pub fn write_binary(out: &mut Vec<u8>, payload: &[u8]) {
    write_frame(out, Opcode::Binary, payload);
}

/// Appends a ping.
///
/// # Panics
/// If the payload is longer than 125 bytes.
pub fn write_ping(out: &mut Vec<u8>, payload: &[u8]) {
    write_control(out, Opcode::Ping, payload);
}

/// Appends a pong, which repeats the payload of the ping that it answers.
///
/// # Panics
/// If the payload is longer than 125 bytes.
pub fn write_pong(out: &mut Vec<u8>, payload: &[u8]) {
    write_control(out, Opcode::Pong, payload);
}

/// Appends a close frame, the last frame of a connection (section 5.5.1). The reason is cut at
/// [`CLOSE_REASON_BYTES_MAX`] bytes, or before the character that exceeds them.
pub fn write_close(out: &mut Vec<u8>, code: CloseCode, reason: &str) {
    let reason = &reason[..reason.floor_char_boundary(CLOSE_REASON_BYTES_MAX)];
    let code = code.number().to_be_bytes();
    let header = ServerFrameHeader::new(Opcode::Close, code.len() + reason.len());
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(&code);
    out.extend_from_slice(reason.as_bytes());
}

/// Appends the answer to a client's close frame, which repeats its code, if any (section 5.5.1).
pub fn write_close_reply(out: &mut Vec<u8>, code: Option<CloseCode>) {
    match code {
        Some(code) => write_close(out, code, ""),
        None => write_frame(out, Opcode::Close, &[]),
    }
}

fn write_control(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8]) {
    assert!(payload.len() <= CONTROL_BYTES_MAX, "a control frame has at most 125 bytes");
    write_frame(out, opcode, payload);
}

fn write_frame(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8]) {
    out.extend_from_slice(ServerFrameHeader::new(opcode, payload.len()).as_bytes());
    out.extend_from_slice(payload);
}
