//! The first millisecond of an hour: what is leased and granted before it, to real shards.

mod slices;

use std::time::Duration;

use units::{Nanos, Tick};

use super::refusals::{DAY, Desk, SECOND, SLOT, account, campaign, usd};
use crate::calendar::tests::{berlin_autumn, berlin_spring, lord_howe_spring, steady};
use crate::calendar::{Calendar, Period, QUARTER_MS};
use crate::ledger::settings::LedgerSettings;
use crate::ledger::step::{LedgerInput, LedgerReply};
use crate::ledger::{AccountTerms, BudgetLimits, CampaignBudget, CampaignTerms, Daypart, ZoneId};
use crate::messages::{BudgetGrant, CampaignIndex, Epoch, RefillRequest, SpendReport};
use crate::shard::token::{TokenOrigin, TtlClass};
use crate::shard::{ShardLedger, ShardOptions, ShardTime};
use crate::store::{CommitOutcome, Lease, LeaseKey};

pub const PRICE: Nanos = Nanos::new(10);

/// A ledger and its shards, which exchange messages every tenth of a second.
pub struct Pacer {
    pub desk: Desk,
    shards: Vec<ShardLedger>,
    heard: (usize, usize),
    said: Vec<Period>,
}

impl Pacer {
    pub fn before(unix_ms: u64, seconds: u64, calendar: Calendar, terms: Terms) -> Self {
        let Terms { account, campaign } = terms;
        let mut desk = Desk::new(2);
        desk.unix_ms = unix_ms - seconds * 1000;
        desk.ledger.now.unix_ms = desk.unix_ms;
        let options = |shard| ShardOptions {
            origin: TokenOrigin { node: 1, epoch: Epoch(1), shard },
            ttls: vec![Duration::from_secs(60)],
            late_window: Duration::from_secs(60),
            slots_max: 4,
            books_max: 16,
            reservations_max: 4096,
            lines_max: 1024,
        };
        let shards = (0..2)
            .map(|shard| ShardLedger::new(&options(shard)).expect("they are in range"))
            .collect();
        let mut pacer = Self { desk, shards, heard: (0, 0), said: Vec::new() };
        pacer.desk.step(vec![
            LedgerInput::Calendar(ZoneId(1), calendar),
            LedgerInput::Account(AccountTerms { zone: ZoneId(1), ..account }),
            LedgerInput::Campaign(campaign),
        ]);
        pacer.step();
        pacer
    }

    fn moment(&self) -> ShardTime {
        let quarter = u32::try_from(self.desk.unix_ms / QUARTER_MS).expect("before 2100");
        ShardTime { tick: Tick::from_nanos(self.desk.tick), quarter }
    }

    /// A bid that is won at once. Returns whether there was budget.
    pub fn bid(&mut self, shard: usize) -> bool {
        let at = self.moment();
        let shard = &mut self.shards[shard];
        let Ok(token) = shard.reserve(SLOT, PRICE, TtlClass(0), at) else { return false };
        let claim = shard.claim(&token, at.tick).expect("it is open");
        shard.settle(claim, PRICE);
        true
    }

    fn step(&mut self) {
        let mut inbox = Vec::new();
        for (number, shard) in (0u16..).zip(&mut self.shards) {
            shard.advance(Tick::from_nanos(self.desk.tick));
            inbox.extend(shard.report().map(|report| LedgerInput::Report(number, report)));
            inbox.extend(shard.want().map(|want| LedgerInput::Refill(number, want)));
        }
        self.desk.saved.clear();
        self.desk.step(inbox);
        self.said.extend(self.desk.saved.iter().map(|(key, _)| key.period));
        for (to, gate) in &self.desk.gates[self.heard.0..] {
            self.shards[usize::from(*to)].take_gate(gate).expect("there is room");
        }
        for (to, grant) in &self.desk.grants[self.heard.1..] {
            self.shards[usize::from(*to)].take(grant).expect("there is room");
        }
        self.heard = (self.desk.gates.len(), self.desk.grants.len());
    }

    /// Advances the time, with a bid every tenth of a second at these shards.
    pub fn pass(&mut self, ms: u64, bidding: &[usize]) {
        for _ in 0..ms / 100 {
            for shard in bidding {
                self.bid(*shard);
            }
            self.desk.tick += SECOND / 10;
            self.desk.unix_ms += 100;
            self.step();
        }
    }

