//! Each message and each reply keeps its meaning.

use pacer_core::ledger::LimitSpan;
use units::{Currency, Nanos};

use super::*;

fn key() -> HoldKey {
    HoldKey { lot: LotId::parse("lot-7").unwrap(), bid: 3 }
}

const ATTEMPT: HoldAttempt = HoldAttempt { epoch: 5, counter: 9 };

fn name() -> HoldName {
    HoldName { lot: Arc::from("lot-7"), bid: 3 }
}

const NUMBER: AttemptNumber = AttemptNumber { epoch: 5, counter: 9 };

#[test]
fn messages_reach_the_ledger() {
    let request = HoldRequest {
        key: key(),
        attempt: ATTEMPT,
        account: "acme".to_owned(),
        currency: Currency::USD,
        amount: Nanos::new(70),
        replaces: Some(2),
    };
    let placement = HoldPlacement {
        name: name(),
        attempt: NUMBER,
        account: Arc::from("acme"),
        currency: Currency::USD,
        amount: Nanos::new(70),
        replaces: Some(2),
    };
    let end = |fate| HoldMessage::End { key: key(), attempt: ATTEMPT, fate };
    let ended = |end| HoldInput::End { name: name(), attempt: NUMBER, end };
    let cost = Nanos::new(60);
    for (message, want) in [
        (HoldMessage::Place(request.clone()), HoldInput::Place(placement.clone())),
        (HoldMessage::Standing(request), HoldInput::Standing(placement)),
        (end(HoldFate::Released), ended(HoldState::Released)),
        (end(HoldFate::Charged { cost }), ended(HoldState::Charged(cost))),
        (HoldMessage::Replayed, HoldInput::Replayed),
    ] {
        assert_eq!(input_of(&message), want);
    }
}

#[test]
fn answers_reach_the_live_floor() {
    let refused = |refusal| HoldReply::Refused { key: key(), attempt: ATTEMPT, refusal };
    let headroom = Nanos::new(8);
    let over = |span| HoldDenial::OverAccount { span, headroom };
    let is_over = |span| refused(HoldRefusal::OverAccount { span, headroom });
    let expected = Currency::USD;
    for (denial, want) in [
        (HoldDenial::Unavailable("it ends"), refused(HoldRefusal::Unavailable("it ends".into()))),
        (HoldDenial::UnknownAccount, refused(HoldRefusal::UnknownAccount)),
        (HoldDenial::AccountClosed, refused(HoldRefusal::AccountClosed)),
        (HoldDenial::WrongCurrency(expected), refused(HoldRefusal::WrongCurrency { expected })),
        (HoldDenial::TooLarge, refused(HoldRefusal::TooLarge)),
        (over(LimitSpan::Life), is_over("life")),
        (over(LimitSpan::Day), is_over("day")),
        (over(LimitSpan::Hour), is_over("hour")),
    ] {
        let outcome = HoldOutcome::Refused(denial);
        assert_eq!(reply_of(HoldAnswer { name: name(), attempt: NUMBER, outcome }), want);
    }
    for (outcome, want) in [
        (HoldOutcome::Held, HoldReply::Held { key: key(), attempt: ATTEMPT }),
        (HoldOutcome::Ended, HoldReply::Ended { key: key(), attempt: ATTEMPT }),
    ] {
        assert_eq!(reply_of(HoldAnswer { name: name(), attempt: NUMBER, outcome }), want);
    }
}
