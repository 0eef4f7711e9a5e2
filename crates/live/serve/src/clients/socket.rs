//! A client over WebSocket.
//!
//! Its task reads commands; the shard's task writes what the ring has, as soon as it comes, without
//! waking the client's. Whatever the socket does not take waits for its task.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use live_core::feed::FeedPosition;
use live_core::protocol::{LiveError, LiveErrorCode, ServerMessage};
use live_core::rights::LiveRights;
use live_core::websocket::{
    CloseCode, WebSocketEvent, WebSocketReader, write_close, write_close_reply, write_pong,
};
use runtime::service::{ConnectionStream, Upgraded};
use tokio::io::{AsyncRead as _, AsyncWrite as _, AsyncWriteExt as _, ReadBuf};
use tracing::debug;

use crate::clients::client::{ClientFeed, CommandAllowance, NextDelivery};
use crate::clients::subscription::{DeliveryContext, SubscriptionEnd, write_message};
use crate::feed::ReaderId;
use crate::lots::outlet::ClientAnswer;
use crate::shard::{FeedReader, LiveShard};

/// Closes a strict subscriber that reads too slowly.
const FELL_BEHIND: CloseCode = private(4000);
/// Closes a client whose token has expired, or that has sent none.
const NO_TOKEN: CloseCode = private(4001);
/// Closes a subscriber because the log cannot be read.
const LOG_UNREADABLE: CloseCode = private(4002);
/// How long a client may take to answer a close frame, and to send its token.
const PATIENCE: Duration = Duration::from_secs(5);
/// Parts of the ring in one write.
const PARTS_MAX: usize = 64;
/// Bytes that may wait for a client before nothing more is read from it.
const WAITING_MAX: usize = 64 << 10;
/// A buffer that is larger is not kept.
const KEPT_BYTES_MAX: usize = 512;
/// Reads before other tasks of the shard run.
const READS_PER_TURN: usize = 16;
/// Refused commands in a row after which a client is disconnected.
const FLOOD: u32 = 100;

const fn private(number: u16) -> CloseCode {
    CloseCode::private(number).expect("the number is in the range for private use")
}

struct Socket {
    shard: Rc<LiveShard>,
    id: Cell<Option<ReaderId>>,
    stream: RefCell<ConnectionStream>,
    state: RefCell<SocketState>,
    /// Of the client's task.
    waker: RefCell<Waker>,
    /// Ends without waiting for the client.
    is_aborted: Cell<bool>,
}

struct SocketState {
    client: ClientFeed,
    reader: WebSocketReader,
    allowance: CommandAllowance,
    /// Commands refused since the last one that was allowed.
    refused: u32,
    /// Whole frames, of which `sent` bytes are written; all before anything of the ring.
    waiting: Vec<u8>,
    sent: usize,
    /// The socket did not take everything.
    is_slow: bool,
    opened: Instant,
    closing: Option<SocketClosing>,
}

/// A close frame was sent, or will be after what waits.
#[derive(Clone, Copy)]
struct SocketClosing {
    since: Instant,
    /// The client has sent its own.
    is_answered: bool,
}

/// Serves a client to its end.
pub(crate) async fn serve(
    shard: Rc<LiveShard>,
    upgraded: Upgraded<ConnectionStream>,
    rights: Option<LiveRights>,
) {
    let Upgraded { stream, read } = upgraded;
    let socket = Rc::new(Socket::new(Rc::clone(&shard), stream, rights));
    let id = shard.add_reader(Rc::clone(&socket) as Rc<dyn FeedReader>);
    socket.id.set(Some(id));
    shard.counts.sockets.change(1);
    let left = LeavingReader { socket: Rc::clone(&socket), id };
    socket.receive(&mut read.to_vec());
    // It is part of a buffer of HTTP.
    drop(read);
    let ended = std::future::poll_fn(|cx| socket.poll(cx)).await;
    drop(left);
    if let Err(error) = &ended {
        debug!(%error, "a client of the feed left");
    }
    let Ok(socket) = Rc::try_unwrap(socket).map_err(drop) else { return };
    if ended.is_ok() && !socket.is_aborted.get() {
        let _closed = socket.stream.into_inner().shutdown().await;
    }
}

