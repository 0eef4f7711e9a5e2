//! Tables within tables, unknown and renamed keys, cross-key checks, and broken syntax.

use super::super::{PROBLEMS_MAX, RECOVERY_BYTES_MAX, Required, Section, ms, parse, secs};
use super::problems_of;

#[derive(Debug, PartialEq)]
struct Exchange {
    tmax: std::time::Duration,
    dsps: Vec<(String, u32)>,
    node: Option<String>,
}

fn exchange(s: &mut Section<'_>) -> Exchange {
    let tmax = s.duration("tmax", "250ms", ms(1)..=secs(10), "Longest auction.");
    let reserve = s.duration("answer_reserve", "5ms", .., "Kept for the answer.");
    if tmax <= reserve {
        s.problem("answer_reserve", "\"5ms\"", "must be shorter than `tmax`");
    }
    s.renamed("timeout", "tmax");
    s.price("floor", "0.50 USD", "Lowest price.");
    let dsps = s.tables("dsp", "A DSP.", |s| {
        let id = s.text("id", Required("dsp-1"), "Its name.");
        (id, s.section("pool", "Connections.", |s| s.integer("size", 4, 1.., "How many.")))
    });
    let node = s.table("node", "Our node.", |s| s.text("asi", Required("a.example"), "Domain."));
    Exchange { tmax, dsps, node }
}

fn root(s: &mut Section<'_>) -> Option<Exchange> {
    s.service("exchange", "The exchange.", exchange)
}

#[track_caller]
fn check(text: &str, want: &[&str]) {
    assert_eq!(problems_of(text, root), want, "{text}");
}

#[test]
fn reads_nested_tables() {
    let text = "[exchange]\ntmax = '1s'\n[[exchange.dsp]]\nid = 'a'\n[[exchange.dsp]]\nid = 'b'\n\
                [exchange.dsp.pool]\nsize = 9\n[exchange.node]\nasi = 'x'";
    let want = Exchange {
        tmax: secs(1),
        dsps: vec![("a".to_owned(), 4), ("b".to_owned(), 9)],
        node: Some("x".to_owned()),
    };
    assert_eq!(parse("vickrey.toml", text, root), Ok(Some(want)));
    assert_eq!(parse("vickrey.toml", "# nothing\n", root), Ok(None));
}

#[test]
fn headline_counts_and_names_the_file() {
    let text = "[exchange]\ntmax = \"120\"\nfloor = \"0.5 usd\"";
    assert_eq!(
        parse("vickrey.toml", text, root).unwrap_err().to_string(),
        "2 problems in vickrey.toml; nothing was started\n  \
         line 2: exchange.tmax = \"120\": needs a unit, for example \"120ms\"\n  \
         line 3: exchange.floor = \"0.5 usd\": unknown currency `usd`, did you mean `USD`?"
    );
    assert_eq!(
        parse("a.toml", "x = 1", root).unwrap_err().to_string(),
        "1 problem in a.toml; nothing was started\n  line 1: x = 1: unknown key, remove it"
    );
}

#[test]
fn problems_of_tables() {
    check("exchange = 5", &["line 1: exchange = 5: expected a table, under `[exchange]`"]);
    check("[[exchange]]", &["line 1: exchange: may be given once only, as `[exchange]`"]);
    check(
        "[exchange.dsp]",
        &["line 1: exchange.dsp: expected tables, each under `[[exchange.dsp]]`"],
    );
    check(
        "[exchange]\ndsp = [1]",
        &["line 2: exchange.dsp = [1]: expected tables, each under `[[exchange.dsp]]`"],
    );
    check(
        "[[exchange.dsp]]\nid = 'a'\n[[exchange.dsp]]\nid = ''\npool = 3",
        &[
            "line 4: exchange.dsp[1].id = '': must not be empty",
            "line 5: exchange.dsp[1].pool = 3: expected a table, under `[exchange.dsp.pool]`",
        ],
    );
    check(
        "[[exchange.dsp]]\n[exchange.node]",
        &[
            "line 1: exchange.dsp[0].id: is missing, expected text, for example \"dsp-1\"",
            "line 2: exchange.node.asi: is missing, expected text, for example \"a.example\"",
        ],
    );
}

