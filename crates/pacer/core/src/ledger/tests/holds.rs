//! Holds one by one, with the store in memory.

mod model;

use std::sync::Arc;

use units::{Currency, Nanos, Tick};

use super::refusals::{DAY, SECOND, SLOT, account, campaign, usd};
use crate::calendar::QUARTER_MS;
use crate::calendar::tests::steady;
use crate::ledger::limits::tally::UNLIMITED;
use crate::ledger::{
    AccountId, AccountTerms, BudgetLimits, CampaignTerms, HoldAnswer, HoldDenial, HoldInput,
    HoldOutcome, HoldPlacement, Ledger, LedgerInput, LedgerOutbox, LedgerSettings, LedgerTime,
    LimitSpan, ZoneId,
};
use crate::messages::{BudgetGrant, Epoch, RefillRequest};
use crate::store::testing::{MemoryFaults, MemoryStore};
use crate::store::{
    AttemptNumber, HoldName, HoldState, LeaseStore as _, QueryResult, StoreAnswer, StoreQuery,
    StoreWriter, WriteOutcome,
};

const MINUTE_MS: u64 = 60 * 1000;
const HOUR_MS: u64 = 4 * QUARTER_MS;

pub(super) fn life(amount: u64) -> AccountTerms {
    let limits = BudgetLimits { life: usd(amount), ..BudgetLimits::default() };
    AccountTerms { limits, ..account() }
}

pub(super) fn name(bid: u32) -> HoldName {
    HoldName { lot: Arc::from("lot"), bid }
}

/// The first attempt of a bid.
pub(super) fn bid(bid: u32, amount: u64) -> HoldPlacement {
    HoldPlacement {
        name: name(bid),
        attempt: AttemptNumber { epoch: 1, counter: u64::from(bid) },
        account: Arc::from("acme"),
        currency: Currency::USD,
        amount: Nanos::new(amount),
        replaces: None,
    }
}

pub(super) fn charged(cost: u64) -> HoldState {
    HoldState::Charged(Nanos::new(cost))
}

/// A ledger with one account and one campaign, and its store.
pub(super) struct HoldBench {
    pub(super) store: MemoryStore,
    pub(super) ledger: Ledger,
    pub(super) now: LedgerTime,
    pub(super) answers: Vec<HoldAnswer>,
    pub(super) grants: Vec<BudgetGrant>,
    terms: AccountTerms,
    writer: StoreWriter,
    outbox: LedgerOutbox,
    pub(super) batches: u64,
    pub(super) is_in_flight: bool,
}

impl HoldBench {
    /// An account at half past noon, ready for bids.
    pub(super) fn new(terms: AccountTerms) -> Self {
        let mut bench = Self::unready(terms, MemoryStore::new(1));
        bench.step([LedgerInput::Replayed, LedgerInput::Hold(HoldInput::Replayed)]);
        bench.pass(2);
        bench
    }

    /// A start on a store, before the log is replayed.
    pub(super) fn unready(terms: AccountTerms, store: MemoryStore) -> Self {
        let unix_ms = (u64::from(DAY) * 96 + 50) * QUARTER_MS;
        Self::at(terms, store, LedgerTime { tick: Tick::from_nanos(SECOND), unix_ms })
    }

