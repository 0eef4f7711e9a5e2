//! One run of a ledger.

use pacer_core::ledger::{LedgerReply, LimitSpan};
use pacer_core::messages::{CampaignIndex, FromShard, SpendReport};
use pacer_core::pacing::{PacingError, PacingPolicy, TrafficForecast};
use pacer_core::refusal::SpendRefusal;
use pacer_core::store::{
    AuditEntry, DefinitionChange, DefinitionKey, DefinitionPut, StoreDenial, StoreQuery,
    StoredDefinition, StoredKind,
};
use pacer_core::strategy::{BidPace, StrategySettings};
use runtime::metrics::Exposition;
use units::Nanos;

use super::fake::{EVER, TestLedger, campaign, money, settle, start_in};
use crate::ledger::handle::LedgerQuery;
use crate::ledger::rings::RING_MESSAGES_MAX;
use crate::{LedgerError, LedgerFault, LedgerStartError};

#[test]
fn money_flows_from_a_definition_to_what_is_spent() {
    let folder = tempfile::tempdir().unwrap();
    // No reservation expires, however slow the machine is.
    let mut ledger = TestLedger::open_for(folder.path(), 2, EVER);
    ledger.feed.replayed();
    assert_eq!(ledger.why(3).refusal, Some(SpendRefusal::Unknown));
    ledger.define(3, 10_000);
    assert_eq!(ledger.handle.ask(LedgerQuery::NextSlot), Ok(CampaignIndex(4)));
    let tokens: Vec<_> = (0..20).map(|at| ledger.reserve(at % 2, 3, 100)).collect();
    let (won, lost) = tokens.split_at(12);
    for (seq, (at, token)) in (1..).zip(won.iter().enumerate()) {
        ledger.shards[at % 2].settle(token);
        settle(&ledger.feed, seq, token);
    }
    let held = ledger.why(3);
    assert!(held.at_shards >= Nanos::new(800), "{held:?}");
    for (at, token) in lost.iter().enumerate() {
        let given = ledger.shards[at % 2].release(token);
        assert_eq!(given, Nanos::new(100));
    }
    ledger.until("what was won is spent", |ledger| ledger.spent(3) == 1_200);
    ledger.until("it is durable", |ledger| ledger.feed.applied_seq() == 12);
    ledger.feed.reached(40);
    ledger.until("what settles nothing is passed", |ledger| ledger.feed.applied_seq() == 40);
    let spend = ledger.handle.ask_of(CampaignIndex(3), LedgerQuery::Spend).unwrap().unwrap();
    assert_eq!(spend.hours.iter().map(|hour| hour.spent.get()).sum::<u64>(), spend.today.get());
    // All the rest, and not a nano more.
    let mut rest = 0;
    ledger.until("all is reserved", |ledger| {
        for shard in &mut ledger.shards {
            rest += shard.reserve(3, 1).map_or(0, |token| token.amount().get());
            rest += shard.reserve(3, 97).map_or(0, |token| token.amount().get());
        }
        assert!(rest <= 8_800, "{rest}");
        rest == 8_800 || ledger.why(3).refusal == Some(SpendRefusal::BudgetExhausted)
    });
    ledger.close();
}

#[test]
fn a_full_ring_delays_messages_and_loses_none() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = TestLedger::first(folder.path(), 1);
    let count = u32::try_from(RING_MESSAGES_MAX).unwrap() + 500;
    let many: Vec<_> = (0..count).map(|slot| campaign(slot, 1_000)).collect();
    let account = ledger.account(None);
    // Every campaign sends messages, and the shard reads none.
    let defined = ledger.handle.define(vec![account], many).unwrap();
    assert_eq!(defined.notices.len(), usize::try_from(count).unwrap() + 1);
    let mut left = count;
    let shard = &mut ledger.shards[0];
    let begun = std::time::Instant::now();
    while left > 0 || ledger.handle.status().waiting == 0 {
        assert!(begun.elapsed() < EVER, "{left} {:?}", ledger.handle.status());
        let room = u32::try_from(shard.rings.to_ledger.slots()).unwrap();
        for _ in 0..room.min(left) {
            left -= 1;
            let want = pacer_core::messages::RefillRequest {
                slot: CampaignIndex(left),
                amount: Nanos::new(10),
                refused: Nanos::new(10),
            };
            shard.rings.to_ledger.push(FromShard::Refill(want)).unwrap();
        }
    }
    let mut granted = std::collections::BTreeSet::new();
    ledger.until("every campaign has rights", |ledger| {
        for slot in 0..count {
            if !granted.contains(&slot) && ledger.shards[0].reserve(slot, 10).is_ok() {
                granted.insert(slot);
            }
        }
        granted.len() == usize::try_from(count).unwrap()
    });
    ledger.until("nothing waits", |ledger| ledger.handle.status().waiting == 0);
    ledger.close();
}

