//! Tests of `tokens`: good ones, and each way to be refused.

use runtime::config::Secret;

use super::*;

fn key(id: &str, secret: &str) -> SigningKey {
    SigningKey { id: id.to_owned(), secret: Secret::new(secret) }
}

fn claims() -> LiveClaims {
    LiveClaims {
        sub: "acme".to_owned(),
        seats: vec!["dsp-1/acme".to_owned()],
        ..LiveClaims::default()
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn tokens_of_every_key_are_accepted() {
    let (old, new) = (key("old", &"o".repeat(32)), key("new", &"n".repeat(32)));
    let verifier = TokenVerifier::new(&[old.clone(), new.clone()]);
    for key in [&old, &new] {
        let token = sign_token(key, claims(), HOUR).unwrap();
        let rights = verifier.verify(&token).unwrap();
        assert_eq!(rights.subject, "acme");
        let left = rights.expires_s.unwrap() - unix_ms() / 1000;
        assert!((3_590..=3_600).contains(&left), "{left}");
    }
    // Another issuer need not name a key.
    let secret = EncodingKey::from_secret("n".repeat(32).as_bytes());
    let claims = LiveClaims { exp: u64::MAX / 2, ..claims() };
    let token = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &secret).unwrap();
    assert!(verifier.verify(&token).is_ok());
}

#[test]
fn other_tokens_are_refused() {
    let own = key("key-1", &"s".repeat(32));
    let verifier = TokenVerifier::new(std::slice::from_ref(&own));
    #[track_caller]
    fn check(verifier: &TokenVerifier, token: &str, want: &str) {
        let error = verifier.verify(token).unwrap_err();
        assert_eq!((error.code, error.field), (LiveErrorCode::BadToken, Some("token")));
        assert!(error.message.contains(want), "{}", error.message);
    }
    let good = sign_token(&own, claims(), HOUR).unwrap();
    check(&verifier, "", "no JSON Web Token");
    check(&verifier, "a.b.c", "no JSON Web Token");
    check(&verifier, &"a".repeat(TOKEN_BYTES_MAX + 1), "longer than 8 KiB");
    check(&verifier, &good[..good.len() - 2], "no JSON Web Token");
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let first = if signature.starts_with('a') { 'b' } else { 'a' };
    let altered = format!("{signed}.{first}{}", &signature[1..]);
    check(&verifier, &altered, "no key of this server");
    let foreign = key("key-1", &"f".repeat(32));
    check(&verifier, &sign_token(&foreign, claims(), HOUR).unwrap(), "no key of this server");
    let renamed = key("key-2", &"s".repeat(32));
    check(&verifier, &sign_token(&renamed, claims(), HOUR).unwrap(), "no key of this server");
    check(&verifier, &sign_token(&own, claims(), Duration::ZERO).unwrap(), "has expired");

    let secret = EncodingKey::from_secret(own.secret.expose().as_bytes());
    let longer = jsonwebtoken::encode(&Header::new(Algorithm::HS384), &claims(), &secret).unwrap();
    check(&verifier, &longer, "not signed with HS256");
    let unknown = serde_json::json!({ "sub": "a", "exp": u64::MAX / 2, "admin": true });
    let token = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &unknown, &secret).unwrap();
    check(&verifier, &token, "claims are wrong");
    let endless = serde_json::json!({ "sub": "a" });
    let token = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &endless, &secret).unwrap();
    check(&verifier, &token, "wrong");
    // `{"alg":"none"}` and no signature.
    check(&verifier, "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.", "no JSON Web Token");
}