/// Takes the client out of the shard, however its task ends.
struct LeavingReader {
    socket: Rc<Socket>,
    id: ReaderId,
}

impl Drop for LeavingReader {
    fn drop(&mut self) {
        let Self { socket, id } = self;
        socket.state.borrow_mut().client.leave(&socket.shard, *id);
        socket.shard.remove_reader(*id);
        socket.shard.counts.sockets.change(-1);
    }
}

impl Socket {
    fn new(shard: Rc<LiveShard>, stream: ConnectionStream, rights: Option<LiveRights>) -> Self {
        let (now, limits) = (Instant::now(), shard.context.config.limits);
        let heartbeat = shard.context.config.heartbeat.as_millis();
        let mut waiting = Vec::new();
        let heartbeat_ms = u64::try_from(heartbeat).unwrap_or(u64::MAX);
        write_message(&ServerMessage::welcome(shard.context.node, heartbeat_ms), &mut waiting);
        let state = SocketState {
            client: ClientFeed::new(rights),
            reader: WebSocketReader::new(limits.message_bytes),
            allowance: CommandAllowance::new(limits.commands_per_s, now),
            refused: 0,
            waiting,
            sent: 0,
            is_slow: false,
            opened: now,
            closing: None,
        };
        Self {
            shard,
            id: Cell::new(None),
            stream: RefCell::new(stream),
            state: RefCell::new(state),
            waker: RefCell::new(Waker::noop().clone()),
            is_aborted: Cell::new(false),
        }
    }

    fn id(&self) -> ReaderId {
        self.id.get().expect("it is set before anything is read")
    }

