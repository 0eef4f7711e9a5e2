//! Seeded runs with store faults, restarts, clock jumps and changing definitions, all checked.

#![expect(clippy::cast_possible_truncation, reason = "numbers below a handful")]

mod checks;

use std::collections::BTreeMap;
use std::time::Duration;

use units::{Currency, Nanos, Ppm, SplitMix64, Tick};

use super::plain::{PlainShard, Reservation};
use crate::calendar::QUARTER_MS;
use crate::calendar::tests::steady;
use crate::ledger::settings::LedgerSettings;
use crate::ledger::step::{LedgerInput, LedgerOutbox, LedgerTime, SettlementRecord};
use crate::ledger::{
    AccountId, AccountTerms, BudgetLimits, CampaignBudget, CampaignTerms, Daypart, Holdback,
    Ledger, LimitOwner, LimitSpan, Money, ZoneId,
};
use crate::messages::{CampaignIndex, Epoch};
use crate::store::{Batch, CommitOutcome, EpochLifetime, Lease, LeaseKey, StoreWriter};

const SHARDS: u16 = 3;
const CAMPAIGNS: u32 = 4;
const FIRST_DAY: u32 = 20_600;
const DAY_MS: u64 = 86_400_000;
const SECOND: u64 = 1_000_000_000;
const HORIZON: u64 = 20 * SECOND;
/// How long after its expiry a win may come.
const LATE: u64 = 20 * SECOND;
/// East of UTC, in quarters of an hour: Kathmandu, New York.
const OFFSETS: [i64; 2] = [23, -20];

/// Events besides bidding: chances in a thousand per step.
#[derive(Clone, Copy, Debug)]
pub struct Chances {
    pub refused: u64,
    pub unknown: u64,
    pub crash: u64,
    pub edit: u64,
    pub jump: u64,
}

pub const CALM: Chances = Chances { refused: 0, unknown: 0, crash: 0, edit: 0, jump: 0 };
pub const ROUGH: Chances = Chances { refused: 150, unknown: 250, crash: 6, edit: 25, jump: 25 };

pub struct Dice(SplitMix64);

impl Dice {
    pub fn below(&mut self, most: u64) -> u64 {
        self.0.bits() % most
    }

    fn happens(&mut self, in_a_thousand: u64) -> bool {
        self.below(1000) < in_a_thousand
    }
}

/// Expected totals, by owner and span.
type Totals = BTreeMap<(u8, u32, u8, u64), u64>;

pub struct World {
    dice: Dice,
    chances: Chances,
    ledger: Ledger,
    shards: Vec<PlainShard>,
    tick: u64,
    unix_ms: u64,
    latest_unix_ms: u64,
    epoch: u32,
    step: u64,
    /// Messages to the ledger, with the step of their arrival.
    mail: Vec<(u64, LedgerInput)>,
    durable: BTreeMap<LeaseKey, Lease>,
    lives: BTreeMap<Epoch, EpochLifetime>,
    applied_seq: u64,
    /// Leases of batches with an unknown outcome: durable now, later or never.
    maybe: BTreeMap<LeaseKey, Lease>,
    pending: Option<(u64, Batch, CommitOutcome, bool)>,
    delayed: Vec<(u64, Batch)>,
    log: Vec<SettlementRecord>,
    /// By record: the part paid from an unexpired reservation.
    in_time: Vec<u64>,
    is_late_told: bool,
    told: usize,
    replay_to: usize,
    replay_at: u64,
    is_replayed: bool,
    ghosts: Vec<(Epoch, Reservation)>,
    accounts: Vec<AccountTerms>,
    campaigns: Vec<CampaignTerms>,
    known_accounts: Vec<AccountTerms>,
    known_campaigns: Vec<CampaignTerms>,
    most: Totals,
    outbox: LedgerOutbox,
    ahead: usize,
}

fn money(amount: u64) -> Option<Money> {
    Some(Money { amount: Nanos::new(amount), currency: Currency::USD })
}

fn limits(life: u64, day: u64, hour: u64) -> BudgetLimits {
    BudgetLimits { life: money(life), day: money(day), hour: money(hour) }
}

