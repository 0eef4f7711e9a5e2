//! The writer's output equals prost's byte for byte, for any record and any length.

use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use prost::Message as _;

use super::*;
use crate::reader::{Bytes, Fixed64, MessageReader, Varint};
use crate::{fields, v1};

fn ids() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-zé-]{1,12}", "[x]{120,140}"]
}

/// Values of every width of a varint, about equally often.
fn amounts() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64u32).prop_map(|(bits, shift)| bits >> shift)
}

fn small() -> impl Strategy<Value = u32> {
    (any::<u32>(), 0..32u32).prop_map(|(bits, shift)| bits >> shift)
}

prop_compose! {
    fn moments()(
        parsed_us in option::of(small()), asked_us in option::of(small()),
        closed_us in option::of(small()), cleared_us in option::of(small()),
        answered_us in option::of(small()), late in any::<bool>(), left in amounts(),
    ) -> v1::Moments {
        let left = left.cast_signed();
        let left_us = if late { left.wrapping_neg() } else { left };
        v1::Moments { parsed_us, asked_us, closed_us, cleared_us, answered_us, left_us }
    }
}

prop_compose! {
    fn imp()(
        id in ids(), formats in 0..16u32, is_private in any::<bool>(), bidfloor_micros in amounts(),
        shown_floor_micros in option::of(amounts()), fee_ppm in small(),
        multiplier_millionths in amounts(), bidfloor_net_micros in option::of(amounts()),
        currency in select(vec!["", "USD", "EUR"]), is_floor_plain in any::<bool>(),
    ) -> v1::Imp {
        v1::Imp {
            id, formats, is_private, bidfloor_micros, shown_floor_micros, fee_ppm,
            multiplier_millionths, bidfloor_net_micros, bidfloor_currency: currency.to_owned(),
            is_floor_plain,
        }
    }
}

prop_compose! {
    fn call()(
        dsp in small(), imps in amounts(), deals in prop::collection::vec(small(), 0..40),
        tmax_ms in small(), outcome in 0..15i32, sent_us in option::of(small()),
        latency_us in option::of(small()), response in 0..5i32,
    ) -> v1::Call {
        v1::Call { dsp, imps, deals, tmax_ms, outcome, sent_us, latency_us, response }
    }
}

prop_compose! {
    fn bid()(
        (dsp, seat, imp) in (small(), option::of(small()), option::of(small())),
        (id, currency) in (ids(), select(vec!["", "USD", "EUR"])),
        (price_micros, floor_micros, worth_micros) in
            (option::of(amounts()), option::of(amounts()), option::of(amounts())),
        (deal, group) in (option::of(small()), option::of(small())),
        tie in amounts(), barred in 0..35i32, is_out_of_reach in any::<bool>(), fate in 0..35i32,
        campaign in ids(),
    ) -> v1::Bid {
        v1::Bid {
            dsp, seat, imp, id, currency: currency.to_owned(), price_micros, deal, floor_micros,
            worth_micros, tie, group, barred, is_out_of_reach, fate,
            campaign,
        }
    }
}

prop_compose! {
    fn auction()(
        (id, caller_id, publisher) in (ids(), ids(), option::of(ids())),
        (generation, arrival_unix_us) in (amounts(), amounts()),
        (moments, is_test) in (option::of(moments()), any::<bool>()),
        (imps, calls, bids) in (
            prop::collection::vec(imp(), 0..4),
            prop::collection::vec(call(), 0..4),
            prop::collection::vec(bid(), 0..4),
        ),
        request in option::of(prop::collection::vec(any::<u8>(), 0..300)),
        answers in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..3),
    ) -> v1::Auction {
        let answers = answers.into_iter().map(|body| v1::Answer { dsp: 1, body }).collect();
        v1::Auction {
            version: 1, id, caller_id, generation, arrival_unix_us, moments, publisher, is_test,
            imps, calls, bids, request, answers, ..v1::Auction::default()
        }
    }
}

