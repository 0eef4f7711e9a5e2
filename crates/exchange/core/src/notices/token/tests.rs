//! Tokens open to what was sealed, and to nothing else.

use pacer_core::shard::token::{TOKEN_BYTES, TokenText};
use proptest::prelude::*;

use super::*;
use crate::fixtures::{cpm, currency};

const KEY: [u8; 32] = [7; 32];
const OTHER: [u8; 32] = [8; 32];

fn ring(keys: &[[u8; 32]]) -> KeyRing {
    KeyRing::new(keys).expect("the keys differ")
}

fn claims() -> Claims<'static> {
    Claims {
        kind: NoticeKind::Billing,
        auction_id: 0x0123_4567_89ab_cdef_0011_2233_4455_6677,
        imp: 3,
        bid: 70_000,
        dsp: "alpha".into(),
        seat: "a1".into(),
        imp_id: "é\"\n".into(),
        publisher: "".into(),
        paid: cpm("2.5"),
        paid_currency: currency("GBP"),
        net: cpm("1.25"),
        net_currency: Currency::USD,
        revenue: Nanos::new(u64::MAX),
        expires_unix_s: 1000,
        is_test: false,
        relays_markup: true,
        url: "https://dsp.example/b?t=${AUCTION_IMP_TS}".into(),
        reservation: None,
        node: None,
    }
}

fn reservation(number: u8) -> Reservation {
    let token = TokenText::from_bytes(&[number; TOKEN_BYTES]);
    Reservation { token, currency: currency("GBP") }
}

fn any_claims() -> impl Strategy<Value = Claims<'static>> {
    let text = |bytes_max: usize| {
        prop_oneof![
            "\\PC{0,40}",
            (0..=bytes_max).prop_map(|length| "x".repeat(length)),
            Just("y".repeat(bytes_max)),
        ]
    };
    let texts = (prop::array::uniform4(text(TEXT_BYTES_MAX)), text(URL_BYTES_MAX));
    let prices = (0..=Cpm::MAX.micros(), 0..=Cpm::MAX.micros(), any::<u64>());
    let id = (0usize..3, any::<u128>(), any::<u8>(), any::<u32>());
    let rest =
        (1..=u64::MAX, any::<bool>(), any::<bool>(), any::<Option<u8>>(), any::<Option<u32>>());
    (texts, prices, id, rest).prop_map(|((texts, url), prices, id, rest)| {
        let [dsp, seat, imp_id, publisher] = texts.map(Cow::Owned);
        Claims {
            kind: NoticeKind::ALL[id.0],
            auction_id: id.1,
            imp: id.2,
            bid: id.3,
            dsp,
            seat,
            imp_id,
            publisher,
            paid: Cpm::new(prices.0).unwrap(),
            net: Cpm::new(prices.1).unwrap(),
            revenue: Nanos::new(prices.2),
            expires_unix_s: rest.0,
            is_test: rest.1,
            relays_markup: rest.2,
            url: Cow::Owned(url),
            reservation: rest.3.map(reservation),
            node: rest.4,
            ..claims()
        }
    })
}

#[test]
fn a_token_says_what_was_sealed_until_it_expires() {
    let ring = ring(&[KEY]);
    let token = ring.seal(&claims()).unwrap();
    assert_eq!(ring.open(&token, 999), Ok(claims()));
    for now in [1000, 1001, u64::MAX] {
        assert_eq!(ring.open(&token, now), Err(BeaconTokenError::Expired));
    }
    let bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
    for secret in ["alpha", "dsp.example", "GBP"] {
        assert!(memchr::memmem::find(&bytes, secret.as_bytes()).is_none(), "{secret}");
    }
    assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
}

/// Byte for byte as sealed before nodes had numbers.
#[test]
fn a_token_without_a_node_is_as_it_was() {
    let plain = |claims: &Claims<'_>| encode(claims).expect("it fits");
    let (before, now) = (plain(&claims()), plain(&Claims { node: Some(9), ..claims() }));
    assert_eq!((before[0], now[0]), (RELAYS_MARKUP, RELAYS_MARKUP | NAMES_NODE));
    assert_eq!([&before[1..], &[0, 0, 0, 9]].concat(), now[1..]);
    assert_eq!(decode(&claims().id().0, &before), Some(claims()));
}

