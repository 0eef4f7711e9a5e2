//! The elements of a record: each a message, read field by field into the rules' own types. What they
//! name is not looked for here.

use std::time::Duration;

use events::{Field, Malformed, Reader, fields};
use openrtb::{DealMask, IMPS_MAX};
use units::{Cpm, Currency, Multiplier, Nanos, Ppm};

use crate::record::codes::Coded;
use crate::record::{
    BidRecord, Call, CallOutcome, CallRecord, DealRecord, GroupRecord, ImpRecord, Moments,
    RefusalRecord, SaleRecord, TermsRecord,
};
use crate::{Ask, AuctionType, BidsReturned, Fate, NotAsked, NoticeMode, ResponseFate};

pub(super) fn moments(mut reader: Reader<'_>) -> Result<Moments, Malformed> {
    use fields::moments as number;
    let mut moments = Moments::default();
    while let Some(field) = reader.next()? {
        match field.number {
            number::PARSED_US => moments.parsed = Some(duration(field)?),
            number::ASKED_US => moments.asked = Some(duration(field)?),
            number::CLOSED_US => moments.closed = Some(duration(field)?),
            number::CLEARED_US => moments.cleared = Some(duration(field)?),
            number::ANSWERED_US => moments.answered = Some(duration(field)?),
            number::LEFT_US => moments.left_us = field.sint()?,
            _ => (),
        }
    }
    Ok(moments)
}

pub(super) fn terms(mut reader: Reader<'_>) -> Result<TermsRecord, Malformed> {
    use fields::terms as number;
    let (mut currency, mut auction_type, mut increment) = (None, None, Cpm::ZERO);
    let (mut notices, mut bids_returned) = (None, None);
    while let Some(field) = reader.next()? {
        match field.number {
            number::CURRENCY => currency = Some(field.parsed(Currency::parse)?),
            number::AUCTION_TYPE => auction_type = Some(AuctionType::read(field)?),
            number::INCREMENT_MICROS => increment = cpm(field)?,
            number::NOTICES => notices = Some(NoticeMode::read(field)?),
            number::BIDS_RETURNED => bids_returned = Some(BidsReturned::read(field)?),
            _ => (),
        }
    }
    Ok(TermsRecord {
        currency: currency.ok_or(Malformed::Value(number::CURRENCY))?,
        auction_type: known(auction_type, number::AUCTION_TYPE)?,
        increment,
        notices: known(notices, number::NOTICES)?,
        bids_returned: known(bids_returned, number::BIDS_RETURNED)?,
    })
}

