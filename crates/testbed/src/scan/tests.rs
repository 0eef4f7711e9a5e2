//! The request scanner: unusual orders and spellings, and bytes that are no request.

use super::*;

fn id_of(body: &str) -> Option<&str> {
    request_id(body.as_bytes()).ok().map(|at| &body[at])
}

#[test]
fn the_id_is_the_top_level_one() {
    let check = |body: &str, want: Option<&str>| assert_eq!(id_of(body), want, "{body}");
    check(r#"{"id":"a","imp":[]}"#, Some("a"));
    check(r#"{"imp":[{"id":"1"}],"site":{"id":"s","publisher":{"id":"p"}},"id":"a"}"#, Some("a"));
    check(" \r\n{\t\"id\"  :\n \"a\" }", Some("a"));
    check(r#"{"x":"\"id\":\"no\"","id":"a"}"#, Some("a"));
    check(r#"{"x":"\\","id":"a"}"#, Some("a"));
    check(r#"{"x":"id","id":"a\"b\\"}"#, Some(r#"a\"b\\"#));
    check(r#"{"x":[[{"id":"no"}],{}],"y":-1.5e3,"z":null,"id":""}"#, Some(""));
    check(r#"{"ext":{"imp":[{"id":"no"}]},"id":"a"}"#, Some("a"));
    check(r#"{"id":"a""#, Some("a")); // The rest is ignored.
    check(r#"{"id":7}"#, None);
    check(r#"{"ID":"a"}"#, None);
    check(r#"{"x":{"id":"a"}}"#, None);
    check(r#"["id","a"]"#, None);
    check(r#"{"id":"a"#, None);
    check(r#"{"id":"a\"#, None);
    check(r#"{"x":}"#, None);
    check(r#"{"x":]"#, None);
    check("", None);
    check("\"", None);
}

/// `id format width height floor [deal:floor]`, one impression per row.
fn summary(body: &str) -> Result<Vec<String>, MalformedRequest> {
    imps(body.as_bytes())?
        .map(|imp| {
            let imp = imp?;
            let id = String::from_utf8_lossy(imp.id).into_owned();
            let mut row =
                format!("{id} {:?} {}x{} {}", imp.format, imp.width, imp.height, imp.floor_micros);
            for deal in imp.deals() {
                let deal_id = String::from_utf8_lossy(deal.id);
                row.push_str(&format!(" {deal_id}:{:?}", deal.floor_micros));
            }
            Ok(row)
        })
        .collect()
}

#[test]
fn impressions_are_read_in_any_order() {
    let check = |body: &str, want: &[&str]| {
        let got = summary(body).unwrap_or_else(|_| panic!("refused: {body}"));
        assert_eq!(got, want, "{body}");
    };
    check(r#"{"imp":[{"id":"1","banner":{"w":300,"h":250}}]}"#, &["1 Banner 300x250 0"]);
    check(
        r#"{"imp":[{"bidfloor":0.35,"banner":{"format":[{"h":50,"w":320},{"w":9,"h":9}],
            "w":1,"h":1},"id":"1"}],"id":"a"}"#,
        &["1 Banner 320x50 350000"],
    );
    check(
        r#"{"app":{"imp":[{"id":"no"}]},"imp":[{"id":"v","video":{"w":640,"h":360}},
            {"id":"a","audio":{"mimes":["audio/mp4"]}},
            {"id":"n","native":{"request":"{\"native\":{\"assets\":[{\"id\":1}]}}"}}]}"#,
        &["v Video 640x360 0", "a Audio 0x0 0", "n Native 0x0 0"],
    );
    check(
        r#"{"imp":[{"id":"1","video":{},"banner":{"w":1,"h":2}}]}"#,
        &["1 Video 0x0 0"], // The first format written.
    );
    check(
        r#"{"imp":[{"pmp":{"private_auction":1,"deals":[{"bidfloor":2,"id":"d1"},{"id":"d2",
            "ext":{"id":"no"}}]},"id":"1","banner":{},"ext":{"pmp":{}}}]}"#,
        &["1 Banner 0x0 0 d1:Some(2000000) d2:None"],
    );
    check(
        r#"{"imp":[{"id":"1","banner":{"w":-1,"h":"x"},"bidfloor":-0.5,"pmp":{"deals":null}}]}"#,
        &["1 Banner 0x0 0"],
    );
    check(r#"{"imp":[]}"#, &[]);
}

#[test]
fn broken_impressions_are_refused_once() {
    let check = |body: &str| assert_eq!(summary(body), Err(MalformedRequest), "{body}");
    check(r#"{"id":"a"}"#);
    check(r#"{"imp":{}}"#);
    check(r#"{"imp":[{"id":"1"}]}"#);
    check(r#"{"imp":[{"banner":{}}]}"#);
    check(r#"{"imp":[{"id":"1","banner":[]}]}"#);
    check(r#"{"imp":[{"id":"1","banner":{}"#);
    check(r#"{"imp":[7]}"#);
    let truncated = imps(br#"{"imp":[{"id"#).expect("the array is there");
    assert_eq!(truncated.count(), 1);
}

#[test]
fn no_prefix_and_no_flip_of_a_request_panics() {
    let body = br#"{"id":"a\u0041","imp":[{"id":"1","bidfloor":1.5,"banner":{"format":[{"w":1,
        "h":2}]},"pmp":{"deals":[{"id":"d","bidfloor":1e2}]}}],"site":{"id":"s"}}"#;
    let read = |bytes: &[u8]| {
        drop(request_id(bytes));
        for imp in imps(bytes).into_iter().flatten().flatten() {
            imp.deals().for_each(drop);
        }
    };
    for at in 0..body.len() {
        read(&body[..at]);
        for byte in *b"\"\\{}[],: 0\xff" {
            let mut flipped = body.to_vec();
            flipped[at] = byte;
            read(&flipped);
        }
    }
    read(&[b'['; 100_000]); // Depth is counted, not recursed.
    read(format!("{{\"x\":{}", "[".repeat(100_000)).as_bytes());
}

#[test]
fn decimals_are_cut_to_micros() {
    let check = |text: &str, want| assert_eq!(micros_of(text.as_bytes()), want, "{text}");
    check("0", Some(0));
    check("1", Some(1_000_000));
    check("1.", Some(1_000_000));
    check("0.5", Some(500_000));
    check("0.0000019", Some(1));
    check("12.345678", Some(12_345_678));
    check("18446744073709.551615", Some(u64::MAX));
    check("18446744073709.551616", None);
    check("18446744073710", None);
    check("1e3", None);
    check("-1", None);
    check(".5", None);
    check("1.x", None);
    check("", None);
}
