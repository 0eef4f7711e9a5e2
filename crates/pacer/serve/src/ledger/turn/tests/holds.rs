//! Holds through the port of the owner of lots, with the ledger's thread and its file.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pacer_core::ledger::{
    AccountId, HoldAnswer, HoldDenial, HoldInput, HoldOutcome, HoldPlacement, LimitSpan,
};
use pacer_core::store::{AttemptNumber, HoldName, HoldState};
use units::Nanos;

use super::fake::{TestLedger, usd};
use crate::ledger::handle::LedgerQuery;
use crate::ledger::hold_port::HOLD_MESSAGES_MAX;

fn bid(number: u32, amount: u64) -> HoldPlacement {
    HoldPlacement {
        name: HoldName { lot: "lot".into(), bid: number },
        attempt: AttemptNumber { epoch: 1, counter: u64::from(number) },
        account: "acme".into(),
        currency: usd(),
        amount: Nanos::new(amount),
        replaces: None,
    }
}

fn end(number: u32, end: HoldState) -> HoldInput {
    let HoldPlacement { name, attempt, .. } = bid(number, 0);
    HoldInput::End { name, attempt, end }
}

fn defined(folder: &Path) -> TestLedger {
    let ledger = TestLedger::first(folder, 1);
    let account = ledger.account(Some(1_000));
    ledger.handle.define(vec![account], Vec::new()).unwrap();
    ledger
}

impl TestLedger {
    #[track_caller]
    fn answer(&mut self, message: HoldInput) -> HoldOutcome {
        self.holds.send(message).unwrap();
        let mut answer = None;
        self.until("an answer comes", |ledger| {
            answer = ledger.holds.poll();
            answer.is_some()
        });
        let HoldAnswer { outcome, .. } = answer.unwrap();
        outcome
    }

    /// On hold, spent, and standing according to the metric.
    fn figures(&self) -> [u64; 2] {
        let account = AccountId(0);
        let why = self.handle.ask_of(account, LedgerQuery::WhyAccount).unwrap();
        let spent = self.handle.ask_of(account, LedgerQuery::SpendAccount).unwrap().unwrap();
        [why.held.get(), spent.life.get()]
    }
}

#[test]
fn holds_are_placed_ended_and_confirmed_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = defined(folder.path());
    let woken = Arc::<AtomicU64>::default();
    let of_ledger = Arc::clone(&woken);
    ledger.holds.wake_with(Box::new(move || {
        of_ledger.fetch_add(1, Ordering::Relaxed);
    }));
    let early = ledger.answer(HoldInput::Place(bid(1, 100)));
    assert!(matches!(early, HoldOutcome::Refused(HoldDenial::Unavailable(_))), "{early:?}");
    ledger.holds.send(HoldInput::Replayed).unwrap();
    for number in 1..=4 {
        assert_eq!(ledger.answer(HoldInput::Place(bid(number, 200))), HoldOutcome::Held);
    }
    let over = HoldDenial::OverAccount { span: LimitSpan::Life, headroom: Nanos::new(200) };
    assert_eq!(ledger.answer(HoldInput::Place(bid(5, 201))), HoldOutcome::Refused(over));
    let charge = HoldState::Charged(Nanos::new(150));
    assert_eq!(ledger.answer(end(4, charge)), HoldOutcome::Ended);
    assert_eq!(woken.load(Ordering::Relaxed), 7);
    assert_eq!(ledger.figures(), [600, 150]);
    ledger.until("the metric follows", |ledger| ledger.handle.status().holds == 3);
    ledger.close();

    let mut ledger = defined(folder.path());
    assert_eq!(ledger.figures(), [600, 150]);
    ledger.holds.send(HoldInput::Standing(bid(1, 200))).unwrap();
    assert_eq!(ledger.answer(end(2, HoldState::Released)), HoldOutcome::Ended);
    assert_eq!(ledger.answer(end(4, charge)), HoldOutcome::Ended);
    ledger.holds.send(HoldInput::Replayed).unwrap();
    ledger.until("the third, which no log confirms, is released", |ledger| {
        ledger.figures() == [200, 150]
    });
    ledger.close();

    // Without an owner of lots nothing is released.
    let ledger = defined(folder.path());
    assert_eq!(ledger.figures(), [200, 150]);
    ledger.close();
}

#[test]
fn a_port_without_room_gives_messages_back_and_answers_make_room() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = defined(folder.path());
    ledger.holds.send(HoldInput::Replayed).unwrap();
    let most = u32::try_from(HOLD_MESSAGES_MAX).unwrap();
    let mut number = 0;
    ledger.until("it is full", |ledger| {
        while number < most && ledger.holds.send(HoldInput::Place(bid(number, 2_000))).is_ok() {
            number += 1;
        }
        number == most
    });
    let message = end(most, HoldState::Released);
    assert_eq!(ledger.holds.send(message.clone()), Err(message.clone()));
    ledger.until("one is answered", |ledger| ledger.holds.poll().is_some());
    ledger.until("there is room", |ledger| ledger.holds.send(message.clone()).is_ok());
    let mut answers = 1;
    ledger.until("all are answered", |ledger| {
        answers += u32::from(ledger.holds.poll().is_some());
        answers == most + 1
    });
    assert!(!ledger.holds.is_stopped());
    ledger.thread.take().unwrap().close().unwrap();
    assert!(ledger.holds.is_stopped());
    assert_eq!(ledger.holds.send(message.clone()), Err(message));
}
