//! The rules against those of `http-cache-semantics`, on random exchanges. Each kind of disagreement
//! is listed with the section of RFC 9111 that decides it.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cache_core::fields::dates::{Seconds, UnixSeconds, format_date};
use cache_core::rules::control::{FieldScope, RequestControl, ResponseControl};
use cache_core::rules::freshness::{ExchangeTimes, HeuristicFreshness, initial_age, lifetime};
use cache_core::rules::storing::{ExchangeHeads, StoringRules, check_storing};
use http::header::{AUTHORIZATION, SET_COOKIE, VARY};
use http::{HeaderMap, Method, Request, Response};
use http_cache_semantics::{CacheOptions, CachePolicy};
use proptest::prelude::*;

const NOW: u64 = 1_700_000_000;

type Head = Vec<(&'static str, String)>;

/// A request and its response.
#[derive(Clone, Debug)]
struct Exchanged {
    status: u16,
    request: Head,
    response: Head,
}

fn directive() -> impl Strategy<Value = String> {
    let seconds = 0_u64..100_000;
    prop_oneof![
        seconds.clone().prop_map(|seconds| format!("max-age={seconds}")),
        seconds.clone().prop_map(|seconds| format!("s-maxage={seconds}")),
        seconds.prop_map(|seconds| format!("max-age=\"{seconds}\"")),
        Just("max-age=soon".to_owned()),
        proptest::sample::select(vec![
            "public",
            "private",
            "no-store",
            "no-cache",
            "must-revalidate",
            "proxy-revalidate",
            "immutable",
            "private=\"x-a\"",
            "no-cache=\"x-a\"",
            "unknown",
            "unknown=\"a\"",
        ])
        .prop_map(str::to_owned),
    ]
}

fn date(around: std::ops::Range<i64>) -> impl Strategy<Value = String> {
    around.prop_map(|offset| format_date(UnixSeconds(NOW.saturating_add_signed(offset))))
}

fn maybe(name: &'static str, value: impl Strategy<Value = String>) -> impl Strategy<Value = Head> {
    proptest::option::of(value)
        .prop_map(move |value| value.map(|value| (name, value)).into_iter().collect())
}

fn exchanged() -> impl Strategy<Value = Exchanged> {
    let response = (
        maybe(
            "cache-control",
            proptest::collection::vec(directive(), 1..4).prop_map(|all| all.join(", ")),
        ),
        maybe("expires", prop_oneof![3 => date(-1_000..100_000), 1 => Just("0".to_owned())]),
        maybe("date", date(-5_000..1)),
        maybe("last-modified", date(-1_000_000..-100)),
        maybe("age", (0_u64..5_000).prop_map(|age| age.to_string())),
        maybe("set-cookie", Just("a=1".to_owned())),
        maybe("vary", proptest::sample::select(vec!["*", "accept"]).prop_map(str::to_owned)),
        maybe("pragma", Just("no-cache".to_owned())),
    );
    let response = response.prop_map(|(a, b, c, d, e, f, g, h)| [a, b, c, d, e, f, g, h].concat());
    let request = (
        maybe("authorization", Just("Basic x".to_owned())),
        maybe("cache-control", Just("no-store".to_owned())),
    );
    let request = request.prop_map(|(a, b)| [a, b].concat());
    let status = proptest::sample::select(vec![200_u16, 204, 301, 302, 404, 410, 418, 500, 503]);
    (status, request, response).prop_map(|(status, request, response)| Exchanged {
        status,
        request,
        response,
    })
}

/// What the crate says: whether to store, and for how long the answer is fresh.
fn theirs(exchanged: &Exchanged) -> (bool, u64) {
    let mut request = Request::get("http://a/");
    for (name, value) in &exchanged.request {
        request = request.header(*name, value);
    }
    let mut response = Response::builder().status(exchanged.status);
    for (name, value) in exchanged.response.iter().filter(|(name, _)| *name != "age") {
        response = response.header(*name, value);
    }
    let (request, response) = (request.body(()).unwrap(), response.body(()).unwrap());
    let options =
        CacheOptions { immutable_min_time_to_live: Duration::ZERO, ..CacheOptions::default() };
    let policy = CachePolicy::new_options(&request, &response, at(NOW), options);
    (policy.is_storable(), policy.time_to_live(at(NOW)).as_secs())
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn headers(head: &Head) -> HeaderMap {
    let fields = head.iter().map(|(name, value)| {
        ((*name).parse::<http::HeaderName>().unwrap(), value.parse().unwrap())
    });
    fields.collect()
}

/// What our rules say.
struct Ours {
    request: HeaderMap,
    response: HeaderMap,
    control: ResponseControl,
    is_stored: bool,
    lifetime: Seconds,
}

fn ours(exchanged: &Exchanged) -> Ours {
    let (request, response) = (headers(&exchanged.request), headers(&exchanged.response));
    let control = ResponseControl::of(&response, &[]);
    let status = exchanged.status.try_into().unwrap();
    let heads = ExchangeHeads {
        method: &Method::GET,
        request: &request,
        request_control: &RequestControl::of(&request),
        status,
        response: &response,
        response_control: &control,
    };
    let is_stored = check_storing(&heads, StoringRules { may_set_cookies: true }).is_ok();
    let times = times();
    let lifetime = lifetime(
        status,
        &response,
        &control,
        times,
        HeuristicFreshness { divisor: 10, longest: Seconds(u64::MAX) },
    );
    Ours { request, response, control, is_stored, lifetime }
}

fn times() -> ExchangeTimes {
    ExchangeTimes { requested: UnixSeconds(NOW), received: UnixSeconds(NOW) }
}

/// Why our answer to storing is another one. Sections are of RFC 9111.
fn storing_differs(exchanged: &Exchanged, ours: &Ours) -> Option<&'static str> {
    let has_private_fields = matches!(ours.control.private, FieldScope::Fields(_));
    if ours.response.get(VARY).is_some_and(|vary| vary == "*") {
        return Some("4.1: `Vary: *` matches no request, so storing is of no use");
    }
    if has_private_fields {
        return Some("5.2.2.7: `private` with fields allows to store the rest");
    }
    // The crate takes a directive with two values for invalid, and adds must-revalidate for it.
    if ours.request.contains_key(AUTHORIZATION) && has_conflict(exchanged) {
        return Some("4.2.1: of two values of a directive the first may count");
    }
    if matches!(exchanged.status, 418 | 500 | 503) {
        return Some("3: any final status is stored if the response says for how long");
    }
    None
}

/// Why our lifetime is another one.
fn lifetime_differs(exchanged: &Exchanged, ours: &Ours) -> Option<&'static str> {
    let directives = directives(exchanged);
    let has = |name: &str| directives.iter().any(|directive| directive == name);
    if has("proxy-revalidate") {
        return Some("5.2.2.8: a response with it is fresh until it is stale");
    }
    if ours.response.contains_key(SET_COOKIE) {
        return Some("7.3: cookies do not limit freshness; storing them is the operator's choice");
    }
    if has("no-cache=\"x-a\"") {
        return Some("5.2.2.4: `no-cache` with fields allows to reuse the rest");
    }
    if ours.response.contains_key("pragma") && directives.is_empty() {
        return Some("5.4: `Pragma` means nothing in responses");
    }
    if has_conflict(exchanged) {
        return Some("4.2.1: of two values of a directive the first counts, as ours");
    }
    None
}