    /// Ready once the connection is over.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.waker.borrow().will_wake(cx.waker()) {
            self.waker.replace(cx.waker().clone());
        }
        if self.is_aborted.get() {
            return Poll::Ready(Ok(()));
        }
        let mut scratch = self.shard.scratch.take();
        let read = self.read(cx, &mut scratch);
        self.shard.scratch.replace(scratch);
        let is_over = read?;
        let is_written = self.pump(cx)?.is_ready();
        let closing = self.state.borrow().closing;
        if is_over || is_written && closing.is_some_and(|closing| closing.is_answered) {
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }

    /// Reads what has arrived; returns whether the client sends nothing more.
    fn read(&self, cx: &mut Context<'_>, scratch: &mut [u8]) -> io::Result<bool> {
        for _ in 0..READS_PER_TURN {
            // What it does not read of our answers, it cannot have more of.
            if self.state.borrow().waiting.len() > WAITING_MAX {
                return Ok(false);
            }
            let mut buffer = ReadBuf::new(scratch);
            let mut stream = self.stream.borrow_mut();
            match Pin::new(&mut *stream).poll_read(cx, &mut buffer) {
                Poll::Pending => return Ok(false),
                Poll::Ready(read) => read?,
            }
            drop(stream);
            let length = buffer.filled().len();
            if length == 0 {
                return Ok(true);
            }
            self.receive(&mut scratch[..length]);
        }
        cx.waker().wake_by_ref();
        Ok(false)
    }

    /// Obeys what a client sent.
    fn receive(&self, mut bytes: &mut [u8]) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        loop {
            let event = match state.reader.read(&mut bytes) {
                Ok(Some(event)) => event,
                Ok(None) => return,
                Err(violation) => {
                    self.shard.counts.violations.increment();
                    return state.close(violation.code(), &violation.to_string());
                }
            };
            if state.closing.is_some() && !matches!(event, WebSocketEvent::Close { .. }) {
                continue;
            }
            match event {
                WebSocketEvent::Text(text) => state.obey(&self.shard, self.id(), &text),
                WebSocketEvent::Ping(payload) => {
                    if state.is_allowed() {
                        write_pong(&mut state.waiting, &payload);
                    }
                }
                WebSocketEvent::Pong(_) => drop(state.is_allowed()),
                WebSocketEvent::Binary(_) => {
                    state.close(CloseCode::UNSUPPORTED_DATA, "commands are text messages");
                }
                WebSocketEvent::Close { code, .. } => state.answer_close(code),
            }
        }
    }

    /// Writes what waits, and what the ring has. Ready once there is nothing more for now.
    fn pump(&self, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        loop {
            if self.write_waiting(state, cx)?.is_pending() {
                state.is_slow = true;
                return Ok(Poll::Pending);
            }
            if state.closing.is_some() {
                return self.flush(cx);
            }
            let ring = self.shard.ring.borrow();
            let with = DeliveryContext { shard: &self.shard, ring: &ring, is_slow: state.is_slow };
            match state.client.next(self.id(), &with, cx, &mut state.waiting) {
                NextDelivery::Appended => (),
                NextDelivery::Ring(number) => {
                    if self.write_ring(state, number, cx)?.is_pending() {
                        state.is_slow = true;
                        return Ok(Poll::Pending);
                    }
                }
                NextDelivery::End(end) => state.end(&self.shard, &end),
                NextDelivery::Wait => {
                    state.is_slow = false;
                    return self.flush(cx);
                }
            }
        }
    }

    fn flush(&self, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        let mut stream = self.stream.borrow_mut();
        Ok(match &mut *stream {
            ConnectionStream::Plain(_) => Poll::Ready(()),
            ConnectionStream::Tls(stream) => match Pin::new(stream).poll_flush(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(flushed) => Poll::Ready(flushed?),
            },
        })
    }

    fn write_waiting(&self, state: &mut SocketState, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        while state.sent < state.waiting.len() {
            let mut stream = self.stream.borrow_mut();
            match Pin::new(&mut *stream).poll_write(cx, &state.waiting[state.sent..]) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(written) => match written? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    written => {
                        state.sent += written;
                        self.shard.counts.sent_bytes.add(written as u64);
                    }
                },
            }
        }
        state.sent = 0;
        state.waiting.clear();
        if state.waiting.capacity() > KEPT_BYTES_MAX {
            state.waiting = Vec::new();
        }
        Ok(Poll::Ready(()))
    }

    fn write_ring(
        &self,
        state: &mut SocketState,
        number: usize,
        cx: &mut Context<'_>,
    ) -> io::Result<Poll<()>> {
        let ring = self.shard.ring.borrow();
        let subscription = state.client.subscription(number);
        let view = subscription.view.id;
        let Some(cursor) = subscription.cursor_mut() else { return Ok(Poll::Ready(())) };
        let mut parts = [IoSlice::new(&[]); PARTS_MAX];
        let mut count = 0;
        for (part, bytes) in parts.iter_mut().zip(ring.unread(view, cursor)) {
            *part = IoSlice::new(bytes);
            count += 1;
        }
        let mut stream = self.stream.borrow_mut();
        let written = Pin::new(&mut *stream).poll_write_vectored(cx, &parts[..count]);
        let written = match written {
            Poll::Pending => return Ok(Poll::Pending),
            Poll::Ready(written) => written?,
        };
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let taken = ring.advance(view, cursor, written);
        state.waiting.extend_from_slice(taken.rest);
        self.shard.counts.sent_bytes.add(written as u64);
        self.shard.counts.delivered.add(taken.count);
        Ok(Poll::Ready(()))
    }

    /// Writes on behalf of the shard's task: what the socket does not take wakes the client's task.
    fn push(&self) {
        let waker = self.waker.borrow().clone();
        if self.pump(&mut Context::from_waker(&waker)).is_err() {
            self.abort();
        }
    }

    fn abort(&self) {
        self.stream.borrow().reset_on_drop();
        self.is_aborted.set(true);
        self.waker.borrow().wake_by_ref();
    }

    /// Closes the connection with a reason.
    fn close(&self, code: CloseCode, reason: &str) {
        self.state.borrow_mut().close(code, reason);
        self.push();
    }
}

