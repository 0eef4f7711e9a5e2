//! A client over server-sent events (HTML Standard, section 9.2): one subscription, as the body of a
//! response.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use hyper::body::{Body, Frame};
use live_core::protocol::{LiveError, Subscribe};
use live_core::rights::LiveRights;
use live_core::websocket::server_payloads;
use serde::Deserialize;

use crate::clients::client::{ClientFeed, NextDelivery};
use crate::clients::subscription::{DeliveryContext, SubscriptionEnd};
use crate::feed::ReaderId;
use crate::shard::{FeedReader, LiveShard};

/// A part of the body ends with the message that brings it to this many bytes.
const PART_BYTES: usize = 32 << 10;

/// The body: events, as they come.
pub(crate) struct EventStream {
    reader: Rc<StreamReader>,
    id: ReaderId,
    shard: Rc<LiveShard>,
}

struct StreamReader {
    client: RefCell<ClientFeed>,
    waker: RefCell<Waker>,
    /// A heartbeat is due.
    is_beating: Cell<bool>,
    /// Why it ends.
    end: RefCell<Option<&'static str>>,
}

/// What an event needs to know of its message.
#[derive(Deserialize)]
struct MessageMark<'m> {
    r#type: &'m str,
    epoch: Option<u64>,
    sequence: Option<u64>,
    part: Option<u16>,
    covered: Option<live_core::feed::FeedPosition>,
}

impl EventStream {
    /// Begins a subscription.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn open(
        shard: &Rc<LiveShard>,
        rights: LiveRights,
        wanted: &Subscribe<'_>,
    ) -> Result<Self, LiveError> {
        let reader = Rc::new(StreamReader {
            client: RefCell::new(ClientFeed::new(Some(rights))),
            waker: RefCell::new(Waker::noop().clone()),
            is_beating: Cell::new(false),
            end: RefCell::new(None),
        });
        let id = shard.add_reader(Rc::clone(&reader) as Rc<dyn FeedReader>);
        shard.counts.streams.change(1);
        // From here on its drop undoes everything.
        let stream = Self { reader, id, shard: Rc::clone(shard) };
        stream.reader.client.borrow_mut().subscribe(shard, id, None, wanted)?;
        Ok(stream)
    }

    /// Appends frames until there is nothing more for now.
    fn fill(&self, cx: &mut Context<'_>, frames: &mut Vec<u8>) -> Option<SubscriptionEnd> {
        let ring = self.shard.ring.borrow();
        let mut client = self.reader.client.borrow_mut();
        let is_slow = false;
        while frames.len() < PART_BYTES {
            let with = DeliveryContext { shard: &self.shard, ring: &ring, is_slow };
            match client.next(self.id, &with, cx, frames) {
                NextDelivery::Appended => (),
                NextDelivery::Ring(number) => {
                    let subscription = client.subscription(number);
                    let view = subscription.view.id;
                    let Some(cursor) = subscription.cursor_mut() else { continue };
                    let mut bytes = 0;
                    for part in ring.unread(view, cursor) {
                        frames.extend_from_slice(part);
                        bytes += part.len();
                        if bytes >= PART_BYTES {
                            break;
                        }
                    }
                    let taken = ring.advance(view, cursor, bytes);
                    self.shard.counts.delivered.add(taken.count);
                }
                NextDelivery::End(end) => return Some(end),
                NextDelivery::Wait => {
                    if self.reader.is_beating.take() {
                        client.beat(&ring, frames);
                    }
                    return None;
                }
            }
        }
        None
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.reader.client.borrow_mut().leave(&self.shard, self.id);
        self.shard.remove_reader(self.id);
        self.shard.counts.streams.change(-1);
    }
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.reader.waker.replace(cx.waker().clone());
        if self.reader.end.borrow().is_some() {
            return Poll::Ready(None);
        }
        let mut frames = Vec::new();
        let end = self.fill(cx, &mut frames);
        let mut text = Vec::with_capacity(frames.len() + frames.len() / 4);
        for payload in server_payloads(&frames) {
            write_event(payload, &mut text);
        }
        if let Some(end) = end {
            if matches!(end, SubscriptionEnd::FellBehind { .. }) {
                self.shard.counts.slow_closes.increment();
            }
            // The client reconnects and resumes by the id of the last event that it has read.
            self.reader.end.replace(Some("slow"));
            if text.is_empty() {
                return Poll::Ready(None);
            }
        }
        if text.is_empty() {
            return Poll::Pending;
        }
        self.shard.counts.sent_bytes.add(text.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(text.into()))))
    }
}

/// Appends a message as an event. Its id is the position from which to resume.
fn write_event(payload: &[u8], out: &mut Vec<u8>) {
    let mark = serde_json::from_slice::<MessageMark<'_>>(payload);
    let Ok(MessageMark { r#type, epoch, sequence, part, covered }) = mark else { return };
    if r#type != "message" {
        out.extend_from_slice(format!("event: {type}\n").as_bytes());
    }
    if let (Some(epoch), Some(sequence)) = (epoch, sequence) {
        let part = part.unwrap_or(0);
        out.extend_from_slice(format!("id: {epoch}-{sequence}-{part}\n").as_bytes());
    } else if let Some(covered) = covered {
        out.extend_from_slice(format!("id: {covered}\n").as_bytes());
    }
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(payload);
    out.extend_from_slice(b"\n\n");
}

impl FeedReader for StreamReader {
    fn deliver(&self) {
        self.waker.borrow().wake_by_ref();
    }

    fn beat(&self) {
        self.is_beating.set(true);
        self.waker.borrow().wake_by_ref();
    }

    fn check(&self, _now: Instant) {
        if self.client.borrow().is_expired() {
            self.end.replace(Some("expired"));
            self.waker.borrow().wake_by_ref();
        }
    }

    fn restart(&self) {
        self.end.replace(Some("restart"));
        self.waker.borrow().wake_by_ref();
    }
}
