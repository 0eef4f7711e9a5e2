//! Auctions of all kinds replay identically, from their inputs and from their records.

use std::collections::HashMap;

use super::*;
use crate::fixtures::cpm;

const AUCTIONS: u64 = 3000;

/// Does not compare rates, which are the same by construction.
fn assert_same(got: &ClearingInputs, want: &ClearingInputs, seed: u64) {
    let bare = |inputs: &ClearingInputs| {
        let ClearingInputs { currency, base, increment, imps, returns_others, .. } = *inputs;
        let ClearingInputs { bids, groups, refusals, .. } = inputs.clone();
        (currency, base, increment, imps, returns_others, bids, groups, refusals)
    };
    assert_eq!(bare(got), bare(want), "seed {seed}");
}

#[test]
fn an_auction_is_the_same_again() {
    let mut seen: HashMap<Fate, usize> = HashMap::new();
    let (mut unsold, mut refused, mut asked_in_part, mut not_asked) = (0, 0, 0, 0);
    for seed in 0..AUCTIONS {
        let held = held(&Case::drawn(seed));
        assert_eq!(held.kept, Some(RecordedExtent::Whole), "seed {seed}");
        assert_eq!(held.inputs.recompute().as_ref(), Ok(&held.result), "seed {seed}");
        let record = AuctionRecord::decode(&held.record).expect("it was just written");
        assert_same(&replayed_inputs(&record, &held.generation), &held.inputs, seed);
        assert_eq!(replay(&record, &held.generation), Ok(ReplayOutcome::Same), "seed {seed}");
        assert_told(&record, &held, seed);
        unsold += usize::from(held.result.sales.is_empty());
        refused += held.inputs.refusals.len();
        let imps = record.imps.len();
        let in_part = |call: &&RecordedCall| (call.ask.imps.count_ones() as usize) < imps;
        asked_in_part += held.calls.iter().filter(in_part).count();
        not_asked += held.not_asked.len();
        for fate in held.result.fates {
            *seen.entry(fate).or_default() += 1;
        }
    }
    use Fate::{
        BelowDealFloor, BelowFloor, BudgetExhausted, GroupIncomplete, LostToDeal, LostToHigherBid,
        NoMarkup, Offered, PrivateAuction, UnknownImp, Won,
    };
    for fate in [
        Won,
        Offered,
        LostToHigherBid,
        LostToDeal,
        GroupIncomplete,
        BudgetExhausted,
        BelowFloor,
        BelowDealFloor,
        NoMarkup,
        PrivateAuction,
        UnknownImp,
    ] {
        assert!(seen.get(&fate).is_some_and(|times| *times >= 50), "{fate:?}: {seen:?}");
    }
    let rare = [unsold, refused, asked_in_part, not_asked];
    assert!(rare.iter().all(|times| *times >= 50), "{rare:?}");
}

fn assert_told(record: &AuctionRecord<'_>, held: &RecordedCase, seed: u64) {
    let fates: Vec<_> = record.bids.iter().map(|bid| bid.fate).collect();
    assert_eq!(fates, held.result.fates, "seed {seed}");
    let sold = record.sales.iter().map(|sale| {
        let bid = &record.bids[sale.bid];
        let SaleRecord { bid: index, net, paid, min_to_win, revenue, price } = *sale;
        let imp = bid.imp.expect("it is for one");
        let fate = bid.fate;
        (
            crate::answering::sale::Sale { bid: index, imp, fate, net, paid, min_to_win, revenue },
            price,
        )
    });
    let (sales, prices): (Vec<_>, Vec<_>) = sold.unzip();
    assert_eq!((&sales, &prices), (&held.result.sales, &held.result.prices), "seed {seed}");
    let calls: Vec<_> = record.calls.iter().map(|call| call.call).collect();
    assert_eq!((&calls, &record.not_asked), (&held.calls, &held.not_asked), "seed {seed}");
    for CallRecord { call, response } in &record.calls {
        let answered = call.outcome == CallOutcome::Answered;
        assert_eq!(response.is_some(), answered, "seed {seed}");
    }
}

/// Fields in schema order without defaults: any other writer of protobuf gives the same bytes.
#[test]
fn prost_reads_a_record_and_writes_the_same() {
    for seed in 0..200 {
        let held = held(&Case::drawn(seed));
        let message = v1::Auction::decode(&*held.record).expect("it is protobuf");
        assert_eq!(message.encode_to_vec(), held.record, "seed {seed}");
        assert_eq!(written(&message), held.record, "seed {seed}");
        assert_eq!(message.bids.len(), held.inputs.bids.len(), "seed {seed}");
    }
}

