//! Which winners' prices stay reserved when an auction is answered, and which are released.

use std::collections::HashMap;

use exchange_core::campaigns::{
    BiddingRules, CampaignTargeting, DirectAnswer, DirectBid, DirectCampaign,
};
use exchange_core::{
    BidsReturned, Dsp, Market, NoticeMode, PublisherTerms, Publishers, Rates, SoldDeals, Targeting,
    TieKey, TrackingSignals, eligible, judge,
};
use openrtb::parse_request;
use pacer_core::messages::{CampaignIndex, ToShard};
use serde_json::{Value, json};
use units::{Nanos, Price, Rounding};

use super::*;
use crate::budgets::campaigns::{Campaigns, SeatAccount};
use crate::budgets::shard::tests::{SLOT, ShardFixture, rights_of, shard_fixtures};

/// Of another account.
const OTHER: CampaignIndex = CampaignIndex(5);
/// Of an account without money.
const POOR: CampaignIndex = CampaignIndex(6);

fn dsp(id: &str) -> Dsp {
    Dsp {
        id: id.into(),
        seats: ["s".into()].into_iter().collect(),
        formats: 0b1111,
        sizes: Vec::new(),
        countries: Vec::new(),
        publishers_allowed: Vec::new(),
        publishers_blocked: Vec::new(),
        currencies: vec![Currency::USD],
        timeout: Duration::from_millis(100),
        network_margin: None,
        targeting: Targeting::default(),
        privacy: TrackingSignals::default(),
        notice_hosts: Vec::new(),
    }
}

/// DSPs `d0` to `d3`; returns all bids, not only winners.
fn market() -> Market {
    let notices = NoticeMode::Upstream;
    let others = PublisherTerms { notices, bids: BidsReturned::All, ..PublisherTerms::default() };
    Market {
        dsps: ["d0", "d1", "d2", "d3"].map(dsp).to_vec(),
        publishers: Publishers { others, ..Publishers::default() },
        deals: [].into(),
        sold: SoldDeals::default(),
        floors: Vec::new(),
        rates: Rates::default(),
        currency: Currency::USD,
        increment: Price::parse("0.01 USD", Rounding::Up).expect("a price"),
        deals_first: false,
        creative_id_required: false,
        bid_macros_max: 1000,
        tie_key: TieKey::new([7; 16]),
        supply_chain: None,
        enrichments: Vec::new(),
    }
}

/// Auction type `at`, with `imps` impressions at a floor of 1.00.
fn request(at: u32, imps: usize) -> Value {
    let imp =
        |imp| json!({ "id": format!("{imp}"), "bidfloor": 1, "banner": { "w": 300, "h": 250 } });
    json!({ "id": "c", "at": at, "imp": (0..imps).map(imp).collect::<Vec<_>>() })
}

fn answer(group: u32, bids: &[(usize, f64)]) -> String {
    let bid = |(imp, price): &(usize, f64)| json!({ "id": format!("{imp}"), "impid": format!("{imp}"), "price": price, "adm": "<p>" });
    let bids: Vec<_> = bids.iter().map(bid).collect();
    json!({ "id": "auction", "seatbid": [{ "seat": "s", "group": group, "bid": bids }] })
        .to_string()
}

fn payer(slot: CampaignIndex) -> Payer {
    Payer { slot, currency: Currency::USD }
}

fn accounts(of: &[(&str, CampaignIndex)]) -> Vec<SeatAccount> {
    let account = |(dsp, slot): &(&str, CampaignIndex)| SeatAccount {
        dsp: (*dsp).into(),
        seat: "s".into(),
        payer: payer(*slot),
    };
    of.iter().map(account).collect()
}

/// Bids of direct campaigns by impression, and their campaigns.
type PlacedBids<'h> = (&'h [(usize, f64)], &'h [usize]);

/// Reservations, and the judgement of answers of the DSPs in order.
fn with_reservations(
    shard: &ShardFixture,
    (request, answers): (&Value, &[String]),
    accounts: &[(&str, CampaignIndex)],
    test: impl FnOnce(AuctionReservations<'_>, Judgement<'_>),
) {
    with_direct(shard, (request, answers), (accounts, None), test);
}

