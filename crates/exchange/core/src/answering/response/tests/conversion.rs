//! For any currencies, fees, discounts and floors, no bidder pays above its bid, and no publisher
//! sells below its floor.

use proptest::prelude::*;
use units::Cpm;
use units::{Currency, Price, Ratio};

use super::*;
use crate::answering::sale::sales;
use crate::auction::fate::Fate;
use crate::fixtures::currency;
use crate::market::rates::Rates;

const CODES: [&str; 3] = ["USD", "EUR", "GBP"];

#[derive(Clone, Debug)]
struct Drawn {
    /// Value of each of [`CODES`], in hundred-thousandths.
    worth: [u32; 3],
    /// By position in [`CODES`]: of the auction, of the impression's floor, of the deal's.
    currencies: [usize; 3],
    fee: u32,
    discount: u32,
    floors: [u64; 2],
    at: u8,
    deal_at: u8,
    bids: [(u64, usize, bool); 3],
}

fn price_in_micros() -> impl Strategy<Value = u64> {
    let max = Cpm::MAX.micros();
    prop_oneof![6 => 1u64..5_000_000, 1 => 1u64..100, 1 => max - 1_000..=max]
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let worth = prop_oneof![Just(100_000u32), 1_000u32..10_000_000];
    let money = (prop::array::uniform3(worth), prop::array::uniform3(0usize..3));
    let shares = (0u32..999_999, prop_oneof![Just(0u32), 0u32..=1_000_000]);
    let floors = prop::array::uniform2(prop_oneof![Just(0u64), 0u64..3_000_000]);
    let types = (1u8..=2, 1u8..=3);
    let bid = (price_in_micros(), 0usize..3, any::<bool>());
    (money, shares, floors, types, prop::array::uniform3(bid)).prop_map(
        |((worth, currencies), (fee, discount), floors, (at, deal_at), bids)| Drawn {
            worth,
            currencies,
            fee: fee / if fee % 3 == 0 { 1 } else { 10 },
            discount: discount / if discount % 3 == 0 { 1 } else { 4 },
            floors,
            at,
            deal_at,
            bids,
        },
    )
}

fn text_of(micros: u64) -> Value {
    json_of(&Cpm::new(micros).unwrap().to_string())
}

impl Drawn {
    fn market(&self) -> Market {
        let mut market = market();
        let ratio = |worth: u32| Ratio::parse(&format!("{worth}e-5")).unwrap();
        market.rates = Rates::new((0..3).map(|at| (currency(CODES[at]), ratio(self.worth[at]))));
        market.increment = Price { amount: Cpm::new(7).unwrap(), currency: Currency::USD };
        market.publishers.others =
            PublisherTerms { fee: ppm(self.fee), ..PublisherTerms::default() };
        let terms = DealTerms { discount: ppm(self.discount), ..DealTerms::default() };
        market.deals.insert("d".into(), terms);
        market
    }

    fn request(&self) -> String {
        let [of_auction, of_imp, of_deal] = self.currencies.map(|at| CODES[at]);
        let deal = json!({
            "id": "d",
            "at": self.deal_at,
            "bidfloor": text_of(self.floors[1]),
            "bidfloorcur": of_deal,
        });
        let imp = imp(json!({
            "bidfloor": text_of(self.floors[0]),
            "bidfloorcur": of_imp,
            "pmp": { "deals": [deal] },
        }));
        request(json!({ "at": self.at, "cur": [of_auction], "imp": [imp] }))
    }

    fn bodies(&self) -> Vec<(usize, String)> {
        let body = |(dsp, (price, code, is_deal)): (usize, &(u64, usize, bool))| {
            let dealid = if *is_deal { json!("d") } else { Value::Null };
            let own = bid(json!({ "price": text_of(*price), "dealid": dealid }));
            let own = json_of(&dsp_response(&[own]));
            (dsp, merged(&own, &json!({ "cur": CODES[*code] })).to_string())
        };
        self.bids.iter().enumerate().map(body).collect()
    }