#[test]
fn keys_rotate() {
    let (old, new) = (ring(&[KEY]), ring(&[OTHER, KEY]));
    let token = old.seal(&claims()).unwrap();
    assert_eq!(new.open(&token, 0), Ok(claims()));
    let token = new.seal(&claims()).unwrap();
    assert_eq!(new.open(&token, 0), Ok(claims()));
    assert_eq!(old.open(&token, 0), Err(BeaconTokenError::UnknownKey));
    assert!(KeyRing::new(&[]).is_none());
    assert!(KeyRing::new(&[KEY, OTHER, KEY]).is_none());
    assert!(!format!("{new:?}").contains("8, 8"));
}

#[test]
fn what_is_too_long_is_not_sealed() {
    let ring = ring(&[KEY]);
    let long = |length: usize| Cow::Owned("x".repeat(length));
    type Change = fn(&mut Claims<'static>, Cow<'static, str>);
    let changes: [(Change, usize); 5] = [
        (|claims, text| claims.dsp = text, TEXT_BYTES_MAX),
        (|claims, text| claims.seat = text, TEXT_BYTES_MAX),
        (|claims, text| claims.imp_id = text, TEXT_BYTES_MAX),
        (|claims, text| claims.publisher = text, TEXT_BYTES_MAX),
        (|claims, text| claims.url = text, URL_BYTES_MAX),
    ];
    for (change, bytes_max) in changes {
        let with = |length| {
            let mut claims = claims();
            change(&mut claims, long(length));
            ring.seal(&claims)
        };
        assert!(with(bytes_max).is_some());
        assert!(with(bytes_max + 1).is_none());
        assert!(with(70_000).is_none());
    }
}

#[test]
fn what_is_no_token_is_malformed() {
    let ring = ring(&[KEY]);
    let token = ring.seal(&claims()).unwrap();
    let mut other_version = URL_SAFE_NO_PAD.decode(&token).unwrap();
    other_version[0] = 2;
    let least = HEAD_BYTES + FIXED_BYTES + TAG_BYTES;
    for text in [
        String::new(),
        "!".to_owned(),
        "é".to_owned(),
        format!("{token}="),
        format!(" {token}"),
        format!("{token}\n"),
        token.replace(['-', '_'], "+"),
        "A".repeat(TOKEN_BYTES_MAX + 4),
        URL_SAFE_NO_PAD.encode(vec![VERSION; least - 1]),
        URL_SAFE_NO_PAD.encode(other_version),
    ] {
        assert_eq!(ring.open(&text, 0), Err(BeaconTokenError::Malformed), "{text}");
    }
    let unknown = URL_SAFE_NO_PAD.encode(vec![VERSION; least]);
    assert_eq!(ring.open(&unknown, 0), Err(BeaconTokenError::UnknownKey));
}

/// The format is strict even with a valid key: one text per token.
#[test]
fn sealed_bytes_that_are_no_claims_are_malformed() {
    let ring = ring(&[KEY]);
    let plain = encode(&claims()).unwrap();
    let check = |nonce: [u8; NONCE_BYTES], plain: &[u8], want: Result<(), BeaconTokenError>| {
        let key = &ring.0[0];
        let head = [&[VERSION][..], &key.id].concat();
        let payload = Payload { msg: plain, aad: &head };
        let sealed = key.cipher.encrypt(&XNonce::from(nonce), payload).unwrap();
        let token = URL_SAFE_NO_PAD.encode([&head[..], &nonce, &sealed].concat());
        assert_eq!(ring.open(&token, 0).map(drop), want);
    };
    let id = claims().id().0;
    check(id, &plain, Ok(()));
    let with = |at: usize, byte: u8| {
        let mut id = id;
        id[at] = byte;
        id
    };
    for nonce in [with(20, 0), with(20, 4), with(22, 1), with(23, 1)] {
        check(nonce, &plain, Err(BeaconTokenError::Malformed));
    }
    let changed = |at: usize, byte: u8| {
        let mut plain = plain.clone();
        plain[at] = byte;
        plain
    };
    // Unknown flags, a missing node or reservation, a price too high, no currency, a truncated
    // text, invalid UTF-8.
    let first_text = FIXED_BYTES - 10;
    for plain in [
        changed(0, 0x10),
        changed(0, 0x80),
        changed(0, NAMES_NODE),
        changed(0, IS_RESERVED),
        changed(1, 0xff),
        changed(first_text - 1, b'd'),
        changed(first_text, 0xff),
        changed(first_text + 1, 0xff),
        changed(first_text + 2, 0xff),
        [&plain[..], &[0]].concat(),
        plain[..plain.len() - 1].to_vec(),
    ] {
        check(id, &plain, Err(BeaconTokenError::Malformed));
    }
    let reserved = encode(&Claims { reservation: Some(reservation(9)), ..claims() }).unwrap();
    check(id, &reserved, Ok(()));
    let mut without_currency = reserved.clone();
    *without_currency.last_mut().unwrap() = b'd';
    let mut without_flag = reserved.clone();
    without_flag[0] -= IS_RESERVED;
    for plain in [without_currency, without_flag, reserved[..reserved.len() - 1].to_vec()] {
        check(id, &plain, Err(BeaconTokenError::Malformed));
    }
}

