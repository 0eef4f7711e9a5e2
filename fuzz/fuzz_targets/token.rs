//! Any text as a beacon token, and any bytes after a token's head: refused. A sealed token opens to
//! its content.
#![no_main]

use std::sync::LazyLock;

use exchange_core::{BeaconTokenError, Claims, KeyRing, NoticeKind, Reservation, TOKEN_BYTES_MAX};
use libfuzzer_sys::fuzz_target;
use pacer_core::shard::token::TokenText;
use units::{Cpm, Currency, Nanos};

static KEYS: LazyLock<KeyRing> =
    LazyLock::new(|| KeyRing::new(&[[1; 32], [2; 32]]).expect("the keys differ"));

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    assert_ne!(KEYS.open(text, 0).map(drop), Ok(()));
    let claims = Claims {
        kind: NoticeKind::Billing,
        auction_id: data.len() as u128,
        imp: 1,
        bid: 2,
        dsp: "a".into(),
        seat: "512".into(),
        imp_id: text.into(),
        publisher: "".into(),
        paid: Cpm::MAX,
        paid_currency: Currency::USD,
        net: Cpm::ZERO,
        net_currency: Currency::USD,
        revenue: Nanos::new(1),
        expires_unix_s: 10,
        is_test: false,
        relays_markup: false,
        url: text.into(),
        reservation: data.first_chunk().map(|bytes| Reservation {
            token: TokenText::from_bytes(bytes),
            currency: Currency::USD,
        }),
        node: data.first().map(|byte| u32::from(*byte)),
    };
    // Too long for a token.
    let Some(token) = KEYS.seal(&claims) else { return };
    assert!(token.len() <= TOKEN_BYTES_MAX);
    assert_eq!(KEYS.open(&token, 9), Ok(claims));
    assert_eq!(KEYS.open(&token, 10), Err(BeaconTokenError::Expired));
    // The text as the sealed part of a token.
    let head = &token[..40];
    assert_ne!(KEYS.open(&[head, text].concat(), 0).map(drop), Ok(()));
});
