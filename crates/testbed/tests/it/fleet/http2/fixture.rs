//! A raw client of HTTP/2 on a blocking socket: writes any frame, and reads each one as it comes.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;

use http2::frame::{self, FRAME_HEADER_BYTES, Frame, FrameHeader, FrameType, PREFACE};
use http2::hpack::{FieldDecoder, Indexing, write_literal};
use testbed::dsp::Fleet;

use super::super::fixture::{BODY, connect};

/// Something that the server has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Head {
        stream: u32,
        fields: Vec<(String, String)>,
        is_last: bool,
    },
    Data {
        stream: u32,
        bytes: Vec<u8>,
        is_last: bool,
    },
    Reset {
        stream: u32,
        code: u32,
    },
    GoAway {
        last_stream: u32,
        code: u32,
    },
    Pong([u8; 8]),
    Settings(Vec<(u16, u32)>),
    /// Any other frame.
    Other(u8),
    /// Bytes that are no frame, up to the end of the connection.
    Garbage(Vec<u8>),
    /// A clean end.
    End,
    /// The connection was reset.
    ConnectionReset,
}

/// An answer whose stream has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) interim: Vec<String>,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Number of DATA frames.
    pub(crate) pieces: usize,
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn status(&self) -> u16 {
        self.field(":status").expect("a status").parse().expect("a number")
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("UTF-8")
    }
}

#[derive(Debug)]
pub(crate) struct FrameClient<S = TcpStream> {
    pub(crate) socket: S,
    decoder: FieldDecoder,
    input: Vec<u8>,
    is_broken: bool,
    answers: HashMap<u32, Answer>,
}

pub(crate) type Field<'a> = (&'a str, &'a str);

pub(crate) const HEAD: [Field<'static>; 4] =
    [(":method", "POST"), (":scheme", "http"), (":authority", "dsp"), (":path", "/bid")];

pub(crate) fn block(fields: &[Field<'_>]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        write_literal(&mut block, name.as_bytes(), value.as_bytes(), Indexing::Without);
    }
    block
}

/// Any frame.
pub(crate) fn raw(kind: FrameType, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader { length: payload.len(), kind: kind as u8, flags, stream };
    [&header.to_bytes()[..], payload].concat()
}

/// HEADERS and DATA of one bid request.
pub(crate) fn bid_request(stream: u32, id: &str) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write_headers(&mut out, stream, &block(&HEAD), false);
    frame::write_data(&mut out, stream, BODY.replace("req-1", id).as_bytes(), true);
    out
}

impl FrameClient {
    /// Connects with these settings.
    pub(crate) fn with_settings(fleet: &Fleet, settings: &[(u16, u32)]) -> Self {
        Self::over(connect(fleet), settings)
    }

    /// Connects, and admits 16 MiB of all streams together.
    pub(crate) fn connect(fleet: &Fleet) -> Self {
        let mut client = Self::with_settings(fleet, &[]);
        let mut update = Vec::new();
        frame::write_window_update(&mut update, 0, 16 << 20);
        client.send(&update);
        client
    }
}

impl<S: Read + Write> FrameClient<S> {
    pub(crate) fn over(socket: S, settings: &[(u16, u32)]) -> Self {
        let (decoder, input) = (FieldDecoder::default(), Vec::new());
        let mut client = Self { socket, decoder, input, is_broken: false, answers: HashMap::new() };
        let mut preface = PREFACE.to_vec();
        frame::write_settings(&mut preface, settings);
        client.send(&preface);
        client
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("sent");
    }

    /// Sends one bid request.
    pub(crate) fn ask(&mut self, stream: u32, id: &str) {
        self.send(&bid_request(stream, id));
    }