    fn has_said(&self, unix_ms: u64) -> bool {
        self.said.iter().any(|period| u64::from(period.0) * QUARTER_MS == unix_ms)
    }

    fn exposure(&self) -> u64 {
        self.desk.ledger.why(SLOT).levels.expect("an hour")[0].exposure().get()
    }
}

#[derive(Clone, Copy)]
pub struct Terms {
    account: AccountTerms,
    campaign: CampaignTerms,
}

pub fn terms(limits: BudgetLimits) -> Terms {
    Terms {
        account: account(),
        campaign: CampaignTerms {
            budget: CampaignBudget { limits, ..campaign().budget },
            ..campaign()
        },
    }
}

/// Bids until an hour begins at `unix_ms`; then counts the shards that can reserve at once, before
/// the ledger sees that hour. Useless budget is not leased.
#[track_caller]
fn check(unix_ms: u64, calendar: Calendar, terms: Terms, want: bool) -> (Pacer, usize) {
    let mut pacer = Pacer::before(unix_ms, 20, calendar, terms);
    pacer.pass(20_000, &[0, 1]);
    assert_eq!(pacer.desk.unix_ms, unix_ms);
    assert_eq!(pacer.has_said(unix_ms), want, "leased ahead");
    let ready = [0, 1].into_iter().filter(|shard| pacer.bid(*shard)).count();
    assert_eq!(ready > 0, want, "{:?}", pacer.desk.ledger.why(SLOT));
    let durable_before = pacer.desk.batches;
    pacer.pass(4_000, &[0, 1]);
    assert!(!want || pacer.desk.batches > durable_before, "and it goes on");
    (pacer, ready)
}

pub const NOON: u64 = (DAY as u64 * 96 + 48) * QUARTER_MS;
const MIDNIGHT: u64 = (DAY as u64 + 1) * 96 * QUARTER_MS;

#[test]
fn at_the_first_millisecond_of_an_hour_shards_can_reserve() {
    let plenty = terms(BudgetLimits { life: usd(1_000_000), day: usd(100_000), hour: usd(50_000) });
    let begin = |calendar: &Calendar, row: usize| calendar.from(0)[row].start_unix_ms;
    let zones = [
        ("UTC", steady(DAY - 1, 4, 0), NOON),
        ("UTC, midnight", steady(DAY - 1, 4, 0), MIDNIGHT),
        ("Kolkata", steady(DAY - 1, 4, 22), NOON + 2 * QUARTER_MS),
        ("Kathmandu", steady(DAY - 1, 4, 23), NOON + QUARTER_MS),
        ("Kathmandu, midnight", steady(DAY - 1, 4, 23), MIDNIGHT - 23 * QUARTER_MS),
        ("Berlin, 01:00 to 03:00", berlin_spring(), begin(&berlin_spring(), 2)),
        ("Berlin, behind 23 hours", berlin_spring(), begin(&berlin_spring(), 23)),
        ("Berlin, 02:00 once more", berlin_autumn(), begin(&berlin_autumn(), 3)),
        ("Berlin, behind 25 hours", berlin_autumn(), begin(&berlin_autumn(), 25)),
        ("Lord Howe, half an hour", lord_howe_spring(), begin(&lord_howe_spring(), 2)),
        ("Lord Howe, behind it", lord_howe_spring(), begin(&lord_howe_spring(), 3)),
    ];
    for (name, calendar, unix_ms) in zones {
        let (pacer, ready) = check(unix_ms, calendar.clone(), plenty, true);
        assert_eq!(ready, 2, "{name}");
        let next = calendar.at(unix_ms).copied().expect("an hour");
        let hours = pacer.desk.ledger.spend(SLOT).expect("it is known").hours;
        let spent = hours.iter().find(|hour| hour.period == next.period).expect("it spends");
        assert!(spent.spent.get() >= 500, "{name}: {spent:?}, for it goes on without a break");
        let of_next = pacer.desk.grants.iter().filter(|(_, grant)| grant.period == next.period);
        let until = of_next.map(|(_, grant)| grant.until.nanos());
        let left_ms = next.end_unix_ms - pacer.desk.unix_ms;
        let end = pacer.desk.tick + left_ms * 1_000_000;
        assert!(until.clone().count() > 0 && until.into_iter().all(|at| at == end), "{name}");
    }
}

