//! One table per getter: accepted values and error messages.

use std::fmt::Debug;

use super::super::{Optional, Required, Section, WholeNumber, ms, parse, secs};
use super::problems_of;

/// Reads `key = VALUE` with `read`; `Err` is the remedy alone.
#[track_caller]
fn check<T: Debug + PartialEq>(
    read: impl Fn(&mut Section<'_>) -> T,
    value: &str,
    want: Result<T, &str>,
) {
    let text = format!("key = {value}");
    let got = parse("vickrey.toml", &text, &read);
    match want {
        Ok(want) => assert_eq!(got.expect("a good value"), want, "{value}"),
        Err(remedy) => {
            assert_eq!(problems_of(&text, read), [format!("line 1: {text}: {remedy}")], "{value}");
        }
    }
}

#[test]
fn text() {
    let read = |s: &mut Section<'_>| s.text("key", "default", "Doc.");
    check(read, "\"a b\"", Ok("a b".to_owned()));
    check(read, "''", Err("must not be empty"));
    check(read, "5", Err("expected text, for example \"default\""));
    check(read, "[\"a\"]", Err("expected text, for example \"default\""));
}

#[test]
fn parsed() {
    let id = |text: &str| match text.contains('/') {
        true => Err("must not contain `/`".to_owned()),
        false => Ok(text.len()),
    };
    let read = |s: &mut Section<'_>| s.parsed("key", Required("dsp-1"), id, "Doc.");
    check(read, "\"abc\"", Ok(3));
    check(read, "\"a/b\"", Err("must not contain `/`"));
    check(read, "true", Err("expected text, for example \"dsp-1\""));
    assert_eq!(problems_of("", read), ["key: is missing, expected text, for example \"dsp-1\""]);
}

#[test]
fn boolean() {
    let read = |s: &mut Section<'_>| s.boolean("key", true, "Doc.");
    check(read, "false", Ok(false));
    check(read, "\"false\"", Err("expected true or false, for example true"));
    check(read, "0", Err("expected true or false, for example true"));
}

#[test]
fn integer() {
    let read = |s: &mut Section<'_>| s.integer("key", 64, 1..=1000_u32, "Doc.");
    check(read, "1", Ok(1));
    check(read, "1_000", Ok(1000));
    check(read, "0x10", Ok(16));
    check(read, "0", Err("must be from 1 to 1000"));
    check(read, "1001", Err("must be from 1 to 1000"));
    check(read, "99999999999999999999999999999999999999999", Err("is too large"));
    check(read, "-1", Err("must not be negative"));
    check(read, "-99999999999999999999999999999999999999999", Err("must not be negative"));
    check(read, "\"5\"", Err("expected a whole number, for example 64"));
    check(read, "5.0", Err("expected a whole number, for example 64"));

    let any = |s: &mut Section<'_>| s.integer::<u8, _>("key", 0, .., "Doc.");
    check(any, "255", Ok(u8::MAX));
    check(any, "256", Err("must be at most 255"));
    let below = |s: &mut Section<'_>| s.integer("key", 0, ..10_usize, "Doc.");
    check(below, "9", Ok(9));
    check(below, "10", Err("must be at most 9"));
    let above = |s: &mut Section<'_>| s.integer("key", 10, 10_u64.., "Doc.");
    check(above, "18446744073709551615", Ok(u64::MAX));
    check(above, "9", Err("must be at least 10"));
    assert_eq!(u16::MAX.count(), 65_535);
}

#[test]
fn duration() {
    let read = |s: &mut Section<'_>| s.duration("key", "250ms", ms(1)..=secs(7200), "Doc.");
    check(read, "\"1000us\"", Ok(ms(1)));
    check(read, "\"5ms\"", Ok(ms(5)));
    check(read, "\"5 ms\"", Ok(ms(5)));
    check(read, "\"2s\"", Ok(secs(2)));
    check(read, "\"1m\"", Ok(secs(60)));
    check(read, "\"2h\"", Ok(secs(7200)));
    check(read, "\"1.5s\"", Ok(ms(1500)));
    check(read, "\"120\"", Err("needs a unit, for example \"120ms\""));
    check(read, "120", Err("needs a unit, for example \"120ms\""));
    check(read, "-120", Err("must not be negative"));
    check(read, "\"-5ms\"", Err("must not be negative"));
    check(read, "\"5 sec\"", Err("unknown unit `sec`, known are us, ms, s, m, h"));
    check(read, "\"soon\"", Err("needs a number and a unit, for example \"10ms\""));
    check(read, "\"\"", Err("needs a number and a unit, for example \"10ms\""));
    check(read, "\"1.ms\"", Err("needs a number and a unit, for example \"10ms\""));
    check(read, "\"0.5us\"", Err("is finer than 1us"));
    check(read, "\"0.0000001h\"", Err("is finer than 1us"));
    check(read, "\"99999999999999999999999999999999999999s\"", Err("is too large"));
    check(read, "\"18446744073709551615h\"", Err("is too large"));
    check(read, "\"999us\"", Err("must be from 1ms to 2h"));
    check(read, "\"7201s\"", Err("must be from 1ms to 2h"));
    check(read, "1.5", Err("expected a duration, for example \"250ms\""));
    check(read, "[\"1s\"]", Err("expected a duration, for example \"250ms\""));
}

#[test]
fn bytes() {
    let read = |s: &mut Section<'_>| s.bytes("key", "256KiB", 1..=1 << 30, "Doc.");
    check(read, "\"512B\"", Ok(512));
    check(read, "\"64KiB\"", Ok(64 << 10));
    check(read, "\"1.5MiB\"", Ok(3 << 19));
    check(read, "\"1GiB\"", Ok(1 << 30));
    check(read, "\"64\"", Err("needs a unit, for example \"64KiB\""));
    check(read, "\"64kb\"", Err("unknown unit `kb`, known are B, KiB, MiB, GiB"));
    check(read, "\"0B\"", Err("must be from 1B to 1GiB"));
    check(read, "\"2GiB\"", Err("must be from 1B to 1GiB"));
    check(read, "true", Err("expected a size in bytes, for example \"256KiB\""));
    let any = |s: &mut Section<'_>| s.bytes("key", "0B", .., "Doc.");
    check(any, "\"17179869183GiB\"", Ok(17_179_869_183 << 30));
    check(any, "\"17179869184GiB\"", Err("is too large"));
}

#[test]
fn ppm() {
    let read = |s: &mut Section<'_>| s.ppm("key", "2.5%", "Doc.").get();
    check(read, "\"2.5%\"", Ok(25_000));
    check(read, "\"25000ppm\"", Ok(25_000));
    check(read, "\"0.0001%\"", Ok(1));
    check(read, "\"100%\"", Ok(1_000_000));
    check(read, "\"100.0001%\"", Err("must be at most 100%"));
    check(read, "\"0.00001%\"", Err("is finer than 1ppm"));
    check(read, "\"5\"", Err("needs a unit, for example \"5%\""));
    check(read, "0.025", Err("expected a share, for example \"2.5%\""));
}

#[test]
fn price() {
    let read = |s: &mut Section<'_>| s.price("key", "0.50 USD", "Doc.").to_string();
    check(read, "\"0.50 USD\"", Ok("0.5 USD".to_owned()));
    check(read, "\"0.000001 EUR\"", Ok("0.000001 EUR".to_owned()));
    check(read, "\"0.5 usd\"", Err("unknown currency `usd`, did you mean `USD`?"));
    check(
        read,
        "\"0.5 dollars\"",
        Err("unknown currency `dollars`, write three capital letters such as `USD`"),
    );
    check(read, "\"0.5\"", Err("needs a currency, for example \"0.5 USD\""));
    check(read, "\"0.0000001 USD\"", Err("is finer than a millionth of the currency"));
    check(read, "\"1000000000.000001 USD\"", Err("is more than 1000000000 USD, the largest price"));
    check(
        read,
        "\"-1 USD\"",
        Err("needs an amount and a currency, for example \"0.50 USD\": the amount is negative"),
    );
    check(
        read,
        "\"$1\"",
        Err("needs an amount and a currency, for example \"0.50 USD\": the amount is not a number"),
    );
    check(read, "0.5", Err("expected a price with its currency, for example \"0.50 USD\""));
}

#[test]
fn currency() {
    let read = |s: &mut Section<'_>| s.currency("key", "USD", "Doc.").to_string();
    check(read, "\"JPY\"", Ok("JPY".to_owned()));
    check(read, "\"eur\"", Err("unknown currency `eur`, did you mean `EUR`?"));
    check(read, "\"€\"", Err("unknown currency `€`, write three capital letters such as `USD`"));
    check(read, "1", Err("expected a currency, for example \"USD\""));
}

#[test]
fn socket_address() {
    let read = |s: &mut Section<'_>| s.socket_address("key", "127.0.0.1:8080", "Doc.").to_string();
    check(read, "\"0.0.0.0:0\"", Ok("0.0.0.0:0".to_owned()));
    check(read, "\"[::1]:80\"", Ok("[::1]:80".to_owned()));
    let bad = "needs an IP address and a port, for example \"127.0.0.1:8080\"";
    for value in ["\"127.0.0.1\"", "\":8080\"", "\"127.0.0.1:65536\"", "\"::1:80:x\"", "\"\""] {
        check(read, value, Err(bad));
    }
    let named = "needs an IP address, not a name, and a port, for example \"127.0.0.1:8080\"";
    check(read, "\"localhost:80\"", Err(named));
    check(read, "8080", Err("expected an IP address and a port, for example \"127.0.0.1:8080\""));
}

#[test]
fn url() {
    let read = |s: &mut Section<'_>| {
        let url = s.url("key", "http://dsp.example/bid", "Doc.");
        (url.host.clone(), url.port, url.path.clone(), url.to_string())
    };
    let good = |host: &str, port, path: &str, whole: &str| {
        Ok((host.to_owned(), port, path.to_owned(), whole.to_owned()))
    };
    check(read, "\"http://a.example\"", good("a.example", 80, "/", "http://a.example/"));
    check(
        read,
        "\"http://a.example:9000/b/c?d=e\"",
        good("a.example", 9000, "/b/c?d=e", "http://a.example:9000/b/c?***"),
    );
    check(read, "\"http://[::1]:80/x\"", good("::1", 80, "/x", "http://[::1]/x"));
    check(read, "\"http://[::1]/x\"", good("::1", 80, "/x", "http://[::1]/x"));
    check(read, "\"http://a?q\"", good("a", 80, "/?q", "http://a/?***"));
    check(read, "\"https://a/b\"", good("a", 443, "/b", "https://a/b"));
    check(read, "\"https://a:80/b\"", good("a", 80, "/b", "https://a:80/b"));
    check(read, "\"http://a:443/b\"", good("a", 443, "/b", "http://a:443/b"));
    check(read, "\"ftp://a/b\"", Err("needs the form \"http://host:port/path\""));
    check(read, "\"a.example/bid\"", Err("needs the form \"http://host:port/path\""));
    check(read, "\"http://\"", Err("has no host, write \"http://host:port/path\""));
    check(read, "\"http:///bid\"", Err("has no host, write \"http://host:port/path\""));
    check(read, "\"http://:80/\"", Err("has no host, write \"http://host:port/path\""));
    check(read, "\"http://a:0/\"", Err("has a port that is not from 1 to 65535"));
    check(read, "\"http://a:/\"", Err("has a port that is not from 1 to 65535"));
    check(read, "\"http://a:65536/\"", Err("has a port that is not from 1 to 65535"));
    assert_eq!(
        problems_of("key = \"http://me:pw@a/\"\n", read),
        ["line 1: key = \"http://***@a/\": must not contain a user name or a password"],
    );
    assert_eq!(
        problems_of("key = \"http://a/#x\"", read),
        ["line 1: key = \"http://a/#***\": must not contain a fragment, remove what follows `#`"],
    );
    check(
        read,
        "\"http://a b/\"",
        Err("needs the form \"http://host:port/path\": invalid uri character"),
    );
    check(read, "1", Err("expected an http URL, for example \"http://dsp.example/bid\""));
}

