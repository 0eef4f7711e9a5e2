//! Numbers and names of the schema.

use std::fmt::Debug;

use events::{MessageReader, MessageWriter, v1};
use strum::VariantArray;

use super::*;

fn check<T, W>(prefix: &str, name: impl Fn(W) -> &'static str)
where
    T: SchemaCode + PartialEq + Debug + VariantArray + Into<&'static str>,
    W: TryFrom<i32>,
{
    let of_schema = (1..1000).filter(|code| W::try_from(*code).is_ok()).count();
    assert_eq!(T::VARIANTS.len(), of_schema, "as many as in the schema");
    for coded in T::VARIANTS {
        let mut out = Vec::new();
        MessageWriter::new(&mut out).uint(1, coded.number());
        assert_eq!(MessageReader::new(&out).take(1, T::read), Ok(Some(*coded)));
        let known = i32::try_from(coded.number()).ok().and_then(|code| W::try_from(code).ok());
        let label: &str = (*coded).into();
        assert_eq!(known.map(&name), Some(&*format!("{prefix}_{}", label.to_uppercase())));
    }
    for unknown in [0, 255, 256 + T::VARIANTS[0].number(), 999] {
        let mut out = Vec::new();
        MessageWriter::new(&mut out).uint(1, unknown);
        assert!(!matches!(MessageReader::new(&out).take(1, T::read), Ok(Some(_))), "{unknown}");
    }
}

#[test]
fn numbers_are_the_schema_s() {
    check::<Fate, v1::Fate>("FATE", |it| it.as_str_name());
    check::<NotAsked, v1::NotAskedReason>("NOT_ASKED_REASON", |it| it.as_str_name());
    check::<ResponseFate, v1::ResponseFate>("RESPONSE_FATE", |it| it.as_str_name());
    check::<AuctionType, v1::AuctionType>("AUCTION_TYPE", |it| it.as_str_name());
    check::<NoticeMode, v1::NoticeMode>("NOTICE_MODE", |it| it.as_str_name());
    check::<BidsReturned, v1::BidsReturned>("BIDS_RETURNED", |it| it.as_str_name());
    check::<AuctionEnding, v1::Ending>("ENDING", |it| it.as_str_name());
    check::<CallOutcome, v1::CallOutcome>("CALL_OUTCOME", |it| it.as_str_name());
    check::<EnrichmentOutcome, v1::EnrichmentOutcome>("ENRICHMENT_OUTCOME", |it| it.as_str_name());
}