#[test]
fn what_is_not_open_in_that_hour_or_has_no_money_then_gets_nothing_ahead() {
    let day = || steady(DAY - 1, 4, 0);
    let open = terms(BudgetLimits::default());
    let of = |campaign| Terms { campaign, ..open };
    let c = open.campaign;
    let here = Daypart::NEVER.with(11);
    for (flight_end, daypart, want) in [
        (u64::MAX, Daypart::ALWAYS, true),
        (NOON, Daypart::ALWAYS, false),
        (NOON + 1, Daypart::ALWAYS, true),
        (u64::MAX, here, false),
        (u64::MAX, here.with(12), true),
        (u64::MAX, here.with(13), false),
    ] {
        check(
            NOON,
            day(),
            of(CampaignTerms {
                budget: CampaignBudget { end_unix_ms: flight_end, daypart, ..c.budget },
                ..c
            }),
            want,
        );
    }
    // Twenty seconds exceed each limit: its remainder in the next hour.
    let small = usd(300);
    let none = BudgetLimits::default();
    for (limits, unix_ms, want) in [
        (BudgetLimits { life: small, ..none }, NOON, false),
        (BudgetLimits { life: small, ..none }, MIDNIGHT, false),
        (BudgetLimits { day: small, ..none }, NOON, false),
        (BudgetLimits { day: small, ..none }, MIDNIGHT, true),
        (BudgetLimits { hour: small, ..none }, NOON, true),
        (BudgetLimits { hour: small, ..none }, MIDNIGHT, true),
        (BudgetLimits { day: small, life: small, hour: None }, MIDNIGHT, false),
        (BudgetLimits { day: small, life: usd(550), hour: None }, MIDNIGHT, true),
        (BudgetLimits { hour: small, day: small, life: None }, NOON, false),
    ] {
        let (pacer, _) = check(unix_ms, day(), terms(limits), want);
        let most = limits.life.map_or(u64::MAX, |life| life.amount.get());
        assert!(pacer.desk.ledger.spend(SLOT).expect("it is known").life.get() <= most);
        let account = AccountTerms { limits, ..account() };
        check(unix_ms, day(), Terms { account, ..open }, want);
    }
}

#[test]
fn what_opens_with_the_hour_is_leased_before_and_granted_with_its_gate() {
    let c = campaign();
    let daypart = Daypart::NEVER.with(10).with(12);
    let plenty = BudgetLimits { life: usd(1_000_000), ..BudgetLimits::default() };
    let open = Terms {
        account: account(),
        campaign: CampaignTerms {
            budget: CampaignBudget { daypart, limits: plenty, ..c.budget },
            ..c
        },
    };
    let hour_ms = 4 * QUARTER_MS;
    for is_paused in [true, false] {
        let mut pacer = Pacer::before(NOON - hour_ms, 20, steady(DAY - 1, 4, 0), open);
        pacer.pass(30_000, &[0, 1]);
        pacer.desk.unix_ms += hour_ms - 20_000;
        pacer.desk.tick += (hour_ms - 20_000) * 1_000_000;
        pacer.pass(9_000, &[0, 1]);
        let is_granted =
            |(_, grant): &(u16, BudgetGrant)| u64::from(grant.period.0) * QUARTER_MS == NOON;
        assert!(!pacer.desk.grants.iter().any(is_granted), "who is recalled sends it back");
        let spent = pacer.desk.ledger.spend(SLOT).expect("it is known").life.get();
        assert!(pacer.has_said(NOON) && pacer.exposure() > spent);
        if is_paused {
            let paused = CampaignTerms {
                version: 2,
                budget: CampaignBudget { is_paused, ..open.campaign.budget },
                ..open.campaign
            };
            pacer.desk.step(vec![LedgerInput::Campaign(paused)]);
            assert_eq!(pacer.exposure(), spent, "at once");
            continue;
        }
        pacer.pass(1_000, &[0, 1]);
        assert_eq!(pacer.desk.unix_ms, NOON);
        assert!(pacer.bid(0) && pacer.bid(1), "the last step has opened it");
    }
}

