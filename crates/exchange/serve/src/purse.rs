//! What a shard may spend of accounts, and what it has reserved: the shard's end of the ledger.
//!
//! It makes no decision about money: those are `pacer_core::shard`'s. It moves messages, and knows
//! which shard a reservation is of.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use exchange_core::house::{Catalogue, Desk, HouseAnswer, Room};
use exchange_core::{Ask, Auction, Reservation};
use pacer_core::calendar::QUARTER_MS;
use pacer_core::messages::{FromShard, Seen, Slot, ToShard};
use pacer_core::refusal::Refusal;
use pacer_core::shard::{Counts, Denial, Moment, Options, OptionsError, Shard};
use pacer_core::strategy::{DrawKey, Pace, decide};
use pacer_core::token::{Token, TokenKey, TokenText, TtlClass};
use tokio::sync::mpsc;
use tracing::error;
use units::{Cpm, Nanos, Tick};

use crate::metrics::ExchangeMetrics;
use crate::notices::unix_ms;

/// How often messages are exchanged with the ledger: several times while a slice lasts.
pub(crate) const TURN: Duration = Duration::from_millis(10);

/// Answers of the house whose room is kept.
const ANSWERS_MAX: usize = 64;

/// Messages that may wait on their way to another shard; whoever sends more waits.
const ERRANDS_MAX: usize = 1024;

/// One shard's end of the ledger's rings.
#[derive(Debug)]
pub struct Line {
    /// Rights, gates and paces.
    pub from_ledger: rtrb::Consumer<ToShard>,
    /// What became of them.
    pub to_ledger: rtrb::Producer<FromShard>,
    /// What its shard is made with.
    pub options: Options,
}

/// What all shards of a process have in common.
#[derive(Clone)]
pub struct Bank {
    /// What reservations are sealed with.
    pub key: TokenKey,
    /// By what chance requests are passed by.
    pub draw: DrawKey,
    /// When the ledger's ticks began.
    pub origin: Instant,
    /// Whether the books do not add up: nothing may be reserved any more. Asked each time.
    pub is_halted: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// What another shard is asked to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Errand {
    Settle(Token),
    Release(Token),
}

/// A shard's money.
pub(crate) struct Purse {
    bank: Bank,
    /// By class of time to live, ascending.
    ttls: Vec<Duration>,
    open: RefCell<Open>,
    search: RefCell<Search>,
    /// Leads to all shards of the process, by number.
    peers: Vec<mpsc::Sender<Errand>>,
    /// Whether what is billed becomes durable, and as it was at the last turn: while it does not,
    /// nothing is authorised.
    is_durable: (IsDurable, Cell<bool>),
}

/// Tells whether what is billed becomes durable.
type IsDurable = Box<dyn Fn() -> bool + Send>;

#[derive(Debug)]
struct Open {
    shard: Shard,
    from_ledger: rtrb::Consumer<ToShard>,
    to_ledger: rtrb::Producer<FromShard>,
    courses: Vec<Course>,
    /// Campaigns that came to requests since it was told last.
    came: Vec<Slot>,
    /// As they were counted last.
    counts: Counts,
}

/// Room in which campaigns of the house are searched, and for what they answer.
#[derive(Debug, Default)]
struct Search {
    room: Room,
    answers: Vec<HouseAnswer>,
}

/// How a campaign of the house bids here.
#[derive(Clone, Copy, Debug)]
struct Course {
    pace: Pace,
    seen: Seen,
    /// Whether it stands among those that came.
    is_listed: bool,
}

/// The errands of all shards: where each is given, and where each is done.
pub(crate) fn errands(shards: usize) -> (Vec<mpsc::Sender<Errand>>, Vec<mpsc::Receiver<Errand>>) {
    (0..shards).map(|_| mpsc::channel(ERRANDS_MAX)).unzip()
}