    /// The next frame, or how the connection ends.
    pub(crate) fn next(&mut self) -> Event {
        loop {
            if let Some(header) = FrameHeader::read(&self.input)
                && !self.is_broken
            {
                let whole = FRAME_HEADER_BYTES + header.length;
                // The server never sends larger or unknown frames: these bytes are no frame.
                self.is_broken = header.length > 16_384 || header.kind > 9;
                if self.input.len() >= whole {
                    let frame: Vec<u8> = self.input.drain(..whole).collect();
                    return self.event(header, &frame[FRAME_HEADER_BYTES..]);
                }
            }
            let mut buffer = [0; 16_384];
            match self.socket.read(&mut buffer) {
                Ok(0) if self.input.is_empty() => return Event::End,
                Ok(0) => return Event::Garbage(std::mem::take(&mut self.input)),
                Ok(count) => self.input.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Event::ConnectionReset;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn event(&mut self, header: FrameHeader, payload: &[u8]) -> Event {
        match Frame::read(header, payload).expect("a sound frame") {
            Frame::Headers { stream, block, end_stream, end_headers } => {
                assert!(end_headers, "a short head");
                let mut fields = Vec::new();
                let decoded = self.decoder.decode(block, |name, value| {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
                    fields.push((text(name), text(value)));
                });
                decoded.expect("a sound block");
                Event::Head { stream, fields, is_last: end_stream }
            }
            Frame::Data(data) => Event::Data {
                stream: data.stream,
                bytes: data.data.to_vec(),
                is_last: data.end_stream,
            },
            Frame::Reset { stream, code } => Event::Reset { stream, code: code.0 },
            Frame::GoAway { last_stream, code } => Event::GoAway { last_stream, code: code.0 },
            Frame::Ping { data, ack: true } => Event::Pong(data),
            Frame::Settings(settings) => Event::Settings(settings.iter().collect()),
            _ => Event::Other(header.kind),
        }
    }

    /// The next event that says something of a stream or ends the connection.
    pub(crate) fn next_of_streams(&mut self) -> Event {
        loop {
            match self.next() {
                Event::Settings(_) | Event::Other(_) | Event::Pong(_) => (),
                event => return event,
            }
        }
    }

    /// The next answer that is complete, with its stream.
    pub(crate) fn next_answer(&mut self) -> (u32, Answer) {
        loop {
            let (stream, is_last) = match self.next_of_streams() {
                Event::Head { stream, fields, is_last } => {
                    let answer = self.answers.entry(stream).or_default();
                    if fields[0].1.starts_with('1') {
                        answer.interim.push(fields[0].1.clone());
                    } else {
                        answer.fields = fields;
                    }
                    (stream, is_last)
                }
                Event::Data { stream, bytes, is_last } => {
                    let answer = self.answers.entry(stream).or_default();
                    answer.body.extend(bytes);
                    answer.pieces += 1;
                    (stream, is_last)
                }
                event => panic!("{event:?}"),
            };
            if is_last {
                return (stream, self.answers.remove(&stream).expect("it has a head"));
            }
        }
    }

    /// The answer of a stream, which must be the next to be complete.
    pub(crate) fn answer(&mut self, stream: u32) -> Answer {
        let (got, answer) = self.next_answer();
        assert_eq!(got, stream);
        answer
    }

    /// Reads the head of an answer in CONTINUATION frames, and its body. Returns their number.
    pub(crate) fn next_continuations(&mut self) -> usize {
        let (mut count, mut buffer) = (0, [0; 16_384]);
        loop {
            while let Some(header) = FrameHeader::read(&self.input)
                && self.input.len() >= FRAME_HEADER_BYTES + header.length
            {
                self.input.drain(..FRAME_HEADER_BYTES + header.length);
                count += usize::from(header.kind == FrameType::Continuation as u8);
                if header.kind == FrameType::Data as u8 && header.flags & frame::END_STREAM != 0 {
                    return count;
                }
            }
            let read = self.socket.read(&mut buffer).expect("an answer");
            self.input.extend_from_slice(&buffer[..read]);
        }
    }

    /// All bytes up to the clean end of the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.input);
        self.socket.read_to_end(&mut rest).expect("an orderly end");
        rest
    }

    /// The server answers a PING, and has sent nothing of a stream before.
    pub(crate) fn assert_silent(&mut self) {
        let data = *b"silence?";
        let mut ping = Vec::new();
        frame::write_ping(&mut ping, data, false);
        self.send(&ping);
        loop {
            match self.next() {
                Event::Pong(pong) => return assert_eq!(pong, data),
                Event::Settings(_) | Event::Other(_) => (),
                event => panic!("{event:?}"),
            }
        }
    }
}
