//! Tests of `commands`: who may say what, and how refusals are told.

use live_core::lots::LotRefusal;
use live_core::protocol::{Command, ParsedCommand};
use live_core::rights::LiveClaims;
use units::{Cpm, Currency, Nanos};

use super::*;

fn rights(claims: LiveClaims) -> LiveRights {
    LiveRights::of(LiveClaims { exp: u64::MAX, ..claims })
}

fn bidder(name: &str) -> LiveRights {
    let (bidder, account) = (Some(name.to_owned()), Some("acme".to_owned()));
    rights(LiveClaims { bidder, account, ..LiveClaims::default() })
}

fn operator() -> LiveRights {
    rights(LiveClaims { operator: true, ..LiveClaims::default() })
}

/// `ok`, or the code and field of the refusal.
#[track_caller]
fn check(rights: &LiveRights, text: &str, want: &str) {
    let Ok(Command::Lots(command)) = ParsedCommand::parse(text).command else {
        panic!("no command about lots: {text}");
    };
    let got = match floor_command(rights, command) {
        Ok(_) => "ok".to_owned(),
        Err(LiveError { code, field, .. }) => {
            format!("{} {}", code.label(), field.unwrap_or("-"))
        }
    };
    assert_eq!(got, want, "{text}");
}

#[test]
fn each_command_needs_its_right() {
    let nobody = rights(LiveClaims::default());
    let topics = vec!["lots".to_owned()];
    let watcher = rights(LiveClaims { topics, ..LiveClaims::default() });
    let half = rights(LiveClaims { bidder: Some("d/s".to_owned()), ..LiveClaims::default() });
    let bid = r#"{"op":"bid","lot":"a","maximum":"5","currency":"USD","key":"k"}"#;
    for (who, see, bids, operate) in [
        (&nobody, "forbidden -", "forbidden -", "forbidden -"),
        (&watcher, "ok", "forbidden -", "forbidden -"),
        (&half, "forbidden -", "forbidden -", "forbidden -"),
        (&bidder("d/s"), "ok", "ok", "forbidden -"),
        (&operator(), "ok", "forbidden -", "ok"),
        (&LiveRights::local(), "ok", "forbidden -", "ok"),
    ] {
        check(who, r#"{"op":"lots"}"#, see);
        check(who, r#"{"op":"lot","lot":"a"}"#, see);
        check(who, bid, bids);
        check(who, r#"{"op":"open_lot","lot":"a"}"#, operate);
        check(who, r#"{"op":"extend_lot","lot":"a","closes_ms":1}"#, operate);
        check(who, r#"{"op":"close_lot","lot":"a"}"#, operate);
        check(who, r#"{"op":"cancel_lot","lot":"a","reason":"r"}"#, operate);
    }
    check(&watcher, r#"{"op":"create_lot","terms":{}}"#, "forbidden -");
    check(&operator(), r#"{"op":"create_lot","terms":{}}"#, "bad_field terms");
}

#[test]
fn wrong_fields_are_named() {
    let who = bidder("d/s");
    let bid = |lot: &str, maximum: &str, currency: &str, key: &str| {
        format!(
            r#"{{"op":"bid","lot":"{lot}","maximum":"{maximum}","currency":"{currency}","key":"{key}"}}"#
        )
    };
    check(&who, &bid("a b", "5", "USD", "k"), "unknown_lot lot");
    check(&who, &bid("a", "5.0000001", "USD", "k"), "bad_field maximum");
    check(&who, &bid("a", "five", "USD", "k"), "bad_field maximum");
    check(&who, &bid("a", "5", "dollars", "k"), "bad_field currency");
    check(&who, &bid("a", "5", "USD", ""), "bad_field key");
    check(&who, &bid("a", "5", "USD", &"k".repeat(129)), "bad_field key");
    check(&who, &bid("a", "5", "USD", &"k".repeat(128)), "ok");
    check(&bidder("seatless"), &bid("a", "5", "USD", "k"), "bad_field bidder");
    let long = "r".repeat(501);
    check(
        &operator(),
        &format!(r#"{{"op":"cancel_lot","lot":"a","reason":"{long}"}}"#),
        "bad_field reason",
    );
}

#[test]
fn refusals_have_a_reason_and_a_field() {
    let check = |refused: FloorRefusal, code, reason, field| {
        let error = refusal(&refused);
        assert_eq!((error.code, error.reason, error.field), (code, Some(reason), field));
    };
    let price = Cpm::new(5).expect("a price");
    let lot = FloorRefusal::Lot;
    let (refused, busy) = (LiveErrorCode::Refused, LiveErrorCode::Busy);
    let below = LotRefusal::BelowIncrement { minimum: price };
    check(lot(below), refused, "below_increment", Some("maximum"));
    let expected = Currency::USD;
    check(lot(LotRefusal::WrongCurrency { expected }), refused, "wrong_currency", Some("currency"));
    check(lot(LotRefusal::KeyReused { number: 1 }), refused, "key_reused", Some("key"));
    check(FloorRefusal::UnknownLot, LiveErrorCode::UnknownLot, "unknown_lot", Some("lot"));
    check(FloorRefusal::Paused("full".to_owned()), busy, "paused", None);
    let over = HoldRefusal::OverAccount { span: "day", headroom: Nanos::new(7) };
    check(FloorRefusal::Hold(over), refused, "over_account", Some("maximum"));
    let unavailable = HoldRefusal::Unavailable("it starts".to_owned());
    check(FloorRefusal::Hold(unavailable), busy, "unavailable", None);
}