#[test]
fn what_is_paused_in_the_last_second_gives_all_of_it_back() {
    let plenty = terms(BudgetLimits { life: usd(1_000_000), ..BudgetLimits::default() });
    let mut pacer = Pacer::before(NOON, 20, steady(DAY - 1, 4, 0), plenty);
    pacer.pass(19_500, &[0, 1]);
    let spent = |pacer: &Pacer| pacer.desk.ledger.spend(SLOT).expect("it is known").life.get();
    assert!(pacer.has_said(NOON) && pacer.exposure() > spent(&pacer));
    let paused = CampaignTerms {
        version: 2,
        budget: CampaignBudget { is_paused: true, ..plenty.campaign.budget },
        ..plenty.campaign
    };
    pacer.desk.step(vec![LedgerInput::Campaign(paused)]);
    pacer.pass(500, &[0, 1]);
    assert_eq!(pacer.desk.unix_ms, NOON);
    assert!(!pacer.bid(0) && !pacer.bid(1));
    pacer.pass(3_000, &[0, 1]);
    assert_eq!(pacer.exposure(), spent(&pacer));
}

#[test]
fn what_is_not_used_in_that_hour_comes_back_and_is_not_leased_again() {
    let plenty = terms(BudgetLimits { life: usd(1_000_000), ..BudgetLimits::default() });
    let mut pacer = Pacer::before(NOON, 20, steady(DAY - 1, 4, 0), plenty);
    pacer.pass(20_000, &[0]);
    let spent = pacer.desk.ledger.spend(SLOT).expect("it is known").life.get();
    pacer.pass(2_000, &[]);
    // About two seconds' worth, all of it at the shard that bids.
    let held = pacer.exposure() - spent;
    assert!((150..=1_000).contains(&held), "{held} of {spent} in 20 seconds");
    assert!(!pacer.bid(1) && pacer.bid(0));
    let hour_ms = 4 * QUARTER_MS;
    pacer.desk.unix_ms += hour_ms - 8_000;
    pacer.desk.tick += (hour_ms - 8_000) * 1_000_000;
    pacer.pass(8_000, &[]);
    assert!(pacer.has_said(NOON + hour_ms), "it was used once");
    for hours in 2..5 {
        pacer.desk.unix_ms += hour_ms - 8_000;
        pacer.desk.tick += (hour_ms - 8_000) * 1_000_000;
        pacer.pass(8_000, &[]);
        assert!(!pacer.has_said(NOON + hours * hour_ms), "nobody has bid for an hour");
    }
    assert_eq!(pacer.exposure(), spent + 10);
}

#[test]
fn a_batch_that_fails_is_said_again_and_a_limit_holds_all_the_same() {
    for (ended, failing_ms) in [(CommitOutcome::Refused, 1_900), (CommitOutcome::Unknown, 1_900)] {
        let limits = BudgetLimits { life: usd(1_000_000), day: usd(30_000), hour: None };
        let mut pacer = Pacer::before(NOON, 20, steady(DAY - 1, 4, 0), terms(limits));
        pacer.pass(16_500, &[0, 1]);
        pacer.desk.ended = ended;
        pacer.pass(failing_ms, &[0, 1]);
        pacer.desk.ended = CommitOutcome::Committed;
        pacer.pass(20_000 - 16_500 - failing_ms + 100, &[0, 1]);
        assert!(pacer.bid(0) && pacer.bid(1), "{ended:?}");
    }
}

