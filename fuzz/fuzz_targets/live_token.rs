//! Any text as a token of the live floor: refused with a short message, never taken, because nobody
//! has the key; and any claims, signed: taken with the rights that they name, or refused.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use live_serve::testing::token_rights;
use live_serve::{LiveClaims, SigningKey, sign_token};
use runtime::config::Secret;

const MESSAGE_BYTES_MAX: usize = 1024;

fuzz_target!(|text: &str| {
    let secret = Secret::new("0123456789abcdef0123456789abcdef");
    let keys = [SigningKey { id: "k".to_owned(), secret }];
    let refused = token_rights(&keys, text).expect_err("nobody has the key");
    assert!(refused.message.len() <= MESSAGE_BYTES_MAX);

    let Ok(claims) = serde_json::from_str::<LiveClaims>(text) else { return };
    let token =
        sign_token(&keys[0], claims.clone(), Duration::from_secs(60)).expect("it is signed");
    match token_rights(&keys, &token) {
        Ok(rights) => {
            assert_eq!(rights.subject, claims.sub);
            assert_eq!(rights.is_operator, claims.operator);
            let can_bid = claims.bidder.is_some() && claims.account.is_some();
            assert_eq!(rights.bidder.is_some(), can_bid);
        }
        Err(refused) => assert!(token.len() > 8 << 10, "{refused}"),
    }
});
