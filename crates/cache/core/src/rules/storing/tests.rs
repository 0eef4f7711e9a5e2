//! What is stored, and why the rest is not.

use http::HeaderName;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, VARY};

use super::*;

fn headers(lines: &[(HeaderName, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

struct Exchange<'e> {
    method: Method,
    request: &'e [(HeaderName, &'e str)],
    status: u16,
    response: &'e [(HeaderName, &'e str)],
    rules: StoringRules,
}

/// A plain answer that may be stored.
const FRESH: &[(HeaderName, &str)] = &[(CACHE_CONTROL, "max-age=60")];

fn exchange() -> Exchange<'static> {
    Exchange {
        method: Method::GET,
        request: &[],
        status: 200,
        response: FRESH,
        rules: StoringRules::default(),
    }
}

#[track_caller]
fn check(exchange: &Exchange<'_>, want: Result<(), StoringRefusal>) {
    let (request, response) = (headers(exchange.request), headers(exchange.response));
    let targets = [HeaderName::from_static("cdn-cache-control")];
    let heads = ExchangeHeads {
        method: &exchange.method,
        request: &request,
        request_control: &RequestControl::of(&request),
        status: StatusCode::from_u16(exchange.status).unwrap(),
        response: &response,
        response_control: &ResponseControl::of(&response, &targets),
    };
    assert_eq!(check_storing(&heads, exchange.rules), want);
}

#[track_caller]
fn check_response(status: u16, control: &str, want: Result<(), StoringRefusal>) {
    let response = [(CACHE_CONTROL, control)];
    check(&Exchange { status, response: &response, ..exchange() }, want);
}

#[test]
fn only_answers_to_get_are_stored() {
    check(&exchange(), Ok(()));
    for method in [Method::HEAD, Method::POST, Method::PUT, Method::OPTIONS] {
        check(&Exchange { method, ..exchange() }, Err(StoringRefusal::Method));
    }
    check(&Exchange { status: 103, ..exchange() }, Err(StoringRefusal::Interim));
}

#[test]
fn either_side_may_forbid_it() {
    let request = [(CACHE_CONTROL, "no-store")];
    check(&Exchange { request: &request, ..exchange() }, Err(StoringRefusal::RequestNoStore));
    check_response(200, "max-age=60, no-store", Err(StoringRefusal::NoStore));
    check_response(200, "max-age=60, private", Err(StoringRefusal::Private));
    check_response(200, "max-age=60, private=\"x-own\"", Ok(()));
    check_response(200, "max-age=60, no-cache", Ok(()));
}

#[test]
fn a_status_that_is_not_understood() {
    check_response(599, "max-age=60", Ok(()));
    check_response(599, "max-age=60, must-understand", Err(StoringRefusal::Status));
    check_response(599, "max-age=60, must-understand, no-store", Err(StoringRefusal::NoStore));
    check_response(200, "max-age=60, must-understand, no-store", Ok(()));
    check_response(206, "max-age=60", Err(StoringRefusal::Status));
    check_response(304, "max-age=60", Err(StoringRefusal::Status));
}

#[test]
fn what_is_for_one_user_is_not_shared() {
    let request = [(AUTHORIZATION, "Basic eA==")];
    for (control, want) in [
        ("max-age=60", Err(StoringRefusal::Authorization)),
        ("max-age=60, proxy-revalidate", Err(StoringRefusal::Authorization)),
        ("max-age=60, must-revalidate", Ok(())),
        ("max-age=60, public", Ok(())),
        ("s-maxage=60", Ok(())),
    ] {
        let response = [(CACHE_CONTROL, control)];
        check(&Exchange { request: &request, response: &response, ..exchange() }, want);
    }
    let response = [(CACHE_CONTROL, "public, max-age=60"), (SET_COOKIE, "a=b")];
    let cookie = Exchange { response: &response, ..exchange() };
    check(&cookie, Err(StoringRefusal::Cookie));
    check(&Exchange { rules: StoringRules { may_set_cookies: true }, ..cookie }, Ok(()));
}

#[test]
fn something_must_say_that_it_may_be_stored() {
    for status in [200, 301, 404] {
        check(&Exchange { status, response: &[], ..exchange() }, Ok(()));
    }
    for status in [201, 302, 403, 500, 599] {
        let refused = Err(StoringRefusal::NotCacheable);
        check(&Exchange { status, response: &[], ..exchange() }, refused);
        check_response(status, "max-age=0", Ok(()));
        check_response(status, "s-maxage=9", Ok(()));
        check_response(status, "public", Ok(()));
        let response = [(EXPIRES, "0")];
        check(&Exchange { status, response: &response, ..exchange() }, Ok(()));
        let target = (HeaderName::from_static("cdn-cache-control"), "must-revalidate");
        let response = [(EXPIRES, "0"), target];
        check(&Exchange { status, response: &response, ..exchange() }, refused);
    }
}

#[test]
fn what_varies_by_anything_matches_nothing() {
    for (vary, want) in [
        ("accept", Ok(())),
        ("*", Err(StoringRefusal::VaryAny)),
        ("accept, *", Err(StoringRefusal::VaryAny)),
        ("x*", Ok(())),
        ("accept, a b", Err(StoringRefusal::VaryAny)),
    ] {
        let response = [(CACHE_CONTROL, "max-age=60"), (VARY, vary)];
        check(&Exchange { response: &response, ..exchange() }, want);
    }
}