#[test]
fn definitions_and_their_audit_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = TestLedger::first(folder.path(), 1);
    let key = DefinitionKey { kind: StoredKind::Campaign, id: "summer".to_owned() };
    let change = |expected: u64, body: &str| {
        let definition = StoredDefinition { version: expected + 1, body: body.into() };
        let put = DefinitionPut { key: key.clone(), expected: Some(expected), definition };
        let audit = vec![AuditEntry { at_unix_ms: 5, body: body.into() }];
        DefinitionChange { number: 77, puts: vec![put], audit }
    };
    assert_eq!(ledger.handle.change(change(0, "one")), Ok(()));
    assert_eq!(ledger.handle.change(change(1, "two")), Ok(()));
    let conflict = LedgerError::Denied(StoreDenial::Conflict { key: key.clone(), present: 2 });
    assert_eq!(ledger.handle.change(change(0, "other")), Err(conflict));
    let nameless = DefinitionChange {
        puts: vec![DefinitionPut {
            key: DefinitionKey { kind: StoredKind::Account, id: String::new() },
            expected: None,
            definition: StoredDefinition { version: 1, body: Vec::new() },
        }],
        ..DefinitionChange::default()
    };
    let refused = ledger.handle.change(nameless);
    assert!(matches!(refused, Err(LedgerError::Denied(StoreDenial::Invalid(_)))), "{refused:?}");
    ledger.close();
    let ledger = TestLedger::first(folder.path(), 1);
    assert_eq!(ledger.handle.change(change(2, "three")), Ok(()));
    let want = vec![(key, StoredDefinition { version: 3, body: "three".into() })];
    assert_eq!(ledger.handle.definitions(StoredKind::Campaign), Ok(want));
    assert_eq!(ledger.handle.definitions(StoredKind::Account), Ok(Vec::new()));
    let bodies = |entries: Vec<(_, AuditEntry)>| -> Vec<String> {
        entries.into_iter().map(|(_, entry)| String::from_utf8(entry.body).unwrap()).collect()
    };
    let all = ledger.handle.audit(StoreQuery::Audit(None, 100)).unwrap();
    let first = all[0].0;
    assert_eq!(bodies(all), ["one", "two", "three"]);
    assert_eq!(bodies(ledger.handle.audit(StoreQuery::Audit(Some(first), 1)).unwrap()), ["two"]);
    ledger.close();
}

#[test]
fn books_that_do_not_add_up_stop_everything() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = TestLedger::first(folder.path(), 1);
    ledger.define(0, 1_000);
    let token = ledger.reserve(0, 0, 100);
    let halted = ledger.handle.halted();
    assert!(ledger.handle.is_ready() && !halted.is_set());
    // More is returned than was granted.
    let report = SpendReport {
        slot: CampaignIndex(0),
        period: token.period(),
        returned: Nanos::new(1_000_000),
        settled: Nanos::ZERO,
        late: Nanos::ZERO,
        over: Nanos::ZERO,
        reserved: Nanos::ZERO,
        reserved_count: 1,
        won_count: 0,
    };
    ledger.shards[0].rings.to_ledger.push(FromShard::Report(report)).unwrap();
    ledger.until("nothing is authorised any more", |ledger| ledger.shards[0].rings.halted.is_set());
    ledger.until("the process ends", |ledger| ledger.shutdown.is_started());
    ledger.until("it is over", |ledger| ledger.handle.status().is_over);
    assert!(!ledger.handle.is_ready() && halted.is_set());
    assert_eq!(ledger.handle.ask(LedgerQuery::NextSlot), Err(LedgerError::Stopped));
    // Callers neither wait for ever nor fail.
    (0..100_000).for_each(|seq| ledger.feed.reached(seq));
    assert_eq!(ledger.thread.take().unwrap().close(), Err(LedgerFault::Broken));
}

