//! The limits of behaviours.

use super::*;
use crate::dsp::{DspAct, DspBehaviour};

#[test]
fn limits_hold_at_their_edges() {
    let check = |act: DspAct, want: Option<&str>| {
        let problem = DspBehaviour::from(act.clone()).problem();
        assert_eq!(problem.is_some(), want.is_some(), "{act:?}: {problem:?}");
        if let (Some(problem), Some(want)) = (problem, want) {
            assert!(problem.contains(want), "{problem}");
        }
    };
    let ms = Duration::from_millis;
    let status = |code, body: &str| DspAct::Status { code, body: body.to_owned() };
    check(status(200, "x"), None);
    check(status(599, ""), None);
    check(status(199, ""), Some("200 to 599"));
    check(status(600, ""), Some("200 to 599"));
    check(status(204, ""), None);
    check(status(204, "x"), Some("no body"));
    check(status(500, &"x".repeat(STATUS_BODY_MAX + 1)), Some("1 MiB"));
    let trickle = |bytes, every| DspAct::Trickle { bytes, every, from: DripFrom::Head };
    check(trickle(1, ms(1)), None);
    check(trickle(0, ms(1)), Some("needs a byte"));
    check(trickle(1, Duration::from_micros(999)), Some("at least 1 ms"));
    check(trickle(1, LATENCY_MAX + ms(1)), Some("at most 60 s"));
    check(DspAct::Late { by: Duration::ZERO }, Some("above zero"));
    check(DspAct::Late { by: LATENCY_MAX + ms(1) }, Some("60 s"));
    check(DspAct::GzipBomb { inflated: BOMB_BYTES_MAX }, None);
    check(DspAct::GzipBomb { inflated: BOMB_BYTES_MAX + 1 }, Some("1 GiB"));
    check(DspAct::Chunked { bytes: 0 }, Some("needs a byte"));
    check(DspAct::Redirect { code: 400, to: None }, Some("300 to 399"));
    check(DspAct::Redirect { code: 302, to: Some("a\r\nb".to_owned()) }, Some("visible"));
    check(DspAct::Interim { code: 101, count: None }, Some("without 101"));
    check(DspAct::Interim { code: 100, count: Some(INTERIM_MAX) }, None);
    check(DspAct::Interim { code: 100, count: Some(INTERIM_MAX + 1) }, Some("100,000"));
    let flood = |times| DspAct::Http2(Http2Fault::Flood { frames: FloodFrame::Ping, times });
    check(flood(FLOOD_MAX), None);
    check(flood(FLOOD_MAX + 1), Some("100,000 frames"));
    let endless = |bytes, every| DspAct::Http2(Http2Fault::Endless { bytes, every });
    check(endless(16 * 1024, ms(1)), None);
    check(endless(16 * 1024 + 1, ms(1)), Some("16 KiB"));
    check(endless(0, ms(1)), Some("1 byte"));
    check(endless(1, Duration::ZERO), Some("at least 1 ms"));
    check(endless(1, LATENCY_MAX + ms(1)), Some("60 s"));
}

#[test]
fn shares_are_limited_and_a_port_refuses_all_or_none() {
    let share = |act: DspAct, share_ppm| DspBehaviour { act, share_ppm }.problem();
    assert!(share(DspAct::Hang, PPM).is_none() && share(DspAct::Hang, PPM + 1).is_some());
    assert!(share(DspAct::Refused, PPM).is_none() && share(DspAct::Refused, PPM - 1).is_some());
    assert!(DspBehaviour { act: DspAct::Hang, share_ppm: 0 }.is_healthy());
    assert!(DspBehaviour::HEALTHY.is_healthy() && !DspBehaviour::from(DspAct::Hang).is_healthy());
}
