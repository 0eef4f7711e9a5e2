//! `vickrey explain` as a user meets it: whole explanations, wrong files, and the real DSPs; and
//! `ext.debug` of a running exchange.

mod http;

use std::path::{Path, PathBuf};
use std::process::Output;

use exchange_core::explain::Explanation;

use crate::program::vickrey;

const TIE_KEY: &str = "00112233445566778899aabbccddeeff";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/explain")
}

fn explain(args: &[&str]) -> Output {
    vickrey(&[&["explain"], args].concat()).current_dir(folder()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The files of one scenario: request, responses, and the expected output.
fn golden(name: &str) -> (Explanation, String) {
    let (request, answers) = (format!("{name}.request.json"), format!("{name}.answers.json"));
    let args = [&*request, "--config", "vickrey.toml", "--dsp-answers", &answers];
    let printed = explain(&args);
    assert_eq!(text(&printed.stderr), "");
    assert_eq!(printed.status.code(), Some(0));
    let printed = text(&printed.stdout);
    let json = text(&explain(&[&args[..], &["--json"]].concat()).stdout);
    for (kind, got) in [("txt", &printed), ("json", &json)] {
        let file = folder().join(format!("{name}.{kind}"));
        let want = std::fs::read_to_string(&file).unwrap();
        let remedy = format!("vickrey explain {}", args.join(" "));
        assert!(*got == want, "{} is not what `{remedy}` prints:\n{got}", file.display());
    }
    for line in printed.lines() {
        assert!(line.chars().count() <= 100, "{line}");
        assert!(!line.contains('\x1b'), "colours are for terminals: {line}");
    }
    (serde_json::from_str(&json).unwrap(), printed)
}

#[test]
fn second_price_with_floor_and_fee() {
    let (explanation, _) = golden("second_price");
    let won = explanation.clearing[0].won.as_ref().unwrap();
    assert_eq!((&*won.price, &*won.net, &*won.fee), ("1.86", "1.674", "10%"));
    assert_eq!((won.bid, won.next), (1, Some(3)));
    let floor = explanation.imps[0].floor.as_ref().unwrap();
    assert_eq!((&*floor.net, &*floor.gross), ("1", "1.111112"));
    assert!(explanation.response.unwrap().contains(r#""price": 1.674"#));
}

#[test]
fn a_deal_before_a_higher_open_bid() {
    let (explanation, _) = golden("deal_priority");
    let fates: Vec<_> = explanation.bids.iter().map(|bid| &*bid.fate).collect();
    let want = ["below_deal_floor", "won", "lost_to_deal", "below_floor", "deal_not_offered"];
    assert_eq!(fates, want);
    assert_eq!(explanation.notices.later[0].kind, "billing");
    assert_eq!(explanation.notices.not_sent[0].reason, "undeclared_host");
    assert_eq!(explanation.dsps[2].answer.as_ref().unwrap().outcome, "status");
}

#[test]
fn a_group_that_misses_an_impression() {
    let (explanation, _) = golden("group_incomplete");
    assert_eq!(explanation.clearing[0].ranking[0].out.as_deref(), Some("group_incomplete"));
    assert_eq!(explanation.clearing[1].won.as_ref().unwrap().bid, 4);
}

#[test]
fn bids_in_several_currencies() {
    let (explanation, _) = golden("conversion");
    let won = explanation.clearing[0].won.as_ref().unwrap();
    assert_eq!((&*won.price, &*won.paid, &*won.paid_currency), ("142.1875", "0.842593", "EUR"));
}

#[test]
fn nobody_may_be_asked() {
    let (explanation, _) = golden("nobody_eligible");
    assert_eq!(explanation.no_bid.unwrap().nbr, 500);
    assert!(explanation.dsps.iter().all(|dsp| dsp.asked.is_none() && dsp.answer.is_none()));
    assert!(explanation.request.test);
}

#[test]
fn bids_returned_beside_the_winner() {
    let (explanation, _) = golden("returned_beside");
    assert_eq!(explanation.clearing[0].offered[0].net, "1.8");
    assert_eq!(explanation.notices.later.len(), 6, "three of each bid");
    assert!(explanation.notices.later[0].relays_markup);
}

#[test]
fn no_auction_is_held() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("request.json");
    for (more, nbr) in [
        (r#","site":{"publisher":{"id":"pub-blocked"}}"#, 7),
        (r#","tmax":1"#, 14),
        (r#","cur":["XXX"]"#, 501),
    ] {
        let body = format!(r#"{{"id":"r","imp":[{{"id":"1","banner":{{}}}}]{more}}}"#);
        std::fs::write(&file, body).unwrap();
        let path = file.to_str().unwrap();
        let answers = "nobody_eligible.answers.json";
        let args = [path, "--config", "vickrey.toml", "--dsp-answers", answers, "--json"];
        let got: Explanation = serde_json::from_slice(&explain(&args).stdout).unwrap();
        assert_eq!(got.no_bid.unwrap().nbr, nbr, "{more}");
        assert!(got.dsps.is_empty() && got.response.is_none());
    }
}

#[test]
fn the_id_of_the_auction_orders_equal_bids() {
    let scratch = tempfile::tempdir().unwrap();
    let bid = |dsp: &str| {
        format!(
            r#""{dsp}":{{"id":"r-5","seatbid":[{{"bid":[{{"id":"b","impid":"1","price":1,"adm":"<p>"}}]}}]}}"#
        )
    };
    let answers = scratch.path().join("answers.json");
    std::fs::write(&answers, format!("{{{},{}}}", bid("alpha"), bid("beta"))).unwrap();
    let request = scratch.path().join("request.json");
    std::fs::write(&request, r#"{"id":"r-5","imp":[{"id":"1","banner":{}}]}"#).unwrap();
    let winner = |id: &str| {
        let (request, answers) = (request.to_str().unwrap(), answers.to_str().unwrap());
        let args = [
            request,
            "--config",
            "vickrey.toml",
            "--dsp-answers",
            answers,
            "--auction-id",
            id,
            "--json",
        ];
        let got: Explanation = serde_json::from_slice(&explain(&args).stdout).unwrap();
        assert_eq!(got.auction_id, id);
        got.clearing[0].won.as_ref().unwrap().bid
    };
    let ids: Vec<_> = (0..12).map(|n| format!("{n:032x}")).collect();
    let winners: Vec<_> = ids.iter().map(|id| winner(id)).collect();
    assert!(winners.contains(&1) && winners.contains(&2), "{winners:?}");
    assert_eq!(winners[0], winner(&ids[0]), "the same each time");
}

#[track_caller]
fn check_refused(args: &[&str], problems: &[&str]) {
    let output = explain(args);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{args:?}: {told}");
    assert_eq!(text(&output.stdout), "", "{args:?}");
    for problem in problems {
        assert!(told.contains(problem), "{args:?}: no `{problem}` in {told}");
    }
}

/// A missing rate is the operator's problem, not the request's.
#[test]
fn what_has_no_rate_is_not_sold() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("rate");
    let told = |imps: &str| {
        std::fs::write(&path, format!(r#"{{"id":"r","allimps":"x","imp":[{imps}]}}"#)).unwrap();
        let printed = explain(&[path.to_str().unwrap(), "--config", "vickrey.toml"]);
        assert_eq!((printed.status.code(), text(&printed.stderr)), (Some(0), String::new()));
        text(&printed.stdout)
    };
    let foreign = r#"{"id":"2","banner":{},"bidfloor":1,"bidfloorcur":"GBP"}"#;
    let alone = told(foreign);
    assert!(alone.contains("nbr 501 (no_currency)"), "{alone}");
    assert!(alone.contains("of a wrong type, and not passed on: allimps"), "{alone}");
    let beside = told(&format!(r#"{{"id":"1","banner":{{}}}},{foreign}"#));
    let why = "no exchange rate is configured for GBP";
    assert!(beside.contains("not sold") && beside.contains(why), "{beside}");
}

#[test]
fn what_is_wrong_is_told() {
    let scratch = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = scratch.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let good = "second_price.request.json";
    check_refused(&[good], &["--config <FILE>"]);
    check_refused(&["none.json", "--config", "vickrey.toml"], &["none.json: cannot be read"]);
    check_refused(&[good, "--config", "none.toml"], &["none.toml", "cannot be read"]);
    for (name, body, problem) in [
        ("text", "hello", "text: expected value at line 1"),
        ("missing", r#"{"id":"r"}"#, "missing: imp: required: at least one impression"),
        ("type", r#"{"id":"r","imp":[{"id":1}]}"#, "type: imp[0].id: `1` is a number"),
        ("large", &" ".repeat(300_000), "large: is larger than 262144 bytes"),
    ] {
        let path = file(name, body);
        check_refused(&[&path, "--config", "vickrey.toml"], &[problem]);
        let answers = ["--dsp-answers", "second_price.answers.json"];
        check_refused(&[&[&*path, "--config", "vickrey.toml"], &answers[..]].concat(), &[problem]);
    }
    let config = file("bad.toml", "[exchange]\ntmax_max = \"120\"\nfee = \"100%\"\n");
    check_refused(&[good, "--config", &config], &["2 problems", "tmax_max", "exchange.fee"]);
    let config = file("off.toml", "[log]\nfilter = \"warn\"\n");
    check_refused(&[good, "--config", &config], &["off.toml has no [exchange]"]);
    let answers = file("answers", r#"{"alhpa":{},"beta":"lat"}"#);
    let args = [good, "--config", "vickrey.toml", "--dsp-answers", &answers];
    let problems =
        ["2 problems in", "no [[dsp]] has the id `alhpa`, did you mean `alpha`?", "beta: `lat`"];
    check_refused(&args, &problems);
    let answers = file("broken", "{");
    let args = [good, "--config", "vickrey.toml", "--dsp-answers", &answers];
    check_refused(&args, &["broken: not JSON: EOF"]);
    let ids = ["--auction-id", "7"];
    check_refused(&[&args[..], &ids].concat(), &["32 lower-case hexadecimal digits"]);
    let args = [good, "--config", "vickrey.toml", "--auction-id", TIE_KEY];
    check_refused(&args, &["--dsp-answers"]);
}
