//! Decodes the elements of a record into the rules' types. Does not check their references.

use std::time::Duration;

use events::{Bytes, Fixed64, MalformedRecord, MessageFields, MessageReader, Varint, fields};
use openrtb::{DealMask, IMPS_MAX};
use units::{Cpm, Currency, Multiplier, Nanos, Ppm, Price};

use super::auction::{
    BidRecord, CallRecord, DealRecord, EnrichmentResult, GroupRecord, ImpRecord, RefusalRecord,
    SaleRecord, TermsRecord,
};
use super::codes::SchemaCode;
use super::encode::{RecordedCall, Timings};
use crate::asking::eligibility::BidderCall;
use crate::asking::not_asked::NotAsked;
use crate::auction::fate::Fate;
use crate::judging::judge::ResponseFate;

pub(super) fn timings<'b>(mut message: impl MessageFields<'b>) -> Result<Timings, MalformedRecord> {
    use fields::moments as number;
    let timings = Timings {
        parsed: message.take(number::PARSED_US, duration)?,
        asked: message.take(number::ASKED_US, duration)?,
        closed: message.take(number::CLOSED_US, duration)?,
        cleared: message.take(number::CLEARED_US, duration)?,
        answered: message.take(number::ANSWERED_US, duration)?,
        left_us: message.take(number::LEFT_US, Varint::sint)?.unwrap_or(0),
    };
    message.finish()?;
    Ok(timings)
}

pub(super) fn terms<'b>(
    mut message: impl MessageFields<'b>,
) -> Result<TermsRecord, MalformedRecord> {
    use fields::terms as number;
    let currency = message.take(number::CURRENCY, currency)?;
    let terms = TermsRecord {
        currency: currency.ok_or(MalformedRecord::Value(number::CURRENCY))?,
        auction_type: code(&mut message, number::AUCTION_TYPE)?,
        increment: message.take(number::INCREMENT_MICROS, cpm)?.unwrap_or(Cpm::ZERO),
        notices: code(&mut message, number::NOTICES)?,
        bids_returned: code(&mut message, number::BIDS_RETURNED)?,
    };
    message.finish()?;
    Ok(terms)
}

pub(super) fn imp<'b>(
    mut message: impl MessageFields<'b>,
) -> Result<ImpRecord<'b>, MalformedRecord> {
    use fields::imp as number;
    let formats = |field: Varint| field.known(|set| u8::try_from(set).ok());
    let id = message.take(number::ID, Bytes::text)?.unwrap_or("");
    let formats = message.take(number::FORMATS, formats)?.unwrap_or(0);
    let is_private = message.take(number::IS_PRIVATE, Varint::flag)?.unwrap_or(false);
    let bidfloor = message.take(number::BIDFLOOR_MICROS, cpm)?.unwrap_or(Cpm::ZERO);
    let shown_floor = message.take(number::SHOWN_FLOOR_MICROS, cpm)?.unwrap_or(bidfloor);
    let fee = message.take(number::FEE_PPM, ppm)?.unwrap_or(Ppm::ZERO);
    let multiplier = |field: Varint| field.known(multiplier);
    let multiplier = message.take(number::MULTIPLIER_MILLIONTHS, multiplier)?;
    let multiplier = multiplier.unwrap_or(Multiplier::ONE);
    let net = message.take(number::BIDFLOOR_NET_MICROS, cpm)?;
    let of = message.take(number::BIDFLOOR_CURRENCY, currency)?;
    let bidfloor_net = net.zip(of).map(|(amount, currency)| Price { amount, currency });
    let is_floor_plain = message.take(number::IS_FLOOR_PLAIN, Varint::flag)?.unwrap_or(false);
    message.finish()?;
    Ok(ImpRecord {
        id,
        formats,
        is_private,
        bidfloor,
        shown_floor,
        fee,
        multiplier,
        bidfloor_net,
        is_floor_plain,
    })
}

