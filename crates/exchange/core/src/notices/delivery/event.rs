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
    /// The tick at which Unix time reaches `unix_ms`, if nobody sets the clock. Later than now.
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
    /// Number of the waiting call.
    pub call: u64,
    /// The nonce of its authenticated token.
    pub id: TokenId,
    /// Expiry of the token, in Unix time.
    pub expires_ms: u64,
    /// The notice to send. None if the DSP has none.
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
    /// Send a win or loss notice. Billing notices are sent only by [`Event::Beacon`].
    Submit {
        /// Win or loss.
        kind: BestEffort,
        /// The notice.
        notice: Notice,
    },
    /// A beacon was called.
    Beacon(Box<Beacon>),
    /// These records are durable, at these sequences of the log.
    JournalCommitted(Vec<(JournalTicket, u64)>),
    /// The log refused these records and never contains them.
    JournalRefused(Vec<JournalTicket>),
    /// The log cannot be written. Pending records may become durable later, or never.
    JournalFailing,
    /// The log can be written again.
    JournalWriting,
    /// The log is durable up to this sequence, including records of others. Later records have
    /// higher sequences.
    JournalReached(u64),
    /// A call of a DSP ended.
    Sent {
        /// The call.
        attempt: Attempt,
        /// Its outcome.
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
    /// A limit of this DSP or of the total is reached; a later retry helps.
    Busy,
    /// The journal did not take the record; a later retry helps.
    Journal,
}

/// Why a billing notice is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUpReason {
    /// The policy's horizon has passed.
    Horizon,
    /// Its URL must not be called.
    Forbidden,
}

/// An output of delivery. Execute outputs in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Append this record to the log, in this order, and report its result.
    Journal {
        /// Identifies the record.
        ticket: JournalTicket,
        /// Its bytes.
        record: Vec<u8>,
    },
    /// Call the notice's URL with the headers of [`Notice::forwarded`], and report the outcome.
    Send {
        /// Identifies the call.
        attempt: Attempt,
        /// The kind of notice.
        kind: NoticeKind,
        /// The notice.
        notice: Arc<Notice>,
    },
    /// The durable record at this sequence settles a reservation. Once per token, in log order,
    /// before the acknowledgement. [`super::JournalReplay::record`] returns those found at a
    /// restart.
    Settled {
        /// Above all earlier ones.
        sequence: u64,
        /// The settled reservation.
        reservation: Reservation,
    },
    /// Answer the beacon's call with success.
    Acknowledge {
        /// Number of the call.
        call: u64,
        /// Whether the beacon was called before.
        duplicate: bool,
    },
    /// Answer the beacon's call with a refusal.
    Refuse {
        /// Number of the call.
        call: u64,
        /// The reason.
        refusal: BeaconRefusal,
    },
    /// A billing notice will not be delivered: money is lost.
    GiveUp {
        /// The beacon's token.
        id: TokenId,
        /// The notice.
        notice: Arc<Notice>,
        /// Tries since the process started.
        tries: u32,
        /// The reason.
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
    /// Win and loss notices dropped at a limit.
    pub best_effort_shed: u64,
    /// Failed calls of DSPs.
    pub tries_failed: u64,
    /// Beacons with a durable record: acknowledged, or refused while the record was pending.
    pub beacons_accepted: u64,
    /// Calls of beacons that were acknowledged before.
    pub beacons_duplicate: u64,
    /// Beacons whose token had expired.
    pub beacons_expired: u64,
    /// Beacons refused at a limit.
    pub beacons_busy: u64,
    /// Calls of beacons refused because the log could not be written.
    pub beacons_unjournalled: u64,
    /// Billing notices owed now, unacknowledged ones included.
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
