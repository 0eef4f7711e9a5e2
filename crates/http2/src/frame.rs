//! Frames (RFC 9113, sections 4 and 6): their layout, and when one is malformed by itself. Knows no
//! state of a stream.

use crate::error::{Http2Error, Http2ErrorCode};

/// The first bytes that a client sends.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes of a frame's header.
pub const FRAME_HEADER_BYTES: usize = 9;
/// Largest payload without the receiver's consent, and the largest that we accept.
pub const PAYLOAD_BYTES_MAX: usize = 16_384;
/// Window of a connection, and of a stream by default.
pub const WINDOW_DEFAULT: u32 = 65_535;
/// Largest window.
pub const WINDOW_MAX: u32 = (1 << 31) - 1;

/// Flag of DATA and HEADERS: the last frame of the message.
pub const END_STREAM: u8 = 0x1;
/// Flag of SETTINGS and PING: the reply to the peer's own.
pub const ACK: u8 = 0x1;
/// Flag of HEADERS and CONTINUATION: no CONTINUATION follows.
pub const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// Frame types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameType {
    /// Part of a body.
    Data = 0x0,
    /// A header block, or its beginning.
    Headers = 0x1,
    /// Deprecated.
    Priority = 0x2,
    /// Ends a stream.
    ResetStream = 0x3,
    /// Parameters of the sender.
    Settings = 0x4,
    /// A request that the server makes for the client.
    PushPromise = 0x5,
    /// Asks for a reply.
    Ping = 0x6,
    /// The sender takes no new streams.
    GoAway = 0x7,
    /// Enlarges a window.
    WindowUpdate = 0x8,
    /// More of a header block.
    Continuation = 0x9,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of the payload.
    pub length: usize,
    /// The type's number.
    pub kind: u8,
    /// Flags of the type.
    pub flags: u8,
    /// 0 means the connection.
    pub stream: u32,
}

impl FrameHeader {
    /// Reads the header at the start of `bytes`. None if there are too few.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, kind, flags, s1, s2, s3, s4] = *bytes.first_chunk()?;
        Some(Self {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes([s1, s2, s3, s4]) & WINDOW_MAX,
        })
    }

    /// Its bytes on the wire.
    ///
    /// # Panics
    /// If the length exceeds 2^24 - 1 bytes.
    pub fn to_bytes(self) -> [u8; FRAME_HEADER_BYTES] {
        let length = u32::try_from(self.length).unwrap_or(u32::MAX);
        let [0, l1, l2, l3] = length.to_be_bytes() else { panic!("a frame's length has 24 bits") };
        let [s1, s2, s3, s4] = self.stream.to_be_bytes();
        [l1, l2, l3, self.kind, self.flags, s1, s2, s3, s4]
    }

    const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// A frame, without its padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'p> {
    /// DATA
    Data(DataFrame<'p>),
    /// HEADERS
    Headers {
        /// Never 0.
        stream: u32,
        /// The header block, or its beginning.
        block: &'p [u8],
        /// Whether no DATA follows.
        end_stream: bool,
        /// Whether the block ends.
        end_headers: bool,
    },
    /// CONTINUATION
    Continuation {
        /// Never 0.
        stream: u32,
        /// More of the header block.
        block: &'p [u8],
        /// Whether the block ends.
        end_headers: bool,
    },
    /// RST_STREAM
    Reset {
        /// Never 0.
        stream: u32,
        /// Why.
        code: Http2ErrorCode,
    },
    /// SETTINGS of the sender.
    Settings(SettingsPayload<'p>),
    /// SETTINGS with ACK.
    SettingsAck,
    /// PING
    Ping {
        /// To be returned.
        data: [u8; 8],
        /// Whether it is a reply.
        ack: bool,
    },
    /// GOAWAY
    GoAway {
        /// The last stream that the sender may have processed.
        last_stream: u32,
        /// Why.
        code: Http2ErrorCode,
    },
    /// WINDOW_UPDATE
    WindowUpdate {
        /// 0 means the connection.
        stream: u32,
        /// From 0 to [`WINDOW_MAX`]; 0 is an error of the stream or the connection.
        increment: u32,
    },
    /// PUSH_PROMISE
    PushPromise,
    /// PRIORITY, or an unknown type: to be ignored.
    Ignored,
}

/// A DATA frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataFrame<'p> {
    /// Never 0.
    pub stream: u32,
    /// Part of the body.
    pub data: &'p [u8],
    /// What the frame takes from both windows, padding included.
    pub flow_bytes: u32,
    /// Whether the body ends.
    pub end_stream: bool,
}

