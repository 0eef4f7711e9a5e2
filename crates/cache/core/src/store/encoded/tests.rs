//! Resources and purges as bytes and back.

use http::Method;
use http::header::{AGE, CACHE_CONTROL, ETAG, SET_COOKIE, VARY};

use super::*;
use crate::rules::control::RequestControl;
use crate::rules::freshness::ExchangeTimes;
use crate::rules::reuse::ReuseRules;
use crate::store::answer::{AnswerContext, CacheAnswer, ClientRequest};
use crate::store::purges::Purges;
use crate::store::response::{LifetimeRules, ReceivedResponse};

const KEY: &str = "http://one/x";

fn headers(fields: &[(HeaderName, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(name, HeaderValue::from_static(value));
    }
    headers
}

fn stored(pieces: Vec<Bytes>, language: &'static str) -> (StoredResponse, HeaderMap) {
    let request = headers(&[(http::header::ACCEPT_LANGUAGE, language)]);
    let response = headers(&[
        (CACHE_CONTROL, "max-age=60, stale-if-error=5, no-cache=\"set-cookie\""),
        (VARY, "accept-language, x-absent"),
        (ETAG, "\"e\""),
        (SET_COOKIE, "a=1"),
        (SET_COOKIE, "b=2"),
        (AGE, "7"),
        (HeaderName::from_static("surrogate-key"), "one two"),
    ]);
    let received = ReceivedResponse {
        status: StatusCode::OK,
        headers: &response,
        control: &ResponseControl::of(&response, &[]),
        times: ExchangeTimes { requested: UnixSeconds(1_000), received: UnixSeconds(1_001) },
        purged_through: PurgeNumber(3),
    };
    let rules = LifetimeRules::default();
    let stored = StoredResponse::new(&received, &request, StoredBody::new(pieces), rules).unwrap();
    (stored, request)
}

/// All that a client sees.
fn answers(resource: &Resource, language: &'static str) -> String {
    let request = headers(&[(http::header::ACCEPT_LANGUAGE, language)]);
    let client = ClientRequest {
        method: &Method::GET,
        headers: &request,
        control: &RequestControl::default(),
    };
    let purges = Purges::after(PurgeNumber(3));
    [1_010, 1_053, 1_057, 1_070]
        .map(|now| {
            let context = AnswerContext {
                now: UnixSeconds(now),
                rules: ReuseRules::default(),
                boundary: "b",
                name: "cache",
                purges: purges.of(KEY),
            };
            match resource.answer(client, context, &mut bytes::BytesMut::new()) {
                CacheAnswer::Ready(answer) => format!("{answer:?}"),
                other => format!("{other:?}"),
            }
        })
        .join("\n")
}

#[test]
fn a_decoded_resource_answers_as_the_encoded_one() {
    let large = vec![Bytes::from(vec![b'a'; COPIED_BYTES_MAX]), Bytes::from_static(b"b")];
    let mut resource = Resource::default();
    for (pieces, language) in [(vec![Bytes::from_static(b"body")], "en"), (large, "fr")] {
        let (response, request) = stored(pieces, language);
        resource.put(response, &request, 16);
    }
    resource.responses[1].is_invalidated = true;
    let bytes = Bytes::from(resource.encode(KEY));
    let (key, decoded) = Resource::decode(bytes, &[]).unwrap();
    assert_eq!(key, KEY);
    for language in ["en", "fr", "de"] {
        // Shared bodies differ in their pieces.
        let pieces = |text: String| text.replace(", b\"b\"]", "]").replace("ab\"", "a\"");
        assert_eq!(
            pieces(answers(&decoded, language)),
            pieces(answers(&resource, language)),
            "{language}"
        );
    }
    for (one, other) in resource.responses.iter().zip(&decoded.responses) {
        assert_eq!(one.body.length(), other.body.length());
        assert_eq!(one.surrogate_keys, other.surrogate_keys);
        assert_eq!(one.control, other.control);
        assert_eq!(one.purged_through, other.purged_through);
    }
}

#[test]
fn bytes_that_are_no_resource_are_refused() {
    let (response, request) = stored(vec![Bytes::from_static(b"body")], "en");
    let mut resource = Resource::default();
    resource.put(response, &request, 16);
    let encoded = |change: fn(&mut EncodedResponse)| {
        let mut response = encoded_response(&resource.responses[0]);
        change(&mut response);
        let bytes = EncodedResource { key: KEY.into(), responses: vec![response] }.encode_to_vec();
        Resource::decode(bytes.into(), &[])
    };
    assert!(encoded(|_| ()).is_some());
    assert!(encoded(|response| response.status = 99).is_none());
    assert!(encoded(|response| response.status = 1 << 20).is_none());
    assert!(encoded(|response| response.head[0].name = Bytes::from_static(b"a b")).is_none());
    assert!(encoded(|response| response.head[0].value = None).is_none());
    assert!(encoded(|response| response.head[0].value = Some("a\nb".into())).is_none());
    assert!(encoded(|response| response.variant[0].name = Bytes::new()).is_none());
    let bytes = resource.encode(KEY);
    assert!(Resource::decode(Bytes::copy_from_slice(&bytes[..bytes.len() - 1]), &[]).is_none());
}

#[test]
fn purges_are_decoded_as_they_were() {
    let scopes = [
        PurgeScope::Key(CacheKey::written(KEY)),
        PurgeScope::Prefix("".into()),
        PurgeScope::SurrogateKey("a".into()),
    ];
    for scope in scopes {
        for effect in [PurgeEffect::Gone, PurgeEffect::Stale(UnixSeconds(0))] {
            let purge = Purge { scope: scope.clone(), effect };
            assert_eq!(Purge::decode(&purge.encode()), Some(purge));
        }
    }
    assert_eq!(Purge::decode(b""), None);
}
