//! Tests of `rights`.

use super::*;

fn rights(seats: &[&str], topics: &[&str], publish: &[&str]) -> LiveRights {
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    let (seats, topics, publish) = (texts(seats), texts(topics), texts(publish));
    LiveRights::of(LiveClaims { exp: 100, seats, topics, publish, ..LiveClaims::default() })
}

#[test]
fn a_token_grants_what_it_names() {
    let of = |seats: &[&str]| {
        Some(TopicScope::Seats(seats.iter().map(|&seat| seat.to_owned()).collect()))
    };
    let whole = || Some(TopicScope::Whole);
    type Row<'r> = (&'r [&'r str], &'r [&'r str], &'r str, Option<TopicScope>);
    let rows: [Row<'_>; 10] = [
        //seats            topics        topic       scope
        (&[], &[], "auctions", None),
        (&[], &["auctions"], "auctions", whole()),
        (&[], &["auctions"], "wins", None),
        (&[], &["*"], "system", whole()),
        (&[], &["*"], "news", whole()),
        (&["b/y", "a", "b/y"], &["wins"], "fates", of(&["a", "b/y"])),
        (&["a"], &["fates"], "fates", whole()),
        (&["a"], &[], "auctions", None),
        (&["a"], &[], "wins", None),
        (&["a"], &[], "deals", None),
    ];
    for (seats, topics, topic, want) in rows {
        assert_eq!(rights(seats, topics, &[]).scope(&TopicName::of(topic)), want, "{topic}");
    }
}

#[test]
fn a_scope_has_seats_by_their_whole_names() {
    let scope = TopicScope::Seats(vec!["a".to_owned(), "b/y".to_owned(), "c/".to_owned()]);
    for (dsp, seat, want) in [
        ("a", "x", true),
        ("a", "", true),
        ("aa", "x", false),
        ("b", "y", true),
        ("b", "yy", false),
        ("b", "", false),
        ("c", "", true),
        ("c", "x", false),
        ("", "a", false),
    ] {
        assert_eq!(scope.has_seat(dsp, seat), want, "{dsp}/{seat}");
        assert!(TopicScope::Whole.has_seat(dsp, seat));
    }
}

#[test]
fn rights_end_with_their_token() {
    let token = rights(&[], &[], &["news"]);
    assert!(!token.is_expired(99) && token.is_expired(100));
    assert!(token.may_publish("news") && !token.may_publish("olds"));
    assert!(!LiveRights::local().is_expired(u64::MAX) && LiveRights::local().may_publish("x"));
}