#[test]
fn unknown_and_renamed_keys() {
    check("[exchagne]", &["line 1: exchagne: unknown key, did you mean `exchange`?"]);
    check(
        "[exchange]\nTMax = 1",
        &["line 2: exchange.TMax = 1: unknown key, did you mean `tmax`?"],
    );
    // Text under an unknown key may be a misplaced secret; an amount cannot.
    check("[exchange]\ncolour = 'red'", &["line 2: exchange.colour: unknown key, remove it"]);
    check(
        "[exchange]\ncolour = ['1ms', 'x']",
        &["line 2: exchange.colour: unknown key, remove it"],
    );
    check(
        "[exchange]\ncolour = ['1ms', 5, '1 USD']",
        &["line 2: exchange.colour = ['1ms', 5, '1 USD']: unknown key, remove it"],
    );
    check(
        "[exchange]\n\"a\\nb.c\" = 1",
        &["line 2: exchange.\"a\\nb.c\" = 1: unknown key, remove it"],
    );
    check(
        "[exchange]\ntimeout = '1s'",
        &["line 2: exchange.timeout = '1s': is now called `tmax`, rename it"],
    );
    // A renamed key is never suggested for a misspelt one.
    check("[exchange]\ntimeouts = 1", &["line 2: exchange.timeouts = 1: unknown key, remove it"]);
}

#[test]
fn cross_key_problems_name_keys_of_nested_tables() {
    let read = |s: &mut Section<'_>| {
        s.section("exchange", "Exchange.", |s| s.integer("bids", 1, ..=9_u8, "Bids."));
        s.problem("exchange.bids", 7, "clashes");
    };
    for (text, want) in [
        ("[exchange]\nbids = 5", "line 2: exchange.bids = 5: clashes"),
        ("[exchange]", "exchange.bids = 7: clashes"),
        ("", "exchange.bids = 7: clashes"),
    ] {
        let problems = parse("a.toml", text, read).unwrap_err().to_string();
        assert!(problems.ends_with(want), "{problems}");
    }
}

#[test]
fn cross_key_problems_show_what_the_file_says() {
    check(
        "[exchange]\nanswer_reserve = \"1s\"",
        &["line 2: exchange.answer_reserve = \"1s\": must be shorter than `tmax`"],
    );
    check(
        "[exchange]\ntmax = \"2ms\"",
        &["line 1: exchange.answer_reserve = \"5ms\": must be shorter than `tmax`"],
    );
}

#[test]
fn syntax_errors_come_with_the_other_problems() {
    check(
        "[exchange]\ntmax = 12O\nfloor = '1 usd'\nanswer_reserve = \"1s",
        &[
            "line 2, column 8: string values must be quoted, expected literal string",
            "line 3: exchange.floor = '1 usd': unknown currency `usd`, did you mean `USD`?",
            "line 4, column 21: invalid basic string, expected `\"`",
        ],
    );
    // The broken line may contain the missing key.
    check("[[exchange.dsp]]\nid 'a'", &["line 2, column 4: key with no value, expected `=`"]);
    // Keys below a broken header are not judged: they may be another table's.
    check("[exchange\nid = 'a'\nwhat = 5", &["line 1, column 10: unclosed table, expected `]`"]);
    check(
        "a = 1\na = 2",
        &["line 1: a = 1: unknown key, remove it", "line 2, column 1: duplicate key"],
    );
}

#[test]
fn values_are_shown_on_one_short_line() {
    let text = format!("[exchange]\nfloor = \"\"\"a\u{1b}b\nc{}\"\"\"", "d".repeat(100));
    let shown = problems_of(&text.replace('\u{1b}', "\\u001b"), root);
    assert_eq!(shown.len(), 1);
    assert!(shown[0].starts_with("line 2: exchange.floor = \"\"\"a\\u001bb\\ncddd"), "{shown:?}");
    assert!(shown[0].contains("ddd…: needs an amount"), "{shown:?}");
    assert!(shown[0].chars().count() < 220, "{shown:?}");
}

#[test]
fn problems_are_bounded() {
    let text: String = (0..PROBLEMS_MAX + 5).map(|n| format!("k{n} = {n}\n")).collect();
    let problems = parse("vickrey.toml", &text, root).unwrap_err();
    assert_eq!(problems.iter().count(), PROBLEMS_MAX);
    assert_eq!(problems.count(), PROBLEMS_MAX + 5);
    assert!(problems.to_string().ends_with("\n  … and 5 more"));
}

#[test]
fn syntax_errors_of_large_texts_are_bounded() {
    let broken = |bytes: usize| format!("a =\nb =\n{}", "\n".repeat(bytes - 8));
    assert_eq!(problems_of(&broken(RECOVERY_BYTES_MAX), root).len(), 2);
    assert_eq!(
        problems_of(&broken(RECOVERY_BYTES_MAX + 1), root),
        ["line 1, column 4: string values must be quoted, expected literal string"]
    );
}

#[test]
fn deep_nesting_is_refused() {
    let text = format!("x = {}{}", "[".repeat(100_000), "]".repeat(100_000));
    let problems = problems_of(&text, root);
    assert!(problems.iter().any(|problem| problem.contains("max recursion depth")), "{problems:?}");
}