    fn at(terms: AccountTerms, mut store: MemoryStore, now: LedgerTime) -> Self {
        store.set_faults(MemoryFaults::default());
        store.begin(1, Epoch(1));
        let StoreAnswer::Begun { begun, .. } = answer(&mut store) else { panic!("it begins") };
        let begun = begun.expect("it begins");
        let mut read = |query| {
            store.read(query);
            let StoreAnswer::Read(Ok(found)) = answer(&mut store) else { panic!("it reads") };
            found
        };
        let QueryResult::Leases(leases) = read(StoreQuery::Leases(None)) else { panic!("leases") };
        let QueryResult::Holds(holds) = read(StoreQuery::Holds(None)) else { panic!("holds") };
        let QueryResult::Charges(sums) = read(StoreQuery::Charges(None)) else { panic!("sums") };
        let settings = LedgerSettings::new(1, begun.epoch, 1);
        let ledger = Ledger::new(settings, now, leases, begun.applied_seq).with_holds(holds, sums);
        let mut bench = Self {
            store,
            ledger,
            now,
            answers: Vec::new(),
            grants: Vec::new(),
            terms,
            writer: StoreWriter { node: 1, epoch: begun.epoch },
            outbox: LedgerOutbox::default(),
            batches: 0,
            is_in_flight: false,
        };
        bench.step([
            LedgerInput::Calendar(ZoneId(0), steady(DAY - 2, 9, 0)),
            LedgerInput::AccountName(AccountId(0), Arc::from("acme")),
            LedgerInput::Account(terms),
            LedgerInput::Campaign(CampaignTerms { version: 1, ..campaign() }),
        ]);
        bench
    }

    /// Ends the process, whatever is in flight, and starts another.
    pub(super) fn restarted(mut self) -> Self {
        self.store.crash();
        Self::at(self.terms, self.store, self.now)
    }

    pub(super) fn step(&mut self, inbox: impl IntoIterator<Item = LedgerInput>) {
        self.ledger.step(self.now, inbox, &mut self.outbox);
        self.answers.append(&mut self.outbox.holds);
        self.grants.extend(self.outbox.grants.iter().map(|(_, grant)| *grant));
        if let Some(batch) = self.outbox.batch.take() {
            self.batches += 1;
            self.is_in_flight = true;
            self.store.submit(self.writer, batch);
        }
        self.outbox.clear();
    }

    /// The store answers the batch in flight, if it does so now.
    pub(super) fn commit(&mut self) {
        if let Some(StoreAnswer::Ended(WriteOutcome { number, ended, .. })) = self.store.poll() {
            self.is_in_flight = false;
            self.step([LedgerInput::Ended(number, ended)]);
        }
    }

    /// Half seconds, each with a commit.
    pub(super) fn pass(&mut self, seconds: u64) {
        for _ in 0..2 * seconds {
            self.now.tick = self.now.tick.after(std::time::Duration::from_millis(500));
            self.now.unix_ms += 500;
            self.step([]);
            self.commit();
        }
    }

    pub(super) fn tell(&mut self, message: HoldInput) {
        self.step([LedgerInput::Hold(message)]);
    }

    /// Places a hold, commits, and returns the answer.
    fn place(&mut self, placement: HoldPlacement) -> HoldOutcome {
        let (name, attempt) = (placement.name.clone(), placement.attempt);
        self.tell(HoldInput::Place(placement));
        self.commit();
        let answer = self.answers.pop().expect("it is answered");
        assert_eq!((&answer.name, answer.attempt), (&name, attempt));
        answer.outcome
    }

    fn end(&mut self, bid_number: u32, end: HoldState) {
        let HoldPlacement { name, attempt, .. } = bid(bid_number, 0);
        self.tell(HoldInput::End { name: name.clone(), attempt, end });
        self.pass(2);
        let want = HoldAnswer { name, attempt, outcome: HoldOutcome::Ended };
        assert_eq!(self.answers.pop(), Some(want));
    }

    fn want(&mut self, amount: u64) {
        let amount = Nanos::new(amount);
        let want = RefillRequest { slot: SLOT, amount, refused: amount };
        self.step([LedgerInput::Refill(0, want)]);
        self.pass(3);
    }

    pub(super) fn granted(&self) -> u64 {
        self.grants.iter().map(|grant| grant.granted.get()).max().unwrap_or(0)
    }

    pub(super) fn held(&self) -> u64 {
        self.ledger.why_account(AccountId(0)).held.get()
    }

    fn spent(&self, span: LimitSpan) -> u64 {
        self.ledger.spend_account(AccountId(0)).expect("it is known").of(span).get()
    }
}

fn answer(store: &mut MemoryStore) -> StoreAnswer {
    loop {
        if let Some(answer) = store.poll() {
            return answer;
        }
    }
}

