//! One subscription of a client: waits until its view is complete, reads from the log what the ring
//! no longer has, and then follows the ring.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use live_core::feed::{CursorState, FeedCursor, FeedPosition, FeedRing, SlowPolicy};
use live_core::protocol::{FeedOrigin, LiveError, LiveErrorCode, ServerMessage};
use live_core::websocket::ServerFrameHeader;
use tokio::sync::oneshot;

use crate::feed::replay::{ReplayChunk, ReplayRequest};
use crate::shard::{AHEAD_MAX, LiveShard, SharedView};

/// Most bytes that a conflating subscriber is given at once.
const CONFLATED_BYTES: usize = 64 << 10;

/// A client's subscription to a topic.
pub(crate) struct Subscription {
    pub view: Rc<SharedView>,
    pub policy: SlowPolicy,
    /// The number of the command, for its answer.
    command: Option<u64>,
    stage: SubscriptionStage,
}

enum SubscriptionStage {
    /// The view is not complete yet, or the shard has not read as far as the client.
    Opening { after: Option<FeedPosition>, since: Instant },
    /// It is given what the log has.
    Replaying { chunk: oneshot::Receiver<ReplayChunk> },
    /// It is given what comes.
    Following(FeedCursor),
}

/// What a subscription has for its client.
pub(crate) enum NextMessages {
    /// Nothing, for now.
    Wait,
    /// Frames, which were appended to the client's own.
    Appended,
    /// What the ring has behind [`Subscription::cursor_mut`].
    Ring,
    /// Nothing more.
    End(SubscriptionEnd),
}

/// Why a subscription ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SubscriptionEnd {
    /// The client reads too slowly.
    FellBehind {
        /// The last message that it was sent.
        after: FeedPosition,
    },
    /// The log cannot be read.
    LogUnreadable,
    /// The command is refused.
    Refused(Option<u64>, LiveError),
}

/// What a subscription needs to go on.
pub(crate) struct DeliveryContext<'d> {
    pub shard: &'d LiveShard,
    pub ring: &'d FeedRing,
    /// Whether the client did not take what came before.
    pub is_slow: bool,
}

impl Subscription {
    /// Begins behind `after`, or with the next message.
    pub fn new(
        view: Rc<SharedView>,
        policy: SlowPolicy,
        after: Option<FeedPosition>,
        command: Option<u64>,
    ) -> Self {
        let stage = SubscriptionStage::Opening { after, since: Instant::now() };
        Self { view, policy, command, stage }
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        self.view.selection.key.topic.as_str()
    }

    /// Where it follows the ring. None while it does not.
    pub const fn cursor_mut(&mut self) -> Option<&mut FeedCursor> {
        match &mut self.stage {
            SubscriptionStage::Following(cursor) => Some(cursor),
            _ => None,
        }
    }

    /// What it has for its client; frames of its own are appended to `out`.
    pub fn next(
        &mut self,
        with: &DeliveryContext<'_>,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> NextMessages {
        match &mut self.stage {
            SubscriptionStage::Opening { after, since } => {
                let (after, since) = (*after, *since);
                self.open(with, after, since, out)
            }
            SubscriptionStage::Replaying { chunk } => match Pin::new(chunk).poll(cx) {
                Poll::Pending => NextMessages::Wait,
                Poll::Ready(Err(_)) => NextMessages::End(SubscriptionEnd::LogUnreadable),
                Poll::Ready(Ok(chunk)) => {
                    let counts = &with.shard.counts;
                    counts.replayed.add(chunk.messages);
                    counts.delivered.add(chunk.messages);
                    out.extend_from_slice(&chunk.frames);
                    match with.ring.cursor_after(self.view.id, chunk.through) {
                        Some(cursor) => self.stage = SubscriptionStage::Following(cursor),
                        None => self.replay(with, chunk.through),
                    }
                    NextMessages::Appended
                }
            },
            SubscriptionStage::Following(cursor) => {
                let state = with.ring.state(self.view.id, cursor);
                let is_conflating = self.policy == SlowPolicy::Conflate;
                match state {
                    CursorState::AtEnd => NextMessages::Wait,
                    CursorState::Behind if is_conflating && with.is_slow => {
                        self.conflate(with, out)
                    }
                    CursorState::Behind => NextMessages::Ring,
                    CursorState::FellBehind { .. } if is_conflating => self.conflate(with, out),
                    CursorState::FellBehind { .. } => {
                        let after = cursor.after();
                        NextMessages::End(SubscriptionEnd::FellBehind { after })
                    }
                    CursorState::Restarted => {
                        let after = cursor.after();
                        self.replay(with, after);
                        NextMessages::Appended
                    }
                }
            }
        }
    }

