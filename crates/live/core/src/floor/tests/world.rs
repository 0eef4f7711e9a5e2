//! A simulated log, ledger and exchange, which check what the floor does to them.

use std::collections::{BTreeMap, VecDeque};

use units::{Cpm, Currency, Nanos};

use crate::floor::*;
use crate::lots::*;
use crate::ports::*;

pub fn cpm(micros: u64) -> Cpm {
    Cpm::new(micros).expect("a price of a test")
}

pub fn id(name: &str) -> LotId {
    LotId::parse(name).expect("an id")
}

/// Open from 0 to 1000, from a price of 100 on in steps of 10; paid at the close.
pub fn terms(name: &str) -> LotTerms {
    let increments = IncrementBands(vec![IncrementBand { from: Cpm::ZERO, increment: cpm(10) }]);
    LotTerms {
        id: id(name),
        title: String::new(),
        currency: Currency::USD,
        impressions: 7,
        rules: LotRules::English(EnglishTerms { increments, soft_close: None }),
        start_price: cpm(100),
        reserve: None,
        opens_ms: 0,
        closes_ms: 1000,
        payment: LotPayment::AtClose,
        invited: Vec::new(),
        bids_max: LOT_BIDS_MAX,
        deal: LotDeal {
            id: format!("deal-{name}"),
            publisher: None,
            starts_ms: 2000,
            ends_ms: 3000,
            priority: 1,
        },
    }
}

