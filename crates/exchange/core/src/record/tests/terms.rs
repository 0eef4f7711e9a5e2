//! Every changed price, fate and refusal is found and named.

use super::*;

/// Changes every element of a list that `change` applies to, one at a time, in many auctions, and
/// returns their number. Each change must be found as one of the fields `told`, or by the decoder.
#[track_caller]
fn check(told: &[&str], change: impl Fn(&mut v1::Auction, usize) -> Option<bool>) -> usize {
    let mut changed = 0;
    for seed in 0..150 {
        let held = held(&Case::drawn(seed));
        let whole = v1::Auction::decode(&*held.record).expect("it is protobuf");
        for at in 0.. {
            let mut message = whole.clone();
            match change(&mut message, at) {
                None => break,
                Some(false) => continue,
                Some(true) => (),
            }
            let record = written(&message);
            let Ok(decoded) = AuctionRecord::decode(&record) else {
                changed += 1;
                continue;
            };
            let difference = replay(&decoded, &held.generation);
            let difference = difference.expect_err(&format!("seed {seed}, {told:?} at {at}"));
            let is_told = match &difference {
                ReplayDifference::Changed { changes, .. } => {
                    changes.iter().any(|change| told.contains(&change.field))
                }
                ReplayDifference::Unsound(_) => told.contains(&"unsound"),
                ReplayDifference::Generation { .. } => told.contains(&"generation"),
            };
            assert!(is_told, "seed {seed}, {told:?} at {at}: {difference}");
            changed += 1;
        }
    }
    assert!(changed > 20, "{told:?}: {changed}");
    changed
}

fn bids(change: impl Fn(&mut v1::Bid) -> bool) -> impl Fn(&mut v1::Auction, usize) -> Option<bool> {
    move |message, at| message.bids.get_mut(at).map(&change)
}

fn sales(change: impl Fn(&mut v1::Sale)) -> impl Fn(&mut v1::Auction, usize) -> Option<bool> {
    move |message, at| {
        message.sales.get_mut(at).map(|sale| {
            change(sale);
            true
        })
    }
}

fn refusals(change: impl Fn(&mut v1::Refusal)) -> impl Fn(&mut v1::Auction, usize) -> Option<bool> {
    move |message, at| {
        message.refusals.get_mut(at).map(|refusal| {
            change(refusal);
            true
        })
    }
}

fn took_part(bid: &v1::Bid) -> bool {
    bid.worth_micros.is_some()
}

fn plus_one(value: &mut Option<u64>) -> bool {
    value.as_mut().map(|value| *value += 1).is_some()
}

#[test]
fn a_changed_price_of_a_bid_is_found() {
    // A thousandth, because conversions round away less.
    let price = bids(|bid| {
        bid.price_micros = bid.price_micros.map(|price| price + 1000);
        took_part(bid)
    });
    // A bid under an agreed price pays that price, whatever its own.
    let is_agreed = |message: &v1::Auction, at: usize| {
        let deal = message.bids.get(at).and_then(|bid| bid.deal);
        let kind = deal.map(|deal| message.deals[deal as usize].auction_type());
        kind == Some(v1::AuctionType::Agreed)
    };
    check(&["worth"], |message, at| {
        let applies = !is_agreed(message, at);
        price(message, at).map(|changed| changed && applies)
    });
    check(&["worth"], bids(|bid| plus_one(&mut bid.worth_micros)));
    let in_yen = |message: &mut v1::Auction, at: usize| {
        let bid = message.bids.get_mut(at)?;
        bid.currency = "JPY".to_owned();
        Some(took_part(bid))
    };
    // No DSP bids in yen.
    check(&["currency"], in_yen);
    check(&["worth"], |message, at| {
        let applies = !is_agreed(message, at);
        in_yen(message, at).map(|changed| changed && applies)
    });
}

#[test]
fn a_changed_floor_is_found_where_it_decides() {
    check(
        &["worth"],
        bids(|bid| {
            bid.floor_micros = bid.worth_micros.map(|worth| worth + 1);
            took_part(bid)
        }),
    );
    check(&["floor"], |message, at| {
        let bid = message.bids.get_mut(at)?;
        let imp = bid.imp.map(|imp| &message.imps[imp as usize]);
        let least = imp.map_or(0, |imp| imp.bidfloor_micros);
        bid.floor_micros = least.checked_sub(1);
        Some(took_part(bid) && bid.deal.is_none() && least > 0)
    });
    check(&["worth"], |message, at| {
        let bid = message.bids.get_mut(at)?;
        let below = [v1::Fate::BelowFloor, v1::Fate::BelowDealFloor].contains(&bid.fate());
        let is_below = below && bid.floor_micros.is_some();
        bid.floor_micros = Some(1);
        Some(is_below)
    });
}

