//! The required content of notices, by kind, and their URLs.

use super::*;

/// A notice with one parameter replaced by `change`, or removed if it is empty.
fn facts(notice: DspNotice, change: &str) -> Option<NoticeContent> {
    let (key, _) = change.split_once('=').unwrap_or((change, ""));
    let parameters = [
        "imp=imp-1",
        "auction=a",
        "price=1.25",
        "price64=MS4yNQ",
        "cur=USD",
        "loss=102",
        "min=",
        "multiplier=",
        "seat=s",
        "offer=1250000",
    ];
    let kept = parameters.iter().filter(|pair| !pair.starts_with(&format!("{key}=")));
    let mut query: Vec<_> = kept.copied().collect();
    query.push(change);
    NoticeQuery::read(&format!("/win?{}", query.join("&"))).facts(notice, "USD")
}

#[test]
fn notices_say_what_their_kind_must() {
    let check = |change: &str, paid: bool, lost: bool| {
        let of = |notice| facts(notice, change).is_some();
        let got = [DspNotice::Win, DspNotice::Bill, DspNotice::View, DspNotice::Loss].map(of);
        assert_eq!(got, [paid, paid, paid, lost], "{change}");
    };
    check("", true, true);
    check("imp=", false, false);
    check("auction=", false, false);
    check("auction=%61%2F", true, true);
    check("auction=%6", false, false);
    check("auction=%zz", false, false);
    check("auction=%ff", false, false);
    check("auction=${AUCTION_ID}", false, false);
    check("seat=%24%7BAUCTION_SEAT_ID}", false, false);
    check("price=1.26", false, false); // Contradicts its base64.
    check("price=", false, false);
    check("price=-1", false, false);
    check("price64=MS4yNQ==", true, true);
    check("price64=MS4yNQ%3D%3D", true, true);
    check("price64=MS4yNq", false, false);
    check("price64=%21", false, false);
    check("cur=EUR", false, false);
    check("cur=", false, false);
    check("loss=", true, false);
    check("loss=x", false, false);
    check("min=0.5", true, true);
    check("min=much", false, false);
    check("multiplier=1.0", true, true);
    check("multiplier=x", false, false);
    check("offer=1249999", true, true);
    check("offer=", false, true);
}

#[test]
fn who_loses_need_not_learn_the_price() {
    let content = |query: &str| NoticeQuery::read(query).facts(DspNotice::Loss, "USD");
    let lost = "/loss?imp=1&auction=a&price=&price64=&cur=USD&loss=100&min=1.5&offer=1";
    assert_eq!(content(lost).map(|facts| facts.price_micros), Some(0));
    let won = NoticeQuery::read(lost).facts(DspNotice::Win, "USD");
    assert_eq!(won, None);
}

#[test]
fn prices_are_held_against_the_offer_and_kinds_apart() {
    let paid = facts(DspNotice::Win, "").expect("well-formed");
    assert_eq!((paid.price_micros, paid.is_overpriced), (1_250_000, false));
    assert!(facts(DspNotice::Win, "offer=1249999").expect("well-formed").is_overpriced);
    assert!(!facts(DspNotice::Loss, "offer=1249999").expect("well-formed").is_overpriced);
    assert_ne!(paid.key, facts(DspNotice::Bill, "").expect("well-formed").key);
    assert_ne!(paid.key, facts(DspNotice::Win, "imp=imp-2").expect("well-formed").key);
    assert_eq!(paid.key, facts(DspNotice::Win, "price64=MS4yNQ==").expect("well-formed").key);
}

#[test]
fn base64_is_read_in_either_alphabet() {
    for text in ["++//", "--__"] {
        assert_eq!(from_base64(text), Some(vec![0xfb, 0xef, 0xff]));
    }
    assert_eq!((from_base64(""), from_base64("+-==")), (Some(vec![]), None));
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut receiver = NoticeReceiver::new(NoticeOptions::default(), Recent::default());
    let (profile, counters) = (DspProfile::default(), NoticeCountersByKind::default());
    let seller = Seller { profile: &profile, seed: 1, origin: "http://dsp" };
    let mut call = |n: usize| {
        let target =
            format!("/win?imp=1&auction={n}&price=1&price64=MQ&cur=USD&loss=&offer=1000000");
        assert!(receiver.receive(DspNotice::Win, &target, seller, &counters).is_none());
        (receiver.seen.len(), receiver.order.len())
    };
    for n in 0..REMEMBERED_MAX + 10 {
        call(n);
    }
    assert_eq!(call(REMEMBERED_MAX + 9), (REMEMBERED_MAX, REMEMBERED_MAX)); // A duplicate.
    call(0); // Forgotten, so it counts again.
    let stats = counters.of(DspNotice::Win);
    let counted = (stats.duplicates.read(), stats.counted.read());
    assert_eq!(counted, (1, REMEMBERED_MAX as u64 + 11));
}
