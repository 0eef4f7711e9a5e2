//! Plain messages are read as by the reader, and all others are left to it.

use proptest::prelude::*;

use super::*;

/// Fields 1, 2 and 6, then 3, then 4 and 7.
type Known = (Vec<Option<u64>>, Option<u64>, Vec<Option<Vec<u8>>>);

fn known<'b>(mut fields: impl MessageFields<'b>) -> Result<Known, MalformedRecord> {
    let bytes = |field: Bytes<'b>| Ok(field.bytes()?.to_vec());
    let one = fields.take(1, Varint::uint)?;
    let two = fields.take(2, |field: Varint| field.uint32().map(u64::from))?;
    let three = fields.take(3, Fixed64::uint)?;
    let four = fields.take(4, bytes)?;
    let six = fields.take(6, |field: Varint| field.flag().map(u64::from))?;
    let seven = fields.take(7, bytes)?;
    fields.finish()?;
    Ok((vec![one, two, six], three, vec![four, seven]))
}

#[track_caller]
fn check(bytes: &[u8], is_plain: bool) {
    let plain = known(PlainFields { rest: bytes });
    assert_eq!(plain.is_ok(), is_plain, "{bytes:x?}");
    let want = known(MessageReader::new(bytes));
    assert!(!is_plain || plain == want, "{bytes:x?}");
    assert_eq!(MessageReader::new(bytes).read_message(known, known), want, "{bytes:x?}");
}

#[test]
fn whatever_is_not_plain_is_left_to_the_reader() {
    //    bytes                                                       whether it is plain
    check(&[], true);
    check(&[0x08, 5], true);
    check(&[0x08, 0x85, 1], true);
    check(&[0x08, 0x85, 0x86, 0x87, 0x7f], true);
    check(&[0x08, 0x85, 0x86, 0x87, 0x88, 1], false);
    check(&[0x08, 1, 0x10, 2, 0x19, 1, 2, 3, 4, 5, 6, 7, 8, 0x22, 1, b'x', 0x30, 1], true);
    check(&[0x19, 1, 2, 3, 4, 5, 6, 7, 8, 0x3a, 0], true);
    // Values that no field has.
    check(&[0x30, 2], false);
    check(&[0x10, 0xff, 0xff, 0xff, 0xff, 0x7f], false);
    // Unknown fields, other types, wrong order.
    check(&[0x28, 1], false);
    check(&[0x3a, 0, 0x42, 0], false);
    check(&[0xa0, 0x06, 5], false);
    check(&[0x0d, 1, 2, 3, 4], false);
    check(&[0x20, 1], false);
    check(&[0x08, 1, 0x08, 2], false);
    check(&[0x10, 1, 0x08, 2], false);
    check(&[0x00, 1], false);
    // Cut off.
    check(&[0x08], false);
    check(&[0x08, 0x80], false);
    check(&[0x19, 1, 2, 3, 4, 5, 6, 7], false);
    check(&[0x22, 2, b'x'], false);
}

#[test]
fn numbers_whose_keys_have_two_bytes_are_left_to_the_reader() {
    let message = [0x82, 0x01, 1, b'x'];
    let mut plain = PlainFields { rest: &message };
    assert!(plain.take(16, Bytes::text).is_err());
    let text = MessageReader::new(&message)
        .read_message(|mut plain| plain.take(16, Bytes::text), |mut any| any.take(16, Bytes::text));
    assert_eq!(text, Ok(Some("x")));
}

/// A field: its key and, usually, a value of its type.
fn field() -> impl Strategy<Value = Vec<u8>> {
    let varint = (0u8..18, any::<u64>(), 0u32..64).prop_map(|(number, value, shift)| {
        let mut left = value >> shift;
        let mut bytes = vec![number << 3];
        while left >= 0x80 {
            bytes.push(left.to_le_bytes()[0] | 0x80);
            left >>= 7;
        }
        bytes.push(left.to_le_bytes()[0]);
        bytes
    });
    let text = (0u8..9, proptest::collection::vec(any::<u8>(), 0..9)).prop_map(|(number, text)| {
        let len = text.len().to_le_bytes()[0];
        [&[number << 3 | 2, len], &text[..]].concat()
    });
    let fixed64 = any::<[u8; 8]>().prop_map(|value| [&[0x19][..], &value].concat());
    prop_oneof![4 => varint, 2 => text, 1 => fixed64, 1 => proptest::collection::vec(any::<u8>(), 0..3)]
}

proptest! {
    /// For any message, the fast path agrees with the reader or gives up.
    #[test]
    fn plain_messages_say_what_the_reader_reads(
        fields in proptest::collection::vec(field(), 0..7),
        in_order in any::<bool>(),
    ) {
        let mut fields = fields;
        if in_order {
            fields.sort();
            fields.dedup_by_key(|field| field.first().map(|key| key >> 3));
        }
        let bytes = fields.concat();
        let want = known(MessageReader::new(&bytes));
        if let Ok(plain) = known(PlainFields { rest: &bytes }) {
            prop_assert_eq!(Ok(plain), want.clone());
        }
        prop_assert_eq!(MessageReader::new(&bytes).read_message(known, known), want);
    }
}
