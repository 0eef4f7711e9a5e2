//! Tests of `lot`.

use super::*;

#[test]
fn lots_are_read_back_whole_or_not_at_all() {
    let bid = v1::LotBid { number: 3, bidder: "dsp/seat".to_owned(), ..Default::default() };
    let lot = v1::Lot { id: "lot-1".to_owned(), bid: Some(bid), ..Default::default() };
    let mut bytes = Vec::new();
    lot.clone().write_record(&mut bytes);
    let read = v1::Lot::read_record(&bytes).unwrap();
    assert_eq!((read.id, read.bid), (lot.id, lot.bid));
    for len in 0..bytes.len() {
        assert!(v1::Lot::read_record(&bytes[..len]).is_err(), "the first {len} bytes");
    }
    let later = v1::Lot { version: 2, ..Default::default() };
    let mut bytes = Vec::new();
    later.write_record(&mut bytes);
    bytes[1] = 2;
    assert_eq!(v1::Lot::read_record(&bytes), Err(MalformedRecord::Version(2)));
}
