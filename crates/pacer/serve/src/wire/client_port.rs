//! What a shard keeps of a connection while its task sleeps: replies that became ready meanwhile.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::task::Waker;

use pacer_wire::{SettledWriter, SettlementCode, write_heartbeat};
use runtime::metrics::Padded;
use runtime::process::unix_ms;

use super::counters::ClientCounts;

/// A connection, as the rest of its shard sees it.
#[derive(Debug)]
pub(crate) struct ClientPort {
    pub id: u64,
    /// The client's number.
    pub client: usize,
    /// The client's counters on this shard.
    pub counts: Arc<Padded<ClientCounts>>,
    /// Longest frame that the client accepts.
    pub frame_bytes_max: u32,
    /// Frames to write when the task runs next.
    outbox: RefCell<Vec<u8>>,
    waker: RefCell<Option<Waker>>,
    frames: RefCell<OpenFrames>,
    /// The credit that the client received last.
    credit: Cell<u16>,
    /// Changes of campaigns that it has received: see [`ChangeLog`](super::changes::ChangeLog).
    pub changes_seen: Cell<u64>,
    /// Whether the connection must end, because its client was removed.
    pub is_dismissed: Cell<bool>,
}

/// Frames of settlements without all their results.
#[derive(Debug, Default)]
struct OpenFrames {
    slots: Vec<OpenFrame>,
    unused: Vec<u16>,
}

#[derive(Debug, Default)]
struct OpenFrame {
    sequence: u64,
    codes: Vec<SettlementCode>,
    /// Settlements without a result.
    left: usize,
}

/// A place in a frame of settlements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameEntry {
    pub frame: u16,
    pub entry: u16,
}

impl ClientPort {
    pub fn new(
        id: u64,
        client: usize,
        counts: Arc<Padded<ClientCounts>>,
        frame_bytes_max: u32,
    ) -> Self {
        Self {
            id,
            client,
            counts,
            frame_bytes_max,
            outbox: RefCell::default(),
            waker: RefCell::default(),
            frames: RefCell::default(),
            credit: Cell::new(0),
            changes_seen: Cell::new(0),
            is_dismissed: Cell::new(false),
        }
    }

    /// Notes a credit that is about to be sent.
    pub fn note_credit(&self, credit: u16) {
        if self.credit.replace(credit) > 0 && credit == 0 {
            self.counts.credit_stalls.increment();
        }
    }

    /// Sends a heartbeat that grants credit, if the client has none.
    pub fn grant(&self, credit: u16) {
        if self.credit.get() == 0 {
            self.credit.set(credit);
            self.send(|out| write_heartbeat(out, 0, unix_ms() * 1_000_000, credit));
        }
    }

    /// Begins a frame of `count` settlements. Its results go out once all are known.
    pub fn begin_frame(&self, sequence: u64, count: usize) -> u16 {
        let OpenFrames { slots, unused } = &mut *self.frames.borrow_mut();
        let frame = unused.pop().unwrap_or_else(|| {
            slots.push(OpenFrame::default());
            u16::try_from(slots.len() - 1).expect("frames are limited by the credit")
        });
        let slot = &mut slots[usize::from(frame)];
        (slot.sequence, slot.left) = (sequence, count);
        slot.codes.clear();
        slot.codes.resize(count, SettlementCode::Pending);
        frame
    }

    /// Frames without all results.
    pub fn open_frames(&self) -> usize {
        let frames = self.frames.borrow();
        frames.slots.len() - frames.unused.len()
    }

    /// Enters a result; the last one of a frame sends it.
    pub fn complete(&self, place: FrameEntry, code: SettlementCode) {
        let OpenFrames { slots, unused } = &mut *self.frames.borrow_mut();
        let slot = &mut slots[usize::from(place.frame)];
        slot.codes[usize::from(place.entry)] = code;
        slot.left -= 1;
        if slot.left == 0 {
            unused.push(place.frame);
            let credit = self.credit.get();
            self.send(|out| {
                let mut writer = SettledWriter::new(out, slot.sequence, credit, slot.codes.len());
                slot.codes.iter().for_each(|code| writer.put(*code));
                writer.finish();
            });
        }
    }

    /// Adds frames, and wakes the connection's task.
    pub fn send(&self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.outbox.borrow_mut());
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Ends the connection.
    pub fn dismiss(&self) {
        self.is_dismissed.set(true);
        self.wake();
    }

    /// Wakes the connection's task.
    pub fn wake(&self) {
        self.send(|_| ());
    }

    /// Moves the frames that wait to `out`.
    pub fn take_outbox(&self, out: &mut Vec<u8>) {
        let mut outbox = self.outbox.borrow_mut();
        if !outbox.is_empty() {
            out.append(&mut outbox);
        }
    }

    /// Whether frames wait; otherwise `waker` is woken when one does.
    pub fn poll_outbox(&self, waker: &Waker) -> bool {
        if !self.outbox.borrow().is_empty() {
            return true;
        }
        let mut own = self.waker.borrow_mut();
        match &mut *own {
            Some(own) => own.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        false
    }
}