    /// Micros of a currency as a count that compares across currencies.
    fn common(&self, micros: u64, code: usize) -> u128 {
        u128::from(micros) * u128::from(self.worth[code])
    }
}

fn check(drawn: &Drawn) -> Result<(), TestCaseError> {
    let market = drawn.market();
    let body = drawn.request();
    let parsed = openrtb::parse_request(&body).unwrap();
    // A floor too high for a price is refused beforehand.
    let Ok(auction) = Auction::new("auction-1", &parsed, &market) else { return Ok(()) };
    let bodies = drawn.bodies();
    let answers = answers(&auction, &bodies);
    let judgement = judge(&auction, &answers);
    let clearing = cleared(&auction, &judgement, |_| Ok(()));
    let sales = sales(&auction, &judgement, &clearing);
    prop_assert!(sales.len() <= 1);
    for sale in &sales {
        let judged = &judgement.bids[sale.bid];
        let (bid, code, is_deal) = drawn.bids[judged.answer];
        prop_assert!(sale.paid.micros() <= bid);
        let discounted = ppm(if is_deal && drawn.deal_at != 3 { drawn.discount } else { 0 });
        prop_assert!(sale.paid <= discounted.taken_from(Cpm::new(bid).unwrap()));
        prop_assert!(sale.min_to_win.unwrap().micros() <= bid);
        // The publisher gets at most what was paid, and at least its floor.
        let [of_auction, of_imp, of_deal] = drawn.currencies;
        let net = drawn.common(sale.net.micros(), of_auction);
        prop_assert!(net <= drawn.common(sale.paid.micros(), code));
        let agreed = is_deal && drawn.deal_at == 3;
        let floor = match is_deal {
            true => drawn.common(drawn.floors[1], of_deal),
            false => drawn.common(drawn.floors[0], of_imp),
        };
        prop_assert!(agreed || net >= floor, "net {} floor {}", net, floor);
        if agreed {
            prop_assert!(
                drawn.common(sale.paid.micros(), code) <= floor + u128::from(drawn.worth[code])
            );
        }
        let text = response(&auction, &answers, &judgement, &sales);
        prop_assert!(openrtb::is_json(&text));
    }
    Ok(())
}

fn check_shown(drawn: &Drawn) -> Result<(), TestCaseError> {
    let market = drawn.market();
    let body = drawn.request();
    let parsed = openrtb::parse_request(&body).unwrap();
    let Ok(auction) = Auction::new("auction-1", &parsed, &market) else { return Ok(()) };
    let view = openrtb::OutboundView {
        imps: !0,
        deals: !0,
        tmax: "1",
        cur: "[]",
        buyeruid: None,
        bidder: None,
        is_limited: false,
    };
    let shown = json_of(&crate::asking::outbound::outbound(&auction, &body).to_text(&view));
    let of_imp = &shown["imp"][0];
    let of_deal = &of_imp["pmp"]["deals"][0];
    for (floor, dealid) in [(of_imp, Value::Null), (of_deal, json!("d"))] {
        let micros = cpm(&floor["bidfloor"].to_string()).micros();
        // No bid is possible, or none suffices.
        if micros < 100 || micros > Cpm::MAX.micros() / 2 {
            continue;
        }
        let own = bid(json!({ "price": text_of(micros), "dealid": dealid }));
        let own = merged(&json_of(&dsp_response(&[own])), &json!({ "cur": floor["bidfloorcur"] }));
        let bodies = [(0, own.to_string())];
        let judgement = judge(&auction, &answers(&auction, &bodies));
        let verdict = judgement.bids[0].entry;
        // A price that converts to zero is invalid.
        prop_assert!(matches!(verdict, Ok(_) | Err(Fate::BadPrice)), "{:?} {}", verdict, floor);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn nobody_pays_above_its_bid_nor_sells_below_its_floor(drawn in drawn()) {
        check(&drawn)?;
    }

    #[test]
    fn what_is_shown_suffices(drawn in drawn()) {
        check_shown(&drawn)?;
    }
}
