//! Reservations are in the beacons that bill or release them, and the conclusion says which.

use pacer_core::shard::token::{TOKEN_BYTES, TokenText};
use units::Currency;

use super::*;

fn reservation(number: u8) -> Reservation {
    let token = TokenText::from_bytes(&[number; TOKEN_BYTES]);
    Reservation { token, currency: Currency::USD }
}

/// Two sold bids if both may be, with these reservations.
fn sold(mode: NoticeMode, reserved: &[usize]) -> SampleAuction {
    let number = |bid: &usize| (*bid, reservation(u8::try_from(*bid).expect("few")));
    let rehearsal = two(mode, json!({}));
    SampleAuction { reserved: reserved.iter().map(number).collect(), ..rehearsal }
}

fn carried(bid: &Value) -> Vec<(NoticeKind, Option<Reservation>)> {
    let texts = ["adm", "nurl", "burl", "lurl"].into_iter().filter_map(|key| bid[key].as_str());
    let claims = texts.flat_map(tokens);
    claims.map(|claims| (claims.kind, claims.reservation)).collect()
}

#[test]
fn billing_and_loss_carry_what_is_reserved_for_their_bid() {
    use NoticeKind::{Billing, Loss, Win};
    let of_bid = |number| {
        let some = Some(reservation(number));
        vec![(Win, None), (Billing, some), (Loss, some)]
    };
    let none = vec![(Win, None), (Billing, None), (Loss, None)];
    let check = |reserved: &[usize], want: [&Vec<_>; 2]| {
        let (bids, conclusion) = sold(NoticeMode::Upstream, reserved).returning_all().bids();
        assert_eq!(bids.iter().map(carried).collect::<Vec<_>>(), want.map(Clone::clone));
        assert_eq!(conclusion.billable, reserved);
    };
    check(&[], [&none, &none]);
    check(&[0], [&of_bid(0), &none]);
    check(&[1], [&none, &of_bid(1)]);
    check(&[0, 1], [&of_bid(0), &of_bid(1)]);
    let (bids, conclusion) = sold(NoticeMode::Upstream, &[0, 1]).bids();
    assert_eq!(bids.iter().map(carried).collect::<Vec<_>>(), [of_bid(0)]);
    assert_eq!(conclusion.billable, [0]);
    let (bids, conclusion) = sold(NoticeMode::Final, &[0]).bids();
    assert_eq!(carried(&bids[0]), [(Billing, Some(reservation(0)))]);
    assert_eq!(conclusion.billable, [0]);
}

/// Our caller must settle or release these itself.
#[test]
fn what_no_beacon_of_ours_bills_is_not_billable() {
    #[track_caller]
    fn check(rehearsal: &SampleAuction, with_key: bool) {
        let fetched = with_key.then_some(&[][..]);
        let conclusion = rehearsal.conclude_with(fetched);
        let response = conclusion.response.expect("it is sold all the same");
        assert_eq!(conclusion.billable, [0; 0]);
        let are_none = tokens(&response).iter().all(|claims| claims.reservation.is_none());
        assert!(are_none, "{response}");
    }
    check(&sold(NoticeMode::PassThrough, &[0]), true);
    check(&sold(NoticeMode::Upstream, &[0]), false);
    for mode in [NoticeMode::Final, NoticeMode::Upstream] {
        let mut test = sold(mode, &[0]);
        test.request = request(json!({ "at": 1, "test": 1 }));
        check(&test, true);
        let long = "x".repeat(300);
        let mut unsealed = sold(mode, &[0]);
        for (_, body) in &mut unsealed.bodies {
            *body = body.replace(r#""impid":"1""#, &format!(r#""impid":"{long}""#));
        }
        unsealed.request = request(json!({ "imp": [imp(json!({ "id": long }))] }));
        check(&unsealed, true);
    }
    for adm in [json!(" "), Value::Null] {
        let mut no_beacon = two(NoticeMode::Final, json!({ "adm": adm, "adid": "x" }));
        no_beacon.reserved = vec![(0, reservation(0))];
        check(&no_beacon, true);
    }
}
