//! The stages behind `|`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::aggregates::{AggregateValue, aggregate};
use super::comparisons::{holds, satisfies};
use crate::map::ProviderMap;
use crate::query::{GrepItem, PipeStage, QueryCondition};
use crate::records::{MergedRecord, MergedRecords, RecordValue, primary_field, value_at};

/// What the stages leave.
#[derive(Clone, Debug, PartialEq)]
pub enum PipeResult {
    /// Records.
    Records(MergedRecords),
    /// What records amount to.
    Aggregates(Vec<AggregateValue>),
}

/// Keeps the records that satisfy conditions on the primary attributes of their keys.
pub fn retain<'c>(
    records: &mut MergedRecords,
    map: &ProviderMap,
    conditions: impl IntoIterator<Item = &'c QueryCondition>,
) {
    for QueryCondition { key, test } in conditions {
        let column = primary_field(map, key).and_then(|field| records.field(&field));
        records.records.retain(|record| {
            column.is_some_and(|column| satisfies(value_at(&record.row, column), test))
        });
    }
}

/// Applies stages in their order.
pub fn run(mut records: MergedRecords, stages: &[PipeStage]) -> PipeResult {
    for stage in stages {
        match stage {
            PipeStage::Grep(items) => grep(&mut records, items),
            PipeStage::Sort { field, is_descending } => sort(&mut records, field, *is_descending),
            PipeStage::Unique => unique(&mut records),
            PipeStage::Limit(count) => {
                records.records.truncate(usize::try_from(*count).unwrap_or(usize::MAX));
            }
            PipeStage::Aggregate(of) => {
                return PipeResult::Aggregates(
                    of.iter().map(|of| aggregate(&records, of)).collect(),
                );
            }
        }
    }
    PipeResult::Records(records)
}

fn grep(records: &mut MergedRecords, items: &[GrepItem]) {
    for GrepItem { field, comparison } in items {
        let Some((comparison, wanted)) = comparison else { continue };
        let columns = columns_of(records, field);
        records.records.retain(|record| {
            let mut values = columns.iter().map(|column| value_at(&record.row, *column));
            match columns.len() {
                0 => holds(&RecordValue::Absent, *comparison, wanted),
                // A key alone is any of its attributes.
                _ => values.any(|value| holds(value, *comparison, wanted)),
            }
        });
    }
    let kept = items.iter().filter(|item| item.comparison.is_none());
    let kept: Vec<_> = kept.flat_map(|item| columns_of(records, &item.field)).collect();
    if items.iter().any(|item| item.comparison.is_none()) {
        project(records, &kept);
    }
}

/// The indexes of a field, or of all attributes of a key.
fn columns_of(records: &MergedRecords, field: &str) -> Vec<usize> {
    let is_of = |name: &str| {
        let rest = name.strip_prefix(field);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let fields = records.fields.iter().enumerate();
    fields.filter(|(_, name)| is_of(name)).map(|(at, _)| at).collect()
}

/// Keeps these columns.
fn project(records: &mut MergedRecords, columns: &[usize]) {
    let mut kept: Vec<usize> = Vec::new();
    for column in columns {
        if !kept.contains(column) {
            kept.push(*column);
        }
    }
    records.fields = kept.iter().map(|column| records.fields[*column].clone()).collect();
    for record in &mut records.records {
        let row = &mut record.row;
        let width = row.len();
        let take = |column: &usize| match *column < width {
            true => std::mem::take(&mut row[*column]),
            false => RecordValue::Absent,
        };
        record.row = kept.iter().map(take).collect();
    }
}

/// What is absent comes last, either way.
fn sort(records: &mut MergedRecords, field: &str, is_descending: bool) {
    let Some(column) = records.field(field) else { return };
    records.records.sort_by(|one, other| {
        let (one, other) = (value_at(&one.row, column), value_at(&other.row, column));
        match (one.is_present(), other.is_present()) {
            (true, true) if is_descending => other.order(one),
            _ => one.order(other),
        }
    });
}

fn unique(records: &mut MergedRecords) {
    let mut known: HashMap<String, usize> = HashMap::new();
    let all = std::mem::take(&mut records.records);
    for record in all {
        match known.entry(text_of(&record)) {
            Entry::Occupied(at) => {
                let first: &mut MergedRecord = &mut records.records[*at.get()];
                first.add_sources(&record.sources);
            }
            Entry::Vacant(at) => {
                at.insert(records.records.len());
                records.records.push(record);
            }
        }
    }
}

/// The same for records with the same values.
fn text_of(record: &MergedRecord) -> String {
    let present = record.row.iter().enumerate().filter(|(_, value)| value.is_present());
    present.map(|(at, value)| format!("{at}:{}:{}", value.text().len(), value.text())).collect()
}