pub fn bid(lot: &str, bidder: &str, maximum: u64, key: u32) -> FloorCommand {
    let bid = LotBid {
        bidder: bidder.to_owned(),
        account: format!("account of {bidder}"),
        maximum: cpm(maximum),
        currency: Currency::USD,
        key: key.to_string(),
    };
    FloorCommand::Lot(id(lot), LotCommand::Bid(bid))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HoldState {
    Standing,
    Ended,
}

/// Holds by bid, with attempt, amount and state; durable at once.
#[derive(Default)]
pub struct Ledger {
    holds: BTreeMap<HoldKey, (HoldAttempt, Nanos, HoldState)>,
    confirmed: Vec<HoldKey>,
    pub inbox: VecDeque<HoldMessage>,
    pub outbox: VecDeque<HoldReply>,
    pub charges: BTreeMap<LotId, u64>,
    /// Amounts above this are refused.
    pub limit: u64,
    /// Takes no message.
    pub is_full: bool,
}

impl Ledger {
    /// Takes one message.
    pub fn step(&mut self) {
        let Some(message) = self.inbox.pop_front() else { return };
        match message {
            HoldMessage::Place(HoldRequest { key, attempt, amount, .. }) => {
                if amount.get() > self.limit {
                    let refusal = HoldRefusal::TooLarge;
                    return self.outbox.push_back(HoldReply::Refused { key, attempt, refusal });
                }
                self.holds.insert(key.clone(), (attempt, amount, HoldState::Standing));
                self.outbox.push_back(HoldReply::Held { key, attempt });
            }
            HoldMessage::Standing(HoldRequest { key, attempt, amount, .. }) => {
                let held = self.holds.get(&key);
                assert_eq!(held, Some(&(attempt, amount, HoldState::Standing)), "it was held");
                self.confirmed.push(key);
            }
            HoldMessage::End { key, attempt, fate } => {
                let held = self.holds.get_mut(&key).filter(|held| held.0 == attempt);
                if let Some(held) = held.filter(|held| held.2 == HoldState::Standing) {
                    held.2 = HoldState::Ended;
                    if let HoldFate::Charged { cost } = fate {
                        assert!(cost <= held.1, "a charge is at most the amount");
                        *self.charges.entry(key.lot.clone()).or_default() += cost.get();
                    }
                }
                self.outbox.push_back(HoldReply::Ended { key, attempt });
            }
            HoldMessage::Replayed => {
                let confirmed = std::mem::take(&mut self.confirmed);
                for (key, held) in &mut self.holds {
                    if !confirmed.contains(key) {
                        held.2 = HoldState::Ended;
                    }
                }
            }
        }
    }

    fn is_standing(&self, key: &HoldKey, attempt: HoldAttempt) -> bool {
        self.holds.get(key).is_some_and(|held| held.0 == attempt && held.2 == HoldState::Standing)
    }

    /// Money on hold, by bid.
    pub fn standing(&self) -> BTreeMap<HoldKey, u64> {
        let standing = self.holds.iter().filter(|(_, held)| held.2 == HoldState::Standing);
        standing.map(|(key, held)| (key.clone(), held.1.get())).collect()
    }
}

/// Everything around a floor.
#[derive(Default)]
pub struct World {
    pub log: Vec<LotRecord>,
    pub durable: usize,
    /// Records of earlier processes.
    base: usize,
    pub is_paused: bool,
    pub ledger: Ledger,
    /// By ticket, in the order in which they came.
    pub answers: Vec<(u32, Result<FloorAnswer, FloorRefusal>)>,
    pub offers: Vec<LotId>,
}

/// Lots as these records make them.
pub fn rebuilt(log: &[LotRecord]) -> LotFloor<u32> {
    let mut floor = LotFloor::new(SETTINGS, 99);
    for (sequence, record) in (1..).zip(log) {
        floor.replay(sequence, record.clone()).expect("the log is whole");
    }
    floor
}

pub const SETTINGS: FloorSettings =
    FloorSettings { lots_max: 3, waiting_max: 4, hold_timeout_ms: 50, kept_ms: 100 };

impl World {
    pub fn new() -> Self {
        let ledger = Ledger { limit: u64::MAX, ..Ledger::default() };
        Self { ledger, ..Self::default() }
    }

    /// Makes all records up to `through` durable.
    pub fn sync(&mut self, floor: &mut LotFloor<u32>, through: usize) {
        self.durable = self.durable.max(through);
        let count = |records: usize| u64::try_from(records).expect("few");
        let (in_process, sequence) = (count(self.durable - self.base), count(self.durable));
        if in_process > 0 {
            floor.durable(in_process, sequence, self);
        }
    }

    /// Everything that is under way arrives.
    pub fn settle(&mut self, floor: &mut LotFloor<u32>, now_ms: u64) {
        (self.is_paused, self.ledger.is_full) = (false, false);
        for _ in 0..200 {
            floor.tick(now_ms, self);
            while !self.ledger.inbox.is_empty() {
                self.ledger.step();
            }
            while let Some(reply) = self.ledger.outbox.pop_front() {
                floor.money(now_ms, reply, self);
            }
            let end = self.log.len();
            self.sync(floor, end);
        }
    }

    /// The process ends at once. Of what was not durable, this much is in the log all the same.
    pub fn crash(&mut self, kept: usize) {
        self.log.truncate(kept.clamp(self.durable, self.log.len()));
        (self.base, self.durable) = (self.log.len(), self.log.len());
        // What the ledger has heard since its start is forgotten with it.
        self.ledger.confirmed.clear();
        self.ledger.inbox.clear();
        self.ledger.outbox.clear();
    }
}

impl FloorOutlet<u32> for World {
    fn paused(&self) -> Option<String> {
        self.is_paused.then(|| "the disk is full".to_owned())
    }

    fn log(&mut self, record: &LotRecord) -> bool {
        if self.is_paused {
            return false;
        }
        if let LotRecordBody::Event { kind: LotEventKind::Bid { number, .. }, attempt } =
            &record.body
        {
            let key = HoldKey { lot: record.lot.clone(), bid: *number };
            let attempt = attempt.expect("a bid has an attempt");
            assert!(self.ledger.is_standing(&key, attempt), "a bid is logged once money is held");
        }
        self.log.push(record.clone());
        true
    }

    fn hold(&mut self, message: HoldMessage) -> Result<(), HoldMessage> {
        if self.ledger.is_full {
            return Err(message);
        }
        if let HoldMessage::End { key, .. } = &message {
            // By what is durable, the bid does not stand.
            let lots = rebuilt(&self.log[..self.durable]);
            let lot = lots.lots().find(|lot| lot.terms().id == key.lot).expect("it was created");
            assert!(lot.holds().all(|hold| hold.number != key.bid), "its end is durable first");
        }
        self.ledger.inbox.push_back(message);
        Ok(())
    }

    fn offer(&mut self, sold: SoldLot) {
        self.offers.push(sold.lot);
    }

    fn answer(&mut self, to: u32, answer: Result<FloorAnswer, FloorRefusal>) {
        assert!(self.answers.iter().all(|(ticket, _)| *ticket != to), "each is answered once");
        if let Ok(FloorAnswer::Accepted(bid)) = &answer {
            let is_it = |record: &LotRecord| {
                matches!(&record.body, LotRecordBody::Event {
                    kind: LotEventKind::Bid { number, .. }, ..
                } if *number == bid.number && record.lot.as_str() == bid.lot.id)
            };
            assert!(self.log[..self.durable].iter().any(is_it), "an accepted bid is durable");
        }
        self.answers.push((to, answer));
    }
}
