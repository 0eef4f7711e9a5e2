//! What the pass reads, and that the general parser reads it alike.

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;
use crate::response::{bid_texts, parse_bid};

/// Reads `text` with the general parser alone.
fn general(text: &str) -> Option<BidResponse<'_, Bid<'_>>> {
    let BidResponse { id, seatbid, bidid, cur, nbr } = bid_texts(text).ok()?;
    let seats = seatbid.map(|seats| {
        let seats = seats.into_iter().map(|SeatBid { bid, seat, group }| {
            let bid =
                bid.into_iter().map(|text| parse_bid(text.get()).ok()).collect::<Option<_>>()?;
            Some(SeatBid { bid, seat, group })
        });
        seats.collect::<Option<Vec<_>>>()
    });
    let seatbid = match seats {
        Some(seats) => Some(seats?),
        None => None,
    };
    Some(BidResponse { id, seatbid, bidid, cur, nbr })
}

/// Whether the pass reads `text`. Then, so does the general parser, and alike.
fn is_read(text: &str) -> bool {
    let Some(read) = read(text) else { return false };
    assert_eq!(Some(format!("{read:?}")), general(text).map(|it| format!("{it:?}")), "{text}");
    true
}

const TYPICAL: &str = r#"{"id":"auction-1","cur":"USD","bidid":"r","seatbid":[{"seat":"s","group":0,
"bid":[{"id":"1","impid":"1","price":1.25,"adm":"<a href=\"https://x.example/?\u0026é\">\n</a>",
"nurl":"https://x.example/n?p=${AUCTION_PRICE}","burl":null,"lurl":"","cid":17,"adid":"a-1",
"adomain":["x.example","y.example"],"bundle":"com.x","crid":"c-1","cat":[],"cattax":6,
"attr":[1, 2],"language":"en","langb":"","dealid":"d","w":300,"h":250,"wratio":3,"hratio":0,
"dur":0,"mtype":1,"protocol":2,"apis":[7],"api":0,"iurl":"https://x.example/i.png",
"ext":{"a":[1,-2.5e3,true,false,null,{"b":{}}],"c":"d\\"}}]},{"bid":[]}],"nbr":2,"ext":{}}
"#;

#[test]
fn typical_responses_are_read() {
    for text in
        [TYPICAL, "{}", r#" { "seatbid" : [ ] } "#, r#"{"id":"x","seatbid":[{"bid":[{}]}]}"#]
    {
        assert!(is_read(text), "{text}");
    }
    let read = read(TYPICAL).unwrap();
    let bid = &read.seatbid.as_ref().unwrap()[0].bid[0];
    assert_eq!((bid.w, bid.dur, bid.burl, bid.cid), (Some(300), None, None, Some("17")));
    assert_eq!(
        bid.adm.map(str::len),
        Some(r#""<a href=\"https://x.example/?\u0026é\">\n</a>""#.len())
    );
}

/// Each is valid, but left to the general parser, or wrong.
#[test]
fn what_is_unusual_is_left() {
    let deep = format!(r#"{{"ext":{}{}}}"#, "[".repeat(17), "]".repeat(17));
    let many = format!(r#"{{"seatbid":[{{"bid":[{{"attr":[{}1]}}]}}]}}"#, "1,".repeat(32));
    for text in [
        "",
        "[]",
        "{} {}",
        "{",
        r#"{"id":"a\u0062"}"#,
        r#"{"i\u0064":"a"}"#,
        r#"{"id":7}"#,
        r#"{"id":null}"#,
        r#"{"id":"a","id":"b"}"#,
        r#"{"id":"a",}"#,
        r#"{"id" "a"}"#,
        "{\"id\":\"\t\"}",
        r#"{"nbr":01}"#,
        r#"{"nbr":1.}"#,
        r#"{"nbr":-}"#,
        r#"{"nbr":1e}"#,
        r#"{"nbr":+1}"#,
        r#"{"nbr":nul}"#,
        r#"{"ext":tru}"#,
        r#"{"ext":"\x"}"#,
        r#"{"ext":"\u12"}"#,
        r#"{"ext":"a\"#,
        "{\"ext\":\"\u{1}\"}",
        r#"{"seatbid":[{}]}"#,
        r#"{"seatbid":[{"bid":[7]}]}"#,
        r#"{"seatbid":[{"bid":[{"w":-1}]}]}"#,
        r#"{"seatbid":[{"bid":[{"w":300.0}]}]}"#,
        r#"{"seatbid":[{"bid":[{"w":1,"w":1}]}]}"#,
        r#"{"seatbid":[{"bid":[{"cat":["a",1]}]}]}"#,
        r#"{"seatbid":[{"bid":[],"group":256}]}"#,
        r#"{"seatbid":[{"bid":[{"adomain":"a"}]}]}"#,
        &deep,
        &many,
    ] {
        assert!(!is_read(text), "{text}");
    }
}

/// Values of any kind, right or wrong for their keys.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        4 => "\"[a-z<>/é ]{0,12}\"",
        1 => r#""([a-z]|\\n|\\"|\\\\|\\u00e9|\\ud83d|\\x|\\){0,6}""#,
        3 => "[0-9]{1,3}",
        1 => "-?[0-9]{1,12}([.][0-9]{0,3})?([eE][+-]?[0-9]{0,2})?",
        1 => select(vec!["null", "true", "false", "nul", ""]).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let list = proptest::collection::vec(inner.clone(), 0..4);
        let member = ("[a-z]{0,3}", inner).prop_map(|(key, value)| format!("\"{key}\":{value}"));
        let object = proptest::collection::vec(member, 0..4);
        prop_oneof![
            list.prop_map(|list| format!("[{}]", list.join(","))),
            object.prop_map(|members| format!("{{{}}}", members.join(" , "))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// A member of a typical response gets another value.
    #[test]
    fn members_of_any_kind_are_read_alike(value in value(), at: Index) {
        let starts: Vec<_> = TYPICAL.match_indices("\":").map(|(at, _)| at + 2).collect();
        let start = starts[at.index(starts.len())];
        let rest = serde_json::Deserializer::from_str(&TYPICAL[start..]);
        let mut rest = rest.into_iter::<serde_json::Value>();
        prop_assert!(rest.next().is_some_and(|value| value.is_ok()));
        let end = start + rest.byte_offset();
        is_read(&format!("{}{value}{}", &TYPICAL[..start], &TYPICAL[end..]));
    }

    /// Bytes are lost, or replaced.
    #[test]
    fn damaged_responses_are_read_alike(at: Index, lost in 0..3usize, more in "[{}\\[\\]\":,0-9a-z\\\\ \n\t]{0,2}") {
        let start = at.index(TYPICAL.len());
        let end = (start + lost).min(TYPICAL.len());
        if TYPICAL.is_char_boundary(start) && TYPICAL.is_char_boundary(end) {
            is_read(&format!("{}{more}{}", &TYPICAL[..start], &TYPICAL[end..]));
        }
    }
}
