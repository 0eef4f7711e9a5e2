//! The client's side of a connection: sends whole requests, assembles responses, and answers what
//! the server's frames ask for.

mod flood;
mod options;
mod request_head;
mod response;
mod streams;

pub use options::Http2ClientOptions;
pub use request_head::RequestHead;
pub use response::{HEAD_BYTES_MAX, HEAD_FIELDS_MAX, INTERIM_MAX, StreamCall, StreamEnd};

use self::flood::FrameAllowance;
use self::request_head::HeadEncoder;
use self::response::{DataProgress, HeadFields, HeadProgress, Response};
use self::streams::Streams;
use crate::error::{Http2Error, Http2ErrorCode};
use crate::frame::{
    self, DataFrame, FRAME_HEADER_BYTES, Frame, FrameHeader, PAYLOAD_BYTES_MAX, PREFACE,
    SETTING_ENABLE_PUSH, SETTING_HEADER_TABLE_SIZE, SETTING_INITIAL_WINDOW_SIZE,
    SETTING_MAX_CONCURRENT_STREAMS, SETTING_MAX_FRAME_SIZE, SETTING_MAX_HEADER_LIST_SIZE,
    SettingsPayload, WINDOW_DEFAULT, WINDOW_MAX,
};
use crate::hpack::FieldDecoder;

/// Smallest window that we grant a connection.
const WINDOW_MIN: u32 = 1024 * 1024;
/// What a stream's window has beyond the largest body, so that one that is too large is noticed.
const WINDOW_SLACK: usize = 1024;
/// Most streams until the server's SETTINGS arrive: RFC 9113 advises servers to allow as many.
const STREAMS_AT_FIRST: usize = 100;
/// A larger output buffer is not kept.
const OUTPUT_KEPT_BYTES: usize = 256 * 1024;

/// Why a request is not sent, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamRefusal {
    /// The server takes no more streams, or their ids are used up: open another connection.
    GoingAway,
    /// As many streams are open as may be.
    StreamLimit,
    /// The server's windows have no room for the body now.
    Window,
}

/// What the server has announced.
#[derive(Clone, Copy, Debug)]
struct PeerSettings {
    streams_max: usize,
    /// Initial window of a stream.
    stream_window: u32,
    payload_bytes_max: usize,
}

/// A header block that continues in the next frame.
#[derive(Debug)]
struct PartialBlock {
    stream: u32,
    end_stream: bool,
    block: Vec<u8>,
}

/// The client's side of a connection; `C` is what a stream is for.
#[derive(Debug)]
pub struct Http2Client<C> {
    options: Http2ClientOptions,
    head: HeadEncoder,
    peer: PeerSettings,
    /// Whether the server's SETTINGS have arrived.
    is_greeted: bool,
    decoder: FieldDecoder,
    streams: Streams<Response<C>>,
    /// Streams below it have been written out.
    unsent_from: u32,
    /// The last stream that the server processes, once it says so.
    last_stream: Option<u32>,
    /// What the server may receive on all streams.
    send_window: u32,
    /// The largest that it has been.
    send_window_max: u32,
    /// Window that we grant the connection.
    window: u32,
    /// Bytes taken from that window that are not given back.
    received: u32,
    /// Those among them that streams hold.
    held: u32,
    allowance: FrameAllowance,
    /// An incomplete frame.
    input: Vec<u8>,
    partial: Option<PartialBlock>,
    output: Vec<u8>,
    is_ended: bool,
}