impl Purse {
    /// With all the memory that its reservations will ever take.
    ///
    /// # Errors
    /// An option out of its range.
    pub fn new(
        line: Line,
        bank: Bank,
        peers: Vec<mpsc::Sender<Errand>>,
        is_durable: IsDurable,
    ) -> Result<Self, OptionsError> {
        let Line { from_ledger, to_ledger, options } = line;
        let shard = Shard::new(&options)?;
        let open = Open {
            shard,
            from_ledger,
            to_ledger,
            courses: Vec::new(),
            came: Vec::new(),
            counts: Counts::default(),
        };
        let is_durable = (is_durable, Cell::new(true));
        let (open, search) = (RefCell::new(open), RefCell::default());
        Ok(Self { bank, ttls: options.ttls, open, search, peers, is_durable })
    }

    /// What campaigns of the house answer.
    pub fn bid(&self, house: &Catalogue, asked: (&Auction<'_>, &Ask)) -> HouseAnswer {
        let Search { room, answers } = &mut *self.search.borrow_mut();
        let mut answer = answers.pop().unwrap_or_default();
        house.bid(asked, &mut Deciding::new(self, asked.0.id), room, &mut answer);
        answer
    }

    /// Keeps the room of an answer for another.
    pub fn keep(&self, answer: HouseAnswer) {
        let answers = &mut self.search.borrow_mut().answers;
        if answers.len() < ANSWERS_MAX {
            answers.push(answer);
        }
    }

    /// Reserves `amount` for a win that may be billed for so long; longer than any reservation lasts,
    /// and it is billed late.
    ///
    /// # Errors
    /// Why it may not be spent.
    pub fn reserve(&self, slot: Slot, amount: Nanos, billable_s: u32) -> Result<Token, Refusal> {
        if (self.bank.is_halted)() || !self.is_durable.1.get() {
            return Err(Refusal::LedgerUnavailable);
        }
        let ttl = self.class_of(billable_s);
        let reserved = self.open.borrow_mut().shard.reserve(slot, amount, ttl, self.now());
        reserved.map_err(Denial::refusal)
    }

    /// The shortest time to live that is long enough, or else the longest.
    fn class_of(&self, billable_s: u32) -> TtlClass {
        let wanted = Duration::from_secs(billable_s.into());
        let class = self.ttls.partition_point(|ttl| *ttl < wanted).min(self.ttls.len() - 1);
        TtlClass(u8::try_from(class).expect("classes are few"))
    }

    /// A reservation as it rides in a beacon.
    pub fn seal(&self, token: &Token) -> TokenText {
        self.bank.key.seal(token)
    }

    /// What was reserved here is not needed.
    pub fn give_back(&self, token: &Token) {
        self.errand(Errand::Release(*token));
    }

    /// A billable event is durable: what was reserved for it is spent. To be called once for each.
    pub fn settle(&self, reservation: &Reservation) {
        self.send(reservation, Errand::Settle);
    }

    /// What was reserved was lost elsewhere. Unless it is called the reservation expires.
    pub fn release(&self, reservation: &Reservation) {
        self.send(reservation, Errand::Release);
    }

    /// Sends an errand to the shard that it concerns. Tokens of another node or an earlier start
    /// concern none: the durable log has told the ledger.
    fn send(&self, reservation: &Reservation, errand: fn(Token) -> Errand) {
        // It was sealed in a beacon's token, which was opened: a failure is another process's key.
        let Ok(token) = self.bank.key.open(reservation.token.as_str().as_bytes()) else { return };
        let (own, origin) = (self.open.borrow().shard.origin(), token.origin());
        let is_ours = (own.node, own.epoch) == (origin.node, origin.epoch);
        let peer = self.peers.get(usize::from(origin.shard)).filter(|_| own.shard != origin.shard);
        let Some(peer) = peer.filter(|_| is_ours) else { return self.errand(errand(token)) };
        if let Err(mpsc::error::TrySendError::Full(errand)) = peer.try_send(errand(token)) {
            let peer = peer.clone();
            tokio::task::spawn_local(async move {
                // It ends with the process, and the next start reads the log.
                let _ended = peer.send(errand).await;
            });
        }
    }

    /// Does what concerns this shard.
    pub fn errand(&self, errand: Errand) {
        let shard = &mut self.open.borrow_mut().shard;
        let now = self.now().tick;
        match errand {
            Errand::Settle(token) => {
                // A rejected one is counted there; the ledger knows it by the log.
                if let Ok(claim) = shard.claim(&token, now) {
                    shard.settle(claim, token.amount());
                }
            }
            Errand::Release(token) => {
                let _rejected = shard.release(&token, now);
            }
        }
    }

    /// Takes what the ledger tells, and tells it what has become of its rights. To be called every
    /// [`TURN`].
    pub fn turn(&self, metrics: &ExchangeMetrics) {
        let now = self.now();
        let (is_durable, seen) = &self.is_durable;
        seen.set(is_durable());
        let open = &mut *self.open.borrow_mut();
        while let Ok(message) = open.from_ledger.pop() {
            open.take(message);
        }
        open.shard.advance(now.tick);
        open.tell();
        let counts = *open.shard.counts();
        let untaken = counts.untaken - open.counts.untaken;
        if untaken > 0 {
            error!(untaken, "rights strand at a shard without room: raise budgets.campaigns_max");
        }
        metrics.purse.add(&open.counts, &counts);
        open.counts = counts;
    }

    fn now(&self) -> Moment {
        let quarter = u32::try_from(unix_ms() / QUARTER_MS).expect("quarters fit until 124,000");
        Moment { tick: Tick::ZERO.after(self.bank.origin.elapsed()), quarter }
    }
}

impl fmt::Debug for Purse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Purse").field("open", &self.open).finish_non_exhaustive()
    }
}