/// The log reports every win as in time: it is written before the shard is asked.
#[test]
fn a_win_after_the_reservation_ended_is_spent_once_and_stops_nothing() {
    for is_released in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = TestLedger::first(folder.path(), 1);
        ledger.define(0, 1_000);
        let token = ledger.reserve(0, 0, 100);
        if is_released {
            ledger.shards[0].release(&token);
        }
        ledger.until("the reservation has ended", |ledger| ledger.shards[0].reserved(0) == 0);
        ledger.shards[0].settle(&token);
        settle(&ledger.feed, 1, &token);
        ledger.until("booked", |ledger| ledger.feed.applied_seq() == 1);
        ledger.until("told", |ledger| ledger.spent(0) == 100);
        let mut paused = campaign(0, 1_000);
        paused.terms.version = 2;
        paused.terms.budget.is_paused = true;
        ledger.handle.define(Vec::new(), vec![paused]).unwrap();
        ledger.until("all else is back", |ledger| {
            let why = ledger.why(0);
            let in_use = why.levels.expect("an hour")[0].exposure();
            (why.at_shards, in_use) == (Nanos::ZERO, token.amount())
        });
        assert!(!ledger.handle.halted().is_set());
        assert_eq!(ledger.spent(0), 100);
        ledger.close();
    }
}

#[test]
fn strategies_are_told_to_shards_and_their_curve_to_whoever_asks() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = TestLedger::first(folder.path(), 2);
    let pacing = |settings, is_fixed_price| {
        let forecast = TrafficForecast::Uniform;
        Some(PacingPolicy { settings, ahead: 0.0, forecast, is_fixed_price }.into())
    };
    let mut even = campaign(0, 1_000_000_000_000);
    even.terms.budget.limits.day = Some(money(5_000));
    even.pacing = pacing(StrategySettings::Even, true);
    let mut refused = campaign(1, 1_000);
    refused.pacing = pacing(StrategySettings::default(), true);
    let account = ledger.account(None);
    let plain = campaign(2, 1_000);
    let defined = ledger.handle.define(vec![account], vec![even.clone(), refused, plain]).unwrap();
    assert_eq!(defined.unpaced, [(CampaignIndex(1), PacingError::FixedPrice("slot_dual"))]);
    assert_eq!(defined.notices.len(), 4);
    let has_pace = |ledger: &mut TestLedger| {
        ledger.shards.iter().all(|it| it.paces.contains_key(&CampaignIndex(0)))
    };
    ledger.until("every shard is told", has_pace);
    let (mut requests, mut points) = (0, 0);
    ledger.until("slots end", |ledger| {
        requests += 1;
        ledger.shards[0].see(0, requests);
        let curve = ledger.handle.ask_of(CampaignIndex(0), LedgerQuery::Curve).unwrap();
        points = curve.map_or(0, |curve| {
            assert_eq!((curve.span, curve.strategy), (LimitSpan::Day, "even"));
            curve.points.iter().filter(|point| point.spent.is_some()).count()
        });
        points > 0
    });
    assert_eq!(
        ledger.handle.ask_of(CampaignIndex(2), LedgerQuery::Curve),
        Ok(None),
        "it has no strategy"
    );
    let bidding =
        ledger.handle.ask_of(CampaignIndex(0), LedgerQuery::Bidding).unwrap().expect("it has one");
    assert_eq!((bidding.strategy, bidding.is_fixed_price), ("even", true));
    assert_eq!(ledger.handle.ask_of(CampaignIndex(2), LedgerQuery::Bidding), Ok(None));
    // A daily budget of zero: it passes everything, until the strategy is removed.
    even.terms.version = 2;
    even.terms.budget.limits.day = Some(money(0));
    ledger.handle.define(Vec::new(), vec![even.clone()]).unwrap();
    ledger.until("all are passed by", |ledger| {
        ledger.shards[1].paces[&CampaignIndex(0)] == BidPace::NONE
    });
    assert_eq!(ledger.why(0).refusal, Some(SpendRefusal::DayExhausted));
    assert_eq!(
        ledger.handle.ask_of(CampaignIndex(0), LedgerQuery::Bidding).unwrap().map(|it| it.pace),
        Some(BidPace::NONE)
    );
    let refusals = [Some(SpendRefusal::DayExhausted), None, Some(SpendRefusal::Unknown)];
    assert_eq!(
        ledger.handle.ask_of(
            vec![CampaignIndex(0), CampaignIndex(2), CampaignIndex(9)],
            LedgerQuery::Refusals
        ),
        Ok(refusals.to_vec())
    );
    even.terms.version = 3;
    even.pacing = None;
    ledger.handle.define(Vec::new(), vec![even]).unwrap();
    ledger.until("it bids at value", |ledger| {
        ledger.shards[1].paces[&CampaignIndex(0)] == BidPace::FULL
    });
    assert!(ledger.shards.iter().all(|shard| !shard.paces.contains_key(&CampaignIndex(2))));
    ledger.close();
}

