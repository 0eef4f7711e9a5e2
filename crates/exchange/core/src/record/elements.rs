//! The elements of a record: each a message, read field by field into the rules' own types. What they
//! name is not looked for here.

use std::time::Duration;

use events::{Bytes, Fixed64, Malformed, Reader, Varint, fields};
use openrtb::{DealMask, IMPS_MAX};
use units::{Cpm, Currency, Multiplier, Nanos, Ppm, Price};

use crate::record::codes::Coded;
use crate::record::{
    BidRecord, Call, CallRecord, DealRecord, GroupRecord, ImpRecord, Moments, RefusalRecord,
    SaleRecord, TermsRecord,
};
use crate::{Ask, Fate, NotAsked, ResponseFate};

pub(super) fn moments(mut reader: Reader<'_>) -> Result<Moments, Malformed> {
    use fields::moments as number;
    let moments = Moments {
        parsed: reader.take(number::PARSED_US, duration)?,
        asked: reader.take(number::ASKED_US, duration)?,
        closed: reader.take(number::CLOSED_US, duration)?,
        cleared: reader.take(number::CLEARED_US, duration)?,
        answered: reader.take(number::ANSWERED_US, duration)?,
        left_us: reader.take(number::LEFT_US, Varint::sint)?.unwrap_or(0),
    };
    reader.finish()?;
    Ok(moments)
}

pub(super) fn terms(mut reader: Reader<'_>) -> Result<TermsRecord, Malformed> {
    use fields::terms as number;
    let currency = reader.take(number::CURRENCY, currency)?;
    let terms = TermsRecord {
        currency: currency.ok_or(Malformed::Value(number::CURRENCY))?,
        auction_type: code(&mut reader, number::AUCTION_TYPE)?,
        increment: reader.take(number::INCREMENT_MICROS, cpm)?.unwrap_or(Cpm::ZERO),
        notices: code(&mut reader, number::NOTICES)?,
        bids_returned: code(&mut reader, number::BIDS_RETURNED)?,
    };
    reader.finish()?;
    Ok(terms)
}

