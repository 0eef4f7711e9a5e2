//! How a client breaks the protocol, and the close code that tells it so.

use super::close_code::CloseCode;

/// Most frames of one message, empty ones included. Test suites send 4 MiB in 65,537 of them.
pub const FRAGMENTS_MAX: u32 = 100_000;

/// Why a connection is closed, in order of precedence within a frame. The message fits the reason
/// of a close frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebSocketViolation {
    /// RSV1, RSV2 or RSV3 is set (section 5.2). RSV1 marks compressed messages.
    #[error("a frame has reserved bits set: no extension was agreed on, so leave them clear")]
    ReservedBits,
    /// An opcode that is reserved (section 5.2).
    #[error("a frame has the unknown opcode {0}: send text, binary, close, ping or pong")]
    UnknownOpcode(u8),
    /// A control frame without FIN (section 5.5).
    #[error("a control frame is fragmented: send it as one frame")]
    FragmentedControl,
    /// A frame without a masking key (section 5.1).
    #[error("a frame is not masked: clients mask every frame")]
    Unmasked,
    /// A control frame of more than 125 bytes (section 5.5).
    #[error("a control frame is longer than 125 bytes: shorten its payload")]
    ControlTooLong,
    /// A 64-bit length with its top bit set (section 5.2).
    #[error("a frame's 64-bit length has its top bit set: send smaller frames")]
    LengthTopBit,
    /// A length in more bytes than it needs (section 5.2).
    #[error("a frame's length is not encoded in the fewest bytes: use the shortest encoding")]
    LengthNotMinimal,
    /// A continuation outside of a fragmented message (section 5.4).
    #[error("a continuation has no message to continue: begin with a text or binary frame")]
    ContinuationWithoutStart,
    /// A text or binary frame within a fragmented message (section 5.4).
    #[error("a message begins within another one: send the last fragment of that one first")]
    MessageInterrupted,
    /// More than [`FRAGMENTS_MAX`] frames.
    #[error("a message has more than {FRAGMENTS_MAX} fragments: send fewer, longer ones")]
    TooManyFragments,
    /// A message beyond the limit of the reader, by the lengths that its frames declare.
    #[error("a message is longer than {bytes_max} bytes: send shorter messages")]
    MessageTooBig {
        /// The limit.
        bytes_max: usize,
    },
    /// A text message that is not UTF-8 (section 8.1).
    #[error("a text message is not UTF-8: send other encodings as binary messages")]
    TextNotUtf8,
    /// A close frame of one byte (section 5.5.1).
    #[error("a close frame has 1 byte: send none, or a code of 2 bytes and a reason")]
    ClosePayloadTooShort,
    /// A close code that must not be sent (section 7.4).
    #[error("the close code {0} must not be sent: send 1000, or one from 3000 to 4999")]
    CloseCodeReserved(u16),
    /// A close reason that is not UTF-8 (section 5.5.1).
    #[error("the reason of a close frame is not UTF-8: encode it as UTF-8, or leave it out")]
    CloseReasonNotUtf8,
}

impl WebSocketViolation {
    /// The code with which the connection is closed (section 7.4.1).
    pub const fn code(self) -> CloseCode {
        match self {
            Self::TextNotUtf8 | Self::CloseReasonNotUtf8 => CloseCode::INVALID_PAYLOAD,
            Self::MessageTooBig { .. } => CloseCode::MESSAGE_TOO_BIG,
            Self::TooManyFragments => CloseCode::POLICY_VIOLATION,
            _ => CloseCode::PROTOCOL_ERROR,
        }
    }
}
