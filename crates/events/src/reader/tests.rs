//! Bytes that are no message, by table, and any bytes at all.

use proptest::prelude::*;

use super::*;
use crate::Writer;

/// What reading all of `bytes` comes to: numbers of fields, or why not.
fn read(bytes: &[u8]) -> Result<Vec<u32>, Malformed> {
    let mut reader = Reader::new(bytes);
    let mut numbers = Vec::new();
    while let Some(field) = reader.next()? {
        numbers.push(field.number);
    }
    Ok(numbers)
}

#[track_caller]
fn check(bytes: &[u8], want: Result<&[u32], Malformed>) {
    assert_eq!(read(bytes), want.map(<[u32]>::to_vec), "{bytes:x?}");
}

#[test]
fn fields_come_apart() {
    //    bytes                                              numbers, or why not
    check(&[], Ok(&[]));
    check(&[0x08, 0x05, 0x12, 0x01, b'x'], Ok(&[1, 2]));
    check(&[0x09, 1, 2, 3, 4, 5, 6, 7, 8], Ok(&[1]));
    check(&[0x0d, 1, 2, 3, 4], Ok(&[1]));
    check(&[0xfd, 0x7f, 1, 2, 3, 4], Ok(&[LENGTH]));
    check(&[0x08], Err(Malformed::Truncated(1)));
    check(&[0x80], Err(Malformed::Truncated(0)));
    check(&[0x09, 1, 2, 3, 4, 5, 6, 7], Err(Malformed::Truncated(1)));
    check(&[0x0d, 1, 2, 3], Err(Malformed::Truncated(1)));
    check(&[0x12, 0x02, b'x'], Err(Malformed::Truncated(2)));
    check(
        &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        Err(Malformed::Truncated(2)),
    );
    check(&[0x00, 0x05], Err(Malformed::Number(0)));
    check(&[0x80, 0x80, 0x80, 0x80, 0x10, 0x05], Err(Malformed::Number(1 << 29)));
    // Groups, which proto3 does not have, and types that never were.
    check(&[0x0b], Err(Malformed::Type(1)));
    check(&[0x0c], Err(Malformed::Type(1)));
    check(&[0x0e], Err(Malformed::Type(1)));
    // 64 bits, and 65.
    let most = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    check(&most, Ok(&[1]));
    check(&[&most[..10], &[0x02]].concat(), Err(Malformed::Varint(1)));
    check(&[&most[..10], &[0x81, 0x00]].concat(), Err(Malformed::Varint(1)));
}

fn only(bytes: &[u8]) -> Field<'_> {
    Reader::new(bytes).next().expect("a field").expect("one")
}

#[test]
fn values_are_what_their_type_may_hold() {
    let (number, text) = ([0x08, 0x02], [0x0a, 0x02, 0xc3, 0x28]);
    assert_eq!(only(&number).flag(), Err(Malformed::Range { number: 1, value: 2 }));
    assert_eq!(only(&number).sint(), Ok(1));
    assert_eq!(only(&[0x08, 0x03]).sint(), Ok(-2));
    assert_eq!(only(&number).bytes(), Err(Malformed::Type(1)));
    assert_eq!(only(&number).fixed64(), Err(Malformed::Type(1)));
    assert_eq!(only(&text).uint(), Err(Malformed::Type(1)));
    assert_eq!(only(&text).text(), Err(Malformed::Text(1)));
    let wide = [0x08, 0x80, 0x80, 0x80, 0x80, 0x10];
    assert_eq!(only(&wide).uint32(), Err(Malformed::Range { number: 1, value: 1 << 32 }));
    let packed = [0x0a, 0x06, 0x07, 0x80, 0x80, 0x80, 0x80, 0x10];
    let mut seen = Vec::new();
    let read = only(&packed).packed(|value| {
        seen.push(value);
        Ok(())
    });
    assert_eq!(read, Err(Malformed::Range { number: 1, value: 1 << 32 }));
    assert_eq!(seen, [7]);
}

#[test]
fn text_and_numbers_may_mean_nothing() {
    let (number, text) = ([0x08, 0x02], [0x0a, 0x01, b'x']);
    assert_eq!(only(&number).known(|value| (value == 2).then_some('b')), Ok('b'));
    let unknown = only(&number).known(|value| (value == 3).then_some('c'));
    assert_eq!(unknown, Err(Malformed::Range { number: 1, value: 2 }));
    assert_eq!(only(&text).parsed(|text| text.chars().next()), Ok('x'));
    assert_eq!(only(&text).parsed(|_| None::<char>), Err(Malformed::Value(1)));
}

#[test]
fn fields_of_a_record_stand_in_order() {
    let bytes = [0x08, 0x01, 0x10, 0x01, 0x10, 0x02, 0x08, 0x03];
    let (mut reader, mut last) = (Reader::new(&bytes), 0);
    for number in [1, 2, 2] {
        let field = reader.next_in_order(&mut last).unwrap().unwrap();
        assert_eq!((field.number, last), (number, number));
    }
    assert_eq!(reader.next_in_order(&mut last), Err(Malformed::Order(1)));
}

#[test]
fn a_record_ends_with_its_length() {
    let mut whole = Vec::new();
    let mut record = Writer::new(&mut whole);
    record.text(1, "content");
    record.finish();
    assert!(Reader::of_record(&whole).is_ok());
    for len in 0..whole.len() {
        assert_eq!(Reader::of_record(&whole[..len]).map(|_| ()), Err(Malformed::Length), "{len}");
    }
    let longer = [&whole[..], &[0x08, 0x01]].concat();
    assert_eq!(Reader::of_record(&longer).map(|_| ()), Err(Malformed::Length));
    let headless = &whole[1..];
    assert_eq!(Reader::of_record(headless).map(|_| ()), Err(Malformed::Length));
    let too_long = vec![0; RECORD_BYTES_MAX + 1];
    let error = Malformed::TooLong(RECORD_BYTES_MAX + 1);
    assert_eq!(Reader::of_record(&too_long).map(|_| ()), Err(error));
}

proptest! {
    /// Each field is shorter than what was left, so that reading ends.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut reader = Reader::new(&bytes);
        let mut left = bytes.len();
        while let Ok(Some(field)) = reader.next() {
            prop_assert!(reader.rest.len() < left);
            left = reader.rest.len();
            let _ = (field.uint(), field.uint32(), field.sint(), field.flag(), field.fixed64());
            let _ = (field.text().is_ok(), field.packed(|_| Ok(())));
            if let Ok(inner) = field.message() {
                prop_assert!(inner.rest.len() < bytes.len());
            }
        }
    }
}
