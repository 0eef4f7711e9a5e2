//! Any number survives the encoding.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn differences_come_out_as_they_went_in(pairs in prop::collection::vec(any::<(u64, u64)>(), 0..20)) {
        let mut bytes = Vec::new();
        pairs.iter().for_each(|(from, to)| put_difference(&mut bytes, *from, *to));
        let mut rest = bytes.as_slice();
        for (from, to) in pairs {
            prop_assert_eq!(take_difference(&mut rest, from), to);
        }
        prop_assert!(rest.is_empty());
    }
}

#[test]
fn what_is_close_takes_a_byte() {
    for (from, to) in [(7, 7), (7, 70), (70, 7), (u64::MAX, 3), (3, u64::MAX)] {
        let mut bytes = Vec::new();
        put_difference(&mut bytes, from, to);
        assert_eq!(bytes.len(), 1, "{from} {to}");
    }
}
