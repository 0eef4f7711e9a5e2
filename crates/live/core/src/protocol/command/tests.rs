//! Tests of `command`: every command, and each way to get one wrong.

use super::*;

/// A command in short form, or the code and field of its refusal.
#[track_caller]
fn check(text: &str, id: Option<u64>, want: &str) {
    let parsed = ParsedCommand::parse(text);
    assert_eq!(parsed.id, id, "{text}");
    let shown = match parsed.command {
        Ok(Command::Auth { token }) => format!("auth {token}"),
        Ok(Command::Subscribe(Subscribe { topic, filter, policy, after })) => {
            let after = after.map_or_else(|| "now".to_owned(), |after| after.to_string());
            format!("subscribe {topic} [{filter}] {policy:?} {after}")
        }
        Ok(Command::Unsubscribe { topic }) => format!("unsubscribe {topic}"),
        Ok(Command::Publish { topic, key, body }) => format!("publish {topic} [{key}] {body}"),
        Ok(Command::Lots(command)) => match command {
            LotsCommand::List { after } => format!("lots {}", after.unwrap_or_default()),
            LotsCommand::Show { lot } => format!("lot {lot}"),
            LotsCommand::Bid(BidCommand { lot, maximum, currency, key }) => {
                format!("bid {lot} {maximum} {currency} [{key}]")
            }
            LotsCommand::Create { terms } => format!("create {terms}"),
            LotsCommand::Open { lot } => format!("open {lot}"),
            LotsCommand::Extend { lot, closes_ms } => format!("extend {lot} {closes_ms}"),
            LotsCommand::Close { lot } => format!("close {lot}"),
            LotsCommand::Cancel { lot, reason } => format!("cancel {lot} {reason}"),
        },
        Err(LiveError { code, field, .. }) => {
            format!("{} {}", code.label(), field.unwrap_or("-"))
        }
    };
    assert_eq!(shown, want, "{text}");
}

#[test]
fn commands_are_read() {
    check(r#"{"op":"auth","token":"a.b.c","id":7}"#, Some(7), "auth a.b.c");
    check(r#"{"op":"subscribe","topic":"auctions"}"#, None, "subscribe auctions [] Strict now");
    check(
        r#"{"op":"subscribe","topic":"fates","filter":"seat=\"a\"","policy":"conflate",
            "after":{"epoch":3,"sequence":17},"id":0}"#,
        Some(0),
        "subscribe fates [seat=\"a\"] Conflate 3-17",
    );
    check(
        r#"{"op":"subscribe","topic":"news","after":{"epoch":3,"sequence":17,"part":2}}"#,
        None,
        "subscribe news [] Strict 3-17-2",
    );
    check(r#"{"op":"unsubscribe","topic":"wins"}"#, None, "unsubscribe wins");
    check(r#"{"op":"lots"}"#, None, "lots ");
    check(r#"{"op":"lot","lot":"a"}"#, None, "lot a");
    check(
        r#"{"op":"bid","lot":"a","maximum":"5.20","currency":"USD","key":"k"}"#,
        None,
        "bid a 5.20 USD [k]",
    );
    check(r#"{"op":"bid","lot":"a","maximum":"5","currency":"USD"}"#, None, "bad_field key");
    check(r#"{"op":"bid","lot":"a","maximum":5,"currency":"USD","key":"k"}"#, None, "bad_field -");
    check(r#"{"op":"create_lot","terms":{"id":"a"}}"#, None, "create {\"id\":\"a\"}");
    check(r#"{"op":"open_lot","lot":"a"}"#, None, "open a");
    check(r#"{"op":"extend_lot","lot":"a","closes_ms":9}"#, None, "extend a 9");
    check(r#"{"op":"extend_lot","lot":"a"}"#, None, "bad_field closes_ms");
    check(r#"{"op":"close_lot","lot":"a"}"#, None, "close a");
    check(r#"{"op":"cancel_lot","lot":"a","reason":"r"}"#, None, "cancel a r");
    check(r#"{"op":"lots","lot":"a"}"#, None, "lots a");
    check(r#"{"op":"lots","key":"a"}"#, None, "bad_field key");
    check(
        r#"{"op":"publish","topic":"news","body": {"a": [1, 2]} }"#,
        None,
        r#"publish news [] {"a": [1, 2]}"#,
    );
    check(r#"{"op":"publish","topic":"t","key":"k","body":7}"#, None, "publish t [k] 7");
    check(r#"{"op":"publish","topic":"news","body":null}"#, None, "bad_field body");
}

#[test]
fn wrong_commands_are_refused_with_their_field() {
    check("", None, "malformed -");
    check("[]", None, "bad_field -");
    check(r#"{"op":"auth""#, None, "malformed -");
    check(r#"{"id":3}"#, Some(3), "bad_field -");
    check(r#"{"op":"sing","id":3}"#, Some(3), "unknown_op op");
    check(r#"{"op":"auth"}"#, None, "bad_field token");
    check(r#"{"op":"auth","token":7,"id":9}"#, Some(9), "bad_field -");
    check(r#"{"op":"auth","token":"t","topic":"wins"}"#, None, "bad_field topic");
    check(r#"{"op":"subscribe"}"#, None, "bad_field topic");
    check(r#"{"op":"subscribe","topic":"wins","body":{}}"#, None, "bad_field body");
    check(r#"{"op":"subscribe","topic":"wins","policy":"fast"}"#, None, "bad_field -");
    check(r#"{"op":"subscribe","topic":"wins","after":{"epoch":-1}}"#, None, "bad_field -");
    check(r#"{"op":"unsubscribe","topic":"wins","filter":""}"#, None, "bad_field filter");
    check(r#"{"op":"publish","topic":"news"}"#, None, "bad_field body");
    check(r#"{"op":"publish","body":1}"#, None, "bad_field topic");
    check(r#"{"op":"publish","topic":"news","body":1,"color":"red"}"#, None, "bad_field -");
    check(r#"{"op":"auth","op":"auth","token":"t"}"#, None, "bad_field -");
}

#[test]
fn a_refusal_is_short_and_shows_no_control_characters() {
    let text = format!(r#"{{"op":"{}\u0007","{}":1}}"#, "x".repeat(500), "y".repeat(5_000));
    for text in [text.as_str(), &format!(r#"{{"op":"{}\u001b"}}"#, "x".repeat(5_000))] {
        let error = ParsedCommand::parse(text).command.unwrap_err();
        assert!(error.message.len() < 400, "{}", error.message);
        assert!(!error.message.chars().any(char::is_control));
    }
}

#[test]
fn positions_are_read_as_they_are_written() {
    for text in ["3-17", "3-17-0", "0-18446744073709551615-65534"] {
        assert_eq!(text.parse::<FeedPosition>().unwrap().to_string(), text);
    }
    for text in ["", "3", "3-", "-3", "3-17-", "3-17-0-1", "+3-17", "3-1x", "3-17-65536"] {
        assert!(text.parse::<FeedPosition>().is_err(), "{text}");
    }
}