/// Adds direct campaigns after the DSPs; in their catalogue 0 is `OTHER` and 1 is `SLOT`.
fn with_direct(
    shard: &ShardFixture,
    (request, answers): (&Value, &[String]),
    (seats, direct): (&[(&str, CampaignIndex)], Option<PlacedBids<'_>>),
    test: impl FnOnce(AuctionReservations<'_>, Judgement<'_>),
) {
    let mut market = market();
    let campaigns = [OTHER, SLOT].map(campaign);
    if direct.is_some() {
        market.dsps.push(dsp("direct"));
    }
    let text = request.to_string();
    let request = parse_request(&text).expect("a request");
    let auction = Auction::new("auction", &request, &market).expect("an auction");
    let asked = |dsp| eligible(&auction, dsp).expect("it is asked");
    let direct = direct.map(|(bids, of)| {
        let bid = |((imp, _), campaign): (&(usize, f64), &usize)| DirectBid {
            imp: *imp,
            campaign: *campaign,
            slot: campaigns[*campaign].slot,
            price: Cpm::ZERO,
        };
        let (body, bids) = (answer(0, bids), bids.iter().zip(of).map(bid).collect());
        DirectBids {
            budget: &shard.budget,
            ask: asked(4),
            answer: DirectAnswer { body, bids, left_out: 0 },
        }
    });
    let answers = answers.iter().enumerate();
    let mut answers: Vec<_> =
        answers.map(|(dsp, body)| DspAnswer { ask: asked(dsp), body: body.as_bytes() }).collect();
    answers.extend(direct.as_ref().map(DirectBids::answer));
    let judgement = judge(&auction, &answers);
    assert!(judgement.bids.iter().all(|bid| bid.entry.is_ok()), "{judgement:?}");
    let joined = Campaigns { seats: accounts(seats), ..Campaigns::default() };
    let seats = joined.payers(&market);
    let reservations = AuctionReservations {
        budget: Some(&shard.budget).filter(|_| !request.is_test()),
        metrics: &shard.metrics.budget,
        pacer: None,
        payers: Payers { seats: &seats, remote: &HashMap::new(), campaigns: &campaigns, sold: &[] },
        auction: &auction,
        direct: direct.as_ref(),
        lifetimes: Lifetimes::default(),
        refusals: BudgetRefusals::default(),
        reservations: Vec::new(),
        pacer_patience: Duration::ZERO,
        wanted: Vec::new(),
        refused: Vec::new(),
    };
    test(reservations, judgement);
}

fn campaign(slot: CampaignIndex) -> DirectCampaign {
    let price = exchange_core::campaigns::CampaignPrice::Fixed(Cpm::ZERO);
    let (targeting, creatives) = (CampaignTargeting::default().into(), Vec::new());
    DirectCampaign {
        id: format!("{}", slot.0).into(),
        slot,
        account: "s".into(),
        currency: Currency::USD,
        rules: BiddingRules { price, targeting, creatives }.into(),
    }
}

/// A shard whose accounts have this much, in cents CPM.
fn shard(cents: u64, other_cents: u64) -> ShardFixture {
    let [mut shard] = shard_fixtures(1, 64);
    let grants: [[ToShard; 2]; 2] =
        [rights_of(SLOT, cents * 10_000), rights_of(OTHER, other_cents * 10_000)];
    shard.receive(&grants.concat());
    shard
}

/// Asserts the exact amount left.
#[track_caller]
fn check_free(shard: &ShardFixture, slot: CampaignIndex, cents: u64) {
    let reserve = |nanos| shard.budget.reserve(slot, Nanos::new(nanos), 60);
    assert!(reserve(cents * 10_000 + 1).is_err(), "it has more");
    if cents > 0 {
        let all = reserve(cents * 10_000).expect("it has that");
        shard.budget.release_token(&all);
    }
}

/// The reserved bids with their accounts.
fn held(reservations: &AuctionReservations<'_>) -> Vec<(usize, CampaignIndex)> {
    let slot = |held: &WinReservation| match held.token {
        HeldToken::Own(token) => (held.bid, token.slot()),
        HeldToken::Remote(_) => panic!("there is no remote pacer"),
    };
    reservations.reservations.iter().map(slot).collect()
}

/// Own budgets answer at once.
fn cleared(reservations: &mut AuctionReservations<'_>, judgement: &Judgement<'_>) -> Clearing {
    at_once(reservations.clear(judgement, Instant::now()))
}

fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(done) => done,
        std::task::Poll::Pending => panic!("it waits"),
    }
}

