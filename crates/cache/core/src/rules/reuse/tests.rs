//! A response of 100 seconds, asked for at every age.

use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderValue};

use super::*;

const STORED: UnixSeconds = UnixSeconds(1_000);
const OBEYING: ReuseRules = ReuseRules {
    obeys_requests: true,
    stale_while_revalidate: Seconds(0),
    stale_if_error: Seconds(0),
};

fn headers(control: &str) -> HeaderMap {
    [(CACHE_CONTROL, HeaderValue::from_str(control).unwrap())].into_iter().collect()
}

struct Question<'q> {
    response: &'q str,
    request: &'q str,
    age: u64,
    rules: ReuseRules,
    is_invalidated: bool,
}

const fn question<'q>(response: &'q str, request: &'q str, age: u64) -> Question<'q> {
    Question { response, request, age, rules: OBEYING, is_invalidated: false }
}

impl Question<'_> {
    fn ask<T>(
        &self,
        ask: impl FnOnce(&StoredFreshness<'_>, &RequestControl, UnixSeconds) -> T,
    ) -> T {
        let control = ResponseControl::of(&headers(self.response), &[]);
        let stored = StoredFreshness {
            control: &control,
            lifetime: Seconds(100),
            age: InitialAge { age: Seconds(0), at: STORED },
            is_invalidated: self.is_invalidated,
        };
        let now = UnixSeconds(STORED.0 + self.age);
        ask(&stored, &RequestControl::of(&headers(self.request)), now)
    }

    fn reuse(&self) -> Reuse {
        self.ask(|stored, request, now| stored.reuse(request, now, self.rules))
    }

    fn serves_errors(&self) -> bool {
        self.ask(|stored, request, now| stored.serves_errors(request, now, self.rules))
    }
}

fn served(age: u64) -> ServedFreshness {
    let fresh_for = (age < 100).then(|| Seconds(100 - age));
    ServedFreshness { age: Seconds(age), fresh_for, stale_for: Seconds(age.saturating_sub(100)) }
}

#[track_caller]
fn check(response: &str, request: &str, age: u64, want: Reuse) {
    assert_eq!(question(response, request, age).reuse(), want, "{response}; {request}; {age}");
}

#[test]
fn what_is_fresh_is_served() {
    check("", "", 0, Reuse::Serve(served(0)));
    check("", "", 99, Reuse::Serve(served(99)));
    check("", "", 100, Reuse::Validate);
    check("no-cache", "", 0, Reuse::Validate);
    check("no-cache=\"x\"", "", 0, Reuse::Serve(served(0)));
    check("must-revalidate", "", 99, Reuse::Serve(served(99)));
}

#[test]
fn clients_may_want_more() {
    check("", "no-cache", 0, Reuse::Validate);
    check("", "max-age=50", 50, Reuse::Serve(served(50)));
    check("", "max-age=50", 51, Reuse::Validate);
    check("", "max-age=50, max-stale", 51, Reuse::Validate);
    check("", "min-fresh=50", 50, Reuse::Serve(served(50)));
    check("", "min-fresh=50", 51, Reuse::Validate);
    check("", "only-if-cached", 99, Reuse::Serve(served(99)));
    check("", "only-if-cached", 100, Reuse::Unavailable);
    check("", "only-if-cached, no-cache", 0, Reuse::Unavailable);
    for request in ["no-cache", "max-age=0", "min-fresh=999", "no-cache, only-if-cached"] {
        let rules = ReuseRules::default();
        let reuse = Question { rules, ..question("", request, 50) }.reuse();
        assert_eq!(reuse, Reuse::Serve(served(50)), "{request} is ignored");
    }
}

#[test]
fn clients_may_accept_less() {
    check("", "max-stale", 999, Reuse::Serve(served(999)));
    check("", "max-stale=10", 110, Reuse::Serve(served(110)));
    check("", "max-stale=10", 111, Reuse::Validate);
    check("", "max-stale=10, max-age=200", 110, Reuse::Serve(served(110)));
    check("", "max-age=200", 110, Reuse::Validate);
    check("", "max-stale=10, min-fresh=1", 105, Reuse::Validate);
    check("", "max-stale=10, only-if-cached", 105, Reuse::Serve(served(105)));
    for response in ["must-revalidate", "proxy-revalidate", "s-maxage=100", "no-cache"] {
        check(response, "max-stale", 101, Reuse::Validate);
    }
}

#[test]
fn a_stale_response_is_served_while_it_is_validated() {
    let waits = |age| Reuse::ServeAndValidate(served(age));
    check("stale-while-revalidate=10", "", 99, Reuse::Serve(served(99)));
    check("stale-while-revalidate=10", "", 100, waits(100));
    check("stale-while-revalidate=10", "", 110, waits(110));
    check("stale-while-revalidate=10", "", 111, Reuse::Validate);
    check("stale-while-revalidate=10", "max-age=200", 105, Reuse::Validate);
    check("stale-while-revalidate=10", "only-if-cached", 105, Reuse::Serve(served(105)));
    check("stale-while-revalidate=10, s-maxage=100", "", 105, waits(105));
    for forbidden in ["must-revalidate", "proxy-revalidate", "no-cache"] {
        check(&format!("stale-while-revalidate=10, {forbidden}"), "", 105, Reuse::Validate);
    }
    let rules = ReuseRules { stale_while_revalidate: Seconds(10), ..OBEYING };
    let by_default = |response| Question { rules, ..question(response, "", 105) }.reuse();
    assert_eq!(by_default(""), waits(105));
    for own in ["stale-while-revalidate=0", "s-maxage=100", "must-revalidate"] {
        assert_eq!(by_default(own), Reuse::Validate, "{own}");
    }
}

#[test]
fn what_was_invalidated_is_stale() {
    let reuse = |response, request| {
        Question { is_invalidated: true, ..question(response, request, 50) }.reuse()
    };
    assert_eq!(reuse("", ""), Reuse::Validate);
    assert_eq!(reuse("", "max-stale"), Reuse::Validate);
    let stale = ServedFreshness { age: Seconds(50), fresh_for: None, stale_for: Seconds(0) };
    assert_eq!(reuse("stale-while-revalidate=10", ""), Reuse::ServeAndValidate(stale));
}

#[test]
fn a_failing_origin_may_be_replaced() {
    let check = |response: &str, request: &str, age, want| {
        let question = question(response, request, age);
        assert_eq!(question.serves_errors(), want, "{response}; {request}; {age}");
    };
    check("", "", 100, false);
    check("stale-if-error=10", "", 110, true);
    check("stale-if-error=10", "", 111, false);
    check("stale-if-error=10", "stale-if-error=20", 111, true);
    check("stale-if-error=10", "stale-if-error=1", 110, true);
    check("", "stale-if-error=20", 111, true);
    check("stale-if-error=10, s-maxage=100", "", 110, true);
    for forbidden in ["must-revalidate", "proxy-revalidate", "no-cache"] {
        check(&format!("stale-if-error=10, {forbidden}"), "stale-if-error=10", 105, false);
    }
    let rules = ReuseRules { stale_if_error: Seconds(10), ..OBEYING };
    let by_default = |response| Question { rules, ..question(response, "", 105) }.serves_errors();
    assert!(by_default(""));
    assert!(!by_default("stale-if-error=0") && !by_default("s-maxage=100"));
}