fn over(span: LimitSpan, headroom: u64) -> HoldOutcome {
    let headroom = Nanos::new(headroom);
    HoldOutcome::Refused(HoldDenial::OverAccount { span, headroom })
}

#[test]
fn a_bid_is_held_once_its_batch_is_committed_and_bids_meanwhile_share_the_next() {
    let mut bench = HoldBench::new(life(100));
    // A batch has just begun the lease period: holds do not wait for its end.
    bench.want(10);
    let batches = bench.batches;
    bench.tell(HoldInput::Place(bid(1, 10)));
    assert_eq!((bench.batches - batches, bench.held()), (1, 10));
    for number in 2..5 {
        bench.tell(HoldInput::Place(bid(number, 10)));
    }
    assert_eq!((bench.batches - batches, bench.answers.len()), (1, 0));
    bench.commit();
    assert_eq!((bench.batches - batches, bench.answers.len()), (2, 1));
    bench.commit();
    assert_eq!((bench.batches - batches, bench.answers.len()), (2, 4));
    assert!(bench.answers.iter().all(|answer| answer.outcome == HoldOutcome::Held));
    assert_eq!((bench.held(), bench.spent(LimitSpan::Life)), (40, 0));
}

#[test]
fn each_limit_refuses_with_what_it_leaves() {
    let limits = |[life, day, hour]: [u64; 3]| AccountTerms {
        limits: BudgetLimits { life: usd(life), day: usd(day), hour: usd(hour) },
        ..account()
    };
    for (amounts, span) in [
        ([100, 200, 300], LimitSpan::Life),
        ([300, 100, 200], LimitSpan::Day),
        ([300, 200, 100], LimitSpan::Hour),
        ([100, 100, 100], LimitSpan::Life),
    ] {
        let mut bench = HoldBench::new(limits(amounts));
        assert_eq!(bench.place(bid(1, 60)), HoldOutcome::Held);
        assert_eq!(bench.place(bid(2, 41)), over(span, 40), "{amounts:?}");
        assert_eq!(bench.place(bid(3, 40)), HoldOutcome::Held);
        assert_eq!((bench.held(), bench.ledger.standing_holds()), (100, 2));
    }
}

#[test]
fn refusals_come_in_their_order() {
    let unavailable = |why| HoldOutcome::Refused(HoldDenial::Unavailable(why));
    let refused = HoldOutcome::Refused;
    let mut bench = HoldBench::unready(life(100), MemoryStore::new(1));
    let unknown = HoldPlacement { account: Arc::from("nobody"), ..bid(1, 10) };
    assert_eq!(bench.place(unknown.clone()), unavailable("the ledger starts"));
    bench.step([LedgerInput::Replayed]);
    assert_eq!(bench.place(unknown.clone()), unavailable("the ledger starts"));
    bench.tell(HoldInput::Replayed);
    assert_eq!(bench.place(unknown), refused(HoldDenial::UnknownAccount));
    let eur = Currency::parse("EUR").expect("a currency");
    let euros = HoldPlacement { currency: eur, ..bid(2, u64::MAX) };
    let paused = AccountTerms { version: 2, is_paused: true, ..life(100) };
    bench.step([LedgerInput::Account(paused)]);
    assert_eq!(bench.place(euros.clone()), refused(HoldDenial::AccountClosed));
    bench.step([LedgerInput::Account(AccountTerms { version: 3, ..life(100) })]);
    assert_eq!(bench.place(euros), refused(HoldDenial::WrongCurrency(Currency::USD)));
    assert_eq!(bench.place(bid(2, UNLIMITED / 2 + 1)), refused(HoldDenial::TooLarge));
    assert_eq!(bench.place(bid(2, 101)), over(LimitSpan::Life, 100));
    bench.step([LedgerInput::Close]);
    assert_eq!(bench.place(bid(3, 1)), unavailable("the ledger ends"));
    assert_eq!(bench.held(), 0);
}

