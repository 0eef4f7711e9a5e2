//! Reads what a client sends, in whatever parts it arrives: unmasks, checks and assembles.

use std::borrow::Cow;
use std::mem;

use super::event::WebSocketEvent;
use super::frame::{CLIENT_HEADER_BYTES_MAX, CONTROL_BYTES_MAX, ClientFrameHeader, Opcode};
use super::message::{PartialMessage, append};
use super::violation::WebSocketViolation;

const _: () = assert!(size_of::<WebSocketReader>() <= 64, "an idle connection costs little memory");

/// The receiving half of a connection. Between messages it holds nothing on the heap.
#[derive(Debug)]
pub struct WebSocketReader {
    message_bytes_max: usize,
    state: ReaderState,
    /// None between messages, and while no part of a message had to be kept.
    message: Option<Box<PartialMessage>>,
    /// The payload so far of a control frame that arrives in parts.
    control: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum ReaderState {
    /// Before a frame, or within its header.
    Header { bytes: [u8; CLIENT_HEADER_BYTES_MAX], length: u8 },
    /// Within the payload of a frame. The length is that of the missing rest.
    Payload(ClientFrameHeader),
    /// After a close frame or a violation.
    Ended,
}

impl ReaderState {
    const FRAME_START: Self = Self::Header { bytes: [0; _], length: 0 };
}

impl WebSocketReader {
    /// A reader for a new connection. Messages have at most `message_bytes_max` bytes.
    pub const fn new(message_bytes_max: usize) -> Self {
        let state = ReaderState::FRAME_START;
        Self { message_bytes_max, state, message: None, control: Vec::new() }
    }

    /// Takes the next event from the front of `input`, and unmasks its payload in place. None if
    /// more bytes must arrive first: then `input` is empty. After a close frame or a violation
    /// there is no further event.
    ///
    /// # Errors
    /// With the first byte that breaks the protocol. The connection is then closed with the code
    /// of the violation.
    pub fn read<'b>(
        &mut self,
        input: &mut &'b mut [u8],
    ) -> Result<Option<WebSocketEvent<'b>>, WebSocketViolation> {
        let result = self.advance(input);
        if matches!(result, Err(_) | Ok(Some(WebSocketEvent::Close { .. }))) {
            self.state = ReaderState::Ended;
            self.message = None;
        }
        if matches!(self.state, ReaderState::Ended) {
            *input = &mut [];
        }
        result
    }

    /// Whether no frame or message has begun that has yet to end.
    pub const fn is_idle(&self) -> bool {
        let within_frame = match self.state {
            ReaderState::Header { length, .. } => length > 0,
            ReaderState::Payload(_) => true,
            ReaderState::Ended => false,
        };
        !within_frame && self.message.is_none()
    }

    /// Memory on the heap.
    pub fn held_bytes(&self) -> usize {
        let message = self.message.as_ref();
        let message = message.map_or(0, |it| size_of::<PartialMessage>() + it.bytes.capacity());
        message + self.control.capacity()
    }

    fn advance<'b>(
        &mut self,
        input: &mut &'b mut [u8],
    ) -> Result<Option<WebSocketEvent<'b>>, WebSocketViolation> {
        loop {
            let mut frame = match self.state {
                ReaderState::Header { bytes, length } => {
                    let Some(header) = self.read_header(bytes, length, input)? else {
                        return Ok(None);
                    };
                    self.accept(&header)?;
                    header
                }
                ReaderState::Payload(frame) => frame,
                ReaderState::Ended => return Ok(None),
            };
            let missing = usize::try_from(frame.length).expect("it fits the longest message");
            let part = input.split_off_mut(..missing.min(input.len())).expect("it has that length");
            frame.key.unmask(part);
            frame.length -= part.len() as u64;
            self.state = if frame.length > 0 {
                ReaderState::Payload(frame)
            } else {
                ReaderState::FRAME_START
            };
            if let Some(event) = self.read_payload(&frame, part)? {
                return Ok(Some(event));
            }
            if frame.length > 0 {
                return Ok(None);
            }
        }
    }

    /// Reads a header of which `bytes[..length]` has arrived earlier. None if it is still incomplete.
    fn read_header(
        &mut self,
        mut bytes: [u8; CLIENT_HEADER_BYTES_MAX],
        length: u8,
        input: &mut &mut [u8],
    ) -> Result<Option<ClientFrameHeader>, WebSocketViolation> {
        let before = usize::from(length);
        let end = bytes.len().min(before + input.len());
        bytes[before..end].copy_from_slice(&input[..end - before]);
        let parsed = ClientFrameHeader::parse(&bytes[..end])?;
        let length = parsed.map_or(end, |(_, length)| length);
        input.split_off_mut(..length - before).expect("the header ends within the input");
        if parsed.is_none() {
            let length = u8::try_from(length).expect("headers are short");
            self.state = ReaderState::Header { bytes, length };
        }
        Ok(parsed.map(|(header, _)| header))
    }

    /// Checks a header against the frames before it (section 5.4) and against the limits.
    fn accept(&mut self, header: &ClientFrameHeader) -> Result<(), WebSocketViolation> {
        if header.opcode.is_control() {
            return Ok(());
        }
        let before = match (&mut self.message, header.opcode) {
            (None, Opcode::Continuation) => {
                return Err(WebSocketViolation::ContinuationWithoutStart);
            }
            (None, _) => 0,
            (Some(message), Opcode::Continuation) => {
                message.count_fragment()?;
                message.bytes.len()
            }
            (Some(_), _) => return Err(WebSocketViolation::MessageInterrupted),
        };
        let bytes_max = self.message_bytes_max;
        if header.length > (bytes_max - before) as u64 {
            return Err(WebSocketViolation::MessageTooBig { bytes_max });
        }
        Ok(())
    }

    /// Reads a part of a payload. None unless it completes a control frame or a message.
    fn read_payload<'b>(
        &mut self,
        frame: &ClientFrameHeader,
        part: &'b [u8],
    ) -> Result<Option<WebSocketEvent<'b>>, WebSocketViolation> {
        let (opcode, complete) = (frame.opcode, frame.fin && frame.length == 0);
        let begun =
            if opcode.is_control() { !self.control.is_empty() } else { self.message.is_some() };
        if complete && !begun {
            return WebSocketEvent::new(opcode, Cow::Borrowed(part)).map(Some);
        }
        if part.is_empty() && frame.length > 0 {
            return Ok(None);
        }
        if opcode.is_control() {
            append(&mut self.control, part, CONTROL_BYTES_MAX);
            if !complete {
                return Ok(None);
            }
            let payload = mem::take(&mut self.control);
            return WebSocketEvent::new(opcode, Cow::Owned(payload)).map(Some);
        }
        let message = self.message.get_or_insert_with(|| Box::new(PartialMessage::new(opcode)));
        message.push(part, self.message_bytes_max)?;
        if !complete {
            return Ok(None);
        }
        let message = self.message.take().expect("the part was added to it");
        WebSocketEvent::new(message.opcode, Cow::Owned(message.bytes)).map(Some)
    }
}
