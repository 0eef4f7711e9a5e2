//! A deal that is sold while the exchange runs: its buyer alone receives it and wins at the sold
//! price, as many impressions as its account pays for; the record replays to the same prices.

use exchange_core::record::{AuctionRecord, GenerationRecord, ReplayOutcome, replay};
use exchange_core::{Fate, SoldDeal};
use exchange_serve::SoldOffer;
use exchange_serve::campaigns::{Campaigns, Payer};
use units::{Currency, Price, Rounding};

use crate::budgets::{Ledger, SLOT, TWO, start};
use crate::fixtures::{Dsp, Script, banner, bids, ok, until};
use crate::notices::RecordDir;
use crate::record::{decoded, read};

/// A deal at 2.00 for the seat of `d1`, from now on.
fn offer() -> SoldOffer {
    SoldOffer {
        deal: SoldDeal {
            name: "lot".into(),
            id: "sold".into(),
            dsp: 0,
            seat: "d1".into(),
            price: Price::parse("2 USD", Rounding::Up).expect("a price"),
            publisher: None,
            starts_ms: 0,
            ends_ms: u64::MAX,
            priority: 1,
        },
        dsp: "d1".into(),
        payer: Payer { slot: SLOT, currency: Currency::USD },
    }
}

/// Bids `price` under the deal, whether it is offered or not.
fn under_the_deal(price: &str) -> String {
    format!(r#"{{"id":"1","impid":"1","price":{price},"adm":"<p>","crid":"c","dealid":"sold"}}"#)
}

#[test]
fn a_sold_deal_is_delivered_to_its_buyer_until_its_money_is_spent() {
    let open = r#"{"id":"2","impid":"1","price":1.0,"adm":"<p>","crid":"c"}"#;
    let both = format!("{},{open}", under_the_deal("50"));
    let stranger = Dsp::start([Script::answering(ok(&bids(&both)))]);
    let buyer = Dsp::start([Script::answering(ok(&bids(&under_the_deal("9"))))]);
    let (mut ledger, budgets) = Ledger::of(Campaigns::default());
    let record_dir = RecordDir::new();
    let exchange = start(&record_dir, &[&stranger, &buyer], budgets);
    ledger.gate(1, None);
    ledger.grant(2 * TWO);
    ledger.taken();
    assert_eq!(exchange.auction(&banner("")).price(), "1");
    assert_eq!(exchange.fates(Fate::DealUnknown), 2);
    assert_eq!(exchange.exchange().offer_sold(vec![offer()]), Ok(vec![Ok(())]));
    until("the deal is in force", || exchange.auction(&banner("")).price() == "2");
    let prices: Vec<_> = (0..3).map(|_| exchange.auction(&banner("")).price()).collect();
    assert_eq!(prices, ["2", "1", "1"], "two impressions are paid for");
    assert_eq!(exchange.fates(Fate::BudgetExhausted), 2);
    assert_eq!(exchange.fates(Fate::DealNotOffered), 4, "the stranger's");
    let deal = r#""deals":[{"id":"sold","at":3,"bidfloor":2,"bidfloorcur":"USD","wseat":["d1"]}]"#;
    let last = |dsp: &Dsp| dsp.request(dsp.requests() - 1).body;
    assert!(last(&buyer).contains(deal), "{}", last(&buyer));
    assert!(!last(&stranger).contains("sold"), "{}", last(&stranger));
    exchange.join();
    let lane = |lane| read(&record_dir.place().join(lane));
    let durable = lane("durable");
    let generations: Vec<_> = durable
        .iter()
        .filter_map(|record| GenerationRecord::decode(&record.payload).ok())
        .collect();
    let records = lane("firehose");
    let auctions: Vec<AuctionRecord<'_>> = records.iter().map(decoded).collect();
    assert!(auctions.len() >= 5, "{}", auctions.len());
    for auction in &auctions {
        let of = generations.iter().find(|facts| facts.number == auction.generation);
        assert_eq!(replay(auction, of.expect("its generation")), Ok(ReplayOutcome::Same));
    }
}