#[test]
fn an_account_without_limits_holds_up_to_what_books_can_count() {
    let mut bench = HoldBench::new(account());
    assert_eq!(bench.place(bid(1, UNLIMITED / 2)), HoldOutcome::Held);
    let refused = HoldOutcome::Refused(HoldDenial::TooLarge);
    assert_eq!(bench.place(bid(2, 1)), refused);
    // Leasing goes on.
    bench.want(10);
    assert!(bench.granted() >= 10);
}

#[test]
fn a_raise_counts_the_larger_amount_until_one_of_the_pair_ends() {
    let raise =
        |number, amount| HoldPlacement { replaces: Some(number - 1), ..bid(number, amount) };
    let mut bench = HoldBench::new(life(100));
    assert_eq!(bench.place(bid(1, 80)), HoldOutcome::Held);
    assert_eq!(bench.place(bid(2, 21)), over(LimitSpan::Life, 20));
    assert_eq!(bench.place(raise(2, 101)), over(LimitSpan::Life, 100));
    assert_eq!(bench.held(), 80);
    assert_eq!(bench.place(raise(2, 100)), HoldOutcome::Held);
    // A third replaces both; a smaller one counts no less than they do.
    assert_eq!(bench.place(raise(3, 30)), HoldOutcome::Held);
    assert_eq!(bench.held(), 100);
    bench.end(2, HoldState::Released);
    assert_eq!(bench.held(), 80);
    bench.end(1, HoldState::Released);
    assert_eq!(bench.held(), 30);
    // A raise that was not logged leaves the earlier one.
    assert_eq!(bench.place(raise(4, 90)), HoldOutcome::Held);
    bench.end(4, HoldState::Released);
    assert_eq!(bench.held(), 30);
    // Only one hold replaces another.
    assert_eq!(
        bench.place(raise(4, 90)),
        HoldOutcome::Refused(HoldDenial::Unavailable("the hold of this bid has ended",))
    );
    let again = HoldPlacement { attempt: AttemptNumber { epoch: 1, counter: 90 }, ..raise(4, 50) };
    assert_eq!(bench.place(again), HoldOutcome::Held);
    let other = HoldPlacement { replaces: Some(3), ..bid(5, 60) };
    assert_eq!(bench.place(other), over(LimitSpan::Life, 50));
}

#[test]
fn a_raise_in_a_later_hour_counts_there_in_full() {
    let limits = BudgetLimits { hour: usd(100), ..BudgetLimits::default() };
    let mut bench = HoldBench::new(AccountTerms { limits, ..account() });
    assert_eq!(bench.place(bid(1, 90)), HoldOutcome::Held);
    bench.now.unix_ms += HOUR_MS;
    assert_eq!(bench.place(bid(2, 20)), HoldOutcome::Held);
    let raise = |amount| HoldPlacement { replaces: Some(1), ..bid(3, amount) };
    assert_eq!(bench.place(raise(95)), over(LimitSpan::Hour, 80));
    bench.end(2, HoldState::Released);
    assert_eq!(bench.place(raise(95)), HoldOutcome::Held);
    bench.end(1, HoldState::Released);
    assert_eq!((bench.held(), bench.place(bid(4, 6))), (95, over(LimitSpan::Hour, 5)));
}

#[test]
fn a_release_frees_money_for_campaigns_that_wait() {
    let mut bench = HoldBench::new(life(100));
    assert_eq!(bench.place(bid(1, 100)), HoldOutcome::Held);
    bench.want(40);
    assert_eq!(bench.granted(), 0);
    bench.end(1, HoldState::Released);
    bench.pass(3);
    assert!(bench.granted() >= 40);
    assert_eq!(bench.held(), 0);
}

#[test]
fn a_bid_takes_what_no_shard_has_yet() {
    let mut bench = HoldBench::new(life(100));
    bench.want(20);
    let granted = bench.granted();
    let left = 100 - granted;
    let ready = bench.ledger.why(SLOT).ready.get();
    assert!(ready > 0, "budget is leased ahead of its use");
    assert_eq!(bench.place(bid(1, left)), HoldOutcome::Held);
    assert_eq!(bench.place(bid(2, 1)), over(LimitSpan::Life, 0));
    bench.want(20);
    assert_eq!((bench.granted(), bench.held()), (granted, left));
}

