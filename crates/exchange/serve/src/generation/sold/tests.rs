//! Which offers are taken, and what of them a market gets.

use pacer_core::messages::CampaignIndex;
use units::{Currency, Price, Rounding};

use super::*;
use crate::config::ExchangeConfig;

fn market(dsps: &[&str]) -> Market {
    let dsp = |id: &&str| {
        format!("[[dsp]]\nid = \"{id}\"\nseats = [\"s\"]\nurl = \"http://127.0.0.1:1/\"\n")
    };
    let text = format!("[exchange]\n{}", dsps.iter().map(dsp).collect::<String>());
    let config = runtime::config::parse("test.toml", &text, ExchangeConfig::read);
    config.unwrap_or_else(|problems| panic!("{problems}")).expect("the service is on").market
}

/// The deal `name`, sold to `b/s` from 10 to 20.
fn offer(name: &str) -> SoldOffer {
    SoldOffer {
        deal: SoldDeal {
            name: name.into(),
            id: format!("deal-{name}").into(),
            dsp: 0,
            seat: "s".into(),
            price: Price::parse("1 USD", Rounding::Up).expect("it is a price"),
            publisher: None,
            starts_ms: 10,
            ends_ms: 20,
            priority: 1,
        },
        dsp: "b".into(),
        payer: Payer { slot: CampaignIndex(7), currency: Currency::USD },
    }
}

#[test]
fn offers_are_taken_once_and_refused_with_the_reason() {
    let market = market(&["a", "b"]);
    let mut offers = SoldOffers::default();
    assert_eq!(offers.take(offer("x"), &market.dsps), Ok(()));
    let before = offers.clone();
    assert_eq!(offers.take(offer("x"), &market.dsps), Ok(()));
    let mut check = |change: &dyn Fn(&mut SoldOffer), want: &str| {
        let mut other = offer("y");
        change(&mut other);
        let refused = offers.take(other, &market.dsps).unwrap_err();
        assert_eq!(refused.to_string(), want);
    };
    check(
        &|other| other.deal.seat = "s".repeat(434).into(),
        "its name, id, seat and publisher have 441 bytes together, 440 at most",
    );
    check(
        &|other| (other.deal.name, other.deal.priority) = ("x".into(), 2),
        "`x` is on offer with other terms",
    );
    check(&|other| other.dsp = "c".into(), "no [[dsp]] has the id `c`: correct it, or add the DSP");
    check(
        &|other| other.deal.seat = "t".into(),
        "[[dsp]] `b` has no such seat: correct it, or add it to the DSP's `seats`",
    );
    check(
        &|other| (other.deal.id, other.deal.starts_ms) = ("deal-x".into(), 19),
        "the deal `deal-x` is sold to `b` for some of that time already, as `x`",
    );
    assert_eq!(offers, before);
    // Another DSP, or another time.
    let mut later = offer("y");
    (later.deal.id, later.deal.starts_ms, later.deal.ends_ms) = ("deal-x".into(), 20, 30);
    assert_eq!(offers.take(later, &market.dsps), Ok(()));
    let of_a = SoldOffer { dsp: "a".into(), ..offer("z") };
    assert_eq!(offers.take(of_a, &market.dsps), Ok(()));
}

#[test]
fn so_many_are_on_offer_at_once_until_their_end() {
    let market = market(&["b"]);
    let mut offers = SoldOffers::default();
    for at in 0..SOLD_DEALS_MAX {
        assert_eq!(offers.take(offer(&at.to_string()), &market.dsps), Ok(()));
    }
    assert_eq!(offers.take(offer("more"), &market.dsps), Err(SoldRefusal::TooMany));
    offers.forget_ended(19);
    assert_eq!(offers.take(offer("more"), &market.dsps), Err(SoldRefusal::TooMany));
    offers.forget_ended(20);
    assert_eq!(offers, SoldOffers::default());
}

#[test]
fn buyers_are_resolved_by_each_market() {
    let mut offers = SoldOffers::default();
    let payer = Payer { slot: CampaignIndex(8), currency: Currency::USD };
    let of_a = SoldOffer { dsp: "a".into(), payer, ..offer("x") };
    for offer in [of_a, offer("y")] {
        assert_eq!(offers.take(offer, &market(&["a", "b"]).dsps), Ok(()));
    }
    let check = |dsps: &[&str], want: &[(&str, usize, u32)]| {
        let mut market = market(dsps);
        let payers = offers.add_to_market(&mut market);
        let sold = market.sold.iter().zip(payers);
        let got: Vec<_> = sold.map(|(deal, payer)| (&*deal.name, deal.dsp, payer.slot.0)).collect();
        assert_eq!(got, want);
    };
    check(&["a", "b"], &[("x", 0, 8), ("y", 1, 7)]);
    check(&["b", "c", "a"], &[("x", 2, 8), ("y", 0, 7)]);
    // The one whose DSP is gone is left out, until the DSP returns.
    check(&["b"], &[("y", 0, 7)]);
    check(&[], &[]);
}