pub(super) fn imp(mut reader: Reader<'_>) -> Result<ImpRecord<'_>, Malformed> {
    use fields::imp as number;
    let mut shown_floor = None;
    let mut imp = ImpRecord {
        id: "",
        formats: 0,
        is_private: false,
        bidfloor: Cpm::ZERO,
        shown_floor: Cpm::ZERO,
        fee: Ppm::ZERO,
        multiplier: Multiplier::ONE,
    };
    while let Some(field) = reader.next()? {
        match field.number {
            number::ID => imp.id = field.text()?,
            number::FORMATS => imp.formats = field.known(|set| u8::try_from(set).ok())?,
            number::IS_PRIVATE => imp.is_private = field.flag()?,
            number::BIDFLOOR_MICROS => imp.bidfloor = cpm(field)?,
            number::SHOWN_FLOOR_MICROS => shown_floor = Some(cpm(field)?),
            number::FEE_PPM => imp.fee = ppm(field)?,
            number::MULTIPLIER_MILLIONTHS => imp.multiplier = field.known(multiplier)?,
            _ => (),
        }
    }
    imp.shown_floor = shown_floor.unwrap_or(imp.bidfloor);
    Ok(imp)
}

pub(super) fn deal(mut reader: Reader<'_>) -> Result<DealRecord<'_>, Malformed> {
    use fields::deal as number;
    let (mut imp, mut id, mut auction_type, mut class) = (0, "", None, 0);
    let (mut fee, mut discount, mut floor) = (Ppm::ZERO, Ppm::ZERO, None);
    while let Some(field) = reader.next()? {
        match field.number {
            number::IMP => imp = field.position()?,
            number::ID => id = field.text()?,
            number::AUCTION_TYPE => auction_type = Some(AuctionType::read(field)?),
            number::CLASS => class = field.known(|class| u8::try_from(class).ok())?,
            number::FEE_PPM => fee = ppm(field)?,
            number::DISCOUNT_PPM => discount = ppm(field)?,
            number::FLOOR_MICROS => floor = Some(cpm(field)?),
            _ => (),
        }
    }
    let auction_type = known(auction_type, number::AUCTION_TYPE)?;
    Ok(DealRecord { imp, id, auction_type, class, fee, discount, floor })
}

pub(super) fn not_asked(mut reader: Reader<'_>) -> Result<(usize, NotAsked), Malformed> {
    use fields::not_asked as number;
    let (mut dsp, mut reason) = (0, None);
    while let Some(field) = reader.next()? {
        match field.number {
            number::DSP => dsp = field.position()?,
            number::REASON => reason = Some(NotAsked::read(field)?),
            _ => (),
        }
    }
    Ok((dsp, known(reason, number::REASON)?))
}

/// `imps` are all there are.
pub(super) fn call(mut reader: Reader<'_>, imps: u64) -> Result<CallRecord, Malformed> {
    use fields::call as number;
    let mut ask = Ask { dsp: 0, imps, deals: 0 };
    let (mut tmax_ms, mut outcome, mut sent, mut latency) = (0, None, None, None);
    let mut response = None;
    while let Some(field) = reader.next()? {
        match field.number {
            number::DSP => ask.dsp = field.position()?,
            number::IMPS => ask.imps = field.uint()?,
            number::DEALS => field.packed(|deal| {
                let bit = DealMask::from(1_u8).checked_shl(deal);
                ask.deals |= bit.ok_or_else(|| field.out_of_range(deal.into()))?;
                Ok(())
            })?,
            number::TMAX_MS => tmax_ms = field.uint32()?,
            number::OUTCOME => outcome = Some(CallOutcome::read(field)?),
            number::SENT_US => sent = Some(duration(field)?),
            number::LATENCY_US => latency = Some(duration(field)?),
            number::RESPONSE => response = Some(ResponseFate::read(field)?),
            _ => (),
        }
    }
    let outcome = known(outcome, number::OUTCOME)?;
    Ok(CallRecord { call: Call { ask, tmax_ms, outcome, sent, latency }, response })
}

/// `auction` is the currency of one that does not say.
pub(super) fn bid(mut reader: Reader<'_>, auction: Currency) -> Result<BidRecord<'_>, Malformed> {
    use fields::bid as number;
    let mut fate = None;
    let mut bid = BidRecord {
        dsp: 0,
        seat: None,
        imp: None,
        id: "",
        currency: auction,
        price: None,
        deal: None,
        floor: None,
        worth: None,
        tie: 0,
        group: None,
        barred: None,
        is_out_of_reach: false,
        fate: Fate::Malformed,
        campaign: "",
    };
    while let Some(field) = reader.next()? {
        match field.number {
            number::DSP => bid.dsp = field.position()?,
            number::SEAT => bid.seat = Some(field.position()?),
            number::IMP => bid.imp = Some(field.position()?),
            number::ID => bid.id = field.text()?,
            number::CURRENCY => bid.currency = field.parsed(Currency::parse)?,
            number::PRICE_MICROS => bid.price = Some(cpm(field)?),
            number::DEAL => bid.deal = Some(field.position()?),
            number::FLOOR_MICROS => bid.floor = Some(cpm(field)?),
            number::WORTH_MICROS => bid.worth = Some(cpm(field)?),
            number::TIE => bid.tie = field.fixed64()?,
            number::GROUP => bid.group = Some(field.position()?),
            number::BARRED => bid.barred = Some(Fate::read(field)?),
            number::IS_OUT_OF_REACH => bid.is_out_of_reach = field.flag()?,
            number::FATE => fate = Some(Fate::read(field)?),
            number::CAMPAIGN => bid.campaign = field.text()?,
            _ => (),
        }
    }
    Ok(BidRecord { fate: known(fate, number::FATE)?, ..bid })
}

pub(super) fn group(mut reader: Reader<'_>) -> Result<GroupRecord, Malformed> {
    use fields::group as number;
    let mut group = GroupRecord { imps: Vec::new(), is_possible: false };
    while let Some(field) = reader.next()? {
        match field.number {
            number::IMPS => field.packed(|imp| {
                if group.imps.len() == IMPS_MAX {
                    return Err(field.out_of_range(imp.into()));
                }
                group.imps.push(imp as usize);
                Ok(())
            })?,
            number::IS_POSSIBLE => group.is_possible = field.flag()?,
            _ => (),
        }
    }
    Ok(group)
}

pub(super) fn refusal(mut reader: Reader<'_>) -> Result<RefusalRecord, Malformed> {
    use fields::refusal as number;
    let (mut question, mut bid, mut price, mut fate) = (0, 0, Cpm::ZERO, None);
    while let Some(field) = reader.next()? {
        match field.number {
            number::QUESTION => question = field.position()?,
            number::BID => bid = field.position()?,
            number::PRICE_MICROS => price = cpm(field)?,
            number::FATE => fate = Some(Fate::read(field)?),
            _ => (),
        }
    }
    Ok(RefusalRecord { question, bid, price, fate: known(fate, number::FATE)? })
}

pub(super) fn sale(mut reader: Reader<'_>) -> Result<SaleRecord, Malformed> {
    use fields::sale as number;
    let mut sale = SaleRecord {
        bid: 0,
        price: Cpm::ZERO,
        net: Cpm::ZERO,
        paid: Cpm::ZERO,
        min_to_win: None,
        revenue: Nanos::ZERO,
    };
    while let Some(field) = reader.next()? {
        match field.number {
            number::BID => sale.bid = field.position()?,
            number::PRICE_MICROS => sale.price = cpm(field)?,
            number::NET_MICROS => sale.net = cpm(field)?,
            number::PAID_MICROS => sale.paid = cpm(field)?,
            number::MIN_TO_WIN_MICROS => sale.min_to_win = Some(cpm(field)?),
            number::REVENUE_NANOS => sale.revenue = Nanos::new(field.uint()?),
            _ => (),
        }
    }
    Ok(sale)
}

pub(super) fn answer(mut reader: Reader<'_>) -> Result<(usize, &[u8]), Malformed> {
    use fields::answer as number;
    let (mut dsp, mut body) = (0, &[][..]);
    while let Some(field) = reader.next()? {
        match field.number {
            number::DSP => dsp = field.position()?,
            number::BODY => body = field.bytes()?,
            _ => (),
        }
    }
    Ok((dsp, body))
}

/// An enumeration, which is never left out.
fn known<T>(read: Option<T>, number: u32) -> Result<T, Malformed> {
    read.ok_or(Malformed::Range { number, value: 0 })
}

pub(super) fn cpm(field: Field<'_>) -> Result<Cpm, Malformed> {
    field.known(Cpm::new)
}

pub(super) fn ppm(field: Field<'_>) -> Result<Ppm, Malformed> {
    field.known(|parts| u32::try_from(parts).ok().and_then(Ppm::new))
}

fn duration(field: Field<'_>) -> Result<Duration, Malformed> {
    Ok(Duration::from_micros(field.uint32()?.into()))
}

/// Decimal text is the only way to one.
fn multiplier(millionths: u64) -> Option<Multiplier> {
    let (whole, part) = (millionths / 1_000_000, millionths % 1_000_000);
    Multiplier::parse(&format!("{whole}.{part:06}")).ok()
}
