//! Whether the value of a record is what a query wants. A number and a text with the same digits are
//! equal: some formats have no types. Of a list, one item is enough.

use std::cmp::Ordering;

use serde_json::Value;

use crate::query::{Comparison, QueryTest, QueryValue, loose_number};
use crate::records::RecordValue;
use crate::wildcard;

/// Whether a value compares to another so. What is absent is unequal to everything, and nothing else.
pub fn holds(value: &RecordValue, comparison: Comparison, wanted: &QueryValue) -> bool {
    if comparison == Comparison::Unequal {
        return !holds(value, Comparison::Equal, wanted);
    }
    if let RecordValue::Json(json) = value
        && let Value::Array(items) = &**json
    {
        return items.iter().any(|item| holds(&RecordValue::of_json(item), comparison, wanted));
    }
    if !value.is_present() {
        return false;
    }
    if let (Comparison::Equal, QueryValue::Text(pattern)) = (comparison, wanted) {
        return wildcard::matches(pattern, &value.text());
    }
    let Some(order) = order(value, wanted) else { return false };
    match comparison {
        Comparison::Equal | Comparison::Unequal => order == Ordering::Equal,
        Comparison::Less => order == Ordering::Less,
        Comparison::LessOrEqual => order != Ordering::Greater,
        Comparison::Greater => order == Ordering::Greater,
        Comparison::GreaterOrEqual => order != Ordering::Less,
    }
}

/// Whether a value satisfies the test of a condition. No value satisfies `last`: only calls take it.
pub fn satisfies(value: &RecordValue, test: &QueryTest) -> bool {
    match test {
        QueryTest::Is(wanted) => holds(value, Comparison::Equal, wanted),
        QueryTest::In(wanted) => wanted.iter().any(|of| holds(value, Comparison::Equal, of)),
        QueryTest::Between([low, high]) => match value {
            RecordValue::Json(json) if json.is_array() => {
                let items = json.as_array().into_iter().flatten();
                items.map(RecordValue::of_json).any(|item| satisfies(&item, test))
            }
            value => {
                holds(value, Comparison::GreaterOrEqual, low)
                    && holds(value, Comparison::LessOrEqual, high)
            }
        },
        QueryTest::Last(_) => false,
    }
}

/// The order of a value and one of a query. None if one is a number and the other is not.
fn order(value: &RecordValue, wanted: &QueryValue) -> Option<Ordering> {
    let value = value.typed();
    let wanted = match wanted {
        QueryValue::Integer(number) | QueryValue::Time(number) => RecordValue::Integer(*number),
        QueryValue::Decimal(number) => RecordValue::of_double(*number),
        QueryValue::Text(text) => match (value.number(), loose_number(text)) {
            (Some(_), Some(QueryValue::Integer(number))) => RecordValue::Integer(number),
            (Some(_), Some(QueryValue::Decimal(number))) => RecordValue::of_double(number),
            _ => return Some((*value.text()).cmp(text)),
        },
    };
    value.number().map(|_| value.order(&wanted))
}