fn settings(epoch: u32, is_late_told: bool) -> LedgerSettings {
    LedgerSettings {
        // Plus the delay of a timely win through the log.
        horizon: Duration::from_nanos(HORIZON + 8 * SECOND),
        late_window: Duration::from_secs(30),
        patience: Duration::from_secs(3),
        is_lateness_recorded: is_late_told,
        // A run takes days, and folds no hour.
        hours_kept: Duration::MAX,
        ..LedgerSettings::new(1, Epoch(epoch), SHARDS)
    }
}

impl World {
    #[expect(clippy::too_many_lines, reason = "the definitions of one world")]
    pub fn new(seed: u64, chances: Chances) -> Self {
        let unix_ms = u64::from(FIRST_DAY + 1) * DAY_MS + 7 * QUARTER_MS;
        let now = LedgerTime { tick: Tick::from_nanos(SECOND), unix_ms };
        let account = |id: u32, limits| AccountTerms {
            id: AccountId(id),
            version: 1,
            currency: Currency::USD,
            zone: ZoneId(id),
            limits,
            late_holdback: Holdback::default(),
            is_paused: false,
        };
        let accounts = vec![
            account(0, limits(6_000, 1_500, 700)),
            account(1, BudgetLimits { life: money(5_000), day: money(1_300), hour: None }),
        ];
        let campaign = |slot: u32, limits, late_holdback| CampaignTerms {
            slot: CampaignIndex(slot),
            version: 1,
            account: AccountId(slot % 2),
            budget: CampaignBudget {
                limits,
                start_unix_ms: 0,
                end_unix_ms: u64::MAX,
                daypart: Daypart::ALWAYS,
                late_holdback,
                is_paused: false,
            },
        };
        let tenth = Holdback::Share(Ppm::new(100_000).expect("a share"));
        let campaigns = vec![
            campaign(0, limits(4_000, 900, 400), Holdback::default()),
            campaign(1, limits(3_000, 800, 500), tenth),
            campaign(2, BudgetLimits { life: money(4_000), day: money(1_000), hour: None }, tenth),
            campaign(
                3,
                BudgetLimits { life: money(2_500), ..BudgetLimits::default() },
                Holdback::default(),
            ),
        ];
        let mut world = Self {
            dice: Dice(SplitMix64::new(seed)),
            chances,
            ledger: Ledger::new(settings(1, seed.is_multiple_of(2)), now, [], 0),
            shards: Vec::new(),
            tick: SECOND,
            unix_ms,
            latest_unix_ms: unix_ms,
            epoch: 1,
            step: 0,
            mail: Vec::new(),
            durable: BTreeMap::new(),
            lives: BTreeMap::new(),
            applied_seq: 0,
            maybe: BTreeMap::new(),
            pending: None,
            delayed: Vec::new(),
            log: Vec::new(),
            in_time: Vec::new(),
            is_late_told: seed.is_multiple_of(2),
            told: 0,
            replay_to: 0,
            replay_at: 0,
            is_replayed: false,
            ghosts: Vec::new(),
            known_accounts: accounts.clone(),
            known_campaigns: campaigns.clone(),
            accounts,
            campaigns,
            most: Totals::new(),
            outbox: LedgerOutbox::default(),
            ahead: 0,
        };
        world.note_limits();
        world.start();
        world
    }

