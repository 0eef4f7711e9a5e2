//! Invalid messages, by table, and arbitrary bytes.

use proptest::prelude::*;

use super::*;
use crate::writer::MessageWriter;

/// The result of reading all of `bytes`: field numbers, or the error.
fn read(bytes: &[u8]) -> Result<Vec<u32>, MalformedRecord> {
    let mut reader = MessageReader::new(bytes);
    let mut numbers = Vec::new();
    while !reader.rest.is_empty() {
        let (number, wire) = reader.key()?;
        reader.skip(number, wire)?;
        numbers.push(number);
    }
    Ok(numbers)
}

#[track_caller]
fn check(bytes: &[u8], want: Result<&[u32], MalformedRecord>) {
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
    check(&[0x08], Err(MalformedRecord::Truncated(1)));
    check(&[0x80], Err(MalformedRecord::Truncated(0)));
    check(&[0x09, 1, 2, 3, 4, 5, 6, 7], Err(MalformedRecord::Truncated(1)));
    check(&[0x0d, 1, 2, 3], Err(MalformedRecord::Truncated(1)));
    check(&[0x12, 0x02, b'x'], Err(MalformedRecord::Truncated(2)));
    check(
        &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        Err(MalformedRecord::Truncated(2)),
    );
    check(&[0x00, 0x05], Err(MalformedRecord::Number(0)));
    check(&[0x80, 0x80, 0x80, 0x80, 0x10, 0x05], Err(MalformedRecord::Number(1 << 29)));
    // Groups, which proto3 lacks, and undefined types.
    check(&[0x0b], Err(MalformedRecord::Type(1)));
    check(&[0x0c], Err(MalformedRecord::Type(1)));
    check(&[0x0e], Err(MalformedRecord::Type(1)));
    // 64 bits, and 65.
    let most = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    check(&most, Ok(&[1]));
    check(&[&most[..10], &[0x02]].concat(), Err(MalformedRecord::Varint(1)));
    check(&[&most[..10], &[0x81, 0x00]].concat(), Err(MalformedRecord::Varint(1)));
}

fn only<'b, V: FieldValue<'b>, T>(
    bytes: &'b [u8],
    read: impl FnOnce(V) -> Result<T, MalformedRecord>,
) -> Result<T, MalformedRecord> {
    MessageReader::new(bytes).take(1, read).map(|found| found.expect("it is there"))
}

