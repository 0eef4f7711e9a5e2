//! What enrichments cost an auction in allocations.

use std::sync::Arc;
use std::time::Duration;

use exchange_core::{
    Auction, Enrichment, EnrichmentPlace, KnownData, Market, RequestValue, outbound,
};
use faults::process::isolated;
use stats_alloc::Region;

use crate::ALLOCATOR;
use crate::record::market;

fn enrichment(value: RequestValue, place: EnrichmentPlace) -> Enrichment {
    Enrichment {
        name: value.label().into(),
        value,
        key: "key".into(),
        fields: vec!["key.a".into()],
        place,
        is_required: false,
        stale: Duration::ZERO,
        load: None,
    }
}

/// Allocations and reallocations of two parts of an auction's work: the enrichments, and the edits of
/// the request.
fn allocations(market: &Market, text: &Arc<str>) -> [usize; 2] {
    let body = r#"{"id":"r","imp":[{"id":"1","banner":{}}],"user":{"id":"u"},"site":{"page":"p"},"device":{"ip":"192.0.2.7"}}"#;
    let request = openrtb::parse_request(body).expect("it is valid");
    let auction = Auction::new("a", &request, market).expect("it can be held");
    let mut value = String::with_capacity(64);
    let region = Region::new(ALLOCATOR);
    let auction = auction.enriched(body, &mut value, |_, _| {
        Ok(KnownData { text: Some(Arc::clone(text)), age: Duration::ZERO, is_stale: false })
    });
    let enriched = region.change();
    assert!(auction.enrichments().iter().all(|it| it.outcome.is_added()));
    let region = Region::new(ALLOCATOR);
    let outbound = outbound(&auction, body);
    let edited = region.change();
    drop(outbound);
    [enriched, edited].map(|change| change.allocations + change.reallocations)
}

#[test]
fn three_enrichments_cost_one_list() {
    isolated(|| {
        let text: Arc<str> = format!("\"{}\":1", "x".repeat(1_000)).into();
        let without = market();
        let enrichments = vec![
            enrichment(RequestValue::UserId, EnrichmentPlace::UserData),
            enrichment(RequestValue::Page, EnrichmentPlace::ContentData),
            enrichment(RequestValue::IpPrefix, EnrichmentPlace::Ext),
        ];
        let with = Market { enrichments, ..market() };
        let [[none, usual], [list, edited]] =
            [allocations(&without, &text), allocations(&with, &text)];
        assert_eq!((none, list), (0, 1));
        assert_eq!(edited, usual, "the edits have room");
    });
}