pub(super) fn deal<'b>(
    mut message: impl MessageFields<'b>,
) -> Result<DealRecord<'b>, MalformedRecord> {
    use fields::deal as number;
    let class = |field: Varint| field.known(|class| u8::try_from(class).ok());
    let deal = DealRecord {
        imp: message.take(number::IMP, Varint::position)?.unwrap_or(0),
        id: message.take(number::ID, Bytes::text)?.unwrap_or(""),
        auction_type: code(&mut message, number::AUCTION_TYPE)?,
        class: message.take(number::CLASS, class)?.unwrap_or(0),
        fee: message.take(number::FEE_PPM, ppm)?.unwrap_or(Ppm::ZERO),
        discount: message.take(number::DISCOUNT_PPM, ppm)?.unwrap_or(Ppm::ZERO),
        floor: message.take(number::FLOOR_MICROS, cpm)?,
        is_floor_plain: message.take(number::IS_FLOOR_PLAIN, Varint::flag)?.unwrap_or(false),
        sold: message.take(number::SOLD, Varint::position)?,
    };
    message.finish()?;
    Ok(deal)
}

pub(super) fn enrichment_result<'b>(
    mut message: impl MessageFields<'b>,
) -> Result<EnrichmentResult<'b>, MalformedRecord> {
    use fields::enrichment_result as number;
    let enriched = EnrichmentResult {
        outcome: code(&mut message, number::OUTCOME)?,
        text: message.take(number::TEXT, Bytes::text)?.unwrap_or(""),
        age_ms: message.take(number::AGE_MS, Varint::uint)?.unwrap_or(0),
    };
    message.finish()?;
    Ok(enriched)
}

pub(super) fn not_asked<'b>(
    mut message: impl MessageFields<'b>,
) -> Result<(usize, NotAsked), MalformedRecord> {
    use fields::not_asked as number;
    let dsp = message.take(number::DSP, Varint::position)?.unwrap_or(0);
    let reason = code(&mut message, number::REASON)?;
    message.finish()?;
    Ok((dsp, reason))
}

pub(super) fn call(message: MessageReader<'_>, imps: u64) -> Result<CallRecord, MalformedRecord> {
    message.read_message(|plain| call_of(plain, imps), |any| call_of(any, imps))
}

fn call_of<'b>(
    mut message: impl MessageFields<'b>,
    imps: u64,
) -> Result<CallRecord, MalformedRecord> {
    use fields::call as number;
    let ask = BidderCall {
        dsp: message.take(number::DSP, Varint::position)?.unwrap_or(0),
        imps: message.take(number::IMPS, Varint::uint)?.unwrap_or(imps),
        deals: message.take(number::DEALS, deals)?.unwrap_or(0),
    };
    let call = RecordedCall {
        ask,
        tmax_ms: message.take(number::TMAX_MS, Varint::uint32)?.unwrap_or(0),
        outcome: code(&mut message, number::OUTCOME)?,
        sent: message.take(number::SENT_US, duration)?,
        latency: message.take(number::LATENCY_US, duration)?,
    };
    let response = message.take(number::RESPONSE, ResponseFate::read)?;
    message.finish()?;
    Ok(CallRecord { call, response })
}

pub(super) fn bid(
    message: MessageReader<'_>,
    auction: Currency,
) -> Result<BidRecord<'_>, MalformedRecord> {
    message.read_message(|plain| bid_of(plain, auction), |any| bid_of(any, auction))
}

fn bid_of<'b>(
    mut message: impl MessageFields<'b>,
    auction: Currency,
) -> Result<BidRecord<'b>, MalformedRecord> {
    use fields::bid as number;
    let bid = BidRecord {
        dsp: message.take(number::DSP, Varint::position)?.unwrap_or(0),
        seat: message.take(number::SEAT, Varint::position)?,
        imp: message.take(number::IMP, Varint::position)?,
        id: message.take(number::ID, Bytes::text)?.unwrap_or(""),
        currency: message.take(number::CURRENCY, currency)?.unwrap_or(auction),
        price: message.take(number::PRICE_MICROS, cpm)?,
        deal: message.take(number::DEAL, Varint::position)?,
        floor: message.take(number::FLOOR_MICROS, cpm)?,
        worth: message.take(number::WORTH_MICROS, cpm)?,
        tie: message.take(number::TIE, Fixed64::uint)?.unwrap_or(0),
        group: message.take(number::GROUP, Varint::position)?,
        barred: message.take(number::BARRED, Fate::read)?,
        is_out_of_reach: message.take(number::IS_OUT_OF_REACH, Varint::flag)?.unwrap_or(false),
        fate: code(&mut message, number::FATE)?,
        campaign: message.take(number::CAMPAIGN, Bytes::text)?.unwrap_or(""),
    };
    message.finish()?;
    Ok(bid)
}

