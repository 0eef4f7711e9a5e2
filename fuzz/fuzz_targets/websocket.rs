//! Any bytes as a WebSocket client's: the same events and the same violation wherever they are cut,
//! in bounded memory; any upgrade request; and what a server writes, read back from a client.
#![no_main]

use libfuzzer_sys::fuzz_target;
use live_core::websocket::{
    ServerFrameHeader, UpgradeHeaders, WebSocketEvent, WebSocketReader, WebSocketViolation,
};

const MESSAGE_BYTES_MAX: usize = 1024;
/// Memory of a message, of how it is assembled, and of a control frame.
const HELD_BYTES_MAX: usize = MESSAGE_BYTES_MAX + 64 + 125;

#[derive(Debug, PartialEq)]
struct Reading {
    /// Each as text, because they borrow from the input.
    events: Vec<String>,
    violation: Option<WebSocketViolation>,
}

fn read<'p>(parts: impl Iterator<Item = &'p [u8]>) -> Reading {
    let mut reader = WebSocketReader::new(MESSAGE_BYTES_MAX);
    let mut reading = Reading { events: Vec::new(), violation: None };
    for part in parts {
        let mut part = part.to_vec();
        let mut rest = &mut part[..];
        loop {
            match reader.read(&mut rest) {
                Ok(None) => break,
                Ok(Some(event)) => {
                    assert_eq!(reading.violation, None);
                    match &event {
                        WebSocketEvent::Text(text) => assert!(text.len() <= MESSAGE_BYTES_MAX),
                        WebSocketEvent::Binary(it) => assert!(it.len() <= MESSAGE_BYTES_MAX),
                        WebSocketEvent::Ping(it) | WebSocketEvent::Pong(it) => {
                            assert!(it.len() <= 125);
                        }
                        WebSocketEvent::Close { reason, .. } => assert!(reason.len() <= 123),
                    }
                    reading.events.push(format!("{event:?}"));
                }
                Err(violation) => {
                    assert_eq!(reading.violation, None);
                    assert!(violation.to_string().len() <= 123);
                    reading.violation = Some(violation);
                }
            }
        }
        assert!(rest.is_empty() && reader.held_bytes() <= HELD_BYTES_MAX);
        assert!(!reader.is_idle() || reader.held_bytes() == 0);
    }
    reading
}

/// The bytes in parts of these sizes, in turn.
fn parts<'b>(mut bytes: &'b [u8], sizes: &'b [u8]) -> impl Iterator<Item = &'b [u8]> {
    sizes.iter().cycle().map_while(move |size| {
        let size = bytes.len().min(usize::from(*size) + 1);
        (size > 0).then(|| bytes.split_off(..size).expect("it has that length"))
    })
}

fuzz_target!(|data: &[u8]| {
    let Some((sizes, bytes)) = data.split_first_chunk::<4>() else { return };
    assert_eq!(read([bytes].into_iter()), read(parts(bytes, sizes)));

    if let Ok(text) = str::from_utf8(bytes) {
        let mut headers = text.split('\n');
        let mut header = || headers.next();
        let _accepted = UpgradeHeaders {
            upgrade: header(),
            connection: header(),
            version: header(),
            key: header(),
        }
        .accept();
    }

    // The frame of a server, masked.
    let payload = &bytes[..bytes.len().min(MESSAGE_BYTES_MAX)];
    let mut frame = ServerFrameHeader::binary(payload.len()).as_bytes().to_vec();
    frame[1] |= 0x80;
    frame.extend(sizes);
    frame.extend(payload.iter().zip(sizes.iter().cycle()).map(|(byte, key)| byte ^ key));
    let event = format!("{:?}", WebSocketEvent::Binary(payload.into()));
    assert_eq!(read(parts(&frame, sizes)).events, [event]);
});