/// The parameters of a SETTINGS frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingsPayload<'p>(&'p [u8]);

/// Identifier of SETTINGS_HEADER_TABLE_SIZE.
pub const SETTING_HEADER_TABLE_SIZE: u16 = 0x1;
/// Identifier of SETTINGS_ENABLE_PUSH.
pub const SETTING_ENABLE_PUSH: u16 = 0x2;
/// Identifier of SETTINGS_MAX_CONCURRENT_STREAMS.
pub const SETTING_MAX_CONCURRENT_STREAMS: u16 = 0x3;
/// Identifier of SETTINGS_INITIAL_WINDOW_SIZE.
pub const SETTING_INITIAL_WINDOW_SIZE: u16 = 0x4;
/// Identifier of SETTINGS_MAX_FRAME_SIZE.
pub const SETTING_MAX_FRAME_SIZE: u16 = 0x5;
/// Identifier of SETTINGS_MAX_HEADER_LIST_SIZE.
pub const SETTING_MAX_HEADER_LIST_SIZE: u16 = 0x6;

impl SettingsPayload<'_> {
    /// Identifiers and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u32)> {
        self.0.as_chunks::<6>().0.iter().map(|&[i1, i2, v1, v2, v3, v4]| {
            (u16::from_be_bytes([i1, i2]), u32::from_be_bytes([v1, v2, v3, v4]))
        })
    }
}

impl<'p> Frame<'p> {
    /// Reads the payload of a frame.
    ///
    /// # Errors
    /// The frame has a wrong size, belongs to a wrong stream, or its padding exceeds it.
    pub fn read(header: FrameHeader, payload: &'p [u8]) -> Result<Self, Http2Error> {
        let FrameHeader { kind, stream, .. } = header;
        match kind {
            kind if kind == FrameType::Data as u8 => {
                on_stream(stream)?;
                let end_stream = header.has(END_STREAM);
                let flow_bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX);
                let data = unpadded(header, payload)?;
                Ok(Self::Data(DataFrame { stream, data, flow_bytes, end_stream }))
            }
            kind if kind == FrameType::Headers as u8 => {
                on_stream(stream)?;
                let mut block = unpadded(header, payload)?;
                if header.has(PRIORITY) {
                    block = block.split_at_checked(5).ok_or(WRONG_SIZE)?.1;
                }
                let (end_stream, end_headers) = (header.has(END_STREAM), header.has(END_HEADERS));
                Ok(Self::Headers { stream, block, end_stream, end_headers })
            }
            kind if kind == FrameType::Continuation as u8 => {
                on_stream(stream)?;
                let end_headers = header.has(END_HEADERS);
                Ok(Self::Continuation { stream, block: payload, end_headers })
            }
            kind if kind == FrameType::ResetStream as u8 => {
                on_stream(stream)?;
                let code = payload.as_array().ok_or(WRONG_SIZE)?;
                Ok(Self::Reset { stream, code: Http2ErrorCode(u32::from_be_bytes(*code)) })
            }
            kind if kind == FrameType::Settings as u8 => {
                on_connection(stream)?;
                match (header.has(ACK), payload) {
                    (true, []) => Ok(Self::SettingsAck),
                    (false, payload) if payload.len().is_multiple_of(6) => {
                        Ok(Self::Settings(SettingsPayload(payload)))
                    }
                    _ => Err(WRONG_SIZE),
                }
            }
            kind if kind == FrameType::PushPromise as u8 => Ok(Self::PushPromise),
            kind if kind == FrameType::Ping as u8 => {
                on_connection(stream)?;
                let data = *payload.as_array().ok_or(WRONG_SIZE)?;
                Ok(Self::Ping { data, ack: header.has(ACK) })
            }
            kind if kind == FrameType::GoAway as u8 => {
                on_connection(stream)?;
                let [l1, l2, l3, l4, c1, c2, c3, c4] = *payload.first_chunk().ok_or(WRONG_SIZE)?;
                let last_stream = u32::from_be_bytes([l1, l2, l3, l4]) & WINDOW_MAX;
                let code = Http2ErrorCode(u32::from_be_bytes([c1, c2, c3, c4]));
                Ok(Self::GoAway { last_stream, code })
            }
            kind if kind == FrameType::WindowUpdate as u8 => {
                let increment = u32::from_be_bytes(*payload.as_array().ok_or(WRONG_SIZE)?);
                Ok(Self::WindowUpdate { stream, increment: increment & WINDOW_MAX })
            }
            kind if kind == FrameType::Priority as u8 => {
                on_stream(stream)?;
                if payload.len() == 5 { Ok(Self::Ignored) } else { Err(WRONG_SIZE) }
            }
            _ => Ok(Self::Ignored),
        }
    }
}

