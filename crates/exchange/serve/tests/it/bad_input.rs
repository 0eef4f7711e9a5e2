//! Refused requests, one row for each; the exchange goes on.

use openrtb::InvalidReason;

use crate::fixtures::{Caller, Dsp, Reply, Running, banner};

struct Bench {
    exchange: Running,
    caller: Caller,
}

impl Bench {
    fn invalid(&self, reason: InvalidReason) -> u64 {
        self.exchange.count(|metrics| metrics.invalid[reason as usize].value())
    }

    #[track_caller]
    fn check(&mut self, body: &str, reason: InvalidReason, path: &str, problem: &str) {
        let before = self.invalid(reason);
        let reply = self.caller.post(body);
        assert_refused(&reply, path, problem);
        assert_eq!(self.invalid(reason), before + 1, "{body} counts as {reason:?}");
    }
}

#[track_caller]
fn assert_refused(reply: &Reply, path: &str, problem: &str) {
    assert_eq!(reply.status, 400, "{reply:?}");
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let error = &reply.json()["error"];
    assert_eq!(error["path"], path, "{error}");
    assert!(error["problem"].as_str().is_some_and(|text| text.contains(problem)), "{error}");
}

fn imp(rest: &str) -> String {
    format!(r#"{{"id":"c","imp":[{{"id":"1"{rest}}}]}}"#)
}

#[test]
fn invalid_requests_are_told_where_and_why() {
    let dsp = Dsp::bidding("1.00");
    let exchange = Running::with(&[&dsp]);
    let caller = exchange.caller();
    let mut bench = Bench { exchange, caller };
    use InvalidReason::{
        Duplicate, Missing, NoFormat, NotJson, SeveralChannels, TooDeep, Unsupported, WrongType,
    };
    let banner_imp = r#"{"id":"1","banner":{}}"#;
    let two = format!(r#"{{"id":"c","imp":[{banner_imp},{banner_imp}]}}"#);
    let deal = |deal: &str| imp(&format!(r#","banner":{{}},"pmp":{{"deals":[{deal}]}}"#));
    let nested =
        |depth: usize| banner(&format!(r#","ext":{}{}"#, "[".repeat(depth), "]".repeat(depth)));
    //           body, reason, path, problem
    bench.check("", NotJson, "", "EOF");
    bench.check("bid please", NotJson, "", "expected value");
    bench.check(r#"{"id":c}"#, NotJson, "id", "expected value");
    bench.check("[]", WrongType, "", "");
    bench.check(r#"{"id":7,"imp":[]}"#, WrongType, "id", "expected a string");
    bench.check(&banner(r#","tmax":"soon""#), WrongType, "tmax", "expected a whole number");
    bench.check(r#"{"imp":[{"id":"1","banner":{}}]}"#, Missing, "id", "required");
    bench.check(r#"{"id":"c"}"#, Missing, "imp", "at least one");
    bench.check(r#"{"id":"c","imp":[]}"#, Missing, "imp", "at least one");
    bench.check(&two, Duplicate, "imp[1].id", "`1` stands twice");
    bench.check(&imp(""), NoFormat, "imp[0]", "offers no format");
    bench.check(&banner(r#","site":{},"app":{}"#), SeveralChannels, "", "only one of");
    bench.check(&banner(r#","site":{},"dooh":{}"#), SeveralChannels, "", "only one of");
    bench.check(&imp(r#","banner":{"w":-1,"h":2}"#), WrongType, "imp[0].banner.w", "-1");
    bench.check(&banner(r#","tmax":-5"#), WrongType, "tmax", "-5");
    bench.check(&deal("{}"), Missing, "imp[0].pmp.deals[0].id", "required");
    bench.check(&deal(r#"{"id":""}"#), Missing, "imp[0].pmp.deals[0].id", "empty");
    bench.check(&imp(r#","video":{"mimes":[]}"#), NoFormat, "imp[0].video.mimes", "MIME");
    bench.check(&imp(r#","audio":{}"#), NoFormat, "imp[0].audio.mimes", "MIME");
    bench.check(&banner(r#","at":7"#), Unsupported, "at", "auction type 7");
    bench.check(&nested(64), TooDeep, "", "deeper than 64");
    assert_eq!(bench.caller.post(&nested(63)).status, 200, "64 deep is not too deep");
    assert_eq!(bench.caller.post(&banner("")).status, 200, "on the same connection");
    assert_eq!(dsp.requests(), 2, "nobody is asked for what is refused");
    assert_eq!(bench.exchange.count(|metrics| metrics.turned_away.value()), 0);
}

#[test]
fn bytes_that_are_no_text() {
    let dsp = Dsp::bidding("1.00");
    let exchange = Running::with(&[&dsp]);
    let mut caller = exchange.caller();
    caller.send(&crate::fixtures::posted_with("", b"{\"id\":\"\xff\"}"));
    assert_refused(&caller.reply(), "", "not UTF-8 at byte 7");
    assert_eq!(caller.post(&banner("")).status, 200);
}
