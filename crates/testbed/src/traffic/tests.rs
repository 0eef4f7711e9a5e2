//! Generated traffic is valid, varied and repeatable; files and bodies are refused with reasons.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::*;

fn requests(options: &TrafficOptions, count: usize) -> Vec<Vec<u8>> {
    let mut traffic = Traffic::generated(options).expect("valid options");
    let mut out = Vec::new();
    (0..count)
        .map(|_| {
            traffic.next(&mut out);
            out.clone()
        })
        .collect()
}

#[test]
fn generated_requests_are_valid_varied_and_within_their_sizes() {
    let options = TrafficOptions { test_ppm: 100_000, ..TrafficOptions::default() };
    let mut seen = BTreeMap::<&str, usize>::new();
    let mut sizes = Vec::new();
    for body in requests(&options, 2_000) {
        assert!(options.bytes.contains(&body.len()), "{}", body.len());
        sizes.push(body.len());
        let request: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(request["id"].as_str().map(str::len), Some(ID_BYTES));
        assert_eq!(request["cur"], serde_json::json!(["USD"]));
        let channels = ["site", "app", "dooh"].into_iter().filter(|key| !request[key].is_null());
        let channels: Vec<_> = channels.collect();
        assert_eq!(channels.len(), 1);
        *seen.entry(channels[0]).or_default() += 1;
        let imps = request["imp"].as_array().expect("an array");
        assert!((1..=IMPS_MAX).contains(&imps.len()));
        *seen.entry(if imps.len() > 1 { "multi" } else { "single" }).or_default() += 1;
        for (place, imp) in imps.iter().enumerate() {
            assert_eq!(imp["id"], (place + 1).to_string());
            let formats = ["banner", "video", "audio", "native"];
            let offered: Vec<_> = formats.into_iter().filter(|key| !imp[key].is_null()).collect();
            assert_eq!(offered.len(), 1);
            *seen.entry(offered[0]).or_default() += 1;
            for key in ["pmp", "bidfloor"].into_iter().filter(|key| !imp[key].is_null()) {
                *seen.entry(key).or_default() += 1;
            }
        }
        for key in ["test", "bcat", "badv", "at"].into_iter().filter(|key| !request[key].is_null())
        {
            *seen.entry(key).or_default() += 1;
        }
    }
    for what in [
        "site", "app", "dooh", "multi", "single", "banner", "video", "audio", "native", "pmp",
        "bidfloor", "test", "bcat", "badv", "at",
    ] {
        assert!(seen.get(what).is_some_and(|&count| count > 20), "{what} is rare: {seen:?}");
    }
    sizes.sort_unstable();
    assert!((2_800..3_300).contains(&sizes[1_000]), "typical: {}", sizes[1_000]);
    assert!(sizes[10] < 1_300 && sizes[1_990] > 6_500, "{} {}", sizes[10], sizes[1_990]);
}

#[test]
fn a_request_is_exactly_as_large_as_wanted() {
    for bytes in [2_048, 2_049, 3_000, 4_097, 8_192] {
        let options = TrafficOptions {
            bytes: bytes..=bytes,
            bytes_typical: bytes,
            multi_imp_ppm: 0,
            pmp_ppm: 0,
            blocks_max: 4,
            ..TrafficOptions::default()
        };
        for body in requests(&options, 50) {
            assert_eq!(body.len(), bytes);
        }
    }
}

#[test]
fn traffic_repeats_for_its_seed_alone() {
    let seeded = |seed| requests(&TrafficOptions { seed, ..TrafficOptions::default() }, 50);
    assert_eq!(seeded(1), seeded(1));
    assert_ne!(seeded(1), seeded(2));
}

#[test]
fn ids_are_fresh_and_those_returned() {
    let mut traffic = Traffic::reference();
    let (mut out, mut ids) = (Vec::new(), HashSet::new());
    for _ in 0..100 {
        let id = traffic.next(&mut out);
        let request: Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(request["id"], id.as_str());
        assert_eq!(out.len(), REFERENCE_BYTES);
        ids.insert(id);
    }
    assert_eq!(ids.len(), 100);
    assert_eq!(RequestId::new(0x12, u64::MAX).as_str(), "0000000000000012ffffffffffffffff");
}