#[test]
fn one_of() {
    let known = [("first", 1), ("second", 2), ("agreed", 3)];
    let read = |s: &mut Section<'_>| s.one_of("key", "second", &known, "Doc.");
    check(read, "\"first\"", Ok(1));
    check(read, "\"Second\"", Err("is unknown, did you mean \"second\"?"));
    check(read, "\"scond\"", Err("is unknown, did you mean \"second\"?"));
    check(read, "\"dutch\"", Err("is unknown, write \"first\", \"second\" or \"agreed\""));
    check(read, "2", Err("expected \"first\", \"second\" or \"agreed\", for example \"second\""));
}

#[test]
fn texts() {
    let size = |text: &str| match text.split_once('x') {
        Some((width, height)) if width.len() + height.len() < 9 => Ok(text.to_owned()),
        _ => Err("needs the form \"320x50\"".to_owned()),
    };
    let read = |s: &mut Section<'_>| s.texts("key", &["320x50"], size, "Doc.");
    check(read, "[]", Ok(vec![]));
    check(read, "[\"1x1\", \"2x2\"]", Ok(vec!["1x1".to_owned(), "2x2".to_owned()]));
    check(read, "\"1x1\"", Err("expected a list of strings, for example [\"320x50\"]"));
    assert_eq!(
        problems_of("key = [\"1x1\",\n  \"big\", 7]", read),
        [
            "line 2: key[1] = \"big\": needs the form \"320x50\"",
            "line 2: key[2] = 7: expected text"
        ]
    );
}

