//! DSPs with bad responses: only they lose, with a reason, and another DSP fills the auction.

use exchange_core::record::CallOutcome;
use exchange_core::{Fate, ResponseFate};
use exchange_serve::ExchangeConfig;

use crate::fixtures::{Dsp, ID, Reply, Running, Script, Setup, Step, banner, bid, bids, ok, until};

/// The expected count for the misbehaving DSP.
#[derive(Clone, Copy, Debug)]
enum Counted {
    /// A call's outcome, and whether its connection is reused.
    Call(CallOutcome, bool),
    Response(ResponseFate),
    Fate(Fate),
}

/// Runs two auctions: a DSP with `script` bids at most 9.00, a valid one 1.00.
#[track_caller]
fn auctions(script: &Script, counted: Counted) -> Reply {
    let odd = Dsp::start([script.clone()]);
    let sound = Dsp::bidding("1.00");
    let dsps = [(odd.address, "response_bytes_max = \"1KiB\""), (sound.address, "")];
    // Slow responses are allowed unless they are the subject.
    let tune = |config: &mut ExchangeConfig| config.pool.small_reads_max = 10_000;
    let exchange = Running::start(&Setup { tune, dsps: &dsps, ..Setup::default() });
    let request = banner("");
    let reply = exchange.auction(&request);
    assert_eq!(exchange.auction(&request).status, 200, "and again");
    let count = match counted {
        Counted::Call(outcome, _) => exchange.outcomes(0, outcome),
        Counted::Response(fate) => exchange.responses(0, fate),
        Counted::Fate(fate) => exchange.fates(fate),
    };
    assert_eq!(count, 2, "{counted:?}");
    assert_eq!(exchange.outcomes(1, CallOutcome::Answered), 2);
    let kept = !matches!(counted, Counted::Call(_, false));
    assert_eq!(odd.accepted(), if kept { 1 } else { 2 }, "connections: {counted:?}");
    reply
}

/// The misbehaving DSP's response does not count.
#[track_caller]
fn check(answer: impl Into<Vec<u8>>, counted: Counted) {
    assert_eq!(auctions(&Script::answering(answer), counted).price(), "1", "the sound one wins");
}

/// The unusual response is valid.
#[track_caller]
fn check_good(script: &Script, kept: bool) {
    let reply = auctions(script, Counted::Call(CallOutcome::Answered, kept));
    assert_eq!(reply.price(), "9");
}

fn high() -> String {
    bids(&bid("9.00"))
}

#[test]
fn statuses() {
    let status = Counted::Call(CallOutcome::Status, true);
    check("HTTP/1.1 500 Oops\r\ncontent-length: 4\r\n\r\noops", status);
    check("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1/\r\ncontent-length: 0\r\n\r\n", status);
    check(ok(&high()).replace("200 OK", "201 Created"), status);
    check("HTTP/1.1 204 No Content\r\n\r\n", Counted::Call(CallOutcome::NoBid, true));
    check("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Counted::Call(CallOutcome::NoBid, true));
}

#[test]
fn http_that_is_none() {
    let malformed = Counted::Call(CallOutcome::Malformed, false);
    check("Good morning!\r\n\r\n", malformed);
    check("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}", malformed);
    check("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", malformed);
    check("HTTP/1.1 101 Switching\r\n\r\n", malformed);
    let too_large = Counted::Call(CallOutcome::TooLarge, false);
    let padded = |n: usize| high().replace("<p>", &"p".repeat(n));
    check(ok(&padded(1024)), too_large);
    let chunk = "400\r\n".to_owned() + &"x".repeat(1024) + "\r\n";
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    check(format!("{chunked}{chunk}{chunk}0\r\n\r\n"), too_large);
    check(format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(17_000)), too_large);
    let edge = 1024 - (high().len() - 3);
    check_good(&Script::answering(ok(&padded(edge))), true);
    check(ok(&padded(edge + 1)), too_large);
}

#[test]
fn answers_that_are_cut_off() {
    let whole = ok(&high());
    for end in [10, whole.len() - 1] {
        let script = Script::once([Step::Read, Step::Write(whole[..end].into())]);
        let reply = auctions(&script, Counted::Call(CallOutcome::Malformed, false));
        assert_eq!(reply.price(), "1");
    }
    // No response, on a new connection each time.
    let script = Script::once([Step::Read]);
    let reply = auctions(&script, Counted::Call(CallOutcome::Reset, false));
    assert_eq!(reply.price(), "1");
}

