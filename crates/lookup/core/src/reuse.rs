//! When the complete answer of one query contains that of another.
//!
//! It does if both ask for the same keys of the same systems and instance, all calls that answer the
//! narrower answer the wider too, and each condition of the wider query is one of the narrower, or is
//! implied by one. What the narrower asks beyond that must be
//! about keys that records have: then it is applied to them. Stages play no part: records are kept as
//! they were before any.

use std::cmp::Ordering;

use crate::plan::Plan;
use crate::query::{LookupQuery, QueryCondition, QueryTest, QueryValue};
use crate::records::RecordValue;
use crate::wildcard;

#[cfg(test)]
mod tests;

/// A query, and how it is answered.
#[derive(Clone, Copy, Debug)]
pub struct PlannedQuery<'p> {
    /// The query.
    pub query: &'p LookupQuery,
    /// Its plan.
    pub plan: &'p Plan,
}

/// The conditions that leave the answer of `narrow` of the records of `wide`. None if these may lack
/// some.
pub fn narrowing<'n>(
    wide: PlannedQuery<'_>,
    narrow: PlannedQuery<'n>,
) -> Option<Vec<&'n QueryCondition>> {
    let conditions = conditions_to_apply(wide.query, narrow.query)?;
    // A provider may take a value, but no pattern that it matches.
    narrow.plan.answering().is_subset(&wide.plan.answering()).then_some(conditions)
}

/// Likewise, if the same providers answer both.
fn conditions_to_apply<'n>(
    wide: &LookupQuery,
    narrow: &'n LookupQuery,
) -> Option<Vec<&'n QueryCondition>> {
    let is_same = same_names(&wide.fields, &narrow.fields)
        && same_names(&wide.systems, &narrow.systems)
        && wide.instance == narrow.instance;
    if !is_same {
        return None;
    }
    for QueryCondition { key, test } in &wide.conditions {
        let own = condition_on(narrow, key)?;
        if !implies(&own.test, test) {
            return None;
        }
    }
    let is_to_apply = |own: &&QueryCondition| {
        condition_on(wide, &own.key).is_none_or(|of_wide| of_wide.test != own.test)
    };
    let applied: Vec<_> = narrow.conditions.iter().filter(is_to_apply).collect();
    let has_key = |own: &&QueryCondition| narrow.fields.contains(&own.key);
    applied.iter().all(has_key).then_some(applied)
}

fn same_names(one: &[String], other: &[String]) -> bool {
    one.len() == other.len() && one.iter().all(|name| other.contains(name))
}

fn condition_on<'q>(query: &'q LookupQuery, key: &str) -> Option<&'q QueryCondition> {
    query.conditions.iter().find(|condition| condition.key == key)
}

/// Whether every value that satisfies `narrow` satisfies `wide`. False where it is not sure.
fn implies(narrow: &QueryTest, wide: &QueryTest) -> bool {
    match (narrow, wide) {
        // A span ends now, whenever that is.
        (QueryTest::Last(narrow), QueryTest::Last(wide)) => narrow == wide,
        (QueryTest::Last(_), _) | (_, QueryTest::Last(_)) => false,
        (QueryTest::Is(value), wide) => value_implies(value, wide),
        (QueryTest::In(values), wide) => values.iter().all(|value| value_implies(value, wide)),
        (QueryTest::Between([low, high]), QueryTest::Between([wide_low, wide_high])) => {
            order(wide_low, low).is_some_and(Ordering::is_le)
                && order(high, wide_high).is_some_and(Ordering::is_le)
        }
        // Between two numbers there are others.
        (QueryTest::Between(_), QueryTest::Is(value)) => *value == QueryValue::Text("*".to_owned()),
        (QueryTest::Between(_), QueryTest::In(values)) => {
            values.contains(&QueryValue::Text("*".to_owned()))
        }
    }
}

/// Whether whatever is equal to a value, or matches it, satisfies a test.
fn value_implies(value: &QueryValue, wide: &QueryTest) -> bool {
    match wide {
        QueryTest::Is(wide) => value_within(value, wide),
        QueryTest::In(wide) => wide.iter().any(|wide| value_within(value, wide)),
        QueryTest::Between([low, high]) => {
            let is_number = !matches!(value, QueryValue::Text(_));
            is_number
                && order(low, value).is_some_and(Ordering::is_le)
                && order(value, high).is_some_and(Ordering::is_le)
        }
        QueryTest::Last(_) => false,
    }
}

/// Whether whatever is equal to `narrow`, or matches it, is equal to `wide` or matches it.
fn value_within(narrow: &QueryValue, wide: &QueryValue) -> bool {
    match (narrow, wide) {
        // The `*` of the narrower pattern stands for anything, and only a `*` of the wider one takes
        // anything: in a text it matches nothing else.
        (QueryValue::Text(narrow), QueryValue::Text(wide)) => wildcard::matches(wide, narrow),
        (QueryValue::Text(_), _) => false,
        // Equal numbers may have different texts, such as 1 and 1.0.
        (_, QueryValue::Text(wide)) => wide == "*",
        (narrow, wide) => order(narrow, wide) == Some(Ordering::Equal),
    }
}

/// The order of two numbers or times. None if one is a text.
fn order(one: &QueryValue, other: &QueryValue) -> Option<Ordering> {
    let number = |value: &QueryValue| match value {
        QueryValue::Integer(number) | QueryValue::Time(number) => {
            Some(RecordValue::Integer(*number))
        }
        QueryValue::Decimal(number) => Some(RecordValue::of_double(*number)),
        QueryValue::Text(_) => None,
    };
    Some(number(one)?.order(&number(other)?))
}
