//! Connects lots to the budgets: the live floor's port for holds is the ledger's, in the live
//! floor's words. Nothing is decided here.

use std::sync::Arc;

use live_core::lots::{HoldFate, LotId};
use live_core::ports::{
    HoldAttempt, HoldKey, HoldMessage, HoldPort, HoldRefusal, HoldReply, HoldRequest,
};
use pacer_core::ledger::{HoldAnswer, HoldDenial, HoldInput, HoldOutcome, HoldPlacement};
use pacer_core::store::{AttemptNumber, HoldName, HoldState};
use pacer_serve::{LEDGER_HOLDS, LedgerHoldPort};
use runtime::service::{Port, Ports, ServiceError};

/// Port through which the live floor holds money for bids.
const LOT_HOLDS: Port<Box<dyn HoldPort>> = Port::new("lot-holds");

/// Gives the live floor the ledger's port. Without `[budgets]` there is none.
pub(crate) fn link_live(ports: &mut Ports) -> Result<(), ServiceError> {
    if let Some(port) = ports.take(&LEDGER_HOLDS) {
        ports.offer(&LOT_HOLDS, Box::new(LedgerHolds(port)) as Box<dyn HoldPort>);
    }
    Ok(())
}

#[derive(Debug)]
struct LedgerHolds(LedgerHoldPort);

impl HoldPort for LedgerHolds {
    fn send(&mut self, message: HoldMessage) -> Result<(), HoldMessage> {
        self.0.send(input_of(&message)).map_err(|_| message)
    }

    fn poll(&mut self) -> Option<HoldReply> {
        self.0.poll().map(reply_of)
    }

    fn wake_with(&mut self, wake: Box<dyn Fn() + Send + Sync>) {
        self.0.wake_with(wake);
    }

    fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }
}

fn input_of(message: &HoldMessage) -> HoldInput {
    match message {
        HoldMessage::Place(request) => HoldInput::Place(placement_of(request)),
        HoldMessage::Standing(request) => HoldInput::Standing(placement_of(request)),
        HoldMessage::End { key, attempt, fate } => HoldInput::End {
            name: name_of(key),
            attempt: number_of(*attempt),
            end: match fate {
                HoldFate::Released => HoldState::Released,
                HoldFate::Charged { cost } => HoldState::Charged(*cost),
            },
        },
        HoldMessage::Replayed => HoldInput::Replayed,
    }
}

fn placement_of(request: &HoldRequest) -> HoldPlacement {
    let HoldRequest { key, attempt, account, currency, amount, replaces } = request;
    HoldPlacement {
        name: name_of(key),
        attempt: number_of(*attempt),
        account: Arc::from(account.as_str()),
        currency: *currency,
        amount: *amount,
        replaces: *replaces,
    }
}

fn name_of(key: &HoldKey) -> HoldName {
    HoldName { lot: Arc::from(key.lot.as_str()), bid: key.bid }
}

const fn number_of(HoldAttempt { epoch, counter }: HoldAttempt) -> AttemptNumber {
    AttemptNumber { epoch, counter }
}

fn reply_of(answer: HoldAnswer) -> HoldReply {
    let HoldAnswer { name, attempt: AttemptNumber { epoch, counter }, outcome } = answer;
    let lot =
        LotId::parse(&name.lot).expect("the ledger answers for the lot that it was asked for");
    let (key, attempt) = (HoldKey { lot, bid: name.bid }, HoldAttempt { epoch, counter });
    match outcome {
        HoldOutcome::Held => HoldReply::Held { key, attempt },
        HoldOutcome::Ended => HoldReply::Ended { key, attempt },
        HoldOutcome::Refused(denial) => {
            HoldReply::Refused { key, attempt, refusal: refusal_of(denial) }
        }
    }
}

fn refusal_of(denial: HoldDenial) -> HoldRefusal {
    match denial {
        HoldDenial::Unavailable(why) => HoldRefusal::Unavailable(why.to_owned()),
        HoldDenial::UnknownAccount => HoldRefusal::UnknownAccount,
        HoldDenial::AccountClosed => HoldRefusal::AccountClosed,
        HoldDenial::WrongCurrency(expected) => HoldRefusal::WrongCurrency { expected },
        HoldDenial::TooLarge => HoldRefusal::TooLarge,
        HoldDenial::OverAccount { span, headroom } => {
            HoldRefusal::OverAccount { span: span.label(), headroom }
        }
    }
}

#[cfg(test)]
mod tests;
