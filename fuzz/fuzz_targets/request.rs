//! Any bytes as a bid request: refused, or passed on as JSON with exactly the offered impressions,
//! and without ids of a child.
#![no_main]

use std::sync::LazyLock;

use exchange_core::{Auction, Market, eligible, outbound};
use libfuzzer_sys::fuzz_target;
use openrtb::OutboundView;

static MARKET: LazyLock<Market> = LazyLock::new(fuzz::market);

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let request = match openrtb::parse_request(text) {
        Ok(request) => request,
        Err(invalid) => {
            let body: serde_json::Value =
                serde_json::from_str(&invalid.to_json()).expect("a refusal is JSON");
            assert!(body["error"]["problem"].is_string());
            return;
        }
    };
    let Ok(auction) = Auction::new("0123456789abcdef", &request, &MARKET) else { return };
    let outbound = outbound(&auction, text);
    for dsp in 0..MARKET.dsps.len() {
        let Ok(ask) = eligible(&auction, dsp) else { continue };
        let is_limited = auction.is_limited(dsp);
        let view = OutboundView {
            imps: ask.imps,
            deals: ask.deals,
            tmax: "100",
            cur: r#"["USD"]"#,
            buyeruid: Some(r#""u""#).filter(|_| !is_limited),
            bidder: Some("a"),
            is_limited,
        };
        let sent = outbound.to_text(&view);
        let sent: serde_json::Value = serde_json::from_str(&sent).expect("what is sent is JSON");
        assert_eq!(sent["id"], "0123456789abcdef");
        if request.is_coppa() {
            assert!(is_limited, "COPPA is no matter of configuration");
            let ids = ["id", "buyeruid", "eids", "yob", "keywords", "data"];
            assert!(ids.iter().all(|key| sent["user"].get(key).is_none()), "{sent}");
            let (device, geo) = (&sent["device"], &sent["device"]["geo"]);
            assert!(device.get("ifa").is_none() && geo.get("lat").is_none(), "{sent}");
        }
        let imps = sent["imp"].as_array().expect("impressions are offered");
        assert_eq!(imps.len(), ask.imps.count_ones() as usize);
        let deals = imps.iter().filter_map(|imp| imp["pmp"]["deals"].as_array()).map(Vec::len);
        assert_eq!(deals.sum::<usize>(), ask.deals.count_ones() as usize);
    }
});
