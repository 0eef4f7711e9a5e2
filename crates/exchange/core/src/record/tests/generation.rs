//! The record of a generation, and refusals to write one.

use events::{MalformedRecord, RECORD_BYTES_MAX};

use super::limits::BODY;
use super::*;
use crate::market::sold::SoldDeal;

#[test]
fn a_generation_says_what_is_in_force() {
    let mut market = market();
    market.deals.insert(
        "d".into(),
        DealTerms { dsps: vec![0, 2], fee: Some(ppm(1)), ..DealTerms::default() },
    );
    market.deals_first = true;
    let first = sold_deal("x", 2, "g1", "0.000001 EUR");
    let other = SoldDeal { publisher: Some("p".into()), priority: 255, ..first.clone() };
    market.sold = [first, other].into_iter().collect();
    let named = PublisherTerms { blocked: true, fee: ppm(7), ..PublisherTerms::default() };
    market.publishers.named.insert("p".into(), named);
    let inputs = recorded_generation(&market);
    assert_eq!((inputs.number, inputs.since_unix_ms), (GENERATION, 1_779_999_000_000));
    assert_eq!((inputs.base, inputs.increment), (market.currency, market.increment));
    assert_eq!((inputs.deals_first, inputs.creative_id_required), (true, true));
    assert_eq!(
        (&inputs.deals, &inputs.publishers.named),
        (&market.deals, &market.publishers.named)
    );
    assert_eq!(*inputs.sold, *market.sold);
    assert_eq!(inputs.publishers.others, market.publishers.others);
    for (dsp, of) in inputs.dsps.iter().zip(&market.dsps) {
        let DspRecord { id, seats, currencies, timeout } = dsp;
        assert_eq!((id, &**seats, currencies), (&of.id, &*of.seats, &of.currencies));
        assert_eq!(*timeout, of.timeout);
    }
    assert_eq!(inputs.dsps.len(), 3);
    assert_eq!(inputs.toml.as_deref(), Some(&b"[exchange]\n"[..]));
    assert_eq!(inputs.campaigns, 12);
    for code in ["EUR", "GBP", "JPY", "USD"] {
        let code = currency(code);
        assert_eq!(
            inputs.rates.ratio(code, inputs.base),
            market.rates.ratio(code, market.currency)
        );
    }
}

#[test]
fn a_generation_that_would_say_otherwise_is_not_recorded() {
    let market = market();
    let check = |rates: &[(&str, &'static str)], want: &str| {
        let rates: Vec<_> = rates.iter().map(|(code, worth)| (currency(code), *worth)).collect();
        let mut out = Vec::new();
        let got = encode_generation(&in_force(&market, &rates), &mut out);
        assert_eq!(got.map_err(|error| error.to_string()), Err(want.to_owned()));
        assert!(out.is_empty());
    };
    check(&[("EUR", "1.09"), RATES[1]], "the rate of EUR is not the one in force");
    check(&[RATES[0]], "the rate of GBP is not the one in force");
    check(&[RATES[0], ("GBP", "x")], "the rate of GBP is not the one in force");
    check(&[RATES[0], RATES[1], ("CHF", "1.1")], "the rate of CHF is not the one in force");
    check(&[RATES[0], RATES[1], ("USD", "1")], "the rate of USD is not the one in force");
}

#[test]
fn what_the_increment_is_in_must_have_a_rate() {
    let market = Market { increment: price("1 JPY"), ..market() };
    let rates: Vec<_> = rates_in(&market).into_iter().take(2).collect();
    let mut out = Vec::new();
    let got = encode_generation(&in_force(&market, &rates), &mut out);
    assert_eq!(got, Err(UnrecordableGeneration::Rate(currency("JPY"))));
}

#[test]
fn a_generation_has_so_many_rates_and_dsps() {
    let market = market();
    let mut record = Vec::new();
    encode_generation(&in_force(&market, &rates_in(&market)), &mut record).unwrap();
    let whole = v1::Generation::decode(&*record).unwrap();
    let check = |rates: usize, dsps: usize, want: Option<MalformedRecord>| {
        let rates = vec![whole.rates[0].clone(); rates];
        let dsps = vec![v1::Dsp::default(); dsps];
        let open = v1::Generation { rates, dsps, length: 0, ..whole.clone() };
        let length = u32::try_from(open.encoded_len()).unwrap();
        let record = v1::Generation { length, ..open }.encode_to_vec();
        assert_eq!(GenerationRecord::decode(&record).err(), want);
    };
    check(1024, 1 << 16, None);
    check(1025, 0, Some(MalformedRecord::TooMany(5)));
    check(0, (1 << 16) + 1, Some(MalformedRecord::TooMany(9)));
}

#[test]
fn a_generation_has_room_for_all_sold_deals() {
    let long = |texts: usize| SoldDeal {
        name: "n".repeat(texts - 3).into(),
        price: units::Price { amount: units::Cpm::MAX, currency: currency("EUR") },
        publisher: Some("p".into()),
        starts_ms: u64::MAX,
        ends_ms: u64::MAX,
        priority: 255,
        ..sold_deal("i", u32::MAX as usize, "s", "1 EUR")
    };
    let check = |count: usize, texts: usize| {
        let market = Market { sold: vec![long(texts); count].into_iter().collect(), ..market() };
        let mut record = Vec::new();
        encode_generation(&in_force(&market, &rates_in(&market)), &mut record).unwrap();
        assert!(record.len() <= RECORD_BYTES_MAX / 2 + 1_000, "{}", record.len());
        GenerationRecord::decode(&record).map(|inputs| inputs.sold.len())
    };
    assert_eq!(check(SOLD_DEALS_MAX, SOLD_DEAL_TEXT_MAX), Ok(SOLD_DEALS_MAX));
    assert_eq!(check(SOLD_DEALS_MAX + 1, 10), Err(MalformedRecord::TooMany(15)));
    // A file leaves them their room.
    let market = Market { sold: vec![long(440); 100].into_iter().collect(), ..market() };
    let rates = rates_in(&market);
    for toml in [&BODY[..RECORD_BYTES_MAX - 53_000], &BODY[..RECORD_BYTES_MAX - 51_000]] {
        let mut record = Vec::new();
        let generation = GenerationInForce { toml, ..in_force(&market, &rates) };
        encode_generation(&generation, &mut record).unwrap();
        assert!(record.len() <= RECORD_BYTES_MAX, "{}", record.len());
        assert_eq!(GenerationRecord::decode(&record).unwrap().sold.len(), 100);
    }
}

#[test]
fn a_file_that_is_too_long_is_left_out() {
    let mut market = market();
    let rates = rates_in(&market);
    let with = |market: &Market, toml: &[u8]| {
        let mut out = Vec::new();
        encode_generation(&GenerationInForce { toml, ..in_force(market, &rates) }, &mut out)
            .map(|()| out)
    };
    let record = with(&market, &BODY[..RECORD_BYTES_MAX - 1000]).unwrap();
    let inputs = GenerationRecord::decode(&record).unwrap();
    assert_eq!(inputs.toml.map(|toml| toml.len()), Some(RECORD_BYTES_MAX - 1000));
    let record = with(&market, &BODY[..]).unwrap();
    let inputs = GenerationRecord::decode(&record).unwrap();
    assert_eq!((inputs.toml, inputs.dsps.len()), (None, 3));
    market.dsps[0].seats = std::iter::repeat_n(Box::from("s".repeat(1000)), 1100).collect();
    let error = with(&market, b"").unwrap_err();
    assert!(
        matches!(error, UnrecordableGeneration::TooLong(len) if len > RECORD_BYTES_MAX),
        "{error}"
    );
}
