//! Tests of `record`: what is written is read back, and nothing else is.

use proptest::prelude::*;

use super::*;

fn cpm(micros: u64) -> Cpm {
    Cpm::new(micros).expect("a price of a test")
}

fn terms() -> LotTerms {
    let increments = vec![
        IncrementBand { from: Cpm::ZERO, increment: cpm(10) },
        IncrementBand { from: cpm(500), increment: cpm(25) },
    ];
    LotTerms {
        id: LotId::parse("home-1").expect("an id"),
        title: "Home page".to_owned(),
        currency: Currency::USD,
        impressions: 1000,
        rules: LotRules::English(EnglishTerms {
            increments: IncrementBands(increments),
            soft_close: Some(SoftClose { window_ms: 3, extension_ms: 4, total_max_ms: 5 }),
        }),
        start_price: cpm(100),
        reserve: Some(cpm(200)),
        opens_ms: 1000,
        closes_ms: 2000,
        payment: LotPayment::AtClose,
        invited: vec!["a/b".to_owned(), "c/d".to_owned()],
        bids_max: 7,
        deal: LotDeal {
            id: "deal-1".to_owned(),
            publisher: Some("pub".to_owned()),
            starts_ms: 5000,
            ends_ms: 6000,
            priority: 3,
        },
    }
}

fn records() -> Vec<LotRecord> {
    let record = |body, news: Option<&str>| LotRecord {
        lot: LotId::parse("home-1").expect("an id"),
        at_ms: 1234,
        body,
        news: news.map(str::to_owned),
    };
    let event = |kind| LotRecordBody::Event { kind, attempt: None };
    let sealed = LotTerms {
        rules: LotRules::SealedSecondPrice,
        reserve: None,
        payment: LotPayment::OnDelivery,
        invited: Vec::new(),
        deal: LotDeal { publisher: None, ..terms().deal },
        ..terms()
    };
    let no_soft_close = LotTerms {
        rules: LotRules::English(EnglishTerms {
            increments: IncrementBands(Vec::new()),
            soft_close: None,
        }),
        ..terms()
    };
    let bid = LotBid {
        bidder: "a/b".to_owned(),
        account: "acme".to_owned(),
        maximum: cpm(123),
        currency: Currency::USD,
        key: "k".to_owned(),
    };
    let bid = LotRecordBody::Event {
        kind: LotEventKind::Bid { number: 3, bid },
        attempt: Some(HoldAttempt { epoch: 2, counter: 9 }),
    };
    vec![
        record(LotRecordBody::Created(Box::new(terms())), Some("{\"event\":\"created\"}")),
        record(LotRecordBody::Created(Box::new(sealed)), Some("{}")),
        record(LotRecordBody::Created(Box::new(no_soft_close)), None),
        record(event(LotEventKind::Opened), Some("{}")),
        record(bid, None),
        record(event(LotEventKind::Extended { closes_ms: 77 }), Some("{}")),
        record(event(LotEventKind::Closed), Some("{}")),
        record(LotRecordBody::Paid, None),
        record(event(LotEventKind::Cancelled { reason: "no stock".to_owned() }), Some("{}")),
    ]
}

#[test]
fn every_record_is_read_back_whole_or_not_at_all() {
    for record in records() {
        let mut bytes = Vec::new();
        encode(&record, &mut bytes);
        assert_eq!(decode(&bytes), Ok(record));
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err(), "the first {len} bytes");
        }
    }
}

#[test]
fn impossible_values_are_told() {
    let check = |change: &dyn Fn(&mut v1::Lot), field| {
        let mut message = v1::Lot { id: "a".to_owned(), ..v1::Lot::default() };
        message.bid = Some(v1::LotBid { currency: "USD".to_owned(), ..v1::LotBid::default() });
        change(&mut message);
        let mut bytes = Vec::new();
        message.write_record(&mut bytes);
        assert_eq!(decode(&bytes), Err(LotRecordError::Field(field)));
    };
    check(&|it| it.id = "a b".to_owned(), "id");
    check(&|it| it.news = Some(vec![0xff]), "news");
    check(&|it| it.bid = None, "created to paid");
    check(&|it| it.closed = Some(v1::LotClosed {}), "created to paid");
    check(&|it| it.created = Some(v1::LotTerms::default()), "created.deal");
    let bid = |it: &mut v1::Lot, maximum_micros, currency: &str| {
        let currency = currency.to_owned();
        it.bid = Some(v1::LotBid { maximum_micros, currency, ..v1::LotBid::default() });
    };
    check(&|it| bid(it, u64::MAX, "USD"), "bid.maximum_micros");
    check(&|it| bid(it, 1, "usd"), "currency");
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_refused(
        at in 0_usize..9,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = Vec::new();
        encode(&records()[at], &mut bytes);
        for (place, with) in flips {
            let place = place.index(bytes.len());
            bytes[place] ^= with;
        }
        if let Ok(read) = decode(&bytes) {
            let mut again = Vec::new();
            encode(&read, &mut again);
            prop_assert_eq!(decode(&again), Ok(read));
        }
    }
}