impl FeedReader for Socket {
    fn deliver(&self) {
        self.push();
    }

    fn beat(&self) {
        let mut state = self.state.borrow_mut();
        let state_now = &mut *state;
        if state_now.closing.is_none() && state_now.waiting.is_empty() {
            state_now.client.beat(&self.shard.ring.borrow(), &mut state_now.waiting);
        }
        drop(state);
        self.push();
    }

    fn check(&self, now: Instant) {
        let mut state = self.state.borrow_mut();
        // While the client takes nothing, nothing else looks at the ring for it.
        if state.closing.is_none()
            && let Some(end) = state.client.fell_behind(&self.shard.ring.borrow())
        {
            state.end(&self.shard, &end);
        }
        let (closing, is_expired) = (state.closing, state.client.is_expired());
        let is_idle = !state.client.has_rights() && now - state.opened > PATIENCE;
        drop(state);
        match closing {
            Some(closing) if now - closing.since > PATIENCE => self.abort(),
            Some(_) => (),
            None if is_expired => self.close(NO_TOKEN, "the token has expired"),
            None if is_idle => self.close(NO_TOKEN, "no token within 5 seconds"),
            None => (),
        }
    }

    fn answer(&self, answer: &ClientAnswer) {
        let mut state = self.state.borrow_mut();
        let state_now = &mut *state;
        if state_now.closing.is_none() {
            state_now.client.answer(&self.shard, answer, &mut state_now.waiting);
        }
        drop(state);
        self.push();
    }

    fn restart(&self) {
        self.close(CloseCode::SERVICE_RESTART, "the server ends: reconnect and resume");
    }
}

impl SocketState {
    fn obey(&mut self, shard: &Rc<LiveShard>, id: ReaderId, text: &str) {
        if self.is_allowed() {
            shard.counts.commands.increment();
            return self.client.obey(shard, id, text, &mut self.waiting);
        }
        let error = LiveError::new(LiveErrorCode::RateLimited, "too many commands: wait a second");
        self.client.refuse(shard, None, &error, &mut self.waiting);
    }

    /// Whether the client may send a command now; closes the connection of one that floods.
    fn is_allowed(&mut self) -> bool {
        if self.allowance.take(Instant::now()) {
            self.refused = 0;
            return true;
        }
        self.refused += 1;
        if self.refused >= FLOOD {
            self.close(CloseCode::POLICY_VIOLATION, "too many commands");
        }
        false
    }

    fn end(&mut self, shard: &LiveShard, end: &SubscriptionEnd) {
        match end {
            SubscriptionEnd::FellBehind { after: FeedPosition { epoch, sequence, .. } } => {
                shard.counts.slow_closes.increment();
                let reason = format!("too slow: resume after epoch {epoch} sequence {sequence}");
                self.close(FELL_BEHIND, &reason);
            }
            SubscriptionEnd::LogUnreadable => {
                self.close(LOG_UNREADABLE, "the log cannot be read: try again later");
            }
            SubscriptionEnd::Refused(..) => (),
        }
    }

    fn close(&mut self, code: CloseCode, reason: &str) {
        if self.closing.is_none() {
            write_close(&mut self.waiting, code, reason);
            self.closing = Some(SocketClosing { since: Instant::now(), is_answered: false });
        }
    }

    fn answer_close(&mut self, code: Option<CloseCode>) {
        let closing = self.closing.get_or_insert_with(|| {
            write_close_reply(&mut self.waiting, code);
            SocketClosing { since: Instant::now(), is_answered: true }
        });
        closing.is_answered = true;
    }
}
