//! A delivery with a journal that works unless a test says otherwise.

use std::time::Duration;

use pacer_core::shard::token::{TOKEN_BYTES, TokenText};
use units::{Currency, Tick};

use crate::delivery::*;
use crate::notices::reservation::Reservation;
use crate::notices::token::TokenId;

/// Unix time at the start of tests.
pub const START_MS: u64 = 1_700_000_000_000;

pub fn id(number: u8) -> TokenId {
    TokenId([number; TokenId::BYTES])
}

pub fn notice(dsp: &str, path: &str) -> Notice {
    let url = format!("https://{dsp}.example/{path}");
    Notice::new(dsp.into(), url, ForwardedDevice::default()).expect("a notice")
}

pub fn reservation(number: u8) -> Reservation {
    let token = TokenText::from_bytes(&[number; TOKEN_BYTES]);
    Reservation { token, currency: Currency::USD }
}

pub fn policy() -> DeliveryPolicy {
    DeliveryPolicy {
        billing_max_per_dsp: 3,
        billing_max: 5,
        best_effort_max_per_dsp: 3,
        best_effort_max: 5,
        bytes_max: 2_000,
        remembered_max: 10,
        in_flight_per_dsp: 2,
        in_flight_max: 6,
        dsps_max: 4,
        ..DeliveryPolicy::default()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saw {
    Acknowledged(u64),
    Duplicate(u64),
    Refused(u64, BeaconRefusal),
    Sent(String),
    GivenUp(TokenId, u32, GiveUpReason),
    /// Sequence, and number of the reservation.
    Settled(u64, u8),
}

pub struct Bench {
    pub delivery: Delivery,
    pub elapsed: Duration,
    pub journal: Vec<Vec<u8>>,
    pub journal_works: bool,
    pub flying: Vec<(String, Attempt)>,
    /// Reservations that the last start found in the journal, by sequence.
    pub replayed: Vec<(u64, Reservation)>,
    policy: DeliveryPolicy,
    calls: u64,
}

impl Bench {
    pub fn new(policy: DeliveryPolicy) -> Self {
        let now = DeliveryTime { tick: Tick::ZERO, unix_ms: START_MS };
        Self {
            delivery: JournalReplay::new(policy, START_MS).finish(now),
            elapsed: Duration::ZERO,
            journal: Vec::new(),
            journal_works: true,
            flying: Vec::new(),
            replayed: Vec::new(),
            policy,
            calls: 0,
        }
    }

    pub fn now(&self) -> DeliveryTime {
        let elapsed_ms = u64::try_from(self.elapsed.as_millis()).expect("a short test");
        DeliveryTime { tick: Tick::ZERO.after(self.elapsed), unix_ms: START_MS + elapsed_ms }
    }

    /// Ends the process, and starts again from its journal.
    pub fn restart(&mut self) {
        let now = self.now();
        let mut replay = JournalReplay::new(self.policy, now.unix_ms);
        self.replayed.clear();
        for (at, record) in self.journal.iter().enumerate() {
            let sequence = at as u64 + 1;
            let settled = replay.record(sequence, record).expect("a record of ours");
            self.replayed.extend(settled.map(|reservation| (sequence, reservation)));
        }
        self.delivery = replay.finish(now);
        self.flying.clear();
    }

    /// One step, and another with the journal's results.
    pub fn step(&mut self, events: Vec<Event>) -> Vec<Saw> {
        let mut saw = Vec::new();
        let mut inbox = events;
        loop {
            let mut outbox = Vec::new();
            self.delivery.step(self.now(), &mut inbox, &mut outbox);
            let mut tickets = Vec::new();
            for effect in outbox {
                saw.extend(self.effect(effect, &mut tickets));
            }
            if tickets.is_empty() {
                return saw;
            }
            inbox.push(match self.journal_works {
                true => Event::JournalCommitted(tickets),
                false => {
                    Event::JournalRefused(tickets.into_iter().map(|(ticket, _)| ticket).collect())
                }
            });
        }
    }

    fn effect(&mut self, effect: Effect, tickets: &mut Vec<(JournalTicket, u64)>) -> Option<Saw> {
        Some(match effect {
            Effect::Journal { ticket, record } => {
                if self.journal_works {
                    self.journal.push(record);
                }
                tickets.push((ticket, self.journal.len() as u64));
                return None;
            }
            Effect::Settled { sequence, reservation } => {
                Saw::Settled(sequence, reservation.token.to_bytes()[0])
            }
            Effect::Acknowledge { call, duplicate: false } => Saw::Acknowledged(call),
            Effect::Acknowledge { call, duplicate: true } => Saw::Duplicate(call),
            Effect::Refuse { call, refusal } => Saw::Refused(call, refusal),
            Effect::GiveUp { id, tries, reason, .. } => Saw::GivenUp(id, tries, reason),
            Effect::Send { attempt, notice, .. } => {
                self.flying.push((notice.url().to_owned(), attempt));
                Saw::Sent(notice.url().to_owned())
            }
        })
    }

    /// Calls the beacon of token `number`, which expires after an hour.
    pub fn beacon(&mut self, number: u8, notice: Notice) -> Vec<Saw> {
        let event = self.beacon_event(number, notice);
        self.step(vec![event])
    }

    pub fn beacon_event(&mut self, number: u8, notice: Notice) -> Event {
        self.paid_event(number, Some(notice), None)
    }

    /// Calls a beacon with a reservation, and possibly without a notice.
    pub fn paid(&mut self, number: u8, notice: Option<Notice>) -> Vec<Saw> {
        let event = self.paid_event(number, notice, Some(reservation(number)));
        self.step(vec![event])
    }

    pub fn paid_event(
        &mut self,
        number: u8,
        notice: Option<Notice>,
        reservation: Option<Reservation>,
    ) -> Event {
        self.calls += 1;
        let (call, expires_ms) = (self.calls, START_MS + 3_600_000);
        let id = id(number);
        Event::Beacon(Box::new(Beacon { call, id, expires_ms, notice, reservation }))
    }

    pub fn answer(&mut self, outcome: SendOutcome) -> Vec<Saw> {
        let (_, attempt) = self.flying.remove(0);
        self.step(vec![Event::Sent { attempt, outcome }])
    }

    /// Advances time to the next wake-up of delivery.
    pub fn wake(&mut self) -> Vec<Saw> {
        let at = self.delivery.wake_at(self.now()).expect("something is to come");
        self.elapsed = at.since(Tick::ZERO).max(self.elapsed);
        self.step(Vec::new())
    }
}

pub fn sent(dsp: &str, path: &str) -> Saw {
    Saw::Sent(format!("https://{dsp}.example/{path}"))
}
