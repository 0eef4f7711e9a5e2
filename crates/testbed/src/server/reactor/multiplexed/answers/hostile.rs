//! Answers that do wrong what only HTTP/2 can express.

use http2::Http2ErrorCode;
use http2::frame::{self, FrameHeader, FrameType, SETTING_INITIAL_WINDOW_SIZE, WINDOW_MAX};
use http2::hpack::{self, Indexing, STATIC_LENGTH};

use super::{AnswerStream, AnswerStreams, StreamState};
use crate::server::behaviour::{FloodFrame, Http2Fault};
use crate::server::reactor::multiplexed::sender::AnswerFlow;
use crate::server::reactor::multiplexed::translator::AnswerPart;

/// Bytes of the field that a bomb repeats.
const BOMB_FIELD_BYTES: usize = 4_000;

/// How often a bomb repeats it.
const BOMB_REPEATS: usize = 12_000;

/// Ids between the newest stream and one that was never opened.
const UNKNOWN_DISTANCE: u32 = 1_000;

impl AnswerStreams {
    /// Answers a stream as `fault` has it; `whole` is the proper answer in HTTP/1.1.
    pub(super) fn attack(&mut self, flow: AnswerFlow, fault: Http2Fault, whole: &[u8]) {
        let last_stream = self.last_stream;
        let output = &mut self.sender.output;
        match fault {
            Http2Fault::Reset { code } => {
                return frame::write_reset(output, flow.stream, Http2ErrorCode(code));
            }
            Http2Fault::Flood { frames: FloodFrame::Settings, times } => {
                (0..times).for_each(|_| frame::write_settings(output, &[]));
            }
            Http2Fault::Flood { frames: FloodFrame::Ping, times } => {
                (0..times)
                    .for_each(|n| frame::write_ping(output, u64::from(n).to_be_bytes(), false));
            }
            Http2Fault::Flood { frames: FloodFrame::Continuation, times } => {
                return self.send_scattered(flow, whole, times);
            }
            Http2Fault::HpackBomb => return self.send_bomb(flow),
            Http2Fault::ZeroWindow => {
                frame::write_settings(output, &[(SETTING_INITIAL_WINDOW_SIZE, 0)]);
            }
            Http2Fault::WindowOverflow => frame::write_window_update(output, 0, WINDOW_MAX),
            Http2Fault::Endless { bytes, every } => {
                let mut stream =
                    AnswerStream { flow, state: StreamState::Endless { bytes, every } };
                let mut block = Vec::new();
                write_ok(&mut block);
                let head = AnswerPart::Head { is_last: false };
                self.sender.write(&mut stream.flow, &head, &block);
                self.ready.push_back(stream.flow.stream);
                self.streams.insert(stream.flow.stream, stream);
                return;
            }
            Http2Fault::Trailers => return self.send_with_trailers(flow, whole),
            Http2Fault::GoAway => return self.send_and_leave(flow, whole),
            Http2Fault::UnknownStream => {
                frame::write_data(output, last_stream + UNKNOWN_DISTANCE, b"x", false);
            }
        }
        self.send(flow, whole);
    }

    /// Sends the head with `times` empty frames in it.
    fn send_scattered(&mut self, flow: AnswerFlow, whole: &[u8], times: u32) {
        self.translator.restart();
        let mut rest = whole;
        let Some(AnswerPart::Head { is_last }) = self.translator.next(&mut rest) else {
            return self.finish_whole(flow);
        };
        let flags = if is_last { frame::END_STREAM } else { 0 };
        let stream = flow.stream;
        let output = &mut self.sender.output;
        let header = |kind: FrameType, flags: u8, length: usize| {
            FrameHeader { length, kind: kind as u8, flags, stream }.to_bytes()
        };
        output.extend_from_slice(&header(FrameType::Headers, flags, 0));
        (0..times).for_each(|_| output.extend_from_slice(&header(FrameType::Continuation, 0, 0)));
        let block = self.translator.block();
        let last = header(FrameType::Continuation, frame::END_HEADERS, block.len());
        output.extend_from_slice(&last);
        output.extend_from_slice(block);
        if !is_last {
            self.send_rest(flow, rest);
        }
    }

    /// Sends what follows the head.
    fn send_rest(&mut self, mut flow: AnswerFlow, rest: &[u8]) {
        self.sender.translate(&mut flow, &mut self.translator, rest);
        self.finish_whole(flow);
    }

    fn send_bomb(&mut self, mut flow: AnswerFlow) {
        let mut block = Vec::new();
        write_ok(&mut block);
        let value = [b'x'; BOMB_FIELD_BYTES];
        hpack::write_literal(&mut block, b"x-bomb", &value, Indexing::Incremental);
        (0..BOMB_REPEATS).for_each(|_| hpack::write_indexed(&mut block, STATIC_LENGTH + 1));
        self.sender.write(&mut flow, &AnswerPart::Head { is_last: true }, &block);
    }

    fn send_with_trailers(&mut self, mut flow: AnswerFlow, whole: &[u8]) {
        self.translator.restart();
        let mut rest = whole;
        while let Some(part) = self.translator.next(&mut rest) {
            let part = match part {
                AnswerPart::Head { .. } => AnswerPart::Head { is_last: false },
                AnswerPart::Data { bytes, .. } => AnswerPart::Data { bytes, is_last: false },
                part => part,
            };
            if part != AnswerPart::End {
                self.sender.write(&mut flow, &part, self.translator.block());
            }
        }
        if flow.has_unsent() {
            self.sender.write(&mut flow, &AnswerPart::End, &[]);
            return self.finish_whole(flow);
        }
        let mut trailers = Vec::new();
        hpack::write_literal(&mut trailers, b"x-trailer", b"1", Indexing::Without);
        self.sender.write(&mut flow, &AnswerPart::Head { is_last: true }, &trailers);
    }

    /// Sends GOAWAY in the middle of the body, or of the head if there is no body.
    fn send_and_leave(&mut self, mut flow: AnswerFlow, whole: &[u8]) {
        let head = whole.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 4);
        let (first, second) = whole.split_at(head.midpoint(whole.len()));
        self.translator.restart();
        self.sender.translate(&mut flow, &mut self.translator, first);
        self.leave();
        self.send_rest(flow, second);
    }
}

fn write_ok(block: &mut Vec<u8>) {
    let index = hpack::static_index(b":status", b"200").expect("the static table has it");
    hpack::write_indexed(block, index);
}
