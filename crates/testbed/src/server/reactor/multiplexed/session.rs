//! HTTP/2 of one connection without its socket: takes the client's frames, assembles requests, and
//! hands them to the service. [`answers`](super::answers) sends what the service replies.

use std::collections::HashMap;

use http2::frame::{
    self, DataFrame, FRAME_HEADER_BYTES, Frame, FrameHeader, PAYLOAD_BYTES_MAX, PREFACE,
    SETTING_ENABLE_PUSH, SETTING_HEADER_TABLE_SIZE, SETTING_INITIAL_WINDOW_SIZE,
    SETTING_MAX_CONCURRENT_STREAMS, SETTING_MAX_FRAME_SIZE, SettingsPayload, WINDOW_DEFAULT,
    WINDOW_MAX,
};
use http2::hpack::FieldDecoder;
use http2::{Http2Error, Http2ErrorCode};

use super::answers::AnswerStreams;
pub(super) use super::answers::SessionFate;
use super::sender::{AnswerFlow, WINDOW_OVERFLOW};
use crate::server::http::HEAD_BYTES_MAX;
use crate::server::reactor::context::{Buffers, ThreadContext};
use crate::server::reactor::request::{PartialRequest, RequestProblem};
use crate::server::responder::SimulatedService;

/// Most open streams of a connection; more are refused.
const STREAMS_MAX: u32 = 1_000;

/// Window of the connection, so large that clients need not wait.
const WINDOW_BYTES: u32 = 16 * 1024 * 1024;

/// Smallest window of a stream. A larger one than a body may have needs no update.
const STREAM_WINDOW_MIN: usize = 1024 * 1024;

/// What a stream's window has beyond the largest body, so that one that is too large is refused.
const WINDOW_SLACK: usize = 64 * 1024;

/// Most requests that are kept to be used again.
const REQUESTS_KEPT: usize = 64;

/// What the client must send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Greeting {
    Preface,
    Settings,
    Done,
}

/// A header block, or its beginning.
#[derive(Debug)]
struct HeaderBlock<B> {
    stream: u32,
    block: B,
    end_stream: bool,
}

/// A stream whose request is incomplete.
#[derive(Debug)]
struct ReceivingStream {
    flow: AnswerFlow,
    request: PartialRequest,
}

#[derive(Debug)]
pub(super) struct Http2Session {
    greeting: Greeting,
    decoder: FieldDecoder,
    /// A header block that continues in the next frame.
    partial: Option<HeaderBlock<Vec<u8>>>,
    receiving: HashMap<u32, ReceivingStream>,
    answers: AnswerStreams,
    /// Bytes taken from the connection's window that are not given back.
    received: u32,
}

impl Http2Session {
    /// A session whose settings are ready to be sent.
    pub(super) fn new(body_bytes_max: usize) -> Self {
        let window = body_bytes_max.saturating_add(WINDOW_SLACK).max(STREAM_WINDOW_MIN);
        let window = u32::try_from(window).unwrap_or(WINDOW_MAX).min(WINDOW_MAX);
        let mut answers = AnswerStreams::new();
        let output = &mut answers.sender.output;
        let settings =
            [(SETTING_MAX_CONCURRENT_STREAMS, STREAMS_MAX), (SETTING_INITIAL_WINDOW_SIZE, window)];
        frame::write_settings(output, &settings);
        frame::write_window_update(output, 0, WINDOW_BYTES - WINDOW_DEFAULT);
        Self {
            greeting: Greeting::Preface,
            decoder: FieldDecoder::default(),
            partial: None,
            receiving: HashMap::new(),
            answers,
            received: 0,
        }
    }

    /// What becomes of the connection once the output is sent.
    pub(super) const fn fate(&self) -> SessionFate {
        self.answers.fate
    }

    /// Whether an answer can proceed.
    pub(super) fn is_ready(&self) -> bool {
        self.answers.is_ready()
    }

    /// Bytes to be sent.
    pub(super) fn output(&self) -> &[u8] {
        &self.answers.sender.output
    }

    /// The output was handed to the socket. Keeps the buffer up to `kept_bytes`.
    pub(super) fn mark_sent(&mut self, kept_bytes: usize) {
        let output = &mut self.answers.sender.output;
        output.clear();
        output.shrink_to(kept_bytes);
    }

    /// The client has closed its side: nobody waits for answers.
    pub(super) const fn leave_at_once(&mut self) {
        self.answers.fate = SessionFate::Finishing;
    }