#[test]
fn a_charge_is_spent_once_and_the_rest_is_free() {
    let mut bench = HoldBench::new(life(100));
    assert_eq!(bench.place(bid(1, 100)), HoldOutcome::Held);
    for _ in 0..2 {
        bench.end(1, charged(70));
        // The first end counts.
        bench.end(1, HoldState::Released);
        for span in [LimitSpan::Life, LimitSpan::Day, LimitSpan::Hour] {
            assert_eq!(bench.spent(span), 70);
        }
        assert_eq!((bench.held(), bench.ledger.standing_holds()), (0, 0));
    }
    assert_eq!(bench.place(bid(2, 31)), over(LimitSpan::Life, 30));
    assert!(bench.ledger.is_saved());
    // An end of something unknown is no error, but a charge is reported.
    bench.end(9, HoldState::Released);
    assert_eq!(bench.ledger.stats().strays, 0);
    bench.end(9, charged(5));
    assert_eq!((bench.ledger.stats().strays, bench.ledger.stats().stray_nanos), (1, 5));
    // So is one of a hold that was released.
    assert_eq!(bench.place(bid(3, 30)), HoldOutcome::Held);
    bench.end(3, HoldState::Released);
    bench.end(3, charged(30));
    assert_eq!((bench.ledger.stats().strays, bench.ledger.stats().stray_nanos), (2, 35));
    assert_eq!(bench.spent(LimitSpan::Life), 70);
}

#[test]
#[should_panic(expected = "no charge exceeds its hold")]
fn a_charge_above_its_hold_breaks_the_books() {
    let mut bench = HoldBench::new(life(100));
    assert_eq!(bench.place(bid(1, 50)), HoldOutcome::Held);
    bench.end(1, charged(51));
}

#[test]
fn after_midnight_a_hold_counts_in_total_only() {
    let limits = BudgetLimits { life: usd(300), day: usd(100), hour: usd(100) };
    let mut bench = HoldBench::new(AccountTerms { limits, ..account() });
    assert_eq!(bench.place(bid(1, 100)), HoldOutcome::Held);
    bench.now.unix_ms += 12 * HOUR_MS;
    assert_eq!(bench.place(bid(2, 100)), HoldOutcome::Held);
    assert_eq!(bench.held(), 200);
    bench.end(1, charged(60));
    assert_eq!(bench.spent(LimitSpan::Life), 60);
    assert_eq!((bench.spent(LimitSpan::Day), bench.spent(LimitSpan::Hour)), (0, 0));
    assert_eq!(bench.place(bid(3, 1)), over(LimitSpan::Day, 0));
    bench.end(2, HoldState::Released);
    assert_eq!(bench.place(bid(4, 100)), HoldOutcome::Held);
    // And the row keeps its day over a restart.
    let mut bench = bench.restarted();
    assert_eq!((bench.spent(LimitSpan::Day), bench.spent(LimitSpan::Life)), (0, 60));
    bench.step([LedgerInput::Replayed, LedgerInput::Hold(HoldInput::Standing(bid(4, 100)))]);
    bench.tell(HoldInput::Replayed);
    assert_eq!(bench.place(bid(5, 1)), over(LimitSpan::Day, 0));
}

#[test]
fn a_restart_keeps_what_the_log_confirms_and_releases_the_rest() {
    let mut bench = HoldBench::new(life(100));
    for number in 1..5 {
        assert_eq!(bench.place(bid(number, 20)), HoldOutcome::Held);
    }
    bench.end(4, charged(5));
    // Held, but the answer never came: the bid is not logged.
    bench.tell(HoldInput::Place(bid(5, 30)));
    let mut bench = bench.restarted();
    bench.step([LedgerInput::Replayed]);
    bench.pass(2);
    assert!((60..=90).contains(&bench.held()));
    bench.tell(HoldInput::Standing(bid(1, 20)));
    bench.end(2, charged(15));
    bench.end(4, charged(5));
    bench.tell(HoldInput::Replayed);
    assert_eq!((bench.held(), bench.spent(LimitSpan::Life)), (20, 20));
    bench.pass(2);
    // What comes again changes nothing, and later holds are no orphans.
    assert_eq!(bench.place(bid(6, 10)), HoldOutcome::Held);
    bench.tell(HoldInput::Replayed);
    bench.pass(2);
    assert_eq!(bench.held(), 30);
    let mut bench = bench.restarted();
    bench.tell(HoldInput::Replayed);
    assert_eq!((bench.held(), bench.spent(LimitSpan::Life)), (0, 20));
}