    fn start(&mut self) {
        self.shards = (0..SHARDS).map(|_| PlainShard::default()).collect();
        self.mail.clear();
        self.maybe.clear();
        self.pending = None;
        self.delayed.clear();
        self.latest_unix_ms = self.unix_ms;
        let now = self.now();
        let leases = self.durable.clone();
        let lives = self.lives.iter().map(|(epoch, life)| {
            let writer = StoreWriter { node: 1, epoch: *epoch };
            (writer, *life)
        });
        let settings = settings(self.epoch, self.is_late_told);
        self.ledger =
            Ledger::new(settings, now, leases, self.applied_seq).with_epoch_lifetimes(lives);
        for (zone, offset) in (0u32..).zip(OFFSETS) {
            let calendar = steady(FIRST_DAY - 1, 40, offset);
            self.mail.push((self.step, LedgerInput::Calendar(ZoneId(zone), calendar)));
        }
        let accounts = self.accounts.iter().map(|it| LedgerInput::Account(*it));
        let campaigns = self.campaigns.iter().map(|it| LedgerInput::Campaign(*it));
        self.mail.extend(accounts.chain(campaigns).map(|it| (self.step, it)));
        (self.told, self.replay_to, self.is_replayed) = (0, self.log.len(), false);
        let is_slow = self.dice.happens(400);
        self.replay_at = if is_slow { self.tick + HORIZON + 5 * SECOND } else { 0 };
    }

    fn crash(&mut self) {
        if let Some((_, batch, _, true)) = self.pending.take() {
            self.apply(&batch);
        }
        for shard in &mut self.shards {
            let open = shard.open.drain(..).map(|it| (Epoch(self.epoch), it));
            self.ghosts.extend(open);
        }
        self.epoch += 1;
        self.start();
    }

    fn now(&self) -> LedgerTime {
        LedgerTime { tick: Tick::from_nanos(self.tick), unix_ms: self.unix_ms }
    }

    pub fn run(&mut self) {
        self.step += 1;
        self.pass_time();
        if self.dice.happens(self.chances.crash) {
            self.crash();
        }
        self.bid();
        self.win();
        self.edit();
        self.check_authorised();
        self.talk();
        self.let_store_answer();
        let inbox = self.inbox();
        self.note_known(&inbox);
        self.outbox.clear();
        let now = self.now();
        self.ledger.step(now, inbox, &mut self.outbox);
        self.check_sums();
        self.check_grants();
        self.ahead += self.count_ahead();
        self.submit();
        self.deliver();
    }

    fn pass_time(&mut self) {
        let passed = SECOND / 20 + self.dice.below(SECOND / 2);
        self.tick += passed;
        self.unix_ms += passed / 1_000_000;
        if self.dice.happens(self.chances.jump) {
            let quarters = self.dice.below(8) * QUARTER_MS;
            // Timely wins reach the ledger within the horizon.
            let is_told = !self.is_replayed || self.told == self.log.len();
            match self.dice.below(6) {
                0 => self.unix_ms -= quarters / 2,
                1 => self.unix_ms += quarters,
                2..6 if !is_told => (),
                2 | 3 => {
                    // To shortly before hours end.
                    let left = QUARTER_MS - self.unix_ms % QUARTER_MS;
                    let passed = left.saturating_sub(self.dice.below(6_000));
                    self.tick += passed * 1_000_000;
                    self.unix_ms += passed;
                }
                _ => {
                    self.tick += quarters * 1_000_000;
                    self.unix_ms += quarters;
                }
            }
        }
        self.latest_unix_ms = self.latest_unix_ms.max(self.unix_ms);
        for shard in &mut self.shards {
            shard.tick(self.tick);
            let tick = self.tick;
            shard.expired.retain(|it| tick <= it.expires_at + LATE);
        }
    }

    fn bid(&mut self) {
        let unix_ms = self.unix_ms.max(self.ledger.now().unix_ms);
        let at = (self.tick, unix_ms / QUARTER_MS);
        for shard in &mut self.shards {
            for _ in 0..self.dice.below(6) {
                let most = if self.dice.happens(300) { 2 } else { 40 };
                let amount = 1 + self.dice.below(most);
                let slot =
                    CampaignIndex(u32::try_from(self.dice.below(CAMPAIGNS.into())).expect("small"));
                let expires_at = self.tick + SECOND + self.dice.below(HORIZON - SECOND);
                shard.reserve(slot, amount, at, expires_at);
            }
        }
    }

