//! The fixed parts and entries of frames, as they lie in memory and on the wire.

use units::{Cpm, Multiplier, Nanos, Offer};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::codes::SettlementOutcome;

/// Length of a reservation's token.
pub const TOKEN_BYTES: usize = 48;

/// One impression, in millionths: the usual [`BidRequestEntry::impressions`].
pub const IMPRESSION: u32 = 1_000_000;

/// Declares structs that lie in memory as on the wire.
macro_rules! wire {
    ($($(#[$about:meta])* $vis:vis struct $name:ident { $($fields:tt)* })*) => {$(
        $(#[$about])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
            Unaligned,
        )]
        #[repr(C)]
        $vis struct $name { $($fields)* }
    )*};
}

wire! {
    /// Fixed part of a hello.
    pub(crate) struct HelloFields {
        pub version_min: u8,
        pub version_max: u8,
        pub client_len: u8,
        pub secret_len: u8,
        pub frame_bytes_max: U32,
    }

    /// Fixed part of a welcome: the server, its limits, and its clock.
    pub struct WelcomeFields {
        /// The version of all later frames.
        pub version: u8,
        pub(crate) reserved: u8,
        /// Frames that the client may have unanswered.
        pub credit: U16,
        /// The server's node.
        pub node: U32,
        /// Its start: handles of campaigns are never reused within it.
        pub epoch: U32,
        /// Number of the catalogue in force.
        pub generation: U64,
        /// The server's clock, in nanoseconds since 1970.
        pub unix_ns: U64,
        /// The longest frame that the server accepts.
        pub frame_bytes_max: U32,
        /// Most requests of a batch.
        pub requests_max: U16,
        /// Most candidates of a request.
        pub candidates_max: U16,
        /// Most settlements of a frame.
        pub settlements_max: U16,
        pub(crate) padding: U16,
        /// The server closes a connection after this long without a frame.
        pub idle_ms: U32,
        /// Lifetime of a reservation whose request names none.
        pub reservation_ms: U32,
        /// The longest lifetime of a reservation.
        pub reservation_max_ms: U32,
        /// How long after its expiry a reservation can still be settled, late.
        pub late_window_ms: U32,
    }

    /// Fixed part of a batch.
    pub(crate) struct BatchFields {
        pub deadline_us: U32,
        pub candidates: U16,
        pub candidate_len: u8,
        pub reserved: u8,
    }

    /// A bid request of a batch.
    pub struct BidRequestEntry {
        /// Identifies the request: equal ids are throttled alike.
        pub id: U64,
        /// Impressions of one display (OpenRTB `imp.qty.multiplier`), in millionths; 0 is one.
        pub impressions: U32,
        /// Lifetime of its reservation in seconds; 0 is the server's.
        pub reservation_s: U16,
        /// Number of its candidates.
        pub candidates: u8,
        /// 1: a test, which counts in no statistics.
        pub flags: u8,
    }

    /// A campaign that may spend on a request.
    pub struct CandidateEntry {
        /// Its handle in the catalogue.
        pub campaign: U32,
        /// The kind of [`Offer`].
        pub kind: u8,
        pub(crate) reserved: [u8; 3],
        /// In the unit of the offer, in the account's currency.
        pub amount: U64,
        /// The least price that is worth bidding, in micros per 1000 impressions; not for a cost.
        pub minimum: U64,
    }

    /// Fixed part of decisions.
    pub(crate) struct DecisionsFields {
        pub generation: U64,
        pub credit: U16,
        pub tokens: U16,
        pub token_len: u8,
        pub reserved: [u8; 3],
    }

    /// The decision on a request.
    pub struct DecisionEntry {
        /// The authorised price in micros per 1000 impressions, or the cost in nanos if one was
        /// offered; 0 if refused.
        pub price: U64,
        /// A [`DecisionCode`](crate::DecisionCode).
        pub code: u8,
        /// The chosen candidate, counted from 0 within the request.
        pub candidate: u8,
        /// Lifetime of the reservation in seconds, counted from the server's decision.
        pub reservation_s: U16,
        pub(crate) reserved: U32,
    }

    /// A reservation that was won or lost.
    pub struct SettlementEntry {
        /// The reservation.
        pub token: [u8; TOKEN_BYTES],
        /// What is billed in total, in nanos of the account's currency; 0 if lost.
        pub cost: U64,
        /// A [`SettlementOutcome`](crate::SettlementOutcome).
        pub outcome: u8,
        pub(crate) reserved: [u8; 7],
    }

    /// Fixed part of settled.
    pub(crate) struct SettledFields {
        pub credit: U16,
        pub reserved: [u8; 6],
    }

    /// The result of a settlement.
    pub(crate) struct SettledEntry {
        pub code: u8,
        pub reserved: [u8; 3],
    }

    /// Fixed part of a catalogue.
    pub(crate) struct CatalogueFields {
        pub generation: U64,
        pub credit: U16,
        pub flags: u8,
        pub reserved: [u8; 5],
    }

    /// A campaign of the catalogue.
    pub(crate) struct CatalogueEntry {
        pub campaign: U32,
        pub state: u8,
        pub unit: u8,
        pub currency: [u8; 3],
        pub account_len: u8,
        pub campaign_len: u8,
        pub reserved: u8,
    }

    /// Fixed part of a heartbeat.
    pub struct HeartbeatFields {
        /// The sender's clock, in nanoseconds since 1970.
        pub unix_ns: U64,
        /// From the server: frames that the client may have unanswered.
        pub credit: U16,
        pub(crate) reserved: [u8; 6],
    }

    /// Fixed part of an error.
    pub(crate) struct ErrorFields {
        pub code: U16,
        pub text_len: U16,
    }
}

