//! The kinds of answers, and how refusals are quoted.

use super::*;

#[test]
fn answers_are_told_apart() {
    let check = |status: u16, body: &str, want: Result<AnswerKind, &str>| {
        let status = StatusCode::from_u16(status).expect("a status");
        match (judge(status, body.as_bytes(), "a"), want) {
            (AnswerKind::Invalid(reason), Err(part)) => assert!(reason.contains(part), "{reason}"),
            (got, want) => assert_eq!(Ok(got), want, "{body}"),
        }
    };
    let bids = |bids, price_micros| Ok(AnswerKind::Bids { bids, price_micros });
    check(200, r#"{"id":"a","seatbid":[{"bid":[{"price":1.25,"x":{}}]}]}"#, bids(1, 1_250_000));
    check(
        200,
        r#"{"seatbid":[{"bid":[{"price":1}]},{"bid":[{"price":2.5e-1}]}],"id":"\u0061"}"#,
        bids(2, 1_250_000),
    );
    check(200, r#"{"id":"a","nbr":8}"#, Ok(AnswerKind::Nbr));
    check(200, r#"{"id":"a","seatbid":[],"nbr":0}"#, Ok(AnswerKind::Nbr));
    check(204, "", Ok(AnswerKind::NoBid));
    check(400, "x", Ok(AnswerKind::ClientError));
    check(503, "", Ok(AnswerKind::ServerError));
    check(302, "", Err("302"));
    check(200, "", Err("no bid response"));
    check(200, "[]", Err("no bid response"));
    check(200, r#"{"id":"a"}"#, Err("neither"));
    check(200, r#"{"id":"a","seatbid":[{"bid":[]}]}"#, Err("neither"));
    check(200, r#"{"id":"b","nbr":1}"#, Err("`b`"));
    check(200, r#"{"id":"a","seatbid":[{"bid":[{"price":-1}]}]}"#, Err("`-1`"));
    check(200, r#"{"id":"a","seatbid":[{"bid":[{"price":"1"}]}]}"#, Err("not a price"));
    check(200, r#"{"id":"a","seatbid":[{"bid":[{}]}]}"#, Err("price"));
}

#[test]
fn refusals_are_quoted_on_one_line_and_cut() {
    let quote = |body: &[u8]| {
        let (kind, body) = (AnswerKind::ClientError, Bytes::copy_from_slice(body));
        let id = RequestId::new(0, 0);
        ExchangeAnswer { kind, status: StatusCode::NOT_FOUND, body, id }.quote()
    };
    assert_eq!(quote(b"a\nbody "), "status 404 Not Found: a body");
    assert_eq!(quote(b""), "status 404 Not Found, without a body");
    let long = quote(&[b'x'; 2 * QUOTE_BYTES_MAX]);
    assert!(long.ends_with("x…") && long.len() < QUOTE_BYTES_MAX + 50, "{long}");
}