#[test]
fn integers() {
    let read = |s: &mut Section<'_>| s.integers("key", Optional(&[0, 1]), ..=7_usize, "Doc.");
    check(read, "[0, 7]", Ok(Some(vec![0, 7])));
    check(read, "3", Err("expected a list of whole numbers, for example [0, 1]"));
    assert_eq!(parse("vickrey.toml", "", read).expect("absent is good"), None);
    assert_eq!(
        problems_of("key = [8, \"x\", [1]]", read),
        [
            "line 1: key[0] = 8: must be at most 7",
            "line 1: key[1] = \"x\": expected a whole number",
            "line 1: key[2] = [1]: expected a whole number"
        ]
    );
}

#[test]
fn map() {
    let header = |name: &str, value: &str| match name.contains(' ') {
        true => Err("is no header name".to_owned()),
        false => Ok(format!("{name}: {value}")),
    };
    let read = |s: &mut Section<'_>| s.map("key", &[("x-key", "1")], header, "Doc.");
    check(read, "{ b = \"2\", A = \"1\" }", Ok(vec!["A: 1".to_owned(), "b: 2".to_owned()]));
    check(read, "5", Err("expected a table, under `[key]`"));
    assert_eq!(
        problems_of("[key]\n\"a b\" = \"1\"\nc = 2\n[key.d]", read),
        [
            "line 2: key.\"a b\" = \"1\": is no header name",
            "line 3: key.c = 2: expected text",
            "line 4: key.d: expected text"
        ]
    );
}

#[test]
fn presences() {
    let optional = |s: &mut Section<'_>| s.duration("key", Optional("1s"), .., "Doc.");
    assert_eq!(parse("vickrey.toml", "", optional).expect("absent is good"), None);
    check(optional, "\"2s\"", Ok(Some(secs(2))));
    check(optional, "2", Err("needs a unit, for example \"2ms\""));
    let required = |s: &mut Section<'_>| s.price("key", Required("1 USD"), "Doc.");
    assert_eq!(
        problems_of("", required),
        ["key: is missing, expected a price with its currency, for example \"1 USD\""]
    );
}

#[test]
#[should_panic(expected = "key `key` is declared with \"5\", which is bad")]
fn a_bad_declaration_is_found_without_a_file() {
    let _ = super::super::describe(|s| s.duration("key", "5", .., "Doc."));
}
