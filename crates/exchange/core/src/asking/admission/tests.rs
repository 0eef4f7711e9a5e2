//! What a DSP's targeting admits, and reasons for refusal.

use openrtb::parse_request;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{ppm, request};

#[track_caller]
fn check(targeting: &Targeting, of_request: Value, want: Result<(), NotAsked>) {
    let body = request(of_request);
    let parsed = parse_request(&body).expect("the request is valid");
    let got = targeting.admit(&parsed, "alpha", false, &TieKey::new([7; 16]));
    assert_eq!(got, want, "{body}");
}

fn region(country: &str, region: &str) -> Region {
    Region { country: country.into(), region: region.into() }
}

fn in_geo(country: &str, region: &str) -> Value {
    json!({ "device": { "geo": { "country": country, "region": region } } })
}

const NO_GEO: Result<(), NotAsked> = Err(NotAsked::Country);

#[test]
fn by_default_anything_is_bought() {
    check(&Targeting::default(), json!({}), Ok(()));
    check(&Targeting::default(), in_geo("USA", "CA"), Ok(()));
}

#[test]
fn countries_and_regions() {
    let blocked =
        Targeting { countries_blocked: vec!["DEU".into(), "FRA".into()], ..Targeting::default() };
    check(&blocked, in_geo("FRA", ""), NO_GEO);
    check(&blocked, in_geo("fra", "75C"), NO_GEO);
    check(&blocked, in_geo("USA", "CA"), Ok(()));
    check(&blocked, json!({}), Ok(()));
    let some = Targeting {
        regions: vec![region("USA", "CA"), region("USA", "NY"), region("DEU", "BY")],
        ..Targeting::default()
    };
    check(&some, in_geo("USA", "NY"), Ok(()));
    check(&some, in_geo("usa", "ny"), Ok(()));
    check(&some, in_geo("USA", "US-NY"), Ok(()));
    check(&some, in_geo("USA", "TX"), NO_GEO);
    check(&some, in_geo("USA", "BY"), NO_GEO);
    check(&some, json!({ "device": { "geo": { "country": "USA" } } }), NO_GEO);
    check(&some, in_geo("FRA", "75C"), Ok(()));
    check(&some, json!({}), Ok(()));
    let but = Targeting {
        regions_blocked: vec![region("USA", "CA")],
        regions: vec![region("USA", "CA"), region("USA", "NY")],
        ..Targeting::default()
    };
    check(&but, in_geo("USA", "CA"), NO_GEO);
    check(&but, in_geo("USA", "NY"), Ok(()));
    check(&but, in_geo("CAN", "CA"), Ok(()));
}

#[test]
fn device_types() {
    let on = |device_type: u64| json!({ "device": { "devicetype": device_type } });
    let none = Err(NotAsked::Device);
    let handheld = Targeting { device_types: 1 << 4 | 1 << 5, ..Targeting::default() };
    for (device_type, want) in [
        (0, none),
        (1, none),
        (4, Ok(())),
        (5, Ok(())),
        (8, none),
        (36, none),
        (4_294_967_295, none),
    ] {
        check(&handheld, on(device_type), want);
    }
    check(&handheld, json!({}), none);
    check(&Targeting::default(), on(99), Ok(()));
}

#[test]
fn user_ids() {
    let known = Targeting { user_id: UserIdNeed::Required, ..Targeting::default() };
    let none = Err(NotAsked::UserId);
    let zeros = "00000000-0000-0000-0000-000000000000";
    for (user, device, want) in [
        (json!({}), json!({}), none),
        (json!({ "id": "u" }), json!({}), Ok(())),
        (json!({ "id": "" }), json!({}), none),
        (json!({ "eids": [{}, { "uids": [{ "id": "" }, { "id": "e" }] }] }), json!({}), Ok(())),
        // A provider without an id, or with an empty or zero one, identifies no user.
        (json!({ "eids": [{}] }), json!({}), none),
        (json!({ "eids": [{ "source": "s" }, { "source": "t", "uids": [] }] }), json!({}), none),
        (json!({ "eids": [{ "uids": [{ "id": zeros }, { "id": null }] }] }), json!({}), none),
        (json!({ "eids": [] }), json!({}), none),
        (
            json!({ "eids": null, "ext": { "eids": [{ "uids": [{ "id": "e" }] }] } }),
            json!({}),
            Ok(()),
        ),
        (json!({ "ext": { "eids": [{}] } }), json!({}), none),
        (json!({ "ext": { "eids": [] } }), json!({}), none),
        (json!({ "ext": { "buyeruids": { "alpha": "b" } } }), json!({}), Ok(())),
        (json!({ "ext": { "prebid": { "buyeruids": { "alpha": "b" } } } }), json!({}), Ok(())),
        (json!({ "ext": { "buyeruids": { "alpha": "" } } }), json!({}), none),
        // The DSP does not see ids of other buyers, or of unnamed ones.
        (json!({ "ext": { "buyeruids": { "beta": "b" } } }), json!({}), none),
        (json!({ "buyeruid": "b" }), json!({}), none),
        (json!({}), json!({ "ifa": "6f1c4a10-0000-4000-8000-000000000000" }), Ok(())),
        (json!({}), json!({ "ifa": zeros }), none),
    ] {
        check(&known, json!({ "user": user, "device": device }), want);
    }
    check(&known, json!({}), none);
}

#[test]
fn samples() {
    let half = Targeting { sample: ppm(500_000), ..Targeting::default() };
    let asked = |dsp: &str| {
        let is_asked = |n: u32| {
            let body = request(json!({ "id": format!("r{n}") }));
            let parsed = parse_request(&body).unwrap();
            half.admit(&parsed, dsp, false, &TieKey::new([7; 16])).is_ok()
        };
        (0..400).map(is_asked).collect::<Vec<_>>()
    };
    let count = |asked: &[bool]| asked.iter().filter(|is_asked| **is_asked).count();
    assert!((150..250).contains(&count(&asked("alpha"))));
    assert_eq!(asked("alpha"), asked("alpha"));
    assert_ne!(asked("alpha"), asked("beta"));
    check(
        &Targeting { sample: ppm(0), ..Targeting::default() },
        json!({}),
        Err(NotAsked::Sampling),
    );
}
