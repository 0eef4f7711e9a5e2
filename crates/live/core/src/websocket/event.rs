//! What a client sends: messages, and the control frames between them.

use std::borrow::Cow;

use super::close_code::CloseCode;
use super::frame::Opcode;
use super::violation::WebSocketViolation;

/// A message or a control frame. Its payload is borrowed from the input if that held it whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebSocketEvent<'b> {
    /// A text message (section 5.6).
    Text(Cow<'b, str>),
    /// A binary message (section 5.6).
    Binary(Cow<'b, [u8]>),
    /// A ping of at most 125 bytes, which a pong with the same payload answers (section 5.5.2).
    Ping(Cow<'b, [u8]>),
    /// A pong of at most 125 bytes (section 5.5.3).
    Pong(Cow<'b, [u8]>),
    /// The client closes the connection and sends nothing more (section 5.5.1).
    Close {
        /// Why. None if the client sent no code.
        code: Option<CloseCode>,
        /// A text for logs; often empty.
        reason: String,
    },
}

impl<'b> WebSocketEvent<'b> {
    /// The message or control frame with this payload. The opcode is that of its first frame.
    ///
    /// # Errors
    /// Text that is not UTF-8; what is not allowed in a close frame.
    pub(super) fn new(opcode: Opcode, payload: Cow<'b, [u8]>) -> Result<Self, WebSocketViolation> {
        match opcode {
            Opcode::Text => {
                let text = match payload {
                    Cow::Borrowed(bytes) => str::from_utf8(bytes).ok().map(Cow::Borrowed),
                    Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
                };
                text.map(Self::Text).ok_or(WebSocketViolation::TextNotUtf8)
            }
            Opcode::Binary | Opcode::Continuation => Ok(Self::Binary(payload)),
            Opcode::Ping => Ok(Self::Ping(payload)),
            Opcode::Pong => Ok(Self::Pong(payload)),
            Opcode::Close => Self::close(&payload),
        }
    }

    fn close(payload: &[u8]) -> Result<Self, WebSocketViolation> {
        let (number, reason) = match payload {
            [] => return Ok(Self::Close { code: None, reason: String::new() }),
            [_] => return Err(WebSocketViolation::ClosePayloadTooShort),
            [high, low, reason @ ..] => (u16::from_be_bytes([*high, *low]), reason),
        };
        let code = CloseCode::from_wire(number);
        let code = code.ok_or(WebSocketViolation::CloseCodeReserved(number))?;
        let reason = str::from_utf8(reason).map_err(|_| WebSocketViolation::CloseReasonNotUtf8)?;
        Ok(Self::Close { code: Some(code), reason: reason.to_owned() })
    }
}
