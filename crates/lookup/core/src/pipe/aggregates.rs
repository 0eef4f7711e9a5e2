//! What the values of a field amount to.

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
pub(super) fn aggregate(records: &MergedRecords, of: &Aggregate) -> AggregateValue {
    let is_key = !of.field.contains('.');
    let column = records.field(&of.field);
    let values = records.records.iter().filter_map(|record| match column {
        Some(column) => Some(value_at(&record.row, column)).filter(|value| value.is_present()),
        None => None,
    });
    let value = match of.function {
        // Of a key, all records.
        AggregateFunction::Count if is_key => count(records.records.len()),
        AggregateFunction::Count => count(values.count()),
        AggregateFunction::Min => values.min_by(|a, b| a.order(b)).cloned().unwrap_or_default(),
        AggregateFunction::Max => values.max_by(|a, b| a.order(b)).cloned().unwrap_or_default(),
        AggregateFunction::Sum => {
            sum(values.filter_map(Number::of)).map_or(RecordValue::Absent, Number::value)
        }
        AggregateFunction::Avg => {
            let numbers: Vec<_> = values.filter_map(Number::of).collect();
            let count = numbers.len();
            sum(numbers.into_iter()).map_or(RecordValue::Absent, |sum| sum.divided(count))
        }
        AggregateFunction::Median => median(values.filter_map(Number::of).collect()),
    };
    AggregateValue { of: of.clone(), value }
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
        let of_text;
        let value = match value {
            RecordValue::Text(text) => {
                of_text = RecordValue::of_text(text);
                &of_text
            }
            value => value,
        };
        let decimal = value.number().map(Self::Decimal);
        value.integer().map(Self::Whole).or(decimal)
    }

    #[expect(clippy::cast_precision_loss, reason = "a double is the best that is left")]
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

    fn order(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Whole(one), Self::Whole(other)) => one.cmp(&other),
            _ => self.double().total_cmp(&other.double()),
        }
    }
}

fn sum(numbers: impl Iterator<Item = Number>) -> Option<Number> {
    numbers.reduce(Number::plus)
}

fn median(mut numbers: Vec<Number>) -> RecordValue {
    numbers.sort_by(|one, other| one.order(*other));
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => RecordValue::Absent,
        length if length % 2 == 1 => numbers[middle].value(),
        _ => numbers[middle - 1].plus(numbers[middle]).divided(2),
    }
}