    fn win(&mut self) {
        let is_bad = self.chances.crash > 0;
        for at in 0..self.shards.len() {
            while !self.shards[at].open.is_empty() && self.dice.happens(500) {
                let which = self.dice.below(self.shards[at].open.len() as u64) as usize;
                let amount = self.shards[at].open[which].amount;
                let price = match self.dice.below(8) {
                    0 => 1 + self.dice.below(amount),
                    1 if is_bad => amount + self.dice.below(3),
                    _ => amount,
                };
                let (won, paid, over) = self.shards[at].win(which, price, self.tick);
                self.record(Epoch(self.epoch), &won, (paid, 0, over));
            }
            if is_bad && !self.shards[at].expired.is_empty() && self.dice.happens(20) {
                let price = self.shards[at].expired[0].amount;
                let won = self.shards[at].win_late(0, price);
                self.record(Epoch(self.epoch), &won, (0, price, 0));
            }
        }
        let mut at = 0;
        while at < self.ghosts.len() {
            let (epoch, won) = self.ghosts[at];
            let is_in_time = self.tick < won.expires_at;
            if won.expires_at + LATE < self.tick {
                self.ghosts.swap_remove(at);
            } else if self.dice.happens(if is_in_time { 60 } else { 5 }) {
                self.ghosts.swap_remove(at);
                let paid = if is_in_time { won.amount } else { 0 };
                self.record(epoch, &won, (paid, won.amount - paid, 0));
            } else {
                at += 1;
            }
        }
    }

    fn record(&mut self, epoch: Epoch, won: &Reservation, cost: (u64, u64, u64)) {
        let key = LeaseKey { slot: won.slot, period: won.period, node: 1, epoch };
        self.in_time.push(cost.0);
        let (settled, late, over) =
            if self.is_late_told { cost } else { (cost.0 + cost.1 + cost.2, 0, 0) };
        self.log.push(SettlementRecord {
            seq: self.log.len() as u64 + 1,
            key,
            settled: Nanos::new(settled),
            late: Nanos::new(late),
            over: Nanos::new(over),
            currency: Currency::USD,
        });
    }

    /// Changes a limit now and then, with late, repeated and reordered messages.
    fn edit(&mut self) {
        if !self.dice.happens(self.chances.edit) {
            return;
        }
        let other = |dice: &mut Dice, limit: Option<Money>| {
            limit.map(|limit| {
                let times = 5 + dice.below(10);
                Money { amount: Nanos::new(limit.amount.get() * times / 10 + 1), ..limit }
            })
        };
        let which = self.dice.below(u64::from(CAMPAIGNS) + 2) as usize;
        let (limits, version) = match self.campaigns.get_mut(which) {
            Some(campaign) => (&mut campaign.budget.limits, &mut campaign.version),
            None => {
                let account = &mut self.accounts[which - CAMPAIGNS as usize];
                (&mut account.limits, &mut account.version)
            }
        };
        *version += 1;
        match self.dice.below(3) {
            0 => limits.life = other(&mut self.dice, limits.life),
            1 => limits.day = other(&mut self.dice, limits.day),
            _ => limits.hour = other(&mut self.dice, limits.hour),
        }
        self.note_limits();
        let message = match self.campaigns.get(which) {
            Some(campaign) => LedgerInput::Campaign(*campaign),
            None => LedgerInput::Account(self.accounts[which - CAMPAIGNS as usize]),
        };
        for _ in 0..=self.dice.below(2) {
            let at = self.step + self.dice.below(12);
            self.mail.push((at, message.clone()));
        }
    }

    /// Delivers shards' messages, sometimes late or twice.
    fn talk(&mut self) {
        for (number, shard) in (0u16..).zip(&mut self.shards) {
            let reports = shard.reports().into_iter().map(|it| LedgerInput::Report(number, it));
            let wants = shard.wants().into_iter().map(|it| LedgerInput::Refill(number, it));
            for message in reports.chain(wants) {
                for _ in 0..=self.dice.below(5) / 4 {
                    let delay = if self.dice.happens(200) { self.dice.below(6) } else { 0 };
                    self.mail.push((self.step + delay, message.clone()));
                }
            }
        }
    }