/// By a micro, whether or not the floor set a price: for every bid with a plain floor.
#[test]
fn a_floor_changed_by_one_micro_is_found() {
    let is_plain = |message: &v1::Auction, at: usize| {
        let bid = &message.bids[at];
        let deal = bid.deal.map(|deal| &message.deals[deal as usize]);
        let imp = bid.imp.map(|imp| &message.imps[imp as usize]);
        let agreed = v1::AuctionType::Agreed;
        match (deal, imp) {
            (Some(deal), _) => deal.is_floor_plain || deal.auction_type() == agreed,
            (None, imp) => imp.is_some_and(|imp| imp.is_floor_plain),
        }
    };
    for less in [false, true] {
        let changed = check(&["floor"], |message, at| {
            let bid = message.bids.get(at)?;
            let below = [v1::Fate::BelowFloor, v1::Fate::BelowDealFloor].contains(&bid.fate());
            let applies = (took_part(bid) || below) && bid.floor_micros.is_some_and(|it| it > 0);
            let applies = applies && is_plain(message, at);
            let floor = &mut message.bids[at].floor_micros;
            *floor = floor.map(|floor| if less { floor.saturating_sub(1) } else { floor + 1 });
            Some(applies)
        });
        assert!(changed > 400, "{changed}");
    }
    check(&["bidfloor"], |message, at| {
        let imp = message.imps.get_mut(at)?;
        imp.bidfloor_micros += 1;
        Some(imp.bidfloor_net_micros.is_some())
    });
}

#[test]
fn a_changed_fate_is_found() {
    use v1::Fate::{BelowDealFloor, BelowFloor, BudgetExhausted, LostToDeal, LostToHigherBid, Won};
    for other in [Won, LostToDeal, LostToHigherBid, BudgetExhausted, BelowFloor, BelowDealFloor] {
        check(
            &["fate", "worth"],
            bids(move |bid| {
                let is_other = bid.fate() != other;
                let is_decided =
                    took_part(bid) || [BelowFloor, BelowDealFloor].contains(&bid.fate());
                bid.set_fate(other);
                is_other && is_decided
            }),
        );
    }
}

#[test]
fn a_changed_sale_is_found() {
    check(&["price"], sales(|sale| sale.price_micros += 1));
    check(&["net"], sales(|sale| sale.net_micros += 1));
    check(&["paid"], sales(|sale| sale.paid_micros += 1));
    check(&["revenue"], sales(|sale| sale.revenue_nanos += 1));
    check(
        &["min_to_win"],
        sales(|sale| {
            sale.min_to_win_micros = Some(sale.min_to_win_micros.map_or(0, |least| least + 1));
        }),
    );
    check(&["bid"], |message, at| {
        (at < message.sales.len()).then(|| message.sales.remove(at)).map(|_| true)
    });
    check(&["bid"], |message, at| {
        let sale = *message.sales.get(at)?;
        message.sales.insert(at, sale);
        Some(true)
    });
}

#[test]
fn a_changed_refusal_is_found() {
    check(&["unsound"], refusals(|refusal| refusal.price_micros += 1));
    check(&["unsound"], refusals(|refusal| refusal.question += 100));
    check(&["fate"], refusals(|refusal| refusal.set_fate(v1::Fate::LostToHigherBid)));
    check(&["fate", "bid", "unsound"], |message, at| {
        (at < message.refusals.len()).then(|| message.refusals.remove(at)).map(|_| true)
    });
    check(&["unsound"], |message, at| {
        let bid = message.bids.get(at)?;
        let question = message.refusals.last().map_or(90, |last| last.question + 90);
        let price_micros = bid.worth_micros.unwrap_or_default();
        let (bid, fate) = (u32::try_from(at).ok()?, v1::Fate::BudgetExhausted.into());
        message.refusals.push(v1::Refusal { question, bid, price_micros, fate });
        Some(true)
    });
}