#[test]
fn what_it_does_is_counted_without_naming_campaigns() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = TestLedger::first(folder.path(), 1);
    ledger.define(9, 1_000);
    ledger.reserve(0, 9, 10);
    let mut exposition = Exposition::default();
    ledger.handle.expose(&mut exposition);
    ledger.until("it is counted", |_| {
        let text = exposition.text();
        text.contains("ledger_campaigns 1\n") && !text.contains("committed\"} 0\n")
    });
    let text = exposition.text();
    for line in [
        "ledger_halted 0\n",
        "ledger_replayed 1\n",
        "ledger_store_failing 0\n",
        "ledger_unattributed_wins_total 0\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let status = ledger.handle.status();
    assert_eq!((status.node, status.accounts, status.campaigns), (1, 1, 1));
    ledger.close();
}

#[test]
fn an_account_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = TestLedger::first(folder.path(), 1);
    let id = ledger.account(None).terms.id;
    assert_eq!(
        ledger.handle.ask_of(id, LedgerQuery::WhyAccount).unwrap().refusal,
        Some(SpendRefusal::Unknown)
    );
    assert_eq!(ledger.handle.ask_of(id, LedgerQuery::SpendAccount), Ok(None));
    // More than one query may ask about.
    let campaigns: Vec<_> = (0..2_500).map(|slot| campaign(slot, 1_000)).collect();
    ledger.handle.define(vec![ledger.account(None)], campaigns).unwrap();
    for (seq, slot) in (1..).zip([0, 2_400]) {
        let token = ledger.reserve(0, slot, 100);
        ledger.shards[0].settle(&token);
        settle(&ledger.feed, seq, &token);
    }
    let spent = |ledger: &TestLedger| {
        ledger.handle.ask_of(id, LedgerQuery::SpendAccount).unwrap().map(|it| it.life.get())
    };
    ledger.until("both are counted", |ledger| spent(ledger) == Some(200));
    assert_eq!(ledger.handle.ask_of(id, LedgerQuery::WhyAccount).unwrap().refusal, None);
    let slots: Vec<_> = (0..2_501).map(CampaignIndex).collect();
    let refusals = ledger.handle.ask_of_many(&slots, 1_000, LedgerQuery::Refusals).unwrap();
    assert_eq!(refusals.len(), slots.len());
    let unknown = refusals.iter().position(|it| *it == Some(SpendRefusal::Unknown));
    assert_eq!(unknown, Some(2_500), "in their order");
    ledger.close();
}

#[test]
fn it_is_ready_once_the_log_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = TestLedger::open(folder.path(), 1);
    let mut exposition = Exposition::default();
    ledger.handle.expose(&mut exposition);
    ledger.define(0, 1_000);
    assert!(!ledger.handle.is_ready() && exposition.text().contains("ledger_replayed 0\n"));
    ledger.feed.replayed();
    // Readiness does not wait for grants.
    ledger.until("it is ready", |ledger| ledger.handle.is_ready());
    ledger.close();
}

#[test]
fn an_account_without_a_zone_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = TestLedger::first(folder.path(), 1);
    let mut account = ledger.account(None);
    account.terms.zone = pacer_core::ledger::ZoneId(1_000);
    let defined = ledger.handle.define(vec![account], Vec::new()).unwrap();
    assert!(matches!(defined.notices[..], [LedgerReply::Account(_, Err(_))]), "{defined:?}");
    ledger.close();
}

#[test]
fn a_store_that_cannot_be_used_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display().to_string();
    let ledger = TestLedger::first(folder.path(), 1);
    let refused = start_in(folder.path(), 1).start().unwrap_err();
    assert!(matches!(refused, LedgerStartError::Open(_)));
    let text = refused.to_string();
    assert!(text.starts_with(&place) && text.ends_with("name another directory"), "{text}");
    ledger.close();
    std::fs::write(folder.path().join("ledger.redb"), [7; 9_000]).unwrap();
    let text = start_in(folder.path(), 1).start().unwrap_err().to_string();
    assert!(text.contains(&place) && text.contains("put back a copy"), "{text}");
}
