//! Notices on real sockets: the URLs in bids, the counts, and every odd answer.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;
use testbed::dsp::{DspProfile, Fleet, NoticeAnswer, NoticeOptions, NoticeStats, RECENT_MAX};

use super::fixture::{
    BODY, answer, assert_silent, bidding, connect, field, fleet_of, post, raw_answer, status_of,
    until,
};

fn notifying() -> DspProfile {
    DspProfile { notices: true, ..bidding() }
}

/// The first bid on `body`.
fn bid(stream: &mut TcpStream, body: &str) -> Value {
    stream.write_all(post(body).as_bytes()).expect("sent");
    let response: Value = serde_json::from_str(&answer(stream).1).expect("JSON");
    response["seatbid"][0]["bid"][0].clone()
}

/// A URL with its macros replaced as an exchange would, for a price of 0.25.
fn replaced(url: &str, loss: &str) -> String {
    let macros = [
        ("${AUCTION_IMP_ID}", "imp-1"),
        ("${AUCTION_ID}", "req%2D1"),
        ("${AUCTION_PRICE}", "0.25"),
        ("${AUCTION_PRICE:B64}", "MC4yNQ%3D%3D"),
        ("${AUCTION_CURRENCY}", "USD"),
        ("${AUCTION_LOSS}", loss),
        ("${AUCTION_MIN_TO_WIN}", "0.11"),
        ("${AUCTION_MULTIPLIER}", "1"),
        ("${AUCTION_SEAT_ID}", "seat-0"),
    ];
    let url = macros.iter().fold(url.to_owned(), |url, (from, to)| url.replace(from, to));
    assert!(!url.contains("${"), "{url}");
    url
}

fn call(stream: &mut TcpStream, fleet: &Fleet, url: &str) -> (String, Vec<u8>) {
    let origin = format!("http://{}", fleet.addresses()[0]);
    let target = url.strip_prefix(&origin).expect("the DSP's own address");
    write!(stream, "GET {target} HTTP/1.1\r\nHost: dsp\r\n\r\n").expect("sent");
    raw_answer(stream)
}

#[test]
fn notices_lead_back_and_are_counted_by_kind_with_their_prices() {
    let fleet = fleet_of(notifying());
    let mut stream = connect(&fleet);
    let bid = bid(&mut stream, BODY);
    let adm = bid["adm"].as_str().expect("markup");
    let view = adm.split('\'').find(|part| part.contains("/view?")).expect("a tracker");
    for url in [&bid["nurl"], &bid["burl"], &bid["lurl"], &view.into()] {
        let url = url.as_str().expect("a URL");
        let loss = if url.contains("/loss?") { "102" } else { "" };
        assert_eq!(status_of(&call(&mut stream, &fleet, &replaced(url, loss)).0), 204);
    }
    let one = NoticeStats { calls: 1, counted: 1, price_micros: 250_000, ..NoticeStats::default() };
    let total = fleet.stats().total();
    assert_eq!([total.win, total.bill, total.loss, total.view], [one; 4]);
}

#[test]
fn repeated_malformed_and_dear_notices_are_told_apart() {
    let fleet = fleet_of(notifying());
    let mut stream = connect(&fleet);
    let bid = bid(&mut stream, BODY);
    let nurl = bid["nurl"].as_str().expect("a URL");
    call(&mut stream, &fleet, nurl); // No macro is replaced.
    let good = replaced(nurl, "");
    let other = good.replace("req%2D1", "req-2");
    let dear = good.replace("req%2D1", "req-3").replace("0.25", "900");
    let dear = dear.replace("MC4yNQ%3D%3D", "OTAw");
    for url in [&good, &good, &other, &good.replace("%2D", "-"), &dear] {
        assert_eq!(status_of(&call(&mut stream, &fleet, url).0), 204);
    }
    // Another kind is another notice.
    call(&mut stream, &fleet, &replaced(bid["burl"].as_str().expect("a URL"), ""));
    let want = NoticeStats {
        calls: 6,
        counted: 3,
        failed: 0,
        malformed: 1,
        duplicates: 2,
        overpriced: 1,
        price_micros: 250_000 * 2 + 900_000_000,
    };
    let total = fleet.stats().total();
    assert_eq!((total.win, total.bill.counted, total.bill.duplicates), (want, 1, 0));
}

#[test]
fn the_last_targets_are_kept_as_they_came() {
    let fleet = fleet_of(notifying());
    let mut stream = connect(&fleet);
    for n in 0..RECENT_MAX + 3 {
        write!(stream, "GET /win?n={n}%20 HTTP/1.1\r\nHost: dsp\r\n\r\n").expect("sent");
        assert_eq!(answer(&mut stream).0, 204);
    }
    let recent = fleet.recent_notices(0);
    assert_eq!((recent.len(), recent[0].as_str()), (RECENT_MAX, "/win?n=3%20"));
    assert_eq!(recent.last().map(String::as_str), Some("/win?n=66%20"));
}

