//! A client of the tests: it shares no code with the codec.

use std::borrow::Cow;

use crate::websocket::{CloseCode, WebSocketEvent, WebSocketReader, WebSocketViolation};

pub const FIN: u8 = 0x80;
pub const CONTINUATION: u8 = 0;
pub const TEXT: u8 = 1;
pub const BINARY: u8 = 2;
pub const CLOSE: u8 = FIN | 8;
pub const PING: u8 = FIN | 9;
pub const PONG: u8 = FIN | 10;

/// The key of the RFC's examples.
pub const KEY: [u8; 4] = [0x37, 0xFA, 0x21, 0x3D];

/// Memory that a reader holds at most: the message, how it is assembled, and a control frame.
const fn held_max(message_bytes_max: usize) -> usize {
    message_bytes_max + 64 + 125
}

pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    frame_with(first, payload, KEY)
}

pub fn frame_with(first: u8, payload: &[u8], key: [u8; 4]) -> Vec<u8> {
    let mut bytes = vec![first];
    if let Ok(length @ 0..=125) = u8::try_from(payload.len()) {
        bytes.push(0x80 | length);
    } else if let Ok(length) = u16::try_from(payload.len()) {
        bytes.push(0xFE);
        bytes.extend(length.to_be_bytes());
    } else {
        bytes.push(0xFF);
        bytes.extend((payload.len() as u64).to_be_bytes());
    }
    bytes.extend(key);
    bytes.extend(payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
    bytes
}

pub fn close(code: u16, reason: &[u8]) -> Vec<u8> {
    frame(CLOSE, &[&code.to_be_bytes(), reason].concat())
}

/// What a reader made of its input.
#[derive(Debug, Default, PartialEq)]
pub struct Reading {
    pub events: Vec<WebSocketEvent<'static>>,
    pub violation: Option<WebSocketViolation>,
}

impl Reading {
    /// Feeds each part. After its end a reader is fed on, and must stay silent.
    pub fn of<'p>(parts: impl IntoIterator<Item = &'p [u8]>, message_bytes_max: usize) -> Self {
        let mut reader = WebSocketReader::new(message_bytes_max);
        let (mut reading, mut ended) = (Self::default(), false);
        for part in parts {
            let mut part = part.to_vec();
            let mut rest = &mut part[..];
            loop {
                match reader.read(&mut rest) {
                    Ok(None) => break,
                    Ok(Some(event)) => {
                        assert!(!ended, "{event:?} after the end");
                        ended = matches!(event, WebSocketEvent::Close { .. });
                        reading.events.push(owned(event));
                    }
                    Err(violation) => {
                        assert!(!ended, "{violation} after the end");
                        ended = true;
                        reading.violation = Some(violation);
                    }
                }
                assert!(!reader.is_idle() || reader.held_bytes() == 0);
            }
            assert!(rest.is_empty(), "bytes were left");
            assert!(reader.held_bytes() <= held_max(message_bytes_max));
            assert!(!ended || reader.is_idle() && reader.held_bytes() == 0);
        }
        reading
    }
}

pub fn owned(event: WebSocketEvent<'_>) -> WebSocketEvent<'static> {
    match event {
        WebSocketEvent::Text(text) => WebSocketEvent::Text(Cow::Owned(text.into_owned())),
        WebSocketEvent::Binary(bytes) => WebSocketEvent::Binary(Cow::Owned(bytes.into_owned())),
        WebSocketEvent::Ping(bytes) => WebSocketEvent::Ping(Cow::Owned(bytes.into_owned())),
        WebSocketEvent::Pong(bytes) => WebSocketEvent::Pong(Cow::Owned(bytes.into_owned())),
        WebSocketEvent::Close { code, reason } => WebSocketEvent::Close { code, reason },
    }
}

/// The events of whole, correct frames: byte by byte, without limits or checks.
pub fn naive_events(bytes: &[u8]) -> Vec<WebSocketEvent<'static>> {
    let (mut events, mut kind, mut message) = (Vec::new(), 0, Vec::new());
    let mut rest = bytes.iter().copied();
    let mut take = |count: u64| (0..count).map(|_| rest.next().unwrap()).collect::<Vec<u8>>();
    let number = |bytes: Vec<u8>| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let mut left = bytes.len() as u64;
    while left > 0 {
        let head = take(2);
        let (length, length_bytes) = match head[1] & 0x7F {
            126 => (number(take(2)), 2),
            127 => (number(take(8)), 8),
            short => (short.into(), 0),
        };
        let key = take(4);
        let mut payload = take(length);
        left -= 2 + length_bytes + 4 + length;
        payload.iter_mut().enumerate().for_each(|(at, byte)| *byte ^= key[at % 4]);
        match head[0] & 0x0F {
            8 => events.push(WebSocketEvent::Close {
                code: CloseCode::private(u16::from_be_bytes([payload[0], payload[1]])),
                reason: String::from_utf8(payload.split_off(2)).unwrap(),
            }),
            9 => events.push(WebSocketEvent::Ping(payload.into())),
            10 => events.push(WebSocketEvent::Pong(payload.into())),
            opcode => {
                kind = kind.max(opcode);
                message.append(&mut payload);
                if head[0] >= 0x80 {
                    let message = std::mem::take(&mut message);
                    events.push(match std::mem::take(&mut kind) {
                        1 => WebSocketEvent::Text(String::from_utf8(message).unwrap().into()),
                        _ => WebSocketEvent::Binary(message.into()),
                    });
                }
            }
        }
    }
    events
}
