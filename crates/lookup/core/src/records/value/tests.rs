//! The order of values.

use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn numbers_are_ordered_exactly() {
    let two_53 = 1_i64 << 53;
    let values = [
        json!(-1e300),
        json!(i64::MIN),
        json!(-1.5),
        json!(-1),
        json!(-0.5),
        json!(0),
        json!(0.5),
        json!(two_53),
        json!(two_53 + 1),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(1e300),
        json!("a"),
        json!([1]),
        json!(true),
        json!(null),
    ];
    let mut values: Vec<_> = values.iter().map(RecordValue::of_json).collect();
    // Texts and others by their text.
    values.swap(12, 13);
    for (at, one) in values.iter().enumerate() {
        for (other_at, other) in values.iter().enumerate() {
            assert_eq!(one.order(other), at.cmp(&other_at), "{one:?} {other:?}");
        }
    }
    let double = RecordValue::Decimal(9_007_199_254_740_992.0);
    assert_eq!(RecordValue::Integer(two_53).order(&double), Ordering::Equal);
    assert_eq!(RecordValue::Integer(two_53 + 1).order(&double), Ordering::Greater);
    assert_eq!(double.order(&RecordValue::Integer(two_53 + 1)), Ordering::Less);
    assert_eq!(RecordValue::of_json(&json!(-0.0)).order(&RecordValue::Integer(0)), Ordering::Equal);
}

fn value() -> impl Strategy<Value = RecordValue> {
    let near = (1_i64 << 53)..(1 << 53) + 4;
    prop_oneof![
        near.clone().prop_map(RecordValue::Integer),
        near.prop_map(|number| RecordValue::of_double(number as f64)),
        (-2..3_i64).prop_map(RecordValue::Integer),
        (-4..6_i32).prop_map(|number| RecordValue::of_double(f64::from(number) / 2.0)),
        any::<u64>().prop_map(RecordValue::Large),
        any::<f64>().prop_map(RecordValue::of_double),
        "[a1]{0,2}".prop_map(|text| RecordValue::Text(text.into())),
        "-?[01]\\.[0-2]".prop_map(|text| RecordValue::of_text(&text)),
        any::<bool>().prop_map(RecordValue::Bool),
        Just(RecordValue::Absent),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn the_order_is_total(a in value(), b in value(), c in value()) {
        prop_assert_eq!(a.order(&b), b.order(&a).reverse());
        if a.order(&b).is_le() && b.order(&c).is_le() {
            prop_assert!(a.order(&c).is_le(), "{a:?} {b:?} {c:?}");
        }
    }
}

/// There are millions of them.
#[test]
fn a_value_is_as_large_as_a_short_text() {
    assert_eq!(size_of::<RecordValue>(), 24);
    let (short, long) = ("x".repeat(24), "x".repeat(25));
    let bytes = |text: &str| RecordValue::of_text(text).bytes();
    assert_eq!(bytes(&short), 24);
    assert!(bytes(&long) >= 24 + 25);
}