#[test]
fn json_that_is_none() {
    let malformed = Counted::Response(ResponseFate::Malformed);
    check(ok("bid: 9.00"), malformed);
    check(ok("bid: 9.00"), Counted::Call(CallOutcome::Malformed, true));
    check(ok(r#"{"id":7,"seatbid":"#), malformed);
    check(ok(r#"{"seatbid":7}"#), malformed);
    check(ok("\u{7f}"), malformed);
    let deep = format!("{{\"ext\":{}{}}}", "[".repeat(65), "]".repeat(65));
    check(ok(&deep), malformed);
    check(ok(&format!(r#"{{"id":"{ID}"}}"#)), Counted::Response(ResponseFate::NoBid));
    let many = vec!["{}"; 257].join(",");
    check(ok(&bids(&many)), Counted::Response(ResponseFate::TooManyBids));
}

/// The position of the mistake, as in `explain`.
#[test]
fn an_unreadable_bid_response_is_malformed_wherever_it_is_told() {
    let odd = Dsp::start([Script::answering(ok(r#"{"id":7,"seatbid":"#))]);
    let exchange = Running::with(&[&odd]);
    assert_eq!(exchange.auction(&banner("")).status, 204);
    assert_eq!(exchange.outcomes(0, CallOutcome::Answered), 0);
    let calls = r#"exchange_dsp_calls_total{dsp="d0",outcome="malformed"}"#;
    assert_eq!(exchange.scraped(calls), "1");
    let errors = exchange.count_dsp(0, |dsp| dsp.errors.recent());
    let [(_, error)] = &errors[..] else { panic!("{errors:?}") };
    let want = "the bid response cannot be read: id: `7` is a number, expected a string";
    assert_eq!(error, want);
}

/// A response with too many bids is no failure: the first ones count, and no breaker opens.
#[test]
fn of_too_many_bids_the_first_are_judged() {
    let many = [bid("9.00"), vec!["{}"; 260].join(",")].join(",");
    let odd = Dsp::start([Script::answering(ok(&bids(&many)))]);
    let exchange = Running::with(&[&odd]);
    for _ in 0..3 {
        assert_eq!(exchange.auction(&banner("")).price(), "9");
    }
    assert_eq!(exchange.responses(0, ResponseFate::TooManyBids), 3);
    assert_eq!(exchange.scraped(r#"exchange_dsp_surplus_bids_total{dsp="d0"}"#), "15");
    assert_eq!(exchange.fates(Fate::Malformed), 3 * 255);
    let errors = exchange.count_dsp(0, |dsp| dsp.errors.recent());
    let told = "261 bids in one response: only the first 256 are judged";
    assert_eq!(errors[0].1, told);
    until("its governor has heard of the calls", || {
        let status = exchange.guard(0);
        status.good + status.bad == 3
    });
    assert_eq!(exchange.guard(0).bad, 0);
}

#[test]
fn bids_that_do_not_count() {
    let fate = Counted::Fate;
    let with = |from: &str, to: &str| ok(&high().replace(from, to));
    check(with(ID, "another auction, of as many char"), fate(Fate::WrongAuction));
    check(with(r#""impid":"1""#, r#""impid":"2""#), fate(Fate::UnknownImp));
    check(with(r#""seatbid""#, r#""cur":"EUR","seatbid""#), fate(Fate::CurrencyNotAccepted));
    check(with("9.00", "-9.00"), fate(Fate::BadPrice));
    check(with("9.00", "1e99"), fate(Fate::BadPrice));
    check(with("9.00", "0"), fate(Fate::BadPrice));
    check(with(r#""price":9.00,"#, ""), fate(Fate::NoPrice));
    check(with(r#""price":9.00"#, r#""price":"lots""#), fate(Fate::BadPrice));
    check(with(r#""adm":"<p>","#, ""), fate(Fate::NoMarkup));
    check(with(r#""bid":"#, r#""seat":"nobody's","bid":"#), fate(Fate::SeatUndeclared));
    check(with(r#""w":300"#, r#""w":1"#), fate(Fate::Size));
}

#[test]
fn a_bid_that_stands_twice_counts_once() {
    let twice = bids(&format!("{},{}", bid("9.00"), bid("9.50")));
    let reply = auctions(&Script::answering(ok(&twice)), Counted::Fate(Fate::DuplicateBid));
    assert_eq!(reply.price(), "9");
}

#[test]
fn odd_answers_that_are_good_enough() {
    let whole = ok(&high());
    check_good(&Script::answering(whole.clone()), true);
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n";
    check_good(&Script::answering(format!("{interim}{whole}")), true);
    check_good(&Script::forever([Step::Read, Step::WriteBytewise(whole.clone().into())]), true);
    let body = high();
    let (left, right) = body.split_at(body.len() - 17);
    let chunked = format!(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
         {:x};x=y\r\n{left}\r\n{:X}\r\n{right}\r\n0\r\ntrailer: z\r\n\r\n",
        left.len(),
        right.len()
    );
    check_good(&Script::answering(chunked.clone()), true);
    check_good(&Script::forever([Step::Read, Step::WriteBytewise(chunked.into())]), true);
    // Without a length, the end of the connection ends the response.
    let unsized_body = format!("HTTP/1.1 200 OK\r\n\r\n{body}");
    check_good(&Script::once([Step::Read, Step::Write(unsized_body.into())]), false);
    let closing = whole.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    check_good(&Script::answering(closing), false);
    check_good(&Script::answering(whole.replace("HTTP/1.1", "HTTP/1.0")), false);
    // Surplus bytes cost the connection, not the bid.
    check_good(&Script::answering(format!("{whole}{whole}")), false);
    check_good(&Script::answering(format!("{whole}X")), false);
    check_good(&Script::answering(whole.replace("\r\n", "\n")), true);
}

#[test]
fn a_dollar_bid_needs_no_currency() {
    let odd = Dsp::start([Script::answering(ok(&high()))]);
    let dsps = [(odd.address, "currencies = [\"EUR\"]")];
    let rest = "[currency]\nrates = { EUR = \"2\" }";
    let exchange = Running::start(&Setup { dsps: &dsps, rest, ..Setup::default() });
    assert_eq!(exchange.auction(&banner("")).status, 204, "absent is USD, which is not accepted");
    assert_eq!(exchange.fates(Fate::CurrencyNotAccepted), 1);
}

fn gzip(body: &str) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(body.as_bytes()).expect("memory");
    encoder.finish().expect("memory")
}

fn encoded(coding: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-encoding: {coding}\r\ncontent-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

#[test]
fn compressed_answers_that_nobody_asked_for_are_not_read() {
    check(encoded("gzip", &gzip(&high())), Counted::Call(CallOutcome::Encoded, true));
    check(encoded("br", b"x"), Counted::Call(CallOutcome::Encoded, true));
}

/// The scripted DSP cannot insert an auction's id into compressed bytes, so these bids have no id.
#[test]
fn compressed_answers() {
    #[track_caller]
    fn check(answer: Vec<u8>, want: CallOutcome) {
        let odd = Dsp::start([Script::answering(answer)]);
        let sound = Dsp::bidding("1.00");
        let keys = "gzip = true\nresponse_bytes_max = \"1KiB\"";
        let dsps = [(odd.address, keys), (sound.address, "")];
        let exchange = Running::start(&Setup { dsps: &dsps, ..Setup::default() });
        assert_eq!(exchange.auction(&banner("")).price(), "1");
        assert_eq!(exchange.auction(&banner("")).price(), "1");
        assert_eq!(exchange.outcomes(0, want), 2, "{want:?}");
        assert_eq!(odd.accepted(), 1, "its connection serves on");
        assert!(odd.request(0).head.contains("accept-encoding: gzip\r\n"));
        assert!(!sound.request(0).head.contains("accept-encoding"));
        if want == CallOutcome::Answered {
            assert_eq!(exchange.fates(Fate::WrongAuction), 2, "it was read");
        }
    }
    check(encoded("gzip", &gzip(&high())), CallOutcome::Answered);
    check(encoded("GZIP", &gzip(&high())), CallOutcome::Answered);
    check(encoded("gzip", &gzip("")), CallOutcome::NoBid);
    let padded = |n: usize| high().replace("<p>", &"p".repeat(n));
    let edge = 1024 - (high().len() - 3);
    check(encoded("gzip", &gzip(&padded(edge))), CallOutcome::Answered);
    check(encoded("gzip", &gzip(&padded(edge + 1))), CallOutcome::TooLarge);
    check(encoded("gzip", &gzip(&padded(1_000_000))[..1000]), CallOutcome::TooLarge);
    check(encoded("gzip", b"{}"), CallOutcome::Encoded);
    check(encoded("gzip", &gzip(&high())[..20]), CallOutcome::Encoded);
    check(encoded("br", &gzip(&high())), CallOutcome::Encoded);
}

#[test]
fn an_answer_in_crumbs_is_cut_off() {
    let bytewise = Script::forever([Step::Read, Step::WriteBytewise(ok(&high()).into())]);
    let (odd, sound) = (Dsp::start([bytewise]), Dsp::bidding("1.00"));
    let dsps = [(odd.address, ""), (sound.address, "")];
    let tune = |config: &mut ExchangeConfig| config.pool.small_reads_max = 0;
    let setup = Setup { tune, dsps: &dsps, ..Setup::default() };
    let exchange = Running::start(&setup);
    assert_eq!(exchange.auction(&banner("")).price(), "1");
    assert_eq!((exchange.outcomes(0, CallOutcome::Trickle), exchange.open(0)), (1, 0));
}