impl Open {
    fn take(&mut self, message: ToShard) {
        match message {
            // What is not taken is counted, and strands.
            ToShard::Grant(grant) => drop(self.shard.take(&grant)),
            ToShard::Gate(gate) => drop(self.shard.take_gate(&gate)),
            ToShard::Pace(slot, pace) => self.course(slot).pace = pace,
        }
    }

    fn course(&mut self, slot: Slot) -> &mut Course {
        let index = usize::try_from(slot.0).expect("an index has 32 bits");
        if self.courses.len() <= index {
            let course = Course { pace: Pace::FULL, seen: Seen::default(), is_listed: false };
            self.courses.resize(index + 1, course);
        }
        &mut self.courses[index]
    }

    /// As much as the ring has room for; the rest stays to be told.
    fn tell(&mut self) {
        while self.to_ledger.slots() > 0 {
            let report = self.shard.report().next().map(FromShard::Report);
            let message = report.or_else(|| self.shard.want().next().map(FromShard::Want));
            let Some(message) = message.or_else(|| self.seen()) else { return };
            self.to_ledger.push(message).expect("there is room");
        }
    }

    fn seen(&mut self) -> Option<FromShard> {
        let slot = self.came.pop()?;
        let course = self.course(slot);
        course.is_listed = false;
        Some(FromShard::Seen(slot, course.seen))
    }
}

/// Decides for the house's campaigns in one auction.
pub(crate) struct Deciding<'p> {
    purse: &'p Purse,
    /// By which requests are told apart: the auction's id.
    id: &'p str,
    at: Moment,
}

impl<'p> Deciding<'p> {
    pub fn new(purse: &'p Purse, id: &'p str) -> Self {
        Self { purse, id, at: purse.now() }
    }
}

impl Desk for Deciding<'_> {
    fn decide(&mut self, slot: Slot, value: Cpm, is_fixed: bool) -> Result<Cpm, Refusal> {
        let open = &mut *self.purse.open.borrow_mut();
        let course = open.course(slot);
        course.seen.requests += 1;
        let is_listed = std::mem::replace(&mut course.is_listed, true);
        // Most strategies look at all requests, and need no draw.
        let draw = if course.pace.threshold() == u64::MAX {
            0
        } else {
            self.purse.bank.draw.draw(self.id.as_bytes(), slot.0.into())
        };
        let decided = decide(course.pace, value, draw);
        let decided = decided.map(|price| if is_fixed { value } else { price });
        // Who has no money bids nothing, and stands in nobody's way. A CPM in micros is the nanos of one
        // impression.
        let decided = decided.and_then(|price| {
            let amount = Nanos::new(price.micros());
            open.shard.may_reserve(slot, amount, self.at).map(|()| price)
        });
        open.course(slot).seen.bids += u64::from(decided.is_ok());
        if !is_listed {
            open.came.push(slot);
        }
        decided
    }
}

#[cfg(test)]
mod tests;
