//! The stages behind `|`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::aggregates::{AggregateValue, aggregate};
use super::comparisons::{holds, satisfies};
use crate::map::ProviderMap;
use crate::query::{Aggregate, GrepItem, PipeStage, QueryCondition, QueryTest};
use crate::records::{
    MergedRecord, MergedRecords, RecordRow, RecordSet, RecordValue, SourceUnions, primary_field,
    value_at,
};

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
        records.records.retain(|record| is_kept(&record.row, column, test));
    }
}

/// Likewise, for the records of one answer.
pub fn retain_rows<'c>(
    set: &mut RecordSet,
    map: &ProviderMap,
    conditions: impl IntoIterator<Item = &'c QueryCondition>,
) {
    for QueryCondition { key, test } in conditions {
        let column = primary_field(map, key).and_then(|field| set.field(&field));
        set.rows.retain(|row| is_kept(row, column, test));
    }
}

fn is_kept(row: &RecordRow, column: Option<usize>, test: &QueryTest) -> bool {
    column.is_some_and(|column| satisfies(value_at(row, column), test))
}

/// Applies stages in their order. A key alone is its primary attribute; `grep` keeps all of its
/// attributes, and `count` counts records.
pub fn run(mut records: MergedRecords, map: &ProviderMap, stages: &[PipeStage]) -> PipeResult {
    for stage in stages {
        match stage {
            PipeStage::Grep(items) => grep(&mut records, map, items),
            PipeStage::Sort { field, is_descending } => {
                if let Some(column) = column_of(&records, map, field) {
                    sort(&mut records, column, *is_descending);
                }
            }
            PipeStage::Unique => unique(&mut records),
            PipeStage::Limit(count) => {
                records.records.truncate(usize::try_from(*count).unwrap_or(usize::MAX));
            }
            PipeStage::Aggregate(of) => {
                let value =
                    |of: &Aggregate| aggregate(&records, column_of(&records, map, &of.field), of);
                return PipeResult::Aggregates(of.iter().map(value).collect());
            }
        }
    }
    PipeResult::Records(records)
}

fn grep(records: &mut MergedRecords, map: &ProviderMap, items: &[GrepItem]) {
    for GrepItem { field, comparison } in items {
        let Some((comparison, wanted)) = comparison else { continue };
        let column = column_of(records, map, field);
        records.records.retain(|record| {
            let value = column.map(|column| value_at(&record.row, column));
            holds(value.unwrap_or(&RecordValue::Absent), *comparison, wanted)
        });
    }
    let kept = items.iter().filter(|item| item.comparison.is_none());
    let kept: Vec<_> = kept.flat_map(|item| columns_of(records, &item.field)).collect();
    if items.iter().any(|item| item.comparison.is_none()) {
        project(records, &kept);
    }
}

/// The index of a field; of a key alone, that of its primary attribute.
fn column_of(records: &MergedRecords, map: &ProviderMap, field: &str) -> Option<usize> {
    match field.contains('.') {
        true => records.field(field),
        false => records.field(&primary_field(map, field)?),
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
    let mut is_kept = vec![false; records.fields.len()];
    let mut kept = Vec::new();
    for column in columns {
        if !std::mem::replace(&mut is_kept[*column], true) {
            kept.push(*column);
        }
    }
    records.fields = kept.iter().map(|column| records.fields[*column].clone()).collect();
    for record in &mut records.records {
        record.row = kept.iter().map(|column| value_at(&record.row, *column).clone()).collect();
    }
}

/// What is absent comes last, either way.
fn sort(records: &mut MergedRecords, column: usize, is_descending: bool) {
    let values = records.records.iter().map(|record| value_at(&record.row, column).typed());
    let values: Vec<_> = values.collect();
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|one, other| {
        let (one, other) = (&values[*one], &values[*other]);
        match one.is_present() && other.is_present() && is_descending {
            true => other.order(one),
            false => one.order(other),
        }
    });
    drop(values);
    let mut unsorted: Vec<_> = std::mem::take(&mut records.records).into_iter().map(Some).collect();
    records.records = order.into_iter().filter_map(|at| unsorted[at].take()).collect();
}

fn unique(records: &mut MergedRecords) {
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut unions = SourceUnions::default();
    let all = std::mem::take(&mut records.records);
    for record in all {
        match known.entry(text_of(&record)) {
            Entry::Occupied(at) => {
                let first: &mut MergedRecord = &mut records.records[*at.get()];
                first.add_sources(&record.sources, &mut unions);
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
