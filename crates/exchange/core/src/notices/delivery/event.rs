//! What delivery is told, and what it wants done.

use std::sync::Arc;
use std::time::Duration;

use units::Tick;

use super::journal::NoticeEnd;
use super::notice::Notice;
use crate::notices::reservation::Reservation;
use crate::notices::token::TokenId;
use openrtb::NoticeKind;

/// The two clocks, read by the caller once a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryTime {
    /// Never goes backward: pauses and timeouts.
    pub tick: Tick,
    /// Milliseconds of Unix time: what survives a restart, and the expiry of tokens.
    pub unix_ms: u64,
}

impl DeliveryTime {
    /// When Unix time reaches `unix_ms`, if nobody sets the clock; later than now.
    pub fn tick_at(self, unix_ms: u64) -> Tick {
        self.tick.after(Duration::from_millis(unix_ms.saturating_sub(self.unix_ms).max(1)))
    }
}

/// Names a record on its way to the journal; later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JournalTicket(pub(crate) u64);

/// Names one call of a DSP; later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attempt(pub(crate) u64);

/// A beacon was called, and waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beacon {
    /// The caller's name for the waiting call.
    pub call: u64,
    /// The nonce of its token, which was found authentic.
    pub id: TokenId,
    /// When the token expires, in Unix time.
    pub expires_ms: u64,
    /// What to send: what is the same at each try. `None` where there is nobody to tell.
    pub notice: Option<Notice>,
    /// What the first call settles.
    pub reservation: Option<Reservation>,
}

/// How a call of a DSP ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// It answered with this status.
    Status(u16),
    /// No answer: refused, reset, timed out, not resolved.
    Failed,
    /// We may not call that URL, and never will.
    Forbidden,
}

/// What delivery is told. That time went by is told by a step without events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Send a win or loss notice. A billing notice is sent by [`Event::Beacon`] alone.
    Submit {
        /// Win or loss.
        kind: BestEffort,
        /// What to send.
        notice: Notice,
    },
    /// A beacon was called.
    Beacon(Box<Beacon>),
    /// These records are durable, under these sequences of the log.
    JournalCommitted(Vec<(JournalTicket, u64)>),
    /// These records were not taken: nothing of them is in the log, nor will be.
    JournalRefused(Vec<JournalTicket>),
    /// The log is not written. What it took and is not durable yet may be later, or never.
    JournalFailing,
    /// It is written again.
    JournalWriting,
    /// The log, which holds others' records too, is durable up to this sequence: what is handed over
    /// from now on gets a higher one.
    JournalReached(u64),
    /// A call of a DSP ended.
    Sent {
        /// Which.
        attempt: Attempt,
        /// How.
        outcome: SendOutcome,
    },
}

/// The notices that are sent without a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BestEffort {
    /// `nurl`.
    Win,
    /// `lurl`.
    Loss,
}

impl From<BestEffort> for NoticeKind {
    fn from(kind: BestEffort) -> Self {
        match kind {
            BestEffort::Win => Self::Win,
            BestEffort::Loss => Self::Loss,
        }
    }
}

/// Why a beacon's call is refused. Order is precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeaconRefusal {
    /// Its token has expired; to ask again does not help.
    Expired,
    /// Too much is owed already, to this DSP or in all: to ask again later helps.
    Busy,
    /// The journal could not take it: to ask again later helps.
    Journal,
}

/// Why a billing notice is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUpReason {
    /// It was tried for as long as the policy says.
    Horizon,
    /// We may not call its URL.
    Forbidden,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Hand this record over to the log, and tell what became of it: that it was refused at once,
    /// or that it is durable whenever that may be. The order of records is theirs in the log.
    Journal {
        /// Names it.
        ticket: JournalTicket,
        /// Its bytes.
        record: Vec<u8>,
    },
    /// Call the notice's URL, with the headers of [`Notice::forwarded`]; then tell what became of it.
    Send {
        /// Names the call.
        attempt: Attempt,
        /// Which notice of the bid it is.
        kind: NoticeKind,
        /// What to call.
        notice: Arc<Notice>,
    },
    /// The record at this sequence of the log is known to be durable, and settles this. Once for each
    /// token, in the log's order, and before a call of it is acknowledged, if one waits; what a start
    /// finds in the log is told by [`super::JournalReplay::record`].
    Settled {
        /// Above all before.
        sequence: u64,
        /// What is spent.
        reservation: Reservation,
    },
    /// Answer the beacon's call with success.
    Acknowledge {
        /// The caller's name for it.
        call: u64,
        /// Whether it had been called before.
        duplicate: bool,
    },
    /// Answer the beacon's call with a refusal.
    Refuse {
        /// The caller's name for it.
        call: u64,
        /// Why.
        refusal: BeaconRefusal,
    },
    /// A billing notice will not be delivered: money is lost, somebody should know.
    GiveUp {
        /// The beacon's token.
        id: TokenId,
        /// What was owed.
        notice: Arc<Notice>,
        /// How often it was tried since the process started.
        tries: u32,
        /// Why.
        reason: GiveUpReason,
    },
}

/// Counted since the start, and what there is now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryCounters {
    /// Billing notices answered with 200 or 204.
    pub billing_delivered: u64,
    /// Billing notices given up.
    pub billing_given_up: u64,
    /// Win and loss notices answered with 200 or 204.
    pub best_effort_delivered: u64,
    /// Win and loss notices that were tried often or long enough.
    pub best_effort_failed: u64,
    /// Win and loss notices that found no room.
    pub best_effort_shed: u64,
    /// Calls that ended otherwise.
    pub tries_failed: u64,
    /// Beacons whose record is durable: acknowledged, or refused while it was not known
    /// whether their record would be durable.
    pub beacons_accepted: u64,
    /// Calls of beacons that had been acknowledged before.
    pub beacons_duplicate: u64,
    /// Beacons whose token had expired.
    pub beacons_expired: u64,
    /// Beacons refused for want of room.
    pub beacons_busy: u64,
    /// Calls of beacons refused because the log could not be written.
    pub beacons_unjournalled: u64,
    /// Billing notices owed now, those not yet acknowledged among them.
    pub billing_owed: usize,
    /// Win and loss notices waiting now.
    pub best_effort_waiting: usize,
    /// Calls under way now.
    pub in_flight: usize,
    /// Tokens remembered now.
    pub remembered: usize,
}

impl DeliveryCounters {
    pub(crate) fn settled(&mut self, outcome: NoticeEnd) {
        match outcome {
            NoticeEnd::Delivered => self.billing_delivered += 1,
            NoticeEnd::GivenUp => self.billing_given_up += 1,
            NoticeEnd::Untold => (),
        }
    }
}