const WRONG_SIZE: Http2Error =
    Http2Error::new(Http2ErrorCode::FRAME_SIZE_ERROR, "a frame has a wrong size");

fn on_stream(stream: u32) -> Result<(), Http2Error> {
    match stream {
        0 => Err(Http2Error::protocol("a frame of a stream names none")),
        _ => Ok(()),
    }
}

fn on_connection(stream: u32) -> Result<(), Http2Error> {
    match stream {
        0 => Ok(()),
        _ => Err(Http2Error::protocol("a frame of the connection names a stream")),
    }
}

/// The payload of a DATA or HEADERS frame without its padding.
fn unpadded(header: FrameHeader, payload: &[u8]) -> Result<&[u8], Http2Error> {
    if !header.has(PADDED) {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(WRONG_SIZE)?;
    let length = rest.len().checked_sub(usize::from(*padding));
    let length = length.ok_or(Http2Error::protocol("a frame's padding exceeds it"))?;
    Ok(&rest[..length])
}

fn write(out: &mut Vec<u8>, kind: FrameType, flags: u8, stream: u32, payload: &[u8]) {
    let header = FrameHeader { length: payload.len(), kind: kind as u8, flags, stream };
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(payload);
}

/// Appends SETTINGS.
pub fn write_settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    let length = settings.len() * 6;
    let header = FrameHeader { length, kind: FrameType::Settings as u8, flags: 0, stream: 0 };
    out.extend_from_slice(&header.to_bytes());
    for (identifier, value) in settings {
        out.extend_from_slice(&identifier.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends the reply to SETTINGS.
pub fn write_settings_ack(out: &mut Vec<u8>) {
    write(out, FrameType::Settings, ACK, 0, &[]);
}

/// Appends PING, or its reply.
pub fn write_ping(out: &mut Vec<u8>, data: [u8; 8], ack: bool) {
    write(out, FrameType::Ping, if ack { ACK } else { 0 }, 0, &data);
}

/// Appends GOAWAY without debug data.
pub fn write_go_away(out: &mut Vec<u8>, last_stream: u32, code: Http2ErrorCode) {
    let [l1, l2, l3, l4] = last_stream.to_be_bytes();
    let [c1, c2, c3, c4] = code.0.to_be_bytes();
    write(out, FrameType::GoAway, 0, 0, &[l1, l2, l3, l4, c1, c2, c3, c4]);
}

/// Appends RST_STREAM.
pub fn write_reset(out: &mut Vec<u8>, stream: u32, code: Http2ErrorCode) {
    write(out, FrameType::ResetStream, 0, stream, &code.0.to_be_bytes());
}

/// Appends WINDOW_UPDATE.
pub fn write_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    write(out, FrameType::WindowUpdate, 0, stream, &increment.to_be_bytes());
}

/// Appends HEADERS, and CONTINUATION for what exceeds one frame.
pub fn write_headers(out: &mut Vec<u8>, stream: u32, block: &[u8], end_stream: bool) {
    let end_stream = if end_stream { END_STREAM } else { 0 };
    let (mut first, mut rest) = block.split_at(block.len().min(PAYLOAD_BYTES_MAX));
    let flags = |rest: &[u8]| if rest.is_empty() { END_HEADERS } else { 0 };
    write(out, FrameType::Headers, end_stream | flags(rest), stream, first);
    while !rest.is_empty() {
        (first, rest) = rest.split_at(rest.len().min(PAYLOAD_BYTES_MAX));
        write(out, FrameType::Continuation, flags(rest), stream, first);
    }
}

/// Appends DATA.
///
/// # Panics
/// If `data` exceeds 2^24 - 1 bytes.
pub fn write_data(out: &mut Vec<u8>, stream: u32, data: &[u8], end_stream: bool) {
    write(out, FrameType::Data, if end_stream { END_STREAM } else { 0 }, stream, data);
}