    fn open(
        &mut self,
        with: &DeliveryContext<'_>,
        after: Option<FeedPosition>,
        since: Instant,
        out: &mut Vec<u8>,
    ) -> NextMessages {
        let DeliveryContext { shard, ring, .. } = *with;
        let (id, lane) = (self.view.id, self.view.selection.key.topic.lane());
        let Some(end) = ring.cursor_at_end(id) else { return NextMessages::Wait };
        let Some(after) = after else {
            self.stage = SubscriptionStage::Following(end);
            self.confirm(end.after(), FeedOrigin::Now, out);
            return NextMessages::Appended;
        };
        let reached = ring.reached(lane);
        if reached < after {
            // Another shard may have been faster.
            if since.elapsed() < AHEAD_MAX {
                return NextMessages::Wait;
            }
            let message = format!("the log ends at {reached}, before {after}");
            let error = LiveError::field(LiveErrorCode::BadField, "after", message);
            return NextMessages::End(SubscriptionEnd::Refused(self.command, error));
        }
        if let Some(cursor) = ring.cursor_after(id, after) {
            self.stage = SubscriptionStage::Following(cursor);
            shard.counts.resumed_from_ring.increment();
            self.confirm(after, FeedOrigin::Ring, out);
        } else {
            self.replay(with, after);
            shard.counts.resumed_from_log.increment();
            self.confirm(after, FeedOrigin::Log, out);
        }
        NextMessages::Appended
    }

    fn confirm(&self, after: FeedPosition, origin: FeedOrigin, out: &mut Vec<u8>) {
        let message = ServerMessage::Subscribed {
            id: self.command,
            topic: self.topic(),
            lane: self.view.selection.key.topic.lane(),
            policy: self.policy,
            after,
            origin,
        };
        write_message(&message, out);
    }

    /// Asks the log for what follows `after`.
    fn replay(&mut self, with: &DeliveryContext<'_>, after: FeedPosition) {
        let (reply, chunk) = oneshot::channel();
        let until = with.ring.reached(self.view.selection.key.topic.lane());
        let selection = Arc::clone(&self.view.selection);
        with.shard.context.replay.ask(ReplayRequest { selection, after, until, reply });
        self.stage = SubscriptionStage::Replaying { chunk };
    }

    fn conflate(&mut self, with: &DeliveryContext<'_>, out: &mut Vec<u8>) -> NextMessages {
        let id = self.view.id;
        let SubscriptionStage::Following(cursor) = &mut self.stage else {
            return NextMessages::Wait;
        };
        let taken = with.ring.conflate(id, cursor, CONFLATED_BYTES);
        with.shard.counts.skipped.add(taken.skipped);
        with.shard.counts.delivered.add(taken.messages);
        if taken.skipped > 0 {
            let messages = taken.skipped;
            write_message(&ServerMessage::Skipped { topic: self.topic(), messages }, out);
        }
        out.extend_from_slice(&taken.bytes);
        NextMessages::Appended
    }

    /// Why it ends, if it is strict and the ring no longer has what comes next.
    pub fn fell_behind(&self, ring: &FeedRing) -> Option<SubscriptionEnd> {
        let SubscriptionStage::Following(cursor) = &self.stage else { return None };
        let is_lost = self.policy == SlowPolicy::Strict
            && matches!(ring.state(self.view.id, cursor), CursorState::FellBehind { .. });
        is_lost.then(|| SubscriptionEnd::FellBehind { after: cursor.after() })
    }

    /// Appends how far it is complete, if it has read all there is.
    pub fn beat(&mut self, ring: &FeedRing, out: &mut Vec<u8>) {
        let id = self.view.id;
        let Some(cursor) = self.cursor_mut() else { return };
        if ring.state(id, cursor) != CursorState::AtEnd {
            return;
        }
        ring.cover(id, cursor);
        let covered = cursor.after();
        let next = covered.sequence.saturating_add(1);
        write_message(&ServerMessage::Heartbeat { topic: self.topic(), covered, next }, out);
    }
}

/// Appends the frame of a message of the server's own.
pub(crate) fn write_message(message: &ServerMessage<'_>, out: &mut Vec<u8>) {
    write_text(&message.to_json(), out);
}

/// Appends the frame of a text.
pub(crate) fn write_text(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(ServerFrameHeader::text(text.len()).as_bytes());
    out.extend_from_slice(text);
}
