//! Beacons in a real browser: headless Chromium shows the exchange's response.

use ::faults::browser::shown;
use serde_json::{Value, json};

use crate::fixtures::{Host, Reaction, banner, until};
use crate::notices::{RecordDir, bid_at, dsp, only_bid};

/// Sells markup, shows `page` made of it, and returns the final DOM once the DSP is billed.
fn billed(offer: &str, change: Value, page: impl FnOnce(&Host, &str)) -> Option<String> {
    let host = Host::start();
    let winner = dsp(&[bid_at(&host, "a", change)]);
    let record_dir = RecordDir::new();
    let exchange = record_dir.start_with("", &[&winner]);
    let request = banner("").replace(r#""banner":{"w":300,"h":250}"#, offer);
    let bid = only_bid(&exchange.auction(&request));
    page(&host, bid["adm"].as_str().expect("markup"));
    let shown = shown(&format!("http://{}/page", host.address), &[])?;
    assert!(!host.calls("/page").is_empty(), "it was opened: {shown}");
    let call = host.call("/a/bill");
    assert!(call.head.contains("Chrom"), "the browser's name is forwarded: {}", call.head);
    until("it is delivered", || exchange.notices().counters.billing_delivered == 1);
    assert_eq!(host.calls("/a/bill").len(), 1);
    Some(shown)
}

#[test]
fn a_banner_that_is_shown_is_billed() {
    let change = json!({ "adm": "<div id=ad>Buy!</div>" });
    let shown = billed(r#""banner":{"w":300,"h":250}"#, change, |host, adm| {
        let script = "onload = () => { document.title = [...document.images].map(\
                      image => image.naturalWidth + 'x' + image.naturalHeight).join() }";
        let page = format!("<!doctype html><title></title><script>{script}</script><body>{adm}");
        host.react("/page", Reaction::Body(page));
    });
    let Some(shown) = shown else { return };
    assert!(shown.contains("<div id=\"ad\">Buy!</div>"), "{shown}");
    assert!(shown.contains("<title>1x1</title>"), "our picture is one: {shown}");
}

/// As players do, parses the document and calls every impression, from another origin.
#[test]
fn a_video_that_is_played_is_billed() {
    let vast = "<?xml version=\"1.0\"?><VAST version=\"4.2\"><Ad id=\"1\"><InLine><AdSystem>x</AdSystem>\
                <AdTitle>y</AdTitle><Impression><![CDATA[/own]]></Impression><Creatives><Creative>\
                <Linear><Duration>00:00:15</Duration></Linear></Creative></Creatives></InLine></Ad></VAST>";
    let offer =
        r#""video":{"mimes":["video/mp4"],"minduration":5,"maxduration":30,"protocols":[3]}"#;
    let change = json!({ "adm": vast, "mtype": 2, "dur": 15, "w": null, "h": null });
    let player = "(async () => {
        const text = await (await fetch('/vast')).text();
        const vast = new DOMParser().parseFromString(text, 'application/xml');
        if (vast.querySelector('parsererror')) { document.title = 'no XML'; return; }
        const calls = [...vast.querySelectorAll('Ad > InLine > Impression')]
            .map(async url => (await fetch(url.textContent.trim())).status);
        document.title = 'played ' + (await Promise.all(calls)).sort().join();
    })().catch(error => { document.title = error });";
    let shown = billed(offer, change, |host, adm| {
        host.react("/vast", Reaction::Body(adm.to_owned()));
        let page = format!("<!doctype html><title></title><script>{player}</script>");
        host.react("/page", Reaction::Body(page));
    });
    let Some(shown) = shown else { return };
    // The DSP's own, to which its host responds with 204, and ours.
    assert!(shown.contains("<title>played 200,204</title>"), "{shown}");
}
