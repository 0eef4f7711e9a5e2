//! The answers of one connection that are delayed, under way, or wait for a window; and how they end
//! their streams or the connection. Knows no request and no socket.

mod hostile;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use http2::frame;
use http2::{Http2Error, Http2ErrorCode};

use super::sender::{AnswerFlow, FrameSender};
use super::translator::{AnswerPart, AnswerTranslator};
use crate::server::reactor::context::{Buffers, StreamAlarm};
use crate::server::responder::ServiceReply;
use crate::server::script::{Script, ScriptEnd, ScriptStep};

/// Pieces of answers that are written in one turn, before other connections get theirs.
const STEPS_MAX: usize = 256;

/// Pieces of answers are written until the output has this size.
const OUTPUT_BYTES: usize = 256 * 1024;

/// What becomes of the connection once the output is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server::reactor) enum SessionFate {
    Open,
    /// It closes cleanly.
    Finishing,
    /// It is reset.
    Resetting,
}

#[derive(Debug)]
struct AnswerStream {
    flow: AnswerFlow,
    state: StreamState,
}

#[derive(Debug)]
enum StreamState {
    /// The whole answer, in HTTP/1.1, waits for its alarm.
    Delayed(Vec<u8>),
    Performing(Box<Performance>),
    /// The rest of a whole answer waits for a window.
    Sending,
    /// A body without end.
    Endless {
        bytes: usize,
        every: Duration,
    },
    /// Nothing more is ever sent.
    Hanging,
}

/// An answer at its own pace.
#[derive(Debug)]
struct Performance {
    script: Box<Script>,
    translator: AnswerTranslator,
    /// Follows what was written last.
    pause: Option<Duration>,
}

#[derive(Debug)]
pub(super) struct AnswerStreams {
    pub(super) sender: FrameSender,
    streams: HashMap<u32, AnswerStream>,
    /// Streams that can proceed. A stream is here, among `parked`, or waits for an alarm.
    ready: VecDeque<u32>,
    /// Streams that wait for a window.
    parked: VecDeque<u32>,
    /// For whole answers.
    translator: AnswerTranslator,
    pub(super) fate: SessionFate,
    /// The newest stream of the client.
    pub(super) last_stream: u32,
    /// Whether GOAWAY was sent.
    has_left: bool,
}