#[test]
fn the_reference_request_is_what_it_says() {
    let request: Value = serde_json::from_slice(&reference_request()).expect("JSON");
    assert_eq!(request["imp"].as_array().map(Vec::len), Some(1));
    assert_eq!(request["imp"][0]["banner"]["format"][0], serde_json::json!({"w": 300, "h": 250}));
    assert_eq!(request["imp"][0]["bidfloor"], 0.35);
    assert_eq!((&request["at"], &request["tmax"]), (&1.into(), &250.into()));
    for list in ["bcat", "badv"] {
        assert_eq!(request[list].as_array().map(Vec::len), Some(20), "{list}");
    }
    for path in [
        "/site/publisher/id",
        "/device/ua",
        "/device/geo/country",
        "/user/eids/0/uids/0/id",
        "/user/data/0/segment/0/id",
        "/source/schain/nodes/0/asi",
        "/regs/gdpr",
    ] {
        assert!(request.pointer(path).is_some(), "{path}");
    }
    assert_eq!(request["cur"], serde_json::json!(["USD"]));
}

#[test]
fn senseless_options_are_refused() {
    let check = |want: &str, edit: &dyn Fn(&mut TrafficOptions)| {
        let mut options = TrafficOptions::default();
        edit(&mut options);
        let error = Traffic::generated(&options).expect_err(want).to_string();
        assert!(error.contains(want), "{error}");
    };
    check("template", &|o| o.templates = 0);
    check("publisher", &|o| o.publishers = 0);
    check("10 countries", &|o| o.countries = 11);
    check("10 countries", &|o| o.countries = 0);
    check("typical", &|o| o.bytes_typical = 1023);
    check("1 MiB", &|o| o.bytes = 1024..=1024 * 1024 + 1);
    check("shares", &|o| o.test_ppm = PPM + 1);
    check("mixes", &|o| o.video_ppm = PPM);
    check("mixes", &|o| o.app_ppm = PPM);
    check("currency", &|o| o.currencies.clear());
}

#[test]
fn files_are_replayed_with_fresh_ids() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("requests.jsonl");
    let lines = "{\"imp\":[{\"id\":\"1\"}],\"id\":\"a\"}\r\n\n {\"id\":\"b\",\"x\":{}}\n";
    std::fs::write(&path, lines).expect("written");
    let mut traffic = Traffic::from_json_lines(&path).expect("two requests");
    let mut out = Vec::new();
    for turn in 0..4 {
        let id = traffic.next(&mut out);
        let id = id.as_str();
        let want = match turn % 2 {
            0 => format!("{{\"imp\":[{{\"id\":\"1\"}}],\"id\":\"{id}\"}}"),
            _ => format!("{{\"id\":\"{id}\",\"x\":{{}}}}"),
        };
        assert_eq!(String::from_utf8_lossy(&out), want);
    }
}

#[test]
fn files_are_refused_with_the_line() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("requests.jsonl");
    let check = |text: &str, want: &str| {
        std::fs::write(&path, text).expect("written");
        let error = Traffic::from_json_lines(&path).expect_err(text).to_string();
        assert!(error.contains(want), "{error}");
    };
    check("{\"id\":\"a\"}\n{\"id\":", "line 2");
    check("\n\n[1]", "line 3");
    check("{\"id\":7}", "`id` is not a string");
    check("{\"imp\":[]}", "`id` is missing");
    check("{\"\\u0069d\":\"a\"}", "escapes");
    check("", "holds no request");
    check(" \n\n", "holds no request");
    let missing = Traffic::from_json_lines(&directory.path().join("none")).expect_err("no file");
    assert!(missing.to_string().contains("none"));
    assert!(Traffic::fixed(b"{}").is_err());
}
