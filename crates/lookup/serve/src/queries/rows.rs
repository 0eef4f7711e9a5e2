//! The records of an answer, written as JSON once: pages are parts of it.

use std::collections::HashMap;
use std::ops::Range;

use lookup_core::pipe::PipeResult;
use lookup_core::records::{MergedRecords, to_json};
use serde_json::{Map, Value};

/// A row, as JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenRow<'r> {
    pub record: &'r str,
    /// A list of the names of the calls that it came from.
    pub from: &'r str,
}

/// Rows, each a JSON object, and the calls that each came from.
#[derive(Debug, Default)]
pub(crate) struct AnswerRows {
    /// One after the other.
    json: Vec<u8>,
    /// Where each row ends.
    ends: Vec<usize>,
    /// For each row, the index of its sources. Empty if all have the first ones.
    sources: Vec<u32>,
    /// Distinct lists of names, as JSON.
    names: Vec<String>,
}

impl AnswerRows {
    /// Of what the stages left. `names` are those of the calls that answered.
    pub fn of_result(result: &PipeResult, names: &[String]) -> Self {
        match result {
            PipeResult::Records(records) => Self::of_records(records, names),
            PipeResult::Aggregates(values) => {
                let values =
                    values.iter().map(|value| (value.of.to_string(), value.value.to_json()));
                let mut rows = Self::default();
                rows.push(&Value::Object(values.collect::<Map<_, _>>()), 0);
                rows.names.push(names_json(names.iter()));
                rows
            }
        }
    }

    /// Of records.
    pub fn of_records(records: &MergedRecords, names: &[String]) -> Self {
        let mut rows = Self::default();
        let mut known: HashMap<&[u32], u32> = HashMap::new();
        for record in &records.records {
            let at = *known.entry(&record.sources).or_insert_with(|| {
                let of = record.sources.iter().map(|source| &names[*source as usize]);
                rows.names.push(names_json(of));
                u32::try_from(rows.names.len() - 1).expect("rows are fewer")
            });
            rows.push(&to_json(&records.fields, &record.row), at);
        }
        // It is kept for long.
        rows.json.shrink_to_fit();
        rows.ends.shrink_to_fit();
        rows.sources.shrink_to_fit();
        rows
    }

    fn push(&mut self, row: &Value, sources: u32) {
        serde_json::to_writer(&mut self.json, row).expect("JSON can be written to memory");
        if sources > 0 && self.sources.is_empty() {
            self.sources = vec![0; self.ends.len()];
        }
        if sources > 0 || !self.sources.is_empty() {
            self.sources.push(sources);
        }
        self.ends.push(self.json.len());
    }

    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        let names: usize = self.names.iter().map(String::len).sum();
        let indexes = self.ends.len() * size_of::<usize>() + self.sources.len() * size_of::<u32>();
        self.json.len() + names + indexes
    }

    /// A row.
    pub fn row(&self, at: usize) -> WrittenRow<'_> {
        let range =
            Range { start: at.checked_sub(1).map_or(0, |at| self.ends[at]), end: self.ends[at] };
        let json = str::from_utf8(&self.json[range]).expect("JSON is UTF-8");
        let sources = self.sources.get(at).map_or(0, |sources| *sources as usize);
        WrittenRow { record: json, from: &self.names[sources] }
    }
}

fn names_json<'n>(names: impl Iterator<Item = &'n String>) -> String {
    Value::from(names.cloned().collect::<Vec<_>>()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_its_sources() {
        let names = ["a", "b"].map(str::to_owned);
        for of_rows in [&[0][..], &[0, 0, 0], &[0, 1], &[0, 0, 1, 0, 1]] {
            let mut rows = AnswerRows { names: names.to_vec(), ..AnswerRows::default() };
            for (at, sources) in of_rows.iter().enumerate() {
                rows.push(&Value::from(at), *sources);
            }
            for (at, sources) in of_rows.iter().enumerate() {
                let WrittenRow { record, from } = rows.row(at);
                assert_eq!((record, from), (&*at.to_string(), &*names[*sources as usize]));
            }
        }
    }
}
