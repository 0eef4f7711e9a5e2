//! Lots by tables.

use units::{Cpm, Currency};

use super::*;

pub(super) fn cpm(micros: u64) -> Cpm {
    Cpm::new(micros).expect("a price of a test")
}

/// Open from 1000 to 2000, from a price of 100 on in steps of 10.
pub(super) fn terms() -> LotTerms {
    let increments = IncrementBands(vec![IncrementBand { from: Cpm::ZERO, increment: cpm(10) }]);
    LotTerms {
        id: LotId::parse("lot-1").expect("an id"),
        title: "Home page".to_owned(),
        currency: Currency::USD,
        impressions: 1000,
        rules: LotRules::English(EnglishTerms { increments, soft_close: None }),
        start_price: cpm(100),
        reserve: None,
        opens_ms: 1000,
        closes_ms: 2000,
        payment: LotPayment::AtClose,
        invited: Vec::new(),
        bids_max: LOT_BIDS_MAX,
        deal: LotDeal {
            id: "deal-1".to_owned(),
            publisher: None,
            starts_ms: 5000,
            ends_ms: 6000,
            priority: 1,
        },
    }
}