pub(super) fn imp(mut reader: Reader<'_>) -> Result<ImpRecord<'_>, Malformed> {
    use fields::imp as number;
    let formats = |field: Varint| field.known(|set| u8::try_from(set).ok());
    let id = reader.take(number::ID, Bytes::text)?.unwrap_or("");
    let formats = reader.take(number::FORMATS, formats)?.unwrap_or(0);
    let is_private = reader.take(number::IS_PRIVATE, Varint::flag)?.unwrap_or(false);
    let bidfloor = reader.take(number::BIDFLOOR_MICROS, cpm)?.unwrap_or(Cpm::ZERO);
    let shown_floor = reader.take(number::SHOWN_FLOOR_MICROS, cpm)?.unwrap_or(bidfloor);
    let fee = reader.take(number::FEE_PPM, ppm)?.unwrap_or(Ppm::ZERO);
    let multiplier = |field: Varint| field.known(multiplier);
    let multiplier = reader.take(number::MULTIPLIER_MILLIONTHS, multiplier)?;
    let multiplier = multiplier.unwrap_or(Multiplier::ONE);
    let net = reader.take(number::BIDFLOOR_NET_MICROS, cpm)?;
    let of = reader.take(number::BIDFLOOR_CURRENCY, currency)?;
    let bidfloor_net = net.zip(of).map(|(amount, currency)| Price { amount, currency });
    let is_floor_plain = reader.take(number::IS_FLOOR_PLAIN, Varint::flag)?.unwrap_or(false);
    reader.finish()?;
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

pub(super) fn deal(mut reader: Reader<'_>) -> Result<DealRecord<'_>, Malformed> {
    use fields::deal as number;
    let class = |field: Varint| field.known(|class| u8::try_from(class).ok());
    let deal = DealRecord {
        imp: reader.take(number::IMP, Varint::position)?.unwrap_or(0),
        id: reader.take(number::ID, Bytes::text)?.unwrap_or(""),
        auction_type: code(&mut reader, number::AUCTION_TYPE)?,
        class: reader.take(number::CLASS, class)?.unwrap_or(0),
        fee: reader.take(number::FEE_PPM, ppm)?.unwrap_or(Ppm::ZERO),
        discount: reader.take(number::DISCOUNT_PPM, ppm)?.unwrap_or(Ppm::ZERO),
        floor: reader.take(number::FLOOR_MICROS, cpm)?,
        is_floor_plain: reader.take(number::IS_FLOOR_PLAIN, Varint::flag)?.unwrap_or(false),
    };
    reader.finish()?;
    Ok(deal)
}

pub(super) fn not_asked(mut reader: Reader<'_>) -> Result<(usize, NotAsked), Malformed> {
    use fields::not_asked as number;
    let dsp = reader.take(number::DSP, Varint::position)?.unwrap_or(0);
    let reason = code(&mut reader, number::REASON)?;
    reader.finish()?;
    Ok((dsp, reason))
}

/// `imps` are all there are.
pub(super) fn call(mut reader: Reader<'_>, imps: u64) -> Result<CallRecord, Malformed> {
    use fields::call as number;
    let ask = Ask {
        dsp: reader.take(number::DSP, Varint::position)?.unwrap_or(0),
        imps: reader.take(number::IMPS, Varint::uint)?.unwrap_or(imps),
        deals: reader.take(number::DEALS, deals)?.unwrap_or(0),
    };
    let call = Call {
        ask,
        tmax_ms: reader.take(number::TMAX_MS, Varint::uint32)?.unwrap_or(0),
        outcome: code(&mut reader, number::OUTCOME)?,
        sent: reader.take(number::SENT_US, duration)?,
        latency: reader.take(number::LATENCY_US, duration)?,
    };
    let response = reader.take(number::RESPONSE, ResponseFate::read)?;
    reader.finish()?;
    Ok(CallRecord { call, response })
}

/// `auction` is the currency of one that does not say.
pub(super) fn bid(mut reader: Reader<'_>, auction: Currency) -> Result<BidRecord<'_>, Malformed> {
    use fields::bid as number;
    let bid = BidRecord {
        dsp: reader.take(number::DSP, Varint::position)?.unwrap_or(0),
        seat: reader.take(number::SEAT, Varint::position)?,
        imp: reader.take(number::IMP, Varint::position)?,
        id: reader.take(number::ID, Bytes::text)?.unwrap_or(""),
        currency: reader.take(number::CURRENCY, currency)?.unwrap_or(auction),
        price: reader.take(number::PRICE_MICROS, cpm)?,
        deal: reader.take(number::DEAL, Varint::position)?,
        floor: reader.take(number::FLOOR_MICROS, cpm)?,
        worth: reader.take(number::WORTH_MICROS, cpm)?,
        tie: reader.take(number::TIE, Fixed64::uint)?.unwrap_or(0),
        group: reader.take(number::GROUP, Varint::position)?,
        barred: reader.take(number::BARRED, Fate::read)?,
        is_out_of_reach: reader.take(number::IS_OUT_OF_REACH, Varint::flag)?.unwrap_or(false),
        fate: code(&mut reader, number::FATE)?,
        campaign: reader.take(number::CAMPAIGN, Bytes::text)?.unwrap_or(""),
    };
    reader.finish()?;
    Ok(bid)
}

pub(super) fn group(mut reader: Reader<'_>) -> Result<GroupRecord, Malformed> {
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
    let imps = reader.take(number::IMPS, imps)?.unwrap_or_default();
    let is_possible = reader.take(number::IS_POSSIBLE, Varint::flag)?.unwrap_or(false);
    reader.finish()?;
    Ok(GroupRecord { imps, is_possible })
}

pub(super) fn refusal(mut reader: Reader<'_>) -> Result<RefusalRecord, Malformed> {
    use fields::refusal as number;
    let refusal = RefusalRecord {
        question: reader.take(number::QUESTION, Varint::position)?.unwrap_or(0),
        bid: reader.take(number::BID, Varint::position)?.unwrap_or(0),
        price: reader.take(number::PRICE_MICROS, cpm)?.unwrap_or(Cpm::ZERO),
        fate: code(&mut reader, number::FATE)?,
    };
    reader.finish()?;
    Ok(refusal)
}

pub(super) fn sale(mut reader: Reader<'_>) -> Result<SaleRecord, Malformed> {
    use fields::sale as number;
    let sale = SaleRecord {
        bid: reader.take(number::BID, Varint::position)?.unwrap_or(0),
        price: reader.take(number::PRICE_MICROS, cpm)?.unwrap_or(Cpm::ZERO),
        net: reader.take(number::NET_MICROS, cpm)?.unwrap_or(Cpm::ZERO),
        paid: reader.take(number::PAID_MICROS, cpm)?.unwrap_or(Cpm::ZERO),
        min_to_win: reader.take(number::MIN_TO_WIN_MICROS, cpm)?,
        revenue: Nanos::new(reader.take(number::REVENUE_NANOS, Varint::uint)?.unwrap_or(0)),
    };
    reader.finish()?;
    Ok(sale)
}

pub(super) fn answer(mut reader: Reader<'_>) -> Result<(usize, &[u8]), Malformed> {
    use fields::answer as number;
    let dsp = reader.take(number::DSP, Varint::position)?.unwrap_or(0);
    let body = reader.take(number::BODY, Bytes::bytes)?.unwrap_or(&[]);
    reader.finish()?;
    Ok((dsp, body))
}

/// An enumeration, which is never left out.
pub(super) fn code<T: Coded>(reader: &mut Reader<'_>, number: u32) -> Result<T, Malformed> {
    reader.take(number, T::read)?.ok_or(Malformed::Range { number, value: 0 })
}

pub(super) fn currency(field: Bytes<'_>) -> Result<Currency, Malformed> {
    field.parsed(Currency::parse)
}

/// A set of deals, by position.
fn deals(field: Bytes<'_>) -> Result<DealMask, Malformed> {
    let mut deals = 0;
    field.packed(|deal| {
        let bit = DealMask::from(1_u8).checked_shl(deal);
        deals |= bit.ok_or_else(|| field.out_of_range(deal.into()))?;
        Ok(())
    })?;
    Ok(deals)
}

pub(super) fn cpm(field: Varint) -> Result<Cpm, Malformed> {
    field.known(Cpm::new)
}

pub(super) fn ppm(field: Varint) -> Result<Ppm, Malformed> {
    field.known(|parts| u32::try_from(parts).ok().and_then(Ppm::new))
}

fn duration(field: Varint) -> Result<Duration, Malformed> {
    Ok(Duration::from_micros(field.uint32()?.into()))
}

/// Decimal text is the only way to one.
fn multiplier(millionths: u64) -> Option<Multiplier> {
    let (whole, part) = (millionths / 1_000_000, millionths % 1_000_000);
    Multiplier::parse(&format!("{whole}.{part:06}")).ok()
}