fn directives(exchanged: &Exchanged) -> Vec<String> {
    let field = exchanged.response.iter().find(|(name, _)| *name == "cache-control");
    field.map_or_else(Vec::new, |(_, value)| value.split(", ").map(str::to_owned).collect())
}

/// Whether a directive is there with two values. For the crate, a quoted value differs from itself.
fn has_conflict(exchanged: &Exchanged) -> bool {
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    directives(exchanged).into_iter().any(|directive| {
        let name = directive.split('=').next().unwrap_or_default().to_owned();
        let before = known.insert(name, directive.clone());
        before.is_some_and(|before| before != directive || before.contains('"'))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn other_rules_differ_only_where_the_standard_decides(exchanged in exchanged()) {
        let ours = ours(&exchanged);
        let (is_stored, fresh) = theirs(&exchanged);
        if ours.is_stored != is_stored {
            prop_assert!(storing_differs(&exchanged, &ours).is_some(), "stored: {}", ours.is_stored);
        } else if is_stored {
            let is_reused = !ours.control.no_cache.is_whole();
            let lifetime = if is_reused { ours.lifetime.0 } else { 0 };
            // The crate's heuristic is a fraction of 32 bits.
            let is_same = lifetime.abs_diff(fresh) <= 1;
            prop_assert!(
                is_same || lifetime_differs(&exchanged, &ours).is_some(),
                "fresh for {lifetime}, not {fresh}"
            );
        }
        // The crate's age leaves out how long the response was under way (section 4.2.3).
        let age = ours.response.get("age").and_then(|age| age.to_str().ok()?.parse().ok());
        prop_assert!(initial_age(&ours.response, times()).age.0 >= age.unwrap_or(0));
    }
}
