//! What directives mean, one by one and where they disagree.

use http::HeaderValue;

use super::directives::DELTA_MAX;
use super::*;
use crate::fields::dates::Seconds;

static CDN: HeaderName = HeaderName::from_static("cdn-cache-control");
static OURS: HeaderName = HeaderName::from_static("vickrey-cache-control");

fn headers(lines: &[(&HeaderName, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

fn response(lines: &[(&HeaderName, &str)]) -> ResponseControl {
    ResponseControl::of(&headers(lines), &[OURS.clone(), CDN.clone()])
}

fn of(value: &str) -> ResponseControl {
    response(&[(&CACHE_CONTROL, value)])
}

const fn s(seconds: u64) -> Option<Seconds> {
    Some(Seconds(seconds))
}

fn fields(names: &[&'static str]) -> FieldScope {
    FieldScope::Fields(names.iter().map(|name| HeaderName::from_static(name)).collect())
}

#[test]
fn lifetimes_of_a_response() {
    let check = |value: &str, want: Option<Seconds>| assert_eq!(of(value).max_age, want, "{value}");
    check("", None);
    check("max-age=60", s(60));
    check("MAX-AGE=60", s(60));
    check("max-age=\"60\"", s(60));
    check("max-age=60, s-maxage=10", s(10));
    check("s-maxage=0, max-age=60", s(0));
    // The first occurrence counts.
    check("max-age=60, max-age=10", s(60));
    check("max-age=99999999999999999999", s(DELTA_MAX));
    // An invalid number is stale at once.
    for invalid in ["max-age", "max-age=", "max-age=x", "max-age=-1", "max-age=1.5", "max-age =60"]
    {
        check(invalid, s(0));
    }
    check("xmax-age=60, max-agex=60", None);
}

#[test]
fn flags_of_a_response() {
    let control = of("No-Store, public, must-understand, immutable, unknown=\"no-cache\"");
    let want = ResponseControl {
        no_store: true,
        public: true,
        must_understand: true,
        immutable: true,
        ..ResponseControl::default()
    };
    assert_eq!(control, want);
    let revalidation = |value: &str| {
        let control = of(value);
        (control.must_revalidate, control.has_must_revalidate, control.has_s_maxage)
    };
    assert_eq!(revalidation("must-revalidate"), (true, true, false));
    assert_eq!(revalidation("proxy-revalidate"), (true, false, false));
    assert_eq!(revalidation("s-maxage=9"), (false, false, true));
    let control = of("max-age=1, stale-while-revalidate=30, stale-if-error=x");
    assert_eq!((control.stale_while_revalidate, control.stale_if_error), (s(30), s(0)));
}

#[test]
fn a_directive_with_field_names_concerns_these_alone() {
    let check = |value: &str, want: FieldScope| {
        assert_eq!(of(value).no_cache, want, "{value}");
        let private = value.replace("no-cache", "private");
        assert_eq!(of(&private).private, want, "{private}");
    };
    check("max-age=1", FieldScope::Nothing);
    check("no-cache", FieldScope::Whole);
    check("no-cache=\"Set-Cookie, X-Own\"", fields(&["set-cookie", "x-own"]));
    check("no-cache=set-cookie", fields(&["set-cookie"]));
    check("no-cache=\"a\", no-cache=\"b\"", fields(&["a", "b"]));
    check("no-cache=\"a\", no-cache", FieldScope::Whole);
    check("no-cache, no-cache=\"a\"", FieldScope::Whole);
    // Without a sound list it concerns everything.
    for unsound in
        ["no-cache=\"\"", "no-cache=\"a b\"", "no-cache=\"a", "no-cache=", "no-cache=a/b"]
    {
        check(unsound, FieldScope::Whole);
    }
}

#[test]
fn all_lines_count() {
    let control = response(&[(&CACHE_CONTROL, "max-age=60"), (&CACHE_CONTROL, "no-store")]);
    assert!(control.no_store && control.max_age == s(60));
    let control = response(&[(&CACHE_CONTROL, "x=\"\u{e9}\", no-store")]);
    assert!(control.no_store, "what is not ASCII hides nothing");
}

#[test]
fn the_first_sound_targeted_field_stands_in_for_the_others() {
    let check = |ours: &str, cdn: &str, want: Option<Seconds>, is_targeted: bool| {
        let mut lines = vec![(&CACHE_CONTROL, "max-age=1")];
        lines.extend(
            [(&OURS, ours), (&CDN, cdn)].into_iter().filter(|(_, value)| !value.is_empty()),
        );
        let control = response(&lines);
        assert_eq!((control.max_age, control.is_targeted), (want, is_targeted), "{ours}; {cdn}");
    };
    check("", "", s(1), false);
    check("", "max-age=600", s(600), true);
    check("max-age=10", "max-age=600", s(10), true);
    // One that is no dictionary is ignored, as an empty one is.
    check("max-age=10;", "max-age=600", s(600), true);
    check("Max-Age=10", "max-age=600", s(600), true);
    check(" ", "&", s(1), false);
    // Of a dictionary, the last value of a name counts (RFC 9651).
    check("max-age=10, max-age=20", "", s(20), true);
    // A value of another type is ignored; a parameter is.
    check("max-age=10.5", "", None, true);
    check("max-age=\"10\"", "", None, true);
    check("max-age=-1", "", None, true);
    check("max-age", "", None, true);
    check("max-age=10;x=1", "", s(10), true);
    check("max-age=(1 2)", "", None, true);
    let control = response(&[(&CDN, "no-store=?0, no-cache, private=\"x-own\", public=1")]);
    assert!(!control.no_store && !control.public);
    assert_eq!((control.no_cache, control.private), (FieldScope::Whole, fields(&["x-own"])));
    let control = response(&[(&CDN, "max-age=5"), (&CDN, "must-revalidate")]);
    assert!(control.has_must_revalidate && control.max_age == s(5), "lines are one dictionary");
}

#[test]
fn directives_of_a_request() {
    let of = |value: &str| RequestControl::of(&headers(&[(&CACHE_CONTROL, value)]));
    let want = RequestControl {
        max_age: s(5),
        max_stale: Some(MaxStale::For(Seconds(7))),
        min_fresh: s(9),
        no_cache: true,
        no_store: true,
        only_if_cached: true,
        stale_if_error: s(11),
    };
    let all = "max-age=5, max-stale=7, min-fresh=9, no-cache, no-store, only-if-cached, \
               stale-if-error=11";
    assert_eq!(of(all), want);
    assert_eq!(of(""), RequestControl::default());
    assert_eq!(of("max-stale").max_stale, Some(MaxStale::Any));
    // What is malformed accepts less.
    assert_eq!(of("max-stale=x").max_stale, Some(MaxStale::For(Seconds(0))));
    assert_eq!((of("max-age=x").max_age, of("min-fresh=x").min_fresh), (s(0), s(DELTA_MAX)));
}

#[test]
fn pragma_counts_alone() {
    use http::header::PRAGMA;
    let no_cache = |lines: &[(&HeaderName, &str)]| RequestControl::of(&headers(lines)).no_cache;
    assert!(no_cache(&[(&PRAGMA, "x, No-Cache")]));
    assert!(!no_cache(&[(&PRAGMA, "no-cache"), (&CACHE_CONTROL, "max-age=5")]));
    assert!(!no_cache(&[(&PRAGMA, "x=\"no-cache\"")]));
}