fn write_moments(out: &mut MessageWriter<'_>, moments: &v1::Moments) {
    use fields::moments as field;
    out.present_uint(field::PARSED_US, moments.parsed_us.map(u64::from));
    out.present_uint(field::ASKED_US, moments.asked_us.map(u64::from));
    out.present_uint(field::CLOSED_US, moments.closed_us.map(u64::from));
    out.present_uint(field::CLEARED_US, moments.cleared_us.map(u64::from));
    out.present_uint(field::ANSWERED_US, moments.answered_us.map(u64::from));
    out.sint(field::LEFT_US, moments.left_us);
}

fn write_imp(out: &mut MessageWriter<'_>, imp: &v1::Imp) {
    use fields::imp as field;
    out.text(field::ID, &imp.id);
    out.uint(field::FORMATS, imp.formats.into());
    out.flag(field::IS_PRIVATE, imp.is_private);
    out.uint(field::BIDFLOOR_MICROS, imp.bidfloor_micros);
    out.present_uint(field::SHOWN_FLOOR_MICROS, imp.shown_floor_micros);
    out.uint(field::FEE_PPM, imp.fee_ppm.into());
    out.uint(field::MULTIPLIER_MILLIONTHS, imp.multiplier_millionths);
    out.present_uint(field::BIDFLOOR_NET_MICROS, imp.bidfloor_net_micros);
    out.text(field::BIDFLOOR_CURRENCY, &imp.bidfloor_currency);
    out.flag(field::IS_FLOOR_PLAIN, imp.is_floor_plain);
}

/// An enumeration.
fn code(value: i32) -> u64 {
    u64::try_from(value).expect("codes are positive")
}

fn write_call(out: &mut MessageWriter<'_>, call: &v1::Call) {
    use fields::call as field;
    out.uint(field::DSP, call.dsp.into());
    out.uint(field::IMPS, call.imps);
    out.packed(field::DEALS, call.deals.iter().map(|deal| u64::from(*deal)));
    out.uint(field::TMAX_MS, call.tmax_ms.into());
    out.uint(field::OUTCOME, code(call.outcome));
    out.present_uint(field::SENT_US, call.sent_us.map(u64::from));
    out.present_uint(field::LATENCY_US, call.latency_us.map(u64::from));
    out.uint(field::RESPONSE, code(call.response));
}

fn write_bid(out: &mut MessageWriter<'_>, bid: &v1::Bid) {
    use fields::bid as field;
    out.position(field::DSP, bid.dsp as usize);
    out.present_position(field::SEAT, bid.seat.map(|seat| seat as usize));
    out.present_uint(field::IMP, bid.imp.map(u64::from));
    out.text(field::ID, &bid.id);
    out.text(field::CURRENCY, &bid.currency);
    out.present_uint(field::PRICE_MICROS, bid.price_micros);
    out.present_uint(field::DEAL, bid.deal.map(u64::from));
    out.present_uint(field::FLOOR_MICROS, bid.floor_micros);
    out.present_uint(field::WORTH_MICROS, bid.worth_micros);
    out.fixed64(field::TIE, bid.tie);
    out.present_uint(field::GROUP, bid.group.map(u64::from));
    out.uint(field::BARRED, code(bid.barred));
    out.flag(field::IS_OUT_OF_REACH, bid.is_out_of_reach);
    out.uint(field::FATE, code(bid.fate));
    out.text(field::CAMPAIGN, &bid.campaign);
}

fn write_auction(auction: &v1::Auction, out: &mut Vec<u8>) {
    use fields::auction as field;
    let mut record = MessageWriter::new(out);
    record.uint(field::VERSION, auction.version.into());
    record.text(field::ID, &auction.id);
    record.text(field::CALLER_ID, &auction.caller_id);
    record.uint(field::GENERATION, auction.generation);
    record.uint(field::ARRIVAL_UNIX_US, auction.arrival_unix_us);
    if let Some(moments) = &auction.moments {
        record.message(field::MOMENTS, |out| write_moments(out, moments));
    }
    record.present_text(field::PUBLISHER, auction.publisher.as_deref());
    record.flag(field::IS_TEST, auction.is_test);
    for imp in &auction.imps {
        record.message(field::IMPS, |out| write_imp(out, imp));
    }
    for call in &auction.calls {
        record.message(field::CALLS, |out| write_call(out, call));
    }
    for bid in &auction.bids {
        record.message(field::BIDS, |out| write_bid(out, bid));
    }
    record.present_bytes(field::REQUEST, auction.request.as_deref());
    for answer in &auction.answers {
        record.message(field::ANSWERS, |out| {
            out.uint(fields::answer::DSP, answer.dsp.into());
            out.bytes(fields::answer::BODY, &answer.body);
        });
    }
    record.finish();
}