#[test]
fn changed_terms_are_found() {
    check(&["increment"], |message, at| {
        message.terms.as_mut().filter(|_| at == 0)?.increment_micros += 1;
        Some(true)
    });
    check(&["notices"], |message, at| {
        message.terms.as_mut().filter(|_| at == 0)?.set_notices(v1::NoticeMode::Final);
        Some(true)
    });
    check(&["bids_returned"], |message, at| {
        let terms = message.terms.as_mut().filter(|_| at == 0)?;
        let other = match terms.bids_returned() {
            v1::BidsReturned::All => v1::BidsReturned::Winner,
            _ => v1::BidsReturned::All,
        };
        terms.set_bids_returned(other);
        Some(true)
    });
    check(&["fee"], |message, at| {
        message.imps.get_mut(at)?.fee_ppm += 1;
        Some(true)
    });
    check(&["fee"], |message, at| {
        message.deals.get_mut(at)?.fee_ppm += 1;
        Some(true)
    });
    check(&["discount"], |message, at| {
        message.deals.get_mut(at)?.discount_ppm += 1;
        Some(true)
    });
    check(&["class"], |message, at| {
        message.deals.get_mut(at)?.class += 1;
        Some(true)
    });
    check(&["generation"], |message, at| {
        message.generation += 1;
        (at == 0).then_some(true)
    });
    check(&["dsp"], |message, at| {
        let calls = message.calls.len();
        (at < calls).then(|| message.calls[calls - 1].dsp = 3 + message.calls[at].dsp)?;
        Some(!message.bids.iter().any(|bid| bid.dsp == message.calls[calls - 1].dsp - 3))
    });
    check(
        &["seat"],
        bids(|bid| {
            bid.seat = bid.seat.map(|seat| seat + 2);
            took_part(bid)
        }),
    );
}

/// A bid that converts to zero takes no part, even without a floor.
#[test]
fn a_bid_of_nothing_is_found() {
    let held = held(&Case::of_one_bid());
    let mut message = v1::Auction::decode(&*held.record).unwrap();
    let bid = &mut message.bids[0];
    (bid.price_micros, bid.worth_micros, bid.floor_micros) = (Some(0), Some(0), Some(0));
    message.sales[0] = v1::Sale { min_to_win_micros: Some(0), ..v1::Sale::default() };
    let told = replayed(&written(&message), &held.generation).unwrap_err();
    let want = "bids[0] (alpha, seat a1, id \"b1\") worth: recorded 0, recomputed none";
    assert_eq!(told.lines().next(), Some(want));
}

#[test]
fn a_difference_says_what_and_where() {
    let held = held(&Case::of_one_bid());
    let mut message = v1::Auction::decode(&*held.record).unwrap();
    message.sales[0].net_micros += 250_000;
    message.bids[0].set_fate(v1::Fate::Offered);
    let told = replayed(&written(&message), &held.generation).unwrap_err();
    let net = held.result.sales[0].net;
    let want = [
        "bids[0] (alpha, seat a1, id \"b1\") fate: recorded offered, recomputed won".to_owned(),
        format!(
            "sales[0] (alpha, seat a1, id \"b1\") net: recorded {}, recomputed {net}",
            net.saturating_add(units::Cpm::new(250_000).unwrap())
        ),
    ];
    assert_eq!(told, want.join("\n"));
    for number in [3, 13] {
        let other = GenerationRecord { number, ..held.generation.clone() };
        let told = replayed(&held.record, &other).unwrap_err();
        let want = format!("it was held by generation 12 of the configuration, this is {number}");
        assert_eq!(told, want);
    }
}

#[test]
fn a_difference_has_an_end() {
    let mut case = Case::of_one_bid();
    let many: Vec<_> = (0..100).map(|id| bid(json!({ "id": id.to_string() }))).collect();
    case.bodies = vec![(0, crate::fixtures::response(&many))];
    let held = held(&case);
    let mut message = v1::Auction::decode(&*held.record).unwrap();
    for bid in &mut message.bids {
        bid.worth_micros = bid.worth_micros.map(|worth| worth + 1);
    }
    let told = replayed(&written(&message), &held.generation).unwrap_err();
    assert_eq!(told.lines().count(), 33);
    assert!(told.ends_with("… and 68 more"), "{told}");
}