    /// The alarm of a stream is due.
    pub(super) fn ring(&mut self, stream: u32, buffers: &mut Buffers) {
        self.answers.ring(stream, buffers);
    }

    /// Lets answers proceed. After GOAWAY, the connection closes with its last stream.
    pub(super) fn proceed(&mut self, buffers: &mut Buffers) {
        self.answers.proceed(buffers);
        let is_empty = self.receiving.is_empty() && self.answers.len() == 0;
        if self.answers.has_left() && is_empty && self.answers.fate == SessionFate::Open {
            self.answers.fate = SessionFate::Finishing;
        }
    }

    /// Takes bytes from the client. Returns how many of them were used; the others are the beginning
    /// of a frame.
    pub(super) fn receive(
        &mut self,
        bytes: &[u8],
        context: &mut ThreadContext<'_, impl SimulatedService>,
    ) -> usize {
        match self.receive_frames(bytes, context) {
            Ok(used) => used,
            Err(error) => {
                context.responder.connections().malformed.add(1);
                self.answers.write_go_away(error.code);
                self.answers.fate = SessionFate::Finishing;
                bytes.len()
            }
        }
    }

    fn receive_frames(
        &mut self,
        bytes: &[u8],
        context: &mut ThreadContext<'_, impl SimulatedService>,
    ) -> Result<usize, Http2Error> {
        let mut rest = bytes;
        if self.greeting == Greeting::Preface {
            let length = bytes.len().min(PREFACE.len());
            if bytes[..length] != PREFACE[..length] {
                return Err(protocol_error("the client's preface is wrong"));
            }
            if length < PREFACE.len() {
                return Ok(0);
            }
            rest = &rest[length..];
            self.greeting = Greeting::Settings;
        }
        while self.answers.fate == SessionFate::Open
            && let Some(header) = FrameHeader::read(rest)
        {
            if header.length > PAYLOAD_BYTES_MAX {
                let (code, problem) =
                    (Http2ErrorCode::FRAME_SIZE_ERROR, "a frame is larger than we allow");
                return Err(Http2Error { code, problem });
            }
            let whole = FRAME_HEADER_BYTES + header.length;
            let Some((frame, later)) = rest.split_at_checked(whole) else { break };
            self.on_frame(Frame::read(header, &frame[FRAME_HEADER_BYTES..])?, context)?;
            rest = later;
        }
        Ok(bytes.len() - rest.len())
    }

    fn on_frame(
        &mut self,
        frame: Frame<'_>,
        context: &mut ThreadContext<'_, impl SimulatedService>,
    ) -> Result<(), Http2Error> {
        if self.greeting != Greeting::Done && !matches!(frame, Frame::Settings(_)) {
            return Err(protocol_error("the client's first frame is not SETTINGS"));
        }
        self.greeting = Greeting::Done;
        if matches!(frame, Frame::Continuation { .. }) != self.partial.is_some() {
            return Err(protocol_error("a header block is interrupted, or never began"));
        }
        match frame {
            Frame::Data(data) => self.on_data(data, context),
            Frame::Headers { stream, block, end_stream, end_headers: true } => {
                self.on_block(HeaderBlock { stream, block, end_stream }, context)
            }
            Frame::Headers { stream, block, end_stream, end_headers: false } => {
                self.partial = Some(HeaderBlock { stream, block: block.to_vec(), end_stream });
                Ok(())
            }
            Frame::Continuation { stream, block, end_headers } => {
                self.on_continuation(stream, block, end_headers, context)
            }
            Frame::Reset { stream, .. } => self.on_reset(stream, context.buffers),
            Frame::Settings(settings) => self.on_settings(settings),
            Frame::Ping { data, ack: false } => {
                frame::write_ping(&mut self.answers.sender.output, data, true);
                Ok(())
            }
            Frame::WindowUpdate { stream, increment } => self.on_window(stream, increment),
            Frame::PushPromise => Err(protocol_error("a client pushes")),
            Frame::GoAway { .. }
            | Frame::SettingsAck
            | Frame::Ping { ack: true, .. }
            | Frame::Ignored => Ok(()),
        }
    }

    /// Whether the client has opened a stream; it may have ended.
    fn check_opened(&self, stream: u32) -> Result<(), Http2Error> {
        if stream % 2 == 1 && stream <= self.answers.last_stream {
            return Ok(());
        }
        Err(protocol_error("a frame is for a stream that was never opened"))
    }