proptest! {
    #[test]
    fn written_as_prost_writes_it(auction in auction(), before in "[a-z]{0,3}") {
        let mut out = before.clone().into_bytes();
        write_auction(&auction, &mut out);
        let record = &out[before.len()..];
        let length = u32::try_from(record.len() - 6).expect("it is short");
        let whole = v1::Auction { length, ..auction };
        prop_assert_eq!(record, whole.encode_to_vec());
        prop_assert_eq!(v1::Auction::decode(record), Ok(whole));
    }

    #[test]
    fn read_as_it_was_written(
        uint in amounts(), sint in amounts(), flag in any::<bool>(), fixed64 in any::<u64>(),
        text in ids(), packed in prop::collection::vec(small(), 0..40),
    ) {
        let sint = sint.cast_signed();
        let mut out = Vec::new();
        let mut writer = MessageWriter::new(&mut out);
        writer.present_uint(1, Some(uint));
        writer.sint(2, sint);
        writer.flag(3, flag);
        writer.fixed64(4, fixed64);
        writer.present_text(5, Some(&text));
        writer.packed(6, packed.iter().map(|value| u64::from(*value)));
        let mut read = (0, 0, false, 0, String::new(), Vec::new());
        let mut reader = MessageReader::new(&out);
        read.0 = reader.take(1, Varint::uint).expect("a number").unwrap_or_default();
        read.1 = reader.take(2, Varint::sint).expect("a number").unwrap_or_default();
        read.2 = reader.take(3, Varint::flag).expect("a flag").unwrap_or_default();
        read.3 = reader.take(4, Fixed64::uint).expect("a number").unwrap_or_default();
        read.4 = reader.take(5, Bytes::text).expect("text").unwrap_or_default().to_owned();
        let numbers = |field: Bytes<'_>| field.packed(|value| { read.5.push(value); Ok(()) });
        reader.take(6, numbers).expect("numbers");
        reader.finish().expect("it is whole");
        prop_assert_eq!(read, (uint, sint, flag, fixed64, text, packed));
    }
}

/// If the length needs another byte, the content is moved.
#[test]
fn a_message_of_any_length_is_whole() {
    for len in [0, 1, 124, 125, 126, 127, 128, 16_379, 16_380, 16_381, 16_382, 16_384, 100_000] {
        let text = "x".repeat(len);
        let mut out = Vec::new();
        let mut record = MessageWriter::new(&mut out);
        record.message(1, |outer| outer.message(2, |inner| inner.present_text(3, Some(&text))));
        record.uint(4, 5);
        let mut reader = MessageReader::new(&out);
        let mut outer = reader.take(1, Bytes::message).unwrap().unwrap();
        let mut inner = outer.take(2, Bytes::message).unwrap().unwrap();
        assert_eq!(inner.take(3, Bytes::text), Ok(Some(&*text)), "{len}");
        assert_eq!(reader.take(4, Varint::uint), Ok(Some(5)), "{len}");
    }
}

#[test]
fn what_is_taken_back_is_gone() {
    let mut out = b"before".to_vec();
    let mut record = MessageWriter::new(&mut out);
    assert!(record.is_empty());
    record.uint(1, 7);
    let mark = record.len();
    record.text(2, "too much");
    record.truncate(mark);
    record.uint(3, 9);
    assert_eq!(out, b"before\x08\x07\x18\x09");
}
