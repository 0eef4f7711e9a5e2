//! What is added to requests is recorded, and replays know it.

use openrtb::OutboundView;

use super::*;
use crate::asking::outbound::outbound;
use crate::auction::enriched::{EnrichmentOutcome, KnownData};
use crate::market::enrichment::{
    ENRICHMENT_BYTES_MAX, ENRICHMENTS_MAX, Enrichment, EnrichmentPlace, RequestValue,
};
use crate::record::auction::EnrichmentResult;

/// What is known of an enrichment: of the first something, of the second nothing, of others unknown.
pub(super) fn known(at: usize) -> Result<KnownData, EnrichmentOutcome> {
    let texts = [Some(r#"{"name":"a","segment":[{"id":"1"}]}"#.into()), None];
    let text = texts.get(at).ok_or(EnrichmentOutcome::Unknown)?.clone();
    Ok(KnownData { text, age: Duration::from_millis(1234), is_stale: true })
}

fn case(required: Option<usize>) -> Case {
    let mut case = Case::of_one_bid();
    case.request = case.request.replacen('{', r#"{"user":{"id":"u"},"#, 1);
    let enrichment = |at: usize| Enrichment {
        name: format!("e{at}").into(),
        value: RequestValue::UserId,
        key: "user".into(),
        fields: vec!["user.a".into()],
        place: EnrichmentPlace::UserData,
        is_required: Some(at) == required,
        stale: Duration::ZERO,
        load: None,
    };
    case.market.enrichments = (0..3).map(enrichment).collect();
    case
}

#[test]
fn a_request_for_dsps_is_made_again_from_the_record() {
    let case = case(Some(0));
    let held = held_with(&case, &|_| ());
    let record = AuctionRecord::decode(&held.record).expect("it was just written");
    let none = |outcome| EnrichmentResult { outcome, text: "", age_ms: 0 };
    let text = r#"{"name":"a","segment":[{"id":"1"}]}"#;
    assert_eq!(
        record.enrichments,
        [
            EnrichmentResult { outcome: EnrichmentOutcome::Stale, text, age_ms: 1234 },
            EnrichmentResult { age_ms: 1234, ..none(EnrichmentOutcome::Empty) },
            none(EnrichmentOutcome::Unknown),
        ]
    );
    assert_eq!(replay(&record, &held.generation), Ok(ReplayOutcome::Same));
    let request = openrtb::parse_request(&case.request).expect("it is valid");
    let sent = |find: &dyn Fn(usize) -> Result<KnownData, EnrichmentOutcome>| {
        let auction = Auction::new(AUCTION_ID, &request, &case.market).expect("it can be held");
        let auction = auction.enriched(&case.request, &mut String::new(), |at, _| find(at));
        let view = OutboundView {
            imps: !0,
            deals: !0,
            tmax: "95",
            cur: "[]",
            buyeruid: None,
            bidder: None,
            is_limited: false,
        };
        outbound(&auction, &case.request).to_text(&view)
    };
    let recorded = |at: usize| {
        let EnrichmentResult { outcome, text, .. } = record.enrichments[at];
        let text = outcome.is_added().then(|| text.into());
        Ok(KnownData { text, age: Duration::ZERO, is_stale: false })
    };
    assert_eq!(sent(&recorded), sent(&known));
    assert!(sent(&recorded).contains(text));
}

/// Damaged, or held by other rules than those of its generation.
#[test]
fn a_record_that_says_otherwise_is_found() {
    let held = held_with(&case(Some(0)), &|_| ());
    let check = |change: &dyn Fn(&mut v1::Auction), want: &str| {
        let mut message = v1::Auction::decode(&*held.record).expect("it was just written");
        change(&mut message);
        let told = replayed(&written(&message), &held.generation).unwrap_err();
        assert!(told.contains(want), "{told}");
    };
    check(&|it| it.enrichments[0].text.clear(), "enrichments[0] adds text, or adds none");
    check(&|it| it.enrichments[2].text.push('x'), "enrichments[2] adds text, or adds none");
    check(&|it| drop(it.enrichments.pop()), "enrichments: recorded 2, recomputed 3");
    check(&|it| it.enrichments.clear(), "enrichments: recorded 0, recomputed 3");
    let unknown = |it: &mut v1::Auction| {
        it.enrichments[0].outcome = v1::EnrichmentOutcome::Unknown.into();
        it.enrichments[0].text.clear();
    };
    check(&unknown, "refused for lack of data: recorded false, recomputed true");
    let many = |it: &mut v1::Auction| {
        let one = it.enrichments[1].clone();
        it.enrichments.resize(ENRICHMENTS_MAX + 1, one);
    };
    check(&many, "more than 16 enrichments");
}

#[test]
fn an_auction_that_lacked_data_was_refused_for_that() {
    let case = case(Some(2));
    let refused = |context: &mut AuctionContext<'_>| {
        context.judged = None;
        context.ending = AuctionEnding::Refused;
        context.no_bid = Some(NoBidReason::DataUnknown);
    };
    let request = openrtb::parse_request(&case.request).expect("it is valid");
    let auction = Auction::new(AUCTION_ID, &request, &case.market).expect("it can be held");
    let auction = auction.enriched(&case.request, &mut String::new(), |at, _| known(at));
    assert!(auction.lacks_data());
    let mut context = limits::refused(&request);
    context.auction = Some(&auction);
    refused(&mut context);
    let mut record = Vec::new();
    encode(&context, [], [], &mut record).expect("it fits");
    let generation = recorded_generation(&case.market);
    assert_eq!(replayed(&record, &generation), Ok(ReplayOutcome::NotHeld));
}

/// Bodies and bids give way to them.
#[test]
fn there_is_room_for_all_of_them() {
    let longest: std::sync::Arc<str> = "x".repeat(ENRICHMENT_BYTES_MAX).into();
    let mut case = case(None);
    let one = case.market.enrichments[0].clone();
    case.market.enrichments = vec![one; ENRICHMENTS_MAX];
    let request = openrtb::parse_request(&case.request).expect("it is valid");
    let auction = Auction::new(AUCTION_ID, &request, &case.market).expect("it can be held");
    let auction = auction.enriched(&case.request, &mut String::new(), |_, _| {
        Ok(KnownData { text: Some(longest.clone()), age: Duration::MAX, is_stale: false })
    });
    let room = events::RECORD_BYTES_MAX - ENRICHMENTS_MAX * (ENRICHMENT_BYTES_MAX + 32);
    for (bytes, want) in
        [(room - 4096, RecordedExtent::Whole), (room, RecordedExtent::WithoutBodies)]
    {
        let body = vec![b'b'; bytes];
        let mut context = limits::refused(&request);
        context.auction = Some(&auction);
        context.bodies = RecordedBodies { request: Some(&body), answers: false };
        let mut record = Vec::new();
        assert_eq!(encode(&context, [], [], &mut record), Some(want));
        assert!(record.len() <= events::RECORD_BYTES_MAX, "{}", record.len());
        let record = AuctionRecord::decode(&record).expect("it was just written");
        assert!(record.enrichments.iter().all(|it| *it.text == *longest));
    }
}