#[test]
fn notices_are_answered_as_told() {
    let fleet = fleet_of(notifying());
    let mut stream = connect(&fleet);
    let burl = replaced(bid(&mut stream, BODY)["burl"].as_str().expect("a URL"), "");
    let mut set = |answer: NoticeAnswer, fail_first: u32| {
        fleet.set_notices(0, NoticeOptions { answer, fail_first }).expect("set");
        call(&mut stream, &fleet, &burl).0
    };
    assert_eq!(status_of(&set(NoticeAnswer::Status(200), 0)), 200);
    assert_eq!(status_of(&set(NoticeAnswer::Status(500), 0)), 500);
    let head = set(NoticeAnswer::Redirect("http://192.0.2.1/x".to_owned()), 0);
    assert_eq!((status_of(&head), field(&head, "location")), (302, Some("http://192.0.2.1/x")));
    assert_eq!(status_of(&set(NoticeAnswer::Status(204), 2)), 500);
    let rest = [500, 204, 204].map(|want| {
        let got = status_of(&call(&mut stream, &fleet, &burl).0);
        assert_eq!(got, want);
    });
    let bill = fleet.stats().total().bill;
    // A failed notice was not delivered, so its retry is no duplicate.
    assert_eq!((bill.calls, bill.failed), (4 + rest.len() as u64, 4));
    assert_eq!((bill.counted, bill.duplicates), (1, 2));
}

#[test]
fn a_notice_that_hangs_hangs_alone() {
    let fleet = fleet_of(notifying());
    let mut hung = connect(&fleet);
    let nurl = replaced(bid(&mut hung, BODY)["nurl"].as_str().expect("a URL"), "");
    let hang = NoticeOptions { answer: NoticeAnswer::Hang, fail_first: 0 };
    fleet.set_notices(0, hang).expect("set");
    let target = nurl.split_once("/win").expect("a path").1;
    write!(hung, "GET /win{target} HTTP/1.1\r\n\r\n").expect("sent");
    until(&fleet, "received", |stats| stats.win.failed == 1);
    let mut other = connect(&fleet);
    assert_eq!(bid(&mut other, BODY)["impid"], "imp-1");
    assert_silent(&mut hung);
}

#[test]
fn markup_on_win_is_returned_by_the_nurl_with_macros_in_it() {
    let profile = DspProfile {
        markup_on_win_ppm: 1_000_000,
        markup_latency: Duration::from_millis(3),
        ..bidding()
    };
    let fleet = fleet_of(profile);
    let mut stream = connect(&fleet);
    let mut check = |format: &str, media_type: &str, begins: &str| {
        let body = BODY.replace("\"banner\":{", &format!("\"{format}\":{{"));
        let bid = bid(&mut stream, &body);
        assert!(bid["adm"].is_null() && bid["burl"].is_null(), "{bid}");
        let url = replaced(bid["nurl"].as_str().expect("a URL"), "");
        let (head, markup) = call(&mut stream, &fleet, &url);
        assert_eq!((status_of(&head), field(&head, "content-type")), (200, Some(media_type)));
        let markup = String::from_utf8(markup).expect("UTF-8");
        assert!(markup.starts_with(begins), "{markup}");
        assert!(markup.contains("/view?imp=${AUCTION_IMP_ID}&"), "{markup}");
        assert!(markup.contains("price=${AUCTION_PRICE}&"), "{markup}");
        if format == "native" {
            serde_json::from_str::<Value>(&markup).expect("JSON");
        }
    };
    check("banner", "text/html", "<a href='https://");
    check("video", "application/xml", "<VAST");
    check("audio", "application/xml", "<VAST");
    check("native", "application/json", "{\"native\":");
    let win = fleet.stats().total().win;
    // All four were for one impression of one auction.
    assert_eq!((win.calls, win.counted, win.duplicates), (4, 1, 3));
}

#[test]
fn markup_on_win_loads_no_plain_tracker_on_secure_impressions() {
    let fleet = fleet_of(DspProfile { markup_on_win_ppm: 1_000_000, ..bidding() });
    let mut stream = connect(&fleet);
    for (secure, want) in [(1, false), (0, true)] {
        let body = BODY.replace("\"banner\":{", &format!("\"secure\":{secure},\"banner\":{{"));
        let url = replaced(bid(&mut stream, &body)["nurl"].as_str().expect("a URL"), "");
        let (_, markup) = call(&mut stream, &fleet, &url);
        let markup = String::from_utf8(markup).expect("UTF-8");
        assert_eq!(markup.contains("/view?"), want, "{markup}");
    }
}

#[test]
fn markup_fails_by_its_share() {
    let profile =
        DspProfile { markup_on_win_ppm: 1_000_000, markup_failure_ppm: 500_000, ..bidding() };
    let fleet = fleet_of(profile);
    let mut stream = connect(&fleet);
    let nurl = replaced(bid(&mut stream, BODY)["nurl"].as_str().expect("a URL"), "");
    let mut statuses = |_| {
        let ids = (0..40).map(|n| format!("auction-{n}"));
        let calls = ids.map(|id| call(&mut stream, &fleet, &nurl.replace("req%2D1", &id)).0);
        calls.map(|head| status_of(&head)).collect::<Vec<_>>()
    };
    let [first, second] = [0, 1].map(&mut statuses);
    assert_eq!(first, second, "drawn by auction");
    let failed = first.iter().filter(|&&status| status == 500).count();
    assert!((5..35).contains(&failed), "{failed}");
    let win = fleet.stats().total().win;
    assert_eq!((win.failed, win.counted), (2 * failed as u64, 40 - failed as u64));
}