/// Its rival was refused, so it has less to beat, but pays the same.
#[test]
fn a_winner_is_paid_for_whoever_it_turns_out_to_beat() {
    let shard = shard(1500, 0);
    // The first is complete only after the refusals of the third and then the fourth. In between,
    // the second's bid is the one to beat.
    let answers = [
        answer(1, &[(0, 10.0), (1, 5.0)]),
        answer(0, &[(0, 7.0)]),
        answer(1, &[(1, 6.0), (2, 4.0)]),
        answer(0, &[(2, 8.0)]),
    ];
    let poor = [("d0", SLOT), ("d1", POOR), ("d2", POOR), ("d3", POOR)];
    with_reservations(&shard, (&request(1, 3), &answers), &poor, |mut reservations, judgement| {
        let clearing = cleared(&mut reservations, &judgement);
        assert_eq!(reservations.refusals().len(), 3);
        let won: Vec<_> = clearing.wins.iter().flatten().map(|win| win.entry).collect();
        assert_eq!(won, [0, 1]);
        reservations.release_all_but_returned(&judgement, &clearing);
        assert_eq!(held(&reservations), [(0, SLOT), (1, SLOT)]);
        let sealed = reservations.sealed();
        assert!(reservations.hand_over(sealed, &[0, 1]).is_empty(), "beacons settle all");
    });
    check_free(&shard, SLOT, 0);
}

/// Its account covers only the dearest of its prices.
#[test]
fn a_bid_holds_one_price_at_a_time() {
    let shard = shard(801, 0);
    // As above. The first must beat 7.00 until that is refused while the first is out; then it wins
    // at the floor.
    let answers = [
        answer(1, &[(0, 10.0), (1, 5.0)]),
        answer(0, &[(0, 7.0)]),
        answer(1, &[(1, 6.0), (2, 4.0)]),
        answer(0, &[(2, 8.0)]),
    ];
    let poor = [("d0", SLOT), ("d1", POOR), ("d2", POOR), ("d3", POOR)];
    with_reservations(&shard, (&request(2, 3), &answers), &poor, |mut reservations, judgement| {
        let clearing = cleared(&mut reservations, &judgement);
        assert_eq!(reservations.refusals().len(), 3, "{:?}", reservations.refusals());
        let won = clearing.wins.iter().flatten().map(|win| (win.entry, win.price.micros()));
        assert_eq!(won.collect::<Vec<_>>(), [(0, 1_000_000), (1, 1_000_000)]);
        reservations.release_all_but_returned(&judgement, &clearing);
        assert_eq!(reservations.reservations.len(), 2);
        check_free(&shard, SLOT, 601);
    });
    // They were never returned.
    check_free(&shard, SLOT, 801);
}

#[test]
fn what_is_returned_beside_a_winner_is_paid_for_too_and_once() {
    let shard = shard(800, 700);
    // The first wins until the third's refusal brings back the second's pair; then it is offered.
    let answers = [
        answer(0, &[(0, 8.0)]),
        answer(1, &[(0, 10.0), (1, 2.0)]),
        answer(0, &[(1, 9.0)]),
        answer(0, &[(0, 7.0)]),
    ];
    let accounts = [("d0", SLOT), ("d2", POOR), ("d3", OTHER)];
    with_reservations(
        &shard,
        (&request(1, 2), &answers),
        &accounts,
        |mut reservations, judgement| {
            let mut clearing = cleared(&mut reservations, &judgement);
            assert_eq!(held(&reservations), [(0, SLOT)]);
            at_once(reservations.offer_others(&judgement, &mut clearing, Instant::now()));
            reservations.release_all_but_returned(&judgement, &clearing);
            let offered: Vec<_> = clearing.also_returned.iter().map(|win| win.entry).collect();
            assert_eq!(offered, [0, 4], "{:?}", reservations.refusals());
            assert_eq!(held(&reservations), [(0, SLOT), (4, OTHER)]);
            check_free(&shard, SLOT, 0);
            let sealed = reservations.sealed();
            let unbilled = reservations.hand_over(sealed, &[0]);
            assert_eq!(unbilled.iter().map(|(bid, _)| *bid).collect::<Vec<_>>(), [4]);
        },
    );
    check_free(&shard, SLOT, 0);
}

