//! Records of lots: the floor's types in the schema of the log, and back.

use events::{MalformedRecord, v1};
use live_core::floor::{LotRecord, LotRecordBody};
use live_core::lots::{
    EnglishTerms, IncrementBand, IncrementBands, LotBid, LotDeal, LotEventKind, LotId, LotPayment,
    LotRules, LotTerms, SoftClose,
};
use live_core::ports::HoldAttempt;
use units::{Cpm, Currency};

/// Why a record is not one of a lot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LotRecordError {
    /// Its bytes are not those of a record.
    #[error(transparent)]
    Malformed(#[from] MalformedRecord),
    /// A field has an impossible value, or is missing.
    #[error("`{0}` is missing or impossible")]
    Field(&'static str),
}

/// Appends the record to `out`.
pub(crate) fn encode(record: &LotRecord, out: &mut Vec<u8>) {
    let LotRecord { lot, at_ms, body, news } = record;
    let mut message = v1::Lot {
        id: lot.as_str().to_owned(),
        at_ms: *at_ms,
        news: news.as_ref().map(|news| news.clone().into_bytes()),
        ..v1::Lot::default()
    };
    match body {
        LotRecordBody::Created(terms) => message.created = Some(terms_message(terms)),
        LotRecordBody::Paid => message.paid = Some(v1::LotPaid {}),
        LotRecordBody::Event { kind, attempt } => match kind {
            LotEventKind::Opened => message.opened = Some(v1::LotOpened {}),
            LotEventKind::Bid { number, bid } => {
                let attempt = attempt.expect("a bid is logged with its hold");
                message.bid = Some(bid_message(*number, bid, attempt));
            }
            LotEventKind::Extended { closes_ms } => {
                message.extended = Some(v1::LotExtended { closes_ms: *closes_ms });
            }
            LotEventKind::Closed => message.closed = Some(v1::LotClosed {}),
            LotEventKind::Cancelled { reason } => {
                message.cancelled = Some(v1::LotCancelled { reason: reason.clone() });
            }
        },
    }
    message.write_record(out);
}

fn bid_message(number: u32, bid: &LotBid, attempt: HoldAttempt) -> v1::LotBid {
    let LotBid { bidder, account, maximum, currency, key } = bid;
    v1::LotBid {
        number,
        bidder: bidder.clone(),
        account: account.clone(),
        maximum_micros: maximum.micros(),
        currency: currency.code().to_owned(),
        key: key.clone(),
        hold_epoch: attempt.epoch,
        hold_counter: attempt.counter,
    }
}

fn terms_message(terms: &LotTerms) -> v1::LotTerms {
    let english = match &terms.rules {
        LotRules::English(EnglishTerms { increments, soft_close }) => Some(v1::EnglishTerms {
            increments: increments.0.iter().map(band_message).collect(),
            soft_close: soft_close.map(|soft| v1::SoftClose {
                window_ms: soft.window_ms,
                extension_ms: soft.extension_ms,
                total_max_ms: soft.total_max_ms,
            }),
        }),
        LotRules::SealedSecondPrice => None,
    };
    let LotDeal { id, publisher, starts_ms, ends_ms, priority } = terms.deal.clone();
    v1::LotTerms {
        title: terms.title.clone(),
        currency: terms.currency.code().to_owned(),
        impressions: terms.impressions,
        english,
        start_price_micros: terms.start_price.micros(),
        reserve_micros: terms.reserve.map(Cpm::micros),
        opens_ms: terms.opens_ms,
        closes_ms: terms.closes_ms,
        paid_at_close: terms.payment == LotPayment::AtClose,
        invited: terms.invited.clone(),
        bids_max: terms.bids_max,
        deal: Some(v1::LotDeal { id, publisher, starts_ms, ends_ms, priority }),
    }
}

fn band_message(band: &IncrementBand) -> v1::IncrementBand {
    let IncrementBand { from, increment } = *band;
    v1::IncrementBand { from_micros: from.micros(), increment_micros: increment.micros() }
}

/// Reads a record.
///
/// # Errors
/// It is no record of a lot.
pub(crate) fn decode(payload: &[u8]) -> Result<LotRecord, LotRecordError> {
    use LotRecordError::Field;
    let message = v1::Lot::read_record(payload)?;
    let lot = LotId::parse(&message.id).ok_or(Field("id"))?;
    let news = message.news.map(String::from_utf8).transpose().map_err(|_| Field("news"))?;
    let event = |kind| LotRecordBody::Event { kind, attempt: None };
    let mut bodies = Vec::new();
    if let Some(terms) = message.created {
        bodies.push(LotRecordBody::Created(Box::new(terms_of(&lot, terms)?)));
    }
    bodies.extend(message.opened.map(|_| event(LotEventKind::Opened)));
    if let Some(bid) = message.bid {
        let attempt = Some(HoldAttempt { epoch: bid.hold_epoch, counter: bid.hold_counter });
        let kind = LotEventKind::Bid { number: bid.number, bid: bid_of(bid)? };
        bodies.push(LotRecordBody::Event { kind, attempt });
    }
    bodies.extend(
        message
            .extended
            .map(|extended| event(LotEventKind::Extended { closes_ms: extended.closes_ms })),
    );
    bodies.extend(message.closed.map(|_| event(LotEventKind::Closed)));
    bodies.extend(
        message
            .cancelled
            .map(|cancelled| event(LotEventKind::Cancelled { reason: cancelled.reason })),
    );
    bodies.extend(message.paid.map(|_| LotRecordBody::Paid));
    let Ok([body]) = <[_; 1]>::try_from(bodies) else { return Err(Field("created to paid")) };
    Ok(LotRecord { lot, at_ms: message.at_ms, body, news })
}

fn price(field: &'static str, micros: u64) -> Result<Cpm, LotRecordError> {
    Cpm::new(micros).ok_or(LotRecordError::Field(field))
}

fn currency(code: &str) -> Result<Currency, LotRecordError> {
    Currency::parse(code).ok_or(LotRecordError::Field("currency"))
}

fn bid_of(message: v1::LotBid) -> Result<LotBid, LotRecordError> {
    Ok(LotBid {
        maximum: price("bid.maximum_micros", message.maximum_micros)?,
        currency: currency(&message.currency)?,
        bidder: message.bidder,
        account: message.account,
        key: message.key,
    })
}

fn terms_of(id: &LotId, message: v1::LotTerms) -> Result<LotTerms, LotRecordError> {
    let deal = message.deal.ok_or(LotRecordError::Field("created.deal"))?;
    Ok(LotTerms {
        id: id.clone(),
        title: message.title,
        currency: currency(&message.currency)?,
        impressions: message.impressions,
        rules: match message.english {
            Some(english) => LotRules::English(english_of(english)?),
            None => LotRules::SealedSecondPrice,
        },
        start_price: price("created.start_price_micros", message.start_price_micros)?,
        reserve: message
            .reserve_micros
            .map(|micros| price("created.reserve_micros", micros))
            .transpose()?,
        opens_ms: message.opens_ms,
        closes_ms: message.closes_ms,
        payment: match message.paid_at_close {
            true => LotPayment::AtClose,
            false => LotPayment::OnDelivery,
        },
        invited: message.invited,
        bids_max: message.bids_max,
        deal: LotDeal {
            id: deal.id,
            publisher: deal.publisher,
            starts_ms: deal.starts_ms,
            ends_ms: deal.ends_ms,
            priority: deal.priority,
        },
    })
}

fn english_of(message: v1::EnglishTerms) -> Result<EnglishTerms, LotRecordError> {
    let band = |band: v1::IncrementBand| {
        Ok(IncrementBand {
            from: price("from_micros", band.from_micros)?,
            increment: price("increment_micros", band.increment_micros)?,
        })
    };
    let increments =
        message.increments.into_iter().map(band).collect::<Result<_, LotRecordError>>()?;
    let soft_close = message.soft_close.map(|soft| SoftClose {
        window_ms: soft.window_ms,
        extension_ms: soft.extension_ms,
        total_max_ms: soft.total_max_ms,
    });
    Ok(EnglishTerms { increments: IncrementBands(increments), soft_close })
}

#[cfg(test)]
mod tests;
