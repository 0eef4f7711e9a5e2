//! What the values of a field amount to.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::query::{Aggregate, AggregateFunction};
use crate::records::{MergedRecords, RecordValue, value_at};

/// What the values of a field amount to.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateValue {
    /// How, and of which field.
    pub of: Aggregate,
    /// The result. Absent if no record has a value.
    pub value: RecordValue,
}

/// Computes an aggregate. Sums, means and medians are of numbers, and pass over other values. Sums of
/// whole numbers are exact.
pub(super) fn aggregate(
    records: &MergedRecords,
    column: Option<usize>,
    of: &Aggregate,
) -> AggregateValue {
    let values = records.records.iter().filter_map(|record| {
        let value = value_at(&record.row, column?);
        value.is_present().then(|| value.typed())
    });
    let numbers = values.clone().filter_map(|value| Number::of(&value));
    let is_key = !of.field.contains('.');
    let value = match of.function {
        AggregateFunction::Count if is_key => count(records.records.len()),
        AggregateFunction::Count => count(values.count()),
        AggregateFunction::Min => first(values, Ordering::Less),
        AggregateFunction::Max => first(values, Ordering::Greater),
        AggregateFunction::Sum => sum(numbers).map_or(RecordValue::Absent, Number::value),
        AggregateFunction::Avg => {
            let count = numbers.clone().count();
            sum(numbers).map_or(RecordValue::Absent, |sum| sum.divided(count))
        }
        AggregateFunction::Median => median(numbers.collect()),
    };
    AggregateValue { of: of.clone(), value }
}

/// The first value that all others have this order to; if there are numbers, of these alone.
fn first<'v>(values: impl Iterator<Item = Cow<'v, RecordValue>>, order: Ordering) -> RecordValue {
    let mut found: Option<Cow<'v, RecordValue>> = None;
    for value in values {
        let is_first = found.as_ref().is_none_or(|found| {
            match (value.number().is_some(), found.number().is_some()) {
                (true, false) => true,
                (false, true) => false,
                _ => value.order(found) == order,
            }
        });
        if is_first {
            found = Some(value);
        }
    }
    found.map_or(RecordValue::Absent, Cow::into_owned)
}

fn count(count: usize) -> RecordValue {
    RecordValue::Integer(i64::try_from(count).unwrap_or(i64::MAX))
}

/// A number, whole if it was.
#[derive(Clone, Copy, Debug)]
enum Number {
    Whole(i128),
    Decimal(f64),
}

impl Number {
    fn of(value: &RecordValue) -> Option<Self> {
        value.integer().map(Self::Whole).or_else(|| value.number().map(Self::Decimal))
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "whole numbers beyond those of values become doubles"
    )]
    const fn double(self) -> f64 {
        match self {
            Self::Whole(number) => number as f64,
            Self::Decimal(number) => number,
        }
    }

    fn plus(self, other: Self) -> Self {
        let whole = match (self, other) {
            (Self::Whole(one), Self::Whole(other)) => one.checked_add(other),
            _ => None,
        };
        whole.map_or_else(|| Self::Decimal(self.double() + other.double()), Self::Whole)
    }

    /// Whole if nothing remains.
    #[expect(clippy::cast_precision_loss, reason = "no set has so many records")]
    fn divided(self, by: usize) -> RecordValue {
        match self {
            Self::Whole(number) if number % by as i128 == 0 => {
                Self::Whole(number / by as i128).value()
            }
            number => RecordValue::Decimal(number.double() / by as f64),
        }
    }

    fn value(self) -> RecordValue {
        match self {
            Self::Whole(number) => match (i64::try_from(number), u64::try_from(number)) {
                (Ok(number), _) => RecordValue::Integer(number),
                (_, Ok(number)) => RecordValue::Large(number),
                _ => RecordValue::Decimal(self.double()),
            },
            Self::Decimal(number) => RecordValue::Decimal(number),
        }
    }
}

fn sum(numbers: impl Iterator<Item = Number>) -> Option<Number> {
    numbers.reduce(Number::plus)
}

fn median(mut numbers: Vec<Number>) -> RecordValue {
    numbers.sort_by(|one, other| one.value().order(&other.value()));
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => RecordValue::Absent,
        length if length % 2 == 1 => numbers[middle].value(),
        _ => numbers[middle - 1].plus(numbers[middle]).divided(2),
    }
}