#[test]
fn a_start_before_the_hour_for_which_something_is_leased_stays_in_its_own() {
    let ahead = LedgerSettings::new(1, Epoch(2), 1);
    assert_eq!(ahead.ahead, Duration::from_secs(3));
    assert_eq!(LedgerSettings::ahead_of(Duration::from_secs(2)), Duration::from_secs(5));
    let unix_ms = Desk::new(1).unix_ms;
    let next = Period(u32::try_from(unix_ms / QUARTER_MS).expect("before 2100") + 2);
    let key = LeaseKey { slot: SLOT, period: next, node: 1, epoch: Epoch(1) };
    let lease = Lease { granted: Nanos::new(40), ..Lease::default() };
    let limits = BudgetLimits { life: usd(100), ..BudgetLimits::default() };
    // The clock, put back by half an hour, was at three seconds before the hour.
    let mut desk = Desk::restarted(ahead, vec![(key, lease)]);
    assert_eq!(desk.ledger.now().unix_ms, unix_ms + 2 * QUARTER_MS - 3_000);
    desk.step(vec![
        LedgerInput::Account(account()),
        LedgerInput::Campaign(CampaignTerms {
            budget: CampaignBudget { limits, ..campaign().budget },
            ..campaign()
        }),
    ]);
    desk.want(0, SLOT, 10);
    desk.pass(2);
    assert!(desk.granted(0, SLOT) >= 10);
    assert!(desk.grants.iter().any(|(_, grant)| grant.period < next), "{:?}", desk.grants);
    assert_eq!(desk.ledger.why(SLOT).frozen, Nanos::new(40), "it counts at once");
}

#[test]
fn a_calendar_agrees_on_the_hour_that_is_about_to_begin() {
    let mut desk = Desk::defined(1, account(), campaign());
    desk.unix_ms = NOON + 4 * QUARTER_MS - 2_000;
    desk.step(Vec::new());
    desk.notices.clear();
    // It already treats the hour from one o'clock as the next one.
    let mut hours = steady(DAY - 2, 9, 0).from(0).to_vec();
    hours[2 * 24 + 13].hour_of_week += 1;
    let calendar = Calendar::new(hours).expect("a calendar");
    desk.step(vec![LedgerInput::Calendar(ZoneId(0), calendar)]);
    assert_eq!(desk.notices, [LedgerReply::CalendarContradicts(ZoneId(0))]);
}

#[test]
fn thousands_are_looked_at_one_after_the_other_and_are_all_ready_in_time() {
    const CAMPAIGNS: u32 = 6_000;
    let mut desk = Desk::new(1);
    let limits = BudgetLimits { life: usd(1_000_000), ..BudgetLimits::default() };
    let mut inbox = vec![LedgerInput::Account(account())];
    inbox.extend((0..CAMPAIGNS).map(|slot| {
        LedgerInput::Campaign(CampaignTerms {
            slot: CampaignIndex(slot),
            budget: CampaignBudget { limits, ..campaign().budget },
            ..campaign()
        })
    }));
    let want = |slot| {
        LedgerInput::Refill(
            0,
            RefillRequest { slot: CampaignIndex(slot), amount: PRICE, refused: PRICE },
        )
    };
    desk.unix_ms = NOON + 4 * QUARTER_MS - 8_000;
    desk.step(inbox);
    desk.step((0..CAMPAIGNS).map(want).collect());
    desk.pass(2);
    let period = desk.period();
    let [settled, none] = [PRICE, Nanos::ZERO];
    let spent = |slot| SpendReport {
        slot: CampaignIndex(slot),
        period,
        returned: none,
        settled,
        late: none,
        over: none,
        reserved: Nanos::ZERO,
        reserved_count: 1,
        won_count: 1,
    };
    desk.step((0..CAMPAIGNS).map(|slot| LedgerInput::Report(0, spent(slot))).collect());
    let batches = desk.batches;
    let (mut most, mut is_busy) = (0, false);
    while desk.unix_ms < NOON + 4 * QUARTER_MS - 500 {
        let (touched, batches) = (desk.ledger.touched, desk.batches);
        desk.tick += SECOND / 20;
        desk.unix_ms += 50;
        desk.step(Vec::new());
        // A batch's start or end concerns all of them.
        let was_busy = std::mem::replace(&mut is_busy, desk.batches > batches);
        if !was_busy && !is_busy {
            most = most.max(desk.ledger.touched - touched);
        }
    }
    assert!((1..=400).contains(&most), "{most} in a step");
    assert!(desk.batches - batches <= 6, "{} batches", desk.batches - batches);
    let next = Period(u32::try_from(NOON / QUARTER_MS + 4).expect("before 2100"));
    let mut ready: Vec<_> = desk.grants.iter().filter(|(_, it)| it.period == next).collect();
    ready.sort_by_key(|(_, it)| it.slot);
    ready.dedup_by_key(|(_, it)| it.slot);
    assert_eq!(ready.len(), 6_000);
}