pub(super) fn group<'b>(
    mut message: impl MessageFields<'b>,
) -> Result<GroupRecord, MalformedRecord> {
    use fields::group as number;
    let imps = |field: Bytes<'_>| {
        let mut imps = Vec::new();
        field.packed(|imp| {
            if imps.len() == IMPS_MAX {
                return Err(field.out_of_range(imp.into()));
            }
            imps.push(imp as usize);
            Ok(())
        })?;
        Ok(imps)
    };
    let imps = message.take(number::IMPS, imps)?.unwrap_or_default();
    let is_possible = message.take(number::IS_POSSIBLE, Varint::flag)?.unwrap_or(false);
    message.finish()?;
    Ok(GroupRecord { imps, is_possible })
}

pub(super) fn refusal<'b>(
    mut message: impl MessageFields<'b>,
) -> Result<RefusalRecord, MalformedRecord> {
    use fields::refusal as number;
    let refusal = RefusalRecord {
        question: message.take(number::QUESTION, Varint::position)?.unwrap_or(0),
        bid: message.take(number::BID, Varint::position)?.unwrap_or(0),
        price: message.take(number::PRICE_MICROS, cpm)?.unwrap_or(Cpm::ZERO),
        fate: code(&mut message, number::FATE)?,
    };
    message.finish()?;
    Ok(refusal)
}

pub(super) fn sale<'b>(mut message: impl MessageFields<'b>) -> Result<SaleRecord, MalformedRecord> {
    use fields::sale as number;
    let sale = SaleRecord {
        bid: message.take(number::BID, Varint::position)?.unwrap_or(0),
        price: message.take(number::PRICE_MICROS, cpm)?.unwrap_or(Cpm::ZERO),
        net: message.take(number::NET_MICROS, cpm)?.unwrap_or(Cpm::ZERO),
        paid: message.take(number::PAID_MICROS, cpm)?.unwrap_or(Cpm::ZERO),
        min_to_win: message.take(number::MIN_TO_WIN_MICROS, cpm)?,
        revenue: Nanos::new(message.take(number::REVENUE_NANOS, Varint::uint)?.unwrap_or(0)),
    };
    message.finish()?;
    Ok(sale)
}

pub(super) fn answer<'b>(
    mut message: impl MessageFields<'b>,
) -> Result<(usize, &'b [u8]), MalformedRecord> {
    use fields::answer as number;
    let dsp = message.take(number::DSP, Varint::position)?.unwrap_or(0);
    let body = message.take(number::BODY, Bytes::bytes)?.unwrap_or(&[]);
    message.finish()?;
    Ok((dsp, body))
}

#[inline(always)]
pub(super) fn code<'b, T: SchemaCode>(
    message: &mut impl MessageFields<'b>,
    number: u32,
) -> Result<T, MalformedRecord> {
    message.take(number, T::read)?.ok_or(MalformedRecord::Range { number, value: 0 })
}

pub(super) fn currency(field: Bytes<'_>) -> Result<Currency, MalformedRecord> {
    field.parsed(Currency::parse)
}

fn deals(field: Bytes<'_>) -> Result<DealMask, MalformedRecord> {
    let mut deals = 0;
    field.packed(|deal| {
        let bit = DealMask::from(1_u8).checked_shl(deal);
        deals |= bit.ok_or_else(|| field.out_of_range(deal.into()))?;
        Ok(())
    })?;
    Ok(deals)
}

pub(super) fn cpm(field: Varint) -> Result<Cpm, MalformedRecord> {
    field.known(Cpm::new)
}

pub(super) fn ppm(field: Varint) -> Result<Ppm, MalformedRecord> {
    field.known(|parts| u32::try_from(parts).ok().and_then(Ppm::new))
}

fn duration(field: Varint) -> Result<Duration, MalformedRecord> {
    Ok(Duration::from_micros(field.uint32()?.into()))
}

/// A multiplier can only be parsed from decimal text.
fn multiplier(millionths: u64) -> Option<Multiplier> {
    let (whole, part) = (millionths / 1_000_000, millionths % 1_000_000);
    Multiplier::parse(&format!("{whole}.{part:06}")).ok()
}