/// As sealed by the release before reservations: tokens in use when a node is upgraded still count.
#[test]
fn tokens_of_before_reservations_open() {
    const GOLDEN: &str = concat!(
        "AYTfxj8BI0VniavN7wARIjNEVWZ3AAERcAIDAACWR776itEx0epf8rbb9sphUYLwj8j6BWxoOGdGQOu-SbCee9mZ",
        "Vstj6yZHsKUdCLzZboz6jC9R3ZOb3ewJPYfXr1mlNhu7ngNXnF96Z_PJ4kG527RzH-RT4hOClYWm7RUJFMg86AIx",
        "UqYEtNbHb6sVCEQbK6c",
    );
    assert_eq!(ring(&[KEY]).open(GOLDEN, 999), Ok(claims()));
    assert_eq!(ring(&[KEY]).seal(&claims()).as_deref(), Some(GOLDEN));
}

#[test]
fn the_reservation_is_sealed_behind_the_rest() {
    let with = Claims { reservation: Some(reservation(9)), ..claims() };
    let (plain, before) = (encode(&with).unwrap(), encode(&claims()).unwrap());
    assert_eq!(plain[0], before[0] | IS_RESERVED);
    let reservation = [&[9; TOKEN_BYTES][..], b"GBP"].concat();
    assert_eq!(plain[1..], [&before[1..], &reservation].concat());
    // The reservation does not change the id.
    assert_eq!(with.id(), claims().id());
}

#[test]
fn ids_differ_in_every_part() {
    let ids = [
        claims(),
        Claims { kind: NoticeKind::Win, ..claims() },
        Claims { kind: NoticeKind::Loss, ..claims() },
        Claims { auction_id: 1, ..claims() },
        Claims { imp: 4, ..claims() },
        Claims { bid: 70_001, ..claims() },
        Claims { bid: 70_000 + (1 << 16), ..claims() },
    ]
    .map(|claims| claims.id());
    for (index, id) in ids.iter().enumerate() {
        assert!(!ids[..index].contains(id), "{id:?}");
    }
    // Other claims do not change the id, or repeated calls would not be recognised.
    assert_eq!(Claims { url: "x".into(), ..claims() }.id(), ids[0]);
}

proptest! {
    #[test]
    fn what_is_sealed_opens(claims in any_claims()) {
        let ring = ring(&[KEY, OTHER]);
        let token = ring.seal(&claims).unwrap();
        prop_assert!(token.len() <= TOKEN_BYTES_MAX);
        prop_assert_eq!(ring.open(&token, claims.expires_unix_s - 1), Ok(claims));
    }

    #[test]
    fn any_change_is_refused(claims in any_claims(), at in any::<prop::sample::Index>(), bit in 0u32..8) {
        let ring = ring(&[KEY]);
        let token = ring.seal(&claims).unwrap();
        let refused = |text: &str| ring.open(text, 0).is_err();
        let mut bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
        let at_byte = at.index(bytes.len());
        bytes[at_byte] ^= 1 << bit;
        prop_assert!(refused(&URL_SAFE_NO_PAD.encode(&bytes)));
        bytes[at_byte] ^= 1 << bit;
        prop_assert!(refused(&URL_SAFE_NO_PAD.encode(&bytes[..at_byte])));
        prop_assert!(refused(&URL_SAFE_NO_PAD.encode([&bytes[..], &[bytes[at_byte]]].concat())));
        // Another spelling of the same bytes would pass for another token.
        let mut text = token.clone().into_bytes();
        let at_char = at.index(text.len());
        text[at_char] ^= 1 << bit;
        if let Ok(text) = std::str::from_utf8(&text) {
            prop_assert!(refused(text));
        }
        prop_assert!(refused(&token[..at_char]));
        let mut other = KeyRing::new(&[OTHER]).unwrap();
        prop_assert_eq!(other.open(&token, 0), Err(BeaconTokenError::UnknownKey));
        other.0[0].id = ring.0[0].id;
        prop_assert_eq!(other.open(&token, 0), Err(BeaconTokenError::Forged));
    }

    #[test]
    fn any_text_is_refused(text in "[A-Za-z0-9_-]{0,400}|\\PC{0,40}") {
        prop_assert!(ring(&[KEY]).open(&text, 0).is_err());
    }
}