#[test]
fn without_the_owner_of_lots_holds_stay() {
    let mut bench = HoldBench::new(life(100));
    assert_eq!(bench.place(bid(1, 60)), HoldOutcome::Held);
    let mut bench = bench.restarted();
    bench.step([LedgerInput::Replayed]);
    bench.want(100);
    assert_eq!(bench.held(), 60);
    assert!((1..=40).contains(&bench.granted()));
    assert!(bench.ledger.is_saved());
}

#[test]
fn a_standing_bid_that_the_store_lost_is_held_above_every_limit() {
    let mut bench = HoldBench::unready(life(100), MemoryStore::new(1));
    bench.tell(HoldInput::Standing(bid(1, 150)));
    bench.step([LedgerInput::Replayed, LedgerInput::Hold(HoldInput::Replayed)]);
    bench.pass(2);
    assert_eq!((bench.held(), bench.place(bid(2, 1))), (150, over(LimitSpan::Life, 0)));
    bench.want(10);
    assert_eq!(bench.granted(), 0);
    let mut bench = bench.restarted();
    bench.step([LedgerInput::Replayed, LedgerInput::Hold(HoldInput::Standing(bid(1, 150)))]);
    bench.tell(HoldInput::Replayed);
    assert_eq!(bench.held(), 150);
    bench.end(1, HoldState::Released);
    assert_eq!(bench.place(bid(2, 100)), HoldOutcome::Held);
}

#[test]
fn repeated_and_outdated_placements_change_nothing_and_a_later_attempt_replaces() {
    let mut bench = HoldBench::new(life(100));
    bench.tell(HoldInput::Place(bid(1, 60)));
    bench.tell(HoldInput::Place(bid(1, 60)));
    bench.commit();
    assert_eq!(bench.answers.len(), 1);
    bench.answers.clear();
    assert_eq!((bench.place(bid(1, 60)), bench.held()), (HoldOutcome::Held, 60));
    let at = |counter| AttemptNumber { epoch: 1, counter };
    let later = HoldPlacement { attempt: at(7), ..bid(1, 100) };
    assert_eq!((bench.place(later.clone()), bench.held()), (HoldOutcome::Held, 100));
    assert!(matches!(bench.place(bid(1, 60)), HoldOutcome::Refused(_)));
    // The end of an earlier attempt does not end the later one.
    bench.end(1, HoldState::Released);
    assert_eq!((bench.held(), bench.ledger.standing_holds()), (100, 1));
    // An attempt that waits learns that a later one took its place.
    bench.tell(HoldInput::Place(HoldPlacement { attempt: at(8), ..later.clone() }));
    bench.tell(HoldInput::Place(HoldPlacement { attempt: at(9), ..later }));
    let [HoldAnswer { attempt, outcome: HoldOutcome::Refused(_), .. }] = &bench.answers[..] else {
        panic!("{:?}", bench.answers)
    };
    assert_eq!((*attempt, bench.held()), (at(8), 100));
    bench.answers.clear();
    bench.commit();
    bench.commit();
    let held: Vec<_> = bench.answers.iter().map(|answer| answer.attempt).collect();
    assert_eq!(held, [at(9)]);
    // Nor is the end of an earlier attempt forgotten.
    let end = HoldState::Released;
    bench.tell(HoldInput::End { name: name(1), attempt: at(9), end });
    let last = HoldPlacement { attempt: at(10), ..bid(1, 100) };
    bench.tell(HoldInput::Place(last));
    bench.pass(1);
    let [.., ended, held] = &bench.answers[..] else { panic!("{:?}", bench.answers) };
    assert_eq!((ended.attempt, &ended.outcome), (at(9), &HoldOutcome::Ended));
    assert_eq!((held.attempt, &held.outcome), (at(10), &HoldOutcome::Held));
}

