//! What a client says about lots, as the floor takes it: names and prices are read, and rights are
//! checked.

use live_core::floor::{FloorCommand, FloorRefusal};
use live_core::lots::{LotBid, LotCommand, LotId, LotRefusal};
use live_core::ports::HoldRefusal;
use live_core::protocol::{BidCommand, LiveError, LiveErrorCode, LotsCommand};
use live_core::rights::{BidderRights, LiveRights};
use live_core::topic::{FeedTopic, TopicName};

use super::terms::{self, TermsText};

/// Longest idempotency key, in bytes.
const KEY_BYTES_MAX: usize = 128;
/// Longest reason of an operator, in bytes.
const REASON_BYTES_MAX: usize = 500;

/// A client's command, as the floor takes it.
///
/// # Errors
/// The client may not give it, or a field is wrong.
pub(crate) fn floor_command(
    rights: &LiveRights,
    command: LotsCommand<'_>,
) -> Result<FloorCommand, LiveError> {
    let to_lot = |lot: &str, command| {
        must_operate(rights)?;
        Ok(FloorCommand::Lot(lot_id(lot)?, command))
    };
    match command {
        LotsCommand::List { after } => {
            must_see(rights)?;
            Ok(FloorCommand::List { after: after.map(|after| lot_id(&after)).transpose()? })
        }
        LotsCommand::Show { lot } => {
            must_see(rights)?;
            let bidder = rights.bidder.as_ref().map(|rights| rights.bidder.clone());
            Ok(FloorCommand::Show { lot: lot_id(&lot)?, bidder })
        }
        LotsCommand::Bid(bid) => {
            let bidder = rights.bidder.as_ref().ok_or_else(|| {
                let message = "the token names no bidder: get one with `bidder` and `account`";
                LiveError::new(LiveErrorCode::Forbidden, message)
            })?;
            bid_command(bidder, &bid)
        }
        LotsCommand::Create { terms } => {
            must_operate(rights)?;
            Ok(FloorCommand::Create(Box::new(TermsText::parse(terms.get())?)))
        }
        LotsCommand::Open { lot } => to_lot(&lot, LotCommand::Open),
        LotsCommand::Extend { lot, closes_ms } => to_lot(&lot, LotCommand::Extend { closes_ms }),
        LotsCommand::Close { lot } => to_lot(&lot, LotCommand::Close),
        LotsCommand::Cancel { lot, reason } => {
            check_reason(&reason)?;
            to_lot(&lot, LotCommand::Cancel { reason: reason.into_owned() })
        }
    }
}

/// A bid as the floor takes it.
///
/// # Errors
/// A field is wrong.
pub(super) fn bid_command(
    of: &BidderRights,
    bid: &BidCommand<'_>,
) -> Result<FloorCommand, LiveError> {
    let BidderRights { bidder, account } = of;
    let BidCommand { lot, maximum, currency, key } = bid;
    terms::name("bidder", bidder, terms::NAME_BYTES_MAX)?;
    terms::name("account", account, terms::NAME_BYTES_MAX)?;
    if !bidder.split_once('/').is_some_and(|(dsp, seat)| !dsp.is_empty() && !seat.is_empty()) {
        let message = "a bidder is a seat of a DSP: `dsp/seat`";
        return Err(LiveError::field(LiveErrorCode::BadField, "bidder", message));
    }
    terms::name("key", key, KEY_BYTES_MAX)?;
    let bid = LotBid {
        bidder: bidder.clone(),
        account: account.clone(),
        maximum: terms::price("maximum", maximum)?,
        currency: terms::currency("currency", currency)?,
        key: key.clone().into_owned(),
    };
    Ok(FloorCommand::Lot(lot_id(lot)?, LotCommand::Bid(bid)))
}

/// Checks an operator's reason.
///
/// # Errors
/// It is empty or too long.
pub(super) fn check_reason(reason: &str) -> Result<(), LiveError> {
    terms::name("reason", reason, REASON_BYTES_MAX)
}

/// Reads a lot's id. One that cannot exist is unknown.
pub(super) fn lot_id(text: &str) -> Result<LotId, LiveError> {
    LotId::parse(text).ok_or_else(|| refusal(&FloorRefusal::UnknownLot))
}

fn must_operate(rights: &LiveRights) -> Result<(), LiveError> {
    let message = "the token does not grant changes of lots (`operator`)";
    let refused = || LiveError::new(LiveErrorCode::Forbidden, message);
    rights.is_operator.then_some(()).ok_or_else(refused)
}

fn must_see(rights: &LiveRights) -> Result<(), LiveError> {
    let refused = || LiveError::new(LiveErrorCode::Forbidden, "the token does not grant `lots`");
    rights.scope(&TopicName::Feed(FeedTopic::Lots)).map(drop).ok_or_else(refused)
}

/// A refusal of the floor as clients see it.
pub(crate) fn refusal(refusal: &FloorRefusal) -> LiveError {
    let code = match refusal {
        FloorRefusal::UnknownLot => LiveErrorCode::UnknownLot,
        FloorRefusal::Busy
        | FloorRefusal::Paused(_)
        | FloorRefusal::Hold(HoldRefusal::Unavailable(_)) => LiveErrorCode::Busy,
        FloorRefusal::TooManyLots { .. } => LiveErrorCode::Limit,
        FloorRefusal::Terms(_) => LiveErrorCode::BadField,
        FloorRefusal::LotExists | FloorRefusal::Lot(_) | FloorRefusal::Hold(_) => {
            LiveErrorCode::Refused
        }
    };
    let field = match refusal {
        FloorRefusal::Terms(problems) => problems.first().map(|problem| problem.field),
        FloorRefusal::LotExists | FloorRefusal::UnknownLot => Some("lot"),
        FloorRefusal::Lot(refusal) => field_of(*refusal),
        FloorRefusal::Hold(HoldRefusal::WrongCurrency { .. }) => Some("currency"),
        FloorRefusal::Hold(HoldRefusal::OverAccount { .. } | HoldRefusal::TooLarge) => {
            Some("maximum")
        }
        _ => None,
    };
    LiveError { code, field, reason: Some(refusal.label()), message: refusal.to_string() }
}

const fn field_of(refusal: LotRefusal) -> Option<&'static str> {
    Some(match refusal {
        LotRefusal::NotOpen { .. } | LotRefusal::AlreadyOpen | LotRefusal::TooManyBids { .. } => {
            "lot"
        }
        LotRefusal::WrongCurrency { .. } => "currency",
        LotRefusal::KeyReused { .. } => "key",
        LotRefusal::TooHigh { .. }
        | LotRefusal::BelowStart { .. }
        | LotRefusal::BelowIncrement { .. }
        | LotRefusal::Retraction { .. } => "maximum",
        LotRefusal::NotLater { .. } => "closes_ms",
        LotRefusal::NotInvited => return None,
    })
}

#[cfg(test)]
mod tests;