const _: () = {
    assert!(size_of::<WelcomeFields>() == 56, "the layouts are those of the document");
    assert!(size_of::<BidRequestEntry>() == 16 && size_of::<CandidateEntry>() == 24);
    assert!(size_of::<DecisionEntry>() == 16 && size_of::<DecisionsFields>() == 16);
    assert!(size_of::<SettlementEntry>() == 64 && size_of::<SettledEntry>() == 4);
    assert!(size_of::<CatalogueEntry>() == 12 && size_of::<CatalogueFields>() == 16);
};

impl BidRequestEntry {
    /// A request for one impression, with the server's lifetime of a reservation.
    pub const fn new(id: u64, candidates: u8) -> Self {
        Self {
            id: U64::new(id),
            impressions: U32::ZERO,
            reservation_s: U16::ZERO,
            candidates,
            flags: 0,
        }
    }

    /// Impressions of one display.
    pub fn multiplier(&self) -> Multiplier {
        Multiplier::new(self.impressions.get().into()).unwrap_or(Multiplier::ONE)
    }

    /// Whether it counts in no statistics.
    pub const fn is_test(&self) -> bool {
        self.flags & 1 == 1
    }
}

impl CandidateEntry {
    /// A candidate, worth bidding from `minimum`.
    pub const fn new(campaign: u32, offer: Offer, minimum: Cpm) -> Self {
        let (kind, amount) = match offer {
            Offer::Value(value) => (0, value.micros()),
            Offer::Price(price) => (1, price.micros()),
            Offer::Cost(cost) => (2, cost.get()),
        };
        Self {
            campaign: U32::new(campaign),
            kind,
            reserved: [0; 3],
            amount: U64::new(amount),
            minimum: U64::new(minimum.micros()),
        }
    }

    /// What it offers. None if the kind is unknown, or the amount is not a price.
    pub fn offer(&self) -> Option<Offer> {
        let amount = self.amount.get();
        match self.kind {
            0 => Cpm::new(amount).map(Offer::Value),
            1 => Cpm::new(amount).map(Offer::Price),
            2 => Some(Offer::Cost(Nanos::new(amount))),
            _ => None,
        }
    }

    /// The least price that is worth bidding. None if it is not a price.
    pub fn minimum(&self) -> Option<Cpm> {
        Cpm::new(self.minimum.get())
    }
}

impl SettlementEntry {
    /// A settlement; a lost one costs nothing.
    pub const fn new(token: [u8; TOKEN_BYTES], outcome: SettlementOutcome, cost: Nanos) -> Self {
        Self { token, cost: U64::new(cost.get()), outcome: outcome as u8, reserved: [0; 7] }
    }
}