impl AnswerStreams {
    pub(super) fn new() -> Self {
        Self {
            sender: FrameSender::new(),
            streams: HashMap::new(),
            ready: VecDeque::new(),
            parked: VecDeque::new(),
            translator: AnswerTranslator::new(),
            fate: SessionFate::Open,
            last_stream: 0,
            has_left: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether any stream can proceed.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Begins the answer of a stream; `whole` is the answer unless it is a script.
    pub(super) fn begin(
        &mut self,
        flow: AnswerFlow,
        reply: ServiceReply,
        whole: &[u8],
        alarms: &mut Vec<StreamAlarm>,
    ) {
        let (delay, state) = match reply {
            ServiceReply::Whole(Duration::ZERO) => return self.send(flow, whole),
            ServiceReply::Whole(delay) => (delay, StreamState::Delayed(whole.to_vec())),
            ServiceReply::Script(script) => {
                let (delay, translator) = (script.delay, AnswerTranslator::new());
                let performance = Performance { script, translator, pause: None };
                (delay, StreamState::Performing(Box::new(performance)))
            }
        };
        let stream = flow.stream;
        self.streams.insert(stream, AnswerStream { flow, state });
        match delay {
            Duration::ZERO => self.ready.push_back(stream),
            after => alarms.push(StreamAlarm { stream, after }),
        }
    }

    /// Takes no new streams. The connection closes once the open ones have ended.
    pub(super) fn leave(&mut self) {
        if !std::mem::replace(&mut self.has_left, true) {
            self.write_go_away(Http2ErrorCode::NO_ERROR);
        }
    }

    pub(super) const fn has_left(&self) -> bool {
        self.has_left
    }

    pub(super) fn write_go_away(&mut self, code: Http2ErrorCode) {
        frame::write_go_away(&mut self.sender.output, self.last_stream, code);
    }

    /// Sends a whole answer.
    fn send(&mut self, flow: AnswerFlow, whole: &[u8]) {
        if self.write_whole(flow, whole) {
            self.leave();
        }
    }

    /// Sends a whole answer that refuses a request. The connection goes on, whatever the answer says.
    pub(super) fn refuse(&mut self, flow: AnswerFlow, whole: &[u8]) {
        self.write_whole(flow, whole);
    }

    /// Returns whether the answer asks for the connection to be closed.
    fn write_whole(&mut self, mut flow: AnswerFlow, whole: &[u8]) -> bool {
        self.translator.restart();
        if !self.sender.translate(&mut flow, &mut self.translator, whole) {
            self.fate = SessionFate::Finishing;
            return false;
        }
        self.finish_whole(flow);
        self.translator.is_closing()
    }

    /// Ends a stream whose whole answer is translated, or keeps it until the windows admit the rest.
    fn finish_whole(&mut self, mut flow: AnswerFlow) {
        if let Some(part) = self.translator.finish() {
            self.sender.write(&mut flow, &part, &[]);
        }
        if flow.has_unsent() {
            self.park(AnswerStream { flow, state: StreamState::Sending });
        } else if !flow.is_done() {
            self.write_reset(flow.stream);
        }
    }

    /// Ends a stream whose answer is not complete.
    fn write_reset(&mut self, stream: u32) {
        frame::write_reset(&mut self.sender.output, stream, Http2ErrorCode::INTERNAL_ERROR);
    }

    /// Keeps a stream that has more to send.
    fn park(&mut self, stream: AnswerStream) {
        let id = stream.flow.stream;
        match self.sender.has_room(&stream.flow) {
            true => self.ready.push_back(id),
            false => self.parked.push_back(id),
        }
        self.streams.insert(id, stream);
    }

    /// The alarm of a stream is due, unless the stream is gone.
    pub(super) fn ring(&mut self, id: u32, buffers: &mut Buffers) {
        self.step(id, buffers);
    }

    /// Lets answers proceed, in turn.
    pub(super) fn proceed(&mut self, buffers: &mut Buffers) {
        for _ in 0..STEPS_MAX {
            if self.fate != SessionFate::Open || self.sender.output.len() >= OUTPUT_BYTES {
                return;
            }
            let Some(id) = self.ready.pop_front() else { return };
            self.step(id, buffers);
        }
    }

    /// Sends one more piece of a stream's answer.
    fn step(&mut self, id: u32, buffers: &mut Buffers) {
        let Some(mut stream) = self.streams.remove(&id) else { return };
        if stream.flow.has_unsent() {
            self.sender.resume(&mut stream.flow);
            if stream.flow.has_unsent() {
                return self.park(stream);
            }
        }
        let AnswerStream { flow, state } = stream;
        match state {
            StreamState::Delayed(whole) => self.send(flow, &whole),
            StreamState::Performing(performance) => self.perform(flow, performance, buffers),
            StreamState::Sending if flow.is_done() => (),
            StreamState::Sending => self.write_reset(id),
            StreamState::Endless { bytes, every } => {
                let mut stream = AnswerStream { flow, state };
                let data = AnswerPart::Data { bytes: &vec![b' '; bytes], is_last: false };
                self.sender.write(&mut stream.flow, &data, &[]);
                if stream.flow.has_unsent() {
                    return self.park(stream);
                }
                buffers.alarms.push(StreamAlarm { stream: id, after: every });
                self.streams.insert(id, stream);
            }
            StreamState::Hanging => {
                self.streams.insert(id, AnswerStream { flow, state });
            }
        }
    }

    /// Asks a script for its next piece.
    fn perform(
        &mut self,
        mut flow: AnswerFlow,
        mut performance: Box<Performance>,
        buffers: &mut Buffers,
    ) {
        let stream = flow.stream;
        if let Some(fault) = performance.script.http2 {
            return self.attack(flow, fault, &performance.script.bytes);
        }
        if let Some(after) = performance.pause.take() {
            buffers.alarms.push(StreamAlarm { stream, after });
        } else {
            let output = &mut buffers.output;
            output.clear();
            let step = performance.script.next(output);
            self.sender.translate(&mut flow, &mut performance.translator, output);
            performance.pause = match step {
                ScriptStep::End(end) => return self.end(flow, performance.translator, end),
                ScriptStep::SendThenWait(pause) => Some(pause),
                ScriptStep::Send => None,
            };
            self.ready.push_back(stream);
        }
        let state = StreamState::Performing(performance);
        self.streams.insert(stream, AnswerStream { flow, state });
    }

    /// A script has ended, and all that it yielded is sent.
    fn end(&mut self, mut flow: AnswerFlow, mut translator: AnswerTranslator, end: ScriptEnd) {
        if matches!(end, ScriptEnd::Next | ScriptEnd::Close)
            && let Some(part) = translator.finish()
        {
            self.sender.write(&mut flow, &part, &[]);
        }
        match end {
            ScriptEnd::Next if translator.is_raw() => self.fate = SessionFate::Finishing,
            ScriptEnd::Next | ScriptEnd::Close if flow.is_done() && translator.is_closing() => {
                self.leave();
            }
            ScriptEnd::Next if flow.is_done() => (),
            ScriptEnd::Next => self.write_reset(flow.stream),
            ScriptEnd::Close => self.fate = SessionFate::Finishing,
            ScriptEnd::Reset => self.fate = SessionFate::Resetting,
            ScriptEnd::Hang => {
                let state = StreamState::Hanging;
                self.streams.insert(flow.stream, AnswerStream { flow, state });
            }
        }
    }

    /// The client no longer wants an answer.
    pub(super) fn drop_stream(&mut self, id: u32) {
        if self.streams.remove(&id).is_some_and(|stream| stream.flow.has_unsent()) {
            self.parked.retain(|parked| *parked != id);
        }
    }

    /// The client enlarges the window of one stream; one that is gone needs none.
    pub(super) fn grow(&mut self, id: u32, increment: u32) -> Result<(), Http2Error> {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.flow.grow(i64::from(increment))?;
            self.resume();
        }
        Ok(())
    }

    /// The client enlarges the window of the connection.
    pub(super) fn grow_connection(&mut self, increment: u32) -> Result<(), Http2Error> {
        self.sender.grow(i64::from(increment))?;
        self.resume();
        Ok(())
    }

    /// The client changes the windows of all streams.
    pub(super) fn grow_all(&mut self, change: i64) -> Result<(), Http2Error> {
        for stream in self.streams.values_mut() {
            stream.flow.grow(change)?;
        }
        self.resume();
        Ok(())
    }

    fn resume(&mut self) {
        self.ready.append(&mut self.parked);
    }
}