#[test]
fn values_are_what_their_type_may_hold() {
    let (number, text) = ([0x08, 0x02], [0x0a, 0x02, 0xc3, 0x28]);
    assert_eq!(only(&number, Varint::flag), Err(MalformedRecord::Range { number: 1, value: 2 }));
    assert_eq!(only(&number, Varint::sint), Ok(1));
    assert_eq!(only(&[0x08, 0x03], Varint::sint), Ok(-2));
    assert_eq!(only(&number, Bytes::bytes), Err(MalformedRecord::Type(1)));
    assert_eq!(only(&number, Fixed64::uint), Err(MalformedRecord::Type(1)));
    assert_eq!(only(&text, Varint::uint), Err(MalformedRecord::Type(1)));
    assert_eq!(only(&text, Bytes::text), Err(MalformedRecord::Text(1)));
    let wide = [0x08, 0x80, 0x80, 0x80, 0x80, 0x10];
    assert_eq!(
        only(&wide, Varint::uint32),
        Err(MalformedRecord::Range { number: 1, value: 1 << 32 })
    );
    let packed = [0x0a, 0x06, 0x07, 0x80, 0x80, 0x80, 0x80, 0x10];
    let mut seen = Vec::new();
    let mut see = |value| {
        seen.push(value);
        Ok(())
    };
    let read = only(&packed, |field: Bytes<'_>| field.packed(&mut see));
    assert_eq!(read, Err(MalformedRecord::Range { number: 1, value: 1 << 32 }));
    assert_eq!(seen, [7]);
}

#[test]
fn numbers_of_any_length_are_what_was_written() {
    for bits in 0..64 {
        for value in [1_u64 << bits, (1_u64 << bits) - 1] {
            let mut out = Vec::new();
            let mut writer = MessageWriter::new(&mut out);
            writer.present_uint(1, Some(value));
            writer.present_uint(2, Some(value));
            let mut reader = MessageReader::new(&out);
            assert_eq!(reader.take(1, Varint::uint), Ok(Some(value)));
            assert_eq!(reader.take(2, Varint::uint), Ok(Some(value)));
            assert_eq!(reader.finish(), Ok(()));
        }
    }
}

#[test]
fn text_and_numbers_may_mean_nothing() {
    let (number, text) = ([0x08, 0x02], [0x0a, 0x01, b'x']);
    let known = |field: Varint| field.known(|value| (value == 2).then_some('b'));
    assert_eq!(only(&number, known), Ok('b'));
    let unknown = |field: Varint| field.known(|value| (value == 3).then_some('c'));
    assert_eq!(only(&number, unknown), Err(MalformedRecord::Range { number: 1, value: 2 }));
    assert_eq!(only(&text, |field: Bytes<'_>| field.parsed(|text| text.chars().next())), Ok('x'));
    let nothing = |field: Bytes<'_>| field.parsed(|_| None::<char>);
    assert_eq!(only(&text, nothing), Err(MalformedRecord::Value(1)));
}

/// The fields of a release: 2, 4, and a list in 6.
type Known<L> = Result<(Option<u64>, Option<u64>, L), MalformedRecord>;

fn known(bytes: &[u8]) -> Known<Vec<u64>> {
    let mut reader = MessageReader::new(bytes);
    let (two, four) = (reader.take(2, Varint::uint)?, reader.take(4, Varint::uint)?);
    let mut list = Vec::new();
    reader.each(6, |field: Varint| {
        list.push(field.uint()?);
        Ok::<_, MalformedRecord>(())
    })?;
    reader.finish()?;
    Ok((two, four, list))
}

#[test]
fn fields_are_taken_in_the_order_of_their_numbers() {
    #[track_caller]
    fn check(fields: &[(u8, u8)], want: Known<&[u64]>) {
        let bytes: Vec<u8> =
            fields.iter().flat_map(|(number, value)| [number << 3, *value]).collect();
        let want = want.map(|(two, four, list)| (two, four, list.to_vec()));
        assert_eq!(known(&bytes), want, "{fields:?}");
    }
    //    fields and their values                 what is known of them, or why not
    check(&[], Ok((None, None, &[])));
    check(&[(2, 7), (4, 8), (6, 9)], Ok((Some(7), Some(8), &[9])));
    check(&[(4, 8)], Ok((None, Some(8), &[])));
    check(&[(6, 9), (6, 10)], Ok((None, None, &[9, 10])));
    // Of a later release, including lists.
    check(
        &[(1, 1), (1, 2), (2, 7), (3, 1), (5, 1), (6, 9), (7, 1), (7, 2)],
        Ok((Some(7), None, &[9])),
    );
    // Repeated, after a later field and in between.
    check(&[(2, 7), (2, 8)], Err(MalformedRecord::Order(2)));
    check(&[(4, 8), (4, 8), (6, 9)], Err(MalformedRecord::Order(4)));
    check(&[(4, 8), (2, 7)], Err(MalformedRecord::Order(2)));
    check(&[(6, 9), (4, 8)], Err(MalformedRecord::Order(4)));
    check(&[(6, 9), (7, 1), (6, 9)], Err(MalformedRecord::Order(6)));
    check(&[(6, 9), (7, 1), (3, 9)], Err(MalformedRecord::Order(3)));
    check(&[(3, 1), (1, 1)], Err(MalformedRecord::Order(1)));
}

/// Keys of more than one byte, truncated ones, and invalid ones.
#[test]
fn what_is_passed_over_is_a_field() {
    let long = |bytes: &[u8]| MessageReader::new(bytes).take(100, Varint::uint);
    assert_eq!(long(&[0x08, 1, 0xa0, 0x06, 5]), Ok(Some(5)));
    assert_eq!(long(&[0xa8, 0x06, 5]), Ok(None));
    assert_eq!(long(&[0xa0]), Err(MalformedRecord::Truncated(0)));
    assert_eq!(long(&[0x08]), Err(MalformedRecord::Truncated(1)));
    assert_eq!(long(&[0x00, 1]), Err(MalformedRecord::Number(0)));
    assert_eq!(long(&[0x0b]), Err(MalformedRecord::Type(1)));
    assert_eq!(known(&[0x38]), Err(MalformedRecord::Truncated(7)));
    assert_eq!(known(&[0x10, 0x01, 0x80]), Err(MalformedRecord::Truncated(0)));
}

#[test]
fn a_record_ends_with_its_length() {
    let mut whole = Vec::new();
    let mut record = MessageWriter::new(&mut whole);
    record.text(1, "content");
    record.finish();
    assert!(MessageReader::of_record(&whole).is_ok());
    for len in 0..whole.len() {
        assert_eq!(
            MessageReader::of_record(&whole[..len]).map(|_| ()),
            Err(MalformedRecord::Length),
            "{len}"
        );
    }
    let longer = [&whole[..], &[0x08, 0x01]].concat();
    assert_eq!(MessageReader::of_record(&longer).map(|_| ()), Err(MalformedRecord::Length));
    let headless = &whole[1..];
    assert_eq!(MessageReader::of_record(headless).map(|_| ()), Err(MalformedRecord::Length));
    let too_long = vec![0; RECORD_BYTES_MAX + 1];
    let error = MalformedRecord::TooLong(RECORD_BYTES_MAX + 1);
    assert_eq!(MessageReader::of_record(&too_long).map(|_| ()), Err(error));
}

proptest! {
    /// For any type.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = (read(&bytes), known(&bytes));
        for number in 1..20 {
            let numbers = |field: Varint| {
                let _ = (field.uint(), field.uint32(), field.sint(), field.flag());
                Ok(())
            };
            let _ = MessageReader::new(&bytes).each::<_, MalformedRecord>(number, numbers);
            let _ = MessageReader::new(&bytes).take(number, Fixed64::uint);
            let messages = |field: Bytes<'_>| {
                let _ = (field.text().is_ok(), field.packed(|_| Ok(())));
                field.message()?.finish()
            };
            let _ = MessageReader::new(&bytes).each::<_, MalformedRecord>(number, messages);
        }
    }
}
