//! In the final auction, the win notice follows the response, the billing notice follows our
//! beacon, and the caller sees neither.

use serde_json::{Value, json};

use super::{RecordDir, beacons, bid_at, dsp, only_bid, query};
use crate::fixtures::{Caller, Host, banner, posted, until};

#[test]
fn everyone_is_told_what_became_of_the_bid() {
    let host = Host::start();
    let winner = dsp(&[bid_at(&host, "a", json!({ "price": 10, "adid": "D&1" }))]);
    let second = dsp(&[bid_at(&host, "b", json!({ "price": 5 }))]);
    let low = bid_at(&host, "c", json!({ "price": 0.5 }));
    let lost = bid_at(&host, "d", json!({ "price": 20, "impid": "9" }));
    let others = dsp(&[low, lost]);
    let record_dir = RecordDir::new();
    let exchange = record_dir.start_with("", &[&winner, &second, &others]);
    let request = banner(r#","at":2"#).replace(r#""id":"1""#, r#""id":"1","bidfloor":1"#);
    let reply = exchange.auction(&request);
    let id = winner.request(0).id();
    let won = format!("{id}|r-7|1|d0|D%261|5.01|NS4wMQ%3D%3D|USD|0.501|0|5|1|0");
    assert_eq!(query(&host.call("/a/win")), won);
    let check = |path: &str, want: &str| {
        let call = host.call(path);
        assert_eq!(query(&call), want.replace("{id}", &id), "{path}");
        assert!(call.head.contains("\r\nuser-agent: vickrey\r\n"), "{}", call.head);
    };
    check("/b/loss", "{id}|r-7|1|d1||||USD||102|5.01||0");
    check("/c/loss", "{id}|r-7|1|d2||||USD||100|5.01||0");
    check("/d/loss", "{id}|r-7||d2||||USD||3|||0");
    // The caller's response: the bid and our beacon, without the DSP's notices.
    let bid = only_bid(&reply);
    for key in ["nurl", "burl", "lurl"] {
        assert_eq!(bid[key], Value::Null, "{bid}");
    }
    assert!(!reply.body.contains(&host.address.to_string()), "{}", reply.body);
    let adm = bid["adm"].as_str().expect("markup");
    assert!(adm.contains(&format!("<p>{won}</p>")), "{adm}");
    let [beacon] = &beacons(&exchange, adm)[..] else { panic!("one beacon in {adm}") };
    assert_eq!(host.targets().len(), 4, "one each: {:?}", host.targets());
    // Billed only now, at the same price.
    assert_eq!(exchange.caller().get(beacon, "").status, 200);
    assert_eq!(query(&host.call("/a/bill")), won);
}

#[test]
fn the_win_notice_follows_the_answer() {
    let host = Host::start();
    let winner = dsp(&[bid_at(&host, "a", json!({}))]);
    let record_dir = RecordDir::new();
    let exchange = record_dir.start_with("", &[&winner]);
    for _ in 0..20 {
        let seen = host.calls("/a/win").len();
        let mut caller = exchange.caller();
        host.watch(caller.socket());
        caller.send(&posted(&banner("")));
        until("it is called", || host.calls("/a/win").len() > seen);
        assert_eq!(host.calls("/a/win")[seen].after_answer, Some(true));
        assert_eq!(caller.reply().status, 200);
    }
}

/// Many concurrent and repeated calls are billed once and get the same response.
#[test]
fn a_beacon_bills_once() {
    let host = Host::start();
    let winner = dsp(&[bid_at(&host, "a", json!({}))]);
    let record_dir = RecordDir::new();
    let exchange = record_dir.start_with("", &[&winner]);
    let reply = exchange.auction(&banner(""));
    drop(host.call("/a/win"));
    assert!(host.calls("/a/bill").is_empty(), "nobody has called yet");
    let [beacon] = &beacons(&exchange, &reply.body)[..] else { panic!("{reply:?}") };
    let address = exchange.address;
    let crowd: Vec<_> = (0..8)
        .map(|_| {
            let beacon = beacon.clone();
            std::thread::spawn(move || {
                let mut caller = Caller::connect(address);
                (0..10).map(|_| caller.get(&beacon, "")).collect::<Vec<_>>()
            })
        })
        .collect();
    for thread in crowd {
        for answer in thread.join().expect("no panic") {
            assert_eq!(answer.status, 200);
            assert_eq!(answer.header("content-type"), Some("image/gif"));
            assert_eq!(answer.header("cache-control"), Some("no-store"));
            assert_eq!(answer.header("content-length"), Some("43"));
        }
    }
    let counters = || exchange.notices().counters;
    until("all have been counted", || {
        (counters().beacons_accepted, counters().beacons_duplicate) == (1, 79)
    });
    until("it is delivered", || counters().billing_delivered == 1);
    assert_eq!(host.calls("/a/bill").len(), 1);
    assert_eq!(exchange.scraped("exchange_beacons_total{outcome=\"duplicate\"}"), "79");
}

const HOPS: &str = "198.51.100.7, 192.0.2.1";

/// The beacon caller's device is forwarded to the billed host.
#[test]
fn the_device_is_forwarded() {
    let host = Host::start();
    let winner = dsp(&[bid_at(&host, "a", json!({}))]);
    let call = |keys: &str, hops: &str| {
        let record_dir = RecordDir::new();
        let exchange = record_dir.start_with(keys, &[&winner]);
        let reply = exchange.auction(&banner(""));
        let beacon = &beacons(&exchange, &reply.body)[0];
        let seen = host.calls("/a/bill").len();
        let headers = format!("user-agent: Browser/1.0 (X)\r\nx-forwarded-for: {hops}\r\n");
        assert_eq!(exchange.caller().get(beacon, &headers).status, 200);
        until("it is called", || host.calls("/a/bill").len() > seen);
        host.calls("/a/bill")[seen].head.to_ascii_lowercase()
    };
    let head = call("", HOPS);
    assert!(head.contains("browser/1.0 (x)\r\n") && head.contains("127.0.0.1\r\n"), "{head}");
    assert!(!head.contains("192.0.2.1"), "a stranger's word: {head}");
    let head = call("proxies_trusted = [\"127.0.0.1\"]", HOPS);
    assert!(head.contains("192.0.2.1") && !head.contains("198.51.100.7"), "{head}");
    let both = "proxies_trusted = [\"127.0.0.1\", \"192.0.2.0/24\"]";
    assert!(call(both, HOPS).contains("198.51.100.7"));
    // Addresses that the device adds itself are ignored.
    let head = call(both, &format!("unknown, 203.0.113.9, {HOPS}"));
    assert!(head.contains("198.51.100.7") && !head.contains("203.0.113.9"), "{head}");
    let head = call(both, "198.51.100.7, unknown, 192.0.2.1");
    assert!(head.contains("192.0.2.1") && !head.contains("198.51.100.7"), "{head}");
}

/// The place of the beacon, by format.
#[test]
fn every_format_has_its_beacon() {
    let vast = "<VAST version=\"4.2\"><Ad id=\"1\"><InLine><AdSystem>x</AdSystem><AdTitle>y</AdTitle>\
                <Impression><![CDATA[https://a.example/i]]></Impression><Creatives></Creatives>\
                </InLine></Ad></VAST>";
    let native = r#"{"native":{"ver":"1.2","assets":[],"link":{"url":"https://a.example/"}}}"#;
    let video =
        r#""video":{"mimes":["video/mp4"],"minduration":5,"maxduration":30,"protocols":[3]}"#;
    let audio = r#""audio":{"mimes":["audio/mp4"],"minduration":5,"maxduration":30}"#;
    let native_offer = r#""native":{"request":"{\"native\":{\"ver\":\"1.2\",\"assets\":[]}}"}"#;
    let banner_offer = r#""banner":{"w":300,"h":250}"#;
    let check = |offer: &str, mtype: u32, adm: &str, before: &str, after: &str| {
        let host = Host::start();
        let side = |side: u32| if mtype == 1 { json!(side) } else { Value::Null };
        let change =
            json!({ "adm": adm, "mtype": mtype, "dur": 15, "w": side(300), "h": side(250) });
        let winner = dsp(&[bid_at(&host, "a", change)]);
        let record_dir = RecordDir::new();
        let exchange = record_dir.start_with("", &[&winner]);
        let request = banner("").replace(banner_offer, offer);
        let reply = exchange.auction(&request);
        assert_eq!(reply.status, 200, "{offer} {}", winner.request(0).body);
        let marked = only_bid(&reply)["adm"].clone();
        let marked = marked.as_str().expect("markup");
        let [beacon] = &beacons(&exchange, marked)[..] else { panic!("one beacon in {marked}") };
        let url = format!("{before}http://{}{beacon}{after}", exchange.address);
        assert!(marked.contains(&url), "{url} in {marked}");
        assert_eq!(exchange.caller().get(beacon, "").status, 200);
        drop(host.call("/a/bill"));
    };
    check(banner_offer, 1, "<p>Buy!</p>", "<img src=\"", "\"");
    check(video, 2, vast, "<Impression><![CDATA[", "]]></Impression>");
    check(audio, 3, vast, "<Impression><![CDATA[", "]]></Impression>");
    check(native_offer, 4, native, "[{\"event\":1,\"method\":1,\"url\":\"", "\"}]");
}

/// The fixture's beacons are plain HTTP, which no secure page loads.
#[test]
fn a_secure_impression_is_billed_without_a_beacon() {
    let host = Host::start();
    let winner = dsp(&[bid_at(&host, "a", json!({}))]);
    let record_dir = RecordDir::new();
    let exchange = record_dir.start_with("", &[&winner]);
    let reply = exchange.auction(&banner("").replace(r#""id":"1""#, r#""id":"1","secure":1"#));
    assert_eq!(reply.status, 200);
    assert!(beacons(&exchange, &reply.body).is_empty(), "{}", reply.body);
    assert_eq!(query(&host.call("/a/bill")), query(&host.call("/a/win")));
    until("it is delivered", || exchange.notices().counters.billing_delivered == 1);
    let unmarked = "exchange_ads_unmarked_total{dsp=\"d0\",reason=\"insecure\"}";
    assert_eq!(exchange.scraped(unmarked), "1");
}

#[test]
fn a_test_notifies_nobody() {
    let host = Host::start();
    let winner = dsp(&[bid_at(&host, "a", json!({ "price": 2 }))]);
    let loser = dsp(&[bid_at(&host, "b", json!({}))]);
    let record_dir = RecordDir::new();
    let exchange = record_dir.start_with("", &[&winner, &loser]);
    let reply = exchange.auction(&banner(r#","test":1"#));
    assert!(beacons(&exchange, &reply.body).is_empty(), "{reply:?}");
    assert!(!reply.body.contains(&host.address.to_string()), "{reply:?}");
    // The next auction is no test, and its notices come after any of the test's.
    exchange.auction(&banner(""));
    let (win, loss) = (host.call("/a/win"), host.call("/b/loss"));
    let real = winner.request(1).id();
    assert!(win.target.contains(&real) && loss.target.contains(&real), "{:?}", host.targets());
    assert_eq!(host.targets().len(), 2);
}
