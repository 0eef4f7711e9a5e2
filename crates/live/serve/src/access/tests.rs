//! Tests of `access`: who is trusted, who needs a token, who is refused.

use hyper::Request;
use runtime::config::Secret;

use super::*;
use crate::config::SigningKey;
use live_core::rights::LiveClaims;
use std::time::Duration;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn rules(trust_loopback: bool) -> AccessRules {
    let keys = [SigningKey { id: "key-1".to_owned(), secret: Secret::new(SECRET) }];
    let origins = vec!["https://floor.example".to_owned()];
    AccessRules { tokens: TokenVerifier::new(&keys), trust_loopback, origins }
}

/// What a request may do: `all`, the subject of its token, `token` if it needs one, or the code of
/// its refusal.
fn outcome(rules: &AccessRules, peer: &str, headers: &[(&str, &str)]) -> String {
    let mut request = Request::builder().uri("/feed");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (head, ()) = request.body(()).unwrap().into_parts();
    let from = RequestOrigin { head: &head, peer: peer.parse().unwrap() };
    match rules.rights(&from, None) {
        Ok(Some(rights)) if rights.subject.is_empty() => "all".to_owned(),
        Ok(Some(rights)) => rights.subject,
        Ok(None) => "token".to_owned(),
        Err(error) => error.code.label().to_owned(),
    }
}

#[test]
fn requests_are_trusted_by_token_or_by_being_local() {
    let claims = LiveClaims { sub: "acme".to_owned(), ..LiveClaims::default() };
    let key = SigningKey { id: "key-1".to_owned(), secret: Secret::new(SECRET) };
    let token = sign_token(&key, claims, Duration::from_secs(60)).unwrap();
    let (bearer, basic) = (format!("Bearer {token}"), format!("Basic {token}"));
    let lower = format!("bearer {token}");
    let local = ("host", "localhost:7200");
    let own = ("origin", "http://localhost:7200");
    type Row<'r> = (bool, &'r str, &'r [(&'r str, &'r str)], &'r str);
    let rows: [Row<'_>; 22] = [
        //trusting  peer       headers                                        outcome
        (true, "127.0.0.1", &[local], "all"),
        (true, "::1", &[("host", "[::1]:7200")], "all"),
        (true, "127.0.0.1", &[("host", "127.0.0.1")], "all"),
        (false, "127.0.0.1", &[local], "token"),
        (true, "10.0.0.7", &[local], "token"),
        // Behind a proxy everyone is local.
        (true, "127.0.0.1", &[local, ("x-forwarded-for", "8.8.8.8")], "token"),
        (true, "127.0.0.1", &[local, ("forwarded", "for=8.8.8.8")], "token"),
        (true, "127.0.0.1", &[local, ("via", "1.1 proxy")], "token"),
        // A rebound name.
        (true, "127.0.0.1", &[("host", "evil.example")], "forbidden"),
        (true, "127.0.0.1", &[("host", "10.0.0.1")], "forbidden"),
        (true, "127.0.0.1", &[], "forbidden"),
        // Pages.
        (true, "127.0.0.1", &[local, own], "all"),
        (true, "127.0.0.1", &[local, ("origin", "http://evil.example")], "forbidden"),
        (true, "127.0.0.1", &[local, ("origin", "null")], "forbidden"),
        (true, "127.0.0.1", &[local, ("origin", "https://Floor.example")], "all"),
        (false, "10.0.0.7", &[("host", "x"), ("origin", "https://floor.example")], "token"),
        // Tokens.
        (false, "10.0.0.7", &[("authorization", &bearer)], "acme"),
        (false, "10.0.0.7", &[("authorization", &lower)], "acme"),
        (true, "127.0.0.1", &[local, ("authorization", &bearer)], "acme"),
        (true, "127.0.0.1", &[local, ("authorization", "Bearer x")], "bad_token"),
        (true, "127.0.0.1", &[local, ("authorization", &basic)], "bad_token"),
        (
            false,
            "10.0.0.7",
            &[("authorization", &bearer), ("host", "x"), ("origin", "https://y")],
            "forbidden",
        ),
    ];
    for (trusting, peer, headers, want) in rows {
        assert_eq!(outcome(&rules(trusting), peer, headers), want, "{trusting} {peer} {headers:?}");
    }
}