    fn on_continuation(
        &mut self,
        stream: u32,
        more: &[u8],
        end_headers: bool,
        context: &mut ThreadContext<'_, impl SimulatedService>,
    ) -> Result<(), Http2Error> {
        let mut partial = self.partial.take().expect("a block is partial");
        if partial.stream != stream {
            return Err(protocol_error("a header block continues on another stream"));
        }
        partial.block.extend_from_slice(more);
        if partial.block.len() > HEAD_BYTES_MAX {
            let (code, problem) = (Http2ErrorCode::ENHANCE_YOUR_CALM, "a head is too large");
            return Err(Http2Error { code, problem });
        }
        if !end_headers {
            self.partial = Some(partial);
            return Ok(());
        }
        let HeaderBlock { block, end_stream, .. } = partial;
        self.on_block(HeaderBlock { stream, block: &block, end_stream }, context)
    }

    /// Handles a whole header block: the head of a request, or trailers.
    fn on_block(
        &mut self,
        HeaderBlock { stream, block, end_stream }: HeaderBlock<&[u8]>,
        context: &mut ThreadContext<'_, impl SimulatedService>,
    ) -> Result<(), Http2Error> {
        if stream % 2 == 0 {
            return Err(protocol_error("a client opens a stream of the server"));
        }
        let mut request = context.buffers.requests.pop().unwrap_or_default();
        let decoded = self.decoder.decode(block, |name, value| request.add(name, value));
        decoded.map_err(|_| Http2Error {
            code: Http2ErrorCode::COMPRESSION_ERROR,
            problem: "a header block cannot be decoded",
        })?;
        if stream <= self.answers.last_stream {
            keep(request, context.buffers);
            self.on_trailers(stream, end_stream, context);
            return Ok(());
        }
        self.answers.last_stream = stream;
        let open = self.receiving.len() + self.answers.len();
        if self.answers.has_left() || open >= STREAMS_MAX as usize {
            keep(request, context.buffers);
            let output = &mut self.answers.sender.output;
            frame::write_reset(output, stream, Http2ErrorCode::REFUSED_STREAM);
            return Ok(());
        }
        let flow = self.answers.sender.flow(stream);
        if let Err(problem) = request.check_head(context.body_bytes_max) {
            self.reject(flow, problem, end_stream, context);
        } else if end_stream {
            self.answer(flow, &request, None, context);
        } else {
            self.receiving.insert(stream, ReceivingStream { flow, request });
            return Ok(());
        }
        keep(request, context.buffers);
        Ok(())
    }

    /// Trailers end a request. Those of a stream that has ended before are ignored.
    fn on_trailers(
        &mut self,
        stream: u32,
        end_stream: bool,
        context: &mut ThreadContext<'_, impl SimulatedService>,
    ) {
        let Some(ReceivingStream { flow, request }) = self.receiving.remove(&stream) else {
            return;
        };
        match end_stream {
            true => self.answer(flow, &request, None, context),
            false => self.reject(flow, RequestProblem::Malformed, false, context),
        }
        keep(request, context.buffers);
    }

    fn on_data(
        &mut self,
        DataFrame { stream, data, flow_bytes, end_stream }: DataFrame<'_>,
        context: &mut ThreadContext<'_, impl SimulatedService>,
    ) -> Result<(), Http2Error> {
        self.check_opened(stream)?;
        self.take_from_window(flow_bytes)?;
        let body_bytes_max = context.body_bytes_max;
        if !end_stream {
            let Some(receiving) = self.receiving.get_mut(&stream) else { return Ok(()) };
            if let Err(problem) = receiving.request.add_data(data, body_bytes_max)
                && let Some(ReceivingStream { flow, request }) = self.receiving.remove(&stream)
            {
                self.reject(flow, problem, false, context);
                keep(request, context.buffers);
            }
            return Ok(());
        }
        let Some(receiving) = self.receiving.remove(&stream) else { return Ok(()) };
        let ReceivingStream { flow, mut request } = receiving;
        if request.is_empty() {
            self.answer(flow, &request, Some(data), context);
        } else {
            match request.add_data(data, body_bytes_max) {
                Ok(()) => self.answer(flow, &request, None, context),
                Err(problem) => self.reject(flow, problem, true, context),
            }
        }
        keep(request, context.buffers);
        Ok(())
    }

    /// Counts received bytes, and gives them back once it is worth a frame.
    fn take_from_window(&mut self, bytes: u32) -> Result<(), Http2Error> {
        self.received += bytes;
        if self.received > WINDOW_BYTES {
            let code = Http2ErrorCode::FLOW_CONTROL_ERROR;
            return Err(Http2Error { code, problem: "the client exceeds the connection's window" });
        }
        if self.received >= WINDOW_BYTES / 2 {
            frame::write_window_update(&mut self.answers.sender.output, 0, self.received);
            self.received = 0;
        }
        Ok(())
    }

