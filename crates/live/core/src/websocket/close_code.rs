//! Close codes (RFC 6455, section 7.4): why a connection is closed, and which codes may be sent.

/// A close code that an endpoint may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CloseCode(u16);

impl CloseCode {
    /// The purpose of the connection is fulfilled.
    pub const NORMAL: Self = Self(1000);
    /// The server shuts down, or the browser leaves the page.
    pub const GOING_AWAY: Self = Self(1001);
    /// The peer broke the protocol.
    pub const PROTOCOL_ERROR: Self = Self(1002);
    /// A kind of message that is not accepted, such as binary where text is expected.
    pub const UNSUPPORTED_DATA: Self = Self(1003);
    /// The content of a message contradicts its kind, such as text that is not UTF-8.
    pub const INVALID_PAYLOAD: Self = Self(1007);
    /// A message breaks a rule for which no other code exists.
    pub const POLICY_VIOLATION: Self = Self(1008);
    /// A message is longer than accepted.
    pub const MESSAGE_TOO_BIG: Self = Self(1009);
    /// The server failed.
    pub const INTERNAL_ERROR: Self = Self(1011);
    /// The server restarts: connect again after a random delay (IANA registry).
    pub const SERVICE_RESTART: Self = Self(1012);
    /// The server is overloaded: connect again later (IANA registry).
    pub const TRY_AGAIN_LATER: Self = Self(1013);

    /// A code for private use (section 7.4.2). None unless it is from 4000 to 4999.
    pub const fn private(number: u16) -> Option<Self> {
        if matches!(number, 4000..=4999) { Some(Self(number)) } else { None }
    }

    /// A code that a peer may send: registered with IANA for the wire, or of the ranges for
    /// libraries and applications (section 7.4.2). None for any other: 1004 is undefined; 1005,
    /// 1006 and 1015 are reports within one endpoint.
    pub(super) const fn from_wire(number: u16) -> Option<Self> {
        let allowed = matches!(number, 1000..=1003 | 1007..=1014 | 3000..=4999);
        if allowed { Some(Self(number)) } else { None }
    }

    /// Its number on the wire.
    pub const fn number(self) -> u16 {
        self.0
    }
}