#[test]
fn a_changed_fact_is_noticed() {
    let (mut prices, mut refusals) = (0, 0);
    for seed in 0..300 {
        let RecordedCase { inputs, result, .. } = held(&Case::drawn(seed));
        for sale in result.sales.iter().filter(|sale| sale.fate == Fate::Won) {
            let entry = inputs.bids[sale.bid].entry.unwrap();
            if entry.auction_type != AuctionType::FirstPrice {
                continue; // Another bid sets its price.
            }
            let mut changed = inputs.clone();
            let terms = changed.bids[sale.bid].terms.as_mut().unwrap();
            terms.discounted_price = units::Cpm::new(terms.discounted_price.micros() + 1).unwrap();
            assert_ne!(changed.recompute().as_ref(), Ok(&result));
            let mut changed = inputs.clone();
            let dearer = units::Cpm::new(entry.price.micros() + 1).unwrap();
            changed.bids[sale.bid].entry =
                Ok(crate::clearing::clear::ClearingEntry { price: dearer, ..entry });
            assert_ne!(changed.recompute().as_ref(), Ok(&result));
            prices += 1;
        }
        let mut changed = inputs.clone();
        changed.refusals.clear();
        if !inputs.refusals.is_empty() {
            assert_ne!(changed.recompute().as_ref(), Ok(&result));
            refusals += 1;
        }
    }
    assert!(prices > 50 && refusals > 20, "{prices} {refusals}");
}

#[test]
fn inputs_that_no_auction_has_are_reported() {
    let RecordedCase { inputs, .. } = held(&Case::of_one_bid());
    assert!(inputs.recompute().is_ok());
    let check = |change: &dyn Fn(&mut ClearingInputs), want: InvalidInputs| {
        let mut inputs = inputs.clone();
        change(&mut inputs);
        assert_eq!(inputs.recompute().unwrap_err(), want);
    };
    let entry = inputs.bids[0].entry.unwrap();
    let with = |entry: crate::clearing::clear::ClearingEntry| {
        move |inputs: &mut ClearingInputs| inputs.bids[0].entry = Ok(entry)
    };
    check(&|inputs| inputs.imps = 0, InvalidInputs::Imp { bid: 0, imp: 0, imps: 0 });
    check(&|inputs| inputs.bids[0].terms = None, InvalidInputs::Terms { bid: 0 });
    let grouped = crate::clearing::clear::ClearingEntry { group: Some(0), ..entry };
    check(&with(grouped), InvalidInputs::Group { bid: 0, group: 0, groups: 0 });
    let too_dear = crate::clearing::clear::ClearingEntry { floor: cpm("9"), ..entry };
    check(&with(too_dear), InvalidInputs::Floor { bid: 0 });
    let wanting = |inputs: &mut ClearingInputs| {
        inputs.groups.push(crate::clearing::clear::BidGroup {
            imps: vec![0, 9],
            possible: true,
            tie: 0,
        });
    };
    check(&wanting, InvalidInputs::GroupImp { group: 0, imp: 9, imps: 1 });
    let poorer = |inputs: &mut ClearingInputs| {
        let entry = Ok(crate::clearing::clear::ClearingEntry {
            auction_type: AuctionType::Agreed,
            ..entry
        });
        let terms = inputs.bids[0].terms.map(|terms| crate::clearing::pricing::BidTerms {
            discounted_price: cpm("0.01"),
            ..terms
        });
        inputs.bids[0] = BidInputs { entry, terms, ..inputs.bids[0] };
    };
    check(&poorer, InvalidInputs::Price { bid: 0 });
    let never_asked =
        BudgetRefusal { question: 1, entry: 0, price: cpm("2"), fate: Fate::BudgetExhausted };
    check(&|inputs| inputs.refusals.push(never_asked), InvalidInputs::Refusal { refusal: 0 });
}

/// An account may refuse what it authorised before.
#[test]
fn refusals_know_their_question() {
    let win = |entry| Win { entry, price: cpm("2"), min_to_win: cpm("1") };
    let mut refusals = BudgetRefusals::default();
    assert_eq!(refusals.note(&win(3), Ok(())), Ok(()));
    let no = Err(Fate::BudgetExhausted);
    assert_eq!(refusals.note(&win(3), no), no);
    let refused =
        BudgetRefusal { question: 1, entry: 3, price: cpm("2"), fate: Fate::BudgetExhausted };
    assert_eq!(refusals.refused(), [refused]);
    refusals.restart();
    assert!(refusals.refused().is_empty());
    assert_eq!(refusals.note(&win(0), no), no);
    assert_eq!(refusals.refused()[0].question, 0);
}