#[test]
fn a_refused_batch_refuses_its_bids_and_one_of_unknown_outcome_is_repeated() {
    let mut bench = HoldBench::new(life(100));
    bench.store.set_faults(MemoryFaults { refused_once_in: 1, ..MemoryFaults::default() });
    let refused = HoldOutcome::Refused(HoldDenial::Unavailable("the ledger's store fails"));
    assert_eq!(bench.place(bid(1, 60)), refused);
    assert_eq!((bench.held(), bench.place(bid(2, 10))), (0, refused));
    bench.store.set_faults(MemoryFaults::default());
    bench.pass(3);
    assert!(bench.ledger.is_saved());
    bench.store.set_faults(MemoryFaults { unknown_once_in: 1, ..MemoryFaults::default() });
    bench.tell(HoldInput::Place(bid(3, 60)));
    bench.pass(3);
    assert_eq!((bench.answers.len(), bench.held()), (0, 60));
    // A refusal after that does not tell what became of it.
    bench.store.set_faults(MemoryFaults { refused_once_in: 1, ..MemoryFaults::default() });
    bench.pass(3);
    assert_eq!((bench.answers.len(), bench.held()), (0, 60));
    bench.store.set_faults(MemoryFaults::default());
    bench.pass(3);
    assert_eq!(bench.answers.pop().map(|answer| answer.outcome), Some(HoldOutcome::Held));
}

#[test]
fn ended_rows_are_folded_and_their_charges_count_for_ever() {
    let mut bench = HoldBench::new(life(100));
    for number in 1..4 {
        assert_eq!(bench.place(bid(number, 20)), HoldOutcome::Held);
    }
    bench.end(1, charged(15));
    bench.end(2, HoldState::Released);
    let rows = |bench: &mut HoldBench| {
        bench.store.read(StoreQuery::Holds(None));
        let StoreAnswer::Read(Ok(QueryResult::Holds(rows))) = answer(&mut bench.store) else {
            panic!("holds")
        };
        rows.len()
    };
    bench.now.unix_ms += 2 * 24 * HOUR_MS;
    bench.pass(2);
    assert_eq!(rows(&mut bench), 3);
    bench.now.unix_ms += 24 * HOUR_MS;
    bench.pass(2);
    assert_eq!((rows(&mut bench), bench.spent(LimitSpan::Life)), (1, 15));
    let mut bench = bench.restarted();
    assert_eq!((bench.spent(LimitSpan::Life), bench.held()), (15, 20));
    // The day of the standing one is long over when it ends.
    bench.step([LedgerInput::Replayed, LedgerInput::Hold(HoldInput::Standing(bid(3, 20)))]);
    bench.end(3, charged(20));
    bench.pass(2);
    assert_eq!((rows(&mut bench), bench.spent(LimitSpan::Life)), (0, 35));
    assert_eq!(bench.restarted().spent(LimitSpan::Life), 35);
}

#[test]
fn a_clock_that_went_back_reopens_no_hour_with_holds() {
    let limits = BudgetLimits { hour: usd(100), ..BudgetLimits::default() };
    let mut bench = HoldBench::new(AccountTerms { limits, ..account() });
    bench.now.unix_ms += HOUR_MS;
    assert_eq!(bench.place(bid(1, 70)), HoldOutcome::Held);
    bench.now.unix_ms -= 40 * MINUTE_MS;
    let mut bench = bench.restarted();
    bench.step([LedgerInput::Replayed, LedgerInput::Hold(HoldInput::Standing(bid(1, 70)))]);
    bench.tell(HoldInput::Replayed);
    assert_eq!(bench.place(bid(2, 31)), over(LimitSpan::Hour, 30));
}
