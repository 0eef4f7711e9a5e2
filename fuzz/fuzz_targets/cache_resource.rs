//! Any bytes as what the cache's disk has of a key: no resource, or one that answers requests. And as a
//! purge.
#![no_main]

use bytes::{Bytes, BytesMut};
use cache_core::fields::dates::UnixSeconds;
use cache_core::rules::control::RequestControl;
use cache_core::rules::reuse::ReuseRules;
use cache_core::store::answer::{AnswerContext, ClientRequest};
use cache_core::store::purges::{Purge, PurgeNumber, Purges};
use cache_core::store::response::Resource;
use http::header::{HeaderName, RANGE};
use http::{HeaderMap, HeaderValue, Method};
use libfuzzer_sys::fuzz_target;

static TARGETS: [HeaderName; 1] = [HeaderName::from_static("cdn-cache-control")];

fuzz_target!(|input: &[u8]| {
    if let Some(purge) = Purge::decode(input) {
        assert_eq!(Purge::decode(&purge.encode()), Some(purge));
    }
    let Some((key, resource)) = Resource::decode(Bytes::copy_from_slice(input), &TARGETS) else {
        return;
    };
    let encoded = resource.encode(&key);
    let (same_key, same) = Resource::decode(encoded.into(), &TARGETS).expect("it was a resource");
    assert_eq!((same_key, same.responses().len()), (key.clone(), resource.responses().len()));
    let purges = Purges::after(PurgeNumber(1));
    let mut headers = HeaderMap::new();
    for range in ["bytes=0-0", "bytes=1-2,5-"] {
        for method in [Method::GET, Method::HEAD] {
            let context = AnswerContext {
                now: UnixSeconds(1_700_000_000),
                rules: ReuseRules { obeys_requests: true, ..ReuseRules::default() },
                boundary: "boundary",
                name: "fuzz",
                purges: purges.of(&key),
            };
            let control = RequestControl::of(&headers);
            let request = ClientRequest { method: &method, headers: &headers, control: &control };
            resource.answer(request, context, &mut BytesMut::new());
        }
        headers.insert(RANGE, HeaderValue::from_static(range));
    }
});