    /// Hands a whole request to the service. Its body is `data`, or what has arrived before.
    fn answer(
        &mut self,
        flow: AnswerFlow,
        request: &PartialRequest,
        data: Option<&[u8]>,
        context: &mut ThreadContext<'_, impl SimulatedService>,
    ) {
        let request = match request.request(data, context.body_bytes_max) {
            Ok(request) => request,
            Err(problem) => return self.reject(flow, problem, true, context),
        };
        let mut output = std::mem::take(&mut context.buffers.output);
        output.clear();
        let reply = context.responder.respond(&request, &mut output);
        self.answers.begin(flow, reply, &output, &mut context.buffers.alarms);
        context.buffers.output = output;
    }

    /// Ends a stream whose request cannot be handed to the service.
    fn reject(
        &mut self,
        flow: AnswerFlow,
        problem: RequestProblem,
        is_ended: bool,
        context: &mut ThreadContext<'_, impl SimulatedService>,
    ) {
        context.responder.connections().malformed.add(1);
        let stream = flow.stream;
        let code = match problem {
            RequestProblem::Malformed => Http2ErrorCode::PROTOCOL_ERROR,
            RequestProblem::Refused(refusal) => {
                self.answers.refuse(flow, refusal.answer());
                if is_ended {
                    return;
                }
                Http2ErrorCode::NO_ERROR // The rest of the request is not needed.
            }
        };
        frame::write_reset(&mut self.answers.sender.output, stream, code);
    }

    fn on_reset(&mut self, stream: u32, buffers: &mut Buffers) -> Result<(), Http2Error> {
        self.check_opened(stream)?;
        self.answers.drop_stream(stream);
        if let Some(receiving) = self.receiving.remove(&stream) {
            keep(receiving.request, buffers);
        }
        Ok(())
    }

    fn on_settings(&mut self, settings: SettingsPayload<'_>) -> Result<(), Http2Error> {
        for (identifier, value) in settings.iter() {
            match identifier {
                SETTING_HEADER_TABLE_SIZE => self.answers.sender.set_table(value as usize),
                SETTING_ENABLE_PUSH if value > 1 => {
                    return Err(protocol_error("SETTINGS_ENABLE_PUSH is invalid"));
                }
                SETTING_INITIAL_WINDOW_SIZE if value > WINDOW_MAX => return Err(WINDOW_OVERFLOW),
                SETTING_INITIAL_WINDOW_SIZE => {
                    let change = self.answers.sender.set_stream_window(value);
                    for receiving in self.receiving.values_mut() {
                        receiving.flow.grow(change)?;
                    }
                    self.answers.grow_all(change)?;
                }
                SETTING_MAX_FRAME_SIZE
                    if !(PAYLOAD_BYTES_MAX..1 << 24).contains(&(value as usize)) =>
                {
                    return Err(protocol_error("SETTINGS_MAX_FRAME_SIZE is invalid"));
                }
                _ => (), // Our frames are never larger than all clients allow.
            }
        }
        frame::write_settings_ack(&mut self.answers.sender.output);
        Ok(())
    }

    fn on_window(&mut self, stream: u32, increment: u32) -> Result<(), Http2Error> {
        if stream == 0 {
            return match increment {
                0 => Err(protocol_error("WINDOW_UPDATE by 0")),
                increment => self.answers.grow_connection(increment),
            };
        }
        self.check_opened(stream)?;
        let grown = match self.receiving.get_mut(&stream) {
            _ if increment == 0 => Err(protocol_error("WINDOW_UPDATE by 0")),
            Some(receiving) => receiving.flow.grow(i64::from(increment)),
            None => self.answers.grow(stream, increment),
        };
        if let Err(error) = grown {
            self.answers.drop_stream(stream);
            self.receiving.remove(&stream);
            frame::write_reset(&mut self.answers.sender.output, stream, error.code);
        }
        Ok(())
    }
}

/// Keeps a request to be used again.
fn keep(mut request: PartialRequest, buffers: &mut Buffers) {
    if buffers.requests.len() < REQUESTS_KEPT {
        request.clear();
        buffers.requests.push(request);
    }
}

const fn protocol_error(problem: &'static str) -> Http2Error {
    Http2Error { code: Http2ErrorCode::PROTOCOL_ERROR, problem }
}