#[test]
fn an_auction_that_clears_again_holds_for_its_last_winner_alone() {
    let shard = shard(1000, 800);
    let answers = [answer(0, &[(0, 10.0)]), answer(0, &[(0, 8.0)])];
    let accounts = [("d0", SLOT), ("d1", OTHER)];
    with_reservations(
        &shard,
        (&request(1, 1), &answers),
        &accounts,
        |mut reservations, mut judgement| {
            cleared(&mut reservations, &judgement);
            assert_eq!(held(&reservations), [(0, SLOT)]);
            judgement.bar(0, Fate::NoMarkup);
            let clearing = cleared(&mut reservations, &judgement);
            reservations.release_all_but_returned(&judgement, &clearing);
            assert_eq!(held(&reservations), [(1, OTHER)]);
            check_free(&shard, SLOT, 1000);
            let sealed = reservations.sealed();
            assert!(reservations.hand_over(sealed, &[1]).is_empty());
        },
    );
    check_free(&shard, OTHER, 0);
}

#[test]
fn what_loses_after_all_is_given_back() {
    let shard = shard(1000, 0);
    let answers = [answer(0, &[(0, 10.0)]), answer(0, &[(0, 8.0)])];
    with_reservations(
        &shard,
        (&request(1, 1), &answers),
        &[("d0", SLOT)],
        |mut reservations, judgement| {
            let mut clearing = cleared(&mut reservations, &judgement);
            check_free(&shard, SLOT, 0);
            clearing.wins[0] = None;
            reservations.release_all_but_returned(&judgement, &clearing);
            check_free(&shard, SLOT, 1000);
        },
    );
}

/// Also if the caller leaves while DSPs answer.
#[test]
fn a_direct_offer_that_is_dropped_leaves_its_room() {
    let shard = shard(0, 0);
    let direct: (&[_], &[_]) = (&[(0, 10.0)], &[0]);
    let accounts = ([].as_slice(), Some(direct));
    with_direct(&shard, (&request(1, 1), &[]), accounts, |_, _| assert_eq!(shard.rooms(), 0));
    assert_eq!(shard.rooms(), 1);
}

#[test]
fn a_campaign_of_direct_campaigns_pays_for_its_own_bid_behind_others() {
    let shard = shard(1000, 900);
    let answers = [answer(0, &[(0, 2.0), (1, 2.0)]), answer(0, &[(1, 3.0)])];
    // Campaign 1 for the first impression, campaign 0 for the second.
    let direct: (&[_], &[_]) = (&[(0, 10.0), (1, 9.0)], &[1, 0]);
    let accounts = ([].as_slice(), Some(direct));
    with_direct(&shard, (&request(1, 2), &answers), accounts, |mut reservations, judgement| {
        let clearing = cleared(&mut reservations, &judgement);
        reservations.release_all_but_returned(&judgement, &clearing);
        assert_eq!(held(&reservations), [(3, SLOT), (4, OTHER)]);
    });
    // Without DSPs.
    with_direct(&shard, (&request(1, 2), &[]), accounts, |mut reservations, judgement| {
        let clearing = cleared(&mut reservations, &judgement);
        reservations.release_all_but_returned(&judgement, &clearing);
        assert_eq!(held(&reservations), [(0, SLOT), (1, OTHER)]);
    });
    check_free(&shard, SLOT, 1000);
    check_free(&shard, OTHER, 900);
}

#[test]
#[should_panic(expected = "nothing is sold that an account pays for")]
fn a_sale_that_nobody_pays_for_is_not_made() {
    let shard = shard(1000, 0);
    let answers = [answer(0, &[(0, 10.0)])];
    with_reservations(
        &shard,
        (&request(1, 1), &answers),
        &[("d0", SLOT)],
        |mut reservations, judgement| {
            let clearing = cleared(&mut reservations, &judgement);
            reservations.release_unless(|_| false);
            reservations.release_all_but_returned(&judgement, &clearing);
        },
    );
}

#[test]
fn a_test_is_won_without_money() {
    let shard = shard(0, 0);
    let answers = [answer(0, &[(0, 10.0)])];
    let mut request = request(1, 1);
    request["test"] = json!(1);
    with_reservations(
        &shard,
        (&request, &answers),
        &[("d0", POOR)],
        |mut reservations, judgement| {
            let clearing = cleared(&mut reservations, &judgement);
            assert!(clearing.wins[0].is_some());
            reservations.release_all_but_returned(&judgement, &clearing);
            assert!(reservations.sealed().is_empty());
        },
    );
}