impl<C: StreamCall> Http2Client<C> {
    /// A connection whose preface is ready to be sent. All of its requests have `head`.
    pub fn new(head: &RequestHead, options: Http2ClientOptions) -> Self {
        let stream_window = options.body_bytes_max.saturating_add(WINDOW_SLACK);
        let stream_window = u32::try_from(stream_window).unwrap_or(WINDOW_MAX / 2);
        let stream_window = stream_window.clamp(WINDOW_DEFAULT, WINDOW_MAX / 2);
        let window = (2 * stream_window).max(WINDOW_MIN);
        let mut output = PREFACE.to_vec();
        let settings = [
            (SETTING_ENABLE_PUSH, 0),
            (SETTING_INITIAL_WINDOW_SIZE, stream_window),
            (SETTING_MAX_HEADER_LIST_SIZE, u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX)),
        ];
        frame::write_settings(&mut output, &settings);
        frame::write_window_update(&mut output, 0, window - WINDOW_DEFAULT);
        let peer = PeerSettings {
            streams_max: STREAMS_AT_FIRST,
            stream_window: WINDOW_DEFAULT,
            payload_bytes_max: PAYLOAD_BYTES_MAX,
        };
        Self {
            options,
            head: HeadEncoder::new(head),
            peer,
            is_greeted: false,
            decoder: FieldDecoder::default(),
            streams: Streams::default(),
            unsent_from: 1,
            last_stream: None,
            send_window: WINDOW_DEFAULT,
            send_window_max: WINDOW_DEFAULT,
            window,
            received: 0,
            held: 0,
            allowance: FrameAllowance::default(),
            input: Vec::new(),
            partial: None,
            output,
            is_ended: false,
        }
    }

    /// Whether a request with a body of `length` bytes can be sent now.
    ///
    /// # Errors
    /// Why not.
    pub fn room(&self, length: usize) -> Result<(), StreamRefusal> {
        if self.is_ended || self.last_stream.is_some() || self.streams.next_id().is_none() {
            return Err(StreamRefusal::GoingAway);
        }
        let streams_max = self.peer.streams_max.min(self.options.streams_max);
        if self.streams.len() >= streams_max || self.streams.is_scattered() {
            return Err(StreamRefusal::StreamLimit);
        }
        if length > self.send_window.min(self.peer.stream_window) as usize {
            return Err(StreamRefusal::Window);
        }
        Ok(())
    }

    /// The largest body that the connection can carry while it has no other requests.
    pub fn capacity(&self) -> usize {
        self.send_window_max.min(self.peer.stream_window) as usize
    }

    /// Adds a request to the output; returns its stream. Its own `fields`, with names in lower case,
    /// follow those of all requests. The body is `parts`, `length` bytes together.
    ///
    /// # Errors
    /// There is no room; nothing was added.
    ///
    /// # Panics
    /// If the parts are not as long as they should be.
    pub fn request<'p>(
        &mut self,
        call: C,
        fields: &[(&str, &str)],
        length: usize,
        parts: impl Iterator<Item = &'p [u8]>,
    ) -> Result<u32, (C, StreamRefusal)> {
        let id = match (self.room(length), self.streams.next_id()) {
            (Ok(()), Some(id)) => id,
            (Err(refusal), _) => return Err((call, refusal)),
            (Ok(()), None) => return Err((call, StreamRefusal::GoingAway)),
        };
        self.head.write(&mut self.output, id, fields, length);
        self.write_body(id, length, parts);
        self.send_window -= u32::try_from(length).expect("the window has room");
        self.streams.open(Response::new(call));
        self.allowance.earn();
        Ok(id)
    }

    fn write_body<'p>(&mut self, id: u32, length: usize, parts: impl Iterator<Item = &'p [u8]>) {
        let (mut left, mut in_frame) = (length, 0);
        for mut part in parts {
            while !part.is_empty() {
                if in_frame == 0 {
                    assert!(left > 0, "the body is as long as it says");
                    in_frame = left.min(self.peer.payload_bytes_max);
                    left -= in_frame;
                    let flags = if left == 0 { frame::END_STREAM } else { 0 };
                    let kind = frame::FrameType::Data as u8;
                    let header = FrameHeader { length: in_frame, kind, flags, stream: id };
                    self.output.extend_from_slice(&header.to_bytes());
                }
                let (now, rest) = part.split_at(part.len().min(in_frame));
                self.output.extend_from_slice(now);
                in_frame -= now.len();
                part = rest;
            }
        }
        assert!(left == 0 && in_frame == 0, "the body is as long as it says");
    }

    /// Cancels a stream; returns what it was for. None if it has ended.
    pub fn cancel(&mut self, stream: u32) -> Option<C> {
        let response = self.streams.remove(stream)?;
        self.release(response.held());
        frame::write_reset(&mut self.output, stream, Http2ErrorCode::CANCEL);
        self.give_back();
        Some(response.call)
    }

    /// Bytes to be sent.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// The output was handed to the transport.
    pub fn mark_sent(&mut self) {
        self.output.clear();
        if self.output.capacity() > OUTPUT_KEPT_BYTES {
            self.output = Vec::new();
        }
        self.unsent_from = self.streams.opened_to();
    }

    /// Number of open streams.
    pub fn streams_len(&self) -> usize {
        self.streams.len()
    }

    /// Open streams and their calls, oldest first.
    pub fn calls(&self) -> impl Iterator<Item = (u32, &C)> {
        self.streams.iter().map(|(id, response)| (id, &response.call))
    }

    /// Whether the connection takes no more requests, ever.
    pub fn is_going_away(&self) -> bool {
        self.room(0) == Err(StreamRefusal::GoingAway)
    }

    /// Ends all streams because the connection has ended or must end. Those that were not handed to
    /// the transport are [`StreamEnd::Unprocessed`]. The output becomes GOAWAY with `code`, the first
    /// one given.
    pub fn end(&mut self, code: Http2ErrorCode, mut on_end: impl FnMut(C, StreamEnd<'_>)) {
        if !self.is_ended {
            self.is_ended = true;
            self.output.clear();
            frame::write_go_away(&mut self.output, 0, code);
        }
        while let Some((id, response)) = self.streams.pop() {
            let end = match id < self.unsent_from {
                true => StreamEnd::Lost { has_begun: response.has_begun() },
                false => StreamEnd::Unprocessed,
            };
            on_end(response.call, end);
        }
    }

    /// Takes bytes from the server, and passes every stream that ends to `on_end`. May add to the
    /// output.
    ///
    /// # Errors
    /// The server violates the protocol: [`end`](Self::end) the connection.
    pub fn receive(
        &mut self,
        mut bytes: &[u8],
        on_end: &mut impl FnMut(C, StreamEnd<'_>),
    ) -> Result<(), Http2Error> {
        while !self.input.is_empty() && !bytes.is_empty() {
            let whole = self.frame_bytes(&self.input)?;
            let missing = whole.unwrap_or(FRAME_HEADER_BYTES) - self.input.len();
            let (now, rest) = bytes.split_at(bytes.len().min(missing));
            self.input.extend_from_slice(now);
            bytes = rest;
            if self.frame_bytes(&self.input)? == Some(self.input.len()) {
                let input = std::mem::take(&mut self.input);
                self.on_frame(&input, on_end)?;
            }
        }
        while let Some(whole) = self.frame_bytes(bytes)?
            && let Some((frame, rest)) = bytes.split_at_checked(whole)
        {
            bytes = rest;
            self.on_frame(frame, on_end)?;
        }
        self.input.extend_from_slice(bytes);
        self.give_back();
        Ok(())
    }

    /// Bytes of the frame at the start of `bytes`. None if its header is incomplete.
    fn frame_bytes(&self, bytes: &[u8]) -> Result<Option<usize>, Http2Error> {
        if !self.is_greeted && bytes.starts_with(b"HTTP/1") {
            return Err(Http2Error::protocol("the server speaks HTTP/1.1"));
        }
        let Some(header) = FrameHeader::read(bytes) else { return Ok(None) };
        if header.length > PAYLOAD_BYTES_MAX {
            let code = Http2ErrorCode::FRAME_SIZE_ERROR;
            return Err(Http2Error::new(code, "a frame is larger than we allow"));
        }
        Ok(Some(FRAME_HEADER_BYTES + header.length))
    }

    /// Handles a whole frame.
    fn on_frame(
        &mut self,
        frame: &[u8],
        on_end: &mut impl FnMut(C, StreamEnd<'_>),
    ) -> Result<(), Http2Error> {
        let (header, payload) = frame.split_at(FRAME_HEADER_BYTES);
        let header = FrameHeader::read(header).expect("the header is whole");
        let frame = Frame::read(header, payload)?;
        if !self.is_greeted && !matches!(frame, Frame::Settings(_)) {
            return Err(Http2Error::protocol("the server's first frame is not SETTINGS"));
        }
        let continues = matches!(frame, Frame::Continuation { .. });
        if continues != self.partial.is_some() {
            return Err(Http2Error::protocol("a header block is interrupted, or never began"));
        }
        match frame {
            Frame::Data(data) => self.on_data(data, on_end),
            Frame::Headers { stream, block, end_stream, end_headers } => {
                self.check_opened(stream)?;
                if end_headers {
                    return self.on_block(stream, block, end_stream, on_end);
                }
                self.allowance.spend()?;
                self.partial = Some(PartialBlock { stream, end_stream, block: block.to_vec() });
                Ok(())
            }
            Frame::Continuation { stream, block, end_headers } => {
                self.on_continuation(stream, block, end_headers, on_end)
            }
            Frame::Reset { stream, code } => self.on_reset(stream, code, on_end),
            Frame::Settings(settings) => self.on_settings(settings),
            Frame::Ping { data, ack: false } => {
                self.allowance.spend()?;
                frame::write_ping(&mut self.output, data, true);
                Ok(())
            }
            Frame::GoAway { last_stream, .. } => {
                self.allowance.spend()?;
                self.on_go_away(last_stream, on_end);
                Ok(())
            }
            Frame::WindowUpdate { stream, increment } => self.on_window(stream, increment),
            Frame::PushPromise => Err(Http2Error::protocol("the server pushes, which is off")),
            Frame::SettingsAck | Frame::Ping { ack: true, .. } | Frame::Ignored => {
                self.allowance.spend()
            }
        }
    }

    /// Whether we have opened a stream; it may have ended.
    fn check_opened(&self, stream: u32) -> Result<(), Http2Error> {
        if stream % 2 == 1 && stream < self.streams.opened_to() {
            return Ok(());
        }
        Err(Http2Error::protocol("a frame is for a stream that was never opened"))
    }

    fn on_data(
        &mut self,
        DataFrame { stream, data, flow_bytes, end_stream }: DataFrame<'_>,
        on_end: &mut impl FnMut(C, StreamEnd<'_>),
    ) -> Result<(), Http2Error> {
        self.check_opened(stream)?;
        self.received += flow_bytes;
        if self.received > self.window {
            let code = Http2ErrorCode::FLOW_CONTROL_ERROR;
            return Err(Http2Error::new(code, "the server exceeds the connection's window"));
        }
        let Some(response) = self.streams.get_mut(stream) else {
            return self.allowance.spend(); // We have cancelled it.
        };
        let before = response.held();
        let progress = response.on_data(data, end_stream, &self.options);
        self.held += response.held() - before;
        match progress {
            DataProgress::Partial => {
                if data.is_empty() {
                    self.allowance.spend()?;
                }
            }
            DataProgress::Whole => {
                let mut response = self.streams.remove(stream).expect("it was found");
                self.release(response.held());
                let body = response.take_body();
                let body = if body.is_empty() { data } else { &body };
                let end = StreamEnd::Response { status: response.status(), body };
                on_end(response.call, end);
            }
            DataProgress::Failed(end) => self.fail(stream, end, end_stream, on_end),
        }
        Ok(())
    }

    fn on_continuation(
        &mut self,
        stream: u32,
        more: &[u8],
        end_headers: bool,
        on_end: &mut impl FnMut(C, StreamEnd<'_>),
    ) -> Result<(), Http2Error> {
        self.allowance.spend()?;
        let mut partial = self.partial.take().expect("the caller has checked it");
        if partial.stream != stream {
            return Err(Http2Error::protocol("a header block is interrupted, or never began"));
        }
        if partial.block.len() + more.len() > HEAD_BYTES_MAX {
            let code = Http2ErrorCode::ENHANCE_YOUR_CALM;
            return Err(Http2Error::new(code, "a header block is too large"));
        }
        partial.block.extend_from_slice(more);
        if end_headers {
            return self.on_block(stream, &partial.block, partial.end_stream, on_end);
        }
        self.partial = Some(partial);
        Ok(())
    }

    fn on_block(
        &mut self,
        stream: u32,
        block: &[u8],
        end_stream: bool,
        on_end: &mut impl FnMut(C, StreamEnd<'_>),
    ) -> Result<(), Http2Error> {
        let mut response = self.streams.get_mut(stream);
        let mut fields = HeadFields::default();
        let decoded = self.decoder.decode(block, |name, value| {
            fields.add(name, value, response.as_deref_mut());
        });
        decoded.map_err(|_| {
            let code = Http2ErrorCode::COMPRESSION_ERROR;
            Http2Error::new(code, "a header block cannot be decoded")
        })?;
        let Some(response) = response else { return self.allowance.spend() };
        match response.on_head(&fields, end_stream, &self.options) {
            HeadProgress::Partial => (),
            HeadProgress::Whole => {
                let mut response = self.streams.remove(stream).expect("it was found");
                self.release(response.held());
                let body = response.take_body();
                let end = StreamEnd::Response { status: response.status(), body: &body };
                on_end(response.call, end);
            }
            HeadProgress::Failed(end) => self.fail(stream, end, end_stream, on_end),
        }
        Ok(())
    }

    /// Ends a stream whose response is unusable.
    fn fail(
        &mut self,
        stream: u32,
        end: StreamEnd<'static>,
        is_ended: bool,
        on_end: &mut impl FnMut(C, StreamEnd<'_>),
    ) {
        let response = self.streams.remove(stream).expect("the caller has it");
        self.release(response.held());
        if !is_ended {
            let code = match end {
                StreamEnd::Malformed(_) => Http2ErrorCode::PROTOCOL_ERROR,
                _ => Http2ErrorCode::CANCEL,
            };
            frame::write_reset(&mut self.output, stream, code);
        }
        on_end(response.call, end);
    }

    fn on_reset(
        &mut self,
        stream: u32,
        code: Http2ErrorCode,
        on_end: &mut impl FnMut(C, StreamEnd<'_>),
    ) -> Result<(), Http2Error> {
        self.check_opened(stream)?;
        self.allowance.spend()?;
        let Some(response) = self.streams.remove(stream) else { return Ok(()) };
        self.release(response.held());
        let is_unprocessed = code == Http2ErrorCode::REFUSED_STREAM && !response.has_begun();
        let end = match is_unprocessed {
            true => StreamEnd::Unprocessed,
            false => StreamEnd::Reset(code),
        };
        on_end(response.call, end);
        Ok(())
    }

    fn on_go_away(&mut self, last_stream: u32, on_end: &mut impl FnMut(C, StreamEnd<'_>)) {
        let last = self.last_stream.map_or(last_stream, |last| last.min(last_stream));
        self.last_stream = Some(last);
        while let Some((_, response)) = self.streams.pop_after(last) {
            self.release(response.held());
            on_end(response.call, StreamEnd::Unprocessed);
        }
    }

    fn on_settings(&mut self, settings: SettingsPayload<'_>) -> Result<(), Http2Error> {
        self.allowance.spend()?;
        if !std::mem::replace(&mut self.is_greeted, true) {
            self.peer.streams_max = usize::MAX;
        }
        for (identifier, value) in settings.iter() {
            match identifier {
                SETTING_HEADER_TABLE_SIZE => self.head.resize(value as usize),
                SETTING_ENABLE_PUSH if value != 0 => {
                    return Err(Http2Error::protocol("a server enables push"));
                }
                SETTING_MAX_CONCURRENT_STREAMS => self.peer.streams_max = value as usize,
                SETTING_INITIAL_WINDOW_SIZE if value > WINDOW_MAX => {
                    return Err(WINDOW_OVERFLOW);
                }
                SETTING_INITIAL_WINDOW_SIZE => self.peer.stream_window = value,
                SETTING_MAX_FRAME_SIZE => {
                    let value = value as usize;
                    if !(PAYLOAD_BYTES_MAX..1 << 24).contains(&value) {
                        return Err(Http2Error::protocol("SETTINGS_MAX_FRAME_SIZE is invalid"));
                    }
                    self.peer.payload_bytes_max = value;
                }
                _ => (),
            }
        }
        frame::write_settings_ack(&mut self.output);
        Ok(())
    }

    fn on_window(&mut self, stream: u32, increment: u32) -> Result<(), Http2Error> {
        if stream != 0 {
            // Requests are sent as a whole, so a stream's window no longer matters.
            self.check_opened(stream)?;
            return self.allowance.spend();
        }
        self.allowance.spend()?;
        if increment == 0 {
            return Err(Http2Error::protocol("WINDOW_UPDATE by 0"));
        }
        let window = self.send_window.saturating_add(increment);
        if window > WINDOW_MAX {
            return Err(WINDOW_OVERFLOW);
        }
        self.send_window = window;
        self.send_window_max = self.send_window_max.max(window);
        Ok(())
    }

    /// A stream no longer holds bytes.
    fn release(&mut self, bytes: u32) {
        self.held -= bytes;
    }

    /// Gives back what no stream holds, once it is worth a frame.
    fn give_back(&mut self) {
        let free = self.received - self.held;
        if free >= self.window / 2 {
            frame::write_window_update(&mut self.output, 0, free);
            self.received -= free;
        }
    }
}

const WINDOW_OVERFLOW: Http2Error =
    Http2Error::new(Http2ErrorCode::FLOW_CONTROL_ERROR, "a window overflows");

#[cfg(test)]
mod tests;
