//! Writes frames within the client's windows. Knows no request.

use http2::frame::{self, PAYLOAD_BYTES_MAX, WINDOW_DEFAULT, WINDOW_MAX};
use http2::hpack::{self, TABLE_BYTES_DEFAULT};
use http2::{Http2Error, Http2ErrorCode};

use super::translator::{AnswerPart, AnswerTranslator};

/// The client's side of one stream.
#[derive(Debug)]
pub(super) struct AnswerFlow {
    pub(super) stream: u32,
    /// What the stream may receive. Negative if a setting has made it smaller.
    window: i64,
    /// DATA that no window admits yet, from `sent` on.
    unsent: Vec<u8>,
    sent: usize,
    /// Whether `unsent` ends the answer.
    ends: bool,
    /// Whether the frame that ends the answer is written.
    is_done: bool,
}

impl AnswerFlow {
    pub(super) const fn has_unsent(&self) -> bool {
        self.sent < self.unsent.len()
    }

    pub(super) const fn is_done(&self) -> bool {
        self.is_done
    }

    /// Changes the window.
    pub(super) fn grow(&mut self, change: i64) -> Result<(), Http2Error> {
        self.window += change;
        if self.window > i64::from(WINDOW_MAX) { Err(WINDOW_OVERFLOW) } else { Ok(()) }
    }

    fn keep(&mut self, data: &[u8], is_last: bool) {
        self.unsent.extend_from_slice(data);
        self.ends |= is_last;
    }
}

pub(super) const WINDOW_OVERFLOW: Http2Error =
    Http2Error { code: Http2ErrorCode::FLOW_CONTROL_ERROR, problem: "a window overflows" };

/// What is to be written to one client.
#[derive(Debug)]
pub(super) struct FrameSender {
    pub(super) output: Vec<u8>,
    /// What all streams together may receive.
    window: i64,
    /// Window of a new stream.
    stream_window: i64,
    /// Whether the next header block must say that we use no dynamic table.
    must_resize: bool,
    /// A header block with that notice.
    block: Vec<u8>,
}

impl FrameSender {
    pub(super) fn new() -> Self {
        Self {
            output: Vec::new(),
            window: i64::from(WINDOW_DEFAULT),
            stream_window: i64::from(WINDOW_DEFAULT),
            must_resize: false,
            block: Vec::new(),
        }
    }

    /// A new stream.
    pub(super) const fn flow(&self, stream: u32) -> AnswerFlow {
        let window = self.stream_window;
        AnswerFlow { stream, window, unsent: Vec::new(), sent: 0, ends: false, is_done: false }
    }

    /// Changes the connection's window.
    pub(super) fn grow(&mut self, change: i64) -> Result<(), Http2Error> {
        self.window += change;
        if self.window > i64::from(WINDOW_MAX) { Err(WINDOW_OVERFLOW) } else { Ok(()) }
    }

    /// The client changes the window of streams. Returns the change of those that exist.
    pub(super) fn set_stream_window(&mut self, window: u32) -> i64 {
        let change = i64::from(window) - self.stream_window;
        self.stream_window = i64::from(window);
        change
    }

    /// The client keeps a dynamic table of `bytes`.
    pub(super) const fn set_table(&mut self, bytes: usize) {
        // It must be told if its table is smaller than by default, even though we do not use it.
        self.must_resize |= bytes < TABLE_BYTES_DEFAULT;
    }

    /// Whether a stream's DATA has room now.
    pub(super) const fn has_room(&self, flow: &AnswerFlow) -> bool {
        self.window > 0 && flow.window > 0
    }

    /// Writes what `bytes`, in HTTP/1.1, say of an answer. Returns whether they were HTTP.
    pub(super) fn translate(
        &mut self,
        flow: &mut AnswerFlow,
        translator: &mut AnswerTranslator,
        mut bytes: &[u8],
    ) -> bool {
        while let Some(part) = translator.next(&mut bytes) {
            self.write(flow, &part, translator.block());
        }
        !translator.is_raw()
    }

    /// Writes one part of an answer; `block` is that of a head.
    pub(super) fn write(&mut self, flow: &mut AnswerFlow, part: &AnswerPart<'_>, block: &[u8]) {
        match *part {
            AnswerPart::Interim => self.write_head(flow, block, false),
            AnswerPart::Head { is_last } => self.write_head(flow, block, is_last),
            AnswerPart::Data { bytes, is_last } => self.write_data(flow, bytes, is_last),
            AnswerPart::End => self.write_data(flow, &[], true),
            AnswerPart::Raw(ref bytes) => self.output.extend_from_slice(bytes),
        }
    }

    fn write_head(&mut self, flow: &mut AnswerFlow, block: &[u8], is_last: bool) {
        flow.is_done |= is_last;
        if std::mem::take(&mut self.must_resize) {
            self.block.clear();
            hpack::write_size_update(&mut self.block, 0);
            self.block.extend_from_slice(block);
            frame::write_headers(&mut self.output, flow.stream, &self.block, is_last);
            return;
        }
        frame::write_headers(&mut self.output, flow.stream, block, is_last);
    }

    /// Writes DATA as far as the windows admit it, and keeps the rest.
    fn write_data(&mut self, flow: &mut AnswerFlow, data: &[u8], is_last: bool) {
        if flow.has_unsent() {
            return flow.keep(data, is_last);
        }
        let mut rest = data;
        loop {
            let room = usize::try_from(self.window.min(flow.window)).unwrap_or(0);
            let (now, later) = rest.split_at(rest.len().min(room).min(PAYLOAD_BYTES_MAX));
            let is_end = later.is_empty() && is_last;
            if now.is_empty() && !is_end {
                return flow.keep(later, is_last);
            }
            self.write_frame(flow, now, is_end);
            if later.is_empty() {
                return;
            }
            rest = later;
        }
    }

    /// Writes one more frame of what was kept, if the windows admit it.
    pub(super) fn resume(&mut self, flow: &mut AnswerFlow) {
        let room = usize::try_from(self.window.min(flow.window)).unwrap_or(0);
        let unsent = std::mem::take(&mut flow.unsent);
        let count = (unsent.len() - flow.sent).min(room).min(PAYLOAD_BYTES_MAX);
        let end = flow.sent + count;
        let is_end = end == unsent.len() && flow.ends;
        if count > 0 {
            self.write_frame(flow, &unsent[flow.sent..end], is_end);
        }
        flow.sent = end;
        if end < unsent.len() {
            flow.unsent = unsent;
        } else {
            flow.sent = 0;
        }
    }

    fn write_frame(&mut self, flow: &mut AnswerFlow, data: &[u8], is_end: bool) {
        frame::write_data(&mut self.output, flow.stream, data, is_end);
        let length = i64::try_from(data.len()).expect("a frame is short");
        self.window -= length;
        flow.window -= length;
        flow.is_done |= is_end;
    }
}

#[cfg(test)]
mod tests;