    fn inbox(&mut self) -> Vec<LedgerInput> {
        let (due, later) = self.mail.drain(..).partition(|(at, _)| *at <= self.step);
        self.mail = later;
        let due: Vec<(u64, LedgerInput)> = due;
        let mut inbox: Vec<_> = due.into_iter().map(|(_, message)| message).collect();
        let is_start = matches!(inbox.first(), Some(LedgerInput::Calendar(..)));
        if !is_start && inbox.len() > 1 {
            let at = self.dice.below(inbox.len() as u64) as usize;
            inbox.rotate_left(at);
            inbox.reverse();
        }
        let is_waiting = !self.is_replayed && self.tick < self.replay_at;
        if is_waiting || self.dice.happens(300) {
            return inbox;
        }
        let again = self.dice.below(8).saturating_sub(4) as usize;
        let from = self.told.saturating_sub(again);
        inbox.extend(self.log[from..].iter().copied().map(LedgerInput::Settlement));
        self.told = self.log.len();
        if !self.is_replayed && self.replay_to <= self.told {
            inbox.push(LedgerInput::Replayed);
            self.is_replayed = true;
        }
        inbox
    }

    fn note_known(&mut self, inbox: &[LedgerInput]) {
        for message in inbox {
            match message {
                LedgerInput::Account(it) => {
                    let known = &mut self.known_accounts[it.id.0 as usize];
                    *known = if it.version > known.version { *it } else { *known };
                }
                LedgerInput::Campaign(it) => {
                    let known = &mut self.known_campaigns[it.slot.0 as usize];
                    *known = if it.version > known.version { *it } else { *known };
                }
                _ => (),
            }
        }
    }

    fn apply(&mut self, batch: &Batch) {
        merge(&mut self.durable, &batch.leases);
        let life = self.lives.entry(Epoch(self.epoch)).or_default();
        *life = life.latest(batch.life);
        self.lives = self.lives.split_off(&batch.lifetimes_from);
        self.applied_seq = self.applied_seq.max(batch.applied_seq);
    }

    fn submit(&mut self) {
        let Some(batch) = self.outbox.batch.take() else { return };
        assert!(self.pending.is_none(), "one batch at a time");
        self.check_batch(&batch);
        let chance = self.dice.below(1000);
        let (ended, is_applied) = if chance < self.chances.refused {
            (CommitOutcome::Refused, false)
        } else if chance < self.chances.refused + self.chances.unknown {
            merge(&mut self.maybe, &batch.leases);
            if self.dice.happens(300) {
                self.delayed.push((self.step + self.dice.below(30), batch.clone()));
            }
            (CommitOutcome::Unknown, self.dice.happens(500))
        } else {
            (CommitOutcome::Committed, true)
        };
        let answers_at = self.step + 1 + self.dice.below(4);
        self.pending = Some((answers_at, batch, ended, is_applied));
    }

    fn let_store_answer(&mut self) {
        for (at, batch) in std::mem::take(&mut self.delayed) {
            if at <= self.step {
                self.apply(&batch);
            } else {
                self.delayed.push((at, batch));
            }
        }
        let Some((at, batch, ended, is_applied)) = self.pending.take() else { return };
        if self.step < at {
            self.pending = Some((at, batch, ended, is_applied));
            return;
        }
        if is_applied {
            self.apply(&batch);
        }
        self.mail.push((self.step, LedgerInput::Ended(batch.number, ended)));
        self.mail.push((self.step + 3, LedgerInput::Ended(batch.number, CommitOutcome::Committed)));
    }

    fn deliver(&mut self) {
        for (shard, gate) in &self.outbox.gates {
            self.shards[usize::from(*shard)].take_gate(*gate);
        }
        for (shard, grant) in &self.outbox.grants {
            self.shards[usize::from(*shard)].take_grant(grant);
        }
    }

