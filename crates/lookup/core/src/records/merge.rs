//! Merges records of several answers that are about the same things.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::error::UnreadableRecords;
use super::limits::RecordLimits;
use super::set::{ROW_BYTES, RecordRow, RecordSet, value_at};
use super::value::RecordValue;

/// Records, and which answers each came from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MergedRecords {
    /// Names of the fields.
    pub fields: Vec<String>,
    /// Records that nothing tells apart stay apart.
    pub records: Vec<MergedRecord>,
}

/// A record, and which answers it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct MergedRecord {
    /// Its values, by the fields of the set.
    pub row: RecordRow,
    /// Indexes of answers, in ascending order. Records share them.
    pub sources: Arc<[u32]>,
}

/// Merges answers, in the order of their precedence: of two values of a field, that of the earlier
/// answer stays. Records are the same if all fields of `primary` have the same text; where one is
/// absent, a record is like no other. Each answer has its index, which may be that of others.
///
/// # Errors
/// Together they are beyond the limits.
pub fn merge(
    answers: Vec<(u32, RecordSet)>,
    primary: &[String],
    limits: RecordLimits,
) -> Result<MergedRecords, UnreadableRecords> {
    let (mut fields, mut records) = (Vec::new(), Vec::<GrowingRecord>::new());
    let mut columns_known: HashMap<String, usize> = HashMap::new();
    let mut known: HashMap<Box<[u8]>, usize> = HashMap::new();
    let (mut values, mut unions) = (0, SourceUnions::default());
    for (source, set) in answers {
        let sources: Arc<[u32]> = Arc::from([source]);
        let mut column = |field: String| {
            *columns_known.entry(field).or_insert_with_key(|field| {
                fields.push(field.clone());
                fields.len() - 1
            })
        };
        let columns: Vec<usize> = set.fields.into_iter().map(&mut column).collect();
        if limits.fields_max < fields.len() {
            return Err(UnreadableRecords::TooManyFields(limits.fields_max));
        }
        let primary_columns: Option<Vec<_>> =
            primary.iter().map(|field| columns_known.get(field).copied()).collect();
        for row in set.rows {
            let row = moved(row, &columns);
            values += row.len();
            let key = primary_columns.as_ref().and_then(|columns| identity(&row, columns));
            match key.map(|key| known.entry(key)) {
                Some(Entry::Occupied(at)) => {
                    let known = &mut records[*at.get()];
                    known.row.add(&row);
                    known.sources = unions.of(&known.sources, &sources);
                }
                other => {
                    if let Some(Entry::Vacant(at)) = other {
                        at.insert(records.len());
                    }
                    let (row, sources) = (GrowingRow::Shared(row), Arc::clone(&sources));
                    records.push(GrowingRecord { row, sources });
                }
            }
            if limits.records_max < records.len() {
                return Err(UnreadableRecords::TooManyRecords(limits.records_max));
            }
            if limits.values_max < values {
                return Err(UnreadableRecords::TooManyValues(limits.values_max));
            }
        }
    }
    let mut records: Vec<_> = records.into_iter().map(GrowingRecord::merged).collect();
    // They have taken over the room of larger ones.
    records.shrink_to_fit();
    Ok(MergedRecords { fields, records })
}

/// A record that more may be said of.
struct GrowingRecord {
    row: GrowingRow,
    sources: Arc<[u32]>,
}

enum GrowingRow {
    /// That of an answer, as it is.
    Shared(RecordRow),
    Own(Vec<RecordValue>),
}

impl GrowingRecord {
    fn merged(self) -> MergedRecord {
        let row = match self.row {
            GrowingRow::Shared(row) => row,
            GrowingRow::Own(row) => row.into(),
        };
        MergedRecord { row, sources: self.sources }
    }
}

impl GrowingRow {
    fn values(&self) -> &[RecordValue] {
        match self {
            Self::Shared(row) => row,
            Self::Own(row) => row,
        }
    }

    /// Adds what another record of the same thing says.
    fn add(&mut self, other: &RecordRow) {
        let is_known = |at| self.values().get(at).is_some_and(RecordValue::is_present);
        let is_new = |(at, value): (usize, &RecordValue)| value.is_present() && !is_known(at);
        if !other.iter().enumerate().any(is_new) {
            return;
        }
        if let Self::Shared(row) = self {
            *self = Self::Own(row.to_vec());
        }
        let Self::Own(row) = self else { unreachable!("it is its own now") };
        if row.len() < other.len() {
            row.resize(other.len(), RecordValue::Absent);
        }
        for (known, new) in row.iter_mut().zip(&**other) {
            if !known.is_present() && new.is_present() {
                known.clone_from(new);
            }
        }
    }
}

impl MergedRecords {
    /// About how many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        let names: usize = self.fields.iter().map(|name| size_of::<String>() + name.len()).sum();
        let record = |record: &MergedRecord| {
            let values: usize = record.row.iter().map(RecordValue::bytes).sum();
            size_of::<MergedRecord>() + ROW_BYTES + values
        };
        names + self.records.iter().map(record).sum::<usize>()
    }

    /// The index of a field.
    pub fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field == name)
    }
}

impl MergedRecord {
    /// Says that it came from other answers too.
    pub(crate) fn add_sources(&mut self, sources: &Arc<[u32]>, unions: &mut SourceUnions) {
        self.sources = unions.of(&self.sources, sources);
    }
}

/// The last union of sources: many records in a row have the same.
#[derive(Default)]
pub(crate) struct SourceUnions(Option<[Arc<[u32]>; 3]>);

impl SourceUnions {
    fn of(&mut self, some: &Arc<[u32]>, others: &Arc<[u32]>) -> Arc<[u32]> {
        if let Some([of_some, of_others, union]) = &self.0
            && Arc::ptr_eq(of_some, some)
            && Arc::ptr_eq(of_others, others)
        {
            return Arc::clone(union);
        }
        let union: BTreeSet<u32> = some.iter().chain(&**others).copied().collect();
        let union: Arc<[u32]> = union.into_iter().collect();
        self.0 = Some([Arc::clone(some), Arc::clone(others), Arc::clone(&union)]);
        union
    }
}

/// A row whose values are at these columns.
fn moved(row: RecordRow, columns: &[usize]) -> RecordRow {
    if columns.iter().enumerate().all(|(at, column)| at == *column) {
        return row;
    }
    let width = columns.iter().take(row.len()).max().map_or(0, |last| last + 1);
    let mut moved = vec![RecordValue::Absent; width];
    for (value, column) in row.iter().zip(columns) {
        moved[*column] = value.clone();
    }
    moved.into()
}

/// What tells a record apart: its texts, each with its length. None if one is absent.
fn identity(row: &RecordRow, columns: &[usize]) -> Option<Box<[u8]>> {
    let mut key = Vec::with_capacity(64);
    for column in columns {
        let value = value_at(row, *column);
        if !value.is_present() {
            return None;
        }
        let text = value.text();
        key.extend_from_slice(&(text.len() as u64).to_le_bytes());
        key.extend_from_slice(text.as_bytes());
    }
    (!columns.is_empty()).then(|| key.into_boxed_slice())
}
