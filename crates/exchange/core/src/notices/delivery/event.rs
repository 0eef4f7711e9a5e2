//! The events and effects of delivery.

use std::sync::Arc;
use std::time::Duration;

use units::Tick;

use super::journal::NoticeEnd;
use super::notice::Notice;
use crate::notices::reservation::Reservation;
use crate::notices::token::TokenId;
use openrtb::NoticeKind;

/// Both clocks, read once per step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryTime {
    /// Monotonic: for pauses and timeouts.
    pub tick: Tick,
    /// Unix time in milliseconds: for records and the expiry of tokens.
    pub unix_ms: u64,
}

impl DeliveryTime {
    /// When Unix time reaches `unix_ms`, if nobody sets the clock; later than now.
    pub fn tick_at(self, unix_ms: u64) -> Tick {
        self.tick.after(Duration::from_millis(unix_ms.saturating_sub(self.unix_ms).max(1)))
    }
}

/// Identifies a pending record; later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JournalTicket(pub(crate) u64);

/// Identifies one call of a DSP; later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attempt(pub(crate) u64);

/// A call of a beacon that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beacon {
    /// The owner's number of the waiting call.
    pub call: u64,
    /// The nonce of its authenticated token.
    pub id: TokenId,
    /// When the token expires, in Unix time.
    pub expires_ms: u64,
    /// The notice to send. None if the DSP wants none.
    pub notice: Option<Notice>,
    /// The reservation that the first call settles.
    pub reservation: Option<Reservation>,
}

/// How a call of a DSP ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// It answered with this status.
    Status(u16),
    /// No answer: refused, reset, timed out or not resolved.
    Failed,
    /// The URL must not be called.
    Forbidden,
}

/// An input of delivery.
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
    /// These records are durable, at these sequences of the log.
    JournalCommitted(Vec<(JournalTicket, u64)>),
    /// The log refused these records and will never contain them.
    JournalRefused(Vec<JournalTicket>),
    /// The log cannot be written. Pending records may become durable later, or never.
    JournalFailing,
    /// The log is written again.
    JournalWriting,
    /// The log is durable up to this sequence, others' records included. Later records get higher ones.
    JournalReached(u64),
    /// A call of a DSP ended.
    Sent {
        /// Which.
        attempt: Attempt,
        /// How.
        outcome: SendOutcome,
    },
}

/// Notices that are sent without a record.
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
    /// Its token has expired; a retry does not help.
    Expired,
    /// A limit of this DSP or in total is reached; a retry later helps.
    Busy,
    /// The journal could not take it; a retry later helps.
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

/// An output of delivery, to be done in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Append this record to the log, in this order, and report when it is refused or durable.
    Journal {
        /// Names it.
        ticket: JournalTicket,
        /// Its bytes.
        record: Vec<u8>,
    },
    /// Call the notice's URL with the headers of [`Notice::forwarded`], and report the outcome.
    Send {
        /// Names the call.
        attempt: Attempt,
        /// Which notice of the bid it is.
        kind: NoticeKind,
        /// What to call.
        notice: Arc<Notice>,
    },
    /// The durable record at this sequence settles a reservation. Emitted once per token, in the log's
    /// order, before the call is acknowledged. [`super::JournalReplay::record`] returns those that a start
    /// finds in the log.
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
    /// A billing notice will not be delivered: money is lost.
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

/// Counts since the start, and current gauges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryCounters {
    /// Billing notices answered with 200 or 204.
    pub billing_delivered: u64,
    /// Billing notices given up.
    pub billing_given_up: u64,
    /// Win and loss notices answered with 200 or 204.
    pub best_effort_delivered: u64,
    /// Win and loss notices given up.
    pub best_effort_failed: u64,
    /// Win and loss notices shed at a limit.
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
    /// Beacons refused at a limit.
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