    /// Ends all faults; every budget is then spent as far as its account allows.
    pub fn heal(&mut self) {
        self.chances = CALM;
        while self.told < self.log.len() {
            self.run();
        }
        // Far from the end of an hour.
        let passed = QUARTER_MS - self.unix_ms % QUARTER_MS + 60_000;
        self.tick += passed * 1_000_000;
        self.unix_ms += passed;
        for _ in 0..4 {
            // A new day in every zone; outstanding reservations expire.
            self.tick += DAY_MS * 1_000_000;
            self.unix_ms = self.latest_unix_ms + DAY_MS;
            for _ in 0..400 {
                self.run();
            }
        }
        for slot in 0..CAMPAIGNS {
            let why = self.ledger.why(CampaignIndex(slot));
            let levels = why.levels.expect("the calendar goes on");
            let is_short = levels.iter().any(|level| level.headroom() == Some(Nanos::ZERO));
            assert!(is_short, "campaign {slot} goes on: {why:?}");
            assert_eq!((why.frozen, why.ready), (Nanos::ZERO, Nanos::ZERO), "{why:?}");
        }
        // Then bidding ends, and the books are exact.
        for _ in 0..8 {
            self.tick += DAY_MS * 1_000_000;
            self.unix_ms += DAY_MS;
            for _ in 0..12 {
                self.step += 1;
                self.tick += SECOND;
                self.unix_ms += 1000;
                self.latest_unix_ms = self.unix_ms;
                for shard in &mut self.shards {
                    shard.tick(self.tick);
                }
                self.settle_step();
            }
        }
        self.check_books();
    }

    fn settle_step(&mut self) {
        self.talk();
        self.let_store_answer();
        let inbox = self.inbox();
        self.outbox.clear();
        let now = self.now();
        self.ledger.step(now, inbox, &mut self.outbox);
        self.check_sums();
        self.submit();
        self.deliver();
    }

    pub fn life(&self, slot: CampaignIndex) -> (u64, u64) {
        let why = self.ledger.why(slot);
        let levels = why.levels.expect("the calendar goes on");
        let of_life = |level: &&crate::ledger::LimitLevel| {
            (level.owner, level.span) == (LimitOwner::Campaign, LimitSpan::Life)
        };
        let level = levels.iter().find(of_life).expect("six levels");
        (level.exposure().get(), level.limit.map_or(u64::MAX, Nanos::get))
    }
}

fn merge(into: &mut BTreeMap<LeaseKey, Lease>, leases: &[(LeaseKey, Lease)]) {
    for (key, lease) in leases {
        let known = into.entry(*key).or_default();
        *known = Lease {
            granted: known.granted.max(lease.granted),
            returned: known.returned.max(lease.returned),
            settled: known.settled.max(lease.settled),
            late: known.late.max(lease.late),
            over: known.over.max(lease.over),
        };
    }
}

pub fn simulate(seed: u64, chances: Chances) -> World {
    let mut world = World::new(seed, chances);
    for _ in 0..600 {
        world.run();
    }
    world.heal();
    world
}

#[test]
fn never_beyond_a_limit_and_the_last_nano_is_spent() {
    let ahead: usize = (0..24).map(|seed| simulate(seed, ROUGH).ahead).sum();
    assert!(ahead >= 24, "{ahead} grants of hours that were to come");
}

/// Passing days, frequent changes, and repeated crashes.
const WEATHER: [Chances; 3] = [
    Chances { jump: 120, ..ROUGH },
    Chances { edit: 400, crash: 0, ..ROUGH },
    Chances { crash: 40, jump: 0, ..ROUGH },
];

#[test]
fn never_beyond_a_limit_in_any_weather() {
    for chances in WEATHER {
        for seed in 0..12 {
            simulate(seed, chances);
        }
    }
}

#[test]
fn without_faults_every_nano_is_spent_and_no_more() {
    for seed in 100..106 {
        let world = simulate(seed, CALM);
        // The accounts' limits are tighter: 6,000 and 5,000 are less than 8,000 and 5,500.
        let of_account =
            |at: u32| world.life(CampaignIndex(at)).0 + world.life(CampaignIndex(at + 2)).0;
        assert!(of_account(0) <= 6_000 && of_account(1) <= 5_000);
        for slot in 0..CAMPAIGNS {
            let (spent, limit) = world.life(CampaignIndex(slot));
            assert!(spent <= limit, "campaign {slot} of seed {seed}: {spent} of {limit}");
        }
    }
}
